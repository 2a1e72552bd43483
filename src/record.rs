//! The run record: what run.json says, field by field in its order.
//!
//! Lengths are exported pixels, times seconds from the first displayed frame. Everything but `stages` and
//! `gpu_peak_bytes` depends on input, options and backend alone.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::device::Backend;
use crate::geometry::Config;
use crate::geometry::parallax::Parallax;
use crate::message::{EndReason, GateReason, VideoInfo};

pub mod diagnosis;
pub mod initial_pair;

pub use initial_pair::InitialPair;

/// What a run did. The launcher fills `version` to `seed` and `stages`, export the rest.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RunRecord {
    /// Version of trackweave.
    pub version: String,
    /// The options as resolved: defaults, pipeline file, command line.
    pub options: serde_json::Value,
    /// Where kernels ran.
    pub backend: Backend,
    /// The adapter's name; none for the CPU backend.
    pub adapter: Option<String>,
    /// The most bytes that all buffers on the device and its readbacks took at once; none for the CPU backend.
    pub gpu_peak_bytes: Option<u64>,
    /// Seed of RANSAC.
    pub seed: u64,
    /// The input; none where no frame came out of it.
    pub video: Option<VideoInfo>,
    /// One entry a sampled frame, in time.
    pub frames: Vec<FrameRecord>,
    /// One entry a keyframe, in time: entry i is image id i + 1 of the database.
    pub keyframes: Vec<KeyframeRecord>,
    /// One entry a pair that went into verification, by `second`, then `first`.
    pub pairs: Vec<PairRecord>,
    /// The pair to begin an incremental mapper with; none where no pair is good enough.
    pub initial_pair: Option<InitialPair>,
    /// Ended tracks by reason, over the run.
    pub ends: BTreeMap<EndReason, u64>,
    /// Histogram of the number of sampled frames a track has a position in, ascending, empty bins left out.
    pub track_lengths: Vec<TrackLengthRecord>,
    /// One entry a stage, in walking order.
    pub stages: Vec<StageRecord>,
    /// Bytes written and held, by name.
    pub bytes: BTreeMap<String, u64>,
    /// What the user should know before mapping, in words.
    pub warnings: Vec<String>,
}

/// A sampled frame.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FrameRecord {
    /// Ordinal among the displayed frames, from 0.
    pub frame: u64,
    /// Presentation time.
    pub pts_s: f64,
    /// Keyframe or not.
    pub kept: bool,
    /// What decided.
    pub reason: GateReason,
    /// Name of the keyframe's image.
    pub image: Option<String>,
    /// Tracks alive after this frame.
    pub alive: u32,
    /// Tracks that ended at this frame, by reason.
    pub ends: BTreeMap<EndReason, u32>,
    /// Motion since the last keyframe, where the gate measured one.
    pub motion_px: Option<f64>,
}

/// A keyframe.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KeyframeRecord {
    /// Name in the database and in `images/`.
    pub image: String,
    /// Rows of keypoints.
    pub keypoints: u32,
    /// The last of them, which are tracks' own.
    pub track_keypoints: u32,
    /// Tracks seeded here from keypoints.
    pub seeds: u32,
    /// Tracks that joined a keypoint here.
    pub joined: u32,
    /// Tracks seeded here from corners.
    pub fill_ins: u32,
    /// Median displacement of the matches with the keyframe before (inliers where the pair was verified).
    pub motion_px: Option<f64>,
}

/// Matches by where they came from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceCounts {
    /// By a track alone.
    pub klt: u32,
    /// By descriptors alone.
    pub sift: u32,
    /// By both.
    pub both: u32,
}

/// A pair of keyframes that went into verification.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct PairRecord {
    /// Image id of the earlier keyframe.
    pub first: u32,
    /// Image id of the later keyframe.
    pub second: u32,
    /// Matches before verification, by source.
    #[serde(flatten)]
    pub matches: SourceCounts,
    /// Inlier matches; 0 where verification failed.
    pub inliers: u32,
    /// The inliers by source.
    pub inliers_by_source: SourceCounts,
    /// The geometry; none where verification failed.
    pub config: Option<Config>,
    /// What the inliers tell of depth, to three digits; none where the geometry has no motion.
    pub parallax: Option<Parallax>,
}

/// A bin of the histogram of track lengths.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrackLengthRecord {
    /// Sampled frames with a position.
    pub frames: u32,
    /// Tracks of that length.
    pub tracks: u64,
}

/// Quantiles of a time, in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Quantiles {
    /// Median.
    pub p50: f64,
    /// 90 % are at most this.
    pub p90: f64,
    /// 99 % are at most this.
    pub p99: f64,
    /// The longest.
    pub max: f64,
}

/// How a stage spent its time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StageRecord {
    /// The stage.
    pub name: String,
    /// Firings.
    pub count: u64,
    /// Time of all firings in seconds: beside the run's, how near it was to being the stage that all others wait for.
    pub busy_s: f64,
    /// Time of a firing.
    pub busy_ms: Quantiles,
    /// Wait for the inputs before a firing.
    pub wait_in_ms: Quantiles,
    /// Wait for room on the outputs after a firing.
    pub wait_out_ms: Quantiles,
    /// The longest its output queue became.
    pub queue_max: u64,
}
