//! The tracker on a frozen synthetic scene with known motion.

#[path = "support/klt_reference.rs"]
mod klt_reference;
#[path = "support/klt_scene.rs"]
mod klt_scene;

use std::sync::{Arc, OnceLock};

use klt_scene::{Warp, from_function, grid, relit, textured};
use trackweave::kernels::Pyramid;
use trackweave::kernels::klt_track::TrackRecord;
use trackweave::klt::{KltOptions, TrackScratch, track_points};
use trackweave::message::EndReason;
use trackweave::numerics::SplitMix64;
use trackweave::picture::GrayImage;

/// The scene, rendered once.
fn scene() -> GrayImage {
    static SCENE: OnceLock<GrayImage> = OnceLock::new();
    SCENE.get_or_init(klt_scene::scene).clone()
}

fn pyramid(image: &GrayImage, levels: u32) -> Pyramid {
    let mut pyramid = Pyramid::default();
    pyramid.rebuild(&Arc::new(image.clone()), levels as usize, &mut Vec::new());
    pyramid
}

fn starts(points: &[[f32; 2]]) -> Vec<TrackRecord> {
    points.iter().map(|&[x, y]| TrackRecord::start(x, y)).collect()
}

fn track(
    first: &GrayImage,
    second: &GrayImage,
    options: &KltOptions,
    points: &[[f32; 2]],
) -> Vec<TrackRecord> {
    let (first, second) = (pyramid(first, options.levels), pyramid(second, options.levels));
    track_points(&first, &second, options, &starts(points), &mut TrackScratch::default()).to_vec()
}

fn defaults() -> KltOptions {
    KltOptions::for_size(640, 360)
}

fn error(record: &TrackRecord, point: [f32; 2], warp: Warp) -> f64 {
    let [x, y] = warp.forward(point.map(f64::from));
    (record.x as f64 - x).hypot(record.y as f64 - y)
}

/// Tracks kept and their largest error.
fn kept_and_worst(records: &[TrackRecord], points: &[[f32; 2]], warp: Warp) -> (usize, f64) {
    let kept: Vec<f64> =
        records.iter().zip(points).filter(|(r, _)| r.is_alive()).map(|(r, &p)| error(r, p, warp)).collect();
    (kept.len(), kept.into_iter().fold(0.0, f64::max))
}

/// Kept tracks and the largest error of the 8 x 5 grid under a warp.
fn grid_under(warp: Warp, options: &KltOptions) -> (usize, f64) {
    let first = scene();
    let points = grid(&first, 8, 5, [100.0, 80.0]);
    let records = track(&first, &warp.apply(&first), options, &points);
    kept_and_worst(&records, &points, warp)
}

#[test]
fn translations_are_recovered() {
    for (dx, dy, limit) in [(0.3, 0.2, 0.05), (3.7, -2.1, 0.05), (12.5, 9.0, 0.1), (30.0, -24.0, 0.1)] {
        let (kept, worst) = grid_under(Warp::Shift(dx, dy), &defaults());
        println!("shift ({dx}, {dy}): kept {kept}, worst {worst:.4}");
        assert_eq!(kept, 40, "shift ({dx}, {dy})");
        assert!(worst < limit, "shift ({dx}, {dy}): {worst}");
    }
}

#[test]
fn a_large_translation_needs_the_pyramid() {
    let one_level = KltOptions { levels: 1, ..defaults() };
    let first = scene();
    let points = grid(&first, 8, 5, [100.0, 80.0]);
    let warp = Warp::Shift(30.0, -24.0);
    let records = track(&first, &warp.apply(&first), &one_level, &points);
    let right =
        records.iter().zip(&points).filter(|(r, p)| r.is_alive() && error(r, **p, warp) < 0.1).count();
    assert_eq!(right, 0);
}

#[test]
fn a_translation_at_1280_is_recovered() {
    let first = textured(1280, 720, 1200, 2);
    let warp = Warp::Shift(60.0, -48.0);
    let points = grid(&first, 6, 4, [200.0, 160.0]);
    let records = track(&first, &warp.apply(&first), &KltOptions::for_size(1280, 720), &points);
    let (kept, worst) = kept_and_worst(&records, &points, warp);
    println!("1280: kept {kept} of 24, worst {worst:.4}");
    assert!(kept >= 22 && worst < 0.1, "kept {kept}, worst {worst}");
}

#[test]
fn a_rotation_is_recovered_within_what_a_translation_model_can() {
    let warp = Warp::Similarity { degrees: 5.0, scale: 1.0 };
    let first = scene();
    let points = grid(&first, 8, 5, [100.0, 80.0]);
    let records = track(&first, &warp.apply(&first), &defaults(), &points);
    assert_eq!(kept_and_worst(&records, &points, warp).0, 40);
    for (record, &point) in records.iter().zip(&points) {
        let radius = (point[0] as f64 - 320.0).hypot(point[1] as f64 - 180.0);
        let limit = if radius < 70.0 { 0.2 } else { 0.05 + 0.0035 * radius };
        let error = error(record, point, warp);
        println!("radius {radius:.0}: {error:.3}");
        assert!(error < limit, "{error} px at radius {radius}");
    }
}

#[test]
fn a_change_of_scale_is_recovered() {
    let (kept, worst) = grid_under(Warp::Similarity { degrees: 0.0, scale: 1.05 }, &defaults());
    println!("scale: kept {kept}, worst {worst:.4}");
    assert_eq!(kept, 40);
    assert!(worst < 0.2, "{worst}");
}

#[test]
fn brightness_needs_the_photometric_model() {
    let first = scene();
    let warp = Warp::Shift(3.7, -2.1);
    let second = relit(&warp.apply(&first), 1.1, 0.05);
    let points = grid(&first, 8, 5, [100.0, 80.0]);
    let with = |photometric| {
        let options = KltOptions { photometric, ..defaults() };
        let (kept, worst) = kept_and_worst(&track(&first, &second, &options, &points), &points, warp);
        println!("brightness, photometric {photometric}: kept {kept}, worst {worst:.4}");
        (kept, worst)
    };
    let ((plain, _), (shift, shift_worst), (scale, scale_worst)) = (with(0), with(1), with(2));
    assert!(plain <= 10, "plain keeps {plain}");
    assert!(shift == 40 && shift_worst < 0.4, "{shift} {shift_worst}");
    assert!(scale == 40 && scale_worst < 0.3, "{scale} {scale_worst}");
}

#[test]
fn failures_end_with_their_reason() {
    let mut first = scene();
    paint(&mut first, [100, 100], 60, |_, _| 0.4);
    paint(&mut first, [200, 100], 60, |x, _| if x == 230 { 0.9 } else { 0.4 });
    let mut second = first.clone();
    let other = |x: f32, y: f32| 0.5 + 0.3 * (0.7 * x + 0.4 * y).sin() * (0.3 * x - 0.6 * y).sin();
    paint(&mut second, [380, 200], 50, |x, y| other(x as f32, y as f32));
    let points = [[130.0, 130.0], [230.0, 130.0], [405.0, 225.0], [520.0, 120.0]];
    let records = track(&first, &second, &defaults(), &points);
    let reasons: Vec<_> = records.iter().map(TrackRecord::reason).collect();
    assert_eq!(reasons[..2], [Some(EndReason::LowStructure); 2]);
    use EndReason::{ForwardBackward, NoConvergence, Residual};
    assert!(matches!(reasons[2], Some(NoConvergence | ForwardBackward | Residual)), "{:?}", reasons[2]);
    assert!(records[3].is_alive() && reasons[3].is_none());
}

#[test]
fn a_track_lives_as_long_as_the_picture_shows_its_point() {
    let first = scene();
    let at_the_border = [[3.0, 180.0], [636.0, 180.0], [320.0, 2.0], [200.0, 357.0]];
    for (warp, leaving) in
        [(Warp::Shift(-4.6, 0.0), 0), (Warp::Shift(4.6, 0.0), 1), (Warp::Shift(0.0, -4.3), 2)]
    {
        let records = track(&first, &warp.apply(&first), &defaults(), &at_the_border);
        for (i, record) in records.iter().enumerate() {
            println!("{warp:?}, {:?}: {record:?}", at_the_border[i]);
            let reason = (i == leaving).then_some(EndReason::OutOfFrame);
            assert_eq!(record.reason(), reason, "{warp:?}, {:?}", at_the_border[i]);
            assert!(i == leaving || error(record, at_the_border[i], warp) < 0.2, "{warp:?}, {record:?}");
        }
    }
}

/// Overwrites a square.
fn paint(image: &mut GrayImage, [left, top]: [usize; 2], side: usize, value: impl Fn(usize, usize) -> f32) {
    for y in top..top + side {
        for x in left..left + side {
            image.data[y * image.width + x] = value(x, y);
        }
    }
}

#[test]
fn steps_settle_on_texture_finer_than_the_gradient_sees() {
    let mut rng = SplitMix64::new(7, 0);
    let mut noise = from_function(640, 360, |_, _| 0.5);
    noise.data.iter_mut().for_each(|value| *value = rng.unit() as f32);
    let points = grid(&noise, 20, 10, [40.0, 40.0]);
    let warp = Warp::Shift(0.4, -0.3);
    let one_level = KltOptions { levels: 1, min_ncc: -1.0, ..defaults() };
    let records = track(&noise, &warp.apply(&noise), &one_level, &points);
    let restless = records.iter().filter(|r| r.reason() == Some(EndReason::NoConvergence)).count();
    println!("noise: {restless} of 200 do not settle, kept {:?}", kept_and_worst(&records, &points, warp));
    assert_eq!(restless, 0);
}

#[test]
fn a_track_leaves_the_frame_and_one_runs_out_of_steps() {
    let first = scene();
    let second = Warp::Shift(30.0, -24.0).apply(&first);
    let records = track(&first, &second, &defaults(), &[[620.0, 180.0], [300.0, 180.0]]);
    assert_eq!(records[0].reason(), Some(EndReason::OutOfFrame));
    let impatient = KltOptions { max_iterations: 1, ..defaults() };
    let records = track(&first, &second, &impatient, &[[300.0, 180.0]]);
    assert_eq!((records[0].reason(), records[0].iterations()), (Some(EndReason::NoConvergence), 1));
}

#[test]
fn the_way_back_finds_wrong_tracks_of_a_repeating_texture() {
    let wave = |x: f32, shift: f32| (std::f32::consts::TAU / 8.0 * (x - shift)).sin();
    let texture = |shift| from_function(640, 360, |x, y| 0.5 + 0.2 * wave(x, shift) + 0.2 * wave(y, 0.0));
    let points = grid(&texture(0.0), 12, 8, [103.0, 81.0]);
    let warp = Warp::Shift(4.0, 0.0);
    let unchecked = KltOptions { forward_backward_px: 1e9, min_ncc: -2.0, ..defaults() };
    let wrong_with = |options: &KltOptions| {
        let records = track(&texture(0.0), &texture(4.0), options, &points);
        records.iter().zip(&points).filter(|(r, p)| r.is_alive() && error(r, **p, warp) > 1.0).count()
    };
    let (without, with) = (wrong_with(&unchecked), wrong_with(&defaults()));
    println!("periodic: {without} of 96 wrong, {with} after the check");
    assert!(without >= 20, "only {without} of 96 tracks are wrong: the texture tests nothing");
    assert!(with * 10 <= without, "{with} of {without} stay");
}

#[test]
fn neither_company_nor_threads_change_a_bit() {
    let first = scene();
    let second = Warp::Similarity { degrees: 5.0, scale: 1.02 }.apply(&first);
    let options = defaults();
    let points = grid(&first, 15, 9, [20.0, 20.0]);
    let (template, target) = (pyramid(&first, options.levels), pyramid(&second, options.levels));
    let tracked = |chunk: usize| -> Vec<[u32; 4]> {
        let mut scratch = TrackScratch::default();
        let mut all = Vec::new();
        for starts in starts(&points).chunks(chunk) {
            let records = track_points(&template, &target, &options, starts, &mut scratch);
            all.extend(records.iter().map(|r| [r.x, r.y, r.measure, r.status].map(f32::to_bits)));
        }
        all
    };
    let with_threads = |threads, chunk| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("a thread pool");
        pool.install(|| tracked(chunk))
    };
    let whole = with_threads(1, points.len());
    assert_eq!(whole, with_threads(4, points.len()));
    assert_eq!(whole, with_threads(1, 3));
    assert_eq!(whole, with_threads(3, 5));
}

#[test]
fn the_tracker_agrees_with_the_papers() {
    let first = scene();
    let warps =
        [Warp::Shift(3.7, -2.1), Warp::Shift(12.5, 9.0), Warp::Similarity { degrees: 3.0, scale: 1.03 }];
    for warp in warps {
        let second = relit(&warp.apply(&first), 0.9, 0.03);
        for window_px in [9, 15, 21, 33] {
            // Short last steps, so that two ways to one place can be told from two places.
            let options = KltOptions { window_px, epsilon_px: 2e-4, max_iterations: 200, ..defaults() };
            let points = grid(&first, 3, 2, [60.3, 50.6]);
            let records = track(&first, &second, &options, &points);
            let levels = options.levels as usize;
            let slow = [klt_reference::pyramid(&first, levels), klt_reference::pyramid(&second, levels)];
            for (record, &point) in records.iter().zip(&points).filter(|(r, _)| r.is_alive()) {
                let ([x, y], converged) = klt_reference::track(&slow[0], &slow[1], &options, point);
                let distance = (record.x as f64 - x).hypot(record.y as f64 - y);
                assert!(
                    converged && distance < 1e-3,
                    "{warp:?}, window {window_px}, {point:?}: {distance} px"
                );
            }
            assert!(records.iter().filter(|r| r.is_alive()).count() >= 4);
        }
    }
}

#[test]
fn any_size_and_any_start_end_without_a_panic() {
    let odd_starts =
        [[0.0, 0.0], [-1e9, 5.0], [f32::NAN, 1.0], [1e30, f32::INFINITY], [8.0, 8.0], [20.5, 11.0]];
    for (width, height) in [(1, 1), (2, 1), (1, 7), (3, 3), (16, 9), (17, 40), (33, 18), (64, 64)] {
        let first = textured(width, height, 3, 5);
        let second = textured(width, height, 3, 6);
        for window_px in [3, 7, 15, 17, 21, 31, 63] {
            let options =
                KltOptions { window_px, levels: 4, min_eigen: 0.0, ..KltOptions::for_size(width, height) };
            let records = track(&first, &second, &options, &odd_starts);
            assert_eq!(records[1].reason(), Some(EndReason::OutOfFrame));
            assert_eq!(records[2].reason(), Some(EndReason::OutOfFrame));
        }
    }
}
