//! The anchors of live tracks: what is kept of each from its seed on.

use std::collections::BTreeMap;

use super::KltOptions;
use crate::kernels::PyramidLevel;
use crate::kernels::klt_anchor::{AnchorRecord, klt_anchor};
use crate::kernels::klt_patch::{PatchSums, chunks, klt_patch};
use crate::kernels::klt_track::TrackRecord;
use crate::picture::GrayImage;

const IDENTITY: [[f32; 2]; 2] = [[1.0, 0.0], [0.0, 1.0]];

/// Patches about the seeds of tracks and how they were last seen, in slots that outlive the tracks.
#[derive(Debug, Default)]
pub struct Anchors {
    /// The slot of each track.
    slots: BTreeMap<u32, usize>,
    free: Vec<usize>,
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
        self.forget_all_but(ids);
        self.read_new(seed_level, options, ids, starts);
        self.starts.fill(AnchorRecord::default());
        for (id, record) in ids.iter().zip(&*records).filter(|(_, record)| record.is_alive()) {
            let slot = self.slots[id];
            self.starts[slot] = AnchorRecord::start([record.x, record.y], self.linear[slot]);
        }
        let params = options.anchor_params();
        klt_anchor(target, &params, &self.sums, &self.samples, &self.starts, &mut self.aligned);
        for (id, record) in ids.iter().zip(records) {
            let slot = self.slots[id];
            let aligned = &self.aligned[slot];
            if aligned.is_taken() {
                self.linear[slot] = aligned.linear;
                (record.x, record.y) = (aligned.x, aligned.y);
            }
        }
    }

    fn forget_all_but(&mut self, ids: &[u32]) {
        let kept = ids.iter().filter_map(|id| self.slots.remove_entry(id)).collect();
        self.free.extend(self.slots.values());
        self.slots = kept;
    }

    /// Gives each track without a slot one, with the patch about its start.
    fn read_new(
        &mut self,
        seed_level: &PyramidLevel,
        options: &KltOptions,
        ids: &[u32],
        starts: &[TrackRecord],
    ) {
        self.seeds.fill(None);
        for (&id, start) in ids.iter().zip(starts) {
            if self.slots.contains_key(&id) {
                continue;
            }
            let slot = self.free.pop().unwrap_or(self.linear.len());
            if slot == self.linear.len() {
                self.linear.push(IDENTITY);
                self.seeds.push(None);
            }
            self.slots.insert(id, slot);
            self.linear[slot] = IDENTITY;
            self.seeds[slot] = Some([start.x, start.y]);
        }
        let n = self.linear.len();
        self.sums.resize(n, PatchSums::default());
        self.starts.resize(n, AnchorRecord::default());
        self.aligned.resize(n, AnchorRecord::default());
        let params = options.patch_params();
        self.samples.resize(n * 3 * chunks(params.window_px), [0.0; 16]);
        klt_patch(seed_level, &params, &self.seeds, &mut self.sums, &mut self.samples);
    }
}
