//! The command line.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use trackweave::device;
use trackweave::geometry::camera::CameraOptions;
use trackweave::launcher::{PipelineRequest, RunRequest, StageFlag};

/// A video of a static scene in, a COLMAP database out.
#[derive(Debug, Parser)]
#[command(version, max_term_width = 110)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a pipeline on a video
    Run(RunArgs),
    /// Check a pipeline: every error at once
    Check(PipelineArgs),
    /// Draw a pipeline
    Graph {
        #[command(flatten)]
        pipeline: PipelineArgs,
        /// For graphviz
        #[arg(long)]
        dot: bool,
    },
    /// List the stages
    Stages,
    /// Render a video with known cameras, run `full` on it and measure the result
    Demo {
        /// Folder for the video and the result
        #[arg(long)]
        out: PathBuf,
        /// Replace an earlier demo
        #[arg(long)]
        overwrite: bool,
        #[command(flatten)]
        device: DeviceArgs,
    },
    /// Run a pipeline, keep nothing, print throughput and the time of each stage
    Profile {
        #[command(flatten)]
        work: WorkArgs,
        /// Print the stages as JSON instead of a table
        #[arg(long)]
        json: bool,
    },
}

/// `run`.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// The work.
    #[command(flatten)]
    pub work: WorkArgs,
    /// Folder that holds the result afterwards
    #[arg(long)]
    pub out: PathBuf,
    /// Replace an earlier result in OUT, once the new one is complete
    #[arg(long)]
    pub overwrite: bool,
    /// Print a summary of run.json to stdout
    #[arg(long)]
    pub json: bool,
}

/// A pipeline and its options.
#[derive(Debug, Args)]
pub struct PipelineArgs {
    /// full, sift, tracks, extract, or a file
    pub pipeline: String,
    /// An option of a stage; VALUE is TOML or a bare word
    #[arg(long, value_name = "STAGE.OPTION=VALUE")]
    pub set: Vec<String>,
    /// Capacity of every queue, 1 or more
    #[arg(long, value_name = "N")]
    pub queue: Option<NonZeroUsize>,
}

/// A pipeline, its options and its input.
#[derive(Debug, Args)]
pub struct WorkArgs {
    /// The pipeline.
    #[command(flatten)]
    pub pipeline: PipelineArgs,
    /// A video file, a folder of images, or a URI
    #[arg(long, required = true, value_name = "VIDEO|URI|DIR")]
    pub input: Vec<String>,
    /// Frames sampled a second, or `all`
    #[arg(long, value_name = "N|all")]
    pub fps: Option<String>,
    /// Never more keyframes than this, spread over the video
    #[arg(long, value_name = "N")]
    pub max_keyframes: Option<u32>,
    /// Numbers of the displayed frames that become keyframes, one a line
    #[arg(long, value_name = "FILE")]
    pub keyframes: Option<String>,
    /// Longer side of the analysed picture in pixels
    #[arg(long, value_name = "N")]
    pub analysis_size: Option<u32>,
    /// Longer side of exported pictures in pixels
    #[arg(long, value_name = "N")]
    pub max_image_size: Option<u32>,
    /// COLMAP's name of the camera model of the exported pictures
    #[arg(long, value_name = "MODEL")]
    pub camera_model: Option<String>,
    /// The model's parameters in COLMAP's order
    #[arg(long, value_name = "A,B,C", value_delimiter = ',', allow_hyphen_values = true)]
    pub camera_params: Option<Vec<f64>>,
    /// Seed of RANSAC
    #[arg(long, default_value_t = 0, value_name = "N")]
    pub seed: u64,
    /// Where kernels run.
    #[command(flatten)]
    pub device: DeviceArgs,
    /// MiB of a GPU's memory for the descriptors of keyframes [default: 1024]; those that do not fit come again when asked for
    #[arg(long, value_name = "MIB")]
    pub gpu_memory: Option<u32>,
    /// Write tracks.csv
    #[arg(long)]
    pub tracks: bool,
}

/// Where kernels are asked to run.
#[derive(Debug, Args)]
pub struct DeviceArgs {
    /// Where kernels run
    #[arg(long, default_value = "auto")]
    pub backend: BackendChoice,
    /// Adapter to run them on: a part of its name; software adapters are taken by name only
    #[arg(long, value_name = "NAME")]
    pub adapter: Option<String>,
}

/// The words for where kernels are asked to run.
#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
pub enum BackendChoice {
    /// A GPU if there is one, else the CPU
    Auto,
    /// A GPU
    Gpu,
    /// The CPU
    Cpu,
}

impl From<BackendChoice> for device::BackendChoice {
    fn from(choice: BackendChoice) -> Self {
        match choice {
            BackendChoice::Auto => device::BackendChoice::Auto,
            BackendChoice::Gpu => device::BackendChoice::Gpu,
            BackendChoice::Cpu => device::BackendChoice::Cpu,
        }
    }
}

impl From<PipelineArgs> for PipelineRequest {
    fn from(args: PipelineArgs) -> Self {
        PipelineRequest {
            name: args.pipeline,
            queue: args.queue.map(NonZeroUsize::get),
            flags: Vec::new(),
            set: args.set,
        }
    }
}

impl WorkArgs {
    /// The request; `out` and `overwrite` are for `run` to fill in.
    pub fn into_request(self) -> Result<RunRequest, String> {
        let flags = self.flags();
        let [input] = <[String; 1]>::try_from(self.input).map_err(|inputs| {
            format!("--input is given {} times, but a run takes 1; run them one after another", inputs.len())
        })?;
        Ok(RunRequest {
            pipeline: PipelineRequest { flags, ..self.pipeline.into() },
            input,
            seed: self.seed,
            camera: CameraOptions { model: self.camera_model, params: self.camera_params },
            max_image_size_px: self.max_image_size,
            backend: self.device.backend.into(),
            adapter: self.device.adapter,
            gpu_memory_mib: self.gpu_memory,
            ..RunRequest::default()
        })
    }

    fn flags(&self) -> Vec<StageFlag> {
        let mut flags = Vec::new();
        let mut add = |flag, stage, option, value: Option<toml::Value>| {
            flags.extend(value.map(|value| StageFlag { flag, stage, option, value }));
        };
        let whole = |n: u32| toml::Value::Integer(n.into());
        add("--fps", "frame_decode", "sample_fps", self.fps.clone().map(toml::Value::String));
        add("--max-keyframes", "keyframe_gate", "max_keyframes", self.max_keyframes.map(whole));
        add(
            "--keyframes",
            "keyframe_gate",
            "keyframes_file",
            self.keyframes.clone().map(toml::Value::String),
        );
        add("--analysis-size", "gray_upload", "analysis_size_px", self.analysis_size.map(whole));
        add("--tracks", "export", "tracks", self.tracks.then_some(toml::Value::Boolean(true)));
        flags
    }
}
