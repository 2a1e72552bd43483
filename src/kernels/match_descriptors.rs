//! Kernel `match_descriptors`: mutual nearest descriptors of two keyframes, by brute force.
//!
//! Squared Euclidean distances of u8 descriptors as exact integers, the nearest and the second nearest both ways in
//! one pass; ties go to the lower index. One invocation handles a block of rows against all columns; the N x M
//! distances are never held.

use crate::message::{Descriptor, DescriptorMatch};

/// The ratio test d1 < ratio * d2 on exact integers: the ratio is taken to a ten-thousandth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RatioTest(u64);

impl RatioTest {
    const UNIT: u64 = 10_000;

    /// The test of a ratio in [0, 1]; 1 asks only that the second is farther.
    pub fn new(ratio: f32) -> Self {
        RatioTest((ratio as f64 * Self::UNIT as f64).round() as u64)
    }

    /// Whether the nearest at squared distance `nearest2` stands out from its rival at `rival2`. No rival
    /// (`u32::MAX`) passes.
    #[inline(always)]
    pub fn passes(self, nearest2: u32, rival2: u32) -> bool {
        let squared = |v: u64| v * v;
        rival2 == u32::MAX || nearest2 as u64 * squared(Self::UNIT) < rival2 as u64 * squared(self.0)
    }
}

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
    nearest: [Vec<Nearest>; 2],
}

/// Matches `first` to `second`: a match is the nearest neighbour of both its keypoints and passes the ratio test in
/// both directions (see [`RatioTest`]). Ascending by (first, second).
pub fn match_descriptors(
    first: &[Descriptor],
    second: &[Descriptor],
    ratio: f32,
    scratch: &mut MatchScratch,
) -> Vec<DescriptorMatch> {
    let [of_first, of_second] = &mut scratch.nearest;
    of_first.clear();
    of_first.resize(first.len(), Nearest::NONE);
    of_second.clear();
    of_second.resize(second.len(), Nearest::NONE);
    for (i, a) in first.iter().enumerate() {
        for (j, b) in second.iter().enumerate() {
            let distance2 = squared_distance(a, b);
            of_first[i].update(distance2, j as u32);
            of_second[j].update(distance2, i as u32);
        }
    }
    let ratio = RatioTest::new(ratio);
    let mutual = |(i, near): (usize, &Nearest)| {
        let back = of_second.get(near.index as usize)?;
        let passes = back.index as usize == i
            && ratio.passes(near.distance2, near.rival2)
            && ratio.passes(back.distance2, back.rival2);
        passes.then_some(DescriptorMatch { first: i as u32, second: near.index, distance2: near.distance2 })
    };
    of_first.iter().enumerate().filter_map(mutual).collect()
}

/// The nearest neighbour and the squared distance of the second nearest (`u32::MAX`: none).
#[derive(Clone, Copy, Debug)]
struct Nearest {
    distance2: u32,
    index: u32,
    rival2: u32,
}

impl Nearest {
    const NONE: Nearest = Nearest { distance2: u32::MAX, index: u32::MAX, rival2: u32::MAX };

    /// Takes one more candidate in; candidates come by ascending index.
    #[inline(always)]
    fn update(&mut self, distance2: u32, index: u32) {
        if distance2 < self.distance2 {
            *self = Nearest { distance2, index, rival2: self.distance2 };
        } else {
            self.rival2 = self.rival2.min(distance2);
        }
    }
}
