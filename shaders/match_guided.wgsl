// The nearest descriptors among the keypoints that a fundamental matrix allows.
//
// A pair is a candidate when the second keypoint lies within the band about the first one's epipolar line; both ways ask
// the same. Keypoints of one point are no rivals: the rival of the nearest stands elsewhere. Distances are exact integers,
// ties go to the lower index.
// One workgroup: one query. First tiles of neighbouring positions are asked, then the positions in those that the band
// reaches, then descriptors of those in the band are compared.
// Same bits as the twin but where a keypoint lies at the edge of a band within the rounding of f32.

struct Params {
    n_searches: u32,
}

// Where a keypoint lies, about the middle of its keyframe; the first keypoint there, none where it lies nowhere; which it is.
struct Spot {
    x: f32,
    y: f32,
    point: u32,
    index: u32,
}

// What holds TILE spots.
struct Tile {
    middle: vec2f,
    half: vec2f,
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
@group(0) @binding(5) var<storage> tiles: array<Tile>;
@group(0) @binding(6) var<storage, read_write> nearest: array<Nearest>;

const LANES = 32u;
const TILE = 32u;
// Tiles that are asked at once, and those whose spots are.
const TILES = 256u;
const TILES_OF_HITS = 32u;
// Far above what rounding makes of sums of so few terms.
const ROUNDING = 2e-6;

var<workgroup> reached: array<u32, TILES>;
var<workgroup> n_reached: atomic<u32>;
var<workgroup> hits: array<u32, TILE * TILES_OF_HITS>;
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

// What a query asks of tiles: its line, and the sums of the sizes of what makes it.
struct Line {
    line: vec3f,
    sizes: vec3f,
    is_back: bool,
}

fn line_of(band: Band, query: Spot, is_back: bool) -> Line {
    let at = vec3f(query.x, query.y, 1.0);
    let a = band.rows[0].xyz;
    let b = band.rows[1].xyz;
    let c = band.rows[2].xyz;
    if is_back {
        let sizes = abs(a) * abs(at.x) + abs(b) * abs(at.y) + abs(c);
        return Line(a * at.x + b * at.y + c, sizes, true);
    }
    let sizes = vec3f(dot(abs(a), abs(at)), dot(abs(b), abs(at)), dot(abs(c), abs(at)));
    return Line(vec3f(dot(a, at), dot(b, at), dot(c, at)), sizes, false);
}

// The least of |a x + b y + c| in a tile is above x; its largest is below y.
fn range_of(line: vec3f, sizes: vec3f, tile: Tile) -> vec2f {
    let far = abs(tile.middle) + tile.half;
    let spread = dot(abs(line.xy), tile.half) + ROUNDING * (dot(sizes.xy, far) + sizes.z);
    let middle = abs(dot(line.xy, tile.middle) + line.z);
    return vec2f(middle - spread, middle + spread);
}

// Whether a spot of a tile may be near: no spot of another tile is.
fn may_reach(band: Band, query: Line, tile: Tile) -> bool {
    let least = range_of(query.line, query.sizes, tile).x;
    var most = query.sizes.xy;
    if query.is_back {
        // The normal of the line is that of a spot of the tile.
        let a = range_of(band.rows[0].xyz, abs(band.rows[0].xyz), tile);
        let b = range_of(band.rows[1].xyz, abs(band.rows[1].xyz), tile);
        most = vec2f(a.y, b.y);
    } else {
        most = abs(query.line.xy) + ROUNDING * query.sizes.xy;
    }
    return !(least > 0.0 && least * least > 1.0001 * band.rows[0].w * dot(most, most));
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

@compute @workgroup_size(32)
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
    let spot = spots[search.queries + min(group - search.first_group, search.n_queries - 1u)];
    let query = line_of(band, spot, is_back);
    let words = 8u * (search.queries + spot.index);
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
    let first_tile = search.others / TILE;
    let n_tiles = select((search.n_others + TILE - 1u) / TILE, 0u, spot.point == NONE);
    for (var begin = 0u; begin < n_tiles; begin += TILES) {
        if lane == 0u {
            atomicStore(&n_reached, 0u);
        }
        workgroupBarrier();
        for (var at = begin + lane; at < min(begin + TILES, n_tiles); at += LANES) {
            if may_reach(band, query, tiles[first_tile + at]) {
                reached[atomicAdd(&n_reached, 1u)] = at;
            }
        }
        workgroupBarrier();
        // The order of tiles and hits is not the same at every run, but what comes of them is.
        let n_tiles_of_hits = atomicLoad(&n_reached);
        for (var done = 0u; done < n_tiles_of_hits; done += TILES_OF_HITS) {
            if lane == 0u {
                atomicStore(&n_hits, 0u);
            }
            workgroupBarrier();
            let n_asked = TILE * min(TILES_OF_HITS, n_tiles_of_hits - done);
            for (var asked = lane; asked < n_asked; asked += LANES) {
                let at = TILE * reached[done + asked / TILE] + asked % TILE;
                let other = spots[search.others + min(at, search.n_others - 1u)];
                var first = spot;
                var second = other;
                if is_back {
                    first = other;
                    second = spot;
                }
                if at < search.n_others && is_near(band, first, second) {
                    hits[atomicAdd(&n_hits, 1u)] = at;
                }
            }
            workgroupBarrier();
            let n = atomicLoad(&n_hits);
            for (var hit = lane; hit < n; hit += LANES) {
                let other = spots[search.others + hits[hit]];
                let others = 8u * (search.others + other.index);
                let distance2 = squared_distance(word[0], descriptors[others])
                    + squared_distance(word[1], descriptors[others + 1u])
                    + squared_distance(word[2], descriptors[others + 2u])
                    + squared_distance(word[3], descriptors[others + 3u])
                    + squared_distance(word[4], descriptors[others + 4u])
                    + squared_distance(word[5], descriptors[others + 5u])
                    + squared_distance(word[6], descriptors[others + 6u])
                    + squared_distance(word[7], descriptors[others + 7u]);
                best = nearer(best, Found(distance2, other.index, NONE, other.point));
            }
            workgroupBarrier();
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
        nearest[search.nearest + spot.index] = Nearest(found[0].distance2, found[0].index, found[0].rival2);
    }
}

// Of 16 bytes each.
fn squared_distance(a: vec4u, b: vec4u) -> u32 {
    return dots(a, a) + dots(b, b) - 2u * dots(a, b);
}

fn dots(a: vec4u, b: vec4u) -> u32 {
    return dot4U8Packed(a.x, b.x) + dot4U8Packed(a.y, b.y) + dot4U8Packed(a.z, b.z) + dot4U8Packed(a.w, b.w);
}
