//! The tracker against its clear form in f64.

use trackweave::kernels::klt_track::{TrackRecord, klt_track};

use crate::klt_cases::{self as cases, Case, pyramid, starts};
use crate::klt_oracle::differences;
use crate::klt_reference::{self, Form, one_way};

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
    all.push(cases::translation(3.7, -2.1).at(border(&turned)));
    all
}

/// Points up to 12 px from the border, the outermost beyond the centres of its pixels.
fn border(case: &Case) -> Vec<[f32; 2]> {
    let (width, height) = (case.first.width as f32 - 1.0, case.first.height as f32 - 1.0);
    let points = (0..40).flat_map(|i| {
        let (share, depth) = (i as f32 / 39.0, (i * 7 % 12) as f32 - 0.3);
        let (x, y) = (share * width, share * height);
        [[x, depth], [x, height - depth], [depth, y], [width - depth, y]]
    });
    points.collect()
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

#[test]
fn the_correlation_is_that_of_the_last_window_where_both_pictures_have_it() {
    let lit = cases::relit(&cases::translation(3.7, -2.1), 0.7, 0.25);
    // One long step, so that the window before it is another.
    let case = lit.at(border(&lit)).with(|options| (options.levels, options.epsilon_px) = (2, 2.0));
    let levels = case.options.levels;
    let frames = [&case.first, &case.second];
    let [template, target] = frames.map(|image| pyramid(image, levels));
    let mut records = vec![TrackRecord::default(); case.points.len()];
    klt_track(&template, &target, &case.options.track_params(), &starts(&case.points), &mut records);
    let [template, target] = frames.map(|image| klt_reference::pyramid(image, levels));
    let mut compared = 0;
    for (record, point) in records.iter().zip(&case.points).filter(|(record, _)| record.is_alive()) {
        let end = one_way(Form::IN_USE, &template, &target, &case.options, point.map(f64::from));
        let apart = (record.measure as f64 - end.measure).abs();
        assert!(apart < 1e-4 || end.close, "{point:?}: {} and {}", record.measure, end.measure);
        compared += 1;
    }
    assert!(compared > 100, "{compared} tracks");
}
