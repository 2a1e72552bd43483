//! Times each kernel family of the CPU backend on rendered frames: `cargo bench --bench throughput [-- REPEATS]`.
//!
//! Frames are of the demo's hand-held walk. Tracks go from one frame to the next; SIFT's features are matched and
//! verified between frames half a second apart. `match_descriptors` runs on random descriptors: its work does not
//! depend on what they hold.

use std::error::Error;
use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use hdrhistogram::Histogram;
use trackweave::geometry::camera::{Camera, CameraOptions};
use trackweave::geometry::points::PointPairs;
use trackweave::geometry::two_view::{TwoViewLimits, estimate_two_view};
use trackweave::kernels::Pyramid;
use trackweave::kernels::gray_luma::gray_luma;
use trackweave::kernels::klt_anchor::{AnchorRecord, klt_anchor};
use trackweave::kernels::klt_patch::{PatchSums, chunks, klt_patch};
use trackweave::kernels::klt_track::TrackRecord;
use trackweave::kernels::match_descriptors::{MatchScratch, match_descriptors};
use trackweave::kernels::match_guided::{GuidedPoints, GuidedScratch, match_guided};
use trackweave::klt::{KltOptions, SelectScratch, TrackScratch, eigen_map_of, select_points, track_points};
use trackweave::message::{Descriptor, DescriptorMatch, Features};
use trackweave::numerics::SplitMix64;
use trackweave::picture::GrayImage;
use trackweave::picture::area::AreaTaps;
use trackweave::scene::{CameraPath, Intrinsics, Pose, Scene, true_fundamental};
use trackweave::sift::{SiftOptions, SiftScratch, extract_features};

const FPS: f64 = 25.0;
/// The frame that is matched with the first.
const LATER: usize = 12;
const N_TRACKS: usize = 1024;
const RATIO: f32 = 0.8;
/// Width of the epipolar band and largest error, in pixels at 640 wide.
const MAX_ERROR_PX: f64 = 2.0;

fn main() -> Result<(), Box<dyn Error>> {
    // Cargo passes `--bench` too.
    let repeats = std::env::args().skip(1).find(|arg| !arg.starts_with("--"));
    let bench = Bench { repeats: repeats.map_or(Ok(30), |arg| arg.parse())? };
    println!(
        "{} repeats after one to warm up, {} threads, ms\n",
        bench.repeats,
        rayon::current_num_threads()
    );
    println!("| picture | kernels | what | min | median | p90 | p99 |");
    println!("|---|---|---|---:|---:|---:|---:|");
    for (width, height) in [(640, 360), (1280, 720)] {
        let walk = Walk::render(width, height);
        time_gray(&bench, width, height)?;
        time_klt(&bench, &walk)?;
        let features = time_sift(&bench, &walk)?;
        time_pair(&bench, &walk, &features)?;
    }
    time_match_descriptors(&bench)
}

struct Bench {
    repeats: usize,
}

impl Bench {
    /// Prints a row of the table.
    fn time<T>(
        &self,
        picture: &str,
        kernels: &str,
        what: &str,
        mut work: impl FnMut() -> T,
    ) -> Result<(), Box<dyn Error>> {
        let mut spent = Histogram::<u64>::new(3)?;
        black_box(work());
        for _ in 0..self.repeats {
            let start = Instant::now();
            black_box(work());
            spent.record(start.elapsed().as_nanos() as u64)?;
        }
        let at = |quantile| spent.value_at_quantile(quantile) as f64 / 1e6;
        let [min, median, p90, p99] = [0.0, 0.5, 0.9, 0.99].map(at);
        println!("| {picture} | {kernels} | {what} | {min:.3} | {median:.3} | {p90:.3} | {p99:.3} |");
        Ok(())
    }
}

/// Three frames of the walk: the first, the next and a later one.
struct Walk {
    name: String,
    intrinsics: Intrinsics,
    poses: Vec<Pose>,
    grays: [Arc<GrayImage>; 3],
}

impl Walk {
    fn render(width: u32, height: u32) -> Walk {
        let (scene, intrinsics) = (Scene::demo(), Intrinsics::centered(width, height));
        let poses = CameraPath::HandHeld.poses(LATER + 1, FPS);
        let grays = [0, 1, LATER].map(|frame| {
            let luma = luma_of(&scene, &poses[frame], &intrinsics);
            let data = luma.iter().map(|&value| value as f32 / 255.0).collect();
            Arc::new(GrayImage { width: width as usize, height: height as usize, data })
        });
        Walk { name: format!("{width} x {height}"), intrinsics, poses, grays }
    }
}

fn luma_of(scene: &Scene, pose: &Pose, intrinsics: &Intrinsics) -> Vec<u8> {
    image::DynamicImage::from(scene.render(pose, intrinsics)).into_luma8().into_raw()
}

fn time_gray(bench: &Bench, width: u32, height: u32) -> Result<(), Box<dyn Error>> {
    let full = Intrinsics::centered(1920, 1080);
    let luma = luma_of(&Scene::demo(), &CameraPath::HandHeld.poses(1, FPS)[0], &full);
    let step = full.width as f64 / width as f64;
    let columns = AreaTaps::new(full.width as usize, width as usize, step);
    let rows = AreaTaps::new(full.height as usize, height as usize, step);
    let mut scratch = vec![0.0; columns.n_in * rayon::current_num_threads()];
    let mut gray = vec![0.0; (width * height) as usize];
    bench.time(&format!("{width} x {height}"), "gray", "luma of 1920 x 1080", || {
        gray_luma(&luma, full.width as usize, true, &columns, &rows, &mut scratch, &mut gray);
    })
}

fn time_klt(bench: &Bench, walk: &Walk) -> Result<(), Box<dyn Error>> {
    let [first, next, _] = &walk.grays;
    let options = KltOptions::for_size(first.width, first.height);
    let (levels, mut scratch) = (options.levels as usize, Vec::new());
    let [mut template, mut target] = [Pyramid::default(), Pyramid::default()];
    template.rebuild(first, levels, &mut scratch);
    bench.time(&walk.name, "pyramid, gradients", &format!("{levels} levels"), || {
        target.rebuild(next, levels, &mut scratch);
    })?;

    let mut scratch = SelectScratch::default();
    let mut select = || {
        let eigen = eigen_map_of(&template.levels[0], options.window_px);
        select_points(&eigen, &[], &options, N_TRACKS, &mut scratch)
    };
    let points = select();
    bench.time(&walk.name, "selection", &format!("{} corners", points.len()), select)?;

    let starts: Vec<TrackRecord> =
        points.iter().cycle().take(N_TRACKS).map(|point| TrackRecord::start(point.x, point.y)).collect();
    let mut scratch = TrackScratch::default();
    let mut track = || {
        let tracked = track_points(&template, &target, &options, &starts, &mut scratch);
        tracked.iter().filter(|record| record.is_alive()).count()
    };
    let what = format!("{} of {} tracks kept, window {}", track(), starts.len(), options.window_px);
    bench.time(&walk.name, "KLT forward, backward, check", &what, track)?;
    time_anchors(bench, walk, [&template, &target], &options, &starts, scratch)
}

fn time_anchors(
    bench: &Bench,
    walk: &Walk,
    [template, target]: [&Pyramid; 2],
    options: &KltOptions,
    starts: &[TrackRecord],
    mut scratch: TrackScratch,
) -> Result<(), Box<dyn Error>> {
    let params = options.patch_params();
    let seeds: Vec<_> = starts.iter().map(|start| Some([start.x, start.y])).collect();
    let mut sums = vec![PatchSums::default(); seeds.len()];
    let mut samples = vec![[0.0; 16]; seeds.len() * 3 * chunks(params.window_px)];
    let what = format!("{} seeds, window {}", seeds.len(), params.window_px);
    bench.time(&walk.name, "KLT patches", &what, || {
        klt_patch(&template.levels[0], &params, &seeds, &mut sums, &mut samples);
    })?;
    let tracked = track_points(template, target, options, starts, &mut scratch);
    let start_of = |record: &TrackRecord| match record.is_alive() {
        true => AnchorRecord::start([record.x, record.y], [[1.0, 0.0], [0.0, 1.0]]),
        false => AnchorRecord::default(),
    };
    let starts: Vec<_> = tracked.iter().map(start_of).collect();
    let mut aligned = starts.clone();
    let mut anchor = || {
        let (params, image) = (options.anchor_params(), &target.levels[0].gray);
        klt_anchor(image, &params, &sums, &samples, &starts, &mut aligned);
        aligned.iter().filter(|record| record.is_taken()).count()
    };
    let what = format!("{} of {} taken", anchor(), starts.len());
    bench.time(&walk.name, "KLT anchor", &what, anchor)
}

fn time_sift(bench: &Bench, walk: &Walk) -> Result<[Features; 2], Box<dyn Error>> {
    let (options, mut scratch) = (SiftOptions::default(), SiftScratch::default());
    let [first, _, later] = &walk.grays;
    let features = [first, later].map(|gray| extract_features(gray, &options, &mut scratch));
    let what = format!("{} keypoints", features[0].keypoints.len());
    bench.time(&walk.name, "SIFT", &what, || extract_features(first, &options, &mut scratch))?;
    Ok(features)
}

fn time_pair(bench: &Bench, walk: &Walk, features: &[Features; 2]) -> Result<(), Box<dyn Error>> {
    let [first, second] = features;
    let max_error_px = MAX_ERROR_PX * walk.intrinsics.width as f64 / 640.0;
    let counts = format!("{} x {} keypoints", first.keypoints.len(), second.keypoints.len());

    let f = true_fundamental(&walk.intrinsics, &walk.poses[0], &walk.poses[LATER]);
    let f: [f64; 9] = std::array::from_fn(|i| f[(i / 3, i % 3)]);
    let positions = features.each_ref().map(|features| -> Vec<[f64; 2]> {
        features.keypoints.iter().map(|keypoint| [keypoint.x as f64, keypoint.y as f64]).collect()
    });
    let points =
        |at: usize| GuidedPoints { positions: &positions[at], descriptors: &features[at].descriptors };
    let mut scratch = GuidedScratch::default();
    bench.time(&walk.name, "match_guided", &counts, || {
        match_guided(points(0), points(1), &f, max_error_px, RATIO, &mut scratch)
    })?;

    let matches =
        match_descriptors(&first.descriptors, &second.descriptors, RATIO, &mut MatchScratch::default());
    time_verification(bench, walk, features, &matches, max_error_px)
}

fn time_verification(
    bench: &Bench,
    walk: &Walk,
    [first, second]: &[Features; 2],
    matches: &[DescriptorMatch],
    max_error_px: f64,
) -> Result<(), Box<dyn Error>> {
    let Intrinsics { width, height, .. } = walk.intrinsics;
    let params = walk.intrinsics.colmap_params().to_vec();
    let known = CameraOptions { model: Some("SIMPLE_PINHOLE".to_owned()), params: Some(params) };
    for (options, intrinsics) in [(known, "known"), (CameraOptions::default(), "unknown")] {
        let calibrated = options.params.is_some();
        let camera = Camera::from_options(&options, width, height)?;
        let ray = |features: &Features, at: u32| {
            let keypoint = &features.keypoints[at as usize];
            camera.cam_from_img([keypoint.x as f64 + 0.5, keypoint.y as f64 + 0.5])
        };
        let rays = matches.iter().filter_map(|m| {
            let ([x1, y1], [x2, y2]) = (ray(first, m.first)?, ray(second, m.second)?);
            Some([x1, y1, x2, y2])
        });
        let pairs: PointPairs = rays.collect();
        let limits = TwoViewLimits { max_error_px, min_inliers: 15 };
        let verify = || estimate_two_view(&pairs, &camera, calibrated, &limits, &mut SplitMix64::new(0, 1));
        let two_view = verify().ok_or("the rendered pair has no geometry")?;
        let inliers = two_view.residuals.iter().filter(|residual| **residual < 1.0).count();
        let what = format!("{inliers} inliers of {}, intrinsics {intrinsics}", pairs.len());
        bench.time(&walk.name, "pair verification", &what, verify)?;
    }
    Ok(())
}

fn time_match_descriptors(bench: &Bench) -> Result<(), Box<dyn Error>> {
    let mut scratch = MatchScratch::default();
    for n in [1000, 2000, 4000] {
        let [first, second] = [1, 2].map(|list| {
            let mut rng = SplitMix64::new(0, list);
            let descriptor = |_| -> Descriptor { std::array::from_fn(|_| rng.below(256) as u8) };
            (0..n).map(descriptor).collect::<Vec<Descriptor>>()
        });
        bench.time("", "match_descriptors", &format!("{n} x {n}, one thread"), || {
            match_descriptors(&first, &second, RATIO, &mut scratch)
        })?;
    }
    Ok(())
}
