//! The stages in walking order, and what a stage is.

use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::geometry::camera::CameraOptions;
use crate::pipeline::token::{Gives, Takes};
use crate::record::RunRecord;

pub mod descriptor_match;
pub mod epipolar_verify;
pub mod export;
pub mod frame_decode;
pub mod gray_upload;
pub mod keyframe_gate;
pub mod keyframe_join;
pub mod klt_push;
pub mod pair_merge;
pub mod sift_extract;

/// Any typed error of a stage; the runtime adds stage and frame.
pub type StageError = Box<dyn std::error::Error + Send + Sync + 'static>;

/// How the stream of frames ended for a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamEnd {
    /// Every frame of the input came.
    Complete,
    /// Some stage failed and the rest never comes: write what there is, it is published as partial.
    Cut,
}

/// A stage: one firing takes one token from each input and gives one on each output.
pub trait Stage: Send + 'static {
    /// A message type, or a pair (main edge, feedback edge).
    type Takes: Takes;
    /// A message type, a pair (main edge, feedback edge), or `()` for a sink.
    type Gives: Gives;

    /// One firing.
    fn fire(&mut self, takes: Self::Takes) -> Result<Self::Gives, StageError>;

    /// Called once after the last firing, unless a firing of this very stage failed.
    fn finish(&mut self, _end: StreamEnd) -> Result<(), StageError> {
        Ok(())
    }
}

/// A stage without inputs.
pub trait SourceStage: Send + 'static {
    /// A message type.
    type Gives: Gives;

    /// The next token, or none at the end of the stream.
    fn next(&mut self) -> Result<Option<Self::Gives>, StageError>;
}

/// What a run hands to every stage when it is built.
#[derive(Clone, Debug)]
pub struct RunContext {
    /// The input as the user named it: a path to a file or an image folder, or a URI.
    pub input: String,
    /// Temporary folder that becomes OUT. Only export writes there.
    pub out: PathBuf,
    /// Seed of the run (RANSAC).
    pub seed: u64,
    /// Camera model and parameters for the exported picture.
    pub camera: CameraOptions,
    /// Longer side of exported pictures; none: full size.
    pub max_image_size_px: Option<u32>,
    /// Frames a verdict travels back.
    pub verdict_lag_frames: u32,
    /// What export found out, read by the launcher after the run.
    pub record: Arc<Mutex<RunRecord>>,
}
