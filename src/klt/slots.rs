//! Slots that outlive tracks: where a backend keeps what it knows of each from its seed on.

use std::collections::BTreeMap;

/// The slots of live tracks. There are never more than the most tracks of a frame.
#[derive(Debug, Default)]
pub(super) struct Slots {
    by_track: BTreeMap<u32, usize>,
    free: Vec<usize>,
    len: usize,
}

impl Slots {
    /// Takes the slots of all tracks but `ids` back and gives each of these without one a slot. Returns the slot of each
    /// and whether it is new.
    pub fn assign(&mut self, ids: &[u32]) -> Vec<(usize, bool)> {
        let kept = ids.iter().filter_map(|id| self.by_track.remove_entry(id)).collect();
        self.free.extend(self.by_track.values());
        self.by_track = kept;
        ids.iter().map(|&id| self.slot_of(id)).collect()
    }

    fn slot_of(&mut self, id: u32) -> (usize, bool) {
        if let Some(&slot) = self.by_track.get(&id) {
            return (slot, false);
        }
        let slot = self.free.pop().unwrap_or_else(|| {
            self.len += 1;
            self.len - 1
        });
        self.by_track.insert(id, slot);
        (slot, true)
    }

    /// Slots given so far: every slot is smaller.
    pub fn len(&self) -> usize {
        self.len
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_track_keeps_its_slot_and_leaves_it_to_the_next() {
        let mut slots = Slots::default();
        assert_eq!(slots.assign(&[7, 3, 9]), [(0, true), (1, true), (2, true)]);
        assert_eq!(slots.assign(&[9, 4, 7]), [(2, false), (1, true), (0, false)]);
        assert_eq!(slots.assign(&[]), []);
        let mut given: Vec<usize> = slots.assign(&[3, 4, 5]).into_iter().map(|(slot, _)| slot).collect();
        given.sort();
        assert_eq!((given, slots.len()), (vec![0, 1, 2], 3));
    }
}
