//! Kernel `match_mutual`: of the nearest neighbours both ways, those that are each other's and stand out.
//!
//! In: the nearest of each keypoint of either keyframe with the distance of its rival, exact integers. Out: a match where
//! two keypoints are each other's nearest and both pass the ratio test.
//! One invocation: one keypoint of the first keyframe.

pub use self::shader::{MatchMutualParams, MutualMatch, SHADER};

use crate::message::DescriptorMatch;

mod shader;

/// The ratio test d1 < ratio * d2 on exact integers: the ratio is taken to a ten-thousandth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RatioTest(u32);

impl RatioTest {
    const UNIT: u32 = 10_000;

    /// The test of a ratio in [0, 1]; 1 asks only that the second is farther.
    pub fn new(ratio: f32) -> Self {
        RatioTest((ratio as f64 * Self::UNIT as f64).round() as u32)
    }

    /// Whether the nearest at squared distance `nearest2` stands out from its rival at `rival2`. No rival
    /// (`u32::MAX`) passes.
    #[inline(always)]
    pub fn passes(self, nearest2: u32, rival2: u32) -> bool {
        let squared = |v: u32| v as u64 * v as u64;
        rival2 == u32::MAX || nearest2 as u64 * squared(Self::UNIT) < rival2 as u64 * squared(self.0)
    }
}

/// The nearest neighbour of a keypoint and the squared distance of what else is nearest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct Nearest {
    /// Squared distance of the nearest; `u32::MAX`: there is none.
    pub distance2: u32,
    /// The nearest, the lowest of equally near ones; `u32::MAX`: there is none.
    pub index: u32,
    /// Squared distance of the rival; `u32::MAX`: there is none.
    pub rival2: u32,
}

impl Nearest {
    /// No neighbour.
    pub const NONE: Nearest = Nearest { distance2: u32::MAX, index: u32::MAX, rival2: u32::MAX };
}

/// The matches of two keyframes, ascending by (first, second).
pub fn match_mutual(first: &[Nearest], second: &[Nearest], ratio: RatioTest) -> Vec<DescriptorMatch> {
    let mutual = |(i, near): (usize, &Nearest)| {
        let back = second.get(near.index as usize)?;
        let passes = back.index as usize == i
            && ratio.passes(near.distance2, near.rival2)
            && ratio.passes(back.distance2, back.rival2);
        let (first, second, distance2) = (i as u32, near.index, near.distance2);
        passes.then_some(DescriptorMatch { first, second, distance2 })
    };
    first.iter().enumerate().filter_map(mutual).collect()
}
