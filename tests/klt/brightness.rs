//! A second frame that is brighter or darker, nothing moves.

use crate::klt_cases::{self as cases, Case, Kept};

fn kept(case: &Case) -> Kept {
    let kept = case.kept();
    println!("{}: {}, worst {:.4}, median {:.4}", case.name, kept.count(), kept.worst(), kept.median());
    kept
}

#[test]
fn the_plain_residual_keeps_no_more_than_4_of_40_in_brighter_light() {
    assert!(kept(&cases::brighter(0)).count() <= 4);
}

#[test]
fn without_the_mean_40_of_40_stay_within_356_in_brighter_light() {
    let kept = kept(&cases::brighter(1));
    assert_eq!(kept.count(), 40);
    assert!(kept.worst() <= 0.356, "{} px", kept.worst());
}

#[test]
fn scaled_to_the_template_40_of_40_stay_in_brighter_light_the_median_exact() {
    let all = kept(&cases::brighter(2));
    assert_eq!(all.count(), 40);
    assert!(all.median() < 0.0005, "{} px", all.median());
    // What is clipped to white is no gain and offset; nearly all points have none of it in their window.
    assert!(all.wrong_by_more_than(0.1) <= 4, "{} tracks", all.wrong_by_more_than(0.1));
    assert_eq!(kept(&cases::small_brightness()).count(), 12);
}

#[test]
fn scaled_to_the_template_a_lower_gain_moves_none_of_40() {
    let kept = kept(&cases::darker(2));
    assert_eq!(kept.count(), 40);
    assert!(kept.worst() < 0.0005, "{} px", kept.worst());
}

#[test]
fn without_the_mean_39_of_40_stay_within_1_27_under_a_lower_gain() {
    let kept = kept(&cases::darker(1));
    assert!(kept.count() >= 39, "{} of 40", kept.count());
    assert!(kept.worst() <= 1.27, "{} px", kept.worst());
}
