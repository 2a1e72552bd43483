//! Dominant orientations of a keypoint (Lowe 2004, section 5): a histogram of 36 bins of the gradients around it, each
//! weighted by its magnitude and a Gaussian of 1.5 times the scale, shared between the two nearest bins and smoothed;
//! its peaks within 0.8 of the highest, placed by a parabola. Angles in (-pi, pi], x towards y.
//! Positions are pixels of the octave, centres at integers. One invocation: one keypoint.

use std::f32::consts::{PI, TAU};

use super::sift_point::{MAX_OCTAVES, OctaveShape};
use crate::device::{Binding, KernelSource, params_layout};
use crate::numerics::atan2_poly;

/// Most orientations of a position.
pub const MAX_ORIENTATIONS: usize = 4;
/// Largest radius of the window in pixels: scales up to 10.
const MAX_RADIUS: usize = 45;
const MAX_SIDE: usize = 2 * MAX_RADIUS + 1;
/// Pixels around a keypoint's that its orientations depend on: the window, rounding, a gradient's neighbour.
pub const REACH: usize = MAX_RADIUS + 2;
const BINS: usize = 36;
const SMOOTHINGS: usize = 6;
const PEAK_RATIO: f32 = 0.8;

/// The shader. `points` are `SiftPoint`s; of each come `MAX_ORIENTATIONS` angles, zero behind the last, and their count.
pub const SHADER: KernelSource = KernelSource {
    name: "orientation",
    wgsl: concat!(
        include_str!("../../shaders/shared/flat_index.wgsl"),
        include_str!("../../shaders/shared/sift_point.wgsl"),
        include_str!("../../shaders/shared/atan2_poly.wgsl"),
        include_str!("../../shaders/orientation.wgsl")
    ),
    workgroup: [64, 1, 1],
    params: params_layout!(OrientationParams: octaves, n_points, max_orientations),
    bindings: &[
        Binding::read("points"),
        Binding::read("gaussians"),
        Binding::read_write("angles"),
        Binding::read_write("counts"),
    ],
};

/// Parameters of the shader.
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct OrientationParams {
    /// Where the layers lie in `gaussians`.
    pub octaves: [OctaveShape; MAX_OCTAVES],
    /// Number of points: a workgroup each, `groups`.
    pub n_points: u32,
    /// Orientations a point may have, 1 to `MAX_ORIENTATIONS`.
    pub max_orientations: u32,
}

impl OrientationParams {
    /// Workgroups of the dispatch.
    pub fn groups(&self) -> [u32; 3] {
        SHADER.flat_groups(self.n_points as usize * SHADER.workgroup[0] as usize)
    }
}

/// Writes up to `MAX_ORIENTATIONS` orientations, the strongest first, and gives their count.
#[inline(always)]
pub fn orientation(
    layer: &[f32],
    width: usize,
    height: usize,
    [x, y]: [f32; 2],
    scale: f32,
    orientations: &mut [f32; MAX_ORIENTATIONS],
) -> usize {
    let sigma = 1.5 * scale;
    let radius = ((3.0 * sigma) as usize).clamp(1, MAX_RADIUS);
    let columns = window(x, radius, width);
    let rows = window(y, radius, height);
    let mut column_weights = [0.0; MAX_SIDE];
    for (weight, column) in column_weights.iter_mut().zip(columns.clone()) {
        *weight = gaussian(column as f32 - x, sigma);
    }
    let mut histogram = [0.0; BINS];
    for row in rows {
        let row_weight = gaussian(row as f32 - y, sigma);
        add_row(layer, width, row, columns.clone(), &column_weights, row_weight, &mut histogram);
    }
    for _ in 0..SMOOTHINGS {
        let before = histogram;
        for bin in 0..BINS {
            let (left, right) = (before[(bin + BINS - 1) % BINS], before[(bin + 1) % BINS]);
            histogram[bin] = (left + before[bin] + right) / 3.0;
        }
    }
    peaks(&histogram, orientations)
}

/// The pixels within `radius` of `centre` that have neighbours on both sides.
#[inline(always)]
fn window(centre: f32, radius: usize, size: usize) -> std::ops::Range<usize> {
    let nearest = (centre + 0.5) as usize;
    nearest.saturating_sub(radius).max(1)..(nearest + radius + 1).min(size.saturating_sub(1))
}

#[inline(always)]
fn gaussian(distance: f32, sigma: f32) -> f32 {
    let ratio = distance / sigma;
    libm::expf(-0.5 * ratio * ratio)
}

#[inline(always)]
fn add_row(
    layer: &[f32],
    width: usize,
    row: usize,
    columns: std::ops::Range<usize>,
    column_weights: &[f32; MAX_SIDE],
    row_weight: f32,
    histogram: &mut [f32; BINS],
) {
    let n = columns.len();
    let start = row * width + columns.start;
    let (left, right) = (&layer[start - 1..][..n], &layer[start + 1..][..n]);
    let (above, below) = (&layer[start - width..][..n], &layer[start + width..][..n]);
    let (mut weights, mut bins) = ([0.0; MAX_SIDE], [0.0; MAX_SIDE]);
    for i in 0..n {
        let (gradient_x, gradient_y) = (right[i] - left[i], below[i] - above[i]);
        let magnitude = (gradient_x * gradient_x + gradient_y * gradient_y).sqrt();
        weights[i] = magnitude * column_weights[i] * row_weight;
        bins[i] = (atan2_poly(gradient_y, gradient_x) + PI) * (BINS as f32 / TAU);
    }
    for i in 0..n {
        let bin = bins[i] as usize;
        let share = bins[i] - bin as f32;
        histogram[bin % BINS] += (1.0 - share) * weights[i];
        histogram[(bin + 1) % BINS] += share * weights[i];
    }
}

/// Bin i stands for the angle i / 36 of a turn from -pi.
#[inline(always)]
fn peaks(histogram: &[f32; BINS], orientations: &mut [f32; MAX_ORIENTATIONS]) -> usize {
    let highest = histogram.iter().fold(0.0_f32, |highest, value| highest.max(*value));
    let mut heights = [0.0_f32; MAX_ORIENTATIONS];
    let mut n = 0;
    for bin in 0..BINS {
        let (left, here, right) =
            (histogram[(bin + BINS - 1) % BINS], histogram[bin], histogram[(bin + 1) % BINS]);
        if here <= left || here <= right || here < PEAK_RATIO * highest {
            continue;
        }
        let offset = 0.5 * (left - right) / (left - 2.0 * here + right);
        let angle = (bin as f32 + offset) * (TAU / BINS as f32) - PI;
        let rank = heights[..n].iter().filter(|height| **height >= here).count();
        if rank == MAX_ORIENTATIONS {
            continue;
        }
        n = (n + 1).min(MAX_ORIENTATIONS);
        heights.copy_within(rank..n - 1, rank + 1);
        orientations.copy_within(rank..n - 1, rank + 1);
        (heights[rank], orientations[rank]) = (here, if angle <= -PI { angle + TAU } else { angle });
    }
    n
}

#[cfg(test)]
mod tests {
    use super::*;

    fn oriented(layer: impl Fn(f32, f32) -> f32) -> Vec<f32> {
        let pixels: Vec<f32> =
            (0..61 * 61).map(|i| layer((i % 61) as f32 - 30.0, (i / 61) as f32 - 30.0)).collect();
        let mut angles = [0.0; MAX_ORIENTATIONS];
        let n = orientation(&pixels, 61, 61, [30.0, 30.0], 2.0, &mut angles);
        angles[..n].to_vec()
    }

    #[test]
    fn a_ramp_points_uphill() {
        for i in 0..100 {
            let turn = (i as f32 - 49.7) * TAU / 100.0;
            let (sin, cos) = libm::sincosf(turn);
            let angles = oriented(|x, y| cos * x + sin * y);
            assert_eq!(angles.len(), 1);
            assert!((angles[0] - turn).abs() < 0.02, "{} for {turn}", angles[0]);
        }
    }

    #[test]
    fn a_corner_has_two_orientations_and_the_strongest_comes_first() {
        let angles = oriented(|x, y| (0.95 * x).max(y));
        assert_eq!(angles.len(), 2, "{angles:?}");
        assert!((angles[0] - 0.25 * TAU).abs() < 0.1 && angles[1].abs() < 0.1, "{angles:?}");
        assert_eq!(oriented(|_, _| 0.5), Vec::<f32>::new());
    }
}
