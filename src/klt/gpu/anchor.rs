//! The anchors of live tracks on a device: patches, sums and maps stay there.

use std::ops::Range;
use std::sync::Arc;

use crate::device::{Bound, Buffer, DeviceError, Gpu, Recording};
use crate::kernels::klt_anchor::{self, AnchorRecord, KltAnchorParams};
use crate::kernels::klt_patch::{self, IS_NEW, KltPatchParams, PatchSums, chunks, window_on_device};
use crate::kernels::klt_track::TrackRecord;
use crate::klt::KltOptions;
use crate::klt::slots::Slots;

/// What the anchors of `push_tracks` are on the CPU. The buffers of the tracker are bound once.
#[derive(Debug)]
pub(super) struct GpuAnchors {
    gpu: Gpu,
    options: Arc<KltOptions>,
    size: [usize; 2],
    slots: Slots,
    /// Of each track of this push its slot, and whether it is new.
    words: Vec<u32>,
    words_on_gpu: Buffer<u32>,
    patch: Bound,
    align: Bound,
}

/// The tracker's buffers. The planes hold both frames, level 0 of each first.
pub(super) struct Tracked<'a> {
    pub pyramid: &'a Buffer<f32>,
    pub gradient_x: &'a Buffer<f32>,
    pub gradient_y: &'a Buffer<f32>,
    pub starts: &'a Buffer<TrackRecord>,
    /// The checked records come first.
    pub records: &'a Buffer<TrackRecord>,
}

impl GpuAnchors {
    /// Without tracks, for as many as `tracked` has starts, in frames of `size`.
    pub fn new(
        gpu: &Gpu,
        options: &Arc<KltOptions>,
        size: [usize; 2],
        tracked: Tracked,
    ) -> Result<GpuAnchors, DeviceError> {
        let Tracked { pyramid, gradient_x, gradient_y, starts, records } = tracked;
        let (capacity, window_px) = (starts.len(), options.anchor_window_px as usize);
        let window = window_on_device(gpu, window_px)?;
        let slots = gpu.buffer::<u32>("slots", capacity)?;
        let sums = gpu.buffer::<PatchSums>("patch_sums", capacity)?;
        let samples = gpu.buffer::<[f32; 16]>("patch_samples", capacity * 3 * chunks(window_px))?;
        let anchors = gpu.buffer::<AnchorRecord>("anchors", capacity)?;
        let patch = klt_patch::kernel(gpu)?.bind(
            &KltPatchParams::new(options, size, 0, 0),
            &[&window, pyramid, gradient_x, gradient_y, starts, &slots, &sums, &samples, &anchors],
        )?;
        let align = klt_anchor::kernel(gpu)?.bind(
            &KltAnchorParams::new(options, size, 0, 0),
            &[&window, pyramid, &sums, &samples, &slots, &anchors, records],
        )?;
        Ok(GpuAnchors {
            gpu: gpu.clone(),
            options: options.clone(),
            size,
            slots: Slots::default(),
            words: Vec::new(),
            words_on_gpu: slots,
            patch,
            align,
        })
    }

    /// Gives the tracks `ids` of the starts of this push their slots.
    pub fn assign(&mut self, ids: &[u32]) {
        let slots = self.slots.assign(ids);
        let word = |&(slot, is_new): &(usize, bool)| slot as u32 | if is_new { IS_NEW } else { 0 };
        self.words = slots.iter().map(word).collect();
        self.gpu.write(&self.words_on_gpu, 0, &self.words);
    }

    /// Behind the tracking of `tracks`: moves live records to where the frame that begins at `current` shows the patches
    /// about the seeds. Tracks that are new have theirs in the frame that begins at `previous`.
    pub fn record(&self, recording: &mut Recording, tracks: Range<usize>, [previous, current]: [usize; 2]) {
        let (options, size, first) = (&self.options, self.size, tracks.start);
        let groups = [tracks.len() as u32, 1, 1];
        if self.words[tracks].iter().any(|word| word & IS_NEW != 0) {
            self.patch.set(&KltPatchParams::new(options, size, previous, first));
            recording.pass("patches").dispatch(&self.patch, groups);
        }
        self.align.set(&KltAnchorParams::new(options, size, current, first));
        recording.pass("anchors").dispatch(&self.align, groups);
    }
}
