//! Descriptors of keyframes in one buffer of a device. The host keeps them all: what must go is forgotten here and comes
//! again when it is asked for.

use std::mem::size_of;
use std::sync::Arc;

use crate::device::{Buffer, DeviceError, Gpu};
use crate::message::{Descriptor, Features};

/// Where a keyframe's descriptors lie: the first and their number.
pub(super) type Place = (usize, usize);

/// Places in one buffer that grows up to a bound.
#[derive(Debug)]
pub(super) struct Arena {
    gpu: Gpu,
    most: usize,
    descriptors: Buffer<Descriptor>,
    /// What is held, by its place, ascending.
    held: Vec<(usize, Arc<Features>)>,
}

impl Arena {
    /// An empty one for at most `memory_bytes`.
    pub fn new(gpu: &Gpu, memory_bytes: u64) -> Result<Arena, DeviceError> {
        let most = usize::try_from(memory_bytes).unwrap_or(usize::MAX) / size_of::<Descriptor>();
        let descriptors = gpu.buffer("descriptors", 0)?;
        Ok(Arena { gpu: gpu.clone(), most, descriptors, held: Vec::new() })
    }

    /// The buffer.
    pub fn descriptors(&self) -> &Buffer<Descriptor> {
        &self.descriptors
    }

    /// Room for `wanted` descriptors if the bound allows, for `needed` in any case. Another buffer, if it is one, is empty.
    pub fn reserve(&mut self, wanted: usize, needed: usize) -> Result<bool, DeviceError> {
        let most = self.most.max(needed);
        if wanted.min(most) <= self.descriptors.len() {
            return Ok(false);
        }
        self.held.clear();
        // Both at once would not stay within the bound.
        self.descriptors = self.gpu.buffer("descriptors", 0)?;
        self.descriptors = self.gpu.buffer("descriptors", wanted.next_power_of_two().min(most))?;
        Ok(true)
    }

    /// Where the descriptors of `features` lie, if they are held.
    pub fn place(&self, features: &Arc<Features>) -> Option<Place> {
        let held = self.held.iter().find(|(_, held)| Arc::ptr_eq(held, features));
        held.map(|(begin, held)| (*begin, held.descriptors.len()))
    }

    /// Brings descriptors to the first room that they fit into, if there is one and they are not held.
    pub fn load(&mut self, features: &Arc<Features>) -> bool {
        if self.place(features).is_some() {
            return true;
        }
        let ends = self.held.iter().map(|(begin, held)| begin + held.descriptors.len());
        let rooms = std::iter::once(0).chain(ends);
        let next = self.held.iter().map(|(begin, _)| *begin).chain([self.descriptors.len()]);
        let fits = |(begin, end): (usize, usize)| end - begin >= features.descriptors.len();
        let Some((at, (begin, _))) = rooms.zip(next).enumerate().find(|(_, room)| fits(*room)) else {
            return false;
        };
        self.gpu.write(&self.descriptors, begin, &features.descriptors);
        self.held.insert(at, (begin, features.clone()));
        true
    }

    /// Forgets what is not wanted.
    pub fn retain(&mut self, is_wanted: impl Fn(&Arc<Features>) -> bool) {
        self.held.retain(|(_, held)| is_wanted(held));
    }

    /// Forgets what has the lowest rank; false where nothing has one.
    pub fn forget_lowest(&mut self, rank: impl Fn(&Arc<Features>) -> Option<usize>) -> bool {
        let ranks = self.held.iter().enumerate().filter_map(|(at, (_, held))| Some((rank(held)?, at)));
        let lowest = ranks.min();
        if let Some((_, at)) = lowest {
            self.held.remove(at);
        }
        lowest.is_some()
    }
}
