//! Seeding and refresh: new tracks from the keyframe's unclaimed points.

use super::points::{Buckets, Point, distance2};

/// A point that may become a seed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Candidate {
    /// Point index.
    pub point: usize,
    /// Smaller eigenvalue of the structure tensor at the point.
    pub lambda_min: f32,
}

/// The candidates among the unclaimed points: strong enough by `lambda_min`, a value a point, and no live track within
/// `min_distance_px`.
pub fn candidates(
    points: &[Point],
    claimed: &[bool],
    alive: &[[f32; 2]],
    size: (u32, u32),
    min_distance_px: f32,
    lambda_min: &[f32],
    threshold: f32,
) -> Vec<Candidate> {
    let buckets = Buckets::new(alive, size, min_distance_px.max(4.0));
    let is_free = |p: &Point| {
        buckets.near([p.x, p.y]).all(|i| distance2(alive[i], [p.x, p.y]) >= min_distance_px * min_distance_px)
    };
    points
        .iter()
        .enumerate()
        .filter(|&(index, _)| !claimed[index])
        .map(|(index, point)| (index, point, lambda_min[index]))
        .filter(|&(_, point, lambda_min)| lambda_min > 0.0 && lambda_min >= threshold && is_free(point))
        .map(|(point, _, lambda_min)| Candidate { point, lambda_min })
        .collect()
}

/// The order in which candidates become seeds: the strongest of each 8-px cell first, then the rest, each group by
/// falling strength, then point index.
pub fn order_by_cell(candidates: &[Candidate], points: &[Point], size: (u32, u32)) -> Vec<usize> {
    const CELL_PX: u32 = 8;
    let columns = size.0.div_ceil(CELL_PX).max(1);
    let cell_of = |c: &Candidate| {
        let p = &points[c.point];
        (p.y as u32 / CELL_PX) * columns + p.x as u32 / CELL_PX
    };
    let mut by_strength: Vec<&Candidate> = candidates.iter().collect();
    by_strength.sort_by(|a, b| b.lambda_min.total_cmp(&a.lambda_min).then(a.point.cmp(&b.point)));
    let mut cells_seen = std::collections::BTreeSet::new();
    let (first, rest): (Vec<&Candidate>, Vec<&Candidate>) =
        by_strength.into_iter().partition(|c| cells_seen.insert(cell_of(c)));
    first.into_iter().chain(rest).map(|c| c.point).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(positions: &[(f32, f32)]) -> Vec<Point> {
        let point = |(i, &(x, y)): (usize, &(f32, f32))| Point { x, y, keypoint: i as u32, scale: 2.0 };
        positions.iter().enumerate().map(point).collect()
    }

    #[test]
    fn claimed_weak_and_crowded_points_are_no_candidates() {
        let points = points(&[(10.0, 10.0), (20.0, 20.0), (30.0, 30.0), (40.0, 30.0), (50.0, 30.0)]);
        let claimed = [true, false, false, false, false];
        let alive = [[37.0, 30.0]]; // 7 px from point 2, 3 px from point 3
        let strengths = [2.0, 0.5, 2.0, 2.0, 2.0];
        let found = candidates(&points, &claimed, &alive, (64, 48), 8.0, &strengths, 1.0);
        assert_eq!(found, vec![Candidate { point: 4, lambda_min: 2.0 }]);
    }

    #[test]
    fn a_live_track_at_exactly_the_distance_does_not_block() {
        let points = points(&[(10.0, 10.0)]);
        assert_eq!(candidates(&points, &[false], &[[18.0, 10.0]], (64, 48), 8.0, &[1.0], 1.0).len(), 1);
        assert_eq!(candidates(&points, &[false], &[[17.9, 10.0]], (64, 48), 8.0, &[1.0], 1.0).len(), 0);
    }

    #[test]
    fn strongest_of_each_cell_first() {
        let points = points(&[(1.0, 1.0), (2.0, 2.0), (9.0, 1.0), (1.0, 9.0)]);
        let strengths = [3.0, 4.0, 1.0, 2.0];
        let found: Vec<Candidate> = strengths
            .iter()
            .enumerate()
            .map(|(point, &lambda_min)| Candidate { point, lambda_min })
            .collect();
        assert_eq!(order_by_cell(&found, &points, (16, 16)), vec![1, 3, 2, 0]);
    }
}
