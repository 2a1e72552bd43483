//! Tracks every live track into the next frame: pyramid, forward, backward, check; ends 1 to 5 and 7.

use std::collections::VecDeque;
use std::sync::Arc;

use thiserror::Error;

pub use crate::klt::{KltOptionError, KltPushOptions};

use crate::kernels::Pyramid;
use crate::kernels::klt_track::TrackRecord;
use crate::klt::{KltOptions, TrackScratch, track_points};
use crate::message::{EndReason, GrayFrame, Track, TrackEnd, TrackTable, TrackedFrame, TrackerFrame};
use crate::stages::{RunContext, Stage, StageError};

/// Pyramids given away and remembered for their buffers.
const REMEMBERED: usize = 16;

/// The stage. Keeps the previous frame's pyramid.
pub struct KltPush {
    options: KltPushOptions,
    previous: Option<Previous>,
    given: VecDeque<Arc<Pyramid>>,
    blurred_x: Vec<f32>,
    scratch: TrackScratch,
}

struct Previous {
    pyramid: Arc<Pyramid>,
    options: Arc<KltOptions>,
    size: (usize, usize),
}

/// Tracking cannot go on.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum KltPushError {
    /// Two frames of one run differ in size.
    #[error(
        "frame {frame} is {}x{} at analysis size, but the frame before is {}x{}: give one video or pictures of one size",
        now.0, now.1, before.0, before.1
    )]
    SizeChanged {
        /// Number of the frame.
        frame: u64,
        /// Its width and height.
        now: (usize, usize),
        /// Width and height of the frame before.
        before: (usize, usize),
    },
}

impl KltPush {
    /// A stage that has seen no frame.
    ///
    /// # Errors
    /// An option is out of its range.
    pub fn new(options: KltPushOptions, _context: &RunContext) -> Result<KltPush, KltOptionError> {
        options.check()?;
        Ok(KltPush {
            options,
            previous: None,
            given: VecDeque::new(),
            blurred_x: Vec::new(),
            scratch: TrackScratch::default(),
        })
    }

    /// The pyramid of `frame`, in the buffers of one that no one reads any more where there is one.
    fn pyramid_of(&mut self, frame: &GrayFrame, levels: usize) -> Arc<Pyramid> {
        let free = self.given.iter().position(|given| Arc::strong_count(given) == 1);
        let reused = free.and_then(|index| self.given.remove(index)).and_then(Arc::into_inner);
        let mut pyramid = reused.unwrap_or_default();
        pyramid.rebuild(&frame.gray, levels, &mut self.blurred_x);
        let pyramid = Arc::new(pyramid);
        self.given.push_back(pyramid.clone());
        if self.given.len() > REMEMBERED {
            self.given.pop_front();
        }
        pyramid
    }
}

impl Stage for KltPush {
    type Takes = (GrayFrame, TrackTable);
    type Gives = TrackedFrame;

    fn fire(&mut self, (frame, mut tracks): Self::Takes) -> Result<TrackedFrame, StageError> {
        let now = (frame.gray.width, frame.gray.height);
        let options = match &self.previous {
            Some(Previous { size, .. }) if *size != now => {
                return Err(KltPushError::SizeChanged { frame: frame.info.number, now, before: *size }.into());
            }
            Some(previous) => previous.options.clone(),
            None => Arc::new(self.options.for_size(now.0, now.1)),
        };
        let pyramid = self.pyramid_of(&frame, options.levels as usize);
        let mut ends = Vec::new();
        if let Some(previous) = &self.previous {
            let starts: Vec<_> = tracks.tracks.iter().map(|t| TrackRecord::start(t.x, t.y)).collect();
            let records = track_points(&previous.pyramid, &pyramid, &options, &starts, &mut self.scratch);
            (tracks.tracks, ends) = advance(tracks.tracks, records, options.max_age_frames);
        }
        self.previous = Some(Previous { pyramid: pyramid.clone(), options: options.clone(), size: now });
        let tracker = Some(TrackerFrame { pyramid, options });
        let GrayFrame { info, picture, gray, sizes } = frame;
        Ok(TrackedFrame { info, picture, gray, sizes, tracker, tracks, ends })
    }
}

/// Moves the tracks that live on to their records' positions; the others end.
fn advance(tracks: Vec<Track>, records: &[TrackRecord], max_age_frames: u32) -> (Vec<Track>, Vec<TrackEnd>) {
    let mut alive = Vec::with_capacity(tracks.len());
    let mut ends = Vec::new();
    for (track, record) in tracks.into_iter().zip(records) {
        let age = track.age + 1;
        let reason = record.reason().or((age > max_age_frames).then_some(EndReason::Age));
        match reason {
            Some(reason) => ends.push(TrackEnd { track: track.id, reason }),
            None => alive.push(Track { x: record.x, y: record.y, age, ..track }),
        }
    }
    (alive, ends)
}
