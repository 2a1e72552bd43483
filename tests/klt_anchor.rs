//! Tracks held at their seeds: the alignment with a patch against known warps and against a slow reference.

use std::sync::Arc;

use nalgebra::Matrix3;
use trackweave::kernels::Pyramid;
use trackweave::kernels::klt_anchor::{AnchorParams, AnchorRecord, klt_anchor};
use trackweave::kernels::klt_patch::{PatchParams, PatchSums, chunks, klt_patch};
use trackweave::numerics::SplitMix64;
use trackweave::picture::GrayImage;

#[path = "support/klt_anchor_reference.rs"]
mod klt_anchor_reference;

const IDENTITY: [[f32; 2]; 2] = [[1.0, 0.0], [0.0, 1.0]];
const WINDOW_PX: usize = 15;
const PATCH: PatchParams = PatchParams { window_px: WINDOW_PX, min_eigen: 1e-6 };
const DEFAULTS: AnchorParams =
    AnchorParams { window_px: WINDOW_PX, max_iterations: 10, epsilon_px: 0.1, min_ncc: 0.8, seen_ncc: 0.95 };
/// Goes on until rounding is what is left.
const EXACT: AnchorParams = AnchorParams { max_iterations: 100, epsilon_px: 1e-4, ..DEFAULTS };

/// Where a point of the texture is seen, and how bright.
#[derive(Clone, Copy)]
struct View {
    linear: [[f64; 2]; 2],
    shift: [f64; 2],
    gain: f64,
    offset: f64,
}

const FRONT: View = View { linear: [[1.0, 0.0], [0.0, 1.0]], shift: [0.0; 2], gain: 1.0, offset: 0.0 };

impl View {
    fn turned(degrees: f64, zoom: f64) -> View {
        let (sin, cos) = degrees.to_radians().sin_cos();
        View { linear: [[zoom * cos, -zoom * sin], [zoom * sin, zoom * cos]], ..FRONT }
    }

    fn see(&self, [x, y]: [f64; 2]) -> [f64; 2] {
        let [[a, b], [c, d]] = self.linear;
        [a * x + b * y + self.shift[0], c * x + d * y + self.shift[1]]
    }

    /// A picture of waves of 7 to 20 px in all directions, seen this way.
    fn picture(&self, width: usize, height: usize) -> GrayImage {
        let mut rng = SplitMix64::new(11, 0);
        let waves: Vec<[f64; 3]> = (0..24)
            .map(|_| {
                let (angle, length, phase) = (rng.unit() * 6.3, 7.0 + 13.0 * rng.unit(), rng.unit() * 6.3);
                let (sin, cos) = angle.sin_cos();
                [6.3 / length * cos, 6.3 / length * sin, phase]
            })
            .collect();
        let back = Matrix3::from(FRONT.matrix() * self.matrix()).try_inverse().expect("a view");
        let mut image = GrayImage::new(width, height);
        for (i, value) in image.data.iter_mut().enumerate() {
            let seen = back * nalgebra::Vector3::new((i % width) as f64, (i / width) as f64, 1.0);
            let wave = |[x, y, phase]: &[f64; 3]| (x * seen.x + y * seen.y + phase).sin();
            let gray = 0.5 + 0.05 * waves.iter().map(wave).sum::<f64>();
            *value = (self.gain * gray + self.offset) as f32;
        }
        image
    }

    fn matrix(&self) -> Matrix3<f64> {
        let ([[a, b], [c, d]], [x, y]) = (self.linear, self.shift);
        Matrix3::new(a, b, x, c, d, y, 0.0, 0.0, 1.0)
    }
}

fn pyramid(image: GrayImage) -> Pyramid {
    let mut pyramid = Pyramid::default();
    pyramid.rebuild(&Arc::new(image), 1, &mut Vec::new());
    pyramid
}

/// The patches about `seeds` of a picture.
fn patches(image: GrayImage, seeds: &[[f32; 2]]) -> (Vec<PatchSums>, Vec<[f32; 16]>) {
    let mut sums = vec![PatchSums::default(); seeds.len()];
    let mut samples = vec![[0.0; 16]; seeds.len() * 3 * chunks(WINDOW_PX)];
    let seeds: Vec<_> = seeds.iter().copied().map(Some).collect();
    klt_patch(&pyramid(image).levels[0], &PATCH, &seeds, &mut sums, &mut samples);
    (sums, samples)
}

fn align(
    (sums, samples): &(Vec<PatchSums>, Vec<[f32; 16]>),
    target: &GrayImage,
    params: &AnchorParams,
    starts: &[AnchorRecord],
) -> Vec<AnchorRecord> {
    let mut out = vec![AnchorRecord::default(); starts.len()];
    klt_anchor(target, params, sums, samples, starts, &mut out);
    out
}

/// Points of a grid, each at another fraction of a pixel, `margin` from the border of a 160 x 120 picture.
fn grid(margin: f32) -> Vec<[f32; 2]> {
    let mut rng = SplitMix64::new(5, 0);
    let mut points = Vec::new();
    for row in 0..7 {
        for column in 0..9 {
            let x = margin + column as f32 / 8.0 * (158.0 - 2.0 * margin) + rng.unit() as f32;
            points.push([x, margin + row as f32 / 6.0 * (118.0 - 2.0 * margin) + rng.unit() as f32]);
        }
    }
    points
}

fn distance(record: &AnchorRecord, [x, y]: [f64; 2]) -> f64 {
    (record.x as f64 - x).hypot(record.y as f64 - y)
}

fn single([x, y]: [f64; 2]) -> [f32; 2] {
    [x as f32, y as f32]
}

fn double([x, y]: [f32; 2]) -> [f64; 2] {
    [x as f64, y as f64]
}

/// Starts `off` from where `view` shows the seeds, undeformed.
fn starts_beside(view: &View, seeds: &[[f32; 2]], off: [f64; 2]) -> Vec<AnchorRecord> {
    let start = |seed: &[f32; 2]| {
        let [x, y] = view.see(double(*seed));
        AnchorRecord::start(single([x + off[0], y + off[1]]), IDENTITY)
    };
    seeds.iter().map(start).collect()
}

#[test]
fn an_affine_map_with_gain_and_offset_is_recovered() {
    let seeds = grid(40.0);
    let patches = patches(FRONT.picture(160, 120), &seeds);
    let shear = View { linear: [[1.05, 0.12], [-0.06, 0.93]], shift: [2.3, -1.6], ..FRONT };
    let turned = View { shift: [12.4, -9.7], ..View::turned(8.0, 1.0) };
    let closer = View { shift: [-8.2, -7.1], ..View::turned(0.0, 1.12) };
    for view in [shear, turned, closer] {
        let view = View { gain: 0.6, offset: 0.25, ..view };
        let starts = starts_beside(&view, &seeds, [0.6, -0.5]);
        let target = view.picture(160, 120);
        for (seed, record) in seeds.iter().zip(align(&patches, &target, &DEFAULTS, &starts)) {
            let error = distance(&record, view.see(double(*seed)));
            assert!(record.is_taken() && error < 0.03, "{seed:?}: {record:?} is {error} px off");
            assert!(record.correlation > 0.99, "{record:?}");
            for (found, expected) in record.linear.as_flattened().iter().zip(view.linear.as_flattened()) {
                assert!((*found as f64 - expected).abs() < 0.012, "{:?}", record.linear);
            }
        }
    }
}

#[test]
fn a_patch_lies_where_it_was_read() {
    let (seeds, front) = (grid(12.0), FRONT.picture(160, 120));
    let patches = patches(front.clone(), &seeds);
    let starts = starts_beside(&FRONT, &seeds, [0.0, 0.0]);
    for (start, record) in starts.iter().zip(align(&patches, &front, &DEFAULTS, &starts)) {
        assert!(record.is_taken() && record.iterations() == 1, "{record:?}");
        assert!(distance(&record, double([start.x, start.y])) < 1e-3, "{start:?}: {record:?}");
        assert!(record.correlation > 0.999_99, "{record:?}");
    }
}

#[test]
fn a_patch_without_structure_is_no_anchor() {
    let flat = GrayImage { data: vec![0.5; 160 * 120], ..GrayImage::new(160, 120) };
    let mut edge = GrayImage::new(160, 120);
    let waves = (0..160 * 120).map(|i| 0.5 + 0.3 * ((i % 160) as f32 * 0.4).sin());
    edge.data = waves.collect();
    let seeds = [[40.3, 50.2], [80.0, 61.0]];
    let faint = View { gain: 2e-3, offset: 0.5, ..FRONT }.picture(160, 120);
    for image in [flat, edge, faint] {
        let patches = patches(image, &seeds);
        assert!(patches.0.iter().all(|sums| !sums.has_structure()), "{:?}", patches.0);
        let starts = starts_beside(&FRONT, &seeds, [0.3, 0.2]);
        assert_eq!(align(&patches, &FRONT.picture(160, 120), &DEFAULTS, &starts), starts);
    }
}

#[test]
fn what_is_not_taken_stays_where_it_was() {
    let seeds = grid(40.0);
    let patches = patches(FRONT.picture(160, 120), &seeds);
    let view = View { shift: [1.3, 0.9], ..FRONT };
    let (same, other) = (view.picture(160, 120), View::turned(180.0, 1.0).picture(160, 120));
    let flat = GrayImage { data: vec![0.5; 160 * 120], ..GrayImage::new(160, 120) };
    let beside = |off| starts_beside(&view, &seeds, off);
    let impatient = AnchorParams { max_iterations: 1, ..DEFAULTS };
    let strict = AnchorParams { min_ncc: 1.1, ..DEFAULTS };
    let mut far = beside([0.0, 0.0]);
    far.iter_mut().for_each(|start| start.linear = [[9.0, 0.0], [0.0, 9.0]]);
    let cases = [
        ("far", &same, DEFAULTS, beside([1.6, -1.6])),
        ("other", &other, DEFAULTS, beside([0.0, 0.0])),
        ("flat", &flat, DEFAULTS, beside([0.0, 0.0])),
        ("impatient", &same, impatient, beside([0.5, 0.5])),
        ("strict", &same, strict, beside([0.1, 0.1])),
        ("stretched", &same, DEFAULTS, far),
    ];
    for (name, target, params, starts) in cases {
        let refused = align(&patches, target, &params, &starts);
        let n_taken = refused.iter().filter(|record| record.is_taken()).count();
        assert_eq!(n_taken, 0, "{name}");
        for (start, record) in starts.iter().zip(&refused) {
            assert_eq!((start.x, start.y, start.linear), (record.x, record.y, record.linear), "{name}");
        }
    }
    let near = align(&patches, &same, &DEFAULTS, &beside([1.3, -1.3]));
    assert!(near.iter().all(|record| record.is_taken()));
}

#[test]
fn a_point_is_not_moved_out_of_the_picture() {
    let seeds: Vec<[f32; 2]> = (2..11).map(|i| [0.3, 10.0 * i as f32]).collect();
    let patches = patches(FRONT.picture(160, 120), &seeds);
    let taken = |right: f64| {
        let view = View { shift: [right, 0.0], ..FRONT };
        let starts: Vec<_> = seeds.iter().map(|&[_, y]| AnchorRecord::start([-0.4, y], IDENTITY)).collect();
        let aligned = align(&patches, &view.picture(160, 120), &DEFAULTS, &starts);
        aligned.iter().filter(|record| record.is_taken()).count()
    };
    assert_eq!((taken(-0.5), taken(-1.5)), (seeds.len(), 0));
}

#[test]
fn steps_settle_on_texture_finer_than_the_gradient_sees() {
    let mut rng = SplitMix64::new(23, 0);
    let mut noise = GrayImage::new(160, 120);
    noise.data.iter_mut().for_each(|value| *value = rng.unit() as f32);
    let seeds = grid(12.0);
    let patches = patches(noise.clone(), &seeds);
    let starts = starts_beside(&FRONT, &seeds, [0.3, -0.2]);
    for (seed, record) in seeds.iter().zip(align(&patches, &noise, &EXACT, &starts)) {
        assert!(record.is_taken() && distance(&record, double(*seed)) < 1e-3, "{seed:?}: {record:?}");
    }
}

#[test]
fn only_what_the_picture_shows_of_a_patch_counts() {
    let seeds = grid(12.0);
    let patches = patches(FRONT.picture(160, 120), &seeds);
    // All points of the left column come to lie 3 to 4 px from the border.
    let view = View { shift: [-9.0, 0.0], ..View::turned(0.0, 1.0) };
    let starts = starts_beside(&view, &seeds, [0.4, 0.3]);
    let patient = AnchorParams { max_iterations: 50, epsilon_px: 0.01, ..DEFAULTS };
    let records = align(&patches, &view.picture(160, 120), &patient, &starts);
    for (seed, record) in seeds.iter().zip(&records) {
        let error = distance(record, view.see(double(*seed)));
        assert!(record.is_taken() && error < 0.1, "{seed:?}: {record:?} is {error} px off");
    }
    assert!(records.iter().filter(|record| record.x < 5.0).count() >= 7);
}

#[test]
fn the_kernel_finds_what_the_reference_finds() {
    // Some come to lie where the picture ends.
    let seeds = grid(20.0);
    let front = FRONT.picture(160, 120);
    let patches = patches(front.clone(), &seeds);
    let mut n_compared = 0;
    for (k, view) in [
        View { shift: [14.2, -5.9], gain: 1.3, ..View::turned(6.0, 0.94) },
        View { linear: [[0.92, -0.08], [0.11, 1.06]], shift: [-16.0, -24.5], gain: 0.8, offset: 0.1 },
    ]
    .into_iter()
    .enumerate()
    {
        // Noise, so that no warp fits exactly.
        let mut target = view.picture(160, 120);
        let mut rng = SplitMix64::new(17, k as u64);
        target.data.iter_mut().for_each(|value| *value += 0.04 * (rng.unit() as f32 - 0.5));
        let starts = starts_beside(&view, &seeds, [0.5, -0.4]);
        let reference = klt_anchor_reference::Patch { window_px: 15, max_iterations: 100, epsilon_px: 1e-4 };
        for ((seed, start), record) in
            seeds.iter().zip(&starts).zip(align(&patches, &target, &EXACT, &starts))
        {
            let [x, y] = double([start.x, start.y]);
            let begin = Matrix3::new(1.0, 0.0, x, 0.0, 1.0, y, 0.0, 0.0, 1.0);
            let Some(warp) = klt_anchor_reference::align(&reference, &front, double(*seed), &target, begin)
            else {
                continue;
            };
            if !record.is_taken() {
                continue;
            }
            n_compared += 1;
            let error = distance(&record, [warp[(0, 2)], warp[(1, 2)]]);
            assert!(error < 1e-3, "{seed:?} at ({}, {}), the reference at {warp}", record.x, record.y);
            for (found, (row, column)) in
                record.linear.as_flattened().iter().zip([(0, 0), (0, 1), (1, 0), (1, 1)])
            {
                assert!((*found as f64 - warp[(row, column)]).abs() < 3e-4, "{:?} {warp}", record.linear);
            }
        }
    }
    assert!(n_compared > 100, "{n_compared} compared");
}

#[test]
fn threads_change_no_bit() {
    let seeds = grid(12.0);
    let view = View { shift: [3.3, 4.4], ..View::turned(3.0, 0.97) };
    let (front, target) = (FRONT.picture(160, 120), view.picture(160, 120));
    let starts = starts_beside(&view, &seeds, [0.5, 0.2]);
    let with = |n_threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(n_threads).build().expect("a pool");
        pool.install(|| align(&patches(front.clone(), &seeds), &target, &DEFAULTS, &starts))
    };
    let alone = with(1);
    assert!(alone.iter().any(|record| record.is_taken()));
    assert_eq!(bytemuck::cast_slice::<_, u32>(&alone), bytemuck::cast_slice::<_, u32>(&with(4)));
}
