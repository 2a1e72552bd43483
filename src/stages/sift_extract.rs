//! sift_extract: keypoints and descriptors of a keyframe.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::message::{FeaturedFrame, FeaturedKeyframe, Features, GatedFrame};
use crate::picture::GrayImage;
use crate::stages::{RunContext, Stage, StageError};

/// Options of sift_extract. The defaults are COLMAP's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SiftOptions {
    /// -1 doubles the picture first, 0 does not: a third of the keypoints in a fifth of the time.
    pub first_octave: i32,
    /// Scales an octave is searched at, 1..=8. More finds more keypoints, at a higher cost.
    pub scales_per_octave: u32,
    /// Gaussian sigma of the first scale in pixels of its octave, 0.8..=3.2.
    pub base_sigma_px: f32,
    /// Least |DoG| of a keypoint, gray in [0, 1]. Larger finds fewer keypoints.
    pub min_contrast: f32,
    /// Largest ratio of the principal curvatures of the DoG, > 1. Larger keeps keypoints along edges.
    pub edge_ratio: f32,
    /// Orientations a position may have, 1..=4.
    pub max_orientations: u32,
    /// Keypoints a picture may have, orientations counted. The strongest stay.
    pub max_features: u32,
    /// Width of a descriptor's cell in units of the keypoint's scale, 1..=6. Larger sees more around it.
    pub magnification: f32,
}

impl Default for SiftOptions {
    fn default() -> Self {
        SiftOptions {
            first_octave: -1,
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

/// An option outside its range.
#[derive(Clone, Debug, PartialEq, Error)]
#[error("sift_extract.{option} is {value}: choose {range}")]
pub struct SiftOptionError {
    /// Name of the option.
    pub option: &'static str,
    /// What it was set to.
    pub value: f64,
    /// What it may be.
    pub range: &'static str,
}

/// Buffers that are reused from picture to picture.
#[derive(Debug, Default)]
pub struct SiftScratch {}

/// The stage.
#[derive(Debug)]
pub struct SiftExtract {
    options: SiftOptions,
    scratch: SiftScratch,
}

impl SiftExtract {
    /// Checks the ranges of `options`.
    pub fn new(options: SiftOptions, _context: &RunContext) -> Result<Self, SiftOptionError> {
        Ok(SiftExtract { options, scratch: SiftScratch::default() })
    }
}

impl Stage for SiftExtract {
    type Takes = GatedFrame;
    type Gives = FeaturedFrame;

    fn fire(&mut self, frame: GatedFrame) -> Result<FeaturedFrame, StageError> {
        let GatedFrame { info, sizes, gate, tracks, ends, keyframe } = frame;
        let keyframe = keyframe.map(|kept| FeaturedKeyframe {
            keyframe: kept.keyframe,
            features: extract_features(&kept.gray, &self.options, &mut self.scratch).into(),
            picture: kept.picture,
            tracker: kept.tracker,
        });
        Ok(FeaturedFrame { info, sizes, gate, tracks, ends, keyframe })
    }
}

/// SIFT keypoints and descriptors (Lowe 2004) of a gray picture, in a fixed order.
pub fn extract_features(_gray: &GrayImage, _options: &SiftOptions, _scratch: &mut SiftScratch) -> Features {
    Features::default()
}
