//! Which points stay when a picture has more than its limit: the strongest, but a quarter of the places is shared evenly
//! among the cells of a grid, so that no part of the picture goes without.

use super::Point;
use crate::kernels::orientation::MAX_ORIENTATIONS;

/// Cells along the picture's width and height.
const CELLS: usize = 8;

/// Indices of `points` in the order they are to be kept: the strongest of each cell, then others by strength, the first of
/// equal ones first; `limit` of them at most. `steps` are those of the octaves, `size` is the picture's.
pub fn rank(points: &[Point], steps: &[f32], size: (usize, usize), limit: usize) -> Vec<u32> {
    if points.len() * MAX_ORIENTATIONS <= limit {
        return (0..points.len() as u32).collect();
    }
    let mut cells = vec![Vec::new(); CELLS * CELLS];
    for (index, point) in points.iter().enumerate() {
        cells[cell_of(point, steps, size)].push(key(point, index));
    }
    let share = limit / (4 * CELLS * CELLS);
    let (mut first, mut rest) = (Vec::new(), Vec::new());
    for mut cell in cells {
        let (strongest, others) = split_least(&mut cell, share);
        first.extend_from_slice(strongest);
        rest.extend_from_slice(others);
    }
    let (others, _) = split_least(&mut rest, limit - first.len());
    first.sort_unstable();
    others.sort_unstable();
    first.iter().chain(&*others).map(|key| *key as u32).collect()
}

/// Ascends as strength falls, then with the index. Strengths are not negative: they have the order of their bits.
fn key(point: &Point, index: usize) -> u64 {
    (!point.response.to_bits() as u64) << 32 | index as u64
}

/// The `n` least keys and the others, both in any order.
fn split_least(keys: &mut [u64], n: usize) -> (&mut [u64], &mut [u64]) {
    if n < keys.len() {
        keys.select_nth_unstable(n);
    }
    keys.split_at_mut(n.min(keys.len()))
}

fn cell_of(point: &Point, steps: &[f32], (width, height): (usize, usize)) -> usize {
    let step = steps[point.octave as usize];
    let along = |position: f32, size: usize| {
        let share = (step * position + 0.5) / size as f32;
        ((share * CELLS as f32) as usize).min(CELLS - 1)
    };
    along(point.position[1], height) * CELLS + along(point.position[0], width)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numerics::SplitMix64;

    /// The definition.
    fn by_strength(points: &[Point], steps: &[f32], size: (usize, usize), limit: usize) -> Vec<u32> {
        let mut order: Vec<u32> = (0..points.len() as u32).collect();
        order.sort_by(|a, b| points[*b as usize].response.total_cmp(&points[*a as usize].response));
        let mut taken = [0; CELLS * CELLS];
        let (first, rest): (Vec<u32>, Vec<u32>) = order.into_iter().partition(|index| {
            let cell = cell_of(&points[*index as usize], steps, size);
            taken[cell] += 1;
            taken[cell] <= limit / 256
        });
        first.into_iter().chain(rest).take(limit).collect()
    }

    #[test]
    fn the_strongest_of_cells_come_first_then_all_others() {
        let mut rng = SplitMix64::new(9, 0);
        let points: Vec<Point> = (0..3000)
            .map(|i| {
                let octave = i / 2000;
                // Many are as strong as others.
                let response = rng.below(300) as f32 / 300.0;
                let position = [400.0, 300.0].map(|size| ((size - 1.0) * rng.unit() * rng.unit()) as f32);
                Point { octave, layer: 1, pixel: [i, 0], position, level: 1.0, response }
            })
            .collect();
        for limit in [1, 255, 256, 1000, 2999, 3000, 11_999] {
            let expected = by_strength(&points, &[0.5, 1.0], (200, 150), limit);
            assert_eq!(rank(&points, &[0.5, 1.0], (200, 150), limit), expected, "limit {limit}");
        }
        assert_eq!(rank(&points, &[0.5, 1.0], (200, 150), 12_000), (0..3000).collect::<Vec<_>>());
    }
}
