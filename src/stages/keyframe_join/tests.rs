//! keyframe_join on hand-made frames.

use super::*;
use crate::kernels::{Pyramid, PyramidLevel};
use crate::klt::Structure;
use crate::message::{Features, FrameInfo, GateDecision, GateReason, Keypoint, KltMatch};
use crate::picture::{GrayImage, Picture};

const SIZE: (u32, u32) = (640, 480);

fn picture() -> Arc<Picture> {
    Arc::new(Picture::unseen())
}

fn stage(options: KeyframeJoinOptions) -> KeyframeJoin {
    KeyframeJoin { options }
}

/// A level whose 3 x 3 structure is strong at `corners` and nil elsewhere.
fn tracker(corners: &[(usize, usize)], capacity: u32) -> TrackerFrame {
    let (width, height) = (SIZE.0 as usize, SIZE.1 as usize);
    let mut level = PyramidLevel {
        gray: Arc::new(GrayImage::new(width, height)),
        gradient_x: vec![0.0; width * height],
        gradient_y: vec![0.0; width * height],
    };
    for &(x, y) in corners {
        level.gradient_x[y * width + x] = 0.5;
        level.gradient_y[y * width + x + 1] = 0.5;
    }
    let options = KltOptions { capacity, ..KltOptions::for_size(width, height) };
    let structure = Structure::Host(Arc::new(Pyramid { levels: vec![level] }));
    TrackerFrame { structure, options: Arc::new(options) }
}

fn keypoint(x: f32, y: f32, orientation: f32) -> Keypoint {
    Keypoint { x, y, scale: 2.0, orientation, response: 0.05 }
}

fn track(id: u32, x: f32, y: f32, claims: Vec<Claim>) -> Track {
    Track {
        id,
        x,
        y,
        age: 3,
        at_keyframe: [0.0, 0.0],
        seed_keyframe: 0,
        scale: 2.0,
        zoom: Some(1.0),
        seen: true,
        claims,
    }
}

fn frame(tracks: Vec<Track>, keyframe: Option<(u32, Vec<Keypoint>, Option<TrackerFrame>)>) -> FeaturedFrame {
    let info = FrameInfo { index: 5, number: 40, pts_ns: 1_000, video: Default::default() };
    let gate = GateDecision { kept: keyframe.is_some(), reason: GateReason::Tracks, motion_px: Some(9.0) };
    let next_id = tracks.iter().map(|t| t.id + 1).max().unwrap_or(0);
    FeaturedFrame {
        info,
        sizes: Sizes { analysis: SIZE, exported: SIZE, scale: 1.0 },
        gate,
        tracks: TrackTable { tracks, next_id, whole: false },
        ends: Vec::new(),
        keyframe: keyframe.map(|(keyframe, keypoints, tracker)| FeaturedKeyframe {
            keyframe,
            picture: picture(),
            tracker,
            features: Features { descriptors: vec![[0; 128]; keypoints.len()], keypoints },
            track_keypoints: Vec::new(),
        }),
    }
}

#[test]
fn a_verdict_ends_live_tracks_once_on_any_frame() {
    let mut join = stage(KeyframeJoinOptions::default());
    let input = frame(vec![track(1, 9.0, 9.0, vec![]), track(4, 90.0, 9.0, vec![])], None);
    let verdict = Verdict { rejected: vec![0, 4] };
    let (joined, table) = join.fire((input, verdict)).unwrap();
    assert_eq!(joined.log.ends, vec![TrackEnd { track: 4, reason: EndReason::Epipolar }]);
    assert_eq!(table.tracks.iter().map(|t| t.id).collect::<Vec<_>>(), vec![1]);
    assert_eq!(joined.log.rows, vec![TrackRow { track: 1, x: 9.0, y: 9.0 }]);
    assert!(joined.keyframe.is_none());
}

#[test]
fn a_rejected_track_does_not_join() {
    let mut join = stage(KeyframeJoinOptions::default());
    let claims = vec![Claim { keyframe: 0, keypoint: 3 }];
    let input =
        frame(vec![track(4, 100.0, 100.0, claims)], Some((1, vec![keypoint(100.0, 100.0, 0.0)], None)));
    let (joined, _) = join.fire((input, Verdict { rejected: vec![4] })).unwrap();
    assert!(joined.keyframe.unwrap().1.is_empty());
}

#[test]
fn orientations_are_one_point_and_the_first_is_claimed() {
    let mut join = stage(KeyframeJoinOptions::default());
    let keypoints = vec![keypoint(50.0, 50.0, 0.0), keypoint(100.0, 100.0, 0.1), keypoint(100.0, 100.0, 2.0)];
    let a = track(2, 100.4, 100.0, vec![Claim { keyframe: 0, keypoint: 7 }]);
    let b = track(3, 99.8, 100.0, vec![Claim { keyframe: 0, keypoint: 8 }]);
    let (joined, table) =
        join.fire((frame(vec![a, b], Some((1, keypoints, None))), Verdict::default())).unwrap();
    let (keyframe, pairs) = joined.keyframe.unwrap();
    assert_eq!(keyframe.joined, 1);
    assert_eq!(pairs, vec![KltPair { first: 0, matches: vec![KltMatch { first: 8, second: 1, track: 3 }] }]);
    // The loser stays alive where it is, its age not reset; both stand at this keyframe now.
    assert_eq!((table.tracks[0].age, table.tracks[1].age), (3, 0));
    assert_eq!((table.tracks[0].x, table.tracks[0].at_keyframe), (100.4, [100.4, 100.0]));
}

#[test]
fn seeds_are_strong_free_points_then_corners_fill_the_room() {
    let mut join = stage(KeyframeJoinOptions::default());
    let corners = [(100, 100), (200, 100), (300, 100), (400, 100)];
    let keypoints =
        vec![keypoint(100.0, 100.0, 0.0), keypoint(200.2, 100.1, 0.0), keypoint(250.0, 250.0, 0.0)];
    let live = track(9, 103.0, 100.0, vec![]); // 3 px from the first keypoint, out of the join radius
    let input = frame(vec![live], Some((2, keypoints, Some(tracker(&corners, 1024)))));
    let (joined, table) = join.fire((input, Verdict::default())).unwrap();
    let (keyframe, _) = joined.keyframe.unwrap();
    assert_eq!((keyframe.seeds, keyframe.joined, keyframe.fill_ins), (1, 0, 2));
    let seeded = &table.tracks[1];
    assert_eq!((seeded.id, seeded.x, seeded.y, seeded.age), (10, 200.2, 100.1, 0));
    assert_eq!(seeded.claims, vec![Claim { keyframe: 2, keypoint: 1 }]);
    assert!(table.tracks[2..].iter().all(|t| t.claims.is_empty() && (t.y - 100.0).abs() <= 1.0));
    assert_eq!(table.next_id, 13);
    assert_eq!(joined.log.rows.len(), 4);
}

#[test]
fn capacity_bounds_the_table_and_fill_ins_come_where_points_are_few() {
    let corners = [(100, 100), (200, 100), (300, 100), (400, 100)];
    let keypoints: Vec<Keypoint> =
        corners[..3].iter().map(|&(x, y)| keypoint(x as f32, y as f32, 0.0)).collect();
    let at = |capacity| Some((0, keypoints.clone(), Some(tracker(&corners, capacity))));
    let (_, table) = stage(Default::default()).fire((frame(vec![], at(2)), Verdict::default())).unwrap();
    assert_eq!(table.tracks.len(), 2);
    // Three points of SIFT.
    for (fill_ins_below, n) in [(0, 0), (3, 0), (4, 1)] {
        let options = KeyframeJoinOptions { fill_ins_below, ..Default::default() };
        let (joined, table) = stage(options).fire((frame(vec![], at(1024)), Verdict::default())).unwrap();
        assert_eq!((table.tracks.len(), joined.keyframe.unwrap().0.fill_ins), (3 + n as usize, n));
    }
}

#[test]
fn a_fill_in_claims_the_keypoint_beside_it() {
    let mut join = stage(KeyframeJoinOptions { join_radius_px: 0.7, ..Default::default() });
    // The corner is selected at (100, 99); the keypoints' own pixels have no structure, so they are no seeds.
    let mut claims_beside = |y: f32| {
        let kept = Some((0, vec![keypoint(100.0, y, 0.0)], Some(tracker(&[(100, 100)], 1024))));
        let (joined, table) = join.fire((frame(vec![], kept), Verdict::default())).unwrap();
        assert_eq!(
            (joined.keyframe.unwrap().0.fill_ins, table.tracks[0].x, table.tracks[0].y),
            (1, 100.0, 99.0)
        );
        table.tracks[0].claims.clone()
    };
    assert_eq!(claims_beside(98.4), vec![Claim { keyframe: 0, keypoint: 0 }]);
    assert_eq!(claims_beside(98.2), vec![]);
}

fn of_track(track: &Track) -> TrackKeypoint {
    let keypoint = Keypoint { x: track.x, y: track.y, scale: track.scale, orientation: 1.0, response: 0.0 };
    TrackKeypoint { track: track.id, keypoint, descriptor: [track.id as u8; 128] }
}

/// The keyframe with `tracks`, all of them described.
fn standing_frame(tracks: Vec<Track>, keyframe: u32, keypoints: Vec<Keypoint>) -> FeaturedFrame {
    let described = tracks.iter().map(of_track).collect();
    let mut frame = frame(tracks, Some((keyframe, keypoints, None)));
    frame.keyframe.as_mut().unwrap().track_keypoints = described;
    frame
}

#[test]
fn a_track_without_a_keypoint_becomes_one_and_others_share_theirs() {
    let seen = |keypoint| vec![Claim { keyframe: 0, keypoint }];
    let tracks = vec![track(1, 100.0, 100.0, seen(7)), track(2, 200.4, 100.0, seen(8))];
    let keypoints = vec![keypoint(50.0, 50.0, 0.0), keypoint(200.0, 100.0, 0.5)];
    let input = standing_frame(tracks.clone(), 1, keypoints);
    let (joined, table) = stage(KeyframeJoinOptions::default()).fire((input, Verdict::default())).unwrap();
    let (keyframe, pairs) = joined.keyframe.unwrap();
    assert_eq!((keyframe.joined, keyframe.track_keypoints), (1, 1));
    assert_eq!(keyframe.features.keypoints.len(), 3);
    assert_eq!(keyframe.features.keypoints[2], of_track(&tracks[0]).keypoint);
    assert_eq!(keyframe.features.descriptors[2], [1; 128]);
    let m = |first, second, track| KltMatch { first, second, track };
    assert_eq!(pairs, vec![KltPair { first: 0, matches: vec![m(7, 2, 1), m(8, 1, 2)] }]);
    // Only a join restarts the age.
    assert_eq!((table.tracks[0].age, table.tracks[1].age), (3, 0));
    assert_eq!(table.tracks[0].claims.last(), Some(&Claim { keyframe: 1, keypoint: 2 }));
}

#[test]
fn a_track_beside_a_keypoint_that_another_joined_does_not_become_one() {
    let tracks = vec![track(2, 100.4, 100.0, vec![]), track(3, 99.8, 100.0, vec![])];
    let input = standing_frame(tracks, 1, vec![keypoint(100.0, 100.0, 0.0)]);
    let (joined, _) = stage(KeyframeJoinOptions::default()).fire((input, Verdict::default())).unwrap();
    let (keyframe, _) = joined.keyframe.unwrap();
    assert_eq!((keyframe.joined, keyframe.track_keypoints), (1, 0));
}

#[test]
fn a_join_where_the_seed_is_not_seen_begins_the_zoom_anew() {
    for seen in [true, false] {
        let track = Track { seen, zoom: Some(1.5), ..track(2, 100.2, 100.0, vec![]) };
        let input = frame(vec![track], Some((1, vec![keypoint(100.0, 100.0, 0.0)], None)));
        let (_, table) = stage(KeyframeJoinOptions::default()).fire((input, Verdict::default())).unwrap();
        assert_eq!(table.tracks[0].zoom, seen.then_some(1.5));
    }
}

#[test]
fn tracks_may_become_keypoints_where_that_is_asked() {
    for whole_tracks in [true, false] {
        let options = KeyframeJoinOptions { whole_tracks, ..Default::default() };
        let input = frame(vec![track(1, 100.0, 100.0, vec![])], Some((1, vec![], None)));
        let (_, table) = stage(options).fire((input, Verdict::default())).unwrap();
        assert_eq!(table.whole, whole_tracks);
    }
}

#[test]
fn a_track_has_the_scale_it_was_seeded_at_or_joined_last() {
    let mut join = stage(KeyframeJoinOptions::default());
    let scaled = |x: f32, scale: f32| Keypoint { scale, ..keypoint(x, 100.0, 0.0) };
    let keypoints = vec![scaled(100.0, 3.5), scaled(200.0, 1.25)];
    let input = frame(
        vec![track(9, 200.2, 100.0, vec![])],
        Some((4, keypoints, Some(tracker(&[(100, 100), (300, 100)], 1024)))),
    );
    let (_, table) = join.fire((input, Verdict::default())).unwrap();
    let seen: Vec<_> = table.tracks.iter().map(|t| (t.id, t.seed_keyframe, t.scale)).collect();
    assert_eq!(seen, [(9, 0, 1.25), (10, 4, 3.5), (11, 4, CORNER_SCALE_PX)]);
}

#[test]
fn options_outside_their_range_are_named() {
    let error =
        |options| KeyframeJoin::new(options, &RunContext::default()).err().expect("refused").to_string();
    let defaults = KeyframeJoinOptions::default;
    let radius = error(KeyframeJoinOptions { join_radius_px: 9.0, ..defaults() });
    assert_eq!(radius, "keyframe_join.join_radius_px is 9, but must be 0.1..=8");
    let back = error(KeyframeJoinOptions { matched_back: 0, ..defaults() });
    assert_eq!(back, "keyframe_join.matched_back is 0, but must be 1..=10000");
}

#[test]
fn without_a_tracker_nothing_is_seeded() {
    let mut join = stage(KeyframeJoinOptions::default());
    let input = frame(vec![], Some((0, vec![keypoint(100.0, 100.0, 0.0)], None)));
    let (joined, table) = join.fire((input, Verdict::default())).unwrap();
    assert!(table.tracks.is_empty());
    assert_eq!(joined.keyframe.unwrap().0.seeds, 0);
}
