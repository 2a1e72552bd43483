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
                let standing: Vec<&Track> =
                    tracks.tracks.iter().filter(|track| tracks.whole && track.seen).collect();
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::gray::Gray;
    use crate::message::{FrameInfo, GateDecision, GateReason, Sizes, TrackTable};
    use crate::picture::{GrayImage, Picture};

    #[test]
    fn whole_tracks_that_show_their_seeds_are_described() {
        let mut gray = GrayImage::new(64, 48);
        gray.data
            .iter_mut()
            .enumerate()
            .for_each(|(i, value)| *value = (i % 64 / 8 + i / 64 / 8) as f32 % 2.0);
        let gray = Arc::new(gray);
        let track = |(id, seen)| Track {
            id,
            x: 20.5,
            y: 24.25,
            age: 0,
            at_keyframe: [0.0; 2],
            seed_keyframe: 0,
            scale: 2.0,
            zoom: Some(1.0),
            seen,
            claims: Vec::new(),
        };
        let tracks = [(3, true), (4, false), (6, true)].map(track);
        let sizes = Sizes { analysis: (64, 48), exported: (64, 48), scale: 1.0 };
        let frame = |whole| GatedFrame {
            info: FrameInfo { index: 0, number: 0, pts_ns: 0, video: Arc::default() },
            sizes,
            gate: GateDecision { kept: true, reason: GateReason::All, motion_px: None },
            tracks: TrackTable { tracks: tracks.to_vec(), next_id: 7, whole },
            ends: Vec::new(),
            keyframe: Some(GatedKeyframe {
                keyframe: 0,
                picture: Arc::new(Picture::unseen()),
                gray: Gray::Host(gray.clone()),
                tracker: None,
            }),
        };
        let mut stage = SiftExtract::new(SiftOptions::default(), &RunContext::default()).unwrap();
        let mut described = |whole| stage.fire(frame(whole)).unwrap().keyframe.unwrap().track_keypoints;
        assert!(described(false).is_empty());
        let described = described(true);
        let ids: Vec<u32> = described.iter().map(|of_track| of_track.track).collect();
        assert_eq!(ids, [3, 6]);
        assert!(described.iter().all(|of_track| (of_track.keypoint.x, of_track.keypoint.y) == (20.5, 24.25)));
    }
}
