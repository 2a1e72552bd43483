use super::*;
use crate::geometry::parallax::Parallax;
use crate::record::{FrameRecord, KeyframeRecord, SourceCounts};

const WELL: Circumstances =
    Circumstances { exported_side: 1280, verdict_lag_frames: 0, end: StreamEnd::Complete };

fn frame(frame: u64, reason: GateReason, kept: bool) -> FrameRecord {
    let (pts_s, ends) = (frame as f64 / 10.0, Default::default());
    FrameRecord { frame, pts_s, kept, reason, image: None, alive: 5, ends, motion_px: None }
}

fn keyframe(i: u32) -> KeyframeRecord {
    let motion_px = (i > 0).then_some(20.0);
    KeyframeRecord {
        image: format!("{i}.jpg"),
        keypoints: 500,
        track_keypoints: 0,
        seeds: 5,
        joined: 5,
        fill_ins: 0,
        motion_px,
    }
}

const GOOD: Parallax = Parallax {
    median_angle_deg: 8.0,
    wide_inliers: 120,
    homography_share: 0.3,
    forward: 0.1,
    spread: 1.0,
    essential_ratio: 1.0,
};

/// Pair of keyframe ordinals.
fn pair(first: u32, second: u32, inliers: u32) -> PairRecord {
    let config = (inliers > 0).then_some(Config::Calibrated);
    let counts = SourceCounts { sift: inliers, ..Default::default() };
    let (first, second) = (first + 1, second + 1);
    PairRecord {
        first,
        second,
        matches: counts,
        inliers,
        inliers_by_source: counts,
        config,
        parallax: Some(GOOD),
    }
}

/// `n` keyframes in a row, each linked to the next two by `inliers`.
fn chain(n: u32, inliers: u32) -> RunRecord {
    let neighbours = (0..n).flat_map(|i| [(i, i + 1), (i, i + 2)]).filter(|&(_, second)| second < n);
    RunRecord {
        frames: (0..n as u64).map(|i| frame(i, GateReason::Tracks, true)).collect(),
        keyframes: (0..n).map(keyframe).collect(),
        pairs: neighbours.map(|(first, second)| pair(first, second, inliers)).collect(),
        ..Default::default()
    }
}

fn text(record: &RunRecord, circumstances: &Circumstances) -> String {
    warnings(record, circumstances).join("\n")
}

#[test]
fn a_good_run_has_no_warning() {
    assert_eq!(text(&chain(12, 150), &WELL), "");
}

#[test]
fn a_camera_that_stands_still_is_named_and_nothing_else() {
    let mut record = chain(12, 150);
    for keyframe in record.keyframes.iter_mut().skip(1) {
        keyframe.motion_px = Some(0.5);
    }
    for pair in &mut record.pairs {
        pair.config = Some(Config::Panoramic);
    }
    insta::assert_snapshot!(text(&record, &WELL), @"the camera does not move: from keyframe to keyframe the picture moves by 0.25 px (median, longer side 640); depth shows only from different places, so move the camera around the scene");
    // 1.9 px of 1280 are 0.95 at 640; 2.1 are not.
    record.keyframes.iter_mut().for_each(|keyframe| keyframe.motion_px = Some(1.9));
    assert!(text(&record, &WELL).contains("does not move"));
    record.keyframes.iter_mut().for_each(|keyframe| keyframe.motion_px = Some(2.1));
    assert!(!text(&record, &WELL).contains("does not move"));
}

#[test]
fn a_camera_that_stands_still_is_named_without_a_second_keyframe() {
    let mut record = chain(1, 0);
    for (i, motion_px) in [0.2, 1.0, 0.4].into_iter().enumerate() {
        let dropped = frame(i as u64 + 1, GateReason::Tracks, false);
        record.frames.push(FrameRecord { motion_px: Some(motion_px), ..dropped });
    }
    let warned = text(&record, &WELL);
    assert!(
        warned.contains("does not move: no frame is more than 0.50 px (longer side 640) from"),
        "{warned}"
    );
    record.frames[2].motion_px = Some(2.1);
    assert!(!text(&record, &WELL).contains("does not move"));
}

#[test]
fn rotation_and_planes_are_told_apart() {
    let mut record = chain(12, 150);
    for pair in record.pairs.iter_mut().skip(6) {
        pair.config = Some(Config::PlanarOrPanoramic);
    }
    insta::assert_snapshot!(text(&record, &WELL), @"15 of 21 verified pairs show a rotation or a single plane: a mapper finds no depth in them; walk with the camera, and film a scene with depth");
    for pair in &mut record.pairs[..12] {
        pair.config = Some(Config::Panoramic);
    }
    insta::assert_snapshot!(text(&record, &WELL), @"the camera only rotates: 12 of 21 verified pairs show no change of place; walk with the camera instead of turning it");
}

#[test]
fn parts_without_a_link_are_named() {
    let mut record = chain(14, 150);
    record.pairs.retain(|pair| pair.second < 6 || pair.first > 6);
    record.pairs.push(pair(5, 6, 0));
    insta::assert_snapshot!(text(&record, &WELL), @r#"
    keyframes linked to no other (1 of 14): 5.jpg
    the keyframes fall into 2 parts that no verified pair links: 0.jpg to 4.jpg (5 keyframes), 6.jpg to 13.jpg (8 keyframes); a mapper makes a model of each, so film the way from one to the other slower or again
    "#);
    record.pairs.iter_mut().for_each(|pair| pair.config = None);
    insta::assert_snapshot!(text(&record, &WELL), @"no two keyframes are linked by verified matches: nothing can be mapped before other matches are added");
}

#[test]
fn thin_links_are_named_once_no_strong_pair_crosses() {
    let mut record = chain(12, 150);
    for pair in record.pairs.iter_mut().filter(|pair| pair.first <= 5 && pair.second > 5) {
        pair.inliers = 29;
    }
    insta::assert_snapshot!(text(&record, &WELL), @"thin links, no pair across has 30 inliers: between 4.jpg and 5.jpg; a mapper may stop there");
    record.pairs.push(pair(2, 9, 30));
    assert_eq!(text(&record, &WELL), "");
}

#[test]
fn few_frames_and_limits_are_said() {
    let mut record = chain(3, 150);
    record.frames.extend((3..9).map(|i| frame(i, GateReason::Budget, false)));
    let lag = Circumstances { verdict_lag_frames: 7, end: StreamEnd::Cut, ..WELL };
    insta::assert_snapshot!(text(&record, &lag), @r#"
    the run was cut after frame 8: this is what there was until then
    only 3 of 9 frames became keyframes: a model of so few images is weak; sample more frames (--fps), ask for less motion between keyframes (keyframe_gate) or film longer
    the limit of keyframes held back 6 frames: raise --max-keyframes for more overlap
    the verdicts on the last 7 frames came after the end and ended no track (keyframes among them: 1)
    "#);
    record.keyframes.clear();
    record.pairs.clear();
    assert_eq!(warnings(&record, &WELL)[0], "none of 9 frames became a keyframe");
    assert_eq!(text(&RunRecord::default(), &WELL), "no frame came out of the input");
}

#[test]
fn without_a_pair_to_begin_with_the_reasons_are_said() {
    let mut record = chain(12, 150);
    for pair in record.pairs.iter_mut().skip(3) {
        pair.parallax = Some(Parallax { median_angle_deg: 0.3, ..GOOD });
    }
    assert_eq!(text(&record, &WELL), "");
    record.pairs.iter_mut().take(3).for_each(|pair| pair.inliers = 99);
    insta::assert_snapshot!(text(&record, &WELL), @"no pair is good enough to begin an incremental mapper with: of 21 verified pairs 3 have fewer than 100 inliers, 18 have too little parallax");
}
