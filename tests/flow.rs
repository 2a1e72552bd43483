//! The runtime with named misbehavers and exact counts: nothing is lost, nothing hangs, timing decides nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, bounded};
use parking_lot::Mutex;
use trackweave::numerics::SplitMix64;
use trackweave::pipeline::graph::{CheckedGraph, Graph, WireError};
use trackweave::pipeline::run::Outcome;
use trackweave::pipeline::token::{AnyStage, Message, any_source, any_stage};
use trackweave::stages::{SourceStage, Stage, StageError, StreamEnd};

/// A frame of these tests: its ordinal, and what the stages made of it.
#[derive(Debug)]
struct Number {
    ordinal: u64,
    value: u64,
}

/// What goes back.
#[derive(Default)]
struct Echo(u64);

impl Message for Number {
    const NAME: &'static str = "Number";
}

impl Message for Echo {
    const NAME: &'static str = "Echo";
}

/// Gives `n` numbers and counts how often it was asked for one.
struct CountingSource {
    n: u64,
    asked: Arc<AtomicU64>,
}

impl SourceStage for CountingSource {
    type Gives = Number;

    fn next(&mut self) -> Result<Option<Number>, StageError> {
        let ordinal = self.asked.fetch_add(1, Ordering::SeqCst);
        Ok((ordinal < self.n).then_some(Number { ordinal, value: ordinal }))
    }
}

fn counting_source(n: u64) -> (Box<dyn AnyStage>, Arc<AtomicU64>) {
    let asked = Arc::new(AtomicU64::new(0));
    (any_source(CountingSource { n, asked: asked.clone() }), asked)
}

/// Passes numbers on.
struct PassingStage;

impl Stage for PassingStage {
    type Takes = Number;
    type Gives = Number;

    fn fire(&mut self, number: Number) -> Result<Number, StageError> {
        Ok(number)
    }
}

/// Passes numbers on after a while that differs from firing to firing.
struct JitteringStage(SplitMix64);

impl Stage for JitteringStage {
    type Takes = Number;
    type Gives = Number;

    fn fire(&mut self, number: Number) -> Result<Number, StageError> {
        thread::sleep(Duration::from_micros(self.0.below(400) as u64));
        Ok(number)
    }
}

/// How a misbehaver misbehaves.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    Error,
    Panic,
}

/// Breaks at a frame.
struct FailingStage {
    at: u64,
    fault: Fault,
    finished: Arc<AtomicU64>,
}

#[derive(Debug, thiserror::Error)]
#[error("the frame is cursed")]
struct Cursed;

impl FailingStage {
    fn break_at(&self, ordinal: u64) -> Result<(), StageError> {
        match self.fault {
            _ if ordinal != self.at => Ok(()),
            Fault::Error => Err(Cursed.into()),
            Fault::Panic => panic!("frame {ordinal} is cursed"),
        }
    }
}

impl Stage for FailingStage {
    type Takes = Number;
    type Gives = Number;

    fn fire(&mut self, number: Number) -> Result<Number, StageError> {
        self.break_at(number.ordinal)?;
        Ok(number)
    }

    fn finish(&mut self, _: StreamEnd) -> Result<(), StageError> {
        self.finished.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }
}

impl SourceStage for FailingStage {
    type Gives = Number;

    fn next(&mut self) -> Result<Option<Number>, StageError> {
        let ordinal = self.finished.fetch_add(1, Ordering::SeqCst);
        self.break_at(ordinal)?;
        Ok(Some(Number { ordinal, value: ordinal }))
    }
}

/// What a sink saw.
#[derive(Default)]
struct Seen {
    values: Vec<u64>,
    end: Option<StreamEnd>,
}

/// Collects numbers, and breaks at one where told to.
#[derive(Default)]
struct Sink {
    seen: Arc<Mutex<Seen>>,
    failing: Option<FailingStage>,
}

impl Stage for Sink {
    type Takes = Number;
    type Gives = ();

    fn fire(&mut self, number: Number) -> Result<(), StageError> {
        self.failing.as_ref().map_or(Ok(()), |failing| failing.break_at(number.ordinal))?;
        self.seen.lock().values.push(number.value);
        Ok(())
    }

    fn finish(&mut self, end: StreamEnd) -> Result<(), StageError> {
        self.seen.lock().end = Some(end);
        Ok(())
    }
}

fn sink() -> (Box<dyn AnyStage>, Arc<Mutex<Seen>>) {
    let seen = Arc::new(Mutex::new(Seen::default()));
    (any_stage(Sink { seen: seen.clone(), failing: None }), seen)
}

/// Takes a number only when it is let.
struct SlowSink(Receiver<()>);

impl Stage for SlowSink {
    type Takes = Number;
    type Gives = ();

    fn fire(&mut self, _: Number) -> Result<(), StageError> {
        self.0.recv().map_err(Into::into)
    }
}

fn slow_sink() -> (Box<dyn AnyStage>, Sender<()>) {
    let (leave, gate) = bounded(1000);
    (any_stage(SlowSink(gate)), leave)
}

/// Weaves what comes back into the numbers, as keyframe_join does with verdicts.
struct WeavingStage;

impl Stage for WeavingStage {
    type Takes = (Number, Echo);
    type Gives = Number;

    fn fire(&mut self, (number, echo): (Number, Echo)) -> Result<Number, StageError> {
        Ok(Number { value: number.value + 1000 * echo.0, ..number })
    }
}

/// Sends each number's ordinal + 1 back.
struct EchoingStage;

impl Stage for EchoingStage {
    type Takes = Number;
    type Gives = (Number, Echo);

    fn fire(&mut self, number: Number) -> Result<(Number, Echo), StageError> {
        let echo = Echo(number.ordinal + 1);
        Ok((number, echo))
    }
}

fn jittering_stage(seed: u64) -> Box<dyn AnyStage> {
    any_stage(JitteringStage(SplitMix64::new(seed, 0)))
}

fn chain(stages: Vec<Box<dyn AnyStage>>, capacity: usize) -> Graph {
    let mut graph = Graph::default();
    for (i, stage) in stages.into_iter().enumerate() {
        graph.push(&format!("stage_{i}"), capacity, stage);
    }
    graph
}

fn checked(graph: Graph) -> CheckedGraph {
    graph.check().unwrap_or_else(|errors| panic!("{errors:?}"))
}

/// Runs a graph under a watchdog.
fn run(graph: Graph) -> Outcome {
    let graph = checked(graph);
    let (done, outcome) = mpsc::channel();
    thread::spawn(move || done.send(graph.run()));
    outcome.recv_timeout(Duration::from_secs(20)).expect("the graph hangs")
}

fn wait_until(mut holds: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !holds() {
        assert!(begin.elapsed() < Duration::from_secs(20), "it never happens");
        thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_blocked_graph_holds_what_fits_and_no_more() {
    for capacity in [1, 3] {
        let (source, asked) = counting_source(100);
        let (sink, leave) = slow_sink();
        let graph =
            checked(chain(vec![source, any_stage(PassingStage), any_stage(PassingStage), sink], capacity));
        let running = thread::spawn(move || graph.run());

        // One in the sink, three queues, one in the hand of the source and of each stage.
        let held = 1 + 3 * capacity as u64 + 3;
        for taken in 0..4 {
            wait_until(|| asked.load(Ordering::SeqCst) >= held + taken);
            thread::sleep(Duration::from_millis(20));
            assert_eq!(asked.load(Ordering::SeqCst), held + taken, "capacity {capacity}, {taken} taken");
            leave.send(()).unwrap();
        }
        (0..100).try_for_each(|_| leave.send(())).unwrap();
        let outcome = running.join().unwrap();
        assert!(outcome.failure.is_none());
        assert!(outcome.stages.iter().all(|stage| stage.count == 100));
        let longest: Vec<u64> = outcome.stages.iter().map(|stage| stage.queue_max).collect();
        assert_eq!(longest, [capacity as u64, capacity as u64, capacity as u64, 0]);
    }
}

#[test]
fn streams_of_any_length_arrive_whole_at_every_capacity() {
    for capacity in [1, 2, 7] {
        for n in [0, 1, 2, 50] {
            let (source, _) = counting_source(n);
            let (sink, seen) = sink();
            let outcome = run(chain(vec![source, any_stage(PassingStage), sink], capacity));
            assert!(outcome.failure.is_none());
            assert_eq!(seen.lock().values, Vec::from_iter(0..n));
            assert_eq!(seen.lock().end, Some(StreamEnd::Complete));
            assert!(outcome.stages.iter().all(|stage| stage.count == n));
        }
    }
}

/// A graph with an edge that goes back `lag` frames, jittering everywhere.
fn woven(n: u64, capacity: usize, lag: usize, seed: u64) -> Vec<u64> {
    let (source, _) = counting_source(n);
    let (sink, seen) = sink();
    let mut graph = chain(
        vec![
            source,
            jittering_stage(seed),
            any_stage(WeavingStage),
            jittering_stage(seed + 1),
            any_stage(EchoingStage),
            jittering_stage(seed + 2),
            sink,
        ],
        capacity,
    );
    graph.feedback::<Echo>(lag, lag + 1);
    assert!(run(graph).failure.is_none());
    std::mem::take(&mut seen.lock().values)
}

#[test]
fn what_goes_back_arrives_exactly_lag_frames_later() {
    for lag in [1, 2, 4] {
        for n in [0, 1, 2, 30] {
            let expected = |i: u64| i + 1000 * (i + 1).saturating_sub(lag);
            assert_eq!(
                woven(n, 1, lag as usize, 3),
                Vec::from_iter((0..n).map(expected)),
                "lag {lag}, {n} frames"
            );
        }
    }
}

#[test]
fn jittering_stages_change_nothing() {
    let calm = woven(40, 2, 4, 0);
    for (seed, capacity) in [(10, 1), (20, 2), (30, 5)] {
        assert_eq!(woven(40, capacity, 4, seed), calm);
    }
}

#[test]
fn a_fault_in_each_place_is_named_and_nothing_hangs() {
    for fault in [Fault::Error, Fault::Panic] {
        for place in 0..4 {
            for at in [0, 5] {
                let finished = Arc::new(AtomicU64::new(0));
                let failing = FailingStage { at, fault, finished: finished.clone() };
                let (source, _) = counting_source(200);
                let seen = Arc::new(Mutex::new(Seen::default()));
                let mut sink = Sink { seen: seen.clone(), failing: None };
                let mut stages = vec![source, any_stage(PassingStage), any_stage(PassingStage)];
                match place {
                    0 => stages[0] = any_source(failing),
                    3 => sink.failing = Some(failing),
                    _ => stages[place] = any_stage(failing),
                }
                stages.push(any_stage(sink));

                let failure = run(chain(stages, 2)).failure.expect("the fault is recorded");
                assert_eq!((failure.stage, failure.frame), (format!("stage_{place}"), at), "{fault:?}");
                assert!(failure.error.to_string().contains("is cursed"), "{}", failure.error);
                let seen = seen.lock();
                assert_eq!(seen.values, Vec::from_iter(0..at), "what was before the fault is drained");
                assert_eq!(
                    seen.end,
                    (place != 3).then_some(StreamEnd::Cut),
                    "a broken stage is not finished"
                );
                if place == 1 || place == 2 {
                    assert_eq!(finished.load(Ordering::SeqCst), 0, "a broken stage is not finished");
                }
            }
        }
    }
}

#[test]
fn a_fault_inside_a_loop_ends_the_loop() {
    for place in 0..5 {
        let fault = |i| -> Box<dyn AnyStage> {
            if i != place {
                return any_stage(PassingStage);
            }
            let finished = Arc::new(AtomicU64::new(0));
            any_stage(FailingStage { at: 3, fault: Fault::Error, finished })
        };
        let (source, _) = counting_source(100);
        let (sink, seen) = sink();
        let mut graph = chain(
            vec![
                source,
                fault(0),
                any_stage(WeavingStage),
                fault(1),
                fault(2),
                any_stage(EchoingStage),
                fault(3),
                fault(4),
                sink,
            ],
            1,
        );
        graph.feedback::<Echo>(2, 3);
        let failure = run(graph).failure.expect("the fault is recorded");
        assert_eq!(failure.frame, 3);
        assert_eq!(seen.lock().values.len(), 3);
    }
}

/// Cannot finish.
struct UnfinishedStage;

impl Stage for UnfinishedStage {
    type Takes = Number;
    type Gives = Number;

    fn fire(&mut self, number: Number) -> Result<Number, StageError> {
        Ok(number)
    }

    fn finish(&mut self, _: StreamEnd) -> Result<(), StageError> {
        Err(Cursed.into())
    }
}

#[test]
fn a_fault_at_the_end_cuts_the_stream_for_those_after_it() {
    let (source, _) = counting_source(3);
    let (sink, seen) = sink();
    let failure = run(chain(vec![source, any_stage(UnfinishedStage), sink], 1)).failure.expect("recorded");
    assert_eq!(failure.to_string(), "stage stage_1 failed after its 3 frames: the frame is cursed");
    let seen = seen.lock();
    assert_eq!((seen.values.len(), seen.end), (3, Some(StreamEnd::Cut)));
}

#[test]
fn an_observer_sees_every_frame() {
    let (source, _) = counting_source(9);
    let (sink, _) = sink();
    let mut graph = checked(chain(vec![source, any_stage(PassingStage), sink], 1));
    let observed = Arc::new(Mutex::new(Vec::new()));
    let by_observer = observed.clone();
    graph.observe::<Number>("stage_2", move |number| by_observer.lock().push(number.ordinal));
    assert!(graph.run().failure.is_none());
    assert_eq!(*observed.lock(), Vec::from_iter(0..9));
}

#[test]
fn ends_that_do_not_fit_are_all_named() {
    let (source, _) = counting_source(1);
    let mut graph = chain(vec![source, any_stage(WeavingStage), any_stage(PassingStage)], 0);
    graph.feedback::<Echo>(0, 1);
    let errors = graph.check().err().expect("it does not fit");
    let stage = |i: usize| format!("stage_{i}");
    assert_eq!(
        errors,
        [
            WireError::NoQueue { stage: stage(0) },
            WireError::NoQueue { stage: stage(1) },
            WireError::NoQueue { stage: stage(2) },
            WireError::OpenEnd { stage: stage(2), gives: "Number" },
            WireError::Feedback { message: "Echo", writers: 0, readers: 1, initial: 0, capacity: 1 },
        ]
    );
    let (sink, _) = sink();
    let errors = chain(vec![sink, any_stage(EchoingStage)], 1).check().err().expect("it does not fit");
    assert_eq!(errors.len(), 4, "{errors:?}");
}
