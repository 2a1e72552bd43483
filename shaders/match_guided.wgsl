// The nearest descriptors among the keypoints that a fundamental matrix allows.
//
// A pair is a candidate when the second keypoint lies within the band about the first one's epipolar line; both ways ask
// the same. Keypoints of one point are no rivals: the rival of the nearest stands elsewhere. Distances are exact integers,
// ties go to the lower index.
// One workgroup: one query. All positions are asked, 2048 at a time, then descriptors of those in the band are compared.
// Same bits as the twin but where a keypoint lies at the edge of a band within the rounding of f32.

struct Params {
    n_searches: u32,
}

// Where a keypoint lies, about the middle of its keyframe; the first keypoint there, none where it lies nowhere.
struct Spot {
    x: f32,
    y: f32,
    point: u32,
}

// F row by row; behind the first row the square of half the width in pixels.
struct Band {
    rows: array<vec4f, 3>,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage> searches: array<Search>;
@group(0) @binding(2) var<storage> bands: array<Band>;
@group(0) @binding(3) var<storage> descriptors: array<vec4u>;
@group(0) @binding(4) var<storage> spots: array<Spot>;
@group(0) @binding(5) var<storage, read_write> nearest: array<Nearest>;

const LANES = 64u;
const BLOCK = 2048u;

var<workgroup> hits: array<u32, BLOCK>;
var<workgroup> n_hits: atomic<u32>;
var<workgroup> found: array<Found, LANES>;

struct Found {
    distance2: u32,
    index: u32,
    rival2: u32,
    point: u32,
}

fn is_near(band: Band, first: Spot, second: Spot) -> bool {
    let a = band.rows[0].x * first.x + band.rows[0].y * first.y + band.rows[0].z;
    let b = band.rows[1].x * first.x + band.rows[1].y * first.y + band.rows[1].z;
    let c = band.rows[2].x * first.x + band.rows[2].y * first.y + band.rows[2].z;
    let residual = a * second.x + b * second.y + c;
    let norm2 = a * a + b * b;
    let is_somewhere = first.point != NONE && second.point != NONE && norm2 > 0.0;
    return is_somewhere && residual * residual <= band.rows[0].w * norm2;
}

// The nearer of two, and what is left of rivals.
fn nearer(a: Found, b: Found) -> Found {
    let is_first = a.distance2 < b.distance2 || (a.distance2 == b.distance2 && a.index < b.index);
    var near = b;
    var far = a;
    if is_first {
        near = a;
        far = b;
    }
    near.rival2 = min(near.rival2, select(far.distance2, far.rival2, far.point == near.point));
    return near;
}

@compute @workgroup_size(64)
fn main(
    @builtin(workgroup_id) group_id: vec3u,
    @builtin(num_workgroups) groups: vec3u,
    @builtin(local_invocation_index) lane: u32,
) {
    let group = flat_index(group_id, groups, 0u, 1u);
    let which = search_of(group);
    let search = searches[which];
    let band = bands[which / 2u];
    let is_back = which % 2u == 1u;
    let query = min(group - search.first_group, search.n_queries - 1u);
    let spot = spots[search.queries + query];
    let words = 8u * (search.queries + query);
    let word = array(
        descriptors[words],
        descriptors[words + 1u],
        descriptors[words + 2u],
        descriptors[words + 3u],
        descriptors[words + 4u],
        descriptors[words + 5u],
        descriptors[words + 6u],
        descriptors[words + 7u],
    );

    var best = Found(NONE, NONE, NONE, NONE);
    for (var begin = 0u; begin < search.n_others; begin += BLOCK) {
        if lane == 0u {
            atomicStore(&n_hits, 0u);
        }
        workgroupBarrier();
        let end = min(begin + BLOCK, search.n_others);
        for (var at = begin + lane; at < end; at += LANES) {
            let other = spots[search.others + at];
            var first = spot;
            var second = other;
            if is_back {
                first = other;
                second = spot;
            }
            if is_near(band, first, second) {
                hits[atomicAdd(&n_hits, 1u)] = at;
            }
        }
        workgroupBarrier();
        // The order of hits is not the same at every run, but what comes of them is.
        let n = atomicLoad(&n_hits);
        for (var hit = lane; hit < n; hit += LANES) {
            let at = hits[hit];
            let others = 8u * (search.others + at);
            let distance2 = squared_distance(word[0], descriptors[others])
                + squared_distance(word[1], descriptors[others + 1u])
                + squared_distance(word[2], descriptors[others + 2u])
                + squared_distance(word[3], descriptors[others + 3u])
                + squared_distance(word[4], descriptors[others + 4u])
                + squared_distance(word[5], descriptors[others + 5u])
                + squared_distance(word[6], descriptors[others + 6u])
                + squared_distance(word[7], descriptors[others + 7u]);
            best = nearer(best, Found(distance2, at, NONE, spots[search.others + at].point));
        }
        workgroupBarrier();
    }

    found[lane] = best;
    workgroupBarrier();
    for (var half = LANES / 2u; half > 0u; half /= 2u) {
        if lane < half {
            found[lane] = nearer(found[lane], found[lane + half]);
        }
        workgroupBarrier();
    }
    if lane == 0u && group - search.first_group < search.n_queries {
        nearest[search.nearest + query] = Nearest(found[0].distance2, found[0].index, found[0].rival2);
    }
}

// Of 16 bytes each.
fn squared_distance(a: vec4u, b: vec4u) -> u32 {
    return dots(a, a) + dots(b, b) - 2u * dots(a, b);
}

fn dots(a: vec4u, b: vec4u) -> u32 {
    return dot4U8Packed(a.x, b.x) + dot4U8Packed(a.y, b.y) + dot4U8Packed(a.z, b.z) + dot4U8Packed(a.w, b.w);
}
