//! Kernel `match_descriptors`: mutual nearest descriptors of two keyframes, by brute force.
//!
//! Squared Euclidean distances of u8 descriptors as exact integers, the nearest and the second nearest both ways in
//! one pass; ties go to the lower index. One invocation handles 4 descriptors of the first against 16 of the second;
//! the N x M distances are never held.

pub use self::shader::{MatchDescriptorsParams, SHADER, Search, Searches, WORKGROUP_BYTES};

use super::match_mutual::{Nearest, RatioTest, match_mutual};
use crate::message::{Descriptor, DescriptorMatch};
use crate::numerics::vectorized;

mod shader;

/// Columns of a panel.
const LANES: usize = 16;
/// Rows that meet a panel at once.
const ROWS: usize = 4;
/// Groups of rows that meet a panel before the next panel is read.
const GROUPS: usize = 8;
/// Pairs of elements of a descriptor.
const PAIRS: usize = 64;
/// Squared norm of the rows and columns that fill up the last group and panel: farther than any descriptor.
const FAR: i32 = 1 << 28;

/// 16 descriptors of the second keyframe, pair of elements by pair of elements.
type Panel = [[[i16; 2]; LANES]; PAIRS];
/// 4 descriptors of the first keyframe, pair by pair; two elements in an i32, the even one low.
type RowGroup = [[i32; ROWS]; PAIRS];

/// Squared Euclidean distance.
#[inline(always)]
pub fn squared_distance(a: &Descriptor, b: &Descriptor) -> u32 {
    let mut sum = 0;
    for (&a, &b) in a.iter().zip(b) {
        let difference = a as i16 - b as i16;
        sum += difference as i32 * difference as i32;
    }
    sum as u32
}

/// Buffers that `match_descriptors` reuses from call to call.
#[derive(Debug, Default)]
pub struct MatchScratch {
    panels: Vec<Panel>,
    norms: Vec<[i32; LANES]>,
    /// For each panel, what is nearest to its columns among the rows so far.
    of_panels: Vec<LaneNearest>,
    of_rows: Vec<Nearest>,
    of_columns: Vec<Nearest>,
}

/// Matches `first` to `second`: a match is the nearest neighbour of both its keypoints and passes the ratio test in
/// both directions (see [`RatioTest`]). Ascending by (first, second).
pub fn match_descriptors(
    first: &[Descriptor],
    second: &[Descriptor],
    ratio: f32,
    scratch: &mut MatchScratch,
) -> Vec<DescriptorMatch> {
    #[cfg(target_arch = "x86_64")]
    if let Some(v3) = pulp::x86::V3::try_new() {
        v3.vectorize(
            #[inline(always)]
            || scratch.search(first, second, |rows, panel| dots_v3(v3, rows, panel)),
        );
        return scratch.mutual(ratio);
    }
    vectorized(
        #[inline(always)]
        || scratch.search(first, second, dots),
    );
    scratch.mutual(ratio)
}

impl MatchScratch {
    /// What was nearest to each descriptor of the first keyframe and of the second at the last call.
    pub fn nearest(&self) -> [&[Nearest]; 2] {
        [&self.of_rows, &self.of_columns]
    }

    /// Finds the nearest both ways. `dots` gives the dot products of 4 rows with the columns of a panel.
    #[inline(always)]
    fn search(
        &mut self,
        first: &[Descriptor],
        second: &[Descriptor],
        dots: impl Fn(&RowGroup, &Panel) -> [[i32; LANES]; ROWS],
    ) {
        self.fill_panels(second);
        self.of_rows.clear();
        for (block_idx, block) in first.chunks(GROUPS * ROWS).enumerate() {
            let begin = block_idx * GROUPS * ROWS;
            let mut groups = [[[0; ROWS]; PAIRS]; GROUPS];
            let mut norms = [[FAR; ROWS]; GROUPS];
            for (r, descriptor) in block.iter().enumerate() {
                for (pair, values) in groups[r / ROWS].iter_mut().zip(descriptor.as_chunks::<2>().0) {
                    pair[r % ROWS] = values[0] as i32 | (values[1] as i32) << 16;
                }
                norms[r / ROWS][r % ROWS] = squared_norm(descriptor);
            }
            let mut of_rows = [[LaneNearest::NONE; ROWS]; GROUPS];
            let columns = self.panels.iter().zip(&self.norms).zip(&mut self.of_panels);
            for (panel_idx, ((panel, column_norms), of_panel)) in columns.enumerate() {
                for g in 0..block.len().div_ceil(ROWS) {
                    let products = dots(&groups[g], panel);
                    for (r, products) in products.iter().enumerate() {
                        let distances2 = squared_distances(norms[g][r], column_norms, products);
                        of_rows[g][r].update(&distances2, panel_idx as i32);
                        of_panel.update(&distances2, (begin + g * ROWS + r) as i32);
                    }
                }
            }
            self.of_rows.extend(of_rows.as_flattened()[..block.len()].iter().map(LaneNearest::fold_panels));
        }
        self.of_columns.clear();
        let of_column = |j: usize| self.of_panels[j / LANES].lane(j % LANES);
        self.of_columns.extend((0..second.len()).map(of_column));
    }

    fn fill_panels(&mut self, second: &[Descriptor]) {
        let n_panels = second.len().div_ceil(LANES);
        self.panels.clear();
        self.panels.resize(n_panels, [[[0; 2]; LANES]; PAIRS]);
        self.norms.clear();
        self.of_panels.clear();
        self.of_panels.resize(n_panels, LaneNearest::NONE);
        for (columns, panel) in second.chunks(LANES).zip(&mut self.panels) {
            let mut norms = [FAR; LANES];
            for (lane, descriptor) in columns.iter().enumerate() {
                norms[lane] = squared_norm(descriptor);
                for (pair, values) in panel.iter_mut().zip(descriptor.as_chunks::<2>().0) {
                    pair[lane] = values.map(i16::from);
                }
            }
            self.norms.push(norms);
        }
    }

    fn mutual(&self, ratio: f32) -> Vec<DescriptorMatch> {
        match_mutual(&self.of_rows, &self.of_columns, RatioTest::new(ratio))
    }
}

/// Lane by lane: the smallest squared distance so far, what gave it, the second smallest.
#[derive(Clone, Copy, Debug)]
struct LaneNearest {
    distance2: [i32; LANES],
    index: [i32; LANES],
    rival2: [i32; LANES],
}

impl LaneNearest {
    const NONE: LaneNearest =
        LaneNearest { distance2: [i32::MAX; LANES], index: [-1; LANES], rival2: [i32::MAX; LANES] };

    /// Takes one candidate a lane in; candidates come by ascending index.
    #[inline(always)]
    fn update(&mut self, distances2: &[i32; LANES], index: i32) {
        for lane in 0..LANES {
            let (new, old) = (distances2[lane], self.distance2[lane]);
            self.rival2[lane] = self.rival2[lane].min(new.max(old));
            self.index[lane] = if new < old { index } else { self.index[lane] };
            self.distance2[lane] = new.min(old);
        }
    }

    fn lane(&self, lane: usize) -> Nearest {
        let real = |distance2: i32| if distance2 < FAR { distance2 as u32 } else { u32::MAX };
        Nearest {
            distance2: real(self.distance2[lane]),
            index: self.index[lane] as u32,
            rival2: real(self.rival2[lane]),
        }
    }

    /// The nearest over all lanes, where the index of a lane counts panels.
    fn fold_panels(&self) -> Nearest {
        let mut best = Nearest::NONE;
        for lane in 0..LANES {
            let mut one = self.lane(lane);
            if one.distance2 == u32::MAX {
                continue;
            }
            one.index = one.index * LANES as u32 + lane as u32;
            if (one.distance2, one.index) < (best.distance2, best.index) {
                std::mem::swap(&mut one, &mut best);
            }
            best.rival2 = best.rival2.min(one.distance2).min(one.rival2);
        }
        best
    }
}

/// |a - b|^2 = |a|^2 + |b|^2 - 2 a b, lane by lane.
#[inline(always)]
fn squared_distances(row_norm: i32, column_norms: &[i32; LANES], products: &[i32; LANES]) -> [i32; LANES] {
    let mut distances2 = [0; LANES];
    for lane in 0..LANES {
        distances2[lane] = row_norm + column_norms[lane] - 2 * products[lane];
    }
    distances2
}

fn squared_norm(descriptor: &Descriptor) -> i32 {
    descriptor.iter().map(|&v| v as i32 * v as i32).sum()
}

/// Dot products of 4 rows with the 16 columns of a panel.
#[inline(always)]
fn dots(rows: &RowGroup, panel: &Panel) -> [[i32; LANES]; ROWS] {
    let mut sums = [[0; LANES]; ROWS];
    for (columns, rows) in panel.iter().zip(rows) {
        for r in 0..ROWS {
            let (even, odd) = (rows[r] & 0xFFFF, rows[r] >> 16);
            for lane in 0..LANES {
                sums[r][lane] += even * columns[lane][0] as i32 + odd * columns[lane][1] as i32;
            }
        }
    }
    sums
}

/// `dots` with the instruction that multiplies 16 pairs and adds neighbours, which LLVM does not find by itself.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn dots_v3(v3: pulp::x86::V3, rows: &RowGroup, panel: &Panel) -> [[i32; LANES]; ROWS] {
    let mut sums = [[v3.splat_i32x8(0); 2]; ROWS];
    for (columns, rows) in panel.iter().zip(rows) {
        let columns: [pulp::i16x16; 2] = bytemuck::cast(*columns);
        for r in 0..ROWS {
            let row: pulp::i16x16 = bytemuck::cast(v3.splat_i32x8(rows[r]));
            for half in 0..2 {
                let products = v3.multiply_wrapping_add_adjacent_i16x16(row, columns[half]);
                sums[r][half] = v3.wrapping_add_i32x8(sums[r][half], products);
            }
        }
    }
    bytemuck::cast(sums)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numerics::SplitMix64;

    /// Descriptors with elements in multiples of 255 / `steps`: few steps make many ties and duplicates.
    fn random(rng: &mut SplitMix64, n: usize, steps: u32, n_changing: usize) -> Vec<Descriptor> {
        let mut make = || {
            let mut descriptor = [17; 128];
            for v in &mut descriptor[128 - n_changing..] {
                *v = (rng.below(steps + 1) * 255 / steps) as u8;
            }
            descriptor
        };
        (0..n).map(|_| make()).collect()
    }

    /// Nearest, and distance of the second nearest, by sorting all of them.
    fn two_nearest(one: &Descriptor, others: &[Descriptor]) -> Option<(i64, usize, Option<i64>)> {
        let distance2 =
            |b: &Descriptor| one.iter().zip(b).map(|(&a, &b)| (a as i64 - b as i64).pow(2)).sum::<i64>();
        let mut sorted: Vec<(i64, usize)> = others.iter().map(distance2).zip(0..).collect();
        sorted.sort_unstable();
        sorted.first().map(|&(d, j)| (d, j, sorted.get(1).map(|s| s.0)))
    }

    fn oracle(first: &[Descriptor], second: &[Descriptor], ratio_percent: i64) -> Vec<DescriptorMatch> {
        let stands_out = |(d, _, rival): (i64, usize, Option<i64>)| {
            rival.is_none_or(|r| d * 10_000 < r * ratio_percent * ratio_percent)
        };
        let mut matches = Vec::new();
        for (i, a) in first.iter().enumerate() {
            let Some(near) = two_nearest(a, second) else { continue };
            let back = two_nearest(&second[near.1], first).unwrap();
            if back.1 == i && stands_out(near) && stands_out(back) {
                matches.push(DescriptorMatch {
                    first: i as u32,
                    second: near.1 as u32,
                    distance2: near.0 as u32,
                });
            }
        }
        matches
    }

    fn portable(first: &[Descriptor], second: &[Descriptor], ratio: f32) -> Vec<DescriptorMatch> {
        let mut scratch = MatchScratch::default();
        scratch.search(first, second, dots);
        scratch.mutual(ratio)
    }

    #[test]
    fn equals_the_oracle_whatever_the_sizes_and_ties() {
        let mut rng = SplitMix64::new(3, 6);
        let mut scratch = MatchScratch::default();
        let mut found = 0;
        for n in [0, 1, 2, 3, 4, 5, 31, 32, 33, 70] {
            for m in [0, 1, 2, 15, 16, 17, 33, 50] {
                for (steps, n_changing) in [(255, 128), (1, 5), (1, 128), (2, 3), (3, 1)] {
                    let first = random(&mut rng, n, steps, n_changing);
                    let mut second = random(&mut rng, m, steps, n_changing);
                    for (a, b) in first.iter().rev().zip(second.iter_mut().step_by(3)) {
                        *b = *a;
                        b[7] ^= 4;
                    }
                    for (ratio, percent) in [(0.8, 80), (1.0, 100)] {
                        let expected = oracle(&first, &second, percent);
                        let case = format!("{n} x {m}, {steps} steps in {n_changing}, ratio {ratio}");
                        assert_eq!(
                            match_descriptors(&first, &second, ratio, &mut scratch),
                            expected,
                            "{case}"
                        );
                        assert_eq!(portable(&first, &second, ratio), expected, "portable, {case}");
                        found += expected.len();
                    }
                }
            }
        }
        assert!(found > 1000, "only {found} matches: the cases say nothing");
    }

    #[test]
    fn extreme_descriptors_do_not_overflow() {
        let second = [[255; 128], [0; 128]];
        let matches = match_descriptors(&[[0; 128], [255; 128]], &second, 0.8, &mut MatchScratch::default());
        assert_eq!(
            matches.iter().map(|m| (m.first, m.second, m.distance2)).collect::<Vec<_>>(),
            [(0, 1, 0), (1, 0, 0)]
        );
        assert_eq!(squared_distance(&second[0], &second[1]), 128 * 255 * 255);
    }

    #[test]
    fn what_fills_up_a_panel_is_no_rival() {
        let mut scratch = MatchScratch::default();
        match_descriptors(&[[255; 128]; 40], &[[255; 128]; 40], 0.1, &mut scratch);
        let far = DescriptorMatch { first: 0, second: 0, distance2: 128 * 255 * 255 };
        assert_eq!(match_descriptors(&[[255; 128]], &[[0; 128]], 0.1, &mut scratch), [far]);
    }

    #[test]
    fn ties_go_to_the_lower_index() {
        let mut scratch = MatchScratch::default();
        let descriptors: Vec<Descriptor> = (0..100).map(|i| [i as u8 % 23; 128]).collect();
        match_descriptors(&descriptors, &descriptors, 1.0, &mut scratch);
        for i in 0..100 {
            let (row, column) = (scratch.of_rows[i], scratch.of_columns[i]);
            assert_eq!((row.index, row.distance2), (i as u32 % 23, 0));
            assert_eq!((column.index, column.distance2), (i as u32 % 23, 0));
        }
    }

    #[test]
    fn ratio_is_exact_at_the_boundary() {
        // Distances 4 and 5: 4 < 0.8 * 5 is false; 4 against sqrt(26): 16 < 0.64 * 26 = 16.64 is true.
        let ratio = RatioTest::new(0.8);
        assert!(!ratio.passes(16, 25));
        assert!(ratio.passes(16, 26));
        assert!(!ratio.passes(0, 0));
        assert!(ratio.passes(8_323_200, u32::MAX));
        let with = |v: u8, w: u8| {
            let mut descriptor = [0; 128];
            (descriptor[0], descriptor[1]) = (v, w);
            descriptor
        };
        let near = |rival| {
            let second = [rival, with(4, 0)];
            match_descriptors(&[with(0, 0)], &second, 0.8, &mut MatchScratch::default())
        };
        assert_eq!(near(with(5, 0)), []);
        assert_eq!(near(with(5, 1)), [DescriptorMatch { first: 0, second: 1, distance2: 16 }]);
    }

    #[test]
    fn swapping_the_keyframes_swaps_the_matches() {
        let mut rng = SplitMix64::new(1, 1);
        let (first, second) = (random(&mut rng, 90, 2, 20), random(&mut rng, 75, 2, 20));
        let mut there = match_descriptors(&first, &second, 0.9, &mut MatchScratch::default());
        let mut back = match_descriptors(&second, &first, 0.9, &mut MatchScratch::default());
        assert!(!there.is_empty());
        back.iter_mut().for_each(|m| std::mem::swap(&mut m.first, &mut m.second));
        there.sort_by_key(|m| (m.second, m.first));
        assert_eq!(there, back);
    }
}
