//! Pipeline files: an ordered list of stages with options and queue capacities, and the overrides of a command line.

use std::path::Path;

use serde::Deserialize;
use toml::{Table, Value};

/// A pipeline as its file says it.
#[derive(Clone, Debug, PartialEq)]
pub struct PipelineConfig {
    /// L: the verdict on frame n is applied at frame n + L. 1 or more; larger hides more matching and verification
    /// behind tracking, and rejects later.
    pub verdict_lag_frames: u32,
    /// The stages in the order of the file.
    pub stages: Vec<StageConfig>,
}

/// A `[[stage]]` of a pipeline file.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StageConfig {
    /// One of the names in [`STAGES`](crate::stages::STAGES).
    pub name: String,
    /// Capacity of its output queue: 1 or more. Larger evens out stages of varying speed and holds more frames.
    #[serde(default = "default_queue")]
    pub queue: usize,
    /// The stage's own options.
    #[serde(default)]
    pub options: Table,
}

fn default_queue() -> usize {
    2
}

const DEFAULT_VERDICT_LAG_FRAMES: u32 = 4;

/// The pipelines that come with the program: bare name and text.
pub const BUILT_IN: [(&str, &str); 4] = [
    ("full", include_str!("../../pipelines/full.toml")),
    ("sift", include_str!("../../pipelines/sift.toml")),
    ("tracks", include_str!("../../pipelines/tracks.toml")),
    ("extract", include_str!("../../pipelines/extract.toml")),
];

/// Why a pipeline cannot be read, or an override not applied.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ConfigError {
    /// Neither a bare name nor a file.
    #[error(
        "no pipeline {name:?}: it is neither a file nor one of {}; name one of those or give the path of a file",
        built_in_names()
    )]
    NoSuchPipeline {
        /// What the user wrote.
        name: String,
    },
    /// The file is there and cannot be read.
    #[error("pipeline {path} cannot be read: {why}")]
    Unreadable {
        /// The path as given.
        path: String,
        /// What the system says.
        why: String,
    },
    /// The file is no TOML.
    #[error("pipeline {pipeline}, line {line}: {why}")]
    Syntax {
        /// The pipeline as named.
        pipeline: String,
        /// From 1.
        line: usize,
        /// What the parser says.
        why: String,
    },
    /// A key that does not belong, or a value of the wrong type.
    #[error("pipeline {pipeline}, {place}: {why}")]
    Key {
        /// The pipeline as named.
        pipeline: String,
        /// "top level" or "stage 3".
        place: String,
        /// What is wrong.
        why: String,
    },
    /// An override that is not `stage.option=value`.
    #[error("--set {text}: {why}; write --set stage.option=value")]
    Set {
        /// What the user wrote.
        text: String,
        /// What is wrong.
        why: String,
    },
    /// A flag for an option of a stage that is left out.
    #[error("{flag}: {why}; leave the flag away or choose another pipeline")]
    Flag {
        /// The flag.
        flag: &'static str,
        /// What is wrong.
        why: String,
    },
}

fn built_in_names() -> String {
    BUILT_IN.map(|(name, _)| name).join(", ")
}

impl PipelineConfig {
    /// Loads a built-in pipeline by its bare name, or a file by its path.
    pub fn load(name: &str) -> Result<PipelineConfig, Vec<ConfigError>> {
        if let Some((_, text)) = BUILT_IN.iter().find(|(built_in, _)| *built_in == name) {
            return Self::parse(name, text);
        }
        if !Path::new(name).exists() {
            return Err(vec![ConfigError::NoSuchPipeline { name: name.into() }]);
        }
        match std::fs::read_to_string(name) {
            Ok(text) => Self::parse(name, &text),
            Err(error) => Err(vec![ConfigError::Unreadable { path: name.into(), why: error.to_string() }]),
        }
    }

    /// Parses the text of a pipeline file; `name` is for messages. Every wrong key is reported at once.
    pub fn parse(name: &str, text: &str) -> Result<PipelineConfig, Vec<ConfigError>> {
        let table: Table = text.parse().map_err(|error: toml::de::Error| {
            let offset = error.span().map_or(0, |span| span.start);
            let line = 1 + text[..offset].matches('\n').count();
            vec![ConfigError::Syntax { pipeline: name.into(), line, why: one_line(error.message()) }]
        })?;
        let mut errors = Vec::new();
        let mut complain = |place: &str, why: String| {
            errors.push(ConfigError::Key { pipeline: name.into(), place: place.into(), why: one_line(&why) });
        };
        let mut config =
            PipelineConfig { verdict_lag_frames: DEFAULT_VERDICT_LAG_FRAMES, stages: Vec::new() };
        for (key, value) in table {
            match (key.as_str(), value) {
                ("verdict_lag_frames", value) => match value.try_into() {
                    Ok(lag) => config.verdict_lag_frames = lag,
                    Err(error) => complain("verdict_lag_frames", error.to_string()),
                },
                ("stage", Value::Array(stages)) => {
                    for (idx, stage) in stages.into_iter().enumerate() {
                        match stage.try_into() {
                            Ok(stage) => config.stages.push(stage),
                            Err(error) => complain(&format!("stage {}", idx + 1), error.to_string()),
                        }
                    }
                }
                (key, _) => complain(
                    "top level",
                    format!("unknown key `{key}`, expected verdict_lag_frames and [[stage]] tables"),
                ),
            }
        }
        if errors.is_empty() { Ok(config) } else { Err(errors) }
    }

    /// Applies `stage.option=value`, or `verdict_lag_frames=value`. The value is TOML; a bare word is a string.
    pub fn set(&mut self, text: &str) -> Result<(), ConfigError> {
        let wrong = |why: String| ConfigError::Set { text: text.into(), why };
        let (path, value) = text.split_once('=').ok_or_else(|| wrong("there is no `=`".into()))?;
        let value = parse_value(value.trim());
        if path.trim() == "verdict_lag_frames" {
            self.verdict_lag_frames =
                value.try_into().map_err(|error| wrong(one_line(&format!("{error}"))))?;
            return Ok(());
        }
        let (stage, option) = path.trim().split_once('.').ok_or_else(|| wrong("there is no `.`".into()))?;
        self.set_option(stage, option, value).map_err(wrong)
    }

    /// Sets an option of a stage the pipeline lists.
    pub fn set_option(&mut self, stage: &str, option: &str, value: Value) -> Result<(), String> {
        let listed: Vec<_> = self.stages.iter().map(|stage| stage.name.clone()).collect();
        let Some(stage) = self.stages.iter_mut().find(|listed| listed.name == stage) else {
            return Err(format!("the pipeline has no stage {stage}, it lists {}", listed.join(", ")));
        };
        if option.is_empty() || option.contains('.') {
            return Err(format!("{option:?} is no option name"));
        }
        stage.options.insert(option.into(), value);
        Ok(())
    }
}

/// A TOML value; what is none is a string.
fn parse_value(text: &str) -> Value {
    text.parse().unwrap_or_else(|_| Value::String(text.into()))
}

pub(crate) fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
