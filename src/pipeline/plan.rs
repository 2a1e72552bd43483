//! From a pipeline file to a plan: which stages run, which are passed by, every error at once.

use serde_json::Value;

use super::config::{PipelineConfig, StageConfig};
use super::graph::{CheckedGraph, Graph, WireError};
use super::token::Edges;
use crate::error::with_causes;
use crate::message::{TrackTable, Verdict};
use crate::stages::{RunContext, STAGES, StageRow};

/// A queue of more holds no more in practice; its memory is set aside at the start.
const MAX_QUEUE: usize = 10_000;

/// A mistake in a pipeline. Both ends of what disagrees are named.
#[derive(Debug, thiserror::Error)]
pub enum GraphError {
    /// No stage at all.
    #[error("the pipeline lists no stage; list at least {}", mandatory().join(", "))]
    Empty,
    /// A name that no stage has.
    #[error("stage {position} is named {name:?}, which no stage is called; {advice}")]
    Unknown {
        /// Place in the list, from 1.
        position: usize,
        /// The name in the file.
        name: String,
        /// What to write.
        advice: String,
    },
    /// One stage listed more than once.
    #[error("stage {name} is listed twice, as number {first} and number {second}; remove one")]
    Twice {
        /// The stage.
        name: &'static str,
        /// Places in the list, from 1.
        first: usize,
        /// See `first`.
        second: usize,
    },
    /// A stage listed after one that it precedes.
    #[error("stage {stage} is listed after {after}, but frames pass {stage} first; move it before {after}")]
    OutOfOrder {
        /// The stage.
        stage: &'static str,
        /// The stage it must stand before.
        after: &'static str,
    },
    /// Two neighbours of different types.
    #[error("stage {stage} takes {takes}, but {before} before it gives {gives}; put {} between them", missing.join(", "))]
    WrongType {
        /// The later stage.
        stage: &'static str,
        /// What it takes.
        takes: &'static str,
        /// The earlier stage.
        before: &'static str,
        /// What that gives.
        gives: &'static str,
        /// The stages that turn one into the other.
        missing: Vec<&'static str>,
    },
    /// Nothing feeds the first stage.
    #[error("stage {stage} takes {takes}, but nothing stands before it; begin the pipeline with {}", missing.join(", "))]
    NoBeginning {
        /// The first stage.
        stage: &'static str,
        /// What it takes.
        takes: &'static str,
        /// The stages missing before it.
        missing: Vec<&'static str>,
    },
    /// Nothing takes what the last stage gives.
    #[error("stage {stage} gives {gives}, but nothing stands after it; end the pipeline with {}", missing.join(", "))]
    NoEnd {
        /// The last stage.
        stage: &'static str,
        /// What it gives.
        gives: &'static str,
        /// The stages missing after it.
        missing: Vec<&'static str>,
    },
    /// A stage that makes no sense without another.
    #[error("stage {stage} needs {needs}, which the pipeline leaves out; list both or neither")]
    Needs {
        /// The stage.
        stage: &'static str,
        /// The other.
        needs: &'static str,
    },
    /// A queue without room, or with more than any memory holds.
    #[error(
        "stage {stage} has queue = {queue}, but a queue holds 1 to {MAX_QUEUE} tokens; set it in that range"
    )]
    Queue {
        /// The stage.
        stage: String,
        /// What it is set to.
        queue: usize,
    },
    /// More initial verdicts than a queue holds.
    #[error("verdict_lag_frames = {0}, but at most {MAX_QUEUE} verdicts wait; set 1 to {MAX_QUEUE}")]
    LongLag(u32),
    /// No initial verdicts.
    #[error(
        "verdict_lag_frames = 0, but keyframe_join would wait for the verdict on the frame it holds; set 1 or more"
    )]
    NoLag,
    /// A stage refused its options, or cannot open what they name.
    #[error("stage {stage}: {why}")]
    Option {
        /// The stage.
        stage: &'static str,
        /// What it says.
        why: String,
    },
    /// Stages that do not fit although the pipeline is in order.
    #[error(transparent)]
    Wire(#[from] WireError),
}

fn mandatory() -> Vec<&'static str> {
    STAGES.iter().filter(|row| row.bypass.is_none()).map(|row| row.name).collect()
}

/// A stage of a plan.
#[derive(Clone, Debug)]
pub struct PlannedStage {
    /// Its row.
    pub row: &'static StageRow,
    /// Its table in the pipeline; none where it is left out and a bypass stands in.
    pub config: Option<StageConfig>,
}

/// A pipeline whose stages fit together: every stage in walking order, those left out as bypasses.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The stages in walking order.
    pub stages: Vec<PlannedStage>,
    /// L, the frames a verdict travels back.
    pub verdict_lag_frames: u32,
}

/// A graph ready to run.
pub struct BuiltGraph {
    /// The stages and their edges.
    pub graph: CheckedGraph,
    /// The effective options of every stage by name, defaults included.
    pub options: Value,
}

impl Plan {
    /// Checks a pipeline. The options of the stages are read, their ranges are checked where a stage needs no input.
    pub fn new(config: &PipelineConfig) -> Result<Plan, Vec<GraphError>> {
        let mut errors = Vec::new();
        let listed = listed_rows(config, &mut errors);
        check_wires(&listed, &mut errors);
        for stage in &config.stages {
            if !(1..=MAX_QUEUE).contains(&stage.queue) {
                errors.push(GraphError::Queue { stage: stage.name.clone(), queue: stage.queue });
            }
        }
        match config.verdict_lag_frames {
            0 => errors.push(GraphError::NoLag),
            lag if lag as usize > MAX_QUEUE => errors.push(GraphError::LongLag(lag)),
            _ => {}
        }
        let stages: Vec<_> = STAGES
            .iter()
            .map(|row| PlannedStage {
                row,
                config: config.stages.iter().find(|stage| stage.name == row.name).cloned(),
            })
            .collect();
        for planned in &stages {
            if let Some(config) = &planned.config
                && let Err(error) = (planned.row.check)(config.options.clone())
            {
                errors.push(refused(planned.row, &*error));
            }
        }
        if errors.is_empty() {
            Ok(Plan { stages, verdict_lag_frames: config.verdict_lag_frames })
        } else {
            Err(errors)
        }
    }

    /// How many stages the pipeline lists.
    pub fn n_listed(&self) -> usize {
        self.stages.iter().filter(|stage| stage.config.is_some()).count()
    }

    /// Builds every stage for a run.
    pub fn build(&self, context: &RunContext) -> Result<BuiltGraph, Vec<GraphError>> {
        let mut errors = Vec::new();
        let mut graph = Graph::default();
        let mut options = serde_json::Map::new();
        for PlannedStage { row, config } in &self.stages {
            let Some(config) = config else {
                let bypass = row.bypass.expect("the plan leaves out only stages with a bypass");
                graph.push(row.name, 1, bypass());
                continue;
            };
            match (row.build)(config.options.clone(), context) {
                Ok(built) => {
                    graph.push(row.name, config.queue, built.stage);
                    options.insert(row.name.into(), built.options);
                }
                Err(error) => errors.push(refused(row, &*error)),
            }
        }
        if !errors.is_empty() {
            return Err(errors);
        }
        let lag = self.verdict_lag_frames as usize;
        graph.feedback::<TrackTable>(1, 1);
        graph.feedback::<Verdict>(lag, lag + 1);
        match graph.check() {
            Ok(graph) => Ok(BuiltGraph { graph, options: Value::Object(options) }),
            Err(errors) => Err(errors.into_iter().map(GraphError::Wire).collect()),
        }
    }
}

/// The stage's name stands in front already, so it is not said twice.
fn refused(row: &StageRow, error: &(dyn std::error::Error + 'static)) -> GraphError {
    let why = with_causes(error);
    let why = why.strip_prefix(row.name).and_then(|why| why.strip_prefix('.')).unwrap_or(&why);
    GraphError::Option { stage: row.name, why: why.into() }
}

/// The rows the file names, in walking order; misspelt ones count as what they are like.
fn listed_rows(config: &PipelineConfig, errors: &mut Vec<GraphError>) -> Vec<usize> {
    let mut listed: Vec<(usize, usize)> = Vec::new();
    for (idx, stage) in config.stages.iter().enumerate() {
        let position = idx + 1;
        let row_idx = STAGES.iter().position(|row| row.name == stage.name).or_else(|| {
            let like = most_like(&stage.name);
            errors.push(GraphError::Unknown { position, name: stage.name.clone(), advice: advice(like) });
            like
        });
        let Some(row_idx) = row_idx else { continue };
        if let Some(&(_, first)) = listed.iter().find(|(other, _)| *other == row_idx) {
            errors.push(GraphError::Twice { name: STAGES[row_idx].name, first, second: position });
            continue;
        }
        if let Some(&(later, _)) = listed.iter().find(|(other, _)| *other > row_idx) {
            errors.push(GraphError::OutOfOrder { stage: STAGES[row_idx].name, after: STAGES[later].name });
        }
        listed.push((row_idx, position));
    }
    let mut rows: Vec<usize> = listed.into_iter().map(|(row_idx, _)| row_idx).collect();
    rows.sort_unstable();
    rows
}

fn most_like(name: &str) -> Option<usize> {
    let likeness = |row: &StageRow| strsim::jaro_winkler(row.name, name);
    let best = (0..STAGES.len()).max_by(|&a, &b| likeness(&STAGES[a]).total_cmp(&likeness(&STAGES[b])))?;
    (likeness(&STAGES[best]) > 0.85).then_some(best)
}

fn advice(like: Option<usize>) -> String {
    match like {
        Some(row_idx) => format!("did you mean {:?}?", STAGES[row_idx].name),
        None => "`trackweave stages` lists them".into(),
    }
}

/// Checks that the listed rows connect, bypasses standing in for optional ones.
fn check_wires(listed: &[usize], errors: &mut Vec<GraphError>) {
    let missing = |from: usize, to: usize| -> Vec<&'static str> {
        STAGES[from..to].iter().filter(|row| row.bypass.is_none()).map(|row| row.name).collect()
    };
    let name = |edges: Edges| edges.main.unwrap_or("nothing");
    let (Some(&first), Some(&last)) = (listed.first(), listed.last()) else {
        return if errors.is_empty() {
            errors.push(GraphError::Empty)
        };
    };
    let before = missing(0, first);
    if !before.is_empty() {
        let (stage, takes) = (STAGES[first].name, name(STAGES[first].takes));
        errors.push(GraphError::NoBeginning { stage, takes, missing: before });
    }
    for pair in listed.windows(2) {
        let (earlier, later) = (&STAGES[pair[0]], &STAGES[pair[1]]);
        let between = missing(pair[0] + 1, pair[1]);
        if !between.is_empty() {
            let (takes, gives) = (name(later.takes), name(earlier.gives));
            errors.push(GraphError::WrongType {
                stage: later.name,
                takes,
                before: earlier.name,
                gives,
                missing: between,
            });
        }
    }
    let after = missing(last + 1, STAGES.len());
    if !after.is_empty() {
        let (stage, gives) = (STAGES[last].name, name(STAGES[last].gives));
        errors.push(GraphError::NoEnd { stage, gives, missing: after });
    }
    for &row_idx in listed {
        if let Some(needs) = STAGES[row_idx].needs
            && !listed.iter().any(|&other| STAGES[other].name == needs)
        {
            errors.push(GraphError::Needs { stage: STAGES[row_idx].name, needs });
        }
    }
}
