//! What the tests share: small rendered sequences with their cameras.
#![allow(dead_code)] // each test file uses a part

use std::path::Path;

use image::RgbImage;
use trackweave::picture::GrayImage;
use trackweave::scene::{CameraPath, Intrinsics, Pose, Scene};

/// Every path on which something moves.
pub const PATHS: [CameraPath; 4] =
    [CameraPath::HandHeld, CameraPath::Pan, CameraPath::Orbit, CameraPath::Forward];

/// A rendered sequence with what is true of it.
pub struct Sequence {
    pub scene: Scene,
    pub intrinsics: Intrinsics,
    pub poses: Vec<Pose>,
    pub pictures: Vec<RgbImage>,
}

impl Sequence {
    /// `n_frames` pictures of `width` x `height` at `fps` along a path through the demo's room.
    pub fn render(path: CameraPath, n_frames: usize, fps: f64, size: (u32, u32)) -> Sequence {
        Sequence::along(path.poses(n_frames, fps), size)
    }

    /// A picture of `width` x `height` from each pose.
    pub fn along(poses: Vec<Pose>, (width, height): (u32, u32)) -> Sequence {
        let (scene, intrinsics) = (Scene::demo(), Intrinsics::centered(width, height));
        let pictures = poses.iter().map(|pose| scene.render(pose, &intrinsics)).collect();
        Sequence { scene, intrinsics, poses, pictures }
    }

    /// 16 pictures of 320 x 240 at 10 fps.
    pub fn small(path: CameraPath) -> Sequence {
        Sequence::render(path, 16, 10.0, (320, 240))
    }

    /// The pictures as gray images.
    pub fn grays(&self) -> Vec<GrayImage> {
        self.pictures.iter().map(gray_from_rgb).collect()
    }

    /// Writes the pictures as `000000.png`, `000001.png`, ...: an image folder.
    pub fn write_folder(&self, folder: &Path) {
        for (k, picture) in self.pictures.iter().enumerate() {
            picture.save(folder.join(format!("{k:06}.png"))).expect("the picture is written");
        }
    }
}

/// Rec. 601 luma in [0, 1].
pub fn gray_from_rgb(picture: &RgbImage) -> GrayImage {
    let luma = |p: &image::Rgb<u8>| (0.299 * p[0] as f32 + 0.587 * p[1] as f32 + 0.114 * p[2] as f32) / 255.0;
    GrayImage {
        width: picture.width() as usize,
        height: picture.height() as usize,
        data: picture.pixels().map(luma).collect(),
    }
}

/// Bilinear value at (x, y), which must be inside by a pixel.
pub fn sample(image: &GrayImage, x: f32, y: f32) -> f32 {
    let (i, j) = (x as usize, y as usize);
    let (dx, dy) = (x - i as f32, y - j as f32);
    let row = |j| (1.0 - dx) * image.at(i, j) + dx * image.at(i + 1, j);
    (1.0 - dy) * row(j) + dy * row(j + 1)
}
