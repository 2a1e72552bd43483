//! What people see while a run is at work: a bar on a terminal, a line every few seconds elsewhere. It looks on at the
//! last stage and changes nothing.

use std::fmt::Display;
use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use parking_lot::Mutex;

use crate::message::VerifiedFrame;

const LINE_EVERY: Duration = Duration::from_secs(5);

/// Counts of a run so far, and where they are shown.
#[derive(Debug)]
pub struct Progress {
    begin: Instant,
    is_shown: bool,
    /// Position and length are milliseconds of video.
    bar: ProgressBar,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    frames: u64,
    keyframes: u64,
    /// When the next plain line is due; none where there is a bar, or nothing is shown.
    next_line: Option<Instant>,
}

impl Progress {
    /// Shown on stderr.
    pub fn shown() -> Progress {
        let is_terminal = std::io::stderr().is_terminal();
        let target = if is_terminal { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let next_line = (!is_terminal).then(|| Instant::now() + LINE_EVERY);
        let bar = ProgressBar::with_draw_target(None, target);
        Progress { is_shown: true, ..Progress::new(bar, next_line) }
    }

    /// Counts only.
    pub fn hidden() -> Progress {
        Progress::new(ProgressBar::hidden(), None)
    }

    fn new(bar: ProgressBar, next_line: Option<Instant>) -> Progress {
        bar.set_style(style("{spinner} {msg}"));
        Progress {
            begin: Instant::now(),
            is_shown: false,
            bar,
            state: Mutex::new(State { frames: 0, keyframes: 0, next_line }),
        }
    }

    /// Says what begins.
    pub fn begin(&self, what: &str) {
        if self.is_shown {
            tell(format_args!("trackweave {}: {what}", env!("CARGO_PKG_VERSION")));
        }
    }

    /// A frame arrived at the last stage.
    pub fn frame(&self, frame: &VerifiedFrame) {
        let mut state = self.state.lock();
        state.frames += 1;
        state.keyframes += u64::from(frame.log.gate.kept);
        let duration_ns = frame.log.info.video.duration_ns;
        if let Some(duration_ns) = duration_ns.filter(|_| state.frames == 1) {
            self.bar.set_length(duration_ns / 1_000_000);
            self.bar.set_style(style("{bar:24} {percent:>3} %  {msg}, {eta} left"));
        }
        let fps = state.frames as f64 / self.begin.elapsed().as_secs_f64().max(1e-9);
        let text = format!(
            "frame {}, {} keyframes, {} tracks, {fps:.1} frames/s",
            frame.log.info.number,
            state.keyframes,
            frame.log.rows.len()
        );
        if let Some(due) = state.next_line.filter(|due| Instant::now() >= *due) {
            let part = duration_ns.map(|ns| 100.0 * frame.log.info.pts_ns as f64 / ns.max(1) as f64);
            let part = part.map_or(String::new(), |part| format!("{part:.0} %: "));
            tell(format_args!("{part}{text}"));
            state.next_line = Some(due + LINE_EVERY);
        }
        self.bar.set_message(text);
        self.bar.set_position(frame.log.info.pts_ns / 1_000_000);
    }

    /// `done` of `all` steps of other work.
    pub fn step(&self, what: &str, done: usize, all: usize) {
        let mut state = self.state.lock();
        if let Some(due) = state.next_line.filter(|due| Instant::now() >= *due) {
            tell(format_args!("{what}: {done} of {all}"));
            state.next_line = Some(due + LINE_EVERY);
        }
        self.bar.set_message(format!("{what}: {done} of {all}"));
        self.bar.tick();
    }

    /// Takes the bar away.
    pub fn end(&self) {
        self.bar.finish_and_clear();
    }

    /// Time since the run began.
    pub fn elapsed(&self) -> Duration {
        self.begin.elapsed()
    }
}

/// A line on stderr. That nobody reads it any more is no reason to stop the work.
pub fn tell(line: impl Display) {
    let _nobody_reads = writeln!(std::io::stderr().lock(), "{line}");
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).expect("the template is fixed")
}
