//! The tracker against its clear form in f64.

use crate::klt_cases::{self as cases, Case};
use crate::klt_oracle::differences;

#[test]
fn the_tracker_is_its_clear_form_on_every_case() {
    let (mut tracks, mut excused, mut unexcused) = (0, 0, Vec::new());
    for case in cases::all() {
        let (near, apart) = differences(&case);
        tracks += case.points.len();
        excused += near;
        unexcused.extend(apart);
    }
    println!("{tracks} tracks, {excused} differ where a number is near its limit");
    assert!(unexcused.is_empty(), "{} differ: {unexcused:#?}", unexcused.len());
    assert!(excused * 100 <= tracks, "{excused} of {tracks} differ where a number is near its limit");
}

/// Cases that the others leave out: other windows and models, thresholds that bite, points at the border, odd sizes.
fn corners() -> Vec<Case> {
    let turned = cases::rotation(5.0);
    let lit = cases::relit(&cases::translation(12.5, 9.0), 0.8, 0.1);
    let mut all = Vec::new();
    for window_px in [3, 9, 21, 33, 63] {
        let few = turned.at(turned.points[..16].to_vec());
        all.push(few.with(|options| options.window_px = window_px));
    }
    for photometric in [0, 1, 2] {
        all.push(lit.with(|options| options.photometric = photometric));
    }
    for (min_eigen, min_ncc, forward_backward_px) in [(3e-4, 0.8, 0.5), (1e-6, 0.99, 0.5), (1e-6, 0.8, 0.02)]
    {
        all.push(turned.with(|options| {
            (options.min_eigen, options.min_ncc) = (min_eigen, min_ncc);
            options.forward_backward_px = forward_backward_px;
        }));
    }
    all.push(lit.with(|options| options.max_iterations = 1));
    let (width, height) = (turned.first.width as f32 - 1.0, turned.first.height as f32 - 1.0);
    let border = (0..40).flat_map(|i| {
        let (share, depth) = (i as f32 / 39.0, (i * 7 % 12) as f32 - 0.5);
        let (x, y) = (share * width, share * height);
        [[x, depth], [x, height - depth], [depth, y], [width - depth, y]]
    });
    all.push(cases::translation(3.7, -2.1).at(border.collect()));
    all
}

#[test]
fn the_tracker_is_its_clear_form_at_other_windows_limits_and_the_border() {
    let (mut excused, mut unexcused, mut reasons) = (0, Vec::new(), std::collections::BTreeMap::new());
    let mut tracks = 0;
    for case in corners() {
        let (near, apart) = differences(&case);
        case.records().iter().for_each(|r| *reasons.entry(format!("{:?}", r.reason())).or_insert(0) += 1);
        tracks += case.points.len();
        excused += near;
        unexcused.extend(apart);
    }
    println!("{tracks} tracks, {excused} differ where a number is near its limit; {reasons:?}");
    assert_eq!(reasons.len(), 6, "alive and every reason: {reasons:?}");
    assert!(unexcused.is_empty(), "{} differ: {unexcused:#?}", unexcused.len());
    assert!(excused * 50 <= tracks, "{excused} of {tracks} differ where a number is near its limit");
}
