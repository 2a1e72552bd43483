//! Keeps the picks that have their distance.
//!
//! In: one pick a cell, the live tracks by cell. Out: one flag a cell. A pick falls when a stronger pick of a
//! neighbouring cell (the lower cell on a tie), itself kept or not, or any live track of a neighbouring cell is closer
//! than `min_distance_px`, which is at most a cell.
//! One invocation: one cell.

use rayon::prelude::*;

use super::klt_occupancy::{Grid, Occupancy};
use super::klt_select::Pick;
use crate::device::{Binding, KernelSource, params_layout};

/// The shader.
pub const SHADER: KernelSource = KernelSource {
    name: "klt_suppress",
    wgsl: concat!(
        include_str!("../../shaders/shared/pick.wgsl"),
        include_str!("../../shaders/klt_suppress.wgsl")
    ),
    workgroup: [8, 8, 1],
    params: params_layout!(KltSuppressParams: columns, rows, min_distance_px),
    bindings: &[
        Binding::read("alive"),
        Binding::read("starts"),
        Binding::read("tracks"),
        Binding::read("picks"),
        Binding::read_write("kept"),
    ],
};

/// Parameters of the shader.
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct KltSuppressParams {
    /// Cells a row.
    pub columns: u32,
    /// Rows of cells.
    pub rows: u32,
    /// Smallest distance of a pick to others and to live tracks.
    pub min_distance_px: f32,
}

/// Fills `kept`, one flag a cell of `grid`.
pub fn klt_suppress(
    grid: &Grid,
    alive: &[[f32; 2]],
    occupancy: &Occupancy,
    picks: &[Pick],
    min_distance_px: f32,
    kept: &mut [bool],
) {
    let limit2 = min_distance_px * min_distance_px;
    kept.par_chunks_mut(grid.columns.max(1)).enumerate().for_each(|(row, kept)| {
        for (column, kept) in kept.iter_mut().enumerate() {
            let cell = row * grid.columns + column;
            let pick = picks[cell];
            *kept = pick.strength > 0.0
                && grid.neighbourhood(cell).all(|near| {
                    !beats((near, picks[near]), (cell, pick), limit2)
                        && occupancy.of(near).iter().all(|&t| distance2(pick, alive[t as usize]) >= limit2)
                });
        }
    });
}

fn beats((other_cell, other): (usize, Pick), (cell, pick): (usize, Pick), limit2: f32) -> bool {
    let is_stronger =
        other.strength > pick.strength || (other.strength == pick.strength && other_cell < cell);
    is_stronger && distance2(pick, [other.x as f32, other.y as f32]) < limit2
}

fn distance2(pick: Pick, [x, y]: [f32; 2]) -> f32 {
    let (dx, dy) = (pick.x as f32 - x, pick.y as f32 - y);
    dx * dx + dy * dy
}
