//! The points that may be among the strongest: of the whole picture or of their cell of a grid. A superset of those that
//! a ranking by strength takes, found without putting any in order: whole bins stay, from the strongest down until they
//! count as many as are asked for; all points where there are not so many.
//! One invocation: one point.

use super::refine::RefinedPoint;
use super::strength::{BINS, StrengthGrid};
use crate::device::{Binding, KernelSource, params_layout};

/// The shader.
pub const SHADER: KernelSource = KernelSource {
    name: "strongest",
    wgsl: concat!(
        include_str!("../../shaders/shared/flat_index.wgsl"),
        include_str!("../../shaders/shared/candidate.wgsl"),
        include_str!("../../shaders/shared/refined_point.wgsl"),
        include_str!("../../shaders/shared/strength.wgsl"),
        include_str!("../../shaders/strongest.wgsl")
    ),
    workgroup: [256, 1, 1],
    params: params_layout!(StrongestParams: grid, capacity, most, most_of_cell, unused),
    bindings: &[
        Binding::read("points"),
        Binding::read("strengths"),
        Binding::read_write("counts"),
        Binding::read_write("strongest"),
    ],
};

/// Parameters of the shader.
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct StrongestParams {
    grid: StrengthGrid,
    capacity: u32,
    most: u32,
    most_of_cell: u32,
    unused: u32,
}

impl StrongestParams {
    /// The `most` strongest of up to `capacity` points, and the `most_of_cell` strongest of each cell of `grid`.
    pub fn new(grid: StrengthGrid, most: usize, most_of_cell: usize, capacity: usize) -> StrongestParams {
        let [capacity, most, most_of_cell] = [capacity, most, most_of_cell].map(|n| n as u32);
        StrongestParams { grid, capacity, most, most_of_cell, unused: 0 }
    }

    /// Workgroups of the dispatch.
    pub fn groups(&self) -> [u32; 3] {
        SHADER.flat_groups(self.capacity as usize)
    }
}

/// Those of `points`, in their order. `strengths` counts points by cells and bins, no point twice.
pub fn strongest(
    points: &[RefinedPoint],
    strengths: &[u32],
    grid: &StrengthGrid,
    most: usize,
    most_of_cell: usize,
) -> Vec<RefinedPoint> {
    let of_cells: Vec<&[u32]> = strengths.chunks_exact(BINS).collect();
    let limits_of_cells: Vec<usize> = of_cells.iter().map(|counts| least_bin(counts, most_of_cell)).collect();
    let of_all: Vec<u32> = (0..BINS).map(|bin| of_cells.iter().map(|counts| counts[bin]).sum()).collect();
    let limit_of_all = least_bin(&of_all, most);
    let is_one = |point: &&RefinedPoint| {
        let bin = grid.bin(point.value);
        bin >= limit_of_all || bin >= limits_of_cells[grid.cell(point.octave, [point.x, point.y])]
    };
    points.iter().filter(is_one).copied().collect()
}

/// The bin down to which there are `n` or more; the first where there are less, none for none.
fn least_bin(counts: &[u32], n: usize) -> usize {
    let mut n_stronger = 0;
    let reaches = |count: &u32| {
        n_stronger += *count as usize;
        n_stronger >= n
    };
    if n == 0 { BINS } else { counts.iter().rev().position(reaches).map_or(0, |i| BINS - 1 - i) }
}
