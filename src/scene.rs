//! The rendered scene with its known cameras: textured rectangles, ray cast. It feeds `trackweave demo` and is the
//! tests' source of exact flow, depth and poses.
//!
//! World: metres, x right, y down, z into the room. Cameras look along their +z. Image positions have pixel centres at
//! integers. The scene is Lambertian: a point's colour does not depend on the camera.

use image::RgbImage;
use nalgebra::Vector3;

pub mod camera;
pub mod demo;
pub mod evaluation;
pub mod film;
pub mod path;
mod render;
mod room;
pub mod surface;
pub mod texture;

pub use camera::{Intrinsics, Pose, true_essential, true_fundamental};
pub use path::CameraPath;
pub use room::Decor;
use surface::{Lamp, Surface};
use texture::Texture;

/// A static scene: rectangles with photographs on them and a lamp.
#[derive(Clone, Debug)]
pub struct Scene {
    /// What the layers of the surfaces refer to.
    textures: Vec<Texture>,
    surfaces: Vec<Surface>,
    lamp: Lamp,
}

/// Where a point of one image lies in another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Flow {
    /// Position in the second image, which may lie outside of it.
    pub x: f64,
    /// See `x`.
    pub y: f64,
    /// Whether the second image shows the point: inside the picture and nothing in front of it.
    pub visible: bool,
}

/// Inverse depths that differ by less than this share belong to the same point.
const SAME_DEPTH: f64 = 1e-6;

impl Scene {
    /// The demo's room: walls, floor, rug, pictures, a table and boxes at many depths.
    pub fn demo() -> Scene {
        Scene::room(Decor::Rich)
    }

    /// The same room otherwise clad.
    pub fn room(decor: Decor) -> Scene {
        room::furnished(decor)
    }

    /// A scene of its own. Every layer of `surfaces` must name one of `textures`.
    pub fn new(textures: Vec<Texture>, surfaces: Vec<Surface>, lamp: Lamp) -> Scene {
        Scene { textures, surfaces, lamp }
    }

    /// The picture a camera at `pose` takes: 8 bits, no motion blur, no noise. The same on any number of threads.
    pub fn render(&self, pose: &Pose, intrinsics: &Intrinsics) -> RgbImage {
        render::picture(self, pose, intrinsics)
    }

    /// Depth along the optical axis in metres at every pixel centre, row by row; infinite where nothing is seen.
    pub fn depth(&self, pose: &Pose, intrinsics: &Intrinsics) -> Vec<f64> {
        render::depth(self, pose, intrinsics)
    }

    /// The world point seen at (x, y).
    pub fn point_at(&self, pose: &Pose, intrinsics: &Intrinsics, x: f64, y: f64) -> Option<[f64; 3]> {
        let ray = intrinsics.ray(x, y);
        let depth = 1.0 / self.inverse_depth(pose, &ray)?;
        Some(pose.world_from_cam(&(ray * depth)).into())
    }

    /// Where the point seen at (x, y) from `pose1` is seen from `pose2`; none where nothing is seen or the point lies
    /// behind the second camera.
    pub fn flow(&self, intrinsics: &Intrinsics, pose1: &Pose, pose2: &Pose, x: f64, y: f64) -> Option<Flow> {
        let point = Vector3::from(self.point_at(pose1, intrinsics, x, y)?);
        let in_cam2 = pose2.cam_from_world(&point);
        let [x, y] = intrinsics.project(&in_cam2)?;
        let nearest = self.inverse_depth(pose2, &intrinsics.ray(x, y))?;
        let visible = intrinsics.contains(x, y) && nearest * in_cam2.z < 1.0 + SAME_DEPTH;
        Some(Flow { x, y, visible })
    }

    /// Inverse depth of the nearest surface on a ray of the camera.
    fn inverse_depth(&self, pose: &Pose, ray: &Vector3<f64>) -> Option<f64> {
        let hits = self.surfaces.iter().filter_map(|surface| surface.seen_from(pose)?.hit(ray));
        hits.fold(None, |best: Option<f64>, inverse| Some(best.map_or(inverse, |b| b.max(inverse))))
    }
}
