//! Slots that outlive tracks: where a backend keeps what it knows of each from its seed on.

/// The slots of live tracks. There are never more than the most tracks of a frame.
#[derive(Debug, Default)]
pub(super) struct Slots {
    /// Each live track with its slot, by track.
    given: Vec<(u32, usize)>,
    free: Vec<usize>,
    len: usize,
}

impl Slots {
    /// Takes the slots of all tracks but `ids` back and gives each of these without one a slot. Returns the slot of each
    /// and whether it is new.
    pub fn assign(&mut self, ids: &[u32]) -> Vec<(usize, bool)> {
        let mut by_track: Vec<(u32, usize)> = ids.iter().copied().zip(0..).collect();
        by_track.sort_unstable();
        let mut slots = vec![None; ids.len()];
        // Both by track, as tracks nearly always come: one walk through both.
        let mut wanted = by_track.iter().peekable();
        for &(id, slot) in &self.given {
            while wanted.next_if(|wanted| wanted.0 < id).is_some() {}
            match wanted.next_if(|wanted| wanted.0 == id) {
                Some(&(_, place)) => slots[place] = Some(slot),
                None => self.free.push(slot),
            }
        }
        let slots: Vec<_> = slots.into_iter().map(|slot| self.or_new(slot)).collect();
        self.given = by_track.into_iter().map(|(id, place)| (id, slots[place].0)).collect();
        slots
    }

    fn or_new(&mut self, slot: Option<usize>) -> (usize, bool) {
        if let Some(slot) = slot {
            return (slot, false);
        }
        let slot = self.free.pop().unwrap_or_else(|| {
            self.len += 1;
            self.len - 1
        });
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
