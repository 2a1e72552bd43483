//! A graph at work: one named thread a stage, until the stream ends or a stage fails.
//!
//! A stage takes its frame first and ends when that queue is closed; ending drops its outputs, so the end travels
//! down the chain behind the last frame. A stage that fails drops its queues too: those after it drain what they
//! hold and end, those before it find their reader gone and end.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;
use std::time::Instant;

use parking_lot::Mutex;

use super::graph::{CheckedGraph, Graph, Node, Observer};
use super::queue::{Closed, QueueInput, QueueOutput, queue};
use super::report::Times;
use super::token::{AnyStage, Tokens};
use crate::error::with_causes;
use crate::record::StageRecord;
use crate::stages::{StageError, StreamEnd};

/// The first thing that went wrong.
#[derive(Debug, thiserror::Error)]
#[error("stage {stage} failed {}: {}", when(*.frame, *.finishing), with_causes(&**error))]
pub struct Failure {
    /// The stage.
    pub stage: String,
    /// Ordinal of the sampled frame it worked on; when finishing, the number of frames it had passed on.
    pub frame: u64,
    /// Whether it failed after its last frame.
    pub finishing: bool,
    /// What it said.
    pub error: StageError,
}

fn when(frame: u64, finishing: bool) -> String {
    if finishing { format!("after its {frame} frames") } else { format!("at sampled frame {frame}") }
}

/// A panic of a stage, caught.
#[derive(Debug, thiserror::Error)]
#[error("it panicked ({0}); this is a fault of the program, please report it")]
pub struct Panicked(String);

/// What a run leaves.
#[derive(Debug)]
pub struct Outcome {
    /// A report a stage, in walking order.
    pub stages: Vec<StageRecord>,
    /// The first failure.
    pub failure: Option<Failure>,
}

/// A stage's ends of its queues.
#[derive(Default)]
struct Wires {
    main_in: Option<QueueOutput>,
    feedback_in: Option<QueueOutput>,
    main_out: Option<QueueInput>,
    feedback_out: Option<QueueInput>,
}

/// Why a stage takes no more tokens.
enum Stop {
    EndOfStream,
    NeighbourGone,
    Failed(StageError),
}

impl From<Closed> for Stop {
    fn from(_: Closed) -> Self {
        Stop::NeighbourGone
    }
}

impl CheckedGraph {
    /// Runs the graph to its end.
    pub fn run(self) -> Outcome {
        let CheckedGraph(mut graph) = self;
        let wires = wires(&mut graph);
        let failure = Mutex::new(None);
        let stages = thread::scope(|scope| {
            let workers: Vec<_> = graph.nodes.into_iter().zip(wires).collect();
            let threads: Vec<_> = workers
                .into_iter()
                .map(|(node, wires)| {
                    let name = node.name.clone();
                    let worker = Worker::new(node, wires, &failure);
                    thread::Builder::new().name(name).spawn_scoped(scope, || worker.run())
                })
                .collect();
            threads.into_iter().map(|thread| report_of(thread, &failure)).collect()
        });
        Outcome { stages, failure: failure.into_inner() }
    }
}

/// Waits for a stage's report. A thread that could not start dropped its queues, so the others end.
fn report_of(
    thread: std::io::Result<thread::ScopedJoinHandle<'_, StageRecord>>,
    failure: &Mutex<Option<Failure>>,
) -> StageRecord {
    let error: StageError = match thread.map(|thread| thread.join()) {
        Ok(Ok(report)) => return report,
        Ok(Err(panic)) => panicked(panic),
        Err(error) => Box::new(error),
    };
    failure.lock().get_or_insert(Failure { stage: "runtime".into(), frame: 0, finishing: false, error });
    StageRecord::default()
}

/// Makes every queue and hands its ends to the stages.
fn wires(graph: &mut Graph) -> Vec<Wires> {
    let mut wires: Vec<Wires> = graph.nodes.iter().map(|_| Wires::default()).collect();
    for idx in 1..wires.len() {
        let (input, output) = queue(graph.nodes[idx - 1].capacity);
        wires[idx - 1].main_out = Some(input);
        wires[idx].main_in = Some(output);
    }
    for edge in graph.feedback.drain(..) {
        let (mut input, output) = queue(edge.capacity);
        for token in edge.initial {
            input.put(token).expect("the reading end is held here");
        }
        let (mut input, mut output) = (Some(input), Some(output));
        for (node, wires) in graph.nodes.iter().zip(&mut wires) {
            if node.stage.gives().feedback == Some(edge.message) {
                wires.feedback_out = input.take();
            }
            if node.stage.takes().feedback == Some(edge.message) {
                wires.feedback_in = output.take();
            }
        }
    }
    wires
}

/// A stage at work on its thread.
struct Worker<'a> {
    name: String,
    stage: Box<dyn AnyStage>,
    observer: Option<Observer>,
    wires: Wires,
    failure: &'a Mutex<Option<Failure>>,
    count: u64,
    busy: Times,
    wait_in: Times,
    wait_out: Times,
}

impl<'a> Worker<'a> {
    fn new(node: Node, wires: Wires, failure: &'a Mutex<Option<Failure>>) -> Self {
        let Node { name, stage, observer, .. } = node;
        let [busy, wait_in, wait_out] = [Times::new(), Times::new(), Times::new()];
        Worker { name, stage, observer, wires, failure, count: 0, busy, wait_in, wait_out }
    }

    /// Fires until the stream ends. A failure is recorded before the queues close, so whoever sees them closed
    /// sees it too.
    fn run(mut self) -> StageRecord {
        let stop = loop {
            if let Err(stop) = self.fire_once() {
                break stop;
            }
        };
        let end = match stop {
            Stop::Failed(error) => {
                self.record(error, false);
                return self.report();
            }
            Stop::EndOfStream if self.failure.lock().is_none() => StreamEnd::Complete,
            Stop::EndOfStream | Stop::NeighbourGone => StreamEnd::Cut,
        };
        if let Err(error) = guarded(|| self.stage.finish(end)) {
            self.record(error, true);
        }
        self.report()
    }

    fn fire_once(&mut self) -> Result<(), Stop> {
        let begin = Instant::now();
        let taken = self.take()?;
        let taken_at = Instant::now();
        if let (Some(observer), Some(token)) = (&mut self.observer, &taken.main) {
            observer(token);
        }
        let given = guarded(|| self.stage.fire(taken)).map_err(Stop::Failed)?.ok_or(Stop::EndOfStream)?;
        let given_at = Instant::now();
        self.count += 1;
        self.wait_in.add(taken_at - begin);
        self.busy.add(given_at - taken_at);
        self.put(given)?;
        self.wait_out.add(given_at.elapsed());
        Ok(())
    }

    fn take(&self) -> Result<Tokens, Stop> {
        let main =
            self.wires.main_in.as_ref().map(QueueOutput::take).transpose().map_err(|_| Stop::EndOfStream)?;
        let feedback = self.wires.feedback_in.as_ref().map(QueueOutput::take).transpose()?;
        Ok(Tokens { main, feedback })
    }

    /// The feedback edge first: it never blocks, and its reader may already have ended.
    fn put(&mut self, given: Tokens) -> Result<(), Stop> {
        if let (Some(edge), Some(token)) = (&mut self.wires.feedback_out, given.feedback) {
            let _reader_may_have_ended = edge.put(token);
        }
        if let (Some(edge), Some(token)) = (&mut self.wires.main_out, given.main) {
            edge.put(token)?;
        }
        Ok(())
    }

    fn record(&self, error: StageError, finishing: bool) {
        let failure = Failure { stage: self.name.clone(), frame: self.count, finishing, error };
        self.failure.lock().get_or_insert(failure);
    }

    fn report(self) -> StageRecord {
        StageRecord {
            count: self.count,
            busy_s: self.busy.sum_s(),
            busy_ms: self.busy.quantiles(),
            wait_in_ms: self.wait_in.quantiles(),
            wait_out_ms: self.wait_out.quantiles(),
            queue_max: self.wires.main_out.as_ref().map_or(0, QueueInput::longest),
            name: self.name,
        }
    }
}

/// A panic becomes an error. The stage is not fired again after it, so no broken state is seen.
fn guarded<R>(op: impl FnOnce() -> Result<R, StageError>) -> Result<R, StageError> {
    catch_unwind(AssertUnwindSafe(op)).unwrap_or_else(|panic| Err(panicked(panic)))
}

fn panicked(panic: Box<dyn Any + Send>) -> StageError {
    let text = panic.downcast_ref::<String>().cloned();
    let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| text.to_string()));
    Box::new(Panicked(text.unwrap_or_else(|| "without a message".into())))
}
