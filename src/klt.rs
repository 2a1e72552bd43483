//! The tracker over both backends, and its host side: options by picture size, tracking there and back, the anchors of
//! tracks at their seeds, and the selection of points to track.

pub use self::anchor::Anchors;
pub use self::corners::{Corners, Structure};
pub use self::cpu::CpuTracker;
pub use self::gpu::GpuTracker;
pub use self::options::{
    KltOptionError, KltOptions, KltPushOptions, MAX_CAPACITY, MAX_LEVELS, MAX_WINDOW_PX,
};
pub use self::select::{EigenMap, SelectScratch, SelectedPoint, eigen_map_of, select_points};
pub use self::tracker::Tracker;

use self::select::best_first;

use crate::kernels::Pyramid;
use crate::kernels::klt_check::klt_check;
use crate::kernels::klt_track::{TrackRecord, klt_track};

mod anchor;
mod corners;
mod cpu;
mod gpu;
mod options;
mod select;
mod slots;
mod tracker;

/// Buffers of the tracking, kept from frame to frame.
#[derive(Debug, Default)]
pub struct TrackScratch {
    forward: Vec<TrackRecord>,
    backward: Vec<TrackRecord>,
    checked: Vec<TrackRecord>,
}

/// Tracks `starts` from one frame to the other and back. Each record holds the position in `target`, the
/// forward-backward error and the status; ends 1 to 5.
pub fn track_points<'a>(
    template: &Pyramid,
    target: &Pyramid,
    options: &KltOptions,
    starts: &[TrackRecord],
    scratch: &'a mut TrackScratch,
) -> &'a [TrackRecord] {
    let params = options.track_params();
    let TrackScratch { forward, backward, checked } = scratch;
    for records in [&mut *forward, &mut *backward, &mut *checked] {
        records.resize(starts.len(), TrackRecord::default());
    }
    klt_track(template, target, &params, starts, forward);
    klt_track(target, template, &params, forward, backward);
    klt_check(starts, forward, backward, options.forward_backward_px, options.min_ncc, checked);
    checked
}

/// Tracks the tracks `ids` from where they start in one frame to the next: [`track_points`], then, as an option, every
/// live one to where `target` shows the patch about its seed. `anchors` are those of the same tracks in the frames
/// before; a track that is new to them starts at its seed.
///
/// # Panics
/// There is not an id for each start.
pub fn push_tracks<'a>(
    template: &Pyramid,
    target: &Pyramid,
    options: &KltOptions,
    ids: &[u32],
    starts: &[TrackRecord],
    anchors: &mut Anchors,
    scratch: &'a mut TrackScratch,
) -> &'a [TrackRecord] {
    assert_eq!(ids.len(), starts.len(), "an id a start");
    track_points(template, target, options, starts, scratch);
    let records = &mut scratch.checked;
    if options.anchor {
        anchors.align(&template.levels[0], &target.levels[0].gray, options, ids, starts, records);
    }
    records
}
