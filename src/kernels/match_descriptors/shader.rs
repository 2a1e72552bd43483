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
        include_str!("../../../shaders/shared/search_of.wgsl"),
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
    /// Workgroups.
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
        Searches::new(pairs, COLUMNS * (n_steps / ENOUGH_GROUPS).clamp(1, MOST_STEPS), ROWS)
    }

    /// The same for `match_guided`: a workgroup a query, which looks at all others.
    pub fn guided(pairs: &[[(usize, usize); 2]]) -> Searches {
        let longest = pairs.iter().flatten().map(|(_, n)| *n).max();
        Searches::new(pairs, longest.unwrap_or(0).max(1), 1)
    }

    fn new(pairs: &[[(usize, usize); 2]], slice: usize, rows: usize) -> Searches {
        let mut all = Searches::default();
        for &[first, second] in pairs {
            let n_matches = all.n_matches;
            for (queries, others) in [(first, second), (second, first)] {
                let [n_queries, n_slices] = [queries.1, others.1.div_ceil(slice)];
                all.searches.push(Search {
                    first_group: all.n_groups as u32,
                    queries: queries.0 as u32,
                    n_queries: n_queries as u32,
                    others: others.0 as u32,
                    n_others: others.1 as u32,
                    slice: slice as u32,
                    nearest: all.n_nearest as u32,
                    matches: n_matches as u32,
                });
                all.n_groups += n_queries.div_ceil(rows) * n_slices;
                all.n_nearest += n_queries * n_slices;
            }
            all.n_matches += first.1;
        }
        all
    }

    /// Workgroups to dispatch.
    pub fn groups(&self) -> [u32; 3] {
        SHADER.flat_groups(self.n_groups * SHADER.workgroup[0] as usize)
    }
}
