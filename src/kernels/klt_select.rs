//! The best pixel of each cell that holds no live track.
//!
//! In: an eigenvalue map, the occupancy and a threshold. Out: one pick a cell, none where the cell is occupied or its
//! largest value is zero or below the threshold. Of equal pixels the first, row by row, wins.
//! One invocation: one cell.

use rayon::prelude::*;

use super::klt_occupancy::{Grid, Occupancy};

/// A cell's pick.
#[derive(Clone, Copy, Debug, PartialEq)]
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
