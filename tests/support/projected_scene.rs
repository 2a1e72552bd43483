//! Points before twelve known cameras, as the frames that export takes.

use std::sync::Arc;

use nalgebra::{Matrix3, Rotation3, UnitQuaternion, Vector3};
use trackweave::geometry::camera::{Camera, CameraOptions};
use trackweave::geometry::parallax::Parallax;
use trackweave::geometry::{Config, TwoViewGeometry};
use trackweave::message::{
    EndReason, Features, FrameInfo, FrameLog, GateDecision, GateReason, Keyframe, Keypoint, Match, Sizes,
    Source, TrackEnd, TrackRow, VerifiedFrame, VerifiedPair, VideoInfo,
};
use trackweave::numerics::SplitMix64;
use trackweave::picture::{ColorMatrix, Picture, PixelLayout, Plane};

pub const N_CAMERAS: u32 = 12;
/// Keyframes a keyframe is matched with.
const MATCHED_BACK: u32 = 5;
const N_POINTS: usize = 400;
pub const SIZES: Sizes = Sizes { analysis: (320, 240), exported: (640, 480), scale: 2.0 };
/// PINHOLE fx, fy, cx, cy of the exported picture.
pub const PARAMS: [f64; 4] = [600.0, 600.0, 320.0, 240.0];

/// A keyframe's camera: cam_from_world.
#[derive(Clone, Copy)]
pub struct Pose {
    pub rotation: Rotation3<f64>,
    pub translation: Vector3<f64>,
}

/// On an arc of 70 degrees around the points, looking at their middle.
pub fn pose(keyframe: u32) -> Pose {
    let angle = (f64::from(keyframe) / f64::from(N_CAMERAS - 1) - 0.5) * 1.2;
    let centre = Vector3::new(8.0 * angle.sin(), 0.3 * (3.0 * angle).sin(), -8.0 * angle.cos());
    let rotation = Rotation3::from_axis_angle(&Vector3::y_axis(), angle);
    Pose { rotation, translation: -(rotation * centre) }
}

fn points() -> Vec<Vector3<f64>> {
    let mut rng = SplitMix64::new(7, 0);
    let mut number = |half: f64| (2.0 * rng.unit() - 1.0) * half;
    (0..N_POINTS).map(|_| Vector3::new(number(1.9), number(1.4), number(1.5))).collect()
}

/// Exported pixel of a point.
pub fn project(pose: &Pose, point: &Vector3<f64>) -> [f64; 2] {
    let p = pose.rotation * point + pose.translation;
    [PARAMS[0] * p.x / p.z + PARAMS[2], PARAMS[1] * p.y / p.z + PARAMS[3]]
}

/// The point behind each keypoint of a keyframe: a different order in every keyframe.
pub fn points_of_keypoints(keyframe: u32) -> Vec<usize> {
    (0..N_POINTS).map(|i| (i * 7 + 31 * keyframe as usize) % N_POINTS).collect()
}

fn features(keyframe: u32) -> Features {
    let (points, pose) = (points(), pose(keyframe));
    let mut features = Features::default();
    for point in points_of_keypoints(keyframe) {
        let [x, y] = project(&pose, &points[point]).map(|v| (v / SIZES.scale - 0.5) as f32);
        let orientation = 0.01 * point as f32 - 2.0;
        features.keypoints.push(Keypoint { x, y, scale: 1.5, orientation, response: 0.05 });
        features.descriptors.push(std::array::from_fn(|i| (point * 31 + i * 7) as u8));
    }
    features
}

fn geometry(first: u32, second: u32, inliers: Vec<Match>) -> TwoViewGeometry {
    let (a, b) = (pose(first), pose(second));
    let rotation = b.rotation * a.rotation.inverse();
    let translation = (b.translation - rotation * a.translation).normalize();
    let e = translation.cross_matrix() * rotation.matrix();
    let k = Matrix3::new(PARAMS[0], 0.0, PARAMS[2], 0.0, PARAMS[1], PARAMS[3], 0.0, 0.0, 1.0);
    let k_inverse = k.try_inverse().unwrap();
    let f = k_inverse.transpose() * e * k_inverse;
    let row_major = |m: Matrix3<f64>| -> [f64; 9] { m.transpose().as_slice().try_into().unwrap() };
    let q = UnitQuaternion::from_rotation_matrix(&rotation);
    TwoViewGeometry {
        config: Config::Calibrated,
        f: Some(row_major(f)),
        e: Some(row_major(e)),
        h: None,
        cam2_from_cam1: Some(([q.w, q.i, q.j, q.k], translation.into())),
        inliers,
        parallax: None,
    }
}

/// The geometry of a pair in which every point is an inlier.
fn with_parallax(geometry: TwoViewGeometry, first: u32, second: u32) -> TwoViewGeometry {
    let options = CameraOptions { model: Some("PINHOLE".into()), params: Some(PARAMS.to_vec()) };
    let camera = Camera::from_options(&options, SIZES.exported.0, SIZES.exported.1).unwrap();
    let poses = [first, second].map(pose);
    let pair = |point: &Vector3<f64>| {
        let [[x1, y1], [x2, y2]] = poses.map(|pose| camera.cam_from_img(project(&pose, point)).unwrap());
        [x1, y1, x2, y2]
    };
    let inliers = points().iter().map(pair).collect();
    let parallax = Parallax::of(&geometry, &inliers, &camera, 4.0);
    TwoViewGeometry { parallax, ..geometry }
}

/// The pair's matches; every tenth by a track alone, every seventh by both.
fn pair(first: u32, second: u32) -> VerifiedPair {
    let keypoint_of_point = |keyframe| {
        let mut keypoints = vec![0; N_POINTS];
        for (keypoint, point) in points_of_keypoints(keyframe).into_iter().enumerate() {
            keypoints[point] = keypoint as u32;
        }
        keypoints
    };
    let (a, b) = (keypoint_of_point(first), keypoint_of_point(second));
    let source = |point: usize| match point {
        p if p % 10 == 0 => Source::Klt,
        p if p % 7 == 0 => Source::Both,
        _ => Source::Sift,
    };
    let one = |p: usize| Match { first: a[p], second: b[p], source: source(p), track: None };
    let mut matches: Vec<Match> = (0..N_POINTS).map(one).collect();
    matches.sort_by_key(|m| (m.first, m.second));
    // One pair fails: it keeps its matches only.
    let geometry = ((first, second) != (0, 5)).then(|| geometry(first, second, matches.clone()));
    let geometry = geometry.map(|geometry| with_parallax(geometry, first, second));
    VerifiedPair { first, matches, geometry }
}

fn picture(keyframe: u32) -> Picture {
    let (width, height) = SIZES.exported;
    let data = (0..width * height).map(|i| ((i % width) / 4 + (i / width) / 8 + keyframe) as u8).collect();
    Picture {
        width,
        height,
        pixel_aspect: (1, 1),
        layout: PixelLayout::Gray,
        matrix: ColorMatrix::Bt709,
        full_range: true,
        planes: vec![Plane { stride: width as usize, data }],
    }
}

/// Two sampled frames a keyframe: frame 2k is keyframe k, frame 2k + 1 is dropped. Three tracks: 0 lives to the end,
/// 1 ends at frame 5 (epipolar), 2 has its only position at frame 4.
pub fn frames() -> Vec<VerifiedFrame> {
    let info = VideoInfo {
        input: "arc.webm".into(),
        codec: "vp8".into(),
        width: 640,
        height: 480,
        ..Default::default()
    };
    let video = Arc::new(info);
    (0..2 * N_CAMERAS).map(|index| frame(index, &video)).collect()
}

fn frame(index: u32, video: &Arc<VideoInfo>) -> VerifiedFrame {
    let kept = index.is_multiple_of(2);
    let reason = if index == 0 { GateReason::First } else { GateReason::Tracks };
    let info = FrameInfo {
        index,
        number: 3 * u64::from(index),
        pts_ns: 100_100_100 * u64::from(index),
        video: video.clone(),
    };
    let alive = |track: &u32| match track {
        0 => true,
        1 => index < 5,
        _ => index == 4,
    };
    let row = |track: u32| TrackRow { track, x: 10.0 * track as f32 + index as f32, y: 20.25 };
    let end = |track, reason| TrackEnd { track, reason };
    let log = FrameLog {
        info: info.clone(),
        sizes: SIZES,
        gate: GateDecision { kept, reason, motion_px: (index > 0).then_some(2.5) },
        rows: (0..3).filter(alive).map(row).collect(),
        ends: if index == 5 {
            vec![end(2, EndReason::Residual), end(1, EndReason::Epipolar)]
        } else {
            Vec::new()
        },
    };
    let keyframe = kept.then(|| {
        let keyframe = index / 2;
        let pairs =
            (keyframe.saturating_sub(MATCHED_BACK)..keyframe).map(|first| pair(first, keyframe)).collect();
        let features = Arc::new(features(keyframe));
        let picture = Arc::new(picture(keyframe));
        (
            Arc::new(Keyframe {
                keyframe,
                info,
                sizes: SIZES,
                picture,
                features,
                track_keypoints: 0,
                seeds: 3,
                joined: 2,
                fill_ins: 1,
            }),
            pairs,
        )
    });
    VerifiedFrame { log, keyframe }
}
