//! Options of the extraction.

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Options of sift_extract. The defaults are COLMAP's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SiftOptions {
    /// -1 doubles the picture first, 0 does not: about 0.3 of the keypoints in a quarter of the time.
    pub first_octave: i32,
    /// Octaves at most, 1..=16. More finds larger keypoints, which repeat less.
    pub octaves: u32,
    /// Scales an octave is searched at, 2..=8. More finds more keypoints, at a higher cost.
    pub scales_per_octave: u32,
    /// Gaussian sigma of the first scale in pixels of its octave, 1.0..=2.4.
    pub base_sigma_px: f32,
    /// Least |DoG| of a keypoint, gray in [0, 1], 0..=1. Larger finds fewer keypoints.
    pub min_contrast: f32,
    /// Largest ratio of the principal curvatures of the DoG, 1..=1e6. Larger keeps keypoints along edges.
    pub edge_ratio: f32,
    /// Orientations a position may have, 1..=4.
    pub max_orientations: u32,
    /// Keypoints a picture may have, orientations counted, 1..=1e6. The strongest stay, a quarter of them spread.
    pub max_features: u32,
    /// Width of a descriptor's cell in units of the keypoint's scale, 1..=6. Larger sees more around it.
    pub magnification: f32,
}

impl Default for SiftOptions {
    fn default() -> Self {
        SiftOptions {
            first_octave: -1,
            octaves: 4,
            scales_per_octave: 3,
            base_sigma_px: 1.6,
            min_contrast: 0.02 / 3.0,
            edge_ratio: 10.0,
            max_orientations: 2,
            max_features: 4096,
            magnification: 3.0,
        }
    }
}

impl SiftOptions {
    /// The first option outside its range, if any.
    pub fn check(&self) -> Result<(), SiftOptionError> {
        let whole = |value: u32| value as f64;
        // The decimal it was given as: the f32 nearest to 2.4 is above it.
        let real = |value: f32| value.to_string().parse().unwrap_or(f64::NAN);
        let checks = [
            ("first_octave", self.first_octave as f64, -1.0..=0.0, "-1 or 0"),
            ("octaves", whole(self.octaves), 1.0..=16.0, "1..=16"),
            ("scales_per_octave", whole(self.scales_per_octave), 2.0..=8.0, "2..=8"),
            ("base_sigma_px", real(self.base_sigma_px), 1.0..=2.4, "1..=2.4"),
            ("min_contrast", real(self.min_contrast), 0.0..=1.0, "0..=1"),
            ("edge_ratio", real(self.edge_ratio), 1.0..=1e6, "1..=1e6"),
            ("max_orientations", whole(self.max_orientations), 1.0..=4.0, "1..=4"),
            ("max_features", whole(self.max_features), 1.0..=1e6, "1..=1e6"),
            ("magnification", real(self.magnification), 1.0..=6.0, "1..=6"),
        ];
        for (option, value, allowed, range) in checks {
            if !allowed.contains(&value) {
                return Err(SiftOptionError { option, value, range });
            }
        }
        Ok(())
    }
}

/// An option outside its range.
#[derive(Clone, Debug, PartialEq, Error)]
#[error("sift_extract.{option} is {value}, its range is {range}")]
pub struct SiftOptionError {
    /// Name of the option.
    pub option: &'static str,
    /// What it was set to.
    pub value: f64,
    /// What it may be.
    pub range: &'static str,
}
