//! The anchors of live tracks: what is kept of each from its seed on.

use super::KltOptions;
use super::slots::Slots;
use crate::kernels::PyramidLevel;
use crate::kernels::klt_anchor::{AnchorRecord, klt_anchor};
use crate::kernels::klt_patch::{PatchSums, chunks, klt_patch};
use crate::kernels::klt_track::TrackRecord;
use crate::picture::GrayImage;

const IDENTITY: [[f32; 2]; 2] = [[1.0, 0.0], [0.0, 1.0]];

/// Patches about the seeds of tracks and how they were last seen, in slots that outlive the tracks.
#[derive(Debug, Default)]
pub struct Anchors {
    slots: Slots,
    /// How each patch was last seen.
    linear: Vec<[[f32; 2]; 2]>,
    sums: Vec<PatchSums>,
    samples: Vec<[f32; 16]>,
    seeds: Vec<Option<[f32; 2]>>,
    starts: Vec<AnchorRecord>,
    aligned: Vec<AnchorRecord>,
}

impl Anchors {
    /// Moves the live `records` to where `target` shows the patches about the seeds of their tracks `ids`. A track that
    /// is new has its seed in `starts`, in the frame of `seed_level`; one that is not among `ids` is forgotten.
    pub(super) fn align(
        &mut self,
        seed_level: &PyramidLevel,
        target: &GrayImage,
        options: &KltOptions,
        ids: &[u32],
        starts: &[TrackRecord],
        records: &mut [TrackRecord],
    ) {
        let slots = self.slots.assign(ids);
        self.read_new(seed_level, options, &slots, starts);
        self.starts.fill(AnchorRecord::default());
        for (&(slot, _), record) in slots.iter().zip(&*records).filter(|(_, record)| record.is_alive()) {
            self.starts[slot] = AnchorRecord::start([record.x, record.y], self.linear[slot]);
        }
        let params = options.anchor_params();
        klt_anchor(target, &params, &self.sums, &self.samples, &self.starts, &mut self.aligned);
        for ((slot, _), record) in slots.into_iter().zip(records) {
            let aligned = &self.aligned[slot];
            if aligned.is_taken() {
                self.linear[slot] = aligned.linear;
                *record = aligned.moved(record, params.seen_ncc);
            }
        }
    }

    /// Reads the patches of the new tracks about their starts.
    fn read_new(
        &mut self,
        seed_level: &PyramidLevel,
        options: &KltOptions,
        slots: &[(usize, bool)],
        starts: &[TrackRecord],
    ) {
        let n = self.slots.len();
        self.linear.resize(n, IDENTITY);
        self.seeds.clear();
        self.seeds.resize(n, None);
        for (&(slot, _), start) in slots.iter().zip(starts).filter(|((_, is_new), _)| *is_new) {
            self.linear[slot] = IDENTITY;
            self.seeds[slot] = Some([start.x, start.y]);
        }
        self.sums.resize(n, PatchSums::default());
        self.starts.resize(n, AnchorRecord::default());
        self.aligned.resize(n, AnchorRecord::default());
        let params = options.patch_params();
        self.samples.resize(n * 3 * chunks(params.window_px), [0.0; 16]);
        klt_patch(seed_level, &params, &self.seeds, &mut self.sums, &mut self.samples);
    }
}
