//! Tracks as they travel: alive in the table, ended with a reason, written down row by row.

use serde::{Deserialize, Serialize};

/// Why a track ended. The numbers are those of the status word, tracks.csv and run.json.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum EndReason {
    /// The window left the frame.
    OutOfFrame = 1,
    /// The smaller eigenvalue of the window is too small.
    LowStructure = 2,
    /// The last step at level 0 was still too long.
    NoConvergence = 3,
    /// The backward track does not return to its start.
    ForwardBackward = 4,
    /// The final windows do not correlate.
    Residual = 5,
    /// An outlier of the verified geometry.
    Epipolar = 6,
    /// Too long since the last join.
    Age = 7,
}

impl EndReason {
    /// All reasons in the order of their numbers.
    pub const ALL: [EndReason; 7] = [
        EndReason::OutOfFrame,
        EndReason::LowStructure,
        EndReason::NoConvergence,
        EndReason::ForwardBackward,
        EndReason::Residual,
        EndReason::Epipolar,
        EndReason::Age,
    ];

    /// The reason of a status number 1..=7.
    pub fn from_number(number: u8) -> Option<EndReason> {
        (1..=7).contains(&number).then(|| Self::ALL[number as usize - 1])
    }

    /// Its number, 1..=7.
    pub fn number(self) -> u8 {
        self as u8
    }
}

/// A track's hold on a keypoint of a keyframe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Keyframe ordinal.
    pub keyframe: u32,
    /// Keypoint index in that keyframe's features.
    pub keypoint: u32,
}

/// A live track.
#[derive(Clone, Debug, PartialEq)]
pub struct Track {
    /// Unique in the run, ascending in the order of seeding.
    pub id: u32,
    /// Position at the latest frame.
    pub x: f32,
    /// See `x`.
    pub y: f32,
    /// Sampled frames since the seed or the last join.
    pub age: u32,
    /// Position at the latest keyframe.
    pub at_keyframe: [f32; 2],
    /// Ordinal of the keyframe it was seeded at.
    pub seed_keyframe: u32,
    /// Gaussian sigma in analysis pixels: that of the keypoint it was seeded at or joined last, grown with the patch about
    /// the seed since.
    pub scale: f32,
    /// How many times as large as at the seed that patch was when `scale` was told; none where it was not seen then.
    pub zoom: Option<f32>,
    /// Whether the latest frame shows the patch about the seed; always where tracks are not aligned with their seeds.
    pub seen: bool,
    /// Its keypoints so far, oldest first (the seed's included).
    pub claims: Vec<Claim>,
}

/// The live tracks: the token of the `tracks` edge. Ascending by id.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TrackTable {
    /// Live tracks, ascending by id.
    pub tracks: Vec<Track>,
    /// The id the next seed gets.
    pub next_id: u32,
    /// Whether tracks may become keypoints at the next keyframe: those that show their seeds are described there.
    pub whole: bool,
}

/// A track that ended, and why. Its last position is that of the frame before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrackEnd {
    /// Track id.
    pub track: u32,
    /// Why it ended.
    pub reason: EndReason,
}

/// A live track's position at a frame: a row of tracks.csv.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TrackRow {
    /// Track id.
    pub track: u32,
    /// Position in analysis pixels.
    pub x: f32,
    /// See `x`.
    pub y: f32,
}
