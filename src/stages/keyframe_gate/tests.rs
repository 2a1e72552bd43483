use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::message::{EndReason, Sizes, Track, TrackEnd, VideoInfo};
use crate::picture::{GrayImage, Picture};

const MS: u64 = 1_000_000;

fn gate(options: KeyframeGateOptions) -> KeyframeGate {
    KeyframeGate::new(options, &RunContext::default()).unwrap()
}

fn flat() -> Gray {
    Gray::Host(Arc::new(GrayImage { width: 64, height: 40, data: vec![0.5; 64 * 40] }))
}

/// Frame `number` at `pts_ms` of a video of 1280 pixels (lengths at 640 double) with the given displacements.
fn frame(number: u64, pts_ms: u64, displacements: &[[f32; 2]], gray: &Gray) -> TrackedFrame {
    frame_of(Arc::default(), number, pts_ms * MS, displacements, gray)
}

fn frame_of(
    video: Arc<VideoInfo>,
    number: u64,
    pts_ns: u64,
    displacements: &[[f32; 2]],
    gray: &Gray,
) -> TrackedFrame {
    let track = |(id, d): (u32, &[f32; 2])| {
        let start = [id as f32, 2.0 * id as f32];
        Track {
            id,
            x: start[0] + d[0],
            y: start[1] + d[1],
            age: 1,
            at_keyframe: start,
            seed_keyframe: 0,
            scale: 2.0,
            zoom: Some(1.0),
            seen: true,
            claims: Vec::new(),
        }
    };
    let picture = Picture::unseen();
    TrackedFrame {
        info: FrameInfo { index: number as u32, number, pts_ns, video },
        picture: Arc::new(picture),
        gray: gray.clone(),
        sizes: Sizes { analysis: (1280, 800), exported: (1280, 800), scale: 1.0 },
        tracker: None,
        tracks: TrackTable {
            tracks: (0..).zip(displacements).map(track).collect(),
            next_id: 1000,
            whole: false,
        },
        ends: Vec::new(),
    }
}

fn decide(gate: &mut KeyframeGate, frame: TrackedFrame) -> (bool, GateReason, Option<f32>) {
    let gated = gate.fire(frame).unwrap();
    assert_eq!(gated.keyframe.is_some(), gated.gate.kept);
    (gated.gate.kept, gated.gate.reason, gated.gate.motion_px)
}

#[test]
fn tracks_decide_by_the_median_length() {
    let mut gate = gate(KeyframeGateOptions::default());
    let gray = flat();
    assert_eq!(decide(&mut gate, frame(0, 0, &[], &gray)), (true, GateReason::First, None));
    let moved = |length: f32, n: usize| -> Vec<[f32; 2]> {
        // Of 2 n + 1 tracks n stand still, n run away and one moves by `length`, along (3, 4).
        let mut all = vec![[0.0; 2]; n];
        all.extend(vec![[0.0, 512.0]; n]);
        all.push([0.6 * length, 0.8 * length]);
        all
    };
    let (kept, reason, motion) = decide(&mut gate, frame(1, 100, &moved(15.9, 40), &gray));
    assert_eq!((kept, reason), (false, GateReason::Tracks));
    assert!((motion.unwrap() - 15.9).abs() < 1e-4, "{motion:?}");
    let (kept, reason, motion) = decide(&mut gate, frame(2, 200, &moved(16.01, 40), &gray));
    assert_eq!((kept, reason), (true, GateReason::Tracks));
    assert!((motion.unwrap() - 16.01).abs() < 1e-4, "{motion:?}");
}

#[test]
fn lost_tracks_count_as_moved_and_age_does_not() {
    let gray = flat();
    let with_ends = |number: u64, reason: EndReason, n: u32| {
        let mut moved = vec![[0.0; 2]; 40];
        moved.extend(vec![[20.0, 0.0]; 40]);
        let mut frame = frame(number, 100 * number, &moved[..79], &gray);
        frame.ends = (0..n).map(|i| TrackEnd { track: 500 + i, reason }).collect();
        frame
    };
    // 79 live tracks, 40 of them still: the median is still until the lost ones shift it.
    let mut age = gate(KeyframeGateOptions::default());
    decide(&mut age, frame(0, 0, &[], &gray));
    assert_eq!(decide(&mut age, with_ends(1, EndReason::Age, 60)), (false, GateReason::Tracks, Some(0.0)));
    let mut lost = gate(KeyframeGateOptions::default());
    decide(&mut lost, frame(0, 0, &[], &gray));
    assert_eq!(
        decide(&mut lost, with_ends(1, EndReason::Residual, 0)),
        (false, GateReason::Tracks, Some(0.0))
    );
    assert_eq!(
        decide(&mut lost, with_ends(2, EndReason::Residual, 1)),
        (true, GateReason::Tracks, Some(20.0))
    );
    // They add up from frame to frame and begin anew at a keyframe.
    assert_eq!(
        decide(&mut lost, with_ends(3, EndReason::OutOfFrame, 0)),
        (false, GateReason::Tracks, Some(0.0))
    );
    assert_eq!(decide(&mut lost, with_ends(4, EndReason::OutOfFrame, 79)), (true, GateReason::Lost, None));
}

#[test]
fn too_few_tracks_leave_it_to_phase_and_an_unclear_peak_to_nobody() {
    let mut gate = gate(KeyframeGateOptions::default());
    decide(&mut gate, frame(0, 0, &[], &flat()));
    let still = [[0.0; 2]; 64];
    assert_eq!(decide(&mut gate, frame(1, 100, &still, &flat())), (false, GateReason::Tracks, Some(0.0)));
    assert_eq!(decide(&mut gate, frame(2, 200, &still[1..], &flat())), (true, GateReason::Undecided, None));
}

#[test]
fn phase_decides_where_it_is_asked_first() {
    let options =
        KeyframeGateOptions { tests: vec![GateTest::Phase, GateTest::Tracks], ..Default::default() };
    let mut gate = gate(options);
    let window = |x: usize| {
        let mut rng = crate::numerics::SplitMix64::new(1, 0);
        let wide: Vec<f32> = (0..128 * 80).map(|_| rng.unit() as f32).collect();
        let data = (0..64 * 80).map(|i| wide[i / 64 * 128 + i % 64 + x]).collect();
        Gray::Host(Arc::new(GrayImage { width: 64, height: 80, data }))
    };
    let still = [[0.0; 2]; 64];
    decide(&mut gate, frame(0, 0, &still, &window(0)));
    let (kept, reason, motion) = decide(&mut gate, frame(1, 100, &still, &window(10)));
    assert_eq!((kept, reason), (false, GateReason::Phase));
    assert!((motion.unwrap() - 10.0).abs() < 0.2, "{motion:?}");
    let (kept, reason, motion) = decide(&mut gate, frame(2, 200, &still, &window(18)));
    assert_eq!((kept, reason), (true, GateReason::Phase));
    assert!((motion.unwrap() - 18.0).abs() < 0.2, "{motion:?}");
    // From here on frame 2 is compared with.
    let (kept, _, motion) = decide(&mut gate, frame(3, 300, &still, &window(20)));
    assert!(!kept && (motion.unwrap() - 2.0).abs() < 0.2, "{motion:?}");
}

#[test]
fn the_gap_is_a_keyframe_and_counts_from_the_last_one() {
    let mut gate = gate(KeyframeGateOptions { max_gap_s: 0.5, ..Default::default() });
    let still = [[0.0; 2]; 64];
    let kept: Vec<_> = [0, 499, 500, 999, 1000]
        .map(|ms| decide(&mut gate, frame(ms, ms, &still, &flat())))
        .into_iter()
        .map(|(kept, reason, _)| (kept, reason))
        .collect();
    let (gap, dropped) = ((true, GateReason::Gap), (false, GateReason::Tracks));
    assert_eq!(kept, [(true, GateReason::First), dropped, gap, dropped, gap]);
}

#[test]
fn without_tests_every_frame_is_kept_and_ordinals_count_up() {
    let mut gate = gate(KeyframeGateOptions { tests: Vec::new(), ..Default::default() });
    for number in 0..4 {
        let gated = gate.fire(frame(7 * number, number, &[], &flat())).unwrap();
        assert_eq!(gated.gate.reason, if number == 0 { GateReason::First } else { GateReason::All });
        assert_eq!(gated.keyframe.unwrap().keyframe, number as u32);
    }
}

#[test]
fn a_dropped_frame_releases_its_picture() {
    let mut gate = gate(KeyframeGateOptions::default());
    decide(&mut gate, frame(0, 0, &[], &flat()));
    let dropped = frame(1, 100, &[[0.0; 2]; 64], &flat());
    let (picture, gray) = (Arc::downgrade(&dropped.picture), Arc::downgrade(&dropped.gray.host().unwrap()));
    let gated = gate.fire(dropped).unwrap();
    assert!(!gated.gate.kept);
    assert_eq!((picture.strong_count(), gray.strong_count()), (0, 0));
}

proptest! {
    #[test]
    fn the_budget_is_never_exceeded_and_spreads(
        budget in 1u32..40,
        duration_ms in 1u64..20_000,
        step_ms in 1u64..400,
        known in any::<bool>(),
    ) {
        let options = KeyframeGateOptions { tests: Vec::new(), max_keyframes: Some(budget), ..Default::default() };
        let mut gate = gate(options);
        let duration_ns = known.then_some(duration_ms * MS);
        let video = Arc::new(VideoInfo { duration_ns, ..Default::default() });
        let mut kept = Vec::new();
        for (number, pts_ms) in (0..duration_ms).step_by(step_ms as usize).enumerate() {
            let frame = frame_of(Arc::clone(&video), number as u64, pts_ms * MS, &[], &flat());
            match decide(&mut gate, frame) {
                (true, ..) => kept.push(pts_ms),
                (_, reason, _) => prop_assert_eq!(reason, GateReason::Budget),
            }
        }
        let n_frames = duration_ms.div_ceil(step_ms) as usize;
        prop_assert!(kept.len() <= budget as usize);
        if !known {
            prop_assert_eq!(kept.len(), n_frames.min(budget as usize));
        }
        for (n, &pts_ms) in kept.iter().enumerate().filter(|_| known) {
            prop_assert!(pts_ms * budget as u64 >= n as u64 * duration_ms, "keyframe {} at {} ms", n, pts_ms);
            prop_assert!(pts_ms < n as u64 * duration_ms / budget as u64 + step_ms + step_ms * n as u64);
        }
        // Frames closer than the spacing use the whole budget.
        if known && step_ms * (budget as u64) < duration_ms {
            prop_assert_eq!(kept.len(), budget as usize);
        }
    }
}

fn list(text: &str) -> (tempfile::NamedTempFile, KeyframeGateOptions) {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text).unwrap();
    let options = KeyframeGateOptions { keyframes_file: Some(file.path().into()), ..Default::default() };
    (file, options)
}

#[test]
fn listed_frames_are_the_keyframes() {
    let (_file, options) = list("12\n\n 4 \n");
    let mut gate = gate(options);
    let decisions = [0, 4, 8].map(|n| decide(&mut gate, frame(n, 5000 * n, &[], &flat())));
    let listed = |kept| (kept, GateReason::Listed, None);
    assert_eq!(decisions, [listed(false), listed(true), listed(false)]);
    assert!(gate.finish(StreamEnd::Cut).is_ok());
    let error = gate.finish(StreamEnd::Complete).unwrap_err().to_string();
    assert!(error.contains("frame 12 was never sampled: list"), "{error}");
    decide(&mut gate, frame(12, 70_000, &[], &flat()));
    assert!(gate.finish(StreamEnd::Complete).is_ok());
}

#[test]
fn bad_options_are_named() {
    let error = |options| KeyframeGate::new(options, &RunContext::default()).unwrap_err().to_string();
    let defaults = KeyframeGateOptions::default;
    assert!(
        error(KeyframeGateOptions { min_motion_px: -1.0, ..defaults() }).starts_with("min_motion_px = -1")
    );
    assert!(
        error(KeyframeGateOptions { min_motion_px: f32::NAN, ..defaults() }).starts_with("min_motion_px")
    );
    assert!(error(KeyframeGateOptions { min_tracks: 0, ..defaults() }).starts_with("min_tracks = 0"));
    assert!(error(KeyframeGateOptions { max_gap_s: 0.0, ..defaults() }).starts_with("max_gap_s = 0"));
    assert!(
        error(KeyframeGateOptions { max_keyframes: Some(0), ..defaults() }).starts_with("max_keyframes = 0")
    );
    let (_file, options) = list("3\nfour\n");
    assert!(error(options.clone()).contains("line 2 is 'four'"));
    assert!(error(KeyframeGateOptions { max_keyframes: Some(5), ..options }).contains("keyframes_file"));
    assert!(error(list("\n").1).contains("at least one"));
    let missing = Some(PathBuf::from("no/such/list.txt"));
    assert!(error(KeyframeGateOptions { keyframes_file: missing, ..defaults() }).contains("cannot be read"));
}
