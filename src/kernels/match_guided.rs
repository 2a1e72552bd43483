//! Kernel `match_guided`: mutual nearest descriptors among the keypoints that a fundamental matrix allows.
//!
//! Positions are pixels of the picture that F speaks of; a pair is a candidate when the second keypoint lies within
//! the band about the first one's epipolar line. Keypoints of one position are one point: the rival of the nearest
//! stands elsewhere. Distances are exact integers, ties go to the lower index. One invocation handles one keypoint of
//! the first picture; keypoints of the second are bucketed by position, so only those near the line are looked at.

pub use self::shader::{Band, MatchGuidedParams, SHADER, Spot, Spots};

use super::match_descriptors::squared_distance;
use super::match_mutual::{Nearest, RatioTest, match_mutual};
use crate::message::{Descriptor, DescriptorMatch};

mod shader;

/// The keypoints of one picture: positions and descriptors, row by row.
#[derive(Clone, Copy, Debug)]
pub struct GuidedPoints<'a> {
    /// Positions in pixels, one a keypoint. Keypoints of one position are equal to the bit.
    pub positions: &'a [[f64; 2]],
    /// One descriptor a keypoint.
    pub descriptors: &'a [Descriptor],
}

/// Buffers that `match_guided` reuses from call to call.
#[derive(Debug, Default)]
pub struct GuidedScratch {
    strips: [Strips; 2],
    first: Vec<Nearest>,
    second: Vec<Nearest>,
}

/// Matches `first` to `second` within `band_px` of the epipolar lines of `f` (row-major, x2' F x1 = 0).
///
/// A match is the nearest candidate of both its keypoints and passes the ratio test (`ratio`, see
/// [`RatioTest`]) in both directions; without a rival the test passes. Ascending by (first, second).
pub fn match_guided(
    first: GuidedPoints,
    second: GuidedPoints,
    f: &[f64; 9],
    band_px: f64,
    ratio: f32,
    scratch: &mut GuidedScratch,
) -> Vec<DescriptorMatch> {
    let GuidedScratch { strips, first: nearest_of_first, second: nearest_of_second } = scratch;
    for (axis, strips) in strips.iter_mut().enumerate() {
        strips.fill(second.positions, axis);
    }
    for (nearest, points) in [(&mut *nearest_of_first, first), (&mut *nearest_of_second, second)] {
        nearest.clear();
        nearest.resize(points.positions.len().min(points.descriptors.len()), Nearest::NONE);
    }
    crate::numerics::vectorized(
        #[inline(always)]
        || {
            for (i, nearest) in nearest_of_first.iter_mut().enumerate() {
                let line = EpipolarLine::new(f, first.positions[i], band_px);
                strips[line.walk_axis()].visit(
                    &line,
                    second.positions,
                    #[inline(always)]
                    |j| {
                        let Some(of_second) = nearest_of_second.get_mut(j) else { return };
                        let distance2 = squared_distance(&first.descriptors[i], &second.descriptors[j]);
                        update(nearest, distance2, j, second.positions);
                        update(of_second, distance2, i, first.positions);
                    },
                );
            }
        },
    );
    match_mutual(nearest_of_first, nearest_of_second, RatioTest::new(ratio))
}

/// Takes one more candidate in. The result does not depend on the order of the candidates.
#[inline(always)]
fn update(nearest: &mut Nearest, distance2: u32, index: usize, positions: &[[f64; 2]]) {
    let elsewhere = nearest.index != u32::MAX && positions[index] != positions[nearest.index as usize];
    if (distance2, index as u32) < (nearest.distance2, nearest.index) {
        if elsewhere {
            nearest.rival2 = nearest.distance2;
        }
        (nearest.distance2, nearest.index) = (distance2, index as u32);
    } else if elsewhere {
        nearest.rival2 = nearest.rival2.min(distance2);
    }
}

/// The line a x + b y + c = 0 with a^2 + b^2 = 1, and half the width of the band about it.
#[derive(Clone, Copy, Debug)]
struct EpipolarLine {
    normal: [f64; 2],
    c: f64,
    band_px: f64,
}

impl EpipolarLine {
    /// F x1, normalised. A point without a line (the epipole) gives NaN: no candidate is near it.
    fn new(f: &[f64; 9], [x, y]: [f64; 2], band_px: f64) -> Self {
        let [a, b, c] = [0, 3, 6].map(|row| f[row] * x + f[row + 1] * y + f[row + 2]);
        let norm = (a * a + b * b).sqrt();
        let norm = if norm > 0.0 { norm } else { f64::NAN };
        EpipolarLine { normal: [a / norm, b / norm], c: c / norm, band_px }
    }

    #[inline(always)]
    fn is_near(&self, [x, y]: [f64; 2]) -> bool {
        (self.normal[0] * x + self.normal[1] * y + self.c).abs() <= self.band_px
    }

    /// 0 for a line that is walked along x, 1 along y: the axis in which it is not steep.
    fn walk_axis(&self) -> usize {
        (self.normal[0].abs() > self.normal[1].abs()) as usize
    }
}

/// Positions bucketed into strips across `axis`, each strip sorted by the other coordinate.
#[derive(Debug, Default)]
struct Strips {
    axis: usize,
    low: f64,
    width: f64,
    /// Where each strip begins in `order`; one more than there are strips.
    starts: Vec<usize>,
    /// (other coordinate, index) of every position, strip by strip.
    order: Vec<(f64, u32)>,
}

impl Strips {
    /// Sorts finite `positions` into about sqrt(n) strips; others are left out.
    fn fill(&mut self, positions: &[[f64; 2]], axis: usize) {
        let finite = |p: &[f64; 2]| p[0].is_finite() && p[1].is_finite();
        let along = || positions.iter().filter(|p| finite(p)).map(|p| p[axis]);
        let (low, high) = along().fold((f64::MAX, f64::MIN), |(l, h), v| (l.min(v), h.max(v)));
        let n_strips = ((along().count() as f64).sqrt() as usize).max(1);
        (self.axis, self.low) = (axis, low);
        self.width = ((high - low) / n_strips as f64).max(1.0);

        self.order.clear();
        self.order.extend((0..positions.len()).filter(|&i| finite(&positions[i])).map(|i| (0.0, i as u32)));
        let strip_of = |v: f64| (((v - low) / self.width) as usize).min(n_strips - 1);
        let key = |i: u32| (strip_of(positions[i as usize][axis]), positions[i as usize][1 - axis]);
        self.order.sort_unstable_by(|a, b| {
            let (ka, kb) = (key(a.1), key(b.1));
            ka.0.cmp(&kb.0).then(ka.1.total_cmp(&kb.1)).then(a.1.cmp(&b.1))
        });
        self.starts.clear();
        self.starts.resize(n_strips + 1, 0);
        for entry in &mut self.order {
            entry.0 = positions[entry.1 as usize][1 - axis];
            self.starts[strip_of(positions[entry.1 as usize][axis]) + 1] += 1;
        }
        for s in 0..n_strips {
            self.starts[s + 1] += self.starts[s];
        }
    }

    /// Calls `op` with every position in the band of `line`, once each.
    #[inline(always)]
    fn visit(&self, line: &EpipolarLine, positions: &[[f64; 2]], mut op: impl FnMut(usize)) {
        let (along, across) = (line.normal[self.axis], line.normal[1 - self.axis]);
        for (s, bounds) in self.starts.windows(2).enumerate() {
            let strip = &self.order[bounds[0]..bounds[1]];
            if strip.is_empty() {
                continue;
            }
            let begin = self.low + s as f64 * self.width;
            let at = |v: f64| -(along * v + line.c) / across;
            let (a, b) = (at(begin), at(begin + self.width));
            // The exact test is `is_near`; the margin only covers the rounding of these bounds.
            let margin = line.band_px / across.abs() + 1e-6 * (1.0 + a.abs() + b.abs());
            let (low, high) = (a.min(b) - margin, a.max(b) + margin);
            let from = strip.partition_point(|entry| entry.0 < low);
            for &(across, index) in &strip[from..] {
                if across > high {
                    break;
                }
                if line.is_near(positions[index as usize]) {
                    op(index as usize);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numerics::SplitMix64;

    struct Side {
        positions: Vec<[f64; 2]>,
        descriptors: Vec<Descriptor>,
    }

    impl Side {
        /// Keypoints in a 640 x 400 picture, every fourth at the position of the one before.
        fn random(rng: &mut SplitMix64, n: usize) -> Side {
            let mut side = Side { positions: Vec::new(), descriptors: Vec::new() };
            for i in 0..n {
                let shared = side.positions.last().copied().filter(|_| i % 4 == 3);
                let own = [rng.unit() * 640.0, rng.unit() * 400.0];
                side.positions.push(shared.unwrap_or(own));
                let mut descriptor = [9; 128];
                descriptor[..6].fill_with(|| rng.below(4) as u8 * 20);
                side.descriptors.push(descriptor);
            }
            side
        }

        fn points(&self) -> GuidedPoints<'_> {
            GuidedPoints { positions: &self.positions, descriptors: &self.descriptors }
        }
    }

    fn in_band(f: &[f64; 9], a: [f64; 2], b: [f64; 2], band_px: f64) -> bool {
        let line = nalgebra::Matrix3::from_row_slice(f) * nalgebra::Vector3::new(a[0], a[1], 1.0);
        let norm = line.x.hypot(line.y);
        norm > 0.0 && (line.x * b[0] + line.y * b[1] + line.z).abs() <= band_px * norm
    }

    /// The nearest of the candidates, and the nearest one at another position.
    fn nearest(candidates: &[(u32, usize)], positions: &[[f64; 2]]) -> Option<(u32, usize, Option<u32>)> {
        let &(distance2, index) = candidates.iter().min()?;
        let elsewhere = candidates.iter().filter(|c| positions[c.1] != positions[index]);
        Some((distance2, index, elsewhere.map(|c| c.0).min()))
    }

    fn oracle(first: &Side, second: &Side, f: &[f64; 9], band_px: f64) -> Vec<DescriptorMatch> {
        let stands_out = |(d, _, rival): (u32, usize, Option<u32>)| rival.is_none_or(|r| d * 100 < r * 64);
        let near = |i: usize, j: usize| in_band(f, first.positions[i], second.positions[j], band_px);
        let distance2 = |i: usize, j: usize| {
            let pairs = first.descriptors[i].iter().zip(&second.descriptors[j]);
            pairs.map(|(&a, &b)| a.abs_diff(b) as u32 * a.abs_diff(b) as u32).sum::<u32>()
        };
        let (n, m) = (first.positions.len(), second.positions.len());
        let mut matches = Vec::new();
        for i in 0..n {
            let forward: Vec<_> = (0..m).filter(|&j| near(i, j)).map(|j| (distance2(i, j), j)).collect();
            let Some(there) = nearest(&forward, &second.positions) else { continue };
            let j = there.1;
            let backward: Vec<_> = (0..n).filter(|&i| near(i, j)).map(|i| (distance2(i, j), i)).collect();
            let back = nearest(&backward, &first.positions).unwrap();
            if back.1 == i && stands_out(there) && stands_out(back) {
                matches.push(DescriptorMatch { first: i as u32, second: j as u32, distance2: there.0 });
            }
        }
        matches
    }

    #[test]
    fn equals_the_oracle_for_lines_of_any_direction() {
        let mut rng = SplitMix64::new(5, 5);
        let mut scratch = GuidedScratch::default();
        let mut found = 0;
        for case in 0..60 {
            let (n, m) = ([0, 1, 7, 60, 120][case % 5], [120, 33, 0, 1, 80][case % 7 % 5]);
            let (first, second) = (Side::random(&mut rng, n), Side::random(&mut rng, m));
            // Lines through an epipole in or about the picture, at the slopes of a random pencil.
            let (x, y) = (rng.unit() * 1200.0 - 300.0, rng.unit() * 800.0 - 200.0);
            let cross = nalgebra::Matrix3::new(0.0, -1.0, y, 1.0, 0.0, -x, -y, x, 0.0);
            let map = nalgebra::Matrix3::from_fn(|r, c| (r == c) as u8 as f64 + 1e-4 * (rng.unit() - 0.5));
            let f: Vec<f64> = (cross * map).transpose().iter().copied().collect();
            let f: [f64; 9] = f.try_into().unwrap();
            for band_px in [0.0, 1.5, 4.0, 40.0, 2000.0] {
                let matches = match_guided(first.points(), second.points(), &f, band_px, 0.8, &mut scratch);
                assert_eq!(matches, oracle(&first, &second, &f, band_px), "case {case}, band {band_px}");
                found += matches.len();
            }
        }
        assert!(found > 500, "only {found} matches: the cases say nothing");
    }

    /// The F of a sideways camera: the epipolar line of (x, y) is the row y.
    const SIDEWAYS: [f64; 9] = [0.0, 0.0, 0.0, 0.0, 0.0, -1.0, 0.0, 1.0, 0.0];

    fn match_one(second: &[[f64; 2]], values: &[u8], f: &[f64; 9]) -> Vec<u32> {
        let descriptors: Vec<Descriptor> = values.iter().map(|&v| [v; 128]).collect();
        let first = GuidedPoints { positions: &[[5.0, 10.0]], descriptors: &[[0; 128]] };
        let second = GuidedPoints { positions: second, descriptors: &descriptors };
        let matches = match_guided(first, second, f, 2.0, 0.8, &mut GuidedScratch::default());
        matches.iter().map(|m| m.second).collect()
    }

    #[test]
    fn the_band_includes_its_edges() {
        assert_eq!(match_one(&[[3.0, 12.0]], &[1], &SIDEWAYS), [0]);
        assert_eq!(match_one(&[[3.0, 8.0]], &[1], &SIDEWAYS), [0]);
        assert!(match_one(&[[3.0, 12.000001]], &[1], &SIDEWAYS).is_empty());
        assert!(match_one(&[[3.0, 7.999999]], &[1], &SIDEWAYS).is_empty());
        // A rival outside the band does not count.
        assert_eq!(match_one(&[[3.0, 10.0], [3.0, 13.0]], &[1, 1], &SIDEWAYS), [0]);
    }

    #[test]
    fn keypoints_of_one_position_are_no_rivals() {
        let (here, there) = ([3.0, 10.0], [300.0, 10.0]);
        assert_eq!(match_one(&[here, here], &[4, 4], &SIDEWAYS), [0]);
        assert!(match_one(&[here, there], &[4, 4], &SIDEWAYS).is_empty());
        assert_eq!(match_one(&[here, there, here], &[5, 6, 4], &SIDEWAYS), [2]);
        assert!(match_one(&[here, there, here], &[5, 5, 4], &SIDEWAYS).is_empty());
    }

    #[test]
    fn no_line_and_no_position_give_no_match() {
        assert!(match_one(&[[3.0, 10.0]], &[1], &[0.0; 9]).is_empty());
        assert!(match_one(&[[3.0, 10.0]], &[1], &[f64::NAN; 9]).is_empty());
        assert!(match_one(&[[f64::NAN, 10.0], [f64::INFINITY, 10.0]], &[1, 1], &SIDEWAYS).is_empty());
    }
}
