//! What travels between stages: one type an edge, in the order of the walk.
//!
//! Positions are analysis pixels with pixel centres at integers unless a field says otherwise. A keyframe is named by
//! its ordinal (`keyframe`: 0, 1, 2, ... in time); its image id in the database is the ordinal + 1.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::geometry::TwoViewGeometry;
use crate::gray::Gray;
use crate::klt::{KltOptions, Structure};
use crate::picture::Picture;

mod track;

pub use self::track::{Claim, EndReason, Track, TrackEnd, TrackRow, TrackTable};

/// What is known of the input before its first frame.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct VideoInfo {
    /// The path or URI as the user named it.
    pub input: String,
    /// Codec as the container names it, or `images` for a folder.
    pub codec: String,
    /// Upright picture size in square pixels.
    pub width: u32,
    /// See `width`.
    pub height: u32,
    /// Clockwise quarter turns applied to make the picture upright (0..=3).
    pub quarter_turns: u8,
    /// Whether the upright picture is also mirrored left to right (after the turn).
    pub mirrored: bool,
    /// Pixel aspect ratio of the coded picture.
    pub pixel_aspect: (u32, u32),
    /// Length of the stream, if the container tells.
    pub duration_ns: Option<u64>,
}

/// Which sampled frame a token speaks of.
#[derive(Clone, Debug)]
pub struct FrameInfo {
    /// Ordinal among the sampled frames, from 0.
    pub index: u32,
    /// Ordinal among the displayed frames of the input, from 0.
    pub number: u64,
    /// Presentation time from the first displayed frame.
    pub pts_ns: u64,
    /// The input it is from.
    pub video: Arc<VideoInfo>,
}

/// The two sizes of a picture: the one that is analysed and the one that is exported.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sizes {
    /// Analysis width and height in pixels.
    pub analysis: (u32, u32),
    /// Exported width and height in pixels.
    pub exported: (u32, u32),
    /// Exported pixels per analysis pixel, the same in x and y.
    pub scale: f64,
}

impl Sizes {
    /// A length given for a picture with a longer side of 640 pixels, in analysis pixels of this one.
    pub fn scaled(&self, px_at_640: f32) -> f32 {
        px_at_640 * self.analysis.0.max(self.analysis.1) as f32 / 640.0
    }

    /// Analysis position (centres at integers) to exported position (COLMAP: first centre at 0.5).
    pub fn exported_from_analysis(&self, x: f32, y: f32) -> [f64; 2] {
        [(x as f64 + 0.5) * self.scale, (y as f64 + 0.5) * self.scale]
    }
}

/// frame_decode -> gray_upload.
#[derive(Debug)]
pub struct Frame {
    /// Which frame.
    pub info: FrameInfo,
    /// The upright picture.
    pub picture: Arc<Picture>,
}

/// gray_upload -> klt_push.
#[derive(Debug)]
pub struct GrayFrame {
    /// Which frame.
    pub info: FrameInfo,
    /// The upright picture, kept for export.
    pub picture: Arc<Picture>,
    /// Gray at analysis size, in [0, 1].
    pub gray: Gray,
    /// Analysis and exported size.
    pub sizes: Sizes,
}

/// What seeding needs of the tracker at this frame.
#[derive(Clone, Debug)]
pub struct TrackerFrame {
    /// What the frame's corners are found in.
    pub structure: Structure,
    /// The options the tracker runs with at this size.
    pub options: Arc<KltOptions>,
}

/// klt_push -> keyframe_gate.
#[derive(Debug)]
pub struct TrackedFrame {
    /// Which frame.
    pub info: FrameInfo,
    /// The upright picture, kept for export.
    pub picture: Arc<Picture>,
    /// Gray at analysis size.
    pub gray: Gray,
    /// Analysis and exported size.
    pub sizes: Sizes,
    /// What the tracker leaves for seeding; none where the pipeline has no klt_push.
    pub tracker: Option<TrackerFrame>,
    /// Tracks alive at this frame.
    pub tracks: TrackTable,
    /// Tracks that ended on the way here.
    pub ends: Vec<TrackEnd>,
}

/// Why a frame was kept or dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GateReason {
    /// Kept: the first frame.
    First,
    /// Kept: the gap to the last keyframe reached its limit.
    Gap,
    /// The median displacement of the tracks decided.
    Tracks,
    /// Kept: half of the last keyframe's tracks could not be followed.
    Lost,
    /// The phase correlation decided.
    Phase,
    /// Kept: no test could answer.
    Undecided,
    /// The list of keyframes decided.
    Listed,
    /// Dropped: the keyframe budget does not allow one yet.
    Budget,
    /// Kept: the pipeline has no test (every frame).
    All,
}

/// The gate's decision on a frame.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GateDecision {
    /// Keyframe or not.
    pub kept: bool,
    /// What decided.
    pub reason: GateReason,
    /// Motion since the last keyframe in analysis pixels, where a test answered.
    pub motion_px: Option<f32>,
}

/// What SIFT reads of a frame that passed the gate.
#[derive(Debug)]
pub struct GatedKeyframe {
    /// Keyframe ordinal.
    pub keyframe: u32,
    /// The upright picture, kept for export.
    pub picture: Arc<Picture>,
    /// Gray at analysis size.
    pub gray: Gray,
    /// What the tracker leaves for seeding; none where the pipeline has no klt_push.
    pub tracker: Option<TrackerFrame>,
}

/// keyframe_gate -> sift_extract.
#[derive(Debug)]
pub struct GatedFrame {
    /// Which frame.
    pub info: FrameInfo,
    /// Analysis and exported size.
    pub sizes: Sizes,
    /// Kept or dropped, and why.
    pub gate: GateDecision,
    /// Tracks alive at this frame.
    pub tracks: TrackTable,
    /// Tracks that ended on the way here.
    pub ends: Vec<TrackEnd>,
    /// Present exactly when the frame was kept.
    pub keyframe: Option<GatedKeyframe>,
}

/// A SIFT keypoint.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Keypoint {
    /// Position in analysis pixels, centres at integers.
    pub x: f32,
    /// See `x`.
    pub y: f32,
    /// Gaussian scale sigma in analysis pixels.
    pub scale: f32,
    /// Orientation in radians, in (-pi, pi], x towards y.
    pub orientation: f32,
    /// |DoG| at the refined extremum; 0 where none was found.
    pub response: f32,
}

/// A descriptor: L1-root, x 512, rounded, clamped to 255; bins in Lowe's order (y, x, orientation).
pub type Descriptor = [u8; 128];

/// Keypoints and descriptors of a keyframe, row by row.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Features {
    /// Keypoints in their fixed order. Keypoints of one position with several orientations stand side by side.
    pub keypoints: Vec<Keypoint>,
    /// One descriptor a keypoint.
    pub descriptors: Vec<Descriptor>,
}

impl Features {
    /// The point each keypoint belongs to: the index of the first keypoint at its position.
    pub fn points(&self) -> Vec<u32> {
        let mut points = Vec::with_capacity(self.keypoints.len());
        let mut point = 0;
        for (i, keypoint) in self.keypoints.iter().enumerate() {
            let Keypoint { x, y, .. } = self.keypoints[point as usize];
            if (x, y) != (keypoint.x, keypoint.y) {
                point = i as u32;
            }
            points.push(point);
        }
        points
    }
}

/// What a live track is as a keypoint of its own.
#[derive(Clone, Debug, PartialEq)]
pub struct TrackKeypoint {
    /// The track.
    pub track: u32,
    /// Where it stands. The response is 0.
    pub keypoint: Keypoint,
    /// What is seen there.
    pub descriptor: Descriptor,
}

/// A keyframe with its features.
#[derive(Debug)]
pub struct FeaturedKeyframe {
    /// Keyframe ordinal.
    pub keyframe: u32,
    /// The upright picture, kept for export.
    pub picture: Arc<Picture>,
    /// What the tracker leaves for seeding; none where the pipeline has no klt_push.
    pub tracker: Option<TrackerFrame>,
    /// Keypoints and descriptors.
    pub features: Features,
    /// Tracks that may become keypoints of their own, ascending by track.
    pub track_keypoints: Vec<TrackKeypoint>,
}

/// sift_extract -> keyframe_join.
#[derive(Debug)]
pub struct FeaturedFrame {
    /// Which frame.
    pub info: FrameInfo,
    /// Analysis and exported size.
    pub sizes: Sizes,
    /// Kept or dropped, and why.
    pub gate: GateDecision,
    /// Tracks alive at this frame.
    pub tracks: TrackTable,
    /// Tracks that ended on the way here.
    pub ends: Vec<TrackEnd>,
    /// Present exactly when the frame was kept.
    pub keyframe: Option<FeaturedKeyframe>,
}

/// What is written down of every sampled frame; made by keyframe_join, read by export, unchanged between.
#[derive(Debug)]
pub struct FrameLog {
    /// Which frame.
    pub info: FrameInfo,
    /// Analysis and exported size.
    pub sizes: Sizes,
    /// Kept or dropped, and why.
    pub gate: GateDecision,
    /// Tracks alive after this frame, seeds included, ascending by id.
    pub rows: Vec<TrackRow>,
    /// Tracks that ended at this frame; each has its last row at the frame before.
    pub ends: Vec<TrackEnd>,
}

/// A keyframe as every later stage needs it; made by keyframe_join, unchanged to export.
#[derive(Debug)]
pub struct Keyframe {
    /// Keyframe ordinal.
    pub keyframe: u32,
    /// Which frame.
    pub info: FrameInfo,
    /// Analysis and exported size.
    pub sizes: Sizes,
    /// The upright picture, for export.
    pub picture: Arc<Picture>,
    /// Keypoints and descriptors: SIFT's, then those of tracks.
    pub features: Arc<Features>,
    /// Keypoints that are tracks' own, the last ones.
    pub track_keypoints: u32,
    /// Tracks seeded here from keypoints.
    pub seeds: u32,
    /// Tracks that joined a keypoint here.
    pub joined: u32,
    /// Tracks seeded here from selected corners.
    pub fill_ins: u32,
}

/// A match a track gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KltMatch {
    /// Keypoint in the earlier keyframe.
    pub first: u32,
    /// Keypoint in this keyframe.
    pub second: u32,
    /// The track.
    pub track: u32,
}

/// Matches of tracks between an earlier keyframe and this one.
#[derive(Clone, Debug, PartialEq)]
pub struct KltPair {
    /// Ordinal of the earlier keyframe.
    pub first: u32,
    /// Ascending by (first, second).
    pub matches: Vec<KltMatch>,
}

/// keyframe_join -> descriptor_match.
#[derive(Debug)]
pub struct JoinedFrame {
    /// What is written down of the frame.
    pub log: FrameLog,
    /// The keyframe and its KLT pairs, ascending by earlier keyframe.
    pub keyframe: Option<(Arc<Keyframe>, Vec<KltPair>)>,
}

/// A descriptor match.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DescriptorMatch {
    /// Keypoint in the earlier keyframe.
    pub first: u32,
    /// Keypoint in this keyframe.
    pub second: u32,
    /// Squared Euclidean distance of the u8 descriptors.
    pub distance2: u32,
}

/// Descriptor matches between an earlier keyframe and this one.
#[derive(Clone, Debug, PartialEq)]
pub struct DescriptorPair {
    /// Ordinal of the earlier keyframe.
    pub first: u32,
    /// Ascending by (first, second).
    pub matches: Vec<DescriptorMatch>,
}

/// A keyframe with both kinds of pairs.
#[derive(Debug)]
pub struct MatchedKeyframe {
    /// The keyframe.
    pub keyframe: Arc<Keyframe>,
    /// Ascending by earlier keyframe.
    pub klt: Vec<KltPair>,
    /// Ascending by earlier keyframe.
    pub descriptor: Vec<DescriptorPair>,
}

/// descriptor_match -> pair_merge.
#[derive(Debug)]
pub struct MatchedFrame {
    /// What is written down of the frame.
    pub log: FrameLog,
    /// Present exactly when the frame was kept.
    pub keyframe: Option<MatchedKeyframe>,
}

/// Where a match came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// A track joined both keypoints.
    Klt,
    /// The descriptors are mutual nearest neighbours.
    Sift,
    /// Both.
    Both,
}

/// A match of a merged pair.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Match {
    /// Keypoint in the earlier keyframe.
    pub first: u32,
    /// Keypoint in the later keyframe.
    pub second: u32,
    /// Where it came from.
    pub source: Source,
    /// The track behind it, where there is one.
    pub track: Option<u32>,
}

/// All matches of a pair of keyframes, each (first, second) once.
#[derive(Clone, Debug, PartialEq)]
pub struct MergedPair {
    /// Ordinal of the earlier keyframe.
    pub first: u32,
    /// Ascending by (first, second). A keypoint may stand in a KLT and in a descriptor match.
    pub matches: Vec<Match>,
}

/// pair_merge -> epipolar_verify.
#[derive(Debug)]
pub struct MergedFrame {
    /// What is written down of the frame.
    pub log: FrameLog,
    /// The keyframe and its pairs, ascending by earlier keyframe.
    pub keyframe: Option<(Arc<Keyframe>, Vec<MergedPair>)>,
}

/// A pair after verification.
#[derive(Clone, Debug, PartialEq)]
pub struct VerifiedPair {
    /// Ordinal of the earlier keyframe.
    pub first: u32,
    /// The matches that were verified, as merged: the `matches` row.
    pub matches: Vec<Match>,
    /// The geometry with its inliers; none where verification failed.
    pub geometry: Option<TwoViewGeometry>,
}

/// epipolar_verify -> export.
#[derive(Debug)]
pub struct VerifiedFrame {
    /// What is written down of the frame.
    pub log: FrameLog,
    /// The keyframe and its pairs, ascending by earlier keyframe.
    pub keyframe: Option<(Arc<Keyframe>, Vec<VerifiedPair>)>,
}

/// epipolar_verify -> keyframe_join, L frames later: tracks that the geometry rejects.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Verdict {
    /// Track ids, ascending. Empty for a frame that is no keyframe.
    pub rejected: Vec<u32>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_follow_the_longer_side() {
        let sizes = |analysis| Sizes { analysis, exported: analysis, scale: 1.0 };
        assert_eq!(sizes((1280, 720)).scaled(8.0), 16.0);
        assert_eq!(sizes((720, 1280)).scaled(8.0), 16.0);
    }
}
