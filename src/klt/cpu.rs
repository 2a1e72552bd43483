//! The tracker on this machine's processor: pyramids that go round, and the twins.

use std::collections::VecDeque;
use std::sync::Arc;

use super::{Anchors, KltOptions, TrackScratch, push_tracks};
use crate::kernels::Pyramid;
use crate::kernels::klt_track::TrackRecord;
use crate::picture::GrayImage;

/// Pyramids given away and remembered for their buffers.
const REMEMBERED: usize = 16;

/// Tracks points from each frame to the next as [`push_tracks`] does.
#[derive(Debug)]
pub struct CpuTracker {
    options: Arc<KltOptions>,
    previous: Option<Arc<Pyramid>>,
    given: VecDeque<Arc<Pyramid>>,
    blurred_x: Vec<f32>,
    anchors: Anchors,
    scratch: TrackScratch,
}

impl CpuTracker {
    /// A tracker that has seen no frame.
    pub fn new(options: Arc<KltOptions>) -> CpuTracker {
        CpuTracker {
            options,
            previous: None,
            given: VecDeque::new(),
            blurred_x: Vec::new(),
            anchors: Anchors::default(),
            scratch: TrackScratch::default(),
        }
    }

    /// Takes the next frame and tracks `starts` of the tracks `ids`, which lie in the frame before, to it. The first frame
    /// takes no starts.
    ///
    /// # Panics
    /// There are starts at the first frame, or not an id for each.
    pub fn push(&mut self, gray: &Arc<GrayImage>, ids: &[u32], starts: &[TrackRecord]) -> &[TrackRecord] {
        let pyramid = self.pyramid_of(gray);
        let Some(previous) = self.previous.replace(pyramid.clone()) else {
            assert!(starts.is_empty(), "the first frame has no tracks");
            return &[];
        };
        let (anchors, scratch) = (&mut self.anchors, &mut self.scratch);
        push_tracks(&previous, &pyramid, &self.options, ids, starts, anchors, scratch)
    }

    /// The pyramid of the last frame.
    ///
    /// # Panics
    /// There was none.
    pub fn pyramid(&self) -> &Arc<Pyramid> {
        self.previous.as_ref().expect("a frame was pushed")
    }

    /// The pyramid of `gray`, in the buffers of one that no one reads any more where there is one.
    fn pyramid_of(&mut self, gray: &Arc<GrayImage>) -> Arc<Pyramid> {
        let free = self.given.iter().position(|given| Arc::strong_count(given) == 1);
        let reused = free.and_then(|index| self.given.remove(index)).and_then(Arc::into_inner);
        let mut pyramid = reused.unwrap_or_default();
        pyramid.rebuild(gray, self.options.levels as usize, &mut self.blurred_x);
        let pyramid = Arc::new(pyramid);
        self.given.push_back(pyramid.clone());
        if self.given.len() > REMEMBERED {
            self.given.pop_front();
        }
        pyramid
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pyramid_is_reused_only_when_no_one_reads_it() {
        let mut tracker = CpuTracker::new(Arc::new(KltOptions::for_size(80, 60)));
        let mut push = |value: f32| {
            let gray = GrayImage { width: 80, height: 60, data: vec![value; 80 * 60] };
            tracker.push(&Arc::new(gray), &[], &[]);
            (tracker.pyramid().clone(), tracker.given.len())
        };
        let (kept, _) = push(0.0);
        let copy = Pyramid::clone(&kept);
        let n_given = (1..6).map(|number| push(0.1 * number as f32).1).last();
        assert_eq!(*kept, copy);
        // The kept one, the previous frame's, and the one before it, whose buffers the next frame gets.
        assert_eq!(n_given, Some(3));
    }
}
