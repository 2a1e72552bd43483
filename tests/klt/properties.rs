//! What holds for any picture, by random pictures, motions and points from a fixed seed.

use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed};
use trackweave::kernels::klt_track::TrackRecord;
use trackweave::klt::{KltOptions, SelectScratch, SelectedPoint, eigen_map_of, select_points};
use trackweave::numerics::SplitMix64;
use trackweave::picture::GrayImage;

use crate::klt_cases::{pyramid, track};
use crate::klt_scene::{Warp, from_function, textured};

/// Two ways to one place differ by less: the last step is shorter than `epsilon_px` of `options`.
const TOLERANCE_PX: f32 = 1e-3;

fn few(cases: u32) -> Config {
    Config { cases, rng_seed: RngSeed::Fixed(1), failure_persistence: None, ..Config::default() }
}

/// Three levels whose steps end short.
fn options() -> KltOptions {
    KltOptions { levels: 3, epsilon_px: 1e-4, max_iterations: 100, ..KltOptions::for_size(640, 360) }
}

/// A frame pair with motion of up to 4 px.
fn frames() -> impl Strategy<Value = [GrayImage; 2]> {
    (1..1000u64, -4.0..4.0, -4.0..4.0).prop_map(|(seed, dx, dy)| {
        let first = textured(SIDE, SIDE, 40, seed);
        let second = Warp::Shift(dx, dy).apply(&first);
        [first, second]
    })
}

/// The pictures' side: samples of three levels lie on it mirrored too.
const SIDE: usize = 121;
const LAST: f32 = (SIDE - 1) as f32;

fn points(n: usize) -> impl Strategy<Value = Vec<[f32; 2]>> {
    prop::collection::vec([30.0..90.0f32, 30.0..90.0f32], n)
}

fn tracks([first, second]: &[GrayImage; 2], options: &KltOptions, points: &[[f32; 2]]) -> Vec<TrackRecord> {
    track(first, second, options, points)
}

/// Tracks of moved, mirrored or relit pictures are the same but for `undo`, which maps their points back.
fn same(
    one: &[TrackRecord],
    other: &[TrackRecord],
    undo: impl Fn([f32; 2]) -> [f32; 2],
) -> Result<(), TestCaseError> {
    prop_assert!(one.iter().any(TrackRecord::is_alive), "nothing is tracked: {one:?}");
    for (a, b) in one.iter().zip(other) {
        prop_assert_eq!(a.reason(), b.reason(), "{:?} and {:?}", a, b);
        let [x, y] = undo([b.x, b.y]);
        let apart = (a.x - x).hypot(a.y - y);
        prop_assert!(!a.is_alive() || apart < TOLERANCE_PX, "{} px: {:?} and {:?}", apart, a, b);
    }
    Ok(())
}

/// The pixels of an image somewhere else.
fn mapped(image: &GrayImage, from: impl Fn(usize, usize) -> (usize, usize)) -> GrayImage {
    from_function(image.width, image.height, |x, y| {
        let (column, row) = from(x as usize, y as usize);
        image.at(column, row)
    })
}

proptest! {
    #![proptest_config(few(12))]

    #[test]
    fn frames_and_points_moved_by_whole_pixels_move_the_tracks(
        seed in 1..1000u64, by in [0..5usize, 0..5usize], motion in [-4.0..4.0, -4.0..4.0], points in points(8),
    ) {
        // Parts of one picture, so that what comes in at the border is true; whole pixels of the coarsest level.
        let by = by.map(|v| 4 * v);
        let whole = textured(SIDE + 20, SIDE + 20, 60, seed);
        let pair = [whole.clone(), Warp::Shift(motion[0], motion[1]).apply(&whole)];
        let part = |left: usize, top: usize| {
            pair.each_ref().map(|image| {
                from_function(SIDE, SIDE, |x, y| image.at(x as usize + left, y as usize + top))
            })
        };
        let moved: Vec<[f32; 2]> = points.iter().map(|[x, y]| [x + 20.0, y + 20.0]).collect();
        let here: Vec<[f32; 2]> =
            moved.iter().map(|[x, y]| [x - by[0] as f32, y - by[1] as f32]).collect();
        let one = tracks(&part(0, 0), &options(), &moved);
        let other = tracks(&part(by[0], by[1]), &options(), &here);
        same(&one, &other, |[x, y]| [x + by[0] as f32, y + by[1] as f32])?;
    }

    #[test]
    fn gain_and_offset_change_nothing_for_a_scaled_residual(
        frames in frames(), gain in 0.4..1.0f32, share in 0.0..1.0f32, points in points(8),
    ) {
        let offset = share * (1.0 - gain);
        let lit = |image: &GrayImage| mapped_values(image, |v| gain * v + offset);
        let options = KltOptions { min_eigen: 0.0, ..options() };
        let plain = tracks(&frames, &options, &points);
        let [first, second] = &frames;
        same(&plain, &tracks(&[first.clone(), lit(second)], &options, &points), |p| p)?;
        same(&plain, &tracks(&[lit(first), second.clone()], &options, &points), |p| p)?;
    }

    #[test]
    fn mirrored_and_transposed_frames_have_mirrored_and_transposed_tracks(
        frames in frames(), points in points(8),
    ) {
        let one = tracks(&frames, &options(), &points);
        type Turn = (fn(usize, usize) -> (usize, usize), fn([f32; 2]) -> [f32; 2]);
        let turns: [Turn; 3] = [
            (|x, y| (SIDE - 1 - x, y), |[x, y]| [LAST - x, y]),
            (|x, y| (x, SIDE - 1 - y), |[x, y]| [x, LAST - y]),
            (|x, y| (y, x), |[x, y]| [y, x]),
        ];
        for (pixel, point) in turns {
            let turned = frames.each_ref().map(|image| mapped(image, pixel));
            let there: Vec<[f32; 2]> = points.iter().map(|&p| point(p)).collect();
            same(&one, &tracks(&turned, &options(), &there), point)?;
        }
    }

    #[test]
    fn the_order_of_the_points_changes_no_bit(frames in frames(), points in points(70), seed in 0..1000u64) {
        let mut order: Vec<usize> = (0..points.len()).collect();
        let mut rng = SplitMix64::new(seed, 0);
        (1..order.len()).rev().for_each(|i| order.swap(i, rng.below(i as u32 + 1) as usize));
        let shuffled: Vec<[f32; 2]> = order.iter().map(|&i| points[i]).collect();
        let [one, other] = [&points, &shuffled].map(|points| tracks(&frames, &options(), points));
        for (&i, record) in order.iter().zip(&other) {
            prop_assert_eq!(bytemuck::bytes_of(&one[i]), bytemuck::bytes_of(record));
        }
    }
}

fn mapped_values(image: &GrayImage, value: impl Fn(f32) -> f32) -> GrayImage {
    GrayImage { data: image.data.iter().map(|&v| value(v)).collect(), ..*image }
}

/// A picture of any size from 1 x 1 and any finite values: noise, steps of black and white, or one value.
fn any_picture() -> impl Strategy<Value = [GrayImage; 2]> {
    (1..70usize, 1..70usize, 0..4u32, any::<u64>()).prop_map(|(width, height, kind, seed)| {
        [0, 1].map(|frame| {
            let mut rng = SplitMix64::new(seed, frame);
            let mut image = GrayImage::new(width, height);
            for value in &mut image.data {
                let unit = rng.unit() as f32;
                *value = [unit, unit.round(), 0.5, 1e6 * (unit - 0.5)][kind as usize];
            }
            image
        })
    })
}

proptest! {
    #![proptest_config(few(48))]

    #[test]
    fn any_finite_picture_of_any_size_gives_finite_points(
        frames in any_picture(), photometric in 0..3u32, shares in prop::collection::vec([0.0..1.0f32, 0.0..1.0f32], 6),
    ) {
        let (width, height) = (frames[0].width, frames[0].height);
        let options =
            KltOptions { photometric, min_eigen: 0.0, quality_level: 0.0, ..KltOptions::for_size(width, height) };
        let eigen = eigen_map_of(&pyramid(&frames[0], 1).levels[0], options.window_px);
        prop_assert!(eigen.max.is_finite() && eigen.data.iter().all(|v| v.is_finite()));
        let picks = select_points(&eigen, &[], &options, 64, &mut SelectScratch::default());
        for SelectedPoint { x, y, strength } in &picks {
            prop_assert!(*x < width as f32 && *y < height as f32 && *strength > 0.0);
        }
        let (right, bottom) = (width as f32 - 1.0, height as f32 - 1.0);
        let mut points: Vec<[f32; 2]> = picks.iter().map(|p| [p.x, p.y]).collect();
        points.extend(shares.iter().map(|[x, y]| [x * right, y * bottom]));
        for record in tracks(&frames, &options, &points) {
            prop_assert!(record.x.is_finite() && record.y.is_finite() && !record.measure.is_nan(), "{:?}", record);
            let inside = record.x >= -0.5 && record.y >= -0.5 && record.x <= right + 0.5 && record.y <= bottom + 0.5;
            prop_assert!(inside || !record.is_alive(), "alive outside: {:?}", record);
        }
    }
}
