//! Aligns a track's window with the patch about its seed, so that errors of the steps from frame to frame do not add up:
//! inverse compositional Lucas-Kanade under an affine map (Baker and Matthews 2004), gain and offset projected out.
//!
//! In: level 0 of the frame, patches and records by slot; positions in pixels, centres at integers. The window is read
//! at the record's map of the patch through the quadratic B-spline; what lies outside of the picture does not count.
//! Out: the record found where the steps converged, the windows correlate and the point moved 2 px at most and is still
//! in the picture; else the record given, not taken. Sums as in `klt_track`. One invocation: one slot; slots never read each other.

use rayon::prelude::*;

use self::sampler::Sampler;
pub use self::shader::{KltAnchorParams, SHADER, kernel};
use super::klt_patch::{PatchSums, TemplateSums, chunks};
use super::klt_track::TrackRecord;
use crate::numerics::vectorized;
use crate::picture::GrayImage;

mod sampler;
mod shader;

/// What `klt_anchor` needs besides picture, patches and records.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AnchorParams {
    /// Side of the patches' windows, odd, 3..=31.
    pub window_px: usize,
    /// Most steps, 1..=255.
    pub max_iterations: u32,
    /// A step that moves position and rim less than this is the last.
    pub epsilon_px: f32,
    /// Smallest weighted correlation of patch and window.
    pub min_ncc: f32,
    /// Smallest one at which the window is said to show what the patch shows.
    pub seen_ncc: f32,
}

/// Where a slot's window lies and how it is deformed, eight f32: the sample `offset` from the seed is seen at (x, y) +
/// linear * offset. The status is an exact integer: bit 0 to be aligned, bit 1 taken, bits 16-23 iterations.
#[derive(Clone, Copy, Debug, Default, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct AnchorRecord {
    /// Position in level-0 pixels.
    pub x: f32,
    /// See `x`.
    pub y: f32,
    /// Rows of the map.
    pub linear: [[f32; 2]; 2],
    /// Weighted correlation before the last step.
    pub correlation: f32,
    /// Status word.
    pub status: f32,
}

impl AnchorRecord {
    /// A record to be aligned from (x, y) on.
    pub fn start([x, y]: [f32; 2], linear: [[f32; 2]; 2]) -> AnchorRecord {
        AnchorRecord { x, y, linear, correlation: 0.0, status: 1.0 }
    }

    /// Whether the slot is to be aligned.
    pub fn is_active(&self) -> bool {
        self.status as u32 & 1 == 1
    }

    /// The track's record, moved to where the patch was found; it is seen where both correlate by `seen_ncc` or more.
    pub fn moved(&self, record: &TrackRecord, seen_ncc: f32) -> TrackRecord {
        let at = TrackRecord { x: self.x, y: self.y, ..*record };
        let [[a, b], [c, d]] = self.linear;
        let area = a * d - b * c;
        match self.correlation >= seen_ncc && area > 0.0 {
            true => at.seen(area.sqrt()),
            false => at,
        }
    }

    /// Whether the alignment was taken.
    pub fn is_taken(&self) -> bool {
        self.status as u32 & 2 == 2
    }

    /// Steps made.
    pub fn iterations(&self) -> u32 {
        self.status as u32 >> 16
    }
}

/// Slots a task of rayon.
const SLOTS: usize = 32;
/// Farthest from its start a point may move.
const MAX_MOVE_PX: f32 = 2.0;
/// Contrast left of the patch's, below which a window says nothing.
const MIN_GAIN: f32 = 0.05;

/// Aligns the records of `starts` with their patches (`klt_patch`) in `image`, into `out`.
pub fn klt_anchor(
    image: &GrayImage,
    params: &AnchorParams,
    sums: &[PatchSums],
    samples: &[[f32; 16]],
    starts: &[AnchorRecord],
    out: &mut [AnchorRecord],
) {
    let stride = 3 * chunks(params.window_px);
    let patches = sums.par_chunks(SLOTS).zip(samples.par_chunks(SLOTS * stride));
    let records = starts.par_chunks(SLOTS).zip(out.par_chunks_mut(SLOTS));
    patches.zip(records).for_each(|((sums, samples), (starts, out))| {
        vectorized(
            #[inline(always)]
            || {
                let mut sampler = Sampler::new(params.window_px);
                let patches = sums.iter().zip(samples.chunks_exact(stride));
                for ((sums, samples), (start, out)) in patches.zip(starts.iter().zip(out)) {
                    *out = *start;
                    if start.is_active() && sums.has_structure() {
                        *out = align(&mut sampler, image, params, sums, samples, start);
                    }
                }
            },
        )
    });
}

/// How a window lies: see [`AnchorRecord`].
#[derive(Clone, Copy)]
struct Warp {
    at: [f32; 2],
    linear: [[f32; 2]; 2],
}

/// Sums over the window: w the weight, J gray less the patch's mean, T and D the patch's.
#[derive(Clone, Copy, Default)]
struct TargetSums {
    /// w J
    gray: f32,
    /// w T J
    product: f32,
    /// w J J
    energy: f32,
    /// w D J
    moment: [f32; 6],
}

#[inline(always)]
fn align(
    sampler: &mut Sampler,
    image: &GrayImage,
    params: &AnchorParams,
    patch: &PatchSums,
    samples: &[[f32; 16]],
    start: &AnchorRecord,
) -> AnchorRecord {
    let mut warp = Warp { at: [start.x, start.y], linear: start.linear };
    let mut before = [0.0f32; 2];
    let mut found = *start;
    for iteration in 1..=params.max_iterations {
        found.status = (1 | iteration << 16) as f32;
        let Some((template, target)) = sampler.sums(image, &warp, patch, samples) else { return found };
        let Some((step, correlation)) = step(patch, &template, &target) else { return found };
        found.correlation = correlation;
        // As in `klt_track`: a step that turns back is halved.
        let length = if step[0] * before[0] + step[1] * before[1] < 0.0 { 0.5 } else { 1.0 };
        warp = after(&warp, &step, length, params.window_px);
        before = [length * step[0], length * step[1]];
        let mut squared = 0.0;
        for s in step {
            squared += s * s;
        }
        if squared < params.epsilon_px * params.epsilon_px {
            let [dx, dy] = [warp.at[0] - start.x, warp.at[1] - start.y];
            let is_near = dx * dx + dy * dy <= MAX_MOVE_PX * MAX_MOVE_PX;
            if correlation >= params.min_ncc && is_near && image.shows(warp.at) {
                let ([x, y], linear) = (warp.at, warp.linear);
                return AnchorRecord { x, y, linear, correlation, status: (3 | iteration << 16) as f32 };
            }
            return found;
        }
    }
    found
}

/// The step of the patch that makes it the window, in pixels at the centre and at the rim, and the correlation before it.
#[inline(always)]
fn step(patch: &PatchSums, template: &TemplateSums, target: &TargetSums) -> Option<([f32; 6], f32)> {
    let TemplateSums { weight, gray, .. } = *template;
    let covariance = target.product - gray * target.gray / weight;
    let variances =
        [template.energy - gray * gray / weight, target.energy - target.gray * target.gray / weight];
    let gain = covariance / variances[0];
    if !(gain > MIN_GAIN && variances[1] > 0.0) {
        return None;
    }
    let offset = (target.gray - gain * gray) / weight;
    let mut residual = [0.0f32; 6];
    for i in 0..6 {
        let explained = gain * template.moment[i] + offset * template.descent[i];
        residual[i] = (target.moment[i] - explained) / gain;
    }
    let mut step = [0.0f32; 6];
    for i in 0..6 {
        for j in 0..6 {
            step[i] += patch.inverse[i][j] * residual[j];
        }
    }
    Some((step, covariance / (variances[0] * variances[1]).sqrt()))
}

/// The warp after the inverse of `length` times the step.
#[inline(always)]
fn after(warp: &Warp, step: &[f32; 6], length: f32, window_px: usize) -> Warp {
    let half = (window_px / 2) as f32;
    let (dx, dy, rim) = (length * step[0], length * step[1], length / half);
    let [[p, q], [r, s]] = [[1.0 + rim * step[2], rim * step[3]], [rim * step[4], 1.0 + rim * step[5]]];
    let determinant = p * s - q * r;
    let [[p, q], [r, s]] = [[s / determinant, -q / determinant], [-r / determinant, p / determinant]];
    let [[a, b], [c, d]] = warp.linear;
    let [[a, b], [c, d]] = [[a * p + b * r, a * q + b * s], [c * p + d * r, c * q + d * s]];
    Warp { at: [warp.at[0] - (a * dx + b * dy), warp.at[1] - (c * dx + d * dy)], linear: [[a, b], [c, d]] }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_patch_is_seen_where_it_correlates_and_is_no_mirror() {
        let found = |correlation, width: f32| AnchorRecord {
            correlation,
            ..AnchorRecord::start([3.0, 4.0], [[width, 0.0], [0.0, 0.5]])
        };
        let record = TrackRecord::new(1.0, 2.0, 0.1, None, 7);
        for (correlation, width, zoom) in [(0.95, 2.0, Some(1.0)), (0.94, 2.0, None), (0.99, -2.0, None)] {
            let moved = found(correlation, width).moved(&record, 0.95);
            assert_eq!((moved.x, moved.y, moved.is_alive(), moved.iterations()), (3.0, 4.0, true, 7));
            assert_eq!(moved.is_seen().then_some(moved.measure), zoom);
        }
    }
}
