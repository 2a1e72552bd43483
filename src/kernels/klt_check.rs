//! Judges a track by its way forward and back (Kalal, Mikolajczyk and Matas 2010).
//!
//! In: the seed, forward and backward record. Out: the forward position, the distance of the way back from the seed in
//! pixels (infinite where there is none) and the status: the forward reason, else 4 where the way back ended or is
//! longer than allowed, else 5 where the windows do not correlate, else alive. Iterations are the forward ones.
//! One invocation: one track.

use super::klt_track::TrackRecord;
use crate::message::EndReason;

/// Fills `out`, one record a track.
pub fn klt_check(
    seeds: &[TrackRecord],
    forward: &[TrackRecord],
    backward: &[TrackRecord],
    forward_backward_px: f32,
    min_ncc: f32,
    out: &mut [TrackRecord],
) {
    for (i, out) in out.iter_mut().enumerate() {
        let (seed, forward, backward) = (seeds[i], forward[i], backward[i]);
        let (dx, dy) = (backward.x - seed.x, backward.y - seed.y);
        let error = if backward.is_alive() { (dx * dx + dy * dy).sqrt() } else { f32::INFINITY };
        let returns = error <= forward_backward_px;
        let correlates = forward.measure >= min_ncc;
        let reason = match forward.reason() {
            Some(reason) => Some(reason),
            None if !returns => Some(EndReason::ForwardBackward),
            None if !correlates => Some(EndReason::Residual),
            None => None,
        };
        *out = TrackRecord::new(forward.x, forward.y, error, reason, forward.iterations());
    }
}
