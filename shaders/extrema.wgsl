// Extrema of the DoG: pixels whose magnitude reaches a threshold and that are farther out than all 26 neighbours.
//
// A DoG layer is a Gaussian layer less the one before. Of equal pixels the last in the order layer, row, column counts. The
// two outermost pixels of a layer are no candidates, nor are rows outside `first_row..end_row`. Their order is any; `counts` says how many there would be in all.
// One workgroup: 32 x 8 pixels of all layers of an octave.
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

const LANES = 256u;
const COLUMNS = 32u;
const ROWS = 8u;
const MARGIN = 2u;
const MAX_DOGS = 10u;
// The tile with a pixel more on each side.
const WIDTH = COLUMNS + 2u;
const SIZE = WIDTH * (ROWS + 2u);

var<workgroup> dogs: array<f32, MAX_DOGS * SIZE>;

fn fill_dogs(octave: OctaveShape, corner: vec2u, i: u32) {
    let size = vec2i(i32(octave.width), i32(octave.height));
    let pixel = clamp(vec2i(corner) + vec2i(i32(i % WIDTH), i32(i / WIDTH)) - 1, vec2i(0), size - 1);
    let place = octave.begin + u32(pixel.y) * octave.width + u32(pixel.x);
    var finer = gaussians[place];
    for (var d = 0u; d < params.n_dogs; d++) {
        let coarser = gaussians[place + (d + 1u) * octave.width * octave.height];
        dogs[d * SIZE + i] = coarser - finer;
        finer = coarser;
    }
}

// Whether none of the three values around `centre` in a row is farther out; those before it in order may be as far.
fn beats_row(magnitude: f32, sign: f32, centre: u32, is_before: bool) -> bool {
    let farthest = max(max(sign * dogs[centre - 1u], sign * dogs[centre]), sign * dogs[centre + 1u]);
    return magnitude > farthest || (is_before && magnitude == farthest);
}

fn is_extremum(place: u32) -> bool {
    let here = dogs[place];
    let magnitude = abs(here);
    if magnitude < params.threshold {
        return false;
    }
    let sign = select(1.0, -1.0, (bitcast<u32>(here) >> 31u) == 1u);
    if magnitude < sign * dogs[place - 1u] || magnitude <= sign * dogs[place + 1u] {
        return false;
    }
    if !beats_row(magnitude, sign, place - WIDTH, true) || !beats_row(magnitude, sign, place + WIDTH, false) {
        return false;
    }
    var is_one = true;
    for (var row = 0u; row < 3u; row++) {
        let centre = place + row * WIDTH - WIDTH;
        is_one = is_one && beats_row(magnitude, sign, centre - SIZE, true);
        is_one = is_one && beats_row(magnitude, sign, centre + SIZE, false);
    }
    return is_one;
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
        let first = params.first_tiles[o / 4u][o % 4u];
        if first <= tile {
            index = o;
            first_tile = first;
        }
    }
    let octave = params.octaves[index];
    let tiles_a_row = (octave.width + COLUMNS - 1u) / COLUMNS;
    let own_tile = tile - first_tile;
    let corner = vec2u(COLUMNS, ROWS) * vec2u(own_tile % tiles_a_row, own_tile / tiles_a_row);
    for (var i = lane; i < SIZE; i += LANES) {
        fill_dogs(octave, corner, i);
    }
    workgroupBarrier();
    let own = vec2u(lane % COLUMNS, lane / COLUMNS);
    let pixel = corner + own;
    let is_inside = all(pixel >= vec2u(MARGIN)) && all(pixel + MARGIN < vec2u(octave.width, octave.height));
    if is_inside && pixel.y >= params.first_row && pixel.y < params.end_row {
        for (var layer = 1u; layer + 1u < params.n_dogs; layer++) {
            if is_extremum(layer * SIZE + (own.y + 1u) * WIDTH + own.x + 1u) {
                let n_before = atomicAdd(&counts[CANDIDATES], 1u);
                if n_before < params.capacity {
                    candidates[n_before] = Candidate(index, pixel.x, pixel.y, layer);
                }
            }
        }
    }
}
