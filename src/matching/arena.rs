//! Descriptors of keyframes, and where their keypoints lie, in one buffer each of a device. The host keeps them all: what must
//! go is forgotten here and comes again when it is asked for.

use std::mem::size_of;

use super::View;
use crate::device::{Buffer, DeviceError, Gpu};
use crate::kernels::match_guided::{Spot, SpotBounds, TILE};
use crate::message::Descriptor;

/// Where a keyframe's descriptors lie: the first and their number.
pub(super) type Place = (usize, usize);

/// Places in one buffer that grows up to a bound. Each begins at a tile.
#[derive(Debug)]
pub(super) struct Arena {
    gpu: Gpu,
    memory_bytes: u64,
    descriptors: Buffer<Descriptor>,
    /// None until someone asks where keypoints lie.
    spots: Option<SpotBuffers>,
    /// What is held, by its place, ascending.
    held: Vec<(usize, View)>,
}

/// Where keypoints lie, at the places of their descriptors.
#[derive(Debug)]
pub(super) struct SpotBuffers {
    /// One a keypoint.
    pub spots: Buffer<Spot>,
    /// One a tile.
    pub bounds: Buffer<SpotBounds>,
}

impl SpotBuffers {
    fn new(gpu: &Gpu, len: usize) -> Result<SpotBuffers, DeviceError> {
        Ok(SpotBuffers { spots: gpu.buffer("spots", len)?, bounds: gpu.buffer("tiles", len / TILE)? })
    }
}

/// What a view takes of the buffers.
pub(super) fn room(view: &View) -> usize {
    view.len().next_multiple_of(TILE)
}

impl Arena {
    /// An empty one for at most `memory_bytes`, and for no more descriptors than the device binds at once.
    pub fn new(gpu: &Gpu, memory_bytes: u64) -> Result<Arena, DeviceError> {
        let descriptors = gpu.buffer("descriptors", 0)?;
        Ok(Arena { gpu: gpu.clone(), memory_bytes, descriptors, spots: None, held: Vec::new() })
    }

    /// The buffer.
    pub fn descriptors(&self) -> &Buffer<Descriptor> {
        &self.descriptors
    }

    /// Where keypoints lie.
    pub fn spots(&self) -> Option<&SpotBuffers> {
        self.spots.as_ref()
    }

    /// From here on holds where keypoints lie too. The buffers are others then, and empty.
    pub fn hold_spots(&mut self) -> Result<(), DeviceError> {
        self.spots = Some(SpotBuffers::new(&self.gpu, 0)?);
        self.replace(0)
    }

    /// Room for `wanted` descriptors if the bound allows, for `needed` in any case. Another buffer, if it is one, is empty.
    pub fn reserve(&mut self, wanted: usize, needed: usize) -> Result<bool, DeviceError> {
        let of_tile = TILE * size_of::<Descriptor>()
            + self.spots.is_some() as usize * (TILE * size_of::<Spot>() + size_of::<SpotBounds>());
        let n_tiles = usize::try_from(self.memory_bytes).unwrap_or(usize::MAX) / of_tile;
        let n_bound = self.gpu.largest_binding_bytes() as usize / (TILE * size_of::<Descriptor>());
        let most = (n_tiles.min(n_bound) * TILE).max(needed);
        if wanted.min(most) <= self.descriptors.len() {
            return Ok(false);
        }
        self.replace(wanted.next_power_of_two().next_multiple_of(TILE).min(most))?;
        Ok(true)
    }

    fn replace(&mut self, len: usize) -> Result<(), DeviceError> {
        self.held.clear();
        // Both at once would not stay within the bound.
        self.descriptors = self.gpu.buffer("descriptors", 0)?;
        if let Some(spots) = &mut self.spots {
            *spots = SpotBuffers::new(&self.gpu, 0)?;
            *spots = SpotBuffers::new(&self.gpu, len)?;
        }
        self.descriptors = self.gpu.buffer("descriptors", len)?;
        Ok(())
    }

    /// Where the descriptors of `view` lie, if they are held.
    pub fn place(&self, view: &View) -> Option<Place> {
        let held = self.held.iter().find(|(_, held)| held.serves(view));
        held.map(|(begin, held)| (*begin, held.len()))
    }

    /// Brings what is not held of `view` to its descriptors, or all to the first room that it fits into, if there is one.
    pub fn load(&mut self, view: &View) -> bool {
        if self.place(view).is_some() {
            return true;
        }
        if let Some((begin, held)) = self.held.iter_mut().find(|(_, held)| held.lacks_only_positions_of(view))
        {
            *held = view.clone();
            let begin = *begin;
            self.write_spots(begin, view);
            return true;
        }
        let ends = self.held.iter().map(|(begin, held)| begin + room(held));
        let rooms = std::iter::once(0).chain(ends);
        let next = self.held.iter().map(|(begin, _)| *begin).chain([self.descriptors.len()]);
        let fits = |(begin, end): (usize, usize)| end - begin >= room(view);
        let Some((at, (begin, _))) = rooms.zip(next).enumerate().find(|(_, room)| fits(*room)) else {
            return false;
        };
        self.gpu.write(&self.descriptors, begin, &view.features.descriptors);
        self.write_spots(begin, view);
        self.held.insert(at, (begin, view.clone()));
        true
    }

    fn write_spots(&self, begin: usize, view: &View) {
        if let Some(SpotBuffers { spots, bounds }) = self.spots.as_ref().filter(|_| view.has_positions()) {
            self.gpu.write(spots, begin, &view.spots().spots);
            self.gpu.write(bounds, begin / TILE, &view.spots().bounds);
        }
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
