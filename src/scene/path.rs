//! Camera paths through the demo's room.

use std::f64::consts::TAU;

use nalgebra::Vector3;
use serde::Deserialize;

use super::Pose;

/// How the camera moves. Every path starts near (0, 0, 0), at eye height, and looks into the room.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CameraPath {
    /// A walk across the room with the tremor of a hand.
    HandHeld,
    /// Turning about its own centre: no parallax, 12 degrees a second.
    Pan,
    /// The same at 30 degrees a second.
    FastPan,
    /// Turning about its optical axis, 15 degrees a second.
    Roll,
    /// Around the table at a constant distance, 14 degrees a second.
    Orbit,
    /// Straight ahead, 0.5 m a second.
    Forward,
    /// Once around the table and its things every 8 seconds, above all that stands about: it returns to its start.
    Loop,
    /// A walk across the room, 0.4 m a second, that pans to and fro by 25 degrees every 4 seconds: up to 39 degrees a
    /// second.
    Sweep,
    /// Not at all.
    Still,
}

/// The middle of the table's top, at which the moving paths look.
const TARGET: Vector3<f64> = Vector3::new(0.0, 0.35, 3.6);

impl CameraPath {
    /// `n_frames` poses at k / `fps` seconds, k = 0, 1, 2, ...
    pub fn poses(self, n_frames: usize, fps: f64) -> Vec<Pose> {
        (0..n_frames).map(|k| self.at(k as f64 / fps)).collect()
    }

    /// The pose at a time in seconds.
    pub fn at(self, seconds: f64) -> Pose {
        let start = Pose::looking_at(Vector3::zeros(), TARGET);
        match self {
            CameraPath::HandHeld => hand_held(seconds),
            CameraPath::Pan => start.turned(0.0, (12.0 * seconds - 10.0).to_radians(), 0.0),
            CameraPath::FastPan => start.turned(0.0, (30.0 * seconds - 25.0).to_radians(), 0.0),
            CameraPath::Roll => start.turned(0.0, 0.0, (15.0 * seconds).to_radians()),
            CameraPath::Orbit => {
                let angle = (14.0 * seconds - 8.0).to_radians();
                let arm = Vector3::new(libm::sin(angle), -0.1, -libm::cos(angle));
                Pose::looking_at(TARGET + arm * TARGET.z, TARGET)
            }
            CameraPath::Forward => {
                let ahead = start.cam_from_world_rotation.row(2).transpose();
                Pose { center: ahead * (0.5 * seconds), ..start }
            }
            CameraPath::Loop => {
                let angle = TAU * seconds / 8.0;
                let arm = Vector3::new(1.8 * libm::sin(angle), -1.1, -1.8 * libm::cos(angle));
                Pose::looking_at(TARGET + arm, TARGET)
            }
            CameraPath::Sweep => {
                let center = Vector3::new(-1.2 + 0.4 * seconds, -0.15, -0.2);
                let yaw = 25.0 * libm::sin(TAU * seconds / 4.0);
                Pose::looking_at(center, TARGET).turned(0.0, yaw.to_radians(), 0.0)
            }
            CameraPath::Still => start,
        }
    }
}

/// A slow arc past the table, 0.4 m a second, under a tremor of a few frequencies: about a centimetre and half a
/// degree.
fn hand_held(t: f64) -> Pose {
    let wave = |hertz: f64, phase: f64| libm::sin(TAU * (hertz * t + phase));
    let walk = Vector3::new(-1.1 + 0.4 * t, -0.15, -0.1 + 0.5 * libm::sin(0.5 * t));
    let sway = Vector3::new(
        0.012 * wave(0.9, 0.1) + 0.004 * wave(2.3, 0.6),
        0.016 * wave(1.7, 0.3) + 0.005 * wave(3.1, 0.9),
        0.012 * wave(0.7, 0.8) + 0.003 * wave(2.7, 0.2),
    );
    let aim = TARGET + Vector3::new(0.35 * wave(0.13, 0.0), 0.1 * wave(0.21, 0.4), 0.0);
    Pose::looking_at(walk + sway, aim).turned(
        0.007 * wave(1.3, 0.5) + 0.002 * wave(3.7, 0.2),
        0.008 * wave(1.1, 0.7) + 0.002 * wave(4.1, 0.4),
        0.010 * wave(0.6, 0.2) + 0.003 * wave(2.1, 0.8),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scene::{Intrinsics, Scene};

    #[test]
    fn paths_move_as_they_say() {
        let poses = |path: CameraPath| path.poses(30, 30.0);
        assert!(poses(CameraPath::Still).iter().all(|p| *p == CameraPath::Still.at(0.0)));
        for path in [CameraPath::Pan, CameraPath::FastPan, CameraPath::Roll] {
            assert!(poses(path).iter().all(|p| p.center == Vector3::zeros()));
        }
        let turn = |path: CameraPath| {
            let (from, to) = (path.at(0.0).cam_from_world_rotation, path.at(1.0).cam_from_world_rotation);
            libm::acos(((to * from.transpose()).trace() - 1.0) / 2.0).to_degrees()
        };
        assert!((turn(CameraPath::FastPan) - 30.0).abs() < 1e-9);
        assert!((turn(CameraPath::Roll) - 15.0).abs() < 1e-9);
        let axes = [0.0, 1.0].map(|t| CameraPath::Roll.at(t).cam_from_world_rotation.row(2).transpose());
        assert!((axes[0] - axes[1]).norm() < 1e-12, "a roll keeps the optical axis");
        let orbit = poses(CameraPath::Orbit);
        let distances = orbit.iter().map(|p| (p.center - TARGET).norm());
        assert!(distances.clone().all(|d| (d - (orbit[0].center - TARGET).norm()).abs() < 1e-9));
        let forward = poses(CameraPath::Forward);
        let step = forward[29].center - forward[0].center;
        assert!((forward[0].cam_from_world_rotation * step).xy().norm() < 1e-12);
    }

    #[test]
    fn a_loop_returns_and_keeps_clear_of_everything() {
        let turn = |seconds| CameraPath::Loop.at(seconds);
        let (start, end) = (turn(0.0), turn(8.0));
        assert!((start.center - end.center).norm() < 1e-9);
        assert!((start.cam_from_world_rotation - end.cam_from_world_rotation).norm() < 1e-9);
        assert!((turn(4.0).center - start.center).norm() > 3.0, "it goes round the table");
        let (scene, intrinsics) = (Scene::demo(), Intrinsics::centered(32, 18));
        for k in 0..80 {
            let depth = scene.depth(&turn(0.1 * k as f64), &intrinsics);
            assert!(depth.iter().all(|depth| (0.4..12.0).contains(depth)), "{k}: {depth:?}");
        }
    }

    #[test]
    fn a_sweep_turns_fast_and_has_parallax() {
        let poses = CameraPath::Sweep.poses(121, 20.0);
        let turns = poses.windows(2).map(|pair| {
            let turn = pair[1].cam_from_world_rotation * pair[0].cam_from_world_rotation.transpose();
            20.0 * libm::acos((turn.trace() - 1.0) / 2.0).to_degrees()
        });
        let fastest = turns.fold(0.0, f64::max);
        assert!((30.0..50.0).contains(&fastest), "{fastest} degrees a second");
        assert!((poses[120].center - poses[0].center).norm() > 2.0);
    }

    #[test]
    fn hand_held_is_smooth_and_has_parallax() {
        let poses = CameraPath::HandHeld.poses(150, 30.0);
        for pair in poses.windows(2) {
            assert!((pair[1].center - pair[0].center).norm() < 0.05, "less than 5 cm a frame");
            let turn = pair[1].cam_from_world_rotation * pair[0].cam_from_world_rotation.transpose();
            assert!((turn.trace() - 1.0) / 2.0 > libm::cos(1f64.to_radians()), "less than a degree a frame");
        }
        assert!((poses[149].center - poses[0].center).norm() > 1.5);
    }
}
