use nalgebra::Vector3;

use super::*;
use crate::geometry::camera::{Camera, CameraOptions};
use crate::geometry::points::PointPairs;
use crate::geometry::refine::rotation_from_vector;
use crate::geometry::two_view::{TwoViewLimits, estimate_two_view};
use crate::numerics::SplitMix64;
use crate::record::SourceCounts;

const FOCAL: f64 = 1000.0;
const SIZE: [u32; 2] = [1280, 720];
const LIMITS: TwoViewLimits = TwoViewLimits { max_error_px: 2.0, min_inliers: 15 };

/// Points before two views of a camera.
#[derive(Clone, Copy)]
struct Views {
    n: usize,
    /// Depth of the nearest and of the farthest point.
    depths: [f64; 2],
    turn: [f64; 3],
    translation: [f64; 3],
    /// Part of the picture's width and height that the points lie in.
    part: f64,
    /// The camera's focal length over the one that is believed.
    zoom: f64,
    calibrated: bool,
}

/// A step of 0.8 to the side of points 3 to 9 away.
const GOOD: Views = Views {
    n: 300,
    depths: [3.0, 9.0],
    turn: [0.01, -0.05, 0.01],
    translation: [0.8, 0.1, -0.1],
    part: 1.0,
    zoom: 1.0,
    calibrated: true,
};

impl Views {
    /// The pair with ids (first, first + 1), its noise about half a pixel.
    fn pair(&self, first: u32) -> PairRecord {
        let mut rng = SplitMix64::new(3, 0);
        let mut noise = || (0..6).map(|_| rng.unit() - 0.5).sum::<f64>() * 0.7 / FOCAL;
        let mut place = SplitMix64::new(4, 0);
        let rotation = rotation_from_vector(&self.turn.into());
        let one = |_| {
            let ray = SIZE.map(|side| (place.unit() - 0.5) * self.part * f64::from(side) / FOCAL);
            let depth = self.depths[0] + (self.depths[1] - self.depths[0]) * place.unit();
            let seen = rotation * Vector3::new(ray[0], ray[1], 1.0) * depth + Vector3::from(self.translation);
            [ray[0], ray[1], seen.x / seen.z, seen.y / seen.z].map(|at| self.zoom * at + noise())
        };
        let points: PointPairs = (0..self.n).map(one).collect();
        let camera = camera();
        let mut rng = SplitMix64::new(1, 2);
        let found = estimate_two_view(&points, &camera, self.calibrated, &LIMITS, &mut rng).unwrap();
        let agree = points.iter().zip(&found.residuals).filter(|(_, residual)| **residual < 1.0);
        let inliers: PointPairs = agree.map(|(pair, _)| pair).collect();
        let parallax = Parallax::of(&found.geometry, &inliers, &camera, LIMITS.max_error_px);
        let counts = SourceCounts::default();
        PairRecord {
            first,
            second: first + 1,
            matches: counts,
            inliers: inliers.len() as u32,
            inliers_by_source: counts,
            config: Some(found.geometry.config),
            parallax,
        }
    }
}

fn camera() -> Camera {
    let params = vec![FOCAL, f64::from(SIZE[0]) / 2.0, f64::from(SIZE[1]) / 2.0];
    let options = CameraOptions { model: Some("SIMPLE_PINHOLE".to_owned()), params: Some(params) };
    Camera::from_options(&options, SIZE[0], SIZE[1]).unwrap()
}

fn refusal(views: Views) -> String {
    choose(&[views.pair(1)]).unwrap_err().to_string()
}

#[test]
fn a_step_to_the_side_says_what_speaks_for_it() {
    for calibrated in [true, false] {
        let pair = choose(&[Views { calibrated, ..GOOD }.pair(7)]).unwrap();
        assert_eq!((pair.first, pair.second, pair.forward_only), (7, 8, false));
        let parallax = pair.parallax;
        // 6.63 over the whole volume.
        assert!((parallax.median_angle_deg - 6.63).abs() < 0.3, "{parallax:?}");
        assert!(parallax.wide_inliers == pair.inliers && pair.inliers > 290, "{pair:?}");
        assert!((parallax.forward - 0.123).abs() < 0.02, "{parallax:?}");
        assert!(parallax.homography_share < 0.2 && parallax.spread > 0.9, "{parallax:?}");
        assert!(parallax.essential_ratio > 0.98, "{parallax:?}");
    }
}

#[test]
fn what_makes_no_beginning_is_refused_with_the_reason() {
    let turning = Views { translation: [0.0; 3], ..GOOD };
    let wall = Views { depths: [6.0, 6.0], turn: [0.0; 3], ..GOOD };
    for calibrated in [true, false] {
        for views in [turning, wall] {
            let says = refusal(Views { calibrated, ..views });
            assert_eq!(says, "of 1 verified pairs 1 show a rotation or a plane", "{calibrated}");
        }
    }
    let few = Views { n: 90, ..GOOD };
    assert_eq!(refusal(few), "of 1 verified pairs 1 have fewer than 100 inliers");
    let short = Views { translation: [0.08, 0.0, 0.0], ..GOOD };
    assert_eq!(refusal(short), "of 1 verified pairs 1 have too little parallax");
    let corner =
        Views { part: 0.3, turn: [0.0; 3], translation: [0.8, 0.0, 0.0], depths: [6.0, 9.0], ..GOOD };
    assert_eq!(refusal(corner), "of 1 verified pairs 1 have all inliers in a corner");
    let zoomed = Views { zoom: 0.4, calibrated: false, turn: [0.1, -0.3, 0.2], ..GOOD };
    assert_eq!(refusal(zoomed), "of 1 verified pairs 1 do not fit the assumed focal length");
    let failed = PairRecord { config: None, inliers: 0, parallax: None, ..GOOD.pair(1) };
    assert!(!choose(&[failed]).unwrap_err().any_verified());
}

#[test]
fn of_good_pairs_the_one_with_most_depth_is_chosen() {
    let chosen = |others: &[Views]| {
        let pairs = [&[GOOD], others].concat();
        let pairs: Vec<PairRecord> = (1..).zip(&pairs).map(|(first, views)| views.pair(first)).collect();
        choose(&pairs).unwrap().first
    };
    let ahead = Views { translation: [0.0, 0.0, -1.6], ..GOOD };
    let nearly_flat = Views { depths: [5.6, 6.4], ..GOOD };
    let shorter = Views { translation: [0.4, 0.05, -0.05], ..GOOD };
    let fewer = Views { n: 200, ..GOOD };
    let narrow = Views { part: 0.6, ..GOOD };
    assert_eq!(chosen(&[ahead, nearly_flat, shorter, fewer, narrow]), 1);
    let longer = Views { translation: [1.2, 0.1, -0.1], ..GOOD };
    assert_eq!(chosen(&[ahead, longer, fewer]), 3);
    // The earlier of two that are equal, in any order.
    assert_eq!(chosen(&[GOOD]), 1);
    assert_eq!(choose(&[GOOD.pair(5), GOOD.pair(2)]).unwrap().first, 2);
    // Straight ahead is taken where there is nothing else.
    let pair = choose(&[ahead.pair(1)]).unwrap();
    assert!(pair.forward_only && pair.parallax.median_angle_deg > 1.0, "{pair:?}");
}
