//! SIFT: doubling, blurs, extrema and their refinement.

use image::RgbImage;
use libtest_mimic::Failed;
use trackweave::device::{AdapterKind, AnyBuffer, Gpu};
use trackweave::kernels::descriptor::OrientedPoint;
use trackweave::kernels::dog;
use trackweave::kernels::extrema::{self, Candidate, ExtremaParams};
use trackweave::kernels::gaussian_blur::{self, BlurJob, GaussianTaps, MAX_RADIUS};
use trackweave::kernels::orientation::MAX_ORIENTATIONS;
use trackweave::kernels::orientation_select::{self, OrientationSelectParams};
use trackweave::kernels::refine::{self, RefineLimits, RefineParams, RefinedPoint};
use trackweave::kernels::sift_point::{MAX_OCTAVES, OctaveShape};
use trackweave::kernels::strength::{BINS, CELLS, StrengthGrid};
use trackweave::kernels::strongest::{self, StrongestParams};
use trackweave::kernels::upsample::{self, UpsampleParams};
use trackweave::numerics::SplitMix64;

use crate::Outcome;
use crate::comparison::{Cpu, Dev, compare, compare_bits, compare_equal};
use crate::support::gray_from_rgb;

/// Values before what a kernel writes, and behind it: they must stay.
const RIM: usize = 5;
const MARK: f32 = -7.0;

pub fn upsample(gpu: &Gpu, picture: &RgbImage) -> Outcome {
    let gray = gray_from_rgb(picture);
    let (width, height, n) = (gray.width, gray.height, gray.data.len());
    let mut doubled = vec![0.0; 4 * n];
    upsample::upsample(&gray.data, width, height, 0, &mut doubled);
    let rim = [MARK; RIM];
    let before = [&rim[..], &gray.data, &rim, &vec![0.0; 4 * n], &rim].concat();
    let layers = gpu.buffer_with("layers", &before)?;
    let [source, begin] = [RIM, 2 * RIM + n].map(|at| at as u32);
    let params = UpsampleParams { source, doubled: begin, width: width as u32, height: height as u32 };
    let bound = gpu.kernel(&upsample::SHADER, &[])?.bind(&params, &[&layers])?;
    let mut recording = gpu.record("upsample");
    recording.dispatch(&bound, upsample::SHADER.groups([width, height, 1]));
    recording.submit()?.wait()?;
    let expected = [&rim[..], &gray.data, &rim, &doubled, &rim].concat();
    compare_bits("layers", Dev(&gpu.download(&layers)?), Cpu(&expected))
}

fn blurred(source: &[f32], width: usize, height: usize, taps: &GaussianTaps) -> Vec<f32> {
    let mut target = vec![0.0; source.len()];
    let mut row = vec![0.0; width + 2 * MAX_RADIUS];
    gaussian_blur::gaussian_blur(source, width, height, taps, 0, &mut row, &mut target);
    target
}

/// Every second pixel of every second row.
fn halved(layer: &[f32], width: usize) -> Vec<f32> {
    let rows = layer.chunks_exact(width).step_by(2);
    rows.flat_map(|row| row.iter().step_by(2).copied()).collect()
}

/// Two layers of different size and radius in one dispatch, one of them with its half; then one alone.
pub fn gaussian_blur(gpu: &Gpu, picture: &RgbImage) -> Outcome {
    let gray = gray_from_rgb(picture);
    let (width, height) = (gray.width, gray.height);
    let (half_width, half_height) = (width.div_ceil(2), height.div_ceil(2));
    for sigmas in [[0.4, 3.1], [8.0, 1.2]] {
        let [first, second] = sigmas.map(GaussianTaps::new);
        let coarser = blurred(&gray.data, width, height, &first);
        let small = halved(&gray.data, width);
        let small_coarser = blurred(&small, half_width, half_height, &second);
        let rim = [MARK; RIM];
        let parts = [&gray.data, &coarser, &halved(&coarser, width), &small, &small_coarser];
        let expected: Vec<f32> = parts.iter().flat_map(|part| [&part[..], &rim].concat()).collect();
        let begins: Vec<usize> =
            (0..5).map(|part| parts[..part].iter().map(|part| part.len() + RIM).sum()).collect();
        let mut before = expected.clone();
        for made in [1, 2, 4] {
            before[begins[made]..][..parts[made].len()].fill(0.0);
        }
        let layers = gpu.buffer_with("layers", &before)?;
        let size = [width, height];
        let half_size = [half_width, half_height];
        let jobs = [
            BlurJob { size, layers: [begins[0], begins[1]], halved: Some(begins[2]), taps: first },
            BlurJob { size: half_size, layers: [begins[3], begins[4]], halved: None, taps: second },
        ];
        for jobs in [&jobs[..], &jobs[1..]] {
            gpu.write(&layers, begins[4], &vec![0.0; small.len()]);
            let (bound, groups) = gaussian_blur::bind(gpu, jobs, &layers)?;
            let mut recording = gpu.record("gaussian_blur");
            recording.dispatch(&bound, groups);
            recording.submit()?.wait()?;
            compare(gpu, "layers", Dev(&gpu.download(&layers)?), Cpu(&expected), 1e-6)?;
        }
    }
    Ok(())
}

/// Gaussian layers of two octaves, the second half as large, with their DoG layers.
struct Layers {
    shapes: [OctaveShape; MAX_OCTAVES],
    gaussians: Vec<f32>,
    dogs: [Vec<f32>; 2],
}

const N_DOGS: usize = 5;
const THRESHOLD: f32 = 0.0004;
const LIMITS: RefineLimits = RefineLimits { min_contrast: 0.0005, edge_ratio: 10.0 };

impl Layers {
    fn new(picture: &RgbImage) -> Layers {
        let gray = gray_from_rgb(picture);
        let mut layers =
            Layers { shapes: Default::default(), gaussians: vec![MARK; RIM], dogs: [Vec::new(), Vec::new()] };
        let (mut width, mut height, mut layer) = (gray.width, gray.height, gray.data);
        for octave in 0..2 {
            let begin = layers.gaussians.len() as u32;
            layers.shapes[octave] =
                OctaveShape { begin, width: width as u32, height: height as u32, first_row: 0 };
            layers.gaussians.extend(&layer);
            for l in 0..N_DOGS {
                let coarser = blurred(&layer, width, height, &GaussianTaps::new(1.2 + 0.4 * l as f64));
                let mut difference = vec![0.0; layer.len()];
                dog::dog(&layer, &coarser, &mut difference);
                layers.dogs[octave].extend(difference);
                layers.gaussians.extend(&coarser);
                layer = coarser;
            }
            layer = halved(&layer, width);
            (width, height) = (width.div_ceil(2), height.div_ceil(2));
        }
        layers
    }

    fn size(&self, octave: usize) -> (usize, usize) {
        (self.shapes[octave].width as usize, self.shapes[octave].height as usize)
    }

    fn grid(&self) -> StrengthGrid {
        StrengthGrid::new(self.size(0), 1.0, LIMITS.min_contrast)
    }

    /// What the twin finds, in the order of candidates.
    fn candidates(&self) -> Vec<Candidate> {
        let mut candidates = Vec::new();
        for octave in 0..2 {
            let (width, height) = self.size(octave);
            for layer in 1..N_DOGS - 1 {
                let mut found = Vec::new();
                let dogs = &self.dogs[octave];
                extrema::extrema(dogs, width, height, layer, 0..height, THRESHOLD, &mut found);
                let octave = octave as u32;
                candidates.extend(found.iter().map(|&[x, y, layer]| Candidate { octave, x, y, layer }));
            }
        }
        candidates.sort_unstable();
        candidates
    }

    /// What the device finds with room for `capacity` of them, in the order of candidates, and how many it says there are.
    fn candidates_on_device(&self, gpu: &Gpu, capacity: usize) -> Result<(Vec<Candidate>, u32), Failed> {
        let gaussians = gpu.buffer_with("gaussians", &self.gaussians)?;
        let candidates = gpu.buffer::<Candidate>("candidates", capacity)?;
        let counts = gpu.buffer::<u32>("counts", 2)?;
        let params = ExtremaParams::new(self.shapes, 2, N_DOGS, THRESHOLD, capacity, 0..usize::MAX);
        let kernel = gpu.kernel(&extrema::SHADER, &[])?;
        let bound = kernel.bind(&params, &[&gaussians, &candidates, &counts])?;
        let mut recording = gpu.record("extrema");
        recording.dispatch(&bound, params.groups());
        recording.submit()?.wait()?;
        let n = gpu.download(&counts)?[0];
        let mut found = gpu.download(&candidates)?;
        found.truncate(n as usize);
        found.sort_unstable();
        Ok((found, n))
    }
}

pub fn extrema(gpu: &Gpu, picture: &RgbImage) -> Outcome {
    let layers = Layers::new(picture);
    let expected = layers.candidates();
    let n = expected.len();
    if picture.width() > 100 {
        let of_second = expected.iter().filter(|candidate| candidate.octave == 1).count();
        assert!(of_second > 20 && n > 200, "{n} candidates, {of_second} of them in the second octave");
    }
    let (found, n_found) = layers.candidates_on_device(gpu, n + 3)?;
    assert_eq!(n_found as usize, n);
    compare_equal("candidates", Dev(&found), Cpu(&expected))?;
    // Without room for all of them: as many as there is room for, each of them one, and all are counted.
    let (found, n_found) = layers.candidates_on_device(gpu, n.div_ceil(2))?;
    assert_eq!(n_found as usize, n);
    let is_one = |candidate: &Candidate| expected.binary_search(candidate).is_ok();
    assert!(found.len() == n.div_ceil(2).max(n.min(1)) && found[..n.div_ceil(2)].iter().all(is_one));
    Ok(())
}

pub fn refine(gpu: &Gpu, picture: &RgbImage) -> Outcome {
    let layers = Layers::new(picture);
    let starts = layers.candidates();
    let gaussians = gpu.buffer_with("gaussians", &layers.gaussians)?;
    let candidates = gpu.buffer_with("candidates", &[&starts[..], &starts].concat())?;
    // The second half of the candidates is not counted.
    let counts = gpu.buffer_with("counts", &[starts.len() as u32, 0])?;
    let points = gpu.buffer::<RefinedPoint>("points", starts.len())?;
    let grid = layers.grid();
    let strengths = gpu.buffer::<u32>("strengths", N_STRENGTHS)?;
    let params = RefineParams::new(layers.shapes, grid, N_DOGS, LIMITS, candidates.len());
    let kernel = gpu.kernel(&refine::SHADER, &[])?;
    let bound = kernel.bind(&params, &[&gaussians, &candidates, &counts, &points, &strengths])?;
    let mut recording = gpu.record("refine");
    recording.dispatch(&bound, params.groups());
    recording.submit()?.wait()?;
    let n_found = gpu.download(&counts)?[1] as usize;
    let found = sorted(gpu.download(&points)?[..n_found].to_vec());
    let expected = sorted(starts.iter().filter_map(|start| refined(&layers, start)).collect());
    if picture.width() > 100 {
        let n = expected.len();
        assert!(n > 100 && n < starts.len(), "{n} points of {} candidates", starts.len());
    }
    if gpu.adapter().kind == AdapterKind::Software {
        compare_equal("points", Dev(&found), Cpu(&expected))?;
        let stay = |start: &&Candidate| refined(&layers, start).is_some_and(|point| is_at(&point, start));
        let unmoved: Vec<RefinedPoint> =
            starts.iter().filter(stay).filter_map(|start| refined(&layers, start)).collect();
        let expected = strengths_of(&unmoved, &grid);
        return compare_equal("strengths", Dev(&gpu.download(&strengths)?), Cpu(&expected));
    }
    same_points(&found, &expected)
}

fn refined(layers: &Layers, start: &Candidate) -> Option<RefinedPoint> {
    let octave = start.octave as usize;
    let ((width, height), place) = (layers.size(octave), [start.x, start.y, start.layer]);
    let point = refine::refine(&layers.dogs[octave], width, height, N_DOGS, place, LIMITS)?;
    let ([x, y, level], [column, row, layer]) = (point.position, point.pixel);
    Some(RefinedPoint { octave: start.octave, layer, x, y, level, value: point.value, column, row })
}

fn is_at(point: &RefinedPoint, start: &Candidate) -> bool {
    [point.column, point.row, point.layer] == [start.x, start.y, start.layer]
}

const N_STRENGTHS: usize = CELLS * CELLS * BINS;

fn strengths_of(points: &[RefinedPoint], grid: &StrengthGrid) -> Vec<u32> {
    let mut strengths = vec![0; N_STRENGTHS];
    for point in points {
        strengths[BINS * grid.cell(point.octave, [point.x, point.y]) + grid.bin(point.value)] += 1;
    }
    strengths
}

/// Points all over the picture, many on the borders of cells, of two octaves, some counted and some not.
pub fn strongest(gpu: &Gpu, picture: &RgbImage) -> Outcome {
    let size = (picture.width() as usize, picture.height() as usize);
    let grid = StrengthGrid::new(size, 0.5, 0.01);
    let n = 10 * (size.0 + size.1);
    let mut rng = SplitMix64::new(8, n as u64);
    let mut point = |index: usize| {
        let octave = rng.below(2);
        let step = 0.5 * (1 << octave) as f32;
        let mut along = |size: usize| match rng.below(4) {
            0 => (rng.below(9) as f32 * size as f32 / 8.0 - 0.5).max(0.0) / step,
            _ => (size as f64 * rng.unit()) as f32 / step,
        };
        let (x, y) = (along(size.0), along(size.1));
        let value =
            (0.01 + 0.8 * rng.unit().powi(3)) as f32 * if index.is_multiple_of(2) { 1.0 } else { -1.0 };
        RefinedPoint { octave, layer: 1, x, y, level: 1.0, value, column: index as u32, row: 0 }
    };
    let points: Vec<RefinedPoint> = (0..n).map(&mut point).collect();
    let counted: Vec<RefinedPoint> =
        points.iter().step_by(3).chain(points.iter().skip(1).step_by(3)).copied().collect();
    let strengths = strengths_of(&counted, &grid);
    let by_column = |mut points: Vec<RefinedPoint>| {
        points.sort_by_key(|point| point.column);
        points
    };
    for (most, most_of_cell) in [(n / 10, n / 500), (n / 2, 0), (1, 1), (0, 3), (n, n)] {
        let points_on_gpu = gpu.buffer_with("points", &points)?;
        let strengths_on_gpu = gpu.buffer_with("strengths", &strengths)?;
        // What lies behind the points that are counted is none.
        let counts = gpu.buffer_with("counts", &[0, n as u32 - 1, 0])?;
        let kept = gpu.buffer::<RefinedPoint>("strongest", n)?;
        let params = StrongestParams::new(grid, most, most_of_cell, n);
        let kernel = gpu.kernel(&strongest::SHADER, &[])?;
        let bound = kernel.bind(&params, &[&points_on_gpu, &strengths_on_gpu, &counts, &kept])?;
        let mut recording = gpu.record("strongest");
        recording.dispatch(&bound, params.groups());
        recording.submit()?.wait()?;
        let n_kept = gpu.download(&counts)?[2] as usize;
        let found = by_column(gpu.download(&kept)?[..n_kept].to_vec());
        let expected = strongest::strongest(&points[..n - 1], &strengths, &grid, most, most_of_cell);
        compare_equal("strongest", Dev(&found), Cpu(&expected))?;
        let is_cut = n_kept + 1 < n;
        assert!(n_kept >= most.min(n - 1) && is_cut == (most < n), "{n_kept} of {n}, {most} asked for");
    }
    Ok(())
}

fn sorted(mut points: Vec<RefinedPoint>) -> Vec<RefinedPoint> {
    points.sort_by_key(|point| (point.octave, point.layer, point.row, point.column));
    points
}

/// Nearly all points have one of the twin at their pixel, within a hundredth of a pixel and of a layer.
fn same_points(found: &[RefinedPoint], expected: &[RefinedPoint]) -> Outcome {
    let place = |point: &RefinedPoint| (point.octave, point.layer, point.row, point.column);
    let is_close = |a: &RefinedPoint, b: &RefinedPoint| {
        (a.x - b.x).hypot(a.y - b.y) < 0.01 && (a.level - b.level).abs() < 0.01
    };
    let has_one = |point: &&RefinedPoint| {
        let twin = expected.binary_search_by_key(&place(point), place);
        twin.is_ok_and(|index| is_close(point, &expected[index]))
    };
    let n_same = found.iter().filter(has_one).count();
    let n = found.len().max(expected.len());
    if n - n_same > n / 100 {
        return Err(format!("{n_same} of {n} points are the twin's").into());
    }
    Ok(())
}

/// As many points as the picture has rows and columns, ranked by chance, with none to four orientations each.
pub fn orientation_select(gpu: &Gpu, picture: &RgbImage) -> Outcome {
    let n = (picture.width() + picture.height()) as usize;
    let mut rng = SplitMix64::new(5, n as u64);
    let mut ranks: Vec<u32> = (0..n as u32).collect();
    for i in (1..n).rev() {
        ranks.swap(i, rng.below(i as u32 + 1) as usize);
    }
    let counts: Vec<u32> = (0..n).map(|_| rng.below(MAX_ORIENTATIONS as u32 + 1)).collect();
    let angles: Vec<[f32; MAX_ORIENTATIONS]> = (0..n).map(|_| [(); 4].map(|()| rng.unit() as f32)).collect();
    let all: u32 = counts.iter().sum();
    for limit in [all, all / 2, 1] {
        let ranks_on_gpu = gpu.buffer_with("ranks", &ranks)?;
        let angles_on_gpu = gpu.buffer_with("angles", angles.as_flattened())?;
        let counts_on_gpu = gpu.buffer_with("counts", &counts)?;
        let kept = gpu.buffer::<u32>("kept", n)?;
        let oriented = gpu.buffer::<OrientedPoint>("oriented", limit as usize)?;
        let n_oriented = gpu.buffer::<u32>("n_oriented", 1)?;
        let params = OrientationSelectParams { n_points: n as u32, limit };
        let buffers: [&dyn AnyBuffer; 6] =
            [&ranks_on_gpu, &angles_on_gpu, &counts_on_gpu, &kept, &oriented, &n_oriented];
        let bound = gpu.kernel(&orientation_select::SHADER, &[])?.bind(&params, &buffers)?;
        let mut recording = gpu.record("orientation_select");
        recording.dispatch(&bound, [1, 1, 1]);
        recording.submit()?.wait()?;
        let expected = orientation_select::orientation_select(&ranks, &angles, &counts, limit);
        let n_found = gpu.download(&n_oriented)?[0] as usize;
        let found = &gpu.download(&oriented)?[..n_found];
        compare_equal("oriented", Dev(found), Cpu(&expected))?;
    }
    Ok(())
}
