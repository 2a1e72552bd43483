//! Times SIFT on a GPU, or on the adapter that is named, beside the twin:
//! `cargo bench --bench sift_gpu [-- REPEATS [ADAPTER]]`.
//!
//! Wall times go from the luma plane to keypoints and descriptors in memory of the host. Device times are those of the
//! passes of timed recordings, in which the plane's conversion to gray is not. The pictures are grains of three pixels, which
//! have many times more extrema than keypoints are kept, and the demo's room, which has about as many. Extrema: those that
//! keep the limits of contrast and edges.

use std::error::Error;
use std::time::Instant;

use hdrhistogram::Histogram;
use trackweave::device::{Device, Gpu};
use trackweave::gray::{Conversion, DeviceGray, Gray};
use trackweave::numerics::SplitMix64;
use trackweave::picture::Picture;
use trackweave::scene::{CameraPath, Intrinsics, Scene};
use trackweave::sift::{GpuSift, SiftOptions, SiftScratch, extract_features};

/// Extractions that are not timed; no more than those that are.
const WARM_UP: usize = 20;
/// Times of the twin's extraction.
const ON_CPU: usize = 5;
const PASSES: [&str; 8] =
    ["doubling", "blurs", "extrema", "refinement", "strongest", "orientations", "selection", "descriptors"];

fn main() -> Result<(), Box<dyn Error>> {
    // Cargo passes `--bench` too.
    let mut words = std::env::args().skip(1).filter(|word| !word.starts_with("--"));
    let repeats = words.next().map_or(Ok(200), |word| word.parse())?;
    let gpu = Gpu::open(words.next().as_deref())?;
    println!("{}, {}; medians of {repeats}, ms\n", gpu.adapter(), gpu.adapter().driver);
    let passes = PASSES.join(" | ");
    println!("| picture | first octave | extrema | keypoints | cpu | wall | p90 | device | {passes} |");
    println!("|---|{}", "---:|".repeat(7 + PASSES.len()));
    for (width, height) in [(640, 360), (1280, 720), (1920, 1080)] {
        for (name, picture) in [("grains", grains(width, height)), ("room", room(width, height))] {
            for first_octave in [-1, 0] {
                // The room's extrema are weak, but enough.
                let min_contrast = if name == "room" { 0.002 } else { SiftOptions::default().min_contrast };
                let options = SiftOptions { first_octave, min_contrast, ..SiftOptions::default() };
                time(&gpu, name, &picture, options, repeats)?;
            }
        }
    }
    Ok(())
}

/// The demo's room as its camera sees it first.
fn room(width: usize, height: usize) -> Picture {
    let intrinsics = Intrinsics::centered(width as u32, height as u32);
    let pose = CameraPath::Orbit.poses(1, 10.0).remove(0);
    let picture = Scene::demo().render(&pose, &intrinsics);
    Picture::gray(width, height, picture.pixels().map(|pixel| pixel[1]).collect())
}

/// Grains of 3 x 3 pixels.
fn grains(width: usize, height: usize) -> Picture {
    let mut rng = SplitMix64::new(1, 0);
    let columns = width.div_ceil(3);
    let grains: Vec<u8> = (0..columns * height.div_ceil(3)).map(|_| rng.below(256) as u8).collect();
    let data = (0..width * height).map(|i| grains[i / width / 3 * columns + i % width / 3]).collect();
    Picture::gray(width, height, data)
}

fn time(
    gpu: &Gpu,
    name: &str,
    picture: &Picture,
    options: SiftOptions,
    repeats: usize,
) -> Result<(), Box<dyn Error>> {
    let size = (picture.width, picture.height);
    let mut conversion = Conversion::new(&Device::Gpu(gpu.clone()), picture, size)?;
    let mut sift = GpuSift::new(gpu, options.clone(), (size.0 as usize, size.1 as usize))?;
    let (warm_up, mut wall, mut n_keypoints) = (WARM_UP.min(repeats), Histogram::<u64>::new(3)?, 0);
    for repeat in 0..warm_up + repeats {
        let begin = Instant::now();
        let gray = conversion.run(picture)?;
        n_keypoints = sift.extract(on_device(&gray))?.keypoints.len();
        if repeat >= warm_up {
            wall.record(begin.elapsed().as_nanos() as u64)?;
        }
    }
    let gray = conversion.run(picture)?;
    let device = device_times(&mut sift, on_device(&gray), repeats)?;
    let (host, mut scratch) = (gray.host()?, SiftScratch::default());
    let on_cpu = (0..ON_CPU).map(|_| {
        let begin = Instant::now();
        extract_features(&host, &options, &mut scratch);
        1e3 * begin.elapsed().as_secs_f64()
    });
    let on_cpu = median(on_cpu.collect());
    let all = SiftOptions { max_features: 1_000_000, max_orientations: 1, ..options.clone() };
    let n_extrema = extract_features(&host, &all, &mut scratch).keypoints.len();
    let [wall, p90] = [0.5, 0.9].map(|quantile| wall.value_at_quantile(quantile) as f64 / 1e6);
    let passes: Vec<String> = device.iter().map(|ms| format!("{ms:.4}")).collect();
    let sum: f64 = device.iter().sum();
    println!(
        "| {name}, {} x {} | {} | {n_extrema} | {n_keypoints} | {on_cpu:.1} | {wall:.3} | {p90:.3} | {sum:.4} | {} |",
        size.0,
        size.1,
        options.first_octave,
        passes.join(" | ")
    );
    Ok(())
}

fn on_device(gray: &Gray) -> &DeviceGray {
    match gray {
        Gray::Device(gray) => gray,
        Gray::Host(_) => unreachable!("a conversion on the device"),
    }
}

/// Median of each pass, 0 where the adapter does not tell.
fn device_times(sift: &mut GpuSift, gray: &DeviceGray, repeats: usize) -> Result<Vec<f64>, Box<dyn Error>> {
    let mut times = vec![Vec::new(); PASSES.len()];
    for _ in 0..repeats {
        let (_, passes) = sift.extract_timed(gray)?;
        for (times, name) in times.iter_mut().zip(PASSES) {
            times.push(passes.iter().filter(|pass| pass.name == name).map(|pass| pass.ms).sum());
        }
    }
    Ok(times.into_iter().map(median).collect())
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}
