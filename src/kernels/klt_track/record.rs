//! What the tracker's kernels hand on of a track.

use crate::message::EndReason;

/// A track's record, four f32. The status is an exact integer: bit 0 alive, bits 1-4 end reason, bit 5 shows its
/// seed, bits 16-23 iterations at level 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct TrackRecord {
    /// Position in level-0 pixels.
    pub x: f32,
    /// See `x`.
    pub y: f32,
    /// Correlation (from `klt_track`), forward-backward error in pixels (from `klt_check`), or how many times as large the
    /// patch about the seed is seen (from `klt_anchor`, of a record that shows its seed).
    pub measure: f32,
    /// Status word.
    pub status: f32,
}

const SEEN: u32 = 1 << 5;

impl TrackRecord {
    /// A record that ended for `reason`, or is alive where there is none. `iterations` is at most 255.
    #[inline(always)]
    pub fn new(x: f32, y: f32, measure: f32, reason: Option<EndReason>, iterations: u32) -> TrackRecord {
        let word = match reason {
            None => 1,
            Some(reason) => (reason.number() as u32) << 1,
        };
        TrackRecord { x, y, measure, status: (word | iterations << 16) as f32 }
    }

    /// A live record at a start position.
    pub fn start(x: f32, y: f32) -> TrackRecord {
        TrackRecord::new(x, y, 0.0, None, 0)
    }

    /// This record of a track that shows the patch about its seed, `zoom` times as large.
    pub fn seen(&self, zoom: f32) -> TrackRecord {
        TrackRecord { measure: zoom, status: (self.word() | SEEN) as f32, ..*self }
    }

    /// Whether the frame shows the patch about its seed.
    pub fn is_seen(&self) -> bool {
        self.word() & SEEN != 0
    }

    fn word(&self) -> u32 {
        self.status as u32
    }

    /// Whether the track goes on.
    pub fn is_alive(&self) -> bool {
        self.word() & 1 == 1
    }

    /// Why the track ended; none where it is alive.
    pub fn reason(&self) -> Option<EndReason> {
        EndReason::from_number((self.word() >> 1 & 15) as u8)
    }

    /// Iterations used at level 0.
    pub fn iterations(&self) -> u32 {
        self.word() >> 16
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_word_holds_reason_and_iterations() {
        let alive = TrackRecord::new(1.0, 2.0, 0.5, None, 20);
        assert!(alive.is_alive() && alive.reason().is_none() && alive.iterations() == 20);
        assert_eq!(alive.status, (1 + (20 << 16)) as f32);
        for reason in EndReason::ALL {
            let ended = TrackRecord::new(1.0, 2.0, 0.5, Some(reason), 255);
            assert!(!ended.is_alive());
            assert_eq!((ended.reason(), ended.iterations()), (Some(reason), 255));
            assert_eq!(ended.status, (reason.number() as u32 * 2 + (255 << 16)) as f32);
        }
    }
}
