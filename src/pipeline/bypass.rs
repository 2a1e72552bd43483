//! What stands in for a stage that a pipeline leaves out: the same types, nothing found.

use std::sync::Arc;

use crate::message::{
    FeaturedFrame, FeaturedKeyframe, Features, FrameLog, GatedFrame, GrayFrame, JoinedFrame, Keyframe, Match,
    MatchedFrame, MatchedKeyframe, MergedFrame, MergedPair, Source, TrackRow, TrackTable, TrackedFrame,
    Verdict, VerifiedFrame, VerifiedPair,
};
use crate::stages::{Stage, StageError};

/// For `klt_push`: the table passes as it is, no pyramid.
pub struct NoTracking;

impl Stage for NoTracking {
    type Takes = (GrayFrame, TrackTable);
    type Gives = TrackedFrame;

    fn fire(&mut self, (frame, tracks): (GrayFrame, TrackTable)) -> Result<TrackedFrame, StageError> {
        let GrayFrame { info, picture, gray, sizes } = frame;
        Ok(TrackedFrame { info, picture, gray, sizes, tracker: None, tracks, ends: Vec::new() })
    }
}

/// For `sift_extract`: keyframes without keypoints.
pub struct NoFeatures;

impl Stage for NoFeatures {
    type Takes = GatedFrame;
    type Gives = FeaturedFrame;

    fn fire(&mut self, frame: GatedFrame) -> Result<FeaturedFrame, StageError> {
        let keyframe = frame.keyframe.map(|keyframe| FeaturedKeyframe {
            keyframe: keyframe.keyframe,
            picture: keyframe.picture,
            tracker: keyframe.tracker,
            features: Features::default(),
            track_keypoints: Vec::new(),
        });
        let GatedFrame { info, sizes, gate, tracks, ends, .. } = frame;
        Ok(FeaturedFrame { info, sizes, gate, tracks, ends, keyframe })
    }
}

/// For `keyframe_join`: no track is seeded, so the table that goes back is empty.
pub struct NoJoining;

impl Stage for NoJoining {
    type Takes = (FeaturedFrame, Verdict);
    type Gives = (JoinedFrame, TrackTable);

    fn fire(
        &mut self,
        (frame, _verdict): (FeaturedFrame, Verdict),
    ) -> Result<(JoinedFrame, TrackTable), StageError> {
        let FeaturedFrame { info, sizes, gate, tracks, ends, keyframe } = frame;
        let rows =
            tracks.tracks.iter().map(|track| TrackRow { track: track.id, x: track.x, y: track.y }).collect();
        let keyframe = keyframe.map(|keyframe| {
            let keyframe = Keyframe {
                keyframe: keyframe.keyframe,
                info: info.clone(),
                sizes,
                picture: keyframe.picture,
                features: Arc::new(keyframe.features),
                track_keypoints: 0,
                seeds: 0,
                joined: 0,
                fill_ins: 0,
            };
            (Arc::new(keyframe), Vec::new())
        });
        let log = FrameLog { info, sizes, gate, rows, ends };
        Ok((JoinedFrame { log, keyframe }, TrackTable::default()))
    }
}

/// For `descriptor_match`: no descriptor pairs.
pub struct NoMatching;

impl Stage for NoMatching {
    type Takes = JoinedFrame;
    type Gives = MatchedFrame;

    fn fire(&mut self, frame: JoinedFrame) -> Result<MatchedFrame, StageError> {
        let keyframe =
            frame.keyframe.map(|(keyframe, klt)| MatchedKeyframe { keyframe, klt, descriptor: Vec::new() });
        Ok(MatchedFrame { log: frame.log, keyframe })
    }
}

/// For `pair_merge`: the matches of both sources side by side; of equal ones the track's stays.
pub struct PlainMerge;

impl Stage for PlainMerge {
    type Takes = MatchedFrame;
    type Gives = MergedFrame;

    fn fire(&mut self, frame: MatchedFrame) -> Result<MergedFrame, StageError> {
        let keyframe = frame.keyframe.map(|matched| {
            let pairs = plain_pairs(&matched);
            (matched.keyframe, pairs)
        });
        Ok(MergedFrame { log: frame.log, keyframe })
    }
}

fn plain_pairs(matched: &MatchedKeyframe) -> Vec<MergedPair> {
    let klt = matched.klt.iter().map(|pair| pair.first);
    let mut firsts: Vec<u32> = klt.chain(matched.descriptor.iter().map(|pair| pair.first)).collect();
    firsts.sort_unstable();
    firsts.dedup();
    let merged = |first: u32| {
        let klt = matched.klt.iter().filter(|pair| pair.first == first).flat_map(|pair| &pair.matches);
        let klt = klt.map(|m| Match {
            first: m.first,
            second: m.second,
            source: Source::Klt,
            track: Some(m.track),
        });
        let sift =
            matched.descriptor.iter().filter(|pair| pair.first == first).flat_map(|pair| &pair.matches);
        let sift =
            sift.map(|m| Match { first: m.first, second: m.second, source: Source::Sift, track: None });
        let mut matches: Vec<Match> = klt.chain(sift).collect();
        matches.sort_by_key(|m| (m.first, m.second));
        matches.dedup_by_key(|m| (m.first, m.second));
        MergedPair { first, matches }
    };
    firsts.into_iter().map(merged).collect()
}

/// For `epipolar_verify`: no geometry, nothing rejected.
pub struct NoVerification;

impl Stage for NoVerification {
    type Takes = MergedFrame;
    type Gives = (VerifiedFrame, Verdict);

    fn fire(&mut self, frame: MergedFrame) -> Result<(VerifiedFrame, Verdict), StageError> {
        let verified =
            |pair: MergedPair| VerifiedPair { first: pair.first, matches: pair.matches, geometry: None };
        let keyframe =
            frame.keyframe.map(|(keyframe, pairs)| (keyframe, pairs.into_iter().map(verified).collect()));
        Ok((VerifiedFrame { log: frame.log, keyframe }, Verdict::default()))
    }
}
