//! `trackweave demo`: the room on film, with the truth beside it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::evaluation::{Evaluation, EvaluationError};
use super::{CameraPath, Intrinsics, Pose, Scene};
use crate::geometry::camera::CameraOptions;

#[cfg(feature = "video")]
use crate::video::VideoError;
#[cfg(feature = "video")]
use crate::video::encode::{VideoEncoder, VideoQuality};

/// A rendered video and what is true of it.
#[derive(Clone, Debug)]
pub struct Demo {
    /// What is filmed.
    pub scene: Scene,
    /// With which camera.
    pub intrinsics: Intrinsics,
    /// Frames a second.
    pub fps: u32,
    /// One pose a frame.
    pub poses: Vec<Pose>,
}

/// What `render_video` wrote.
#[derive(Clone, Debug, PartialEq)]
pub struct RenderedVideo {
    /// The video.
    pub path: PathBuf,
    /// Its camera, for the exported picture at full size.
    pub camera: CameraOptions,
}

/// What keeps the demo from being rendered.
#[derive(Debug, thiserror::Error)]
pub enum DemoError {
    /// The file system refused.
    #[error("cannot write {}", path.display())]
    Io {
        /// Which file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// The encoder refused.
    #[cfg(feature = "video")]
    #[error(transparent)]
    Video(#[from] VideoError),
}

impl Demo {
    /// Six seconds of a hand-held walk: 150 frames of 960 x 540 at 25 frames a second.
    pub fn walk() -> Demo {
        let fps = 25;
        let poses = CameraPath::HandHeld.poses(150, fps as f64);
        Demo { scene: Scene::demo(), intrinsics: Intrinsics::centered(960, 540), fps, poses }
    }

    /// Renders and encodes `folder`/demo.webm and writes the truth: `gt_poses.txt` (TUM: t tx ty tz qx qy qz qw, camera
    /// to world) and `camera.txt` (COLMAP: model width height parameters). `progress` hears of every finished frame.
    #[cfg(feature = "video")]
    pub fn render_video(
        &self,
        folder: &Path,
        mut progress: impl FnMut(usize),
    ) -> Result<RenderedVideo, DemoError> {
        let Intrinsics { width, height, .. } = self.intrinsics;
        self.write_truth(folder)?;
        let path = folder.join("demo.webm");
        let mut encoder = VideoEncoder::create(&path, width, height, self.fps, 1, VideoQuality::High)?;
        for (frame, pose) in self.poses.iter().enumerate() {
            encoder.push(&self.scene.render(pose, &self.intrinsics))?;
            progress(frame + 1);
        }
        encoder.finish()?;
        Ok(RenderedVideo { path, camera: self.camera() })
    }

    /// The known camera of the pictures at full size.
    pub fn camera(&self) -> CameraOptions {
        let params = self.intrinsics.colmap_params().to_vec();
        CameraOptions { model: Some("SIMPLE_PINHOLE".to_owned()), params: Some(params) }
    }

    /// Measures what a run on the video wrote into `out`. The run needs `export.matches = true`.
    pub fn evaluate(&self, out: &Path) -> Result<Evaluation, EvaluationError> {
        Evaluation::of_run(self, out)
    }

    /// Writes gt_poses.txt and camera.txt into `folder`, which is created.
    pub fn write_truth(&self, folder: &Path) -> Result<(), DemoError> {
        let failed = |path: &Path| {
            let path = path.to_path_buf();
            move |source| DemoError::Io { path, source }
        };
        fs::create_dir_all(folder).map_err(failed(folder))?;
        let poses: String =
            self.poses.iter().enumerate().map(|(frame, pose)| self.tum_line(frame, pose)).collect();
        let [f, cx, cy] = self.intrinsics.colmap_params();
        let camera =
            format!("SIMPLE_PINHOLE {} {} {f} {cx} {cy}\n", self.intrinsics.width, self.intrinsics.height);
        for (name, text) in [("gt_poses.txt", poses), ("camera.txt", camera)] {
            let path = folder.join(name);
            fs::write(&path, text).map_err(failed(&path))?;
        }
        Ok(())
    }

    fn tum_line(&self, frame: usize, pose: &Pose) -> String {
        let (seconds, center) = (frame as f64 / self.fps as f64, pose.center);
        let [qx, qy, qz, qw] = pose.world_from_cam_xyzw();
        let [tx, ty, tz] = [center.x, center.y, center.z];
        format!("{seconds:.6} {tx:.9} {ty:.9} {tz:.9} {qx:.9} {qy:.9} {qz:.9} {qw:.9}\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn truth_is_written_for_every_frame() {
        let folder = tempfile::tempdir().unwrap();
        Demo::walk().write_truth(folder.path()).unwrap();
        let poses = fs::read_to_string(folder.path().join("gt_poses.txt")).unwrap();
        assert_eq!(poses.lines().count(), 150);
        assert!(poses.lines().nth(50).unwrap().starts_with("2.000000 "));
        let camera = fs::read_to_string(folder.path().join("camera.txt")).unwrap();
        assert_eq!(camera, "SIMPLE_PINHOLE 960 540 816 480 270\n");
    }
}
