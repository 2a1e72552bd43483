//! The stages in walking order, and what a stage is.

use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use toml::Table;

use crate::device::{Device, DeviceError};
use crate::geometry::camera::CameraOptions;
use crate::matching::{Matcher, SharedMatcher};
use crate::pipeline::bypass::{NoFeatures, NoJoining, NoMatching, NoTracking, NoVerification, PlainMerge};
use crate::pipeline::token::{AnyStage, Edges, Gives, Takes, any_source, any_stage};
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

use self::descriptor_match::DescriptorMatch;
use self::epipolar_verify::EpipolarVerify;
use self::export::{Export, ExportOptions};
use self::frame_decode::{FrameDecode, FrameDecodeOptions};
use self::gray_upload::GrayUpload;
use self::keyframe_gate::KeyframeGate;
use self::keyframe_join::KeyframeJoin;
use self::klt_push::KltPush;
use self::pair_merge::PairMerge;
use self::sift_extract::SiftExtract;

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
#[derive(Clone, Debug, Default)]
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
    /// Where kernels run.
    pub device: Device,
    /// MiB of a device's memory for keyframes' descriptors; none: 1024.
    pub gpu_memory_mib: Option<u32>,
    /// What the stages that match share.
    pub matcher: SharedMatcher,
    /// What export found out, read by the launcher after the run.
    pub record: Arc<Mutex<RunRecord>>,
}

impl RunContext {
    /// The matcher of the run.
    ///
    /// # Errors
    /// See [`Matcher::new`].
    pub fn matcher(&self) -> Result<Matcher, DeviceError> {
        let memory_mib = self.gpu_memory_mib.map_or(1024, u64::from);
        self.matcher.get(&self.device, memory_mib << 20)
    }
}

/// A stage of the program: a file in `stages/` and a row in [`STAGES`].
#[derive(Debug)]
pub struct StageRow {
    /// Its name in pipeline files.
    pub name: &'static str,
    /// What it takes.
    pub takes: Edges,
    /// What it gives.
    pub gives: Edges,
    /// What it does, in a line.
    pub does: &'static str,
    /// The kernels it runs.
    pub kernels: &'static [&'static str],
    /// A stage without which it makes no sense.
    pub needs: Option<&'static str>,
    /// What stands in where a pipeline leaves it out; none where it must not.
    pub bypass: Option<fn() -> Box<dyn AnyStage>>,
    /// Reads and checks its options, touching nothing else.
    pub check: fn(Table) -> Result<(), StageError>,
    /// Builds it for a run.
    pub build: fn(Table, &RunContext) -> Result<BuiltStage, StageError>,
}

/// A stage ready to run.
pub struct BuiltStage {
    /// The stage.
    pub stage: Box<dyn AnyStage>,
    /// Its effective options, defaults included.
    pub options: serde_json::Value,
}

/// The stages in walking order. Two edges go back: `TrackTable` and `Verdict`.
pub static STAGES: &[StageRow] = &[
    StageRow {
        name: "frame_decode",
        takes: Edges { main: None, feedback: None },
        gives: <<FrameDecode as SourceStage>::Gives as Gives>::EDGES,
        does: "decodes, turns upright, samples by presentation time",
        kernels: &[],
        needs: None,
        bypass: None,
        check: check_frame_decode,
        build: build_frame_decode,
    },
    StageRow {
        name: "gray_upload",
        takes: takes::<GrayUpload>(),
        gives: gives::<GrayUpload>(),
        does: "gray at analysis size",
        kernels: &["gray_luma", "gray_rgb"],
        needs: None,
        bypass: None,
        check: |options| check(options, GrayUpload::new),
        build: |options, context| build(options, context, GrayUpload::new),
    },
    StageRow {
        name: "klt_push",
        takes: takes::<KltPush>(),
        gives: gives::<KltPush>(),
        does: "follows every live track into the frame: forward, backward, check, anchor",
        kernels: &["pyramid_down", "scharr", "klt_track", "klt_check", "klt_patch", "klt_anchor"],
        needs: Some("keyframe_join"),
        bypass: Some(|| any_stage(NoTracking)),
        check: |options| check(options, KltPush::new),
        build: |options, context| build(options, context, KltPush::new),
    },
    StageRow {
        name: "keyframe_gate",
        takes: takes::<KeyframeGate>(),
        gives: gives::<KeyframeGate>(),
        does: "keeps or drops a frame, with the reason",
        kernels: &[],
        needs: None,
        bypass: None,
        check: |options| check(options, KeyframeGate::new),
        build: |options, context| build(options, context, KeyframeGate::new),
    },
    StageRow {
        name: "sift_extract",
        takes: takes::<SiftExtract>(),
        gives: gives::<SiftExtract>(),
        does: "keypoints and descriptors of a keyframe",
        kernels: &[
            "upsample",
            "gaussian_blur",
            "dog",
            "extrema",
            "refine",
            "strongest",
            "orientation",
            "orientation_select",
            "descriptor",
        ],
        needs: None,
        bypass: Some(|| any_stage(NoFeatures)),
        check: |options| check(options, SiftExtract::new),
        build: |options, context| build(options, context, SiftExtract::new),
    },
    StageRow {
        name: "keyframe_join",
        takes: takes::<KeyframeJoin>(),
        gives: gives::<KeyframeJoin>(),
        does: "applies the verdict, joins tracks to keypoints, makes keypoints of others, seeds new tracks",
        kernels: &[
            "eigen_map",
            "eigen_max",
            "eigen_at",
            "klt_occupancy",
            "klt_select",
            "klt_suppress",
            "scan",
            "klt_compact",
        ],
        needs: Some("klt_push"),
        bypass: Some(|| any_stage(NoJoining)),
        check: |options| check(options, KeyframeJoin::new),
        build: |options, context| build(options, context, KeyframeJoin::new),
    },
    StageRow {
        name: "descriptor_match",
        takes: takes::<DescriptorMatch>(),
        gives: gives::<DescriptorMatch>(),
        does: "a keyframe's descriptors against those of earlier keyframes",
        kernels: &["match_descriptors", "match_mutual"],
        needs: None,
        bypass: Some(|| any_stage(NoMatching)),
        check: |options| check(options, DescriptorMatch::new),
        build: |options, context| build(options, context, DescriptorMatch::new),
    },
    StageRow {
        name: "pair_merge",
        takes: takes::<PairMerge>(),
        gives: gives::<PairMerge>(),
        does: "one list of matches a pair: source klt, sift or both",
        kernels: &[],
        needs: None,
        bypass: Some(|| any_stage(PlainMerge)),
        check: |options| check(options, pair_merge_without_options),
        build: |options, context| build(options, context, pair_merge_without_options),
    },
    StageRow {
        name: "epipolar_verify",
        takes: takes::<EpipolarVerify>(),
        gives: gives::<EpipolarVerify>(),
        does: "the geometry of each pair, its inliers, and the tracks it rejects",
        kernels: &["match_guided", "match_mutual"],
        needs: None,
        bypass: Some(|| any_stage(NoVerification)),
        check: |options| check(options, EpipolarVerify::new),
        build: |options, context| build(options, context, EpipolarVerify::new),
    },
    StageRow {
        name: "export",
        takes: takes::<Export>(),
        gives: gives::<Export>(),
        does: "images, database, tracks and records, into the temporary folder",
        kernels: &[],
        needs: None,
        bypass: None,
        check: |options| Ok(options.try_into::<ExportOptions>()?.check()?),
        build: |options, context| build(options, context, Export::new),
    },
];

/// The table of a stage that has no options.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct NoOptions {}

fn pair_merge_without_options(_: NoOptions, _: &RunContext) -> Result<PairMerge, StageError> {
    Ok(PairMerge::new())
}

/// The input is looked at only when a run is built.
fn check_frame_decode(options: Table) -> Result<(), StageError> {
    let any_stream = RunContext { input: "file:///".into(), ..RunContext::default() };
    FrameDecode::new(options.try_into()?, &any_stream)?;
    Ok(())
}

fn build_frame_decode(options: Table, context: &RunContext) -> Result<BuiltStage, StageError> {
    let options: FrameDecodeOptions = options.try_into()?;
    let effective = effective(&options)?;
    Ok(BuiltStage { stage: any_source(FrameDecode::new(options, context)?), options: effective })
}

const fn takes<S: Stage>() -> Edges {
    S::Takes::EDGES
}

const fn gives<S: Stage>() -> Edges {
    S::Gives::EDGES
}

/// The options of a stage whose constructor touches nothing but them.
fn check<O: DeserializeOwned, S, E: Into<StageError>>(
    options: Table,
    new: fn(O, &RunContext) -> Result<S, E>,
) -> Result<(), StageError> {
    new(options.try_into()?, &RunContext::default()).map(drop).map_err(Into::into)
}

/// Through text, so that an f32 keeps the digits it was written with.
fn effective(options: &impl Serialize) -> Result<serde_json::Value, StageError> {
    Ok(serde_json::from_str(&serde_json::to_string(options)?)?)
}

fn build<O: DeserializeOwned + Serialize, S: Stage, E: Into<StageError>>(
    options: Table,
    context: &RunContext,
    new: fn(O, &RunContext) -> Result<S, E>,
) -> Result<BuiltStage, StageError> {
    let options: O = options.try_into()?;
    let effective = effective(&options)?;
    Ok(BuiltStage { stage: any_stage(new(options, context).map_err(Into::into)?), options: effective })
}
