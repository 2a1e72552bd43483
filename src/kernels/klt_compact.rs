//! Gathers the kept picks in cell order.
//!
//! In: one pick and one flag a cell. Out: the kept picks, cells row by row, as positions in pixels.
//! One invocation: one cell, at the place that the scan of the flags gives it.

use super::klt_select::Pick;
use crate::klt::SelectedPoint;

/// Appends the kept picks to `out`.
pub fn klt_compact(picks: &[Pick], kept: &[bool], out: &mut Vec<SelectedPoint>) {
    let points = picks.iter().zip(kept).filter(|&(_, &kept)| kept);
    out.extend(points.map(|(p, _)| SelectedPoint { x: p.x as f32, y: p.y as f32, strength: p.strength }));
}
