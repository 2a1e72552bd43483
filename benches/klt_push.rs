//! Times pushes of the tracker on a GPU, or on the adapter that is named, beside the twin:
//! `cargo bench --bench klt_push [-- REPEATS [ADAPTER]]`.
//!
//! Wall times go from the luma plane to the records in memory of the host. Device times are sums over the passes of a
//! timed recording, in which the plane's conversion to gray is not. With anchors the tracks are no new ones.

use std::error::Error;
use std::sync::Arc;
use std::time::Instant;

use trackweave::device::{Device, Gpu};
use trackweave::gray::{Conversion, DeviceGray, Gray};
use trackweave::kernels::klt_track::TrackRecord;
use trackweave::klt::{CpuTracker, GpuTracker, KltOptions};
use trackweave::numerics::SplitMix64;
use trackweave::picture::{GrayImage, Picture};

#[path = "../tests/support/klt_scene.rs"]
mod klt_scene;

use klt_scene::{Warp, scene};

/// Pushes that are not timed; no more than those that are.
const WARM_UP: usize = 20;
const PASSES: [&str; 4] = ["pyramid", "gradients", "tracks", "anchors"];

fn main() -> Result<(), Box<dyn Error>> {
    // Cargo passes `--bench` too.
    let mut words = std::env::args().skip(1).filter(|word| !word.starts_with("--"));
    let repeats = words.next().map_or(Ok(300), |word| word.parse())?;
    let gpu = Gpu::open(words.next().as_deref())?;
    println!("{}, {}; medians of {repeats}, ms\n", gpu.adapter(), gpu.adapter().driver);
    println!(
        "| picture | levels | window | tracks | wall | device | {} | alike | alive |",
        PASSES.join(" | ")
    );
    println!("|---|{}", "---:|".repeat(7 + PASSES.len()));
    for (width, height, levels, window_px) in [(640, 360, 5, 15), (1280, 720, 6, 21)] {
        let options = KltOptions { levels, window_px, ..KltOptions::for_size(width, height) };
        let first = scene(width, height);
        let frames = [picture_of(&first), picture_of(&Warp::Shift(3.3, -2.4).apply(&first))];
        for n_tracks in [1024, 8192] {
            for anchor in [false, true] {
                let options = KltOptions { anchor, capacity: n_tracks as u32, ..options.clone() };
                time(&gpu, &options, &frames, n_tracks, repeats)?;
            }
        }
    }
    Ok(())
}

fn picture_of(gray: &GrayImage) -> Picture {
    let luma = gray.data.iter().map(|value| (255.0 * value).round() as u8).collect();
    Picture::gray(gray.width, gray.height, luma)
}

/// A tracker on the GPU and what brings its pictures there.
struct Pushed {
    conversion: Conversion,
    tracker: GpuTracker,
}

impl Pushed {
    fn gray(&mut self, picture: &Picture) -> Result<Arc<DeviceGray>, Box<dyn Error>> {
        match self.conversion.run(picture)? {
            Gray::Device(gray) => Ok(gray),
            Gray::Host(_) => Err("the gray is on the host".into()),
        }
    }

    fn push(
        &mut self,
        picture: &Picture,
        starts: &[TrackRecord],
    ) -> Result<Vec<TrackRecord>, Box<dyn Error>> {
        let gray = self.gray(picture)?;
        let ids: Vec<u32> = (0..starts.len() as u32).collect();
        Ok(self.tracker.push(&gray, &ids, starts)?)
    }
}

fn time(
    gpu: &Gpu,
    options: &KltOptions,
    frames: &[Picture; 2],
    n_tracks: usize,
    repeats: usize,
) -> Result<(), Box<dyn Error>> {
    let (width, height) = (frames[0].width, frames[0].height);
    let mut pushed = Pushed {
        conversion: Conversion::new(&Device::Gpu(gpu.clone()), &frames[0], (width, height))?,
        tracker: GpuTracker::new(gpu, Arc::new(options.clone()), (width as usize, height as usize))?,
    };
    let mut rng = SplitMix64::new(1, n_tracks as u64);
    let mut along = |size: u32| 8.0 + (size as f64 - 16.0) * rng.unit();
    let starts: Vec<TrackRecord> =
        (0..n_tracks).map(|_| TrackRecord::start(along(width) as f32, along(height) as f32)).collect();
    pushed.push(&frames[0], &[])?;
    // From the first frame to the second, the way that is timed too: every second push.
    let found = pushed.push(&frames[1], &starts)?;
    let alike = alike(options, frames, &starts, &found)?;
    let alive = found.iter().filter(|record| record.is_alive()).count();
    let mut wall = Vec::new();
    let warm_up = WARM_UP.min(repeats);
    for repeat in 0..warm_up + repeats {
        pushed.push(&frames[0], &found)?;
        let begin = Instant::now();
        pushed.push(&frames[1], &starts)?;
        if repeat >= warm_up {
            wall.push(begin.elapsed().as_secs_f64() * 1e3);
        }
    }
    let ids: Vec<u32> = (0..n_tracks as u32).collect();
    let mut passes = PASSES.map(|_| Vec::new());
    for _ in 0..repeats {
        pushed.push(&frames[0], &found)?;
        let gray = pushed.gray(&frames[1])?;
        let (_, times) = pushed.tracker.push_timed(&gray, &ids, &starts)?;
        for (pass, name) in passes.iter_mut().zip(PASSES) {
            // Of tracks there are as many passes as chunks, of none where the adapter does not tell.
            pass.push(times.iter().filter(|time| time.name == name).map(|time| time.ms).sum::<f64>());
        }
    }
    let device = median((0..repeats).map(|i| passes.iter().map(|pass| pass[i]).sum()).collect());
    // A sum of nothing is -0.
    let passes = passes.map(|pass| format!("{:.3}", median(pass).abs()));
    println!(
        "| {width} x {height} | {} | {} | {n_tracks} | {:.3} | {device:.3} | {} | {:.2} % | {alive} |",
        options.levels,
        options.window_px,
        median(wall),
        passes.join(" | "),
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
    frames: &[Picture; 2],
    starts: &[TrackRecord],
    found: &[TrackRecord],
) -> Result<f64, Box<dyn Error>> {
    let size = (frames[0].width, frames[0].height);
    let mut conversion = Conversion::new(&Device::Cpu, &frames[0], size)?;
    let mut tracker = CpuTracker::new(Arc::new(options.clone()));
    tracker.push(&conversion.run(&frames[0])?.host()?, &[], &[]);
    let ids: Vec<u32> = (0..starts.len() as u32).collect();
    let expected = tracker.push(&conversion.run(&frames[1])?.host()?, &ids, starts);
    let is_alike = |(a, b): &(&TrackRecord, &TrackRecord)| {
        (a.x - b.x).abs() <= 1e-3
            && (a.y - b.y).abs() <= 1e-3
            && a.reason() == b.reason()
            && a.iterations().abs_diff(b.iterations()) <= 1
    };
    Ok(found.iter().zip(expected).filter(is_alike).count() as f64 / starts.len() as f64)
}
