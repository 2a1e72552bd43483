//! The shader: merges what workgroups found of the nearest, and tests.

use super::RatioTest;
use crate::device::{Binding, KernelSource, params_layout};
use crate::message::DescriptorMatch;

/// The shader, for the searches of pairs: one from the first keyframe of a pair, then one from its second.
pub const SHADER: KernelSource = KernelSource {
    name: "match_mutual",
    wgsl: concat!(
        include_str!("../../../shaders/shared/flat_index.wgsl"),
        include_str!("../../../shaders/shared/search.wgsl"),
        include_str!("../../../shaders/match_mutual.wgsl")
    ),
    workgroup: [64, 1, 1],
    params: params_layout!(MatchMutualParams: n_pairs, n_matches, unit2, ratio2),
    bindings: &[Binding::read("searches"), Binding::read("nearest"), Binding::read_write("matches")],
};

/// Parameters of the shader.
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct MatchMutualParams {
    /// Pairs of keyframes: half as many as searches.
    pub n_pairs: u32,
    /// Keypoints of the first keyframes of all pairs.
    pub n_matches: u32,
    /// Square of what a ratio of 1 is.
    pub unit2: u32,
    /// Square of the ratio.
    pub ratio2: u32,
}

impl MatchMutualParams {
    /// For `n_pairs` with `n_matches` keypoints in their first keyframes.
    pub fn new(n_pairs: usize, n_matches: usize, RatioTest(ratio): RatioTest) -> MatchMutualParams {
        MatchMutualParams {
            n_pairs: n_pairs as u32,
            n_matches: n_matches as u32,
            unit2: RatioTest::UNIT * RatioTest::UNIT,
            ratio2: ratio * ratio,
        }
    }
}

/// What the shader finds of a keypoint of a first keyframe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct MutualMatch {
    /// Keypoint of the second keyframe; `u32::MAX`: it has no match.
    pub second: u32,
    /// Squared distance.
    pub distance2: u32,
}

impl MutualMatch {
    /// The matches of a pair, of what the shader gives of the keypoints of its first keyframe.
    pub fn found(of_first: &[MutualMatch]) -> impl Iterator<Item = DescriptorMatch> {
        let has_match = |(_, found): &(u32, &MutualMatch)| found.second != u32::MAX;
        let to_match =
            |(first, &MutualMatch { second, distance2 })| DescriptorMatch { first, second, distance2 };
        (0..).zip(of_first).filter(has_match).map(to_match)
    }
}
