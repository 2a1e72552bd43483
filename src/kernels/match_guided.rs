//! Kernel `match_guided`: mutual nearest descriptors among the keypoints that a fundamental matrix allows.
//!
//! Positions are pixels of the picture that F speaks of; a pair is a candidate when the second keypoint lies within
//! the band about the first one's epipolar line. Keypoints of one position are one point: the rival of the nearest
//! stands elsewhere. Distances are exact integers, ties go to the lower index. One invocation handles one keypoint of
//! the first picture; those of the second lie in tiles of neighbours, and only tiles that the band reaches are looked at.

pub use self::shader::{Band, MatchGuidedParams, SHADER, Spot, SpotBounds, Spots};
pub use self::tiles::TILE;

use self::tiles::{Bounds, Tile, Tiles};
use super::match_descriptors::squared_distance;
use super::match_mutual::{Nearest, RatioTest, match_mutual};
use crate::message::{Descriptor, DescriptorMatch};

mod shader;
mod tiles;

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
    tiles: Tiles,
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
    let GuidedScratch { tiles, first: nearest_of_first, second: nearest_of_second } = scratch;
    tiles.fill(second.positions);
    for (nearest, points) in [(&mut *nearest_of_first, first), (&mut *nearest_of_second, second)] {
        nearest.clear();
        nearest.resize(points.positions.len().min(points.descriptors.len()), Nearest::NONE);
    }
    crate::numerics::vectorized(
        #[inline(always)]
        || {
            for (i, nearest) in nearest_of_first.iter_mut().enumerate() {
                let line = EpipolarLine::new(f, first.positions[i], band_px);
                tiles.visit(
                    &line,
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

    /// Whether a keypoint within `bounds` may be near. The margin only covers rounding.
    #[inline(always)]
    fn may_reach(&self, Bounds { middle: [x, y], half: [half_x, half_y] }: &Bounds) -> bool {
        let [a, b] = self.normal;
        let margin = 1e-9 * (x.abs() + y.abs() + half_x + half_y + self.c.abs());
        let reach = a.abs() * half_x + b.abs() * half_y + self.band_px + margin;
        (a * x + b * y + self.c).abs() <= reach
    }

    /// A bit for each keypoint of a tile that is near.
    #[inline(always)]
    fn near(&self, tile: &Tile) -> u32 {
        let mut near = 0;
        for k in 0..TILE {
            let distance = (self.normal[0] * tile.x[k] + self.normal[1] * tile.y[k] + self.c).abs();
            near |= u32::from(distance <= self.band_px) << k;
        }
        near
    }
}

impl Tiles {
    /// Calls `op` with every keypoint in the band of `line`, once each.
    #[inline(always)]
    fn visit(&self, line: &EpipolarLine, mut op: impl FnMut(usize)) {
        for (tile, bounds) in self.tiles.iter().zip(&self.bounds) {
            if !line.may_reach(bounds) {
                continue;
            }
            let mut near = line.near(tile);
            while near != 0 {
                op(tile.index[near.trailing_zeros() as usize] as usize);
                near &= near - 1;
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

    /// [t]x: the F of a camera that moves towards the point `t` of the picture, at infinity where the last is 0.
    fn towards([x, y, z]: [f64; 3]) -> [f64; 9] {
        [0.0, -z, y, z, 0.0, -x, -y, x, 0.0]
    }

    #[test]
    fn equals_the_oracle_wherever_the_epipole_is() {
        let mut rng = SplitMix64::new(8, 3);
        let mut scratch = GuidedScratch::default();
        let inside = [[320.0, 200.0, 1.0], [12.5, 380.0, 1.0]];
        let at_the_border = [[0.0, 133.0, 1.0], [640.0, 400.0, 1.0], [333.0, 0.0, 1.0]];
        let at_infinity = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [1.0, 0.3, 0.0], [-0.7, 1.0, 0.0]];
        for [n, m] in [[9, 2], [40, 800], [800, 40], [300, 400]] {
            let (first, second) = (Side::random(&mut rng, n), Side::random(&mut rng, m));
            let mut found = 0;
            for epipole in inside.into_iter().chain(at_the_border).chain(at_infinity) {
                let f = towards(epipole);
                for band_px in [1.0, 3.5, 12.0, 50.0] {
                    let matches =
                        match_guided(first.points(), second.points(), &f, band_px, 0.8, &mut scratch);
                    assert_eq!(
                        matches,
                        oracle(&first, &second, &f, band_px),
                        "{n} x {m}, {epipole:?}, band {band_px}"
                    );
                    found += matches.len();
                }
            }
            assert!(found > n.min(m), "{n} x {m}: only {found} matches");
        }
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
