//! How tracks end: every reason on a case made for it, and what the way back finds.

use std::sync::Arc;

use trackweave::kernels::klt_track::TrackRecord;
use trackweave::klt::KltOptions;
use trackweave::message::EndReason;
use trackweave::numerics::SplitMix64;

use crate::klt_cases::{self as cases, Case};
use crate::klt_scene::{Warp, from_function, grid};

fn reasons(case: &Case) -> Vec<Option<EndReason>> {
    case.records().iter().map(|record| record.reason()).collect()
}

#[test]
fn a_patch_without_texture_and_a_line_of_one_pixel_have_low_structure() {
    assert_eq!(reasons(&cases::failures())[..3], [Some(EndReason::LowStructure); 3]);
}

#[test]
fn a_point_that_leaves_at_the_left_right_or_top_is_out_of_frame() {
    let case = cases::failures();
    let leaving = case.at(vec![[3.0, 250.0]]);
    let left = Case { second: Arc::new(Warp::Shift(-5.0, 0.0).apply(&case.first)), ..leaving };
    assert_eq!(reasons(&left), [Some(EndReason::OutOfFrame)], "the left border");
    assert_eq!(reasons(&case)[3..5], [Some(EndReason::OutOfFrame); 2], "the right and the top border");
    assert_eq!(reasons(&case)[5], Some(EndReason::OutOfFrame), "a start outside");
}

#[test]
fn a_point_that_a_second_texture_covers_ends_and_its_clean_neighbours_live() {
    use EndReason::{ForwardBackward, NoConvergence, Residual};
    let case = cases::failures();
    let reasons = reasons(&case);
    for covered in &reasons[6..8] {
        assert!(matches!(covered, Some(NoConvergence | ForwardBackward | Residual)), "{covered:?}");
    }
    assert_eq!(reasons[8..], [None; 2]);
    let kept = case.kept();
    assert!(kept.worst() < 0.01, "{} px", kept.worst());
}

#[test]
fn a_track_lives_as_long_as_the_picture_shows_its_point() {
    let first = cases::scene(640, 360);
    let points = vec![[3.0, 180.0], [636.0, 180.0], [320.0, 2.0], [200.0, 357.0]];
    let template = Case { first: first.clone(), ..cases::translation(0.3, 0.2).at(points) };
    for ((dx, dy), leaving) in [((-4.6, 0.0), 0), ((4.6, 0.0), 1), ((0.0, -4.3), 2), ((0.0, 4.3), 3)] {
        let warp = Warp::Shift(dx, dy);
        let case = Case { second: Arc::new(warp.apply(&first)), warp: Some(warp), ..template.clone() };
        for (i, reason) in reasons(&case).into_iter().enumerate() {
            let expected = (i == leaving).then_some(EndReason::OutOfFrame);
            assert_eq!(reason, expected, "{warp:?}, {:?}", case.points[i]);
        }
        assert!(case.kept().worst() < 0.2, "{warp:?}: {} px", case.kept().worst());
    }
}

#[test]
fn the_picture_shows_half_a_pixel_beyond_the_centres_of_its_border() {
    let first = cases::scene(640, 360);
    let still = Case { first: first.clone(), second: first, ..cases::translation(0.3, 0.2) };
    let edges = |beyond: f32| {
        let (right, bottom) = (639.0 + beyond, 359.0 + beyond);
        still.at(vec![[-beyond, 180.0], [right, 180.0], [320.0, -beyond], [200.0, bottom]])
    };
    assert_eq!(reasons(&edges(0.45)), [None; 4]);
    assert_eq!(reasons(&edges(0.55)), [Some(EndReason::OutOfFrame); 4]);
}

#[test]
fn too_few_steps_end_as_no_convergence_with_their_number() {
    let case = cases::translation(30.0, -24.0).with(|options| options.max_iterations = 1);
    let records = case.records();
    assert!(records.iter().all(|r| r.reason() == Some(EndReason::NoConvergence) && r.iterations() == 1));
}

#[test]
fn steps_settle_on_texture_finer_than_the_gradient_sees() {
    let mut rng = SplitMix64::new(7, 0);
    let mut noise = from_function(640, 360, |_, _| 0.5);
    noise.data.iter_mut().for_each(|value| *value = rng.unit() as f32);
    let warp = Warp::Shift(0.4, -0.3);
    let points = grid(&noise, 20, 10, [40.0, 40.0]);
    let second = Arc::new(warp.apply(&noise));
    let options = KltOptions { levels: 1, min_ncc: -1.0, ..KltOptions::for_size(640, 360) };
    let case = Case {
        name: "noise".into(),
        design: "",
        first: Arc::new(noise),
        second,
        warp: Some(warp),
        points,
        options,
    };
    assert_eq!(reasons(&case).iter().filter(|r| **r == Some(EndReason::NoConvergence)).count(), 0);
}

/// The repeating texture with both checks off.
fn unchecked() -> Case {
    cases::periodic().with(|options| {
        options.forward_backward_px = 1e9;
        options.min_ncc = -2.0;
    })
}

#[test]
fn the_way_back_drops_every_wrong_track_of_a_repeating_texture() {
    let (without, with) =
        [unchecked(), cases::periodic()].map(|case| case.kept().wrong_by_more_than(1.0)).into();
    println!("{without} of 96 are wrong, {with} after the checks");
    assert!(without >= 48, "only {without} of 96 tracks are wrong: the texture tests nothing");
    assert_eq!(with, 0);
}

#[test]
fn a_track_that_drifts_away_on_a_repeating_texture_leaves_the_frame() {
    let case = unchecked();
    let records = case.records();
    let travel = |(record, [x, y]): (&TrackRecord, &[f32; 2])| (record.x - x).hypot(record.y - y);
    let alive = records.iter().zip(&case.points).filter(|(record, _)| record.is_alive());
    let longest = alive.clone().map(travel).fold(0.0, f32::max);
    println!("{} of 96 stay, the longest way {longest}", alive.clone().count());
    assert!(alive.count() > 80 && longest < 8.5, "{longest} px");
}
