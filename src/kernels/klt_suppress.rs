//! Keeps the picks that have their distance.
//!
//! In: one pick a cell, the live tracks by cell. Out: one flag a cell. A pick falls when a stronger pick of a
//! neighbouring cell (the lower cell on a tie), itself kept or not, or any live track of a neighbouring cell is closer
//! than `min_distance_px`, which is at most a cell.
//! One invocation: one cell.

use rayon::prelude::*;

use super::klt_occupancy::{Grid, Occupancy};
use super::klt_select::Pick;

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
