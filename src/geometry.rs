//! Cameras and two-view geometry.

use serde::{Deserialize, Serialize};

use self::parallax::Parallax;
use crate::message::Match;

pub mod camera;
pub mod essential;
pub mod fundamental;
pub mod homography;
mod lens;
mod linear;
pub mod parallax;
pub mod points;
mod polynomial;
pub mod pose;
pub mod ransac;
pub mod refine;
pub mod scoring;
pub mod two_view;

/// COLMAP's two-view configuration codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(i32)]
pub enum Config {
    /// Essential matrix, intrinsics known.
    Calibrated = 2,
    /// Fundamental matrix.
    Uncalibrated = 3,
    /// Homography of a plane.
    Planar = 4,
    /// Homography of a rotation.
    Panoramic = 5,
    /// Homography, plane and rotation not told apart.
    PlanarOrPanoramic = 6,
}

/// The geometry of a verified pair. Pixels are exported pixels (first centre at 0.5). Matrices are row-major.
#[derive(Clone, Debug, PartialEq)]
pub struct TwoViewGeometry {
    /// What was found.
    pub config: Config,
    /// x2' F x1 = 0 in pixels of the camera without distortion.
    pub f: Option<[f64; 9]>,
    /// x2' E x1 = 0 on normalised rays.
    pub e: Option<[f64; 9]>,
    /// Maps pixels of the first image to the second, distortion removed.
    pub h: Option<[f64; 9]>,
    /// cam2_from_cam1: rotation (w, x, y, z) and translation of unit length.
    pub cam2_from_cam1: Option<([f64; 4], [f64; 3])>,
    /// Inlier matches, one-to-one, ascending by (first, second): those of the merged pair and guided ones.
    pub inliers: Vec<Match>,
    /// What the inliers tell of depth; none where the geometry has no motion.
    pub parallax: Option<Parallax>,
}

#[cfg(test)]
mod tests;
