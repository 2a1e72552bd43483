//! sift_extract: keypoints and descriptors of a keyframe.

pub use crate::sift::{SiftOptionError, SiftOptions};

use crate::device::DeviceError;
use crate::message::{FeaturedFrame, FeaturedKeyframe, GatedFrame, GatedKeyframe};
use crate::sift::Extractor;
use crate::stages::{RunContext, Stage, StageError};

/// The stage.
#[derive(Debug)]
pub struct SiftExtract {
    extractor: Extractor,
}

impl SiftExtract {
    /// Checks the ranges of `options`.
    pub fn new(options: SiftOptions, context: &RunContext) -> Result<Self, SiftOptionError> {
        options.check()?;
        Ok(SiftExtract { extractor: Extractor::new(&context.device, options) })
    }
}

impl Stage for SiftExtract {
    type Takes = GatedFrame;
    type Gives = FeaturedFrame;

    fn fire(&mut self, frame: GatedFrame) -> Result<FeaturedFrame, StageError> {
        let GatedFrame { info, sizes, gate, tracks, ends, keyframe } = frame;
        let featured = |kept: GatedKeyframe| -> Result<FeaturedKeyframe, DeviceError> {
            Ok(FeaturedKeyframe {
                keyframe: kept.keyframe,
                features: self.extractor.extract(&kept.gray)?.into(),
                picture: kept.picture,
                tracker: kept.tracker,
            })
        };
        let keyframe = keyframe.map(featured).transpose()?;
        Ok(FeaturedFrame { info, sizes, gate, tracks, ends, keyframe })
    }
}
