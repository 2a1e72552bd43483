//! Times the shaders on a GPU, or on the adapter that is named: `cargo bench --bench kernels [-- REPEATS [ADAPTER]]`.
//!
//! Wall times go from the upload to the readback, everything recorded anew; device times are those of a timed recording,
//! whose passes cannot overlap.

use std::error::Error;
use std::time::Instant;

use hdrhistogram::Histogram;
use trackweave::device::{AnyBuffer, Bound, Buffer, Gpu, KernelSource, Readback, Recording};
use trackweave::kernels::descriptor::{self, DescriptorParams, OrientedPoint};
use trackweave::kernels::eigen_map::{self, EigenMapParams};
use trackweave::kernels::eigen_max::{self, EigenMaxParams};
use trackweave::kernels::gray_luma::{self, GrayLumaParams};
use trackweave::kernels::klt_compact::{self, KltCompactParams};
use trackweave::kernels::klt_occupancy::{self, Grid, KltOccupancyParams};
use trackweave::kernels::klt_select::{self, KltSelectParams, Pick};
use trackweave::kernels::klt_suppress::{self, KltSuppressParams};
use trackweave::kernels::orientation::{self, OrientationParams};
use trackweave::kernels::pyramid_down::{self, PyramidDownParams, PyramidShape};
use trackweave::kernels::scan::{self, ScanParams};
use trackweave::kernels::scharr::{self, ScharrParams};
use trackweave::kernels::sift_point::{OctaveShape, SiftPoint};
use trackweave::klt::SelectedPoint;
use trackweave::numerics::SplitMix64;
use trackweave::picture::area::AreaTaps;

const N_TRACKS: usize = 1024;
const N_KEYPOINTS: usize = 4096;
const WARM_UP: usize = 20;

fn main() -> Result<(), Box<dyn Error>> {
    // Cargo passes `--bench` too.
    let mut words = std::env::args().skip(1).filter(|word| !word.starts_with("--"));
    let repeats = words.next().map_or(Ok(200), |word| word.parse())?;
    let gpu = Gpu::open(words.next().as_deref())?;
    println!("{}, {}; {repeats} repeats, ms\n", gpu.adapter(), gpu.adapter().driver);
    println!("| picture | what | dispatches | wall median | p90 | device median |");
    println!("|---|---|---:|---:|---:|---:|");
    for (width, height, levels) in [(640, 360, 5), (1280, 720, 6)] {
        let name = format!("{width} x {height}");
        let nothing = Chain::new(&gpu, 4)?;
        nothing.time(&gpu, &name, "readback alone", repeats)?;
        for most in [1, 2, 3] {
            let what = format!("gray and pyramid, up to {most} levels a dispatch");
            pyramid_chain(&gpu, width, height, levels, most)?.time(&gpu, &name, &what, repeats)?;
        }
        selection_chain(&gpu, width, height)?.time(&gpu, &name, "selection", repeats)?;
        let what = format!("{N_KEYPOINTS} orientations and descriptors");
        keypoint_chain(&gpu, width, height)?.time(&gpu, &name, &what, repeats)?;
    }
    Ok(())
}

/// Dispatches one after the other between an upload and a readback.
struct Chain {
    upload: Option<(Buffer<u8>, Vec<u8>)>,
    links: Vec<(Bound, [u32; 3])>,
    result: Buffer<f32>,
    readback: Readback<f32>,
}

impl Chain {
    fn new(gpu: &Gpu, n_result: usize) -> Result<Chain, Box<dyn Error>> {
        let result = gpu.buffer("result", n_result)?;
        let readback = gpu.readback("result", 4096.min(n_result))?;
        Ok(Chain { upload: None, links: Vec::new(), result, readback })
    }

    fn link<P: bytemuck::Pod>(
        &mut self,
        gpu: &Gpu,
        shader: &'static KernelSource,
        params: &P,
        buffers: &[&dyn AnyBuffer],
        groups: [u32; 3],
    ) -> Result<(), Box<dyn Error>> {
        self.links.push((gpu.kernel(shader, &[])?.bind(params, buffers)?, groups));
        Ok(())
    }

    fn record(&self, gpu: &Gpu, recording: &mut Recording) {
        if let Some((buffer, bytes)) = &self.upload {
            gpu.write(buffer, 0, bytes);
        }
        for (bound, groups) in &self.links {
            recording.pass(bound.source().name).dispatch(bound, *groups);
        }
        recording.read(&self.result, 0..self.readback.len(), &self.readback);
    }

    fn time(&self, gpu: &Gpu, picture: &str, what: &str, repeats: usize) -> Result<(), Box<dyn Error>> {
        let mut wall = Histogram::<u64>::new(3)?;
        for repeat in 0..WARM_UP + repeats {
            let begin = Instant::now();
            let mut recording = gpu.record("bench");
            self.record(gpu, &mut recording);
            recording.submit()?.wait()?;
            self.readback.take()?;
            if repeat >= WARM_UP {
                wall.record(begin.elapsed().as_nanos() as u64)?;
            }
        }
        let [median, p90] = [0.5, 0.9].map(|quantile| wall.value_at_quantile(quantile) as f64 / 1e6);
        let passes = self.passes(gpu, repeats)?;
        let sum = passes.iter().fold(0.0, |sum, (_, ms)| sum + ms);
        let n = self.links.len();
        println!("| {picture} | {what} | {n} | {median:.3} | {p90:.3} | {sum:.4} |");
        for (pass, ms) in passes {
            println!("| | - {pass} | | | | {ms:.4} |");
        }
        Ok(())
    }

    /// Median device time of each link.
    fn passes(&self, gpu: &Gpu, repeats: usize) -> Result<Vec<(&'static str, f64)>, Box<dyn Error>> {
        let mut times: Vec<(&'static str, Vec<f64>)> = Vec::new();
        for _ in 0..repeats {
            let mut recording = gpu.record_timed("bench")?;
            self.record(gpu, &mut recording);
            let passes = recording.submit()?.wait()?;
            self.readback.take()?;
            times.resize_with(passes.len(), Default::default);
            for ((name, times), pass) in times.iter_mut().zip(passes) {
                *name = pass.name;
                times.push(pass.ms);
            }
        }
        let median = |mut times: Vec<f64>| {
            times.sort_by(f64::total_cmp);
            times[times.len() / 2]
        };
        Ok(times.into_iter().map(|(name, times)| (name, median(times))).collect())
    }
}

fn noise(n: usize) -> Vec<u8> {
    let mut rng = SplitMix64::new(1, n as u64);
    (0..n).map(|_| rng.below(256) as u8).collect()
}

fn pyramid_chain(
    gpu: &Gpu,
    width: usize,
    height: usize,
    levels: usize,
    most: usize,
) -> Result<Chain, Box<dyn Error>> {
    let shape = PyramidShape::new(width, height, levels);
    let mut chain = Chain::new(gpu, shape.pixels())?;
    let luma = gpu.buffer::<u8>("luma", width * height)?;
    let [columns, rows] = [width, height].map(|n| AreaTaps::new(n, n, 1.0));
    let first = [gpu.buffer_with("taps", &columns.first)?, gpu.buffer_with("taps", &rows.first)?];
    let weights = [gpu.buffer_with("taps", &columns.weights)?, gpu.buffer_with("taps", &rows.weights)?];
    let params = GrayLumaParams {
        stride: width as u32,
        columns_per_pixel: 1,
        rows_per_pixel: 1,
        width: width as u32,
        height: height as u32,
        black: 16.0,
        white: 235.0,
    };
    let result = chain.result.clone();
    let buffers: [&dyn AnyBuffer; 6] = [&luma, &first[0], &weights[0], &first[1], &weights[1], &result];
    chain.link(gpu, &gray_luma::SHADER, &params, &buffers, gray_luma::SHADER.groups([width, height, 1]))?;
    for finest in (0..levels - 1).step_by(most) {
        let n_made = most.min(levels - 1 - finest);
        let coarsest = shape.0[finest + n_made];
        let params = PyramidDownParams { shape, finest: finest as u32, n_made: n_made as u32 };
        let groups = [coarsest.width.div_ceil(4), coarsest.height.div_ceil(4), 1];
        chain.link(gpu, &pyramid_down::SHADER, &params, &[&result], groups)?;
    }
    chain.upload = Some((luma, noise(width * height)));
    Ok(chain)
}

fn selection_chain(gpu: &Gpu, width: usize, height: usize) -> Result<Chain, Box<dyn Error>> {
    let (n, grid) = (width * height, Grid::new(width, height, 8.0));
    let [w, h, columns, rows] = [width, height, grid.columns, grid.rows].map(|n| n as u32);
    let shape = PyramidShape::new(width, height, 1);
    let gray: Vec<f32> = noise(n).into_iter().map(|byte| byte as f32 / 255.0).collect();
    let pyramid = gpu.buffer_with("pyramid", &gray)?;
    let [gx, gy] = ["gradient_x", "gradient_y"].map(|name| gpu.buffer::<f32>(name, n));
    let (gx, gy, eigen) = (gx?, gy?, gpu.buffer::<f32>("eigen", n)?);
    let alive: Vec<[f32; 2]> =
        (0..N_TRACKS).map(|i| [i * 37 % width, i * 91 % height].map(|at| at as f32)).collect();
    let alive = gpu.buffer_with("alive", &alive)?;
    let starts = gpu.buffer::<u32>("starts", grid.cells() + 1)?;
    let (tracks, unordered) =
        (gpu.buffer::<u32>("tracks", N_TRACKS)?, gpu.buffer::<u32>("unordered", N_TRACKS)?);
    let picks = gpu.buffer::<Pick>("picks", grid.cells())?;
    let kept = gpu.buffer::<u32>("kept", grid.cells())?;
    let sums = gpu.buffer::<u32>("sums", grid.cells() + 1)?;
    let points = gpu.buffer::<SelectedPoint>("points", grid.cells())?;
    let mut chain = Chain::new(gpu, 4)?;

    let params = ScharrParams { shape, n_levels: 1, n_pixels: n as u32 };
    chain.link(gpu, &scharr::SHADER, &params, &[&pyramid, &gx, &gy], scharr::SHADER.flat_groups(n))?;
    let params = EigenMapParams { width: w, height: h, margin: 7, begin: 0 };
    let groups = eigen_map::SHADER.groups([width, height, 1]);
    chain.link(gpu, &eigen_map::SHADER, &params, &[&gx, &gy, &eigen], groups)?;
    let mut largest = eigen.clone();
    while largest.len() > 1 {
        let strips = gpu.buffer::<f32>("strips", largest.len().div_ceil(eigen_max::STRIP))?;
        let params = EigenMaxParams::new(largest.len());
        let groups = [strips.len() as u32, 1, 1];
        chain.link(gpu, &eigen_max::SHADER, &params, &[&largest, &strips], groups)?;
        largest = strips;
    }
    let params = KltOccupancyParams { cell_px: 8, columns, rows, n_tracks: N_TRACKS as u32 };
    let buffers: [&dyn AnyBuffer; 4] = [&alive, &starts, &tracks, &unordered];
    chain.link(gpu, &klt_occupancy::SHADER, &params, &buffers, [1, 1, 1])?;
    let params = KltSelectParams { width: w, height: h, cell_px: 8, columns, quality_level: 0.01 };
    let buffers: [&dyn AnyBuffer; 4] = [&eigen, &largest, &starts, &picks];
    chain.link(gpu, &klt_select::SHADER, &params, &buffers, [columns, rows, 1])?;
    let params = KltSuppressParams { columns, rows, min_distance_px: 8.0 };
    let buffers: [&dyn AnyBuffer; 5] = [&alive, &starts, &tracks, &picks, &kept];
    let groups = klt_suppress::SHADER.groups([grid.columns, grid.rows, 1]);
    chain.link(gpu, &klt_suppress::SHADER, &params, &buffers, groups)?;
    let params = ScanParams { n_values: grid.cells() as u32 };
    chain.link(gpu, &scan::SHADER, &params, &[&kept, &sums], [1, 1, 1])?;
    let params = KltCompactParams { n_cells: grid.cells() as u32 };
    let groups = klt_compact::SHADER.flat_groups(grid.cells());
    chain.link(gpu, &klt_compact::SHADER, &params, &[&picks, &kept, &sums, &points], groups)?;
    Ok(chain)
}

/// Keypoints of a doubled picture's first octave: scales from 1.6 to 3.6 pixels, small ones more often, turned anyhow.
fn keypoint_chain(gpu: &Gpu, width: usize, height: usize) -> Result<Chain, Box<dyn Error>> {
    let (width, height) = (2 * width, 2 * height);
    let mut rng = SplitMix64::new(2, N_KEYPOINTS as u64);
    let mut unit = || rng.unit() as f32;
    let points: Vec<SiftPoint> = (0..N_KEYPOINTS)
        .map(|_| SiftPoint {
            octave: 0,
            layer: 0,
            x: unit() * width as f32,
            y: unit() * height as f32,
            scale: 1.6 * 2.25f32.powf(unit()),
            unused: [0; 3],
        })
        .collect();
    let oriented: Vec<OrientedPoint> =
        (0..N_KEYPOINTS).map(|i| OrientedPoint { point: i as u32, angle: 6.0 * unit() - 3.0 }).collect();
    // Waves of some pixels: neighbouring gradients are alike, as in pictures.
    let wave = |i: usize| ((i % width) as f32 * 0.31).sin() * ((i / width) as f32 * 0.23).cos();
    let layer: Vec<f32> = (0..width * height).map(|i| 0.5 + 0.4 * wave(i)).collect();
    let gaussians = gpu.buffer_with("gaussians", &layer)?;
    let points = gpu.buffer_with("points", &points)?;
    let oriented = gpu.buffer_with("oriented", &oriented)?;
    let angles = gpu.buffer::<[f32; 4]>("angles", N_KEYPOINTS)?;
    let counts = gpu.buffer::<u32>("counts", N_KEYPOINTS)?;
    let descriptors = gpu.buffer::<[u32; 32]>("descriptors", N_KEYPOINTS)?;
    let octaves = OctaveShape::table(&[(width, height)], 1);
    let mut chain = Chain::new(gpu, 4)?;
    let params = OrientationParams { octaves, n_points: N_KEYPOINTS as u32, max_orientations: 2 };
    let buffers: [&dyn AnyBuffer; 4] = [&points, &gaussians, &angles, &counts];
    chain.link(gpu, &orientation::SHADER, &params, &buffers, params.groups())?;
    let params = DescriptorParams::new(octaves, 3.0, N_KEYPOINTS);
    let buffers: [&dyn AnyBuffer; 4] = [&points, &oriented, &gaussians, &descriptors];
    chain.link(gpu, &descriptor::SHADER, &params, &buffers, params.groups())?;
    Ok(chain)
}
