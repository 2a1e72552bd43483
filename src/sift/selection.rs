//! Which points stay when a picture has more than its limit: the strongest, but a quarter of the places is shared evenly
//! among the cells of a grid, so that no part of the picture goes without.

use super::Point;
use crate::kernels::orientation::MAX_ORIENTATIONS;
use crate::kernels::strength::{CELLS, cell_along};

/// Indices of `points` in the order they are to be kept: the strongest of each cell, then others by strength, the first of
/// equal ones first; `limit` of them at most. `steps` are those of the octaves, `size` is the picture's.
pub fn rank(points: &[Point], steps: &[f32], size: (usize, usize), limit: usize) -> Vec<u32> {
    if points.len() * MAX_ORIENTATIONS <= limit {
        return (0..points.len() as u32).collect();
    }
    let cell_ids: Vec<u8> = points.iter().map(|point| cell_of(point, steps, size) as u8).collect();
    let mut ends = [0; CELLS * CELLS];
    for id in &cell_ids {
        ends[*id as usize] += 1;
    }
    let mut sum = 0;
    for end in &mut ends {
        sum += std::mem::replace(end, sum);
    }
    let mut keys = vec![0; points.len()];
    for ((index, point), id) in points.iter().enumerate().zip(&cell_ids) {
        let end = &mut ends[*id as usize];
        keys[*end] = key(point, index);
        *end += 1;
    }
    let share = share_of_cell(limit);
    let (mut first, mut rest) = (Vec::with_capacity(CELLS * CELLS * share), Vec::with_capacity(keys.len()));
    let mut start = 0;
    for end in ends {
        let (strongest, others) = split_least(&mut keys[start..end], share);
        first.extend_from_slice(strongest);
        rest.extend_from_slice(others);
        start = end;
    }
    let (others, _) = split_least(&mut rest, limit - first.len());
    first.sort_unstable();
    others.sort_unstable();
    first.iter().chain(&*others).map(|key| *key as u32).collect()
}

/// Places of `limit` that each cell has for its strongest.
pub fn share_of_cell(limit: usize) -> usize {
    limit / (4 * CELLS * CELLS)
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
    let [x, y] = point.position.map(|position| steps[point.octave as usize] * position);
    cell_along(y, height) * CELLS + cell_along(x, width)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::refine::RefinedPoint;
    use crate::kernels::strength::{BINS, StrengthGrid};
    use crate::kernels::strongest::strongest;
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

    /// As strong as others, many of them.
    fn some_points() -> Vec<Point> {
        let mut rng = SplitMix64::new(9, 0);
        let mut point = |i: u32| {
            let octave = i / 2000;
            let response = rng.below(300) as f32 / 300.0;
            let position = [400.0, 300.0].map(|size| ((size - 1.0) * rng.unit() * rng.unit()) as f32);
            Point { octave, layer: 1, pixel: [i, 0], position, level: 1.0, response }
        };
        (0..3000).map(&mut point).collect()
    }

    #[test]
    fn the_strongest_of_cells_come_first_then_all_others() {
        let points = some_points();
        for limit in [1, 255, 256, 1000, 2999, 3000, 11_999] {
            let expected = by_strength(&points, &[0.5, 1.0], (200, 150), limit);
            assert_eq!(rank(&points, &[0.5, 1.0], (200, 150), limit), expected, "limit {limit}");
        }
        assert_eq!(rank(&points, &[0.5, 1.0], (200, 150), 12_000), (0..3000).collect::<Vec<_>>());
    }

    /// What the device leaves out, from strengths that do not count every point, makes no difference.
    #[test]
    fn rank_chooses_among_the_strongest() {
        let points = some_points();
        let refined = |point: &Point| {
            let Point { octave, layer, pixel: [column, row], position: [x, y], level, response } = *point;
            RefinedPoint { octave, layer, x, y, level, value: response, column, row }
        };
        let all: Vec<RefinedPoint> = points.iter().map(refined).collect();
        let grid = StrengthGrid::new((200, 150), 0.5, 0.0);
        let mut strengths = vec![0; CELLS * CELLS * BINS];
        for point in all.iter().filter(|point| point.column % 5 != 0) {
            strengths[BINS * grid.cell(point.octave, [point.x, point.y]) + grid.bin(point.value)] += 1;
        }
        for limit in [1, 255, 256, 1000, 2300, 2999, 12_000] {
            let kept = strongest(&all, &strengths, &grid, limit, share_of_cell(limit));
            let few: Vec<Point> = kept.iter().map(|kept| points[kept.column as usize]).collect();
            assert_eq!(few.len() < points.len(), limit < 2400, "{} points for {limit}", few.len());
            let ranked = rank(&few, &[0.5, 1.0], (200, 150), limit);
            let ranked: Vec<u32> = ranked.iter().map(|index| few[*index as usize].pixel[0]).collect();
            assert_eq!(ranked, rank(&points, &[0.5, 1.0], (200, 150), limit), "limit {limit}");
        }
    }
}
