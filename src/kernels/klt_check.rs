//! Judges a track by its way forward and back (Kalal, Mikolajczyk and Matas 2010).
//!
//! In: the seed, forward and backward record. Out: the forward position, the distance of the way back from the seed in
//! pixels (infinite where there is none) and the status: the forward reason, else 4 where the way back ended or is
//! longer than allowed, else 5 where the windows do not correlate, else alive. Iterations are the forward ones.
//! One invocation: one track. On a device `klt_track` judges its tracks itself (`shaders/shared/checked_record.wgsl`).

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

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(forward: TrackRecord, backward: TrackRecord) -> (Option<EndReason>, f32) {
        let mut out = [TrackRecord::default()];
        klt_check(&[TrackRecord::start(10.0, 10.0)], &[forward], &[backward], 0.5, 0.8, &mut out);
        assert_eq!((out[0].x, out[0].y, out[0].iterations()), (forward.x, forward.y, forward.iterations()));
        (out[0].reason(), out[0].measure)
    }

    #[test]
    fn the_first_failure_is_the_reason() {
        let good = TrackRecord::new(20.0, 10.0, 0.9, None, 3);
        let unlike = TrackRecord { measure: 0.79, ..good };
        let back = TrackRecord::new(10.3, 10.4, 0.9, None, 2);
        let astray = TrackRecord::new(10.4, 10.4, 0.9, None, 2);
        let lost = TrackRecord::new(10.0, 10.0, 0.9, Some(EndReason::OutOfFrame), 2);
        let ended = TrackRecord::new(20.0, 10.0, 0.9, Some(EndReason::NoConvergence), 20);
        let (reason, error) = checked(good, back);
        assert!(reason.is_none() && (error - 0.5).abs() < 1e-4, "{error}");
        assert_eq!(checked(good, astray).0, Some(EndReason::ForwardBackward));
        assert_eq!(checked(good, lost), (Some(EndReason::ForwardBackward), f32::INFINITY));
        assert_eq!(checked(unlike, back).0, Some(EndReason::Residual));
        assert_eq!(checked(unlike, astray).0, Some(EndReason::ForwardBackward));
        assert_eq!(checked(ended, ended).0, Some(EndReason::NoConvergence));
    }
}
