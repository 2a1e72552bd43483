//! The best pixel of each cell that holds no live track.
//!
//! In: an eigenvalue map, the occupancy and a threshold. Out: one pick a cell, none where the cell is occupied or its
//! largest value is zero or below the threshold. Of equal pixels the first, row by row, wins.
//! One workgroup: one cell.

use rayon::prelude::*;

use super::klt_occupancy::{Grid, Occupancy};
use crate::device::{Binding, KernelSource, params_layout};

/// The shader. Its threshold is `quality_level` times the first of `eigen_max`; dispatched over columns and rows of cells.
pub const SHADER: KernelSource = KernelSource {
    name: "klt_select",
    wgsl: concat!(
        include_str!("../../shaders/shared/pick.wgsl"),
        include_str!("../../shaders/klt_select.wgsl")
    ),
    workgroup: [64, 1, 1],
    params: params_layout!(KltSelectParams: width, height, cell_px, columns, quality_level),
    bindings: &[
        Binding::read("eigen"),
        Binding::read("eigen_max"),
        Binding::read("starts"),
        Binding::read_write("picks"),
    ],
};

/// Parameters of the shader.
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct KltSelectParams {
    /// Width of the map in pixels.
    pub width: u32,
    /// Height of the map in pixels.
    pub height: u32,
    /// Side of a cell in pixels.
    pub cell_px: u32,
    /// Cells a row.
    pub columns: u32,
    /// Share of the largest value that a pick has at least.
    pub quality_level: f32,
}

/// A cell's pick.
#[derive(Clone, Copy, Debug, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct Pick {
    /// Column of the pixel.
    pub x: u32,
    /// Row of the pixel.
    pub y: u32,
    /// Its eigenvalue; 0: the cell has no pick.
    pub strength: f32,
}

impl Pick {
    /// No pick.
    pub const NONE: Pick = Pick { x: 0, y: 0, strength: 0.0 };
}

/// Fills `picks`, one a cell of `grid`.
pub fn klt_select(grid: &Grid, eigen: &[f32], occupancy: &Occupancy, threshold: f32, picks: &mut [Pick]) {
    picks.par_chunks_mut(grid.columns.max(1)).enumerate().for_each(|(row, picks)| {
        for (column, pick) in picks.iter_mut().enumerate() {
            let cell = row * grid.columns + column;
            let is_free = occupancy.of(cell).is_empty();
            let best = if is_free { best_of_cell(grid, eigen, column, row) } else { Pick::NONE };
            *pick = if best.strength >= threshold { best } else { Pick::NONE };
        }
    });
}

fn best_of_cell(grid: &Grid, eigen: &[f32], column: usize, row: usize) -> Pick {
    let (left, top) = (column * grid.cell_px, row * grid.cell_px);
    let (right, bottom) = ((left + grid.cell_px).min(grid.width), (top + grid.cell_px).min(grid.height));
    let mut best = Pick::NONE;
    for y in top..bottom {
        for x in left..right {
            let strength = eigen[y * grid.width + x];
            if strength > best.strength {
                best = Pick { x: x as u32, y: y as u32, strength };
            }
        }
    }
    best
}
