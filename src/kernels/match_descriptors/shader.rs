//! The shader: the nearest descriptors one way, for many pairs of keyframes in one dispatch.

use crate::device::{Binding, KernelSource, params_layout};

/// Descriptors that a workgroup looks for.
const ROWS: usize = 128;
/// Descriptors that it looks at in a step.
const COLUMNS: usize = 64;
/// Most steps of a workgroup: a distance and a place among its columns fill an u32.
const MOST_STEPS: usize = 8;
/// Workgroups that fill a large GPU more than twice.
const ENOUGH_GROUPS: usize = 1024;

/// The shader. What a workgroup found is to be merged with what others found: see `match_mutual`.
pub const SHADER: KernelSource = KernelSource {
    name: "match_descriptors",
    wgsl: concat!(
        include_str!("../../../shaders/shared/flat_index.wgsl"),
        include_str!("../../../shaders/shared/search.wgsl"),
        include_str!("../../../shaders/match_descriptors.wgsl")
    ),
    workgroup: [256, 1, 1],
    params: params_layout!(MatchDescriptorsParams: n_searches),
    bindings: &[Binding::read("searches"), Binding::read("descriptors"), Binding::read_write("nearest")],
};

/// Bytes of a workgroup's memory.
pub const WORKGROUP_BYTES: usize = (ROWS + COLUMNS) * (128 + 4);

/// Parameters of the shader.
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct MatchDescriptorsParams {
    /// Number of searches.
    pub n_searches: u32,
}

/// What is nearest to the descriptors of one keyframe among those of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct Search {
    /// Workgroups before those of this search.
    pub first_group: u32,
    /// First of the descriptors that are looked for.
    pub queries: u32,
    /// Their number.
    pub n_queries: u32,
    /// First of those that are looked at.
    pub others: u32,
    /// Their number.
    pub n_others: u32,
    /// Others a workgroup looks at.
    pub slice: u32,
    /// Where the results begin: slice by slice, one a query.
    pub nearest: u32,
    /// Where the matches of the queries begin.
    pub matches: u32,
}

/// Searches of one dispatch, and how much they need.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Searches {
    /// Two a pair: from its first keyframe, from its second.
    pub searches: Vec<Search>,
    /// Workgroups of `match_descriptors`.
    pub n_groups: usize,
    /// Results of them.
    pub n_nearest: usize,
    /// Descriptors of the first keyframes.
    pub n_matches: usize,
}

impl Searches {
    /// Both ways between the descriptors of each pair, which are given as (first, number).
    pub fn both_ways(pairs: &[[(usize, usize); 2]]) -> Searches {
        let steps = |[(_, n), (_, m)]: &[(usize, usize); 2]| n.div_ceil(ROWS) * m.div_ceil(COLUMNS);
        let n_steps: usize = pairs.iter().map(|pair| 2 * steps(pair)).sum();
        let slice = COLUMNS * (n_steps / ENOUGH_GROUPS).clamp(1, MOST_STEPS);
        let mut all = Searches::default();
        for &[first, second] in pairs {
            let n_matches = all.n_matches;
            all.add(first, second, slice, n_matches);
            all.add(second, first, slice, n_matches);
            all.n_matches += first.1;
        }
        all
    }

    /// Workgroups to dispatch.
    pub fn groups(&self) -> [u32; 3] {
        SHADER.flat_groups(self.n_groups * SHADER.workgroup[0] as usize)
    }

    fn add(
        &mut self,
        (queries, n_queries): (usize, usize),
        (others, n_others): (usize, usize),
        slice: usize,
        matches: usize,
    ) {
        let n_slices = n_others.div_ceil(slice);
        let [first_group, queries, others, slice, nearest, matches] =
            [self.n_groups, queries, others, slice, self.n_nearest, matches].map(|n| n as u32);
        let [n_queries, n_others] = [n_queries, n_others].map(|n| n as u32);
        self.searches.push(Search {
            first_group,
            queries,
            n_queries,
            others,
            n_others,
            slice,
            nearest,
            matches,
        });
        self.n_groups += (n_queries as usize).div_ceil(ROWS) * n_slices;
        self.n_nearest += n_queries as usize * n_slices;
    }
}
