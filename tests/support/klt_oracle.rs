//! The tracker against its clear form in f64: the reason and whether it lives equal, positions and the way back to
//! 1e-3 px, steps within one.

use super::klt_cases::Case;
use super::klt_reference::{Form, Outcome, pyramid, track};

/// Live tracks differ by less.
const TOLERANCE_PX: f64 = 1e-3;

/// What the clear form says of every point.
pub fn outcomes(form: Form, case: &Case) -> Vec<Outcome> {
    let [template, target] = [&case.first, &case.second].map(|image| pyramid(image, case.options.levels));
    let start = |point: &[f32; 2]| point.map(f64::from);
    case.points.iter().map(|point| track(form, &template, &target, &case.options, start(point))).collect()
}

/// Whether the clear form ends elsewhere from a start that differs by less than f32 resolves.
fn rounding_decides(case: &Case, point: [f32; 2]) -> bool {
    let [template, target] = [&case.first, &case.second].map(|image| pyramid(image, case.options.levels));
    let ends = [[0.0, 0.0], [1e-5, 0.0], [-1e-5, 0.0], [0.0, 1e-5], [0.0, -1e-5]].map(|[dx, dy]| {
        let start = [point[0] as f64 + dx, point[1] as f64 + dy];
        track(Form::IN_USE, &template, &target, &case.options, start)
    });
    ends[1..].iter().any(|end| end.reason != ends[0].reason || end.distance(ends[0].position) > TOLERANCE_PX)
}

/// Tracks that differ where a number is near its limit or rounding decides, and those that differ without.
pub fn differences(case: &Case) -> (usize, Vec<String>) {
    let mut excused = 0;
    let mut unexcused = Vec::new();
    let clear = outcomes(Form::IN_USE, case);
    for ((record, clear), &point) in case.records().iter().zip(&clear).zip(&case.points) {
        let apart = clear.distance([record.x as f64, record.y as f64]);
        let same = record.reason() == clear.reason
            && (clear.reason.is_some() || apart < TOLERANCE_PX)
            && (clear.reason.is_some() || (record.measure as f64 - clear.measure).abs() < 2.0 * TOLERANCE_PX)
            && record.iterations().abs_diff(clear.iterations) <= 1;
        if !same && (clear.close || rounding_decides(case, point)) {
            excused += 1;
        } else if !same {
            unexcused.push(format!("{}, {point:?}: {apart:.5} px, {record:?}, {clear:?}", case.name));
        }
    }
    (excused, unexcused)
}
