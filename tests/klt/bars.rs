//! Figures of the design that are not met. It reports them of its own scene; on this one, which is harder (see
//! `hardness.rs`), its own tracker misses them too, by what the reason says.

use crate::klt_cases::{self as cases, Case};
use crate::motion::within;

fn holds(case: &Case, px: f64) {
    let kept = case.kept();
    println!("{}: {} of {}, {:.4} px", case.name, kept.count(), case.points.len(), kept.worst());
    assert_eq!(kept.count(), case.points.len());
    assert!(kept.worst() <= px, "{}: {} px, not {px}", case.name, kept.worst());
}

#[test]
#[ignore = "0.0217 px; the design's tracker 0.0310"]
fn a_shift_below_a_pixel_is_exact_to_012_at_12_points() {
    holds(&cases::translation_of_12(0.3, 0.2), 0.012);
}

#[test]
#[ignore = "0.0044 px; the design's tracker 0.0031"]
fn a_shift_of_38_px_is_exact_to_003_at_12_points() {
    holds(&cases::translation_of_12(30.0, -24.0), 0.003);
}

#[test]
#[ignore = "0.0226 px; the design's tracker 0.0470"]
fn a_shift_below_a_pixel_is_exact_to_02_at_40_points() {
    holds(&cases::translation(0.3, 0.2), 0.02);
}

#[test]
#[ignore = "0.0268 px; the design's tracker 0.0420"]
fn a_shift_of_4_px_is_exact_to_02_at_40_points() {
    holds(&cases::translation(3.7, -2.1), 0.02);
}

#[test]
#[ignore = "0.0346 px; the design's tracker 0.0470"]
fn a_shift_of_15_px_is_exact_to_02_at_40_points() {
    holds(&cases::translation(12.5, 9.0), 0.02);
}

#[test]
#[ignore = "0.469 px; the design's tracker 0.500"]
fn a_rotation_by_5_degrees_is_exact_to_42_within_150_px() {
    holds(&within(&cases::rotation(5.0), 150.0), 0.42);
}

#[test]
#[ignore = "0.194 px; the design's tracker 0.193"]
fn a_change_of_scale_is_exact_to_174_at_320() {
    holds(&cases::small_scale(), 0.174);
}

#[test]
#[ignore = "0.432 px; the design's tracker 0.393"]
fn brighter_light_moves_none_by_more_than_292() {
    holds(&cases::brighter(2), 0.292);
}

#[test]
#[ignore = "0.473 px; the design's tracker 0.346"]
fn brighter_light_moves_none_by_more_than_290_at_320() {
    holds(&cases::small_brightness(), 0.290);
}
