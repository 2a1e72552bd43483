// Extrema of the DoG: pixels whose magnitude reaches a threshold and that are farther out than all 26 neighbours.
//
// A DoG layer is a Gaussian layer less the one before. Of equal pixels the last in the order layer, row, column counts. The
// two outermost pixels of a layer are no candidates, nor are rows outside `first_row..end_row`. Their order is any; `counts`
// says how many there would be in all.
// One workgroup: 30 x 30 pixels of all layers of an octave, and a pixel around them; one invocation: four rows of a column.
// Same candidates as the twin's.

struct Params {
    octaves: array<OctaveShape, 16>,
    first_tiles: array<vec4u, 4>,
    n_octaves: u32,
    n_dogs: u32,
    capacity: u32,
    threshold: f32,
    first_row: u32,
    end_row: u32,
    unused: vec2u,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage> gaussians: array<f32>;
@group(0) @binding(2) var<storage, read_write> candidates: array<Candidate>;
@group(0) @binding(3) var<storage, read_write> counts: array<atomic<u32>>;

const SIDE = 32u;
const RUN = 4u;
const TILE = SIDE - 2u;
const MARGIN = 2u;

// A DoG layer, and the one before it, which other lanes may still read.
var<workgroup> dogs: array<f32, 2u * SIDE * SIDE>;
var<workgroup> n_found: atomic<u32>;
var<workgroup> first: u32;

// The least and the most of some pixels, around each row of a run.
struct Bounds {
    least: vec4f,
    most: vec4f,
}

fn four_gaussians(places: vec4u) -> vec4f {
    return vec4f(gaussians[places.x], gaussians[places.y], gaussians[places.z], gaussians[places.w]);
}

fn four_dogs(place: u32) -> vec4f {
    return vec4f(dogs[place], dogs[place + SIDE], dogs[place + 2u * SIDE], dogs[place + 3u * SIDE]);
}

fn three_dogs(place: u32) -> vec3f {
    return vec3f(dogs[place - 1u], dogs[place], dogs[place + 1u]);
}

fn least_of(three: vec3f) -> f32 {
    return min(min(three.x, three.y), three.z);
}

fn most_of(three: vec3f) -> f32 {
    return max(max(three.x, three.y), three.z);
}

@compute @workgroup_size(256)
fn main(
    @builtin(workgroup_id) group: vec3u,
    @builtin(num_workgroups) groups: vec3u,
    @builtin(local_invocation_index) lane: u32,
) {
    let tile = flat_index(group, groups, 0u, 1u);
    var index = 0u;
    var first_tile = 0u;
    for (var o = 1u; o < params.n_octaves; o++) {
        let start = params.first_tiles[o / 4u][o % 4u];
        if start <= tile {
            index = o;
            first_tile = start;
        }
    }
    let octave = params.octaves[index];
    let tiles_a_row = (octave.width + TILE - 1u) / TILE;
    let own_tile = tile - first_tile;
    let column = lane % SIDE;
    let row = RUN * (lane / SIDE);
    // A pixel to the left and above.
    let x = TILE * (own_tile % tiles_a_row) + column;
    let rows = TILE * (own_tile / tiles_a_row) + row + vec4u(0u, 1u, 2u, 3u);
    let nearest_rows = clamp(rows, vec4u(1u), vec4u(octave.height)) - 1u;
    var places = octave.begin + nearest_rows * octave.width + clamp(x, 1u, octave.width) - 1u;
    let tile_rows = row + vec4u(0u, 1u, 2u, 3u);
    let are_rows_inside = (tile_rows >= vec4u(1u)) & (tile_rows <= vec4u(TILE))
        & (rows > vec4u(MARGIN)) & (rows + MARGIN <= vec4u(octave.height))
        & (rows > vec4u(params.first_row)) & (rows <= vec4u(params.end_row));
    let is_column_inside = column >= 1u && column <= TILE && x > MARGIN && x + MARGIN <= octave.width;
    let is_inside = are_rows_inside & vec4<bool>(is_column_inside);
    let own_place = row * SIDE + column;
    let column_inside = clamp(column, 1u, TILE);
    let above_place = max(row, 1u) * SIDE - SIDE + column_inside;
    let below_place = min(row + RUN, SIDE - 1u) * SIDE + column_inside;
    if lane == 0u {
        atomicStore(&n_found, 0u);
    }
    var finer = four_gaussians(places);
    var before = vec4f(0.0);
    var around_before = Bounds(vec4f(0.0), vec4f(0.0));
    var may_be_most = vec4<bool>(false);
    var may_be_least = vec4<bool>(false);
    // Four bits a layer, from layer 1 on.
    var found = 0u;
    for (var d = 0u; d < params.n_dogs; d++) {
        places += octave.width * octave.height;
        let coarser = four_gaussians(places);
        let here = coarser - finer;
        finer = coarser;
        let buffer = d % 2u * SIDE * SIDE;
        dogs[buffer + own_place] = here.x;
        dogs[buffer + own_place + SIDE] = here.y;
        dogs[buffer + own_place + 2u * SIDE] = here.z;
        dogs[buffer + own_place + 3u * SIDE] = here.w;
        workgroupBarrier();
        let left = four_dogs(buffer + row * SIDE + column_inside - 1u);
        let right = four_dogs(buffer + row * SIDE + column_inside + 1u);
        let above = three_dogs(buffer + above_place);
        let below = three_dogs(buffer + below_place);
        let in_row = Bounds(min(min(left, here), right), max(max(left, here), right));
        let most_above = vec4f(most_of(above), in_row.most.xyz);
        let most_below = vec4f(in_row.most.yzw, most_of(below));
        let least_above = vec4f(least_of(above), in_row.least.xyz);
        let least_below = vec4f(in_row.least.yzw, least_of(below));
        let around = Bounds(
            min(min(least_above, in_row.least), least_below),
            max(max(most_above, in_row.most), most_below),
        );
        let are_found = (may_be_most & (before > around.most)) | (may_be_least & (before < around.least));
        if d > 1u {
            let bits = select(vec4u(0u), vec4u(1u, 2u, 4u, 8u), are_found);
            found |= (bits.x | bits.y | bits.z | bits.w) << (RUN * (d - 2u));
        }
        let are_strong = is_inside & (abs(here) >= vec4f(params.threshold)) & vec4<bool>(d > 0u);
        let are_negative = (bitcast<vec4u>(here) >> vec4u(31u)) == vec4u(1u);
        may_be_most = are_strong & !are_negative & (here >= left) & (here > right)
            & (here >= most_above) & (here > most_below) & (here >= around_before.most);
        may_be_least = are_strong & are_negative & (here <= left) & (here < right)
            & (here <= least_above) & (here < least_below) & (here <= around_before.least);
        before = here;
        around_before = around;
    }
    let n_before = atomicAdd(&n_found, countOneBits(found));
    workgroupBarrier();
    if lane == 0u {
        first = atomicAdd(&counts[CANDIDATES], atomicLoad(&n_found));
    }
    workgroupBarrier();
    var place = first + n_before;
    for (var left = found; left != 0u; left &= left - 1u) {
        let bit = firstTrailingBit(left);
        if place < params.capacity {
            candidates[place] = Candidate(index, x - 1u, rows.x + bit % RUN - 1u, 1u + bit / RUN);
        }
        place++;
    }
}
