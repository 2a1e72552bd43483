//! SIFT descriptor (Lowe 2004, section 6): gradients on a turned grid of 20 x 20 samples, 4 a cell, interpolated between
//! pixels (centres at integers), under a Gaussian of 2 cells, shared linearly among 4 x 4 cells and 8 directions;
//! clamped at 0.2 of the norm; L1-root (Arandjelovic and Zisserman 2012), x 512, rounded, at most 255.
//! Bins in Lowe's order: cell row, cell column, direction; direction b is the angle orientation - b / 8 of a turn,
//! angles x towards y. One invocation: one keypoint.

use std::f32::consts::TAU;

use super::sift_point::{MAX_OCTAVES, OctaveShape};
use crate::device::{Binding, KernelSource, params_layout};
use crate::message::Descriptor;
use crate::numerics::{atan2_poly, fold16};

const CELLS: usize = 4;
const DIRECTIONS: usize = 8;
const SAMPLES_PER_CELL: usize = 4;
/// Samples a side: half a cell beyond the outermost centres still shares in them.
const SIDE: usize = (CELLS + 1) * SAMPLES_PER_CELL;
const BINS: usize = CELLS * CELLS * DIRECTIONS;
/// Samples a side that share in a cell.
const SHARING: usize = 2 * SAMPLES_PER_CELL;

/// Pixels around a keypoint's that its descriptor depends on, with cells of `cell` pixels: the turned grid's corner, and the
/// pixels around it that gradients are taken from.
pub fn reach(cell: f32) -> usize {
    let corner = 0.5 * (SIDE - 1) as f32 / SAMPLES_PER_CELL as f32 * std::f32::consts::SQRT_2;
    (corner * cell) as usize + 4
}

/// The shader. `points` are `SiftPoint`s; a descriptor is 32 words, four bins each, the first lowest.
pub const SHADER: KernelSource = KernelSource {
    name: "descriptor",
    wgsl: concat!(
        include_str!("../../shaders/shared/flat_index.wgsl"),
        include_str!("../../shaders/shared/sift_point.wgsl"),
        include_str!("../../shaders/shared/atan2_poly.wgsl"),
        include_str!("../../shaders/shared/sin_cos.wgsl"),
        include_str!("../../shaders/descriptor.wgsl")
    ),
    workgroup: [64, 1, 1],
    params: params_layout!(DescriptorParams: octaves, shares, magnification, n_descriptors, unused),
    bindings: &[
        Binding::read("points"),
        Binding::read("oriented"),
        Binding::read("gaussians"),
        Binding::read_write("descriptors"),
    ],
};

/// A keypoint and one of its orientations.
#[derive(Clone, Copy, Debug, Default, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct OrientedPoint {
    /// Its number in `points`.
    pub point: u32,
    /// The orientation in [-pi, pi], x towards y.
    pub angle: f32,
}

/// Parameters of the shader.
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct DescriptorParams {
    /// Where the layers lie in `gaussians`.
    pub octaves: [OctaveShape; MAX_OCTAVES],
    /// Of each cell of an axis the shares of the eight samples around it.
    pub shares: [[f32; SHARING]; CELLS],
    /// Width of a cell in units of the point's scale.
    pub magnification: f32,
    /// Number of descriptors: a workgroup each, `groups`.
    pub n_descriptors: u32,
    /// Nothing.
    pub unused: [u32; 2],
}

impl DescriptorParams {
    /// For `n_descriptors` on the layers of `octaves`.
    pub fn new(
        octaves: [OctaveShape; MAX_OCTAVES],
        magnification: f32,
        n_descriptors: usize,
    ) -> DescriptorParams {
        let (grid, mut shares) = (DescriptorGrid::default(), [[0.0; SHARING]; CELLS]);
        for (cell, shares) in shares.iter_mut().enumerate() {
            for (i, share) in shares.iter_mut().enumerate() {
                *share = grid.shares[SAMPLES_PER_CELL * cell + i][cell];
            }
        }
        DescriptorParams {
            octaves,
            shares,
            magnification,
            n_descriptors: n_descriptors as u32,
            unused: [0; 2],
        }
    }

    /// Workgroups of the dispatch.
    pub fn groups(&self) -> [u32; 3] {
        SHADER.flat_groups(self.n_descriptors as usize * SHADER.workgroup[0] as usize)
    }
}

/// What does not depend on the keypoint: where the samples of an axis lie and how they share in its cells.
#[derive(Clone, Debug, PartialEq)]
pub struct DescriptorGrid {
    /// In cells from the keypoint.
    offsets: [f32; SIDE],
    /// Linear share in each cell, times the Gaussian.
    shares: [[f32; CELLS]; SIDE],
}

impl Default for DescriptorGrid {
    fn default() -> Self {
        let mut grid = DescriptorGrid { offsets: [0.0; SIDE], shares: [[0.0; CELLS]; SIDE] };
        for i in 0..SIDE {
            let offset = (i as f32 - 0.5 * (SIDE - 1) as f32) / SAMPLES_PER_CELL as f32;
            let window = libm::expf(-0.5 * (offset / 2.0) * (offset / 2.0));
            grid.offsets[i] = offset;
            for (cell, share) in grid.shares[i].iter_mut().enumerate() {
                let centre = cell as f32 - 0.5 * (CELLS - 1) as f32;
                *share = (1.0 - (offset - centre).abs()).max(0.0) * window;
            }
        }
        grid
    }
}

/// The descriptor of a keypoint at (x, y) of `layer`; `cell` is the width of a cell in pixels.
#[inline(always)]
pub fn descriptor(
    layer: &[f32],
    width: usize,
    height: usize,
    position: [f32; 2],
    cell: f32,
    orientation: f32,
    grid: &DescriptorGrid,
) -> Descriptor {
    let (sin, cos) = libm::sincosf(orientation);
    let (across, along) = (cell * cos, cell * sin);
    let mut bins = [[[0.0; DIRECTIONS]; CELLS]; CELLS];
    for row in 0..SIDE {
        let v = grid.offsets[row];
        let (mut xs, mut ys) = ([0.0; SIDE], [0.0; SIDE]);
        for i in 0..SIDE {
            xs[i] = position[0] + (grid.offsets[i] * across - v * along);
            ys[i] = position[1] + (grid.offsets[i] * along + v * across);
        }
        let [gradients_x, gradients_y] = gradients(layer, width, height, &xs, &ys);
        let row_bins = share_row(&gradients_x, &gradients_y, sin, cos, grid);
        for (share, row_of_cells) in grid.shares[row].iter().zip(&mut bins) {
            if *share > 0.0 {
                for cell in 0..CELLS {
                    for direction in 0..DIRECTIONS {
                        row_of_cells[cell][direction] += share * row_bins[cell][direction];
                    }
                }
            }
        }
    }
    quantized(bins.as_flattened().as_flattened().try_into().expect("4 x 4 x 8 bins"))
}

/// Twice the gradients in x and y between pixels: central differences, interpolated; 0 near the border.
#[inline(always)]
fn gradients(
    layer: &[f32],
    width: usize,
    height: usize,
    xs: &[f32; SIDE],
    ys: &[f32; SIDE],
) -> [[f32; SIDE]; 2] {
    let (mut lefts, mut tops, mut inside) = ([0; SIDE], [0; SIDE], [0.0; SIDE]);
    let (x_end, y_end) = (width as f32 - 2.0, height as f32 - 2.0);
    for i in 0..SIDE {
        let is_inside = (xs[i] >= 1.0) & (ys[i] >= 1.0) & (xs[i] < x_end) & (ys[i] < y_end);
        inside[i] = if is_inside { 1.0 } else { 0.0 };
        lefts[i] = if is_inside { xs[i] as i32 } else { 1 };
        tops[i] = if is_inside { ys[i] as i32 } else { 1 };
    }
    // Differences in x and y at the four pixels around: top left, top right, bottom left, bottom right.
    let (mut in_x, mut in_y) = ([[0.0; SIDE]; 4], [[0.0; SIDE]; 4]);
    for i in 0..SIDE {
        let corner = (tops[i] as usize - 1) * width + lefts[i] as usize - 1;
        let window = &layer[corner..corner + 3 * width + 4];
        let (p, q, r, s) = (window, &window[width..], &window[2 * width..], &window[3 * width..]);
        let differences_x = [q[2] - q[0], q[3] - q[1], r[2] - r[0], r[3] - r[1]];
        let differences_y = [r[1] - p[1], r[2] - p[2], s[1] - q[1], s[2] - q[2]];
        for corner in 0..4 {
            in_x[corner][i] = differences_x[corner];
            in_y[corner][i] = differences_y[corner];
        }
    }
    let mut gradients = [[0.0; SIDE]; 2];
    for (gradient, around) in gradients.iter_mut().zip([in_x, in_y]) {
        for i in 0..SIDE {
            let (a, b) = (xs[i] - lefts[i] as f32, ys[i] - tops[i] as f32);
            let top = around[0][i] + a * (around[1][i] - around[0][i]);
            let bottom = around[2][i] + a * (around[3][i] - around[2][i]);
            gradient[i] = inside[i] * (top + b * (bottom - top));
        }
    }
    gradients
}

/// What a row of samples gives to the cells of a row, before the row's own share.
#[inline(always)]
fn share_row(
    gradients_x: &[f32; SIDE],
    gradients_y: &[f32; SIDE],
    sin: f32,
    cos: f32,
    grid: &DescriptorGrid,
) -> [[f32; DIRECTIONS]; CELLS] {
    let (mut magnitudes, mut directions) = ([0.0; SIDE], [0.0; SIDE]);
    for i in 0..SIDE {
        let turned_x = cos * gradients_x[i] + sin * gradients_y[i];
        let turned_y = cos * gradients_y[i] - sin * gradients_x[i];
        magnitudes[i] = (turned_x * turned_x + turned_y * turned_y).sqrt();
        directions[i] = atan2_poly(-turned_y, turned_x) * (DIRECTIONS as f32 / TAU);
    }
    let mut bins = [[0.0; DIRECTIONS]; CELLS];
    for i in 0..SIDE {
        let mut shared = [0.0; DIRECTIONS];
        for (direction, share) in shared.iter_mut().enumerate() {
            let distance = (directions[i] - direction as f32).abs();
            *share = (1.0 - distance.min((DIRECTIONS as f32 - distance).abs())).max(0.0) * magnitudes[i];
        }
        for (cell, share) in grid.shares[i].iter().enumerate() {
            if *share > 0.0 {
                for direction in 0..DIRECTIONS {
                    bins[cell][direction] += share * shared[direction];
                }
            }
        }
    }
    bins
}

#[inline(always)]
fn quantized(mut bins: [f32; BINS]) -> Descriptor {
    let norm = sum16(&bins.map(|value| value * value)).sqrt();
    bins = bins.map(|value| value.min(0.2 * norm));
    let sum = sum16(&bins);
    if sum <= 0.0 {
        return [0; BINS];
    }
    bins.map(|value| (512.0 * (value / sum).sqrt() + 0.5).min(255.0) as u8)
}

#[inline(always)]
fn sum16(values: &[f32; BINS]) -> f32 {
    let mut partial = [0.0; 16];
    for chunk in values.chunks_exact(16) {
        for lane in 0..16 {
            partial[lane] += chunk[lane];
        }
    }
    fold16(partial)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIDE_PX: usize = 64;
    const CELL: f32 = 6.0;

    fn described(layer: impl Fn(f32, f32) -> f32, orientation: f32) -> Descriptor {
        let pixels =
            (0..SIDE_PX * SIDE_PX).map(|i| layer((i % SIDE_PX) as f32 - 32.0, (i / SIDE_PX) as f32 - 32.0));
        let pixels: Vec<f32> = pixels.collect();
        descriptor(&pixels, SIDE_PX, SIDE_PX, [32.0, 32.0], CELL, orientation, &DescriptorGrid::default())
    }

    #[test]
    fn eight_samples_of_an_axis_share_in_a_cell() {
        let grid = DescriptorGrid::default();
        for cell in 0..CELLS {
            let sharing: Vec<usize> = (0..SIDE).filter(|i| grid.shares[*i][cell] > 0.0).collect();
            assert_eq!(sharing, (SAMPLES_PER_CELL * cell..).take(SHARING).collect::<Vec<_>>());
        }
    }

    #[test]
    fn directions_run_against_the_angle_as_lowes_do() {
        for eighth in 0..8 {
            let turn = eighth as f32 * TAU / 8.0;
            let (sin, cos) = libm::sincosf(turn);
            let ramp = |x: f32, y: f32| 0.01 * (cos * x + sin * y);
            for (orientation, bin) in [(0.0, (8 - eighth) % 8), (turn, 0), (0.25 * TAU, (10 - eighth) % 8)] {
                let bins = described(ramp, orientation);
                for cell in bins.chunks_exact(8) {
                    assert!(cell[bin] > 90, "turn {turn}, orientation {orientation}: {cell:?}");
                    assert!(cell.iter().enumerate().all(|(b, v)| b == bin || *v < 20), "{cell:?}");
                }
            }
        }
    }

    #[test]
    fn cells_run_along_rows_and_turn_with_the_orientation() {
        // Structure up to the right of the keypoint only.
        let bump = |x: f32, y: f32| libm::expf(-0.02 * ((x - 9.0) * (x - 9.0) + (y + 3.0) * (y + 3.0)));
        let strongest = |orientation: f32| {
            let bins = described(bump, orientation);
            let sums =
                bins.chunks_exact(8).map(|cell| cell.iter().map(|v| *v as u32 * *v as u32).sum::<u32>());
            sums.enumerate().max_by_key(|(_, sum)| *sum).map(|(cell, _)| (cell / 4, cell % 4))
        };
        assert_eq!(strongest(0.0), Some((1, 3)));
        // Turned by a quarter from x to y, the structure lies at (-3, -9) of the keypoint's frame.
        assert_eq!(strongest(0.25 * TAU), Some((0, 1)));
        assert_eq!(strongest(0.5 * TAU), Some((2, 0)));
    }

    #[test]
    fn squares_sum_to_512_squared() {
        let bins = described(|x, y| 0.1 * libm::sinf(0.7 * x) + 0.2 * libm::cosf(0.3 * y + 0.1 * x * x), 0.3);
        let sum: u32 = bins.iter().map(|v| *v as u32 * *v as u32).sum();
        assert!((sum as f32 / (512.0 * 512.0) - 1.0).abs() < 0.01, "{sum}");
        assert_eq!(described(|_, _| 0.5, 1.0), [0; BINS]);
    }
}
