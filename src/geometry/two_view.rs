//! Two-view geometry of point pairs, classified as COLMAP does.

use nalgebra::Matrix3;

use super::camera::Camera;
use super::essential::{Essential, EssentialChart};
use super::fundamental::Fundamental;
use super::homography::{Homography, RotationChart};
use super::points::{PointPairs, row_major};
use super::pose::{motion_in_front, pose_of};
use super::ransac::{Estimate, Estimator, inlier_variance, median, ransac};
use super::refine::{Chart, refine};
use super::scoring::{Loss, Sampson, Transfer, squared_residuals};
use super::{Config, TwoViewGeometry};
use crate::numerics::SplitMix64;

/// Share of F's inliers that E must explain, or the intrinsics are not believed (COLMAP: min_E_F_inlier_ratio).
const MIN_E_F_RATIO: f64 = 0.95;
/// Share of the inliers of E or F above which a homography explains the pair (COLMAP: max_H_inlier_ratio).
const MAX_H_RATIO: f64 = 0.8;
/// Expected number of models that chance would bring forth, for a model to be believed.
const MAX_FALSE_ALARMS: f64 = 1e-3;
/// Steps of the fit of a rotation.
const ROTATION_STEPS: usize = 10;

/// What a pair must fulfil.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TwoViewLimits {
    /// Largest residual of an inlier in pixels.
    pub max_error_px: f64,
    /// Fewest inliers.
    pub min_inliers: usize,
}

/// A geometry and the residuals it leaves.
#[derive(Clone, Debug, PartialEq)]
pub struct TwoView {
    /// The geometry; `inliers` is left empty, and `parallax` to who chooses them.
    pub geometry: TwoViewGeometry,
    /// Squared residual of each pair in units of the squared limit: an inlier is below 1.
    pub residuals: Vec<f64>,
}

/// The geometry of point pairs on the planes z = 1 of the two images of one camera; none where fewer than
/// `min_inliers` agree on any. `calibrated` says whether the camera's parameters are known.
pub fn estimate_two_view(
    points: &PointPairs,
    camera: &Camera,
    calibrated: bool,
    limits: &TwoViewLimits,
    rng: &mut SplitMix64,
) -> Option<TwoView> {
    if points.len() < limits.min_inliers {
        return None;
    }
    let threshold = limits.max_error_px / camera.mean_focal();
    // Pairs come in the order of their keypoints; in random order the first blocks tell a bad model early.
    let shuffled = shuffled(points, rng);
    let e = if calibrated { ransac::<Essential>(&shuffled, threshold, None, rng) } else { None };
    let f = ransac::<Fundamental>(&shuffled, threshold, e.as_ref().map(|e| &e.matrix), rng);
    let h = ransac::<Homography>(&shuffled, threshold, None, rng);
    let models = Models { e, f, h };
    let judge = Judge { points, threshold2: threshold * threshold, min_inliers: limits.min_inliers };
    let verdict = judge.classify(&models, calibrated)?;
    let found = judge.assemble(&models, verdict, camera);
    let size = [camera.width, camera.height].map(|side| side as f64 / limits.max_error_px);
    is_beyond_chance(&found.residuals, verdict.1, size).then_some(found)
}

fn shuffled(points: &PointPairs, rng: &mut SplitMix64) -> PointPairs {
    let mut order: Vec<usize> = (0..points.len()).collect();
    for i in (1..order.len()).rev() {
        order.swap(i, rng.below(i as u32 + 1) as usize);
    }
    order.into_iter().map(|i| points.pair(i)).collect()
}

/// Whether so many pairs would not agree so well by chance: the expected number of models through random pairs with as
/// many inliers is below `MAX_FALSE_ALARMS` (Moisan and Stival 2004), within the limit or a half, quarter, eighth of it.
/// `size`: width and height of the picture in units of the limit.
fn is_beyond_chance(residuals: &[f64], holds: Holds, [width, height]: [f64; 2]) -> bool {
    let area = width * height;
    let diagonal = (width * width + height * height).sqrt();
    let n_sample = match holds {
        Holds::E => Essential::SAMPLE_SIZE,
        Holds::F => Fundamental::SAMPLE_SIZE,
        Holds::H => Homography::SAMPLE_SIZE,
    };
    let log_choose = |n: usize, k: usize| {
        let log_factorial = |n: usize| libm::lgamma(n as f64 + 1.0);
        log_factorial(n) - log_factorial(k) - log_factorial(n - k)
    };
    [1.0, 0.5, 0.25, 0.125].iter().any(|limit| {
        let n_inliers = residuals.iter().filter(|r2| **r2 < limit * limit).count();
        // A Sampson residual r is a distance of sqrt(2) r to the line in one picture.
        let chance = match holds {
            Holds::H => std::f64::consts::PI * limit * limit / area,
            Holds::E | Holds::F => (2.0 * std::f64::consts::SQRT_2 * limit * diagonal / area).min(1.0),
        };
        n_inliers > n_sample && {
            let log_false_alarms = libm::log((residuals.len() - n_sample) as f64)
                + log_choose(residuals.len(), n_inliers)
                + log_choose(n_inliers, n_sample)
                + (n_inliers - n_sample) as f64 * libm::log(chance);
            log_false_alarms < libm::log(MAX_FALSE_ALARMS)
        }
    })
}

/// The best model of each kind.
struct Models {
    e: Option<Estimate>,
    f: Option<Estimate>,
    h: Option<Estimate>,
}

/// Which model holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Holds {
    E,
    F,
    H,
}

struct Judge<'a> {
    points: &'a PointPairs,
    threshold2: f64,
    min_inliers: usize,
}

fn n_inliers(estimate: &Option<Estimate>) -> usize {
    estimate.as_ref().map_or(0, |e| e.n_inliers)
}

impl Judge<'_> {
    /// COLMAP's rules (Schonberger and Frahm 2016, section 4.1), with two differences: PLANAR and PANORAMIC are told
    /// apart by the parallax against the noise, and a camera that stands still is PANORAMIC without intrinsics too.
    fn classify(&self, models: &Models, calibrated: bool) -> Option<(Config, Holds)> {
        let (n_e, n_f, n_h) = (n_inliers(&models.e), n_inliers(&models.f), n_inliers(&models.h));
        let by_homography = |n: usize| n_h as f64 > MAX_H_RATIO * n as f64;
        if n_e >= self.min_inliers && n_e as f64 > MIN_E_F_RATIO * n_f as f64 {
            return Some(match by_homography(n_e) {
                false => (Config::Calibrated, Holds::E),
                true if self.is_rotation(models, true) => (Config::Panoramic, Holds::H),
                true => (Config::Planar, Holds::E),
            });
        }
        if n_f >= self.min_inliers && !by_homography(n_f) {
            return Some((Config::Uncalibrated, Holds::F));
        }
        if n_f.max(n_h) < self.min_inliers {
            return None;
        }
        Some(match self.is_rotation(models, calibrated) {
            true => (Config::Panoramic, Holds::H),
            false if n_h >= n_f => (Config::PlanarOrPanoramic, Holds::H),
            false => (Config::PlanarOrPanoramic, Holds::F),
        })
    }

    /// Whether a rotation (without intrinsics: no motion at all) leaves no parallax beyond the noise, neither in most
    /// pairs nor in enough of them to be a foreground.
    fn is_rotation(&self, models: &Models, calibrated: bool) -> bool {
        let Some(h) = models.h.as_ref().filter(|h| h.n_inliers >= self.min_inliers) else { return false };
        let rotation = if calibrated { self.rotation_near(&h.matrix) } else { Some(Matrix3::identity()) };
        let Some(rotation) = rotation else { return false };
        let parallax = squared_residuals::<Transfer>(&rotation, self.points);
        let (explained, noise) = match models.e.as_ref().or(models.f.as_ref()) {
            Some(model) => (
                squared_residuals::<Sampson>(&model.matrix, self.points),
                inlier_variance::<Fundamental>(&model.matrix, self.points, self.threshold2),
            ),
            None => (
                squared_residuals::<Transfer>(&h.matrix, self.points),
                0.5 * inlier_variance::<Homography>(&h.matrix, self.points, self.threshold2),
            ),
        };
        let inliers =
            || parallax.iter().zip(&explained).filter(|(_, r2)| **r2 < self.threshold2).map(|(p, _)| *p);
        let n_foreground = inliers().filter(|p2| *p2 >= self.threshold2).count();
        // Noise of both images moves a point by sqrt(2) sigma along each axis: the median of the square is 2.77
        // sigma^2, and four times that is beyond doubt. Below a quarter of the limit no noise estimate is trusted.
        let beyond_noise = (4.0 * 2.77 * noise).max(self.threshold2 / 16.0);
        let typical = median(&mut inliers().collect::<Vec<f64>>()).unwrap_or(0.0);
        n_foreground < self.min_inliers && typical < beyond_noise
    }

    fn rotation_near(&self, homography: &Matrix3<f64>) -> Option<Matrix3<f64>> {
        let loss = Loss::Truncated { threshold2: self.threshold2 };
        let start = RotationChart::from_matrix(homography)?;
        refine::<Transfer, RotationChart>(start, self.points, loss, ROTATION_STEPS)
            .map(|(chart, _)| chart.matrix())
    }

    fn assemble(&self, models: &Models, (config, holds): (Config, Holds), camera: &Camera) -> TwoView {
        let matrix = |estimate: &Option<Estimate>| estimate.as_ref().map(|e| e.matrix);
        let (e, f, h) = (matrix(&models.e), matrix(&models.f), matrix(&models.h));
        let residuals = match holds {
            Holds::E => self.residuals::<Essential>(e),
            Holds::F => self.residuals::<Fundamental>(f),
            Holds::H => self.residuals::<Homography>(h),
        };
        let motion = if holds == Holds::E { self.motion(e, &residuals) } else { None };
        let e = motion.as_ref().map(Chart::matrix);
        // A rotation has no epipolar geometry: any F through its homography fits.
        let f = if config == Config::Panoramic { None } else { e.or(f) };
        let geometry = TwoViewGeometry {
            config,
            f: f.map(|f| row_major(&pixel_fundamental(&f, camera))),
            e: e.map(|e| row_major(&e)),
            h: h.map(|h| row_major(&pixel_homography(&h, camera))),
            cam2_from_cam1: motion.as_ref().map(pose_of),
            inliers: Vec::new(),
            parallax: None,
        };
        TwoView { geometry, residuals }
    }

    fn residuals<E: Estimator>(&self, matrix: Option<Matrix3<f64>>) -> Vec<f64> {
        let squared = matrix.map(|m| squared_residuals::<E::Residual>(&m, self.points)).unwrap_or_default();
        squared.into_iter().map(|r2| r2 / self.threshold2).collect()
    }

    fn motion(&self, essential: Option<Matrix3<f64>>, residuals: &[f64]) -> Option<EssentialChart> {
        let inliers = self.points.iter().zip(residuals).filter(|(_, r2)| **r2 < 1.0).map(|(pair, _)| pair);
        motion_in_front(&essential?, inliers)
    }
}

/// Pixels of the camera without distortion from positions on the plane z = 1.
pub(super) fn calibration(camera: &Camera) -> Matrix3<f64> {
    let ([fx, fy], [cx, cy]) = (camera.focal(), camera.principal_point());
    Matrix3::new(fx, 0.0, cx, 0.0, fy, cy, 0.0, 0.0, 1.0)
}

pub(super) fn inverse_calibration(camera: &Camera) -> Matrix3<f64> {
    let ([fx, fy], [cx, cy]) = (camera.focal(), camera.principal_point());
    Matrix3::new(1.0 / fx, 0.0, -cx / fx, 0.0, 1.0 / fy, -cy / fy, 0.0, 0.0, 1.0)
}

/// F of pixels from F or E of rays, of Frobenius norm 1.
fn pixel_fundamental(matrix: &Matrix3<f64>, camera: &Camera) -> Matrix3<f64> {
    let inverse = inverse_calibration(camera);
    (inverse.transpose() * matrix * inverse).normalize()
}

/// H of pixels from H of rays, of determinant 1.
fn pixel_homography(matrix: &Matrix3<f64>, camera: &Camera) -> Matrix3<f64> {
    let homography = calibration(camera) * matrix * inverse_calibration(camera);
    homography / libm::cbrt(homography.determinant())
}
