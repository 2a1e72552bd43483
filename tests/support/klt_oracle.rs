//! The tracker against its clear form in f64: the reason and whether it lives equal, positions and the way back to
//! 1e-3 px, steps within one.
#![allow(dead_code)] // each user takes a part

use super::klt_cases::Case;
use super::klt_reference::{Form, Level, Outcome, pyramid, track};

/// Live tracks differ by less.
const TOLERANCE_PX: f64 = 1e-3;

/// What the clear form says of every point.
pub fn outcomes(form: Form, case: &Case) -> Vec<Outcome> {
    let levels = levels(case);
    case.points.iter().map(|&[x, y]| outcome(form, case, &levels, [x as f64, y as f64])).collect()
}

/// The pyramids of both frames.
fn levels(case: &Case) -> [Vec<Level>; 2] {
    [&case.first, &case.second].map(|image| pyramid(image, case.options.levels))
}

fn outcome(form: Form, case: &Case, [template, target]: &[Vec<Level>; 2], start: [f64; 2]) -> Outcome {
    track(form, template, target, &case.options, start)
}

/// Whether the clear form ends elsewhere from a start that differs by less than f32 resolves.
fn rounding_decides(case: &Case, levels: &[Vec<Level>; 2], end: &Outcome, [x, y]: [f32; 2]) -> bool {
    [[1e-5, 0.0], [-1e-5, 0.0], [0.0, 1e-5], [0.0, -1e-5]].into_iter().any(|[dx, dy]| {
        let other = outcome(Form::IN_USE, case, levels, [x as f64 + dx, y as f64 + dy]);
        other.reason != end.reason || other.distance(end.position) > TOLERANCE_PX
    })
}

/// Tracks that differ where a number is near its limit or rounding decides, and those that differ without.
pub fn differences(case: &Case) -> (usize, Vec<String>) {
    let mut excused = 0;
    let mut unexcused = Vec::new();
    let levels = levels(case);
    for (record, &point) in case.records().iter().zip(&case.points) {
        let clear = &outcome(Form::IN_USE, case, &levels, point.map(f64::from));
        let apart = clear.distance([record.x as f64, record.y as f64]);
        let same = record.reason() == clear.reason
            && (clear.reason.is_some() || apart < TOLERANCE_PX)
            && (clear.reason.is_some() || (record.measure as f64 - clear.measure).abs() < 2.0 * TOLERANCE_PX)
            && record.iterations().abs_diff(clear.iterations) <= 1;
        if !same && (clear.close || rounding_decides(case, &levels, clear, point)) {
            excused += 1;
        } else if !same {
            unexcused.push(format!("{}, {point:?}: {apart:.5} px, {record:?}, {clear:?}", case.name));
        }
    }
    (excused, unexcused)
}
