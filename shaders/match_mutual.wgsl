// Of the nearest neighbours both ways, those that are each other's and stand out.
//
// Slices are merged by (distance, index). The ratio test compares products of 64 bits.
// One invocation: one keypoint of the first keyframe of a pair.
// Same bits as the twin: integers.

struct Params {
    n_pairs: u32,
    n_matches: u32,
    unit2: u32,
    ratio2: u32,
}

struct MutualMatch {
    second: u32,
    distance2: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage> searches: array<Search>;
@group(0) @binding(2) var<storage> nearest: array<Nearest>;
@group(0) @binding(3) var<storage, read_write> matches: array<MutualMatch>;

fn merged(search: Search, query: u32) -> Nearest {
    var best = Nearest(NONE, NONE, NONE);
    let n_slices = (search.n_others + search.slice - 1u) / search.slice;
    for (var slice = 0u; slice < n_slices; slice++) {
        let found = nearest[search.nearest + slice * search.n_queries + query];
        best.rival2 = min(min(best.rival2, found.rival2), max(best.distance2, found.distance2));
        if found.distance2 < best.distance2 {
            best.distance2 = found.distance2;
            best.index = found.index;
        }
    }
    return best;
}

// The high and the low half of a product.
fn product(a: u32, b: u32) -> vec2u {
    let low = (a & 0xffffu) * (b & 0xffffu);
    let left = (a >> 16u) * (b & 0xffffu) + (low >> 16u);
    let right = (a & 0xffffu) * (b >> 16u) + (left & 0xffffu);
    let high = (a >> 16u) * (b >> 16u) + (left >> 16u) + (right >> 16u);
    return vec2u(high, (right << 16u) | (low & 0xffffu));
}

fn passes(near: Nearest) -> bool {
    let a = product(near.distance2, params.unit2);
    let b = product(near.rival2, params.ratio2);
    return near.rival2 == NONE || a.x < b.x || (a.x == b.x && a.y < b.y);
}

@compute @workgroup_size(64)
fn main(
    @builtin(workgroup_id) group: vec3u,
    @builtin(num_workgroups) groups: vec3u,
    @builtin(local_invocation_index) lane: u32,
) {
    let at = flat_index(group, groups, lane, 64u);
    if at >= params.n_matches {
        return;
    }
    var pair = 0u;
    for (var next = 1u; next < params.n_pairs; next++) {
        pair += select(0u, 1u, searches[2u * next].matches <= at);
    }
    let there = searches[2u * pair];
    let first = at - there.matches;
    let near = merged(there, first);
    var found = MutualMatch(NONE, NONE);
    if near.index < there.n_others {
        let back = merged(searches[2u * pair + 1u], near.index);
        if back.index == first && passes(near) && passes(back) {
            found = MutualMatch(near.index, near.distance2);
        }
    }
    matches[at] = found;
}
