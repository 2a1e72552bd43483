//! Stage `keyframe_gate`: which sampled frames become keyframes, and why.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::device::DeviceError;
use crate::error::OptionError;
use crate::gray::Gray;
use crate::message::{
    EndReason, FrameInfo, GateDecision, GateReason, GatedFrame, GatedKeyframe, TrackTable, TrackedFrame,
};
use crate::stages::{RunContext, Stage, StageError, StreamEnd};

mod phase;

use phase::Spectrum;

/// A test of the motion since the last keyframe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GateTest {
    /// Median displacement of the live tracks.
    Tracks,
    /// Phase correlation of thumbnails.
    Phase,
}

/// Options of `keyframe_gate`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct KeyframeGateOptions {
    /// Tests in the order they are asked: `tracks`, `phase`; the first that can answer decides. None: every sampled
    /// frame is a keyframe.
    pub tests: Vec<GateTest>,
    /// Motion since the last keyframe that makes a keyframe, pixels of a picture with a longer side of 640, 0..=640; larger keeps fewer.
    pub min_motion_px: f32,
    /// Live tracks that the test `tracks` needs to answer, at least 1; larger leaves more to the next test.
    pub min_tracks: u32,
    /// Longest time between keyframes, above 0; larger keeps fewer where little moves.
    pub max_gap_s: f64,
    /// Never more keyframes than this, at least 1; spread over the duration where it is known.
    pub max_keyframes: Option<u32>,
    /// A file with one displayed frame number a line: exactly these sampled frames are keyframes.
    pub keyframes_file: Option<PathBuf>,
}

impl Default for KeyframeGateOptions {
    fn default() -> Self {
        KeyframeGateOptions {
            tests: vec![GateTest::Tracks, GateTest::Phase],
            min_motion_px: 8.0,
            min_tracks: 64,
            max_gap_s: 1.0,
            max_keyframes: None,
            keyframes_file: None,
        }
    }
}

impl KeyframeGateOptions {
    fn check(&self) -> Result<(), OptionError> {
        if !(0.0..=640.0).contains(&self.min_motion_px) {
            return Err(OptionError::new("min_motion_px", self.min_motion_px, "must be in 0..=640"));
        }
        if self.min_tracks == 0 {
            return Err(OptionError::new("min_tracks", 0, "must be at least 1"));
        }
        if self.max_gap_s.is_nan() || self.max_gap_s <= 0.0 {
            return Err(OptionError::new("max_gap_s", self.max_gap_s, "must be above 0"));
        }
        match (self.max_keyframes, &self.keyframes_file) {
            (Some(0), _) => Err(OptionError::new("max_keyframes", 0, "must be at least 1")),
            (Some(n), Some(_)) => Err(OptionError::new(
                "max_keyframes",
                n,
                "must not be set beside keyframes_file: set one of them",
            )),
            _ => Ok(()),
        }
    }
}

/// Keeps frames that moved enough since the last keyframe.
#[derive(Debug)]
pub struct KeyframeGate {
    options: KeyframeGateOptions,
    /// Listed frame numbers and whether they were sampled.
    listed: Option<BTreeMap<u64, bool>>,
    n_keyframes: u32,
    last: Option<LastKeyframe>,
}

/// What the tests compare with.
#[derive(Debug)]
struct LastKeyframe {
    pts_ns: u64,
    gray: Gray,
    /// Made of `gray` when the test `phase` first asks.
    spectrum: Option<Spectrum>,
    /// Tracks that were there and could not be followed since (ends 1 to 5).
    n_lost: usize,
}

impl KeyframeGate {
    /// Checks the options and reads `keyframes_file`.
    pub fn new(options: KeyframeGateOptions, _context: &RunContext) -> Result<Self, OptionError> {
        options.check()?;
        let listed = options.keyframes_file.as_deref().map(read_list).transpose()?;
        Ok(KeyframeGate { options, listed, n_keyframes: 0, last: None })
    }

    fn decide(&mut self, frame: &TrackedFrame) -> Result<GateDecision, DeviceError> {
        let decision = |kept, reason| Ok(GateDecision { kept, reason, motion_px: None });
        if let Some(listed) = &mut self.listed {
            let sampled = listed.get_mut(&frame.info.number).map(|sampled| *sampled = true);
            return decision(sampled.is_some(), GateReason::Listed);
        }
        if !self.budget_allows(&frame.info) {
            return decision(false, GateReason::Budget);
        }
        let Some(last) = &mut self.last else { return decision(true, GateReason::First) };
        if self.options.tests.is_empty() {
            return decision(true, GateReason::All);
        }
        let gap_ns = frame.info.pts_ns.saturating_sub(last.pts_ns);
        if gap_ns as f64 >= self.options.max_gap_s * 1e9 {
            return decision(true, GateReason::Gap);
        }
        for test in &self.options.tests {
            let (motion_px, reason) = match test {
                GateTest::Tracks if frame.tracks.tracks.len() < self.options.min_tracks as usize => continue,
                GateTest::Tracks => match median_motion(&frame.tracks, last.n_lost) {
                    None => return decision(true, GateReason::Lost),
                    motion_px => (motion_px, GateReason::Tracks),
                },
                GateTest::Phase => (last.motion_to(&frame.gray)?, GateReason::Phase),
            };
            if let Some(motion) = motion_px {
                let kept = motion >= frame.sizes.scaled(self.options.min_motion_px);
                return Ok(GateDecision { kept, reason, motion_px });
            }
        }
        decision(true, GateReason::Undecided)
    }

    /// With a budget of N over a duration D, keyframe n (from 0) comes no earlier than n D / N.
    fn budget_allows(&self, info: &FrameInfo) -> bool {
        let Some(budget) = self.options.max_keyframes else { return true };
        let due = |duration_ns: u64| {
            info.pts_ns as u128 * budget as u128 >= self.n_keyframes as u128 * duration_ns as u128
        };
        self.n_keyframes < budget && info.video.duration_ns.is_none_or(due)
    }
}

impl Stage for KeyframeGate {
    type Takes = TrackedFrame;
    type Gives = GatedFrame;

    fn fire(&mut self, frame: TrackedFrame) -> Result<GatedFrame, StageError> {
        if let Some(last) = &mut self.last {
            last.n_lost += frame.ends.iter().filter(|end| end.reason != EndReason::Age).count();
        }
        let gate = self.decide(&frame)?;
        let keyframe = gate.kept.then(|| {
            let keyframe = self.n_keyframes;
            self.n_keyframes += 1;
            let gray = frame.gray.clone();
            self.last = Some(LastKeyframe { pts_ns: frame.info.pts_ns, gray, spectrum: None, n_lost: 0 });
            GatedKeyframe { keyframe, picture: frame.picture, gray: frame.gray, tracker: frame.tracker }
        });
        let TrackedFrame { info, sizes, tracks, ends, .. } = frame;
        Ok(GatedFrame { info, sizes, gate, tracks, ends, keyframe })
    }

    fn finish(&mut self, end: StreamEnd) -> Result<(), StageError> {
        let listed = self.listed.iter().flatten();
        let missing: Vec<u64> = listed.filter(|(_, sampled)| !**sampled).map(|(number, _)| *number).collect();
        match (end, missing.first()) {
            (StreamEnd::Complete, Some(&number)) => {
                let file = self.options.keyframes_file.clone().unwrap_or_default();
                Err(GateError { file, number, others: missing.len() - 1 }.into())
            }
            _ => Ok(()),
        }
    }
}

/// A listed frame that never came.
#[derive(Debug, PartialEq, thiserror::Error)]
#[error(
    "keyframes_file {}: frame {number} was never sampled{}: list sampled frames, or sample all frames with --fps all",
    file.display(),
    if *others > 0 { format!(" ({others} more like it)") } else { String::new() }
)]
struct GateError {
    file: PathBuf,
    number: u64,
    others: usize,
}

impl LastKeyframe {
    fn motion_to(&mut self, gray: &Gray) -> Result<Option<f32>, DeviceError> {
        let spectrum = match &mut self.spectrum {
            Some(spectrum) => spectrum,
            none => none.insert(Spectrum::new(&*self.gray.host()?)),
        };
        let displacement = spectrum.displacement_to(&Spectrum::new(&*gray.host()?));
        Ok(displacement.map(|[dx, dy]| (dx * dx + dy * dy).sqrt()))
    }
}

/// Median length of the displacements since the last keyframe (the larger of two in the middle), a lost track counted
/// as moved farther than any; none when that is the median itself. Tracks are seeded at keyframes only, so every live
/// track was there. Without the lost ones a camera that walks forward seems to stand: what is near is lost first.
fn median_motion(table: &TrackTable, n_lost: usize) -> Option<f32> {
    let displacement = |t: &crate::message::Track| {
        let (dx, dy) = (t.x - t.at_keyframe[0], t.y - t.at_keyframe[1]);
        (dx * dx + dy * dy).sqrt()
    };
    let mut lengths: Vec<f32> = table.tracks.iter().map(displacement).collect();
    let middle = (lengths.len() + n_lost) / 2;
    (middle < lengths.len()).then(|| *lengths.select_nth_unstable_by(middle, f32::total_cmp).1)
}

/// One displayed frame number a line; empty lines are skipped.
fn read_list(path: &Path) -> Result<BTreeMap<u64, bool>, OptionError> {
    let error = |must: String| OptionError::new("keyframes_file", path.display(), must);
    let text = std::fs::read_to_string(path).map_err(|e| error(format!("cannot be read: {e}")))?;
    let mut listed = BTreeMap::new();
    for (i, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let number = line.trim().parse().map_err(|_| {
            error(format!("line {} is '{line}': must be the number of a displayed frame, from 0", i + 1))
        })?;
        listed.insert(number, false);
    }
    if listed.is_empty() {
        return Err(error("must list at least one frame number".into()));
    }
    Ok(listed)
}

#[cfg(test)]
mod tests;
