//! epipolar_verify on synthetic keyframes with known motion.

use std::sync::Arc;

use nalgebra::{Matrix3, Vector3};

use super::*;
use crate::geometry::refine::rotation_from_vector;
use crate::geometry::{Config, TwoViewGeometry};
use crate::message::{
    Features, FrameInfo, FrameLog, GateDecision, GateReason, Keypoint, Match, Sizes, Source,
};
use crate::numerics::SplitMix64;
use crate::picture::Picture;

const FOCAL: f64 = 1000.0;

fn sizes(exported_width: u32) -> Sizes {
    let exported = (exported_width, exported_width * 9 / 16);
    Sizes { analysis: (640, 360), exported, scale: exported_width as f64 / 640.0 }
}

fn context(calibrated_width: Option<u32>) -> RunContext {
    let camera = calibrated_width.map(|width| CameraOptions {
        model: Some("SIMPLE_PINHOLE".to_owned()),
        params: Some(vec![FOCAL * width as f64 / 1280.0, width as f64 / 2.0, (width * 9 / 16) as f64 / 2.0]),
    });
    RunContext { seed: 5, camera: camera.unwrap_or_default(), ..RunContext::default() }
}

fn stage(context: &RunContext, guided: bool) -> EpipolarVerify {
    EpipolarVerify::new(EpipolarVerifyOptions { guided, ..Default::default() }, context).unwrap()
}

/// Keypoint `i` of every keyframe is scene point `i`, seen by a camera that moves sideways and turns.
fn keypoints(keyframe: u32, n: usize) -> Vec<Keypoint> {
    let mut rng = SplitMix64::new(11, 0);
    let k = keyframe as f64;
    let rotation = rotation_from_vector(&Vector3::new(0.0, -0.02 * k, 0.005 * k));
    let at = |_| {
        let ray = Vector3::new(rng.unit() - 0.5, 0.5 * (rng.unit() - 0.5), 1.0);
        let seen = rotation * ray * (2.0 + 4.0 * rng.unit()) + Vector3::new(-0.2 * k, 0.05 * k, 0.1 * k);
        // Analysis pixels are half of the 1280 x 720 that the focal length speaks of.
        let [x, y] = [seen.x, seen.y].map(|c| c / seen.z * FOCAL / 2.0);
        keypoint(x + 320.0 - 0.5, y + 180.0 - 0.5)
    };
    (0..n).map(at).collect()
}

fn keypoint(x: f64, y: f64) -> Keypoint {
    Keypoint { x: x as f32, y: y as f32, scale: 2.0, orientation: 0.0, response: 0.05 }
}

fn log(kept: bool, sizes: Sizes) -> FrameLog {
    let info = FrameInfo { index: 3, number: 9, pts_ns: 300, video: Default::default() };
    let gate = GateDecision { kept, reason: GateReason::Tracks, motion_px: None };
    FrameLog { info, sizes, gate, rows: Vec::new(), ends: Vec::new() }
}

/// A keyframe whose descriptors tell its keypoints apart.
fn frame(keyframe: u32, keypoints: Vec<Keypoint>, sizes: Sizes, pairs: Vec<MergedPair>) -> MergedFrame {
    let picture = Picture::unseen();
    let descriptor = |i: usize| {
        let mut rng = SplitMix64::new(i as u64, 1);
        std::array::from_fn(|_| rng.below(256) as u8)
    };
    let descriptors = (0..keypoints.len()).map(descriptor).collect();
    let log = log(true, sizes);
    let keyframe = Keyframe {
        keyframe,
        info: log.info.clone(),
        sizes,
        picture: Arc::new(picture),
        features: Arc::new(Features { keypoints, descriptors }),
        track_keypoints: 0,
        seeds: 0,
        joined: 0,
        fill_ins: 0,
    };
    MergedFrame { log, keyframe: Some((Arc::new(keyframe), pairs)) }
}

fn klt(first: u32, second: u32, track: u32) -> Match {
    Match { first, second, source: Source::Klt, track: Some(track) }
}

fn sift(first: u32, second: u32) -> Match {
    Match { first, second, source: Source::Sift, track: None }
}

/// Keypoint i with keypoint i, by track i.
fn true_matches(ids: std::ops::Range<u32>) -> Vec<Match> {
    ids.map(|i| klt(i, i, i)).collect()
}

/// What the stage says of keyframes 0 and 1 with these keypoints and matches.
fn verify_two(
    stage: &mut EpipolarVerify,
    keypoints: [Vec<Keypoint>; 2],
    exported_width: u32,
    matches: Vec<Match>,
) -> (VerifiedPair, Vec<u32>) {
    let [first, second] = keypoints;
    let sizes = sizes(exported_width);
    stage.fire(frame(0, first, sizes, Vec::new())).unwrap();
    let pair = MergedPair { first: 0, matches };
    let (verified, verdict) = stage.fire(frame(1, second, sizes, vec![pair])).unwrap();
    let (_, mut pairs) = verified.keyframe.unwrap();
    (pairs.remove(0), verdict.rejected)
}

fn geometry(pair: &VerifiedPair) -> &TwoViewGeometry {
    pair.geometry.as_ref().unwrap()
}

#[test]
fn a_known_camera_gives_e_and_the_pose() {
    let matches = true_matches(0..100);
    let (pair, rejected) = verify_two(
        &mut stage(&context(Some(1280)), false),
        [keypoints(0, 100), keypoints(1, 100)],
        1280,
        matches.clone(),
    );
    let found = geometry(&pair);
    assert_eq!((found.config, &found.inliers, &pair.matches), (Config::Calibrated, &matches, &matches));
    assert!(rejected.is_empty());
    let (q, t) = found.cam2_from_cam1.unwrap();
    let off = Vector3::from(t) - Vector3::new(-0.2, 0.05, 0.1).normalize();
    assert!(off.norm() < 1e-3, "{t:?}");
    assert!((q[2] + 0.01).abs() < 1e-4 && (q[3] - 0.0025).abs() < 1e-4, "{q:?}");
    let f = Matrix3::from_row_slice(&found.f.unwrap());
    for (a, b) in keypoints(0, 100).iter().zip(keypoints(1, 100)) {
        let exported = |k: &Keypoint| {
            let [x, y] = sizes(1280).exported_from_analysis(k.x, k.y);
            Vector3::new(x, y, 1.0)
        };
        let line = f * exported(a);
        let distance = exported(&b).dot(&line) / line.xy().norm();
        assert!(distance.abs() < 0.02, "{distance}");
    }
}

#[test]
fn an_unknown_camera_gives_f() {
    let (pair, _) = verify_two(
        &mut stage(&context(None), false),
        [keypoints(0, 100), keypoints(1, 100)],
        1280,
        true_matches(0..100),
    );
    let found = geometry(&pair);
    assert_eq!((found.config, found.inliers.len()), (Config::Uncalibrated, 100));
    assert!(found.f.is_some() && found.e.is_none() && found.cam2_from_cam1.is_none());
}

/// True matches and 60 of a keypoint with another one.
fn with_wrong_matches() -> Vec<Match> {
    let mut matches = true_matches(0..100);
    matches.extend((100..160).map(|i| klt(i, 100 + (i - 100 + 23) % 60, i)));
    matches
}

#[test]
fn wrong_tracks_are_rejected_at_any_exported_size() {
    let mut found = Vec::new();
    for width in [1280, 320] {
        let mut stage = stage(&context(Some(width)), false);
        let (pair, rejected) =
            verify_two(&mut stage, [keypoints(0, 160), keypoints(1, 160)], width, with_wrong_matches());
        let inliers: Vec<u32> = geometry(&pair).inliers.iter().map(|m| m.first).collect();
        assert!((0..100).all(|i| inliers.contains(&i)));
        assert!(rejected.len() > 45 && rejected.iter().all(|track| *track >= 100), "{rejected:?}");
        assert_eq!(inliers.len() + rejected.len(), 160);
        found.push((inliers, rejected));
    }
    assert_eq!(found[0], found[1]);

    let options = EpipolarVerifyOptions { reject: false, ..Default::default() };
    let mut stage = EpipolarVerify::new(options, &context(Some(1280))).unwrap();
    let (_, rejected) =
        verify_two(&mut stage, [keypoints(0, 160), keypoints(1, 160)], 1280, with_wrong_matches());
    assert!(rejected.is_empty());
}

#[test]
fn a_failed_pair_keeps_its_matches_and_rejects_nothing() {
    let wrong: Vec<Match> = (0..60).map(|i| klt(i, (i * 7 + 3) % 60, i)).collect();
    for matches in [wrong, true_matches(0..14), true_matches(0..1), Vec::new()] {
        for context in [context(Some(1280)), context(None)] {
            let points = [keypoints(0, 60), keypoints(1, 60)];
            let (pair, rejected) = verify_two(&mut stage(&context, false), points, 1280, matches.clone());
            assert_eq!((&pair.matches, &pair.geometry), (&matches, &None));
            assert!(rejected.is_empty());
        }
    }
}

#[test]
fn a_keypoint_keeps_the_match_with_the_smaller_residual() {
    // Keypoint 100 of the second keyframe lies 1 px beside keypoint 7: within the limit, farther than the true one.
    let mut second = keypoints(1, 100);
    second.push(Keypoint { y: second[7].y + 1.0, ..second[7] });
    let mut matches = true_matches(0..100);
    matches[7] = sift(7, 7);
    matches.insert(8, klt(7, 100, 7));
    let (pair, rejected) =
        verify_two(&mut stage(&context(Some(1280)), false), [keypoints(0, 100), second], 1280, matches);
    let inliers = &geometry(&pair).inliers;
    assert_eq!((inliers.len(), inliers[7]), (100, sift(7, 7)));
    assert_eq!(rejected, Vec::<u32>::new(), "the track agrees with the geometry");
}

#[test]
fn matches_between_the_same_two_points_count_once() {
    // Every keypoint twice, in two orientations.
    let doubled =
        |keyframe, n| -> Vec<Keypoint> { keypoints(keyframe, n).iter().flat_map(|k| [*k, *k]).collect() };
    let matches = |n: u32| (0..n).flat_map(|i| [sift(2 * i, 2 * i + 1), klt(2 * i + 1, 2 * i, i)]).collect();
    let verify = |n: u32| {
        let points = [doubled(0, n as usize), doubled(1, n as usize)];
        verify_two(&mut stage(&context(Some(1280)), false), points, 1280, matches(n)).0
    };
    assert_eq!(verify(14).geometry, None, "28 matches of 14 points");
    let pair = verify(40);
    let expected: Vec<Match> = (0..40).map(|i| klt(2 * i + 1, 2 * i, i)).collect();
    assert_eq!(geometry(&pair).inliers, expected);
}

#[test]
fn a_camera_that_stands_still_is_said_to() {
    for context in [context(Some(1280)), context(None)] {
        let points = [keypoints(0, 100), keypoints(0, 100)];
        let (pair, rejected) = verify_two(&mut stage(&context, false), points, 1280, true_matches(0..100));
        let found = geometry(&pair);
        assert_eq!((found.config, found.inliers.len(), found.cam2_from_cam1), (Config::Panoramic, 100, None));
        assert!(rejected.is_empty());
    }
}

#[test]
fn guided_matching_adds_what_the_band_allows() {
    let matches = true_matches(0..60);
    let points = || [keypoints(0, 100), keypoints(1, 100)];
    let (plain, _) = verify_two(&mut stage(&context(Some(1280)), false), points(), 1280, matches.clone());
    assert_eq!(geometry(&plain).inliers.len(), 60);
    let (guided, _) = verify_two(&mut stage(&context(Some(1280)), true), points(), 1280, matches.clone());
    assert_eq!(guided.matches, matches, "the matches row stays as merged");
    let expected: Vec<Match> = matches.into_iter().chain((60..100).map(|i| sift(i, i))).collect();
    assert_eq!(geometry(&guided).inliers, expected);
}

#[test]
fn tracks_are_rejected_by_more_than_half_of_their_verified_pairs() {
    // Each row: what the verified pairs (o: agrees, x: outlier, -: no match) and the failed pair say of the track.
    let table = [
        ("ooo", 'o', false),
        ("oox", 'x', false),
        ("oxx", 'o', true),
        ("xx-", 'o', true),
        ("ox-", 'x', false),
        ("x--", 'o', true),
        ("o--", 'x', false),
        ("---", 'x', false),
    ];
    let found = TwoViewGeometry {
        config: Config::Uncalibrated,
        f: None,
        e: None,
        h: None,
        cam2_from_cam1: None,
        inliers: Vec::new(),
        parallax: None,
    };
    let column = |at: usize, geometry: Option<TwoViewGeometry>| {
        let say = |(verified, failed, _): &(&str, char, bool)| verified.chars().nth(at).unwrap_or(*failed);
        let rows = table.iter().enumerate().filter(|(_, row)| say(row) != '-');
        let (matches, agrees) =
            rows.map(|(i, row)| (klt(i as u32, i as u32, 10 + i as u32), say(row) == 'o')).unzip();
        (MergedPair { first: at as u32, matches }, Verified { geometry, agrees })
    };
    let columns = (0..4).map(|at| column(at, (at < 3).then(|| found.clone())));
    let (pairs, verified): (Vec<MergedPair>, Vec<Verified>) = columns.unzip();
    let expected: Vec<u32> = (10..).zip(table).filter(|(_, row)| row.2).map(|(track, _)| track).collect();
    assert_eq!(rejected_tracks(&pairs, &verified), expected);
}

#[test]
fn the_result_does_not_depend_on_the_number_of_threads() {
    let run = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let mut stage = stage(&context(Some(1280)), true);
        let mut results = Vec::new();
        for keyframe in 0..5 {
            let pair = |first| MergedPair { first, matches: with_wrong_matches() };
            let frame =
                frame(keyframe, keypoints(keyframe, 160), sizes(1280), (0..keyframe).map(pair).collect());
            let (verified, verdict) = pool.install(|| stage.fire(frame)).unwrap();
            results.push((verified.keyframe.unwrap().1, verdict));
        }
        results
    };
    let alone = run(1);
    assert!(alone[4].0.iter().all(|pair| pair.geometry.is_some()));
    assert_eq!(alone, run(3));
}

#[test]
fn dropped_frames_pass() {
    let mut stage = stage(&context(None), false);
    for keyframe in 0..2 {
        let dropped = MergedFrame { log: log(false, sizes(1280)), keyframe: None };
        let (verified, verdict) = stage.fire(dropped).unwrap();
        assert!(verified.keyframe.is_none() && verdict.rejected.is_empty());
        assert_eq!(verified.log.info.number, 9);
        let (verified, _) = stage.fire(frame(keyframe, Vec::new(), sizes(1280), Vec::new())).unwrap();
        assert!(verified.keyframe.unwrap().1.is_empty());
    }
}

#[test]
fn errors_name_the_values_that_disagree() {
    let new = |options, context| EpipolarVerify::new(options, &context).unwrap_err().to_string();
    let base = EpipolarVerifyOptions::default;
    let message = new(EpipolarVerifyOptions { max_error_px: Some(f64::NAN), ..base() }, context(None));
    assert_eq!(message, "max_error_px = NaN: must be above 0 and at most 100");
    let message = new(EpipolarVerifyOptions { min_inliers: 7, ..base() }, context(None));
    assert_eq!(message, "min_inliers = 7: must be in 8..=10000");
    let mut wrong = context(None);
    wrong.camera.model = Some("CUBE".to_owned());
    assert!(new(base(), wrong).starts_with("unknown camera model `CUBE`"));

    let mut stage = stage(&context(None), false);
    let mut fire = |keyframe, pairs| {
        stage.fire(frame(keyframe, keypoints(0, 5), sizes(1280), pairs)).map(drop).map_err(|e| e.to_string())
    };
    assert_eq!(fire(3, vec![]).unwrap_err(), "keyframe 3 came where keyframe 0 was due");
    fire(0, vec![]).unwrap();
    let pair = MergedPair { first: 0, matches: vec![sift(2, 5)] };
    assert_eq!(
        fire(1, vec![pair]).unwrap_err(),
        "a match of keyframes 0 and 1 names keypoints 2 and 5, but they have 5 and 5"
    );
    let pair = MergedPair { first: 2, matches: vec![] };
    assert_eq!(
        fire(2, vec![pair]).unwrap_err(),
        "keyframe 2 has matches with keyframe 2, which is not earlier"
    );
}
