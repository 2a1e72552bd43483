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
    Track { id, x, y, age: 3, at_keyframe: [0.0, 0.0], claims }
}

fn frame(tracks: Vec<Track>, keyframe: Option<(u32, Vec<Keypoint>, Option<TrackerFrame>)>) -> FeaturedFrame {
    let info = FrameInfo { index: 5, number: 40, pts_ns: 1_000, video: Default::default() };
    let gate = GateDecision { kept: keyframe.is_some(), reason: GateReason::Tracks, motion_px: Some(9.0) };
    let next_id = tracks.iter().map(|t| t.id + 1).max().unwrap_or(0);
    FeaturedFrame {
        info,
        sizes: Sizes { analysis: SIZE, exported: SIZE, scale: 1.0 },
        gate,
        tracks: TrackTable { tracks, next_id },
        ends: Vec::new(),
        keyframe: keyframe.map(|(keyframe, keypoints, tracker)| FeaturedKeyframe {
            keyframe,
            picture: picture(),
            tracker,
            features: Arc::new(Features { descriptors: vec![[0; 128]; keypoints.len()], keypoints }),
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
fn capacity_bounds_the_table_and_fill_ins_can_be_off() {
    let corners = [(100, 100), (200, 100), (300, 100), (400, 100)];
    let keypoints: Vec<Keypoint> =
        corners[..3].iter().map(|&(x, y)| keypoint(x as f32, y as f32, 0.0)).collect();
    let at = |capacity| Some((0, keypoints.clone(), Some(tracker(&corners, capacity))));
    let (_, table) = stage(Default::default()).fire((frame(vec![], at(2)), Verdict::default())).unwrap();
    assert_eq!(table.tracks.len(), 2);
    let options = KeyframeJoinOptions { fill_ins: false, ..Default::default() };
    let (joined, table) = stage(options).fire((frame(vec![], at(1024)), Verdict::default())).unwrap();
    assert_eq!((table.tracks.len(), joined.keyframe.unwrap().0.fill_ins), (3, 0));
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

#[test]
fn without_a_tracker_nothing_is_seeded() {
    let mut join = stage(KeyframeJoinOptions::default());
    let input = frame(vec![], Some((0, vec![keypoint(100.0, 100.0, 0.0)], None)));
    let (joined, table) = join.fire((input, Verdict::default())).unwrap();
    assert!(table.tracks.is_empty());
    assert_eq!(joined.keyframe.unwrap().0.seeds, 0);
}
