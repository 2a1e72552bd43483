//! What a verified pair tells of depth: how wide its rays meet, whether a homography would do, how the camera moved.

use nalgebra::{Matrix3, Vector3};
use serde::{Deserialize, Serialize};

use super::camera::Camera;
use super::essential::EssentialChart;
use super::homography::Homography;
use super::points::PointPairs;
use super::pose::{motion_in_front, rotation_of};
use super::ransac::{Estimator, median};
use super::refine::rotations_of;
use super::scoring::count_inliers;
use super::two_view::{calibration, inverse_calibration};
use super::{Config, TwoViewGeometry};

/// Rays that meet at a smaller angle, in degrees, make no point of a model (COLMAP: filter_min_tri_angle).
pub const MIN_ANGLE_DEG: f64 = 1.5;
/// Cells along each axis of the picture that spread is counted in.
const CELLS: usize = 4;

/// See the module. Angles are those between the rays of the inliers, 0 for a point that is not in front of both cameras.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Parallax {
    /// Median angle in degrees.
    pub median_angle_deg: f64,
    /// Inliers whose rays meet at 1.5 degrees or more.
    pub wide_inliers: u32,
    /// Share of the inliers that the homography explains.
    pub homography_share: f64,
    /// |cosine| between the motion and the optical axis of the second image: 1 is straight ahead or back.
    pub forward: f64,
    /// Share of the cells of a 4 x 4 grid over the picture with an inlier, in the image where it is less.
    pub spread: f64,
    /// The second singular value of the essential matrix over the first: 1 where the intrinsics are known, less than 1
    /// where F and the assumed focal length do not go together.
    pub essential_ratio: f64,
}

impl Parallax {
    /// Of a geometry and its inliers on the planes z = 1; none where it has no motion (see [`Config`]), or no inlier.
    pub fn of(
        geometry: &TwoViewGeometry,
        inliers: &PointPairs,
        camera: &Camera,
        max_error_px: f64,
    ) -> Option<Parallax> {
        let (motion, essential_ratio) = motion_of(geometry, inliers, camera)?;
        let mut angles: Vec<f64> = inliers.iter().map(|pair| angle_deg(&motion, &pair)).collect();
        Some(Parallax {
            wide_inliers: angles.iter().filter(|angle| **angle >= MIN_ANGLE_DEG).count() as u32,
            median_angle_deg: median(&mut angles)?,
            homography_share: homography_share(geometry, inliers, camera, max_error_px),
            forward: motion.translation.z.abs(),
            spread: spread(inliers, camera),
            essential_ratio,
        })
    }

    /// To three digits, as a record says it.
    pub fn rounded(self) -> Parallax {
        let round = |value: f64| (1000.0 * value).round() / 1000.0;
        Parallax {
            median_angle_deg: round(self.median_angle_deg),
            wide_inliers: self.wide_inliers,
            homography_share: round(self.homography_share),
            forward: round(self.forward),
            spread: round(self.spread),
            essential_ratio: round(self.essential_ratio),
        }
    }
}

/// The motion, and how near to an essential matrix it comes from.
fn motion_of(
    geometry: &TwoViewGeometry,
    inliers: &PointPairs,
    camera: &Camera,
) -> Option<(EssentialChart, f64)> {
    if let Some((rotation, translation)) = geometry.cam2_from_cam1 {
        let motion = EssentialChart { rotation: rotation_of(rotation), translation: translation.into() };
        return Some((motion, 1.0));
    }
    if geometry.config != Config::Uncalibrated {
        return None;
    }
    let calibration = calibration(camera);
    let essential = calibration.transpose() * Matrix3::from_row_slice(&geometry.f?) * calibration;
    let (_, singular_values, _) = rotations_of(&essential)?;
    let motion = motion_in_front(&essential, inliers.iter())?;
    Some((motion, singular_values[1] / singular_values[0]))
}

/// The angle at which the rays of a pair meet; 0 where they do not in front of both cameras.
fn angle_deg(motion: &EssentialChart, &[x1, y1, x2, y2]: &[f64; 4]) -> f64 {
    let first = motion.rotation * Vector3::new(x1, y1, 1.0);
    let second = Vector3::new(x2, y2, 1.0);
    let across = first.cross(&second);
    let in_front = [second, first].iter().all(|ray| -motion.translation.cross(ray).dot(&across) > 0.0);
    if in_front { libm::atan2(across.norm(), first.dot(&second)).to_degrees() } else { 0.0 }
}

/// Share of the inliers that the homography of the geometry explains.
fn homography_share(
    geometry: &TwoViewGeometry,
    inliers: &PointPairs,
    camera: &Camera,
    max_error_px: f64,
) -> f64 {
    let Some(h) = &geometry.h else { return 0.0 };
    let h = inverse_calibration(camera) * Matrix3::from_row_slice(h) * calibration(camera);
    let threshold = max_error_px / camera.mean_focal();
    let explained = count_inliers::<<Homography as Estimator>::Residual>(&h, inliers, threshold * threshold);
    explained as f64 / inliers.len() as f64
}

/// Share of the cells with an inlier.
fn spread(inliers: &PointPairs, camera: &Camera) -> f64 {
    let mut cells = [[false; CELLS * CELLS]; 2];
    let cell = |position: f64, side: u32| {
        (CELLS as f64 * position / side as f64).clamp(0.0, CELLS as f64 - 1.0) as usize
    };
    for [x1, y1, x2, y2] in inliers.iter() {
        for (cells, ray) in cells.iter_mut().zip([[x1, y1], [x2, y2]]) {
            let [x, y] = camera.pinhole_img_from_cam(ray);
            cells[cell(y, camera.height) * CELLS + cell(x, camera.width)] = true;
        }
    }
    let shares = cells.map(|cells| cells.iter().filter(|seen| **seen).count() as f64);
    shares[0].min(shares[1]) / (CELLS * CELLS) as f64
}
