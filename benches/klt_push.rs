//! Times pushes of the tracker on a GPU, or on the adapter that is named, beside the twin:
//! `cargo bench --bench klt_push [-- REPEATS [ADAPTER]]`.
//!
//! Wall times go from the luma plane to the records in memory of the host. Device times are sums over the passes of a
//! timed recording.

use std::error::Error;
use std::sync::Arc;
use std::time::Instant;

use trackweave::device::Gpu;
use trackweave::kernels::klt_track::TrackRecord;
use trackweave::kernels::{Pyramid, gray_luma};
use trackweave::klt::{GpuTracker, KltOptions, LumaLayout, TrackScratch, track_points};
use trackweave::numerics::SplitMix64;
use trackweave::picture::GrayImage;
use trackweave::picture::area::AreaTaps;

#[path = "../tests/support/klt_scene.rs"]
mod klt_scene;

use klt_scene::{Warp, scene};

const WARM_UP: usize = 20;

fn main() -> Result<(), Box<dyn Error>> {
    // Cargo passes `--bench` too.
    let mut words = std::env::args().skip(1).filter(|word| !word.starts_with("--"));
    let repeats = words.next().map_or(Ok(300), |word| word.parse())?;
    let gpu = Gpu::open(words.next().as_deref())?;
    println!("{}, {}; medians of {repeats}, ms\n", gpu.adapter(), gpu.adapter().driver);
    println!(
        "| picture | levels | window | tracks | wall | device | gray | pyramid | gradients | tracks | alike | alive |"
    );
    println!("|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|");
    for (width, height, levels, window_px) in [(640, 360, 5, 15), (1280, 720, 6, 21)] {
        let options = KltOptions { levels, window_px, ..KltOptions::for_size(width, height) };
        let first = scene(width, height);
        let frames = [bytes(&first), bytes(&Warp::Shift(3.3, -2.4).apply(&first))];
        for n_tracks in [1024, 8192] {
            time(&gpu, &options, [width, height], &frames, n_tracks, repeats)?;
        }
    }
    Ok(())
}

fn bytes(gray: &GrayImage) -> Vec<u8> {
    gray.data.iter().map(|value| (255.0 * value).round() as u8).collect()
}

fn time(
    gpu: &Gpu,
    options: &KltOptions,
    [width, height]: [usize; 2],
    frames: &[Vec<u8>; 2],
    n_tracks: usize,
    repeats: usize,
) -> Result<(), Box<dyn Error>> {
    let [columns, rows] = [width, height].map(|n| AreaTaps::new(n, n, 1.0));
    let layout = LumaLayout { columns: &columns, rows: &rows, stride: width, full_range: true };
    let mut tracker = GpuTracker::new(gpu, options, layout, n_tracks)?;
    let mut rng = SplitMix64::new(1, n_tracks as u64);
    let mut along = |size: usize| 8.0 + (size as f64 - 16.0) * rng.unit();
    let starts: Vec<TrackRecord> =
        (0..n_tracks).map(|_| TrackRecord::start(along(width) as f32, along(height) as f32)).collect();
    tracker.push(&frames[0], &[])?;
    // From the first frame to the second, the way that is timed too: every second push.
    let found = tracker.push(&frames[1], &starts)?;
    let alike = alike(options, [width, height], layout, frames, &starts, &found);
    let alive = found.iter().filter(|record| record.is_alive()).count();
    let mut wall = Vec::new();
    for repeat in 0..WARM_UP + repeats {
        tracker.push(&frames[0], &[])?;
        let begin = Instant::now();
        tracker.push(&frames[1], &starts)?;
        if repeat >= WARM_UP {
            wall.push(begin.elapsed().as_secs_f64() * 1e3);
        }
    }
    let mut passes = [(); 4].map(|()| Vec::new());
    for _ in 0..repeats {
        tracker.push(&frames[0], &[])?;
        let (_, times) = tracker.push_timed(&frames[1], &starts)?;
        passes.iter_mut().zip(times).for_each(|(pass, time)| pass.push(time.ms));
    }
    let sums = (0..passes[0].len()).map(|i| passes.iter().map(|pass| pass[i]).sum()).collect();
    let [gray, pyramid, gradients, tracks] = passes.map(median);
    println!(
        "| {width} x {height} | {} | {} | {n_tracks} | {:.3} | {:.3} | {gray:.3} | {pyramid:.3} | {gradients:.3} | {tracks:.3} | {:.2} % | {alive} |",
        options.levels,
        options.window_px,
        median(wall),
        median(sums),
        100.0 * alike,
    );
    Ok(())
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Share of the records within 1e-3 pixels of the twin's, alive or ended as those, iterations within 1.
fn alike(
    options: &KltOptions,
    [width, height]: [usize; 2],
    layout: LumaLayout,
    frames: &[Vec<u8>; 2],
    starts: &[TrackRecord],
    found: &[TrackRecord],
) -> f64 {
    let pyramids = [0, 1].map(|i| {
        let mut gray = GrayImage::new(width, height);
        let mut scratch = vec![0.0; width];
        let (columns, rows) = (layout.columns, layout.rows);
        gray_luma::gray_luma(
            &frames[i],
            width,
            layout.full_range,
            columns,
            rows,
            &mut scratch,
            &mut gray.data,
        );
        let mut pyramid = Pyramid::default();
        pyramid.rebuild(&Arc::new(gray), options.levels as usize, &mut Vec::new());
        pyramid
    });
    let mut scratch = TrackScratch::default();
    let expected = track_points(&pyramids[0], &pyramids[1], options, starts, &mut scratch);
    let is_alike = |(a, b): &(&TrackRecord, &TrackRecord)| {
        (a.x - b.x).abs() <= 1e-3
            && (a.y - b.y).abs() <= 1e-3
            && a.reason() == b.reason()
            && a.iterations().abs_diff(b.iterations()) <= 1
    };
    found.iter().zip(expected).filter(is_alike).count() as f64 / starts.len() as f64
}
