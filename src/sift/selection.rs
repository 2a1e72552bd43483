//! Which points stay when a picture has more than its limit: the strongest, but a quarter of the places is shared evenly
//! among the cells of a grid, so that no part of the picture goes without.

use super::Point;
use crate::kernels::orientation::MAX_ORIENTATIONS;

/// Cells along the picture's width and height.
const CELLS: usize = 8;

/// Indices of `points` in the order they are to be kept: the strongest of each cell, then all others by strength.
/// `steps` are those of the octaves, `size` is the picture's.
pub fn rank(points: &[Point], steps: &[f32], size: (usize, usize), limit: usize) -> Vec<u32> {
    let mut order: Vec<u32> = (0..points.len() as u32).collect();
    if points.len() * MAX_ORIENTATIONS <= limit {
        return order;
    }
    order.sort_by(|a, b| points[*b as usize].response.total_cmp(&points[*a as usize].response));
    let share = limit / (4 * CELLS * CELLS);
    let mut taken = [0; CELLS * CELLS];
    let (mut first, rest): (Vec<u32>, Vec<u32>) = order.into_iter().partition(|index| {
        let cell = cell_of(&points[*index as usize], steps, size);
        taken[cell] += 1;
        taken[cell] <= share
    });
    first.extend(rest);
    first
}

fn cell_of(point: &Point, steps: &[f32], (width, height): (usize, usize)) -> usize {
    let step = steps[point.octave as usize];
    let along = |position: f32, size: usize| {
        let share = (step * position + 0.5) / size as f32;
        ((share * CELLS as f32) as usize).min(CELLS - 1)
    };
    along(point.position[1], height) * CELLS + along(point.position[0], width)
}
