//! The selection of points to track.

use super::KltOptions;
use crate::kernels::PyramidLevel;
use crate::kernels::{eigen_at, eigen_map, eigen_max, klt_compact, klt_occupancy, klt_select, klt_suppress};

/// Smaller eigenvalue of the structure tensor over 3 x 3 pixels (Shi and Tomasi 1994), zero where a tracking window
/// would leave the frame.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EigenMap {
    /// Width in pixels.
    pub width: usize,
    /// Height in pixels.
    pub height: usize,
    /// `width * height` values, row by row.
    pub data: Vec<f32>,
    /// The largest value.
    pub max: f32,
}

impl EigenMap {
    /// The value at the pixel nearest to (x, y), zero outside.
    pub fn at(&self, x: f32, y: f32) -> f32 {
        let mut value = [0.0];
        eigen_at::eigen_at(&self.data, self.width, &[[x, y]], &mut value);
        value[0]
    }
}

/// The eigenvalue map of a frame for windows of `window_px`.
pub fn eigen_map_of(level0: &PyramidLevel, window_px: u32) -> EigenMap {
    let (width, height) = (level0.gray.width, level0.gray.height);
    let mut data = vec![0.0; width * height];
    eigen_map::eigen_map(&level0.gradient_x, &level0.gradient_y, width, (window_px / 2) as usize, &mut data);
    let max = eigen_max::eigen_max(&data);
    EigenMap { width, height, data, max }
}

/// A selected point: an integer position and its eigenvalue.
#[derive(Clone, Copy, Debug, Default, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct SelectedPoint {
    /// Position in analysis pixels.
    pub x: f32,
    /// See `x`.
    pub y: f32,
    /// Smaller eigenvalue there.
    pub strength: f32,
}

/// Buffers of the selection, kept from keyframe to keyframe.
#[derive(Debug, Default)]
pub struct SelectScratch {
    occupancy: klt_occupancy::Occupancy,
    picks: Vec<klt_select::Pick>,
    kept: Vec<bool>,
}

/// Selects at most `room` points to track: the best pixel of each cell of `min_distance_px` without a live track, at
/// least `quality_level` of the frame's largest value, `min_distance_px` from each other and from all of `alive`.
/// Strongest first; of equals the earlier cell, row by row.
pub fn select_points(
    eigen: &EigenMap,
    alive: &[[f32; 2]],
    options: &KltOptions,
    room: usize,
    scratch: &mut SelectScratch,
) -> Vec<SelectedPoint> {
    let grid = klt_occupancy::Grid::new(eigen.width, eigen.height, options.min_distance_px);
    let SelectScratch { occupancy, picks, kept } = scratch;
    occupancy.resize(&grid, alive.len());
    klt_occupancy::klt_occupancy(&grid, alive, occupancy);
    picks.resize(grid.cells(), klt_select::Pick::NONE);
    kept.resize(grid.cells(), false);
    let threshold = options.quality_level * eigen.max;
    klt_select::klt_select(&grid, &eigen.data, occupancy, threshold, picks);
    klt_suppress::klt_suppress(&grid, alive, occupancy, picks, options.min_distance_px, kept);
    let mut points = Vec::new();
    klt_compact::klt_compact(picks, kept, &mut points);
    best_first(points, room)
}

/// The strongest `room` of points in the order of their cells.
pub(super) fn best_first(mut points: Vec<SelectedPoint>, room: usize) -> Vec<SelectedPoint> {
    points.sort_by(|a, b| b.strength.total_cmp(&a.strength));
    points.truncate(room);
    points
}
