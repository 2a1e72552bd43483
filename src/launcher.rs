//! One run from request to result: load, plan, open the output, build, run, record, publish.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::json;

use crate::device::{BackendChoice, Device, DeviceError, Gpu};
use crate::error::with_causes;
use crate::geometry::camera::{Camera, CameraError, CameraOptions};
use crate::matching::SharedMatcher;
use crate::message::VerifiedFrame;
use crate::pipeline::config::{ConfigError, PipelineConfig};
use crate::pipeline::plan::{GraphError, Plan};
use crate::pipeline::run::{Failure, Outcome};
use crate::record::RunRecord;
use crate::stages::RunContext;

pub mod demo;
pub mod output;
pub mod progress;

use output::{OutputError, OutputFolder};
use progress::Progress;

/// What a user asks for.
#[derive(Clone, Debug, Default)]
pub struct RunRequest {
    /// Which pipeline, with what options.
    pub pipeline: PipelineRequest,
    /// A path to a video or an image folder, or a URI.
    pub input: String,
    /// The folder that holds the result afterwards.
    pub out: PathBuf,
    /// Whether an earlier result in `out` is replaced.
    pub overwrite: bool,
    /// Seed of RANSAC.
    pub seed: u64,
    /// The camera of the exported pictures.
    pub camera: CameraOptions,
    /// Longer side of exported pictures; none: full size.
    pub max_image_size_px: Option<u32>,
    /// Where kernels are asked to run.
    pub backend: BackendChoice,
    /// A part of the name of the adapter to take.
    pub adapter: Option<String>,
    /// MiB of a GPU's memory for keyframes' descriptors; none: 1024.
    pub gpu_memory_mib: Option<u32>,
}

/// A pipeline and what the command line changes of it.
#[derive(Clone, Debug, Default)]
pub struct PipelineRequest {
    /// A bare name or the path of a file.
    pub name: String,
    /// Capacity of every queue; none: as the pipeline says.
    pub queue: Option<usize>,
    /// Flags that stand for an option of a stage.
    pub flags: Vec<StageFlag>,
    /// `stage.option=value`, applied last.
    pub set: Vec<String>,
}

/// A flag that stands for an option of a stage.
#[derive(Clone, Debug)]
pub struct StageFlag {
    /// The flag, "--fps".
    pub flag: &'static str,
    /// The stage.
    pub stage: &'static str,
    /// Its option.
    pub option: &'static str,
    /// The value.
    pub value: toml::Value,
}

/// Why there is no result.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// The request is at fault; nothing was begun. Every error at once.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Request(Vec<RequestError>),
    /// A stage failed.
    #[error("{failure}; what there is lies in {}", partial.display())]
    Stage {
        /// Which, where, why.
        failure: Failure,
        /// The folder of what there is.
        partial: PathBuf,
    },
    /// The stages ended well, but the record of the run cannot be written.
    #[error("run.json cannot be written: {why}; what there is lies in {}", partial.display())]
    Record {
        /// What the system says.
        why: String,
        /// The folder of what there is.
        partial: PathBuf,
    },
    /// A stage failed in a run that keeps nothing.
    #[error(transparent)]
    Profile(Failure),
    /// The demo could not be rendered or measured.
    #[error("demo: {0}")]
    Demo(String),
    /// The result could not be written or moved to its place.
    #[error(transparent)]
    Output(#[from] OutputError),
}

/// A fault of a request.
#[derive(Debug, thiserror::Error)]
pub enum RequestError {
    /// In the pipeline file or an override.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// In how the stages fit, or in their options.
    #[error(transparent)]
    Graph(#[from] GraphError),
    /// In the camera.
    #[error("--camera-model, --camera-params: {0}")]
    Camera(#[from] CameraError),
    /// In where kernels are asked to run.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// In the place of the result.
    #[error(transparent)]
    Output(#[from] OutputError),
    /// The result would replace what it is made from.
    #[error(
        "--input {input} lies in --out {}, which --overwrite would replace; name another folder or move the input out of it",
        out.display()
    )]
    InputInOutput {
        /// The input as the user named it.
        input: String,
        /// The folder asked for.
        out: PathBuf,
    },
}

fn all<E: Into<RequestError>>(errors: Vec<E>) -> LaunchError {
    LaunchError::Request(errors.into_iter().map(Into::into).collect())
}

impl PipelineRequest {
    /// The pipeline with the command line's changes, checked.
    pub fn plan(&self) -> Result<Plan, LaunchError> {
        let mut config = PipelineConfig::load(&self.name).map_err(all)?;
        if let Some(queue) = self.queue {
            config.stages.iter_mut().for_each(|stage| stage.queue = queue);
        }
        let flags = self.flags.iter().map(|flag| {
            config
                .set_option(flag.stage, flag.option, flag.value.clone())
                .map_err(|why| ConfigError::Flag { flag: flag.flag, why })
        });
        let mut errors: Vec<ConfigError> = flags.filter_map(Result::err).collect();
        errors.extend(self.set.iter().filter_map(|text| config.set(text).err()));
        if !errors.is_empty() {
            return Err(all(errors));
        }
        Plan::new(&config).map_err(all)
    }
}

/// Runs a pipeline and publishes its result in `request.out`; where a stage fails or the record cannot be written, what
/// there is in `OUT.partial`.
pub fn run(request: &RunRequest, progress: Arc<Progress>) -> Result<RunRecord, LaunchError> {
    run_on(request, || choose_device(request), progress)
}

/// As `run`, on a device of the caller's.
pub fn run_on(
    request: &RunRequest,
    device: impl FnOnce() -> Result<Device, LaunchError>,
    progress: Arc<Progress>,
) -> Result<RunRecord, LaunchError> {
    let plan = request.pipeline.plan()?;
    check_camera(&request.camera)?;
    check_input_stays(request)?;
    let device = device()?;
    let output = OutputFolder::prepare(&request.out, request.overwrite).map_err(|error| all(vec![error]))?;
    let (outcome, record) = run_in(request, &plan, device, &output.path(), progress)?;
    let written = write_record(&record, &output.path());
    match (outcome.failure, written) {
        (None, Ok(())) => {
            output.publish()?;
            Ok(record)
        }
        (None, Err(error)) => {
            let why = with_causes(&error);
            Err(LaunchError::Record { why, partial: output.publish_partial() })
        }
        (Some(failure), _) => Err(LaunchError::Stage { failure, partial: output.publish_partial() }),
    }
}

/// Runs a pipeline and keeps only its record and the time it took.
pub fn profile(request: &RunRequest, progress: Arc<Progress>) -> Result<(RunRecord, Duration), LaunchError> {
    let plan = request.pipeline.plan()?;
    check_camera(&request.camera)?;
    let device = choose_device(request)?;
    let folder = tempfile::tempdir()
        .map_err(|error| OutputError::Write { path: std::env::temp_dir(), why: error.to_string() })?;
    let (outcome, record) = run_in(request, &plan, device, folder.path(), progress.clone())?;
    match outcome.failure {
        None => Ok((record, progress.elapsed())),
        Some(failure) => Err(LaunchError::Profile(failure)),
    }
}

fn run_in(
    request: &RunRequest,
    plan: &Plan,
    device: Device,
    folder: &Path,
    progress: Arc<Progress>,
) -> Result<(Outcome, RunRecord), LaunchError> {
    let record = Arc::new(Mutex::new(RunRecord::default()));
    let context = RunContext {
        input: request.input.clone(),
        out: folder.into(),
        seed: request.seed,
        camera: request.camera.clone(),
        max_image_size_px: request.max_image_size_px,
        verdict_lag_frames: plan.verdict_lag_frames,
        device: device.clone(),
        gpu_memory_mib: request.gpu_memory_mib,
        matcher: SharedMatcher::default(),
        record: record.clone(),
    };
    let mut built = plan.build(&context).map_err(all)?;
    let watching = progress.clone();
    built.graph.observe("export", move |frame: &VerifiedFrame| watching.frame(frame));
    progress.begin(&format!("{} on {}, backend {device}", request.pipeline.name, request.input));
    let outcome = built.graph.run();
    progress.end();

    let mut record = record.lock().clone();
    record.version = env!("CARGO_PKG_VERSION").into();
    record.options = json!({
        "pipeline": request.pipeline.name,
        "camera": request.camera,
        "max_image_size_px": request.max_image_size_px,
        "verdict_lag_frames": plan.verdict_lag_frames,
        "stages": built.options,
    });
    record.backend = device.backend();
    record.adapter = device.adapter().map(str::to_owned);
    record.gpu_peak_bytes = device.gpu().map(Gpu::peak_bytes);
    record.seed = request.seed;
    record.stages = outcome.stages.clone();
    if let Some(failure) = &outcome.failure {
        record.warnings.insert(0, failure.to_string());
    }
    Ok((outcome, record))
}

fn choose_device(request: &RunRequest) -> Result<Device, LaunchError> {
    Device::choose(request.backend, request.adapter.as_deref()).map_err(|error| all(vec![error]))
}

/// What `--overwrite` removes must not hold the input.
fn check_input_stays(request: &RunRequest) -> Result<(), LaunchError> {
    let path = request.input.strip_prefix("file://").unwrap_or(&request.input);
    let (Ok(input), Ok(out)) = (Path::new(path).canonicalize(), request.out.canonicalize()) else {
        return Ok(());
    };
    if !request.overwrite || !input.starts_with(&out) {
        return Ok(());
    }
    let (input, out) = (request.input.clone(), request.out.clone());
    Err(LaunchError::Request(vec![RequestError::InputInOutput { input, out }]))
}

/// Parameters are checked against the model on a picture of any size.
fn check_camera(camera: &CameraOptions) -> Result<(), LaunchError> {
    Camera::from_options(camera, 1280, 720).map(drop).map_err(|error| all(vec![error]))
}

fn write_record(record: &RunRecord, folder: &Path) -> std::io::Result<()> {
    let text = serde_json::to_string_pretty(record)?;
    std::fs::write(folder.join("run.json"), text + "\n")
}

/// What `--json` prints of a record.
pub fn summary(record: &RunRecord, out: &Path) -> serde_json::Value {
    let verified = record.pairs.iter().filter(|pair| pair.config.is_some()).count();
    json!({
        "out": out,
        "version": record.version,
        "backend": record.backend,
        "adapter": record.adapter,
        "seed": record.seed,
        "frames": record.frames.len(),
        "keyframes": record.keyframes.len(),
        "pairs": record.pairs.len(),
        "verified_pairs": verified,
        "initial_pair": record.initial_pair,
        "ends": record.ends,
        "bytes": record.bytes,
        "warnings": record.warnings,
    })
}

/// A record in a line for people.
pub fn in_words(record: &RunRecord, elapsed: Duration) -> String {
    let verified = record.pairs.iter().filter(|pair| pair.config.is_some()).count();
    let (frames, seconds) = (record.frames.len(), elapsed.as_secs_f64());
    let begin = record.initial_pair.map_or(String::new(), |pair| {
        format!(", begin mapping with images {} and {}", pair.first, pair.second)
    });
    format!(
        "{frames} frames, {} keyframes, {verified} of {} pairs verified{begin}, {seconds:.1} s ({:.1} frames/s)",
        record.keyframes.len(),
        record.pairs.len(),
        frames as f64 / seconds.max(1e-9)
    )
}
