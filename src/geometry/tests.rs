//! The estimators and the classification on synthetic scenes with known motion.

use nalgebra::{Matrix3, Vector3};

use super::camera::{Camera, CameraOptions};
use super::essential::{Essential, five_point};
use super::fundamental::{Fundamental, eight_point, seven_point};
use super::homography::{Homography, direct_linear_transform, four_point};
use super::points::PointPairs;
use super::pose::quaternion;
use super::ransac::{Estimator, ransac};
use super::refine::{rotation_from_vector, skew};
use super::scoring::{Residual, Sampson, Transfer, squared_residuals};
use super::two_view::{TwoView, TwoViewLimits, estimate_two_view};
use super::{Config, TwoViewGeometry};
use crate::numerics::SplitMix64;

const FOCAL: f64 = 1000.0;
const WIDTH: u32 = 1280;
const HEIGHT: u32 = 720;
const LIMITS: TwoViewLimits = TwoViewLimits { max_error_px: 4.0, min_inliers: 15 };

/// What the points lie on.
#[derive(Clone, Copy, PartialEq)]
enum Shape {
    /// Depths 3 to 9.
    Volume,
    /// A slanted plane about 5 away.
    Plane,
}

/// Point pairs on rays of a camera that moves.
struct Scene {
    rotation: Matrix3<f64>,
    translation: Vector3<f64>,
    rng: SplitMix64,
    pairs: Vec<[f64; 4]>,
}

impl Scene {
    fn new(shape: Shape, n: usize, turn: [f64; 3], translation: [f64; 3]) -> Scene {
        let (rotation, translation) = (rotation_from_vector(&turn.into()), translation.into());
        let mut scene = Scene { rotation, translation, rng: SplitMix64::new(7, n as u64), pairs: Vec::new() };
        while scene.pairs.len() < n {
            let ray = scene.anywhere();
            let depth = match shape {
                Shape::Volume => 3.0 + 6.0 * scene.rng.unit(),
                Shape::Plane => 5.0 / (1.0 + 0.3 * ray[0] - 0.2 * ray[1]),
            };
            let moved = scene.rotation * Vector3::new(ray[0], ray[1], 1.0) * depth + scene.translation;
            scene.pairs.push([ray[0], ray[1], moved.x / moved.z, moved.y / moved.z]);
        }
        scene
    }

    /// A ray of the picture.
    fn anywhere(&mut self) -> [f64; 2] {
        let size = [WIDTH as f64, HEIGHT as f64];
        size.map(|s| (self.rng.unit() - 0.5) * s / FOCAL)
    }

    /// Adds Gaussian noise to every coordinate.
    fn noisy(mut self, sigma_px: f64) -> Scene {
        for i in 0..self.pairs.len() {
            for c in 0..4 {
                let sum: f64 = (0..12).map(|_| self.rng.unit()).sum();
                self.pairs[i][c] += (sum - 6.0) * sigma_px / FOCAL;
            }
        }
        self
    }

    /// Adds `n` pairs of two points anywhere.
    fn with_outliers(mut self, n: usize) -> Scene {
        for _ in 0..n {
            let ([x1, y1], [x2, y2]) = (self.anywhere(), self.anywhere());
            self.pairs.push([x1, y1, x2, y2]);
        }
        self
    }

    fn points(&self) -> PointPairs {
        self.pairs.iter().copied().collect()
    }

    fn essential(&self) -> Matrix3<f64> {
        (skew(&self.translation) * self.rotation).normalize()
    }

    fn two_view(&self, calibrated: bool) -> Option<TwoView> {
        estimate_two_view(&self.points(), &camera(), calibrated, &LIMITS, &mut SplitMix64::new(1, 2))
    }
}

fn camera() -> Camera {
    let params = vec![FOCAL, WIDTH as f64 / 2.0, HEIGHT as f64 / 2.0, 0.0];
    let options = CameraOptions { model: Some("SIMPLE_RADIAL".to_owned()), params: Some(params) };
    Camera::from_options(&options, WIDTH, HEIGHT).unwrap()
}

fn general(n: usize) -> Scene {
    Scene::new(Shape::Volume, n, [0.02, -0.05, 0.01], [0.5, 0.1, -0.2])
}

/// Distance of two matrices of unit norm up to sign.
fn apart(a: &Matrix3<f64>, b: &Matrix3<f64>) -> f64 {
    (a.normalize() - b.normalize()).norm().min((a.normalize() + b.normalize()).norm())
}

fn nearest(models: &[Matrix3<f64>], truth: &Matrix3<f64>) -> f64 {
    models.iter().map(|m| apart(m, truth)).fold(f64::INFINITY, f64::min)
}

/// Angles in degrees to the true rotation and the true direction of translation.
fn pose_errors(scene: &Scene, geometry: &TwoViewGeometry) -> [f64; 2] {
    let (q, t) = geometry.cam2_from_cam1.unwrap();
    let truth = quaternion(&scene.rotation);
    let dot: f64 = q.iter().zip(truth).map(|(a, b)| a * b).sum();
    let turned = 2.0 * (1.0 - dot * dot).max(0.0).sqrt().asin();
    let direction = scene.translation.normalize();
    [turned.to_degrees(), Vector3::from(t).angle(&direction).to_degrees()]
}

#[test]
fn minimal_methods_recover_exact_geometry() {
    for sample in general(70).pairs.chunks_exact(7) {
        let truth = general(1).essential();
        let mut models = Vec::new();
        seven_point(sample, &mut models);
        assert!(nearest(&models, &truth) < 1e-7, "{}", nearest(&models, &truth));
        assert!(models.iter().all(|m| m.determinant().abs() < 1e-10));
        models.clear();
        five_point(&sample[..5], &mut models);
        assert!(nearest(&models, &truth) < 1e-7, "{}", nearest(&models, &truth));
        for e in &models {
            let defect = e * e.transpose() * e * 2.0 - e * (e * e.transpose()).trace();
            assert!(defect.norm() < 1e-7, "{}", defect.norm());
            let sample: PointPairs = sample[..5].iter().copied().collect();
            assert!(squared_residuals::<Sampson>(e, &sample).iter().all(|r2| *r2 < 1e-16));
        }
    }
}

#[test]
fn four_points_recover_a_homography() {
    let scene = Scene::new(Shape::Plane, 40, [0.02, -0.05, 0.01], [0.5, 0.1, -0.2]);
    for sample in scene.pairs.chunks_exact(4) {
        let Some(h) = four_point(sample) else { continue };
        let worst = squared_residuals::<Transfer>(&h, &scene.points()).into_iter().fold(0.0, f64::max);
        assert!(worst < 1e-14, "{worst}");
    }
    let line = [0.0, 1.0, 2.0, 5.0].map(|x| [x, 2.0 * x, x, x * x]);
    assert!(four_point(&line).is_none());
    let mut mirrored = [[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0]].map(|[x, y]| [x, y, x, y]);
    assert!(four_point(&mirrored).is_some());
    mirrored.iter_mut().for_each(|pair| pair[2] = -pair[2]);
    assert!(four_point(&mirrored).is_none());
}

#[test]
fn least_squares_recover_exact_geometry() {
    let scene = general(50);
    assert!(apart(&eight_point(&scene.pairs).unwrap(), &scene.essential()) < 1e-9);
    let plane = Scene::new(Shape::Plane, 50, [0.02, -0.05, 0.01], [0.5, 0.1, -0.2]);
    let h = direct_linear_transform(&plane.pairs).unwrap();
    assert!(squared_residuals::<Transfer>(&h, &plane.points()).iter().all(|r2| *r2 < 1e-20));
    assert!(eight_point(&[[0.1; 4]; 20]).is_none());
    assert!(direct_linear_transform(&[[0.1; 4]; 20]).is_none());
}

/// The residual of one pair, squared.
fn residual<R: Residual>(matrix: &Matrix3<f64>, pair: [f64; 4]) -> f64 {
    squared_residuals::<R>(matrix, &[pair].into_iter().collect())[0]
}

#[test]
fn residuals_are_lengths() {
    // Sideways motion: epipolar lines are rows, and the correction is shared by both points.
    let sideways = skew(&Vector3::x());
    let squared = residual::<Sampson>(&sideways, [0.1, 0.2, 0.7, 0.26]);
    assert!((squared - 0.06 * 0.06 / 2.0).abs() < 1e-15);
    let squared = residual::<Transfer>(&(Matrix3::identity() * 3.0), [0.1, 0.2, 0.4, 0.6]);
    assert!((squared - 0.25).abs() < 1e-15);
}

fn gradient_is_right<E: Estimator>(scene: &Scene) {
    use super::refine::Chart;
    use super::scoring::{Loss, normal_equations};
    let mut models = Vec::new();
    E::minimal(&scene.pairs[..E::SAMPLE_SIZE], &mut models);
    let chart = E::Chart::from_matrix(&models[0]).unwrap();
    let loss = Loss::Truncated { threshold2: 1e9 };
    let half_cost = |matrix: &Matrix3<f64>| {
        squared_residuals::<E::Residual>(matrix, &scene.points()).iter().sum::<f64>() / 2.0
    };
    let (_, right) = normal_equations::<E::Residual>(&chart.matrix(), &scene.points(), loss).sum();
    let gradient = chart.tangents().transpose() * right;
    for i in 0..8 {
        let moved = |by: f64| {
            let mut delta = nalgebra::SVector::zeros();
            delta[i] = by;
            half_cost(&chart.step(&delta).matrix())
        };
        let numeric = (moved(1e-6) - moved(-1e-6)) / 2e-6;
        let scale = gradient.amax().max(1e-9);
        assert!((numeric - gradient[i]).abs() < 1e-5 * scale, "{i}: {numeric} {}", gradient[i]);
    }
}

#[test]
fn derivatives_agree_with_differences() {
    let scene = general(60).noisy(3.0);
    gradient_is_right::<Fundamental>(&scene);
    gradient_is_right::<Essential>(&scene);
    gradient_is_right::<Homography>(
        &Scene::new(Shape::Plane, 60, [0.0, 0.1, 0.0], [0.4, 0.1, 0.2]).noisy(0.5),
    );
}

#[test]
fn ransac_survives_noise_and_half_outliers() {
    let scene = general(200).noisy(0.5).with_outliers(200);
    let points = scene.points();
    let threshold = 4.0 / FOCAL;
    let e = ransac::<Essential>(&points, threshold, None, &mut SplitMix64::new(1, 1)).unwrap();
    assert!((199..230).contains(&e.n_inliers), "{}", e.n_inliers);
    assert!(apart(&e.matrix, &scene.essential()) < 0.01, "{}", apart(&e.matrix, &scene.essential()));
    let f = ransac::<Fundamental>(&points, threshold, None, &mut SplitMix64::new(1, 1)).unwrap();
    assert!((199..230).contains(&f.n_inliers), "{}", f.n_inliers);
    // F is judged by the noiseless points: it leaves them far less than a noisy point's share.
    let left = squared_residuals::<Sampson>(&f.matrix, &general(200).points());
    let rms = (left.iter().sum::<f64>() / 200.0).sqrt() * FOCAL;
    assert!(rms < 0.15, "{rms}");
    let plane = Scene::new(Shape::Plane, 200, [0.0, 0.1, 0.0], [0.4, 0.1, 0.2]).noisy(0.5).with_outliers(200);
    let h = ransac::<Homography>(&plane.points(), threshold, None, &mut SplitMix64::new(1, 1)).unwrap();
    assert!((197..205).contains(&h.n_inliers), "{}", h.n_inliers);
}

#[test]
fn a_general_motion_is_calibrated_and_its_pose_exact() {
    let scene = general(300).noisy(0.5).with_outliers(150);
    let found = scene.two_view(true).unwrap();
    assert_eq!(found.geometry.config, Config::Calibrated);
    let [turned, off] = pose_errors(&scene, &found.geometry);
    assert!(turned < 0.1 && off < 0.7, "{turned} {off}");
    let exact = general(100).two_view(true).unwrap();
    let [turned, off] = pose_errors(&general(100), &exact.geometry);
    assert!(turned < 1e-5 && off < 1e-5, "{turned} {off}");
    let found = scene.two_view(false).unwrap();
    assert_eq!(found.geometry.config, Config::Uncalibrated);
    assert_eq!((found.geometry.e, found.geometry.cam2_from_cam1), (None, None));
}

#[test]
fn matrices_speak_of_pixels() {
    let scene = general(100);
    let plane = Scene::new(Shape::Plane, 100, [0.0, 0.1, 0.0], [0.4, 0.1, 0.2]);
    let pixel = |x: f64, y: f64| {
        let [x, y] = camera().pinhole_img_from_cam([x, y]);
        Vector3::new(x, y, 1.0)
    };
    for calibrated in [true, false] {
        let f = Matrix3::from_row_slice(&scene.two_view(calibrated).unwrap().geometry.f.unwrap());
        let h = Matrix3::from_row_slice(&plane.two_view(calibrated).unwrap().geometry.h.unwrap());
        for [x1, y1, x2, y2] in &scene.pairs {
            assert!((pixel(*x2, *y2).dot(&(f * pixel(*x1, *y1)))).abs() < 1e-6);
        }
        for [x1, y1, x2, y2] in &plane.pairs {
            let moved = h * pixel(*x1, *y1);
            assert!((moved / moved.z - pixel(*x2, *y2)).norm() < 1e-4);
        }
    }
}

#[test]
fn a_plane_is_planar_with_a_pose() {
    let scene =
        Scene::new(Shape::Plane, 300, [0.02, -0.05, 0.01], [0.5, 0.1, -0.2]).noisy(0.5).with_outliers(100);
    let found = scene.two_view(true).unwrap();
    assert_eq!(found.geometry.config, Config::Planar);
    assert!(found.geometry.cam2_from_cam1.is_some() && found.geometry.h.is_some());
    assert_eq!(scene.two_view(false).unwrap().geometry.config, Config::PlanarOrPanoramic);
}

#[test]
fn a_rotation_is_panoramic_and_has_no_translation() {
    for sigma_px in [0.0, 0.3, 1.0] {
        let scene =
            Scene::new(Shape::Volume, 300, [0.02, -0.15, 0.03], [0.0; 3]).noisy(sigma_px).with_outliers(100);
        let found = scene.two_view(true).unwrap().geometry;
        assert_eq!(found.config, Config::Panoramic, "{sigma_px}");
        assert_eq!((found.f, found.e, found.cam2_from_cam1), (None, None, None));
        assert!(found.h.is_some());
        assert_eq!(scene.two_view(false).unwrap().geometry.config, Config::PlanarOrPanoramic);
    }
}

#[test]
fn a_camera_that_stands_still_is_panoramic() {
    for sigma_px in [0.0, 0.1, 0.5, 1.0] {
        for n_outliers in [0, 20, 200] {
            let scene =
                Scene::new(Shape::Volume, 300, [0.0; 3], [0.0; 3]).noisy(sigma_px).with_outliers(n_outliers);
            for calibrated in [true, false] {
                let found = scene.two_view(calibrated).unwrap();
                assert_eq!(found.geometry.config, Config::Panoramic, "{sigma_px} {n_outliers} {calibrated}");
                assert_eq!((found.geometry.f, found.geometry.cam2_from_cam1), (None, None));
                let n = found.residuals.iter().filter(|r2| **r2 < 1.0).count();
                assert!((295..310).contains(&n), "{n}");
            }
        }
    }
}

#[test]
fn a_small_motion_shows_above_the_noise() {
    let scene = Scene::new(Shape::Volume, 200, [0.0, 0.02, 0.0], [0.03, 0.01, 0.0]).noisy(0.15);
    let found = scene.two_view(true).unwrap();
    assert_eq!(found.geometry.config, Config::Planar);
    let [turned, off] = pose_errors(&scene, &found.geometry);
    assert!(turned < 0.1 && off < 5.0, "{turned} {off}");
    let hidden = Scene::new(Shape::Volume, 200, [0.0, 0.02, 0.0], [0.015, 0.005, 0.0]).noisy(1.0);
    assert_eq!(hidden.two_view(true).unwrap().geometry.config, Config::Panoramic);
}

#[test]
fn a_moving_foreground_before_a_far_background_is_no_rotation() {
    let mut scene = Scene::new(Shape::Volume, 40, [0.0, 0.02, 0.0], [0.2, 0.0, 0.0]);
    let far = Scene::new(Shape::Volume, 300, [0.0, 0.02, 0.0], [0.0; 3]);
    scene.pairs.extend(far.pairs);
    let scene = scene.noisy(0.3);
    let found = scene.two_view(true).unwrap();
    assert_eq!(found.geometry.config, Config::Planar);
    let [turned, off] = pose_errors(&scene, &found.geometry);
    assert!(turned < 0.1 && off < 5.0, "{turned} {off}");
}

#[test]
fn wrong_intrinsics_are_not_believed() {
    let scene = Scene::new(Shape::Volume, 300, [0.1, -0.3, 0.2], [0.5, 0.4, -0.8]).noisy(0.3);
    assert_eq!(scene.two_view(true).unwrap().geometry.config, Config::Calibrated);
    // The rays of a camera taken for one of three times the focal length.
    let shrunk = scene.pairs.iter().map(|p| p.map(|c| c / 3.0)).collect::<PointPairs>();
    let limits = TwoViewLimits { max_error_px: 1.0, ..LIMITS };
    let found = estimate_two_view(&shrunk, &camera(), true, &limits, &mut SplitMix64::new(1, 2)).unwrap();
    assert_eq!(found.geometry.config, Config::Uncalibrated);
}

#[test]
fn few_inliers_among_many_matches_are_found() {
    for calibrated in [true, false] {
        let scene = general(40).noisy(0.5).with_outliers(80);
        let found = scene.two_view(calibrated).unwrap();
        assert!(found.residuals[..40].iter().filter(|r2| **r2 < 1.0).count() >= 38);
    }
}

#[test]
fn degenerate_input_gives_no_geometry() {
    let none = |pairs: Vec<[f64; 4]>| {
        for calibrated in [true, false] {
            let points: PointPairs = pairs.iter().copied().collect();
            let found =
                estimate_two_view(&points, &camera(), calibrated, &LIMITS, &mut SplitMix64::new(1, 2));
            assert_eq!(found, None, "{} pairs", pairs.len());
        }
    };
    for n in [0, 1, 14] {
        none(general(n).pairs);
    }
    none(vec![[0.1, 0.2, 0.1, 0.2]; 50]);
    none(vec![[f64::NAN; 4]; 50]);
    none((0..50).map(|i| [0.01 * i as f64, 0.0, 0.01 * i as f64, 0.1]).collect());
    for n in [40, 300, 1000] {
        none(Scene::new(Shape::Volume, 0, [0.0; 3], [0.0; 3]).with_outliers(n).pairs);
    }
}

#[test]
fn quaternions_of_rotations() {
    for turn in [[0.0, 0.0, 0.0], [3.1, 0.0, 0.0], [0.0, 3.1, 0.1], [0.1, 0.0, -3.1], [0.3, -0.2, 0.5]] {
        let v = Vector3::from(turn);
        let q = quaternion(&rotation_from_vector(&v));
        let half = v.norm() / 2.0;
        let axis = if half > 0.0 { v / v.norm() } else { v };
        let expected = [half.cos(), half.sin() * axis.x, half.sin() * axis.y, half.sin() * axis.z];
        assert!(q.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-9), "{q:?} {expected:?}");
    }
}
