//! sift_extract: keypoints and descriptors of a keyframe.

pub use crate::sift::{SiftOptionError, SiftOptions};

use crate::device::DeviceError;
use crate::message::{FeaturedFrame, FeaturedKeyframe, GatedFrame, GatedKeyframe, Track, TrackKeypoint};
use crate::sift::{DescribedPlace, Extractor, Place};
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
        let featured =
            |kept: GatedKeyframe| -> Result<FeaturedKeyframe, DeviceError> {
                let standing: Vec<&Track> = tracks.tracks.iter().filter(|track| track.may_stand).collect();
                let place = |track: &&Track| Place { x: track.x, y: track.y, scale: track.scale };
                let places: Vec<Place> = standing.iter().map(place).collect();
                let (features, described) = self.extractor.extract_with(&kept.gray, &places)?;
                let of_track = |DescribedPlace { place, keypoint, descriptor }: DescribedPlace| {
                    TrackKeypoint { track: standing[place as usize].id, keypoint, descriptor }
                };
                Ok(FeaturedKeyframe {
                    keyframe: kept.keyframe,
                    features,
                    track_keypoints: described.into_iter().map(of_track).collect(),
                    picture: kept.picture,
                    tracker: kept.tracker,
                })
            };
        let keyframe = keyframe.map(featured).transpose()?;
        Ok(FeaturedFrame { info, sizes, gate, tracks, ends, keyframe })
    }
}
