//! The selection of points to track.

use image::RgbImage;
use libtest_mimic::Failed;
use trackweave::device::{AnyBuffer, Buffer, Gpu, KernelSource};
use trackweave::kernels::eigen_at::{self, EigenAtParams};
use trackweave::kernels::klt_compact::{self, KltCompactParams};
use trackweave::kernels::klt_occupancy::{self, Grid, KltOccupancyParams, Occupancy};
use trackweave::kernels::klt_select::{self, KltSelectParams, Pick};
use trackweave::kernels::klt_suppress::{self, KltSuppressParams};
use trackweave::kernels::scan::{self, ScanParams};
use trackweave::kernels::{eigen_map, eigen_max, scharr};
use trackweave::numerics::SplitMix64;

use crate::Outcome;
use crate::comparison::{Cpu, Dev, compare, compare_bits, compare_equal};
use crate::support::gray_from_rgb;

/// Gradients of level 0.
fn gradients(picture: &RgbImage) -> [Vec<f32>; 2] {
    let gray = gray_from_rgb(picture);
    let mut gradients = [vec![0.0; gray.data.len()], vec![0.0; gray.data.len()]];
    let [x, y] = &mut gradients;
    scharr::scharr(&gray.data, gray.width, x, y);
    gradients
}

pub fn eigen_map(gpu: &Gpu, picture: &RgbImage) -> Outcome {
    let (width, height) = (picture.width() as usize, picture.height() as usize);
    let [x, y] = gradients(picture);
    for (margin, begin) in [(1, 0), (7, 5)] {
        let mut expected = vec![f32::NAN; x.len()];
        eigen_map::eigen_map(&x, &y, width, margin, &mut expected);
        let eigen = gpu.buffer::<f32>("eigen", x.len())?;
        let (w, h, margin) = (width as u32, height as u32, margin as u32);
        let params = eigen_map::EigenMapParams { width: w, height: h, margin, begin: begin as u32 };
        let behind = |plane: &[f32]| [&vec![9.0; begin][..], plane].concat();
        let (x, y) = (behind(&x), behind(&y));
        let (x, y) = (gpu.buffer_with("gradient_x", &x)?, gpu.buffer_with("gradient_y", &y)?);
        let bound = gpu.kernel(&eigen_map::SHADER, &[])?.bind(&params, &[&x, &y, &eigen])?;
        let mut recording = gpu.record("eigen_map");
        recording.dispatch(&bound, eigen_map::SHADER.groups([width, height, 1]));
        recording.submit()?.wait()?;
        compare(gpu, "eigen", Dev(&gpu.download(&eigen)?), Cpu(&expected), 1e-6)?;
    }
    Ok(())
}

pub fn eigen_max(gpu: &Gpu, picture: &RgbImage) -> Outcome {
    let values = gray_from_rgb(picture).data;
    for place in [0, values.len() / 2, values.len() - 1] {
        let mut values = values.clone();
        values[place] = 2.0;
        let found = eigen_max_on_device(gpu, &values)?;
        compare_bits("strips", Dev(&found), Cpu(&[eigen_max::eigen_max(&values)]))?;
    }
    let found = eigen_max_on_device(gpu, &values)?;
    compare_bits("strips", Dev(&found), Cpu(&[eigen_max::eigen_max(&values)]))
}

fn eigen_max_on_device(gpu: &Gpu, values: &[f32]) -> Result<Vec<f32>, Failed> {
    let kernel = gpu.kernel(&eigen_max::SHADER, &[])?;
    let mut left = gpu.buffer_with("values", values)?;
    let mut recording = gpu.record("eigen_max");
    loop {
        let n_strips = left.len().div_ceil(eigen_max::STRIP);
        let strips = gpu.buffer::<f32>("strips", n_strips)?;
        let params = eigen_max::EigenMaxParams::new(left.len());
        recording.dispatch(&kernel.bind(&params, &[&left, &strips])?, [n_strips as u32, 1, 1]);
        left = strips;
        if n_strips == 1 {
            break;
        }
    }
    recording.submit()?.wait()?;
    Ok(gpu.download(&left)?)
}

pub fn eigen_at(gpu: &Gpu, picture: &RgbImage) -> Outcome {
    let gray = gray_from_rgb(picture);
    let mut rng = SplitMix64::new(8, gray.width as u64);
    let mut along = |size: usize| (rng.unit() * (size as f64 + 3.0) - 2.0) as f32;
    let mut points: Vec<[f32; 2]> = (0..257).map(|_| [along(gray.width), along(gray.height)]).collect();
    let (right, bottom) = (gray.width as f32 - 0.5, gray.height as f32 - 0.5);
    points.extend([[-0.5, -0.5], [right, 0.0], [0.0, bottom], [1e9, 0.0], [0.0, -1e9]]);
    let mut expected = vec![f32::NAN; points.len()];
    eigen_at::eigen_at(&gray.data, gray.width, &points, &mut expected);
    let eigen = gpu.buffer_with("eigen", &gray.data)?;
    let values = gpu.buffer_with("values", &vec![7.0; points.len()])?;
    let params = EigenAtParams::new((gray.width, gray.height), points.len());
    let buffers: [&dyn AnyBuffer; 3] = [&eigen, &gpu.buffer_with("points", &points)?, &values];
    run(gpu, &eigen_at::SHADER, &params, &buffers, eigen_at::SHADER.flat_groups(points.len()))?;
    compare_bits("values", Dev(&gpu.download(&values)?), Cpu(&expected))
}

/// Distances whose cells are smaller, larger and much larger than the smallest pictures.
const DISTANCES: [f32; 3] = [5.5, 8.0, 33.0];

/// A picture's map, tracks in and around it, and the cells: what the selection works on, made by the twins.
struct Scene {
    grid: Grid,
    distance: f32,
    eigen: Vec<f32>,
    alive: Vec<[f32; 2]>,
    occupancy: Occupancy,
    picks: Vec<Pick>,
    kept: Vec<bool>,
}

/// A share of the largest eigenvalue that a good part of the cells has.
const QUALITY: f32 = 0.01;

impl Scene {
    fn new(picture: &RgbImage, distance: f32) -> Scene {
        let (width, height) = (picture.width() as usize, picture.height() as usize);
        let [x, y] = gradients(picture);
        let mut eigen = vec![0.0; x.len()];
        eigen_map::eigen_map(&x, &y, width, 2, &mut eigen);
        // In steps, so that pixels and cells tie.
        let step = eigen_max::eigen_max(&eigen) / 64.0;
        eigen.iter_mut().for_each(|value| *value = if step > 0.0 { (*value / step).floor() } else { 0.0 });
        let grid = Grid::new(width, height, distance);
        let mut rng = SplitMix64::new(width as u64, height as u64);
        let n_tracks = (grid.cells() / 2).clamp(1, 1024);
        let mut place = |size: usize| (rng.unit() * (size as f64 + 6.0) - 3.0) as f32;
        let alive: Vec<[f32; 2]> = (0..n_tracks).map(|_| [place(width), place(height)]).collect();
        let mut occupancy = Occupancy::default();
        occupancy.resize(&grid, n_tracks);
        klt_occupancy::klt_occupancy(&grid, &alive, &mut occupancy);
        let mut picks = vec![Pick::NONE; grid.cells()];
        klt_select::klt_select(&grid, &eigen, &occupancy, QUALITY * eigen_max::eigen_max(&eigen), &mut picks);
        let mut kept = vec![false; grid.cells()];
        klt_suppress::klt_suppress(&grid, &alive, &occupancy, &picks, distance, &mut kept);
        Scene { grid, distance, eigen, alive, occupancy, picks, kept }
    }

    fn flags(&self) -> Vec<u32> {
        self.kept.iter().map(|&kept| kept as u32).collect()
    }
}

/// Runs one dispatch of `shader`.
fn run<P: bytemuck::Pod>(
    gpu: &Gpu,
    shader: &'static KernelSource,
    params: &P,
    buffers: &[&dyn AnyBuffer],
    groups: [u32; 3],
) -> Outcome {
    let bound = gpu.kernel(shader, &[])?.bind(params, buffers)?;
    let mut recording = gpu.record(shader.name);
    recording.dispatch(&bound, groups);
    recording.submit()?.wait()?;
    Ok(())
}

/// Runs `check` on scenes of all distances.
fn on_scenes(picture: &RgbImage, mut check: impl FnMut(Scene) -> Outcome) -> Outcome {
    DISTANCES.into_iter().try_for_each(|distance| check(Scene::new(picture, distance)))
}

pub fn klt_occupancy(gpu: &Gpu, picture: &RgbImage) -> Outcome {
    on_scenes(picture, |scene| {
        let (grid, n_tracks) = (scene.grid, scene.alive.len());
        let alive = gpu.buffer_with("alive", &scene.alive)?;
        // What an earlier frame left there does not count.
        let starts = gpu.buffer_with("starts", &vec![7u32; grid.cells() + 1])?;
        let [tracks, unordered] = [0, 1].map(|_| gpu.buffer::<u32>("tracks", n_tracks));
        let (tracks, unordered) = (tracks?, unordered?);
        let params = KltOccupancyParams {
            cell_px: grid.cell_px as u32,
            columns: grid.columns as u32,
            rows: grid.rows as u32,
            n_tracks: n_tracks as u32,
        };
        let buffers: [&dyn AnyBuffer; 4] = [&alive, &starts, &tracks, &unordered];
        run(gpu, &klt_occupancy::SHADER, &params, &buffers, [1, 1, 1])?;
        compare_equal("starts", Dev(&gpu.download(&starts)?), Cpu(&scene.occupancy.starts))?;
        compare_equal("tracks", Dev(&gpu.download(&tracks)?), Cpu(&scene.occupancy.tracks))
    })
}

pub fn klt_select(gpu: &Gpu, picture: &RgbImage) -> Outcome {
    on_scenes(picture, |scene| {
        let grid = scene.grid;
        let eigen = gpu.buffer_with("eigen", &scene.eigen)?;
        let largest = gpu.buffer_with("eigen_max", &[eigen_max::eigen_max(&scene.eigen)])?;
        let starts = gpu.buffer_with("starts", &scene.occupancy.starts)?;
        let picks = gpu.buffer::<Pick>("picks", grid.cells())?;
        let params = KltSelectParams {
            width: grid.width as u32,
            height: grid.height as u32,
            cell_px: grid.cell_px as u32,
            columns: grid.columns as u32,
            quality_level: QUALITY,
        };
        let buffers: [&dyn AnyBuffer; 4] = [&eigen, &largest, &starts, &picks];
        let groups = [grid.columns as u32, grid.rows as u32, 1];
        run(gpu, &klt_select::SHADER, &params, &buffers, groups)?;
        compare_equal("picks", Dev(&gpu.download(&picks)?), Cpu(&scene.picks))
    })
}

pub fn klt_suppress(gpu: &Gpu, picture: &RgbImage) -> Outcome {
    on_scenes(picture, |scene| {
        let grid = scene.grid;
        let alive = gpu.buffer_with("alive", &scene.alive)?;
        let starts = gpu.buffer_with("starts", &scene.occupancy.starts)?;
        let tracks = gpu.buffer_with("tracks", &scene.occupancy.tracks)?;
        let picks = gpu.buffer_with("picks", &scene.picks)?;
        let kept = gpu.buffer::<u32>("kept", grid.cells())?;
        let params = KltSuppressParams {
            columns: grid.columns as u32,
            rows: grid.rows as u32,
            min_distance_px: scene.distance,
        };
        let buffers: [&dyn AnyBuffer; 5] = [&alive, &starts, &tracks, &picks, &kept];
        let groups = klt_suppress::SHADER.groups([grid.columns, grid.rows, 1]);
        run(gpu, &klt_suppress::SHADER, &params, &buffers, groups)?;
        compare_equal("kept", Dev(&gpu.download(&kept)?), Cpu(&scene.flags()))
    })
}

pub fn scan(gpu: &Gpu, picture: &RgbImage) -> Outcome {
    on_scenes(picture, |scene| {
        let flags = scene.flags();
        let mut expected = vec![0; flags.len() + 1];
        scan::scan(&flags, &mut expected);
        let values = gpu.buffer_with("kept", &flags)?;
        let sums = gpu.buffer::<u32>("sums", flags.len() + 1)?;
        let params = ScanParams { n_values: flags.len() as u32 };
        run(gpu, &scan::SHADER, &params, &[&values, &sums], [1, 1, 1])?;
        compare_equal("sums", Dev(&gpu.download(&sums)?), Cpu(&expected))
    })
}

pub fn klt_compact(gpu: &Gpu, picture: &RgbImage) -> Outcome {
    on_scenes(picture, |scene| {
        let flags = scene.flags();
        let mut places = vec![0; flags.len() + 1];
        scan::scan(&flags, &mut places);
        let mut expected = Vec::new();
        klt_compact::klt_compact(&scene.picks, &scene.kept, &mut expected);
        let picks = gpu.buffer_with("picks", &scene.picks)?;
        let kept = gpu.buffer_with("kept", &flags)?;
        let sums = gpu.buffer_with("sums", &places)?;
        let points: Buffer<trackweave::klt::SelectedPoint> = gpu.buffer("points", flags.len())?;
        let params = KltCompactParams { n_cells: flags.len() as u32 };
        let groups = klt_compact::SHADER.flat_groups(flags.len());
        run(gpu, &klt_compact::SHADER, &params, &[&picks, &kept, &sums, &points], groups)?;
        let found = gpu.download(&points)?;
        assert_eq!(places[flags.len()] as usize, expected.len());
        compare_equal("points", Dev(&found[..expected.len()]), Cpu(&expected))
    })
}
