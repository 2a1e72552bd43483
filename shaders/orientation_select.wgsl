// Which orientations stay when points have more than a limit, and where they go.
//
// `ranks` holds the points in the order they are to be kept. Those stay whose orientations, with all of the points before,
// are within the limit. What stays lies in the order of points, a point's orientations as they come.
// One workgroup: all points.
// Same as the twin: integers, and angles that are copied.

struct Params {
    n_points: u32,
    limit: u32,
}

struct OrientedPoint {
    point: u32,
    angle: f32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage> ranks: array<u32>;
@group(0) @binding(2) var<storage> angles: array<f32>;
@group(0) @binding(3) var<storage> counts: array<u32>;
@group(0) @binding(4) var<storage, read_write> kept: array<u32>;
@group(0) @binding(5) var<storage, read_write> oriented: array<OrientedPoint>;
@group(0) @binding(6) var<storage, read_write> n_oriented: array<u32>;

const LANES = 256u;
const MAX_ORIENTATIONS = 4u;

var<workgroup> sums: array<u32, LANES>;

// The sum of all lanes before, and at the last lane of all.
fn sum_before(lane: u32, own: u32) -> u32 {
    var sum = own;
    sums[lane] = sum;
    workgroupBarrier();
    for (var reach = 1u; reach < LANES; reach *= 2u) {
        if lane >= reach {
            sum += sums[lane - reach];
        }
        workgroupBarrier();
        sums[lane] = sum;
        workgroupBarrier();
    }
    return sum - own;
}

// Four values from place `first` on, or what is last: asked for together, they come in the time of one.
fn four_places(first: u32) -> vec4u {
    return min(first + vec4u(0u, 1u, 2u, 3u), vec4u(params.n_points - 1u));
}

fn four_ranks(first: u32) -> vec4u {
    let at = four_places(first);
    return vec4u(ranks[at.x], ranks[at.y], ranks[at.z], ranks[at.w]);
}

fn four_counts(at: vec4u, are_counted: vec4<bool>) -> vec4u {
    return select(vec4u(0u), vec4u(counts[at.x], counts[at.y], counts[at.z], counts[at.w]), are_counted);
}

fn four_kept(at: vec4u, are_counted: vec4<bool>) -> vec4u {
    return select(vec4u(0u), vec4u(kept[at.x], kept[at.y], kept[at.z], kept[at.w]), are_counted);
}

// Whether places from `first` on are before `end`.
fn are_before(first: u32, end: u32) -> vec4<bool> {
    return first + vec4u(0u, 1u, 2u, 3u) < vec4u(end);
}

// The sums of the first, the first two, three and all.
fn running_sums(values: vec4u) -> vec4u {
    let pairs = values + vec4u(0u, values.xyz);
    return pairs + vec4u(0u, 0u, pairs.xy);
}

@compute @workgroup_size(256)
fn main(@builtin(local_invocation_index) lane: u32) {
    let run = (params.n_points + LANES - 1u) / LANES;
    let first = min(lane * run, params.n_points);
    let end = min(first + run, params.n_points);
    var own = 0u;
    for (var i = first; i < end; i += 4u) {
        own += running_sums(four_counts(four_ranks(i), are_before(i, end))).w;
    }
    var sum = sum_before(lane, own);
    for (var i = first; i < end; i += 4u) {
        let points = four_ranks(i);
        let are = are_before(i, end);
        let n = four_counts(points, are);
        let sums = sum + running_sums(n);
        let stay = select(vec4u(0u), n, sums <= vec4u(params.limit));
        for (var k = 0u; k < 4u; k++) {
            if are[k] {
                kept[points[k]] = stay[k];
            }
        }
        sum = sums.w;
    }
    storageBarrier();
    workgroupBarrier();
    own = 0u;
    for (var point = first; point < end; point += 4u) {
        own += running_sums(four_kept(four_places(point), are_before(point, end))).w;
    }
    var place = sum_before(lane, own);
    for (var point = first; point < end; point++) {
        let n = kept[point];
        for (var k = 0u; k < n; k++) {
            oriented[place + k] = OrientedPoint(point, angles[MAX_ORIENTATIONS * point + k]);
        }
        place += n;
    }
    if lane == LANES - 1u {
        n_oriented[0] = place;
    }
}
