//! Descriptors of keyframes, and where their keypoints lie, in one buffer each of a device. The host keeps them all: what must go is forgotten here and comes
//! again when it is asked for.

use std::mem::size_of;

use super::View;
use crate::device::{Buffer, DeviceError, Gpu};
use crate::kernels::match_guided::Spot;
use crate::message::Descriptor;

/// Where a keyframe's descriptors lie: the first and their number.
pub(super) type Place = (usize, usize);

/// Places in one buffer that grows up to a bound.
#[derive(Debug)]
pub(super) struct Arena {
    gpu: Gpu,
    most: usize,
    descriptors: Buffer<Descriptor>,
    /// None where no one asks where keypoints lie.
    spots: Option<Buffer<Spot>>,
    /// What is held, by its place, ascending.
    held: Vec<(usize, View)>,
}

impl Arena {
    /// An empty one for at most `memory_bytes`.
    pub fn new(gpu: &Gpu, memory_bytes: u64, with_spots: bool) -> Result<Arena, DeviceError> {
        let bytes = size_of::<Descriptor>() + with_spots as usize * size_of::<Spot>();
        let most = usize::try_from(memory_bytes).unwrap_or(usize::MAX) / bytes;
        let descriptors = gpu.buffer("descriptors", 0)?;
        let spots = with_spots.then(|| gpu.buffer("spots", 0)).transpose()?;
        Ok(Arena { gpu: gpu.clone(), most, descriptors, spots, held: Vec::new() })
    }

    /// The buffer.
    pub fn descriptors(&self) -> &Buffer<Descriptor> {
        &self.descriptors
    }

    /// Where keypoints lie.
    pub fn spots(&self) -> Option<&Buffer<Spot>> {
        self.spots.as_ref()
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
        let n = wanted.next_power_of_two().min(most);
        if let Some(spots) = &mut self.spots {
            *spots = self.gpu.buffer("spots", 0)?;
            *spots = self.gpu.buffer("spots", n)?;
        }
        self.descriptors = self.gpu.buffer("descriptors", n)?;
        Ok(true)
    }

    /// Where the descriptors of `view` lie, if they are held.
    pub fn place(&self, view: &View) -> Option<Place> {
        let held = self.held.iter().find(|(_, held)| held.is(view));
        held.map(|(begin, held)| (*begin, held.len()))
    }

    /// Brings descriptors to the first room that they fit into, if there is one and they are not held.
    pub fn load(&mut self, view: &View) -> bool {
        if self.place(view).is_some() {
            return true;
        }
        let ends = self.held.iter().map(|(begin, held)| begin + held.len());
        let rooms = std::iter::once(0).chain(ends);
        let next = self.held.iter().map(|(begin, _)| *begin).chain([self.descriptors.len()]);
        let fits = |(begin, end): (usize, usize)| end - begin >= view.len();
        let Some((at, (begin, _))) = rooms.zip(next).enumerate().find(|(_, room)| fits(*room)) else {
            return false;
        };
        self.gpu.write(&self.descriptors, begin, &view.features.descriptors);
        if let Some(spots) = &self.spots {
            self.gpu.write(spots, begin, &view.spots().spots);
        }
        self.held.insert(at, (begin, view.clone()));
        true
    }

    /// Forgets what is not wanted.
    pub fn retain(&mut self, is_wanted: impl Fn(&View) -> bool) {
        self.held.retain(|(_, held)| is_wanted(held));
    }

    /// Forgets what has the lowest rank; false where nothing has one.
    pub fn forget_lowest(&mut self, rank: impl Fn(&View) -> Option<usize>) -> bool {
        let ranks = self.held.iter().enumerate().filter_map(|(at, (_, held))| Some((rank(held)?, at)));
        let lowest = ranks.min();
        if let Some((_, at)) = lowest {
            self.held.remove(at);
        }
        lowest.is_some()
    }
}
