//! Which points stay when a picture has more than its limit: the strongest, but a quarter of the places is shared evenly
//! among the cells of a grid, so that no part of the picture goes without.

use super::{Octave, Point};
use crate::picture::GrayImage;

/// Cells along the picture's width and height.
const CELLS: usize = 8;

/// Indices of `points` in the order they are to be kept: the strongest of each cell, then all others by strength.
pub fn rank(points: &[Point], octaves: &[Octave], gray: &GrayImage, limit: usize) -> Vec<u32> {
    let mut order: Vec<u32> = (0..points.len() as u32).collect();
    if points.len() * super::MAX_ORIENTATIONS <= limit {
        return order;
    }
    order.sort_by(|a, b| points[*b as usize].response.total_cmp(&points[*a as usize].response));
    let share = limit / (4 * CELLS * CELLS);
    let mut taken = [0; CELLS * CELLS];
    let (mut first, rest): (Vec<u32>, Vec<u32>) = order.into_iter().partition(|index| {
        let cell = cell_of(&points[*index as usize], octaves, gray);
        taken[cell] += 1;
        taken[cell] <= share
    });
    first.extend(rest);
    first
}

fn cell_of(point: &Point, octaves: &[Octave], gray: &GrayImage) -> usize {
    let step = octaves[point.octave as usize].step;
    let along = |position: f32, size: usize| {
        let share = (step * position + 0.5) / size as f32;
        ((share * CELLS as f32) as usize).min(CELLS - 1)
    };
    along(point.position[1], gray.height) * CELLS + along(point.position[0], gray.width)
}
