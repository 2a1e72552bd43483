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

@compute @workgroup_size(256)
fn main(@builtin(local_invocation_index) lane: u32) {
    let run = (params.n_points + LANES - 1u) / LANES;
    let first = min(lane * run, params.n_points);
    let end = min(first + run, params.n_points);
    var own = 0u;
    for (var i = first; i < end; i++) {
        own += counts[ranks[i]];
    }
    var sum = sum_before(lane, own);
    for (var i = first; i < end; i++) {
        let point = ranks[i];
        sum += counts[point];
        kept[point] = select(0u, counts[point], sum <= params.limit);
    }
    storageBarrier();
    workgroupBarrier();
    own = 0u;
    for (var point = first; point < end; point++) {
        own += kept[point];
    }
    var place = sum_before(lane, own);
    for (var point = first; point < end; point++) {
        for (var k = 0u; k < kept[point]; k++) {
            oriented[place] = OrientedPoint(point, angles[MAX_ORIENTATIONS * point + k]);
            place++;
        }
    }
    if lane == LANES - 1u {
        n_oriented[0] = place;
    }
}
