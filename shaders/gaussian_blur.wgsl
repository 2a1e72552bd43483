// Gaussian blur of layers: y, then x, each rounded to f32.
//
// A sum begins with the centre and adds the pairs of equal taps outwards. Border clamped. A job blurs the layer at `finer`
// to the one at `coarser`, and may put every second pixel of every second row at `halved`: the next octave's first layer.
// Taps of a job that has less than `RADIUS` end with zeros, which change no bit.
// One workgroup: a tile of one of the jobs; one invocation: first a run of a column, then a run of a row.
// Same bits as the twin where the device does not fuse.

struct BlurJob {
    taps: array<vec4f, 9>,
    finer: u32,
    coarser: u32,
    halved: u32,
    width: u32,
    height: u32,
    tiles_a_row: u32,
    n_tiles: u32,
    is_halved: u32,
}

struct Params {
    jobs: array<BlurJob, 2>,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read_write> layers: array<f32>;

const RADIUS = 8u;
const LANES = 256u;
const TILE_COLUMNS = 112u;
const TILE_ROWS = 16u;
// Pixels of a column, of a row, that a lane blurs at once.
const RUN_Y = 8u;
const RUN_X = 7u;
const SPAN_Y = RUN_Y + 2u * RADIUS;
const SPAN_X = RUN_X + 2u * RADIUS;
// Columns with those around them, a lane each. Rows lie two values apart where runs are odd, so that lanes that walk along
// two runs of all rows meet in no bank; one where they are even, where few do.
const COLUMNS = 128u;
const STRIDE = COLUMNS + 1u + RUN_X % 2u;
// Rows of a column, at the end.
const OUTS = TILE_ROWS / (LANES / COLUMNS);

var<workgroup> blurred: array<f32, TILE_ROWS * STRIDE>;

fn tap(which: u32, i: u32) -> f32 {
    return params.jobs[which].taps[i / 4u][i % 4u];
}

// A run of a column, from `row` of the tile on.
fn blur_y(which: u32, corner: vec2u, column: u32, row: u32) {
    let end = vec2i(i32(params.jobs[which].width), i32(params.jobs[which].height)) - 1;
    let at = vec2i(corner + vec2u(column, row)) - i32(RADIUS);
    let first = params.jobs[which].finer + u32(clamp(at.x, 0, end.x));
    var values: array<f32, SPAN_Y>;
    for (var i = 0u; i < SPAN_Y; i++) { // unroll
        values[i] = layers[first + u32(clamp(at.y + i32(i), 0, end.y)) * params.jobs[which].width];
    }
    for (var i = 0u; i < RUN_Y; i++) { // unroll
        var sum = tap(which, 0u) * values[i + RADIUS];
        for (var t = 0u; t < RADIUS; t++) { // unroll
            sum += tap(which, t + 1u) * (values[i + RADIUS - 1u - t] + values[i + RADIUS + 1u + t]);
        }
        blurred[(row + i) * STRIDE + column] = sum;
    }
}

// A run of a row, from `first` of the workgroup's memory on.
fn blur_x(which: u32, first: u32) -> array<f32, RUN_X> {
    var values: array<f32, SPAN_X>;
    for (var i = 0u; i < SPAN_X; i++) { // unroll
        values[i] = blurred[first + i];
    }
    var sums: array<f32, RUN_X>;
    for (var i = 0u; i < RUN_X; i++) { // unroll
        var sum = tap(which, 0u) * values[i + RADIUS];
        for (var t = 0u; t < RADIUS; t++) { // unroll
            sum += tap(which, t + 1u) * (values[i + RADIUS - 1u - t] + values[i + RADIUS + 1u + t]);
        }
        sums[i] = sum;
    }
    return sums;
}

@compute @workgroup_size(256)
fn main(
    @builtin(workgroup_id) group: vec3u,
    @builtin(num_workgroups) groups: vec3u,
    @builtin(local_invocation_index) lane: u32,
) {
    var tile = flat_index(group, groups, 0u, 1u);
    var which = 0u;
    if tile >= params.jobs[0].n_tiles {
        tile -= params.jobs[0].n_tiles;
        which = 1u;
    }
    let tiles_a_row = params.jobs[which].tiles_a_row;
    let corner = vec2u(TILE_COLUMNS * (tile % tiles_a_row), TILE_ROWS * (tile / tiles_a_row));
    let column = lane % COLUMNS;
    if column < TILE_COLUMNS + 2u * RADIUS {
        blur_y(which, corner, column, RUN_Y * (lane / COLUMNS));
    }
    workgroupBarrier();
    let first = lane % TILE_ROWS * STRIDE + RUN_X * (lane / TILE_ROWS);
    let sums = blur_x(which, first);
    workgroupBarrier();
    for (var i = 0u; i < RUN_X; i++) { // unroll
        blurred[first + i] = sums[i];
    }
    workgroupBarrier();
    let x = corner.x + column;
    let job = params.jobs[which];
    if column < TILE_COLUMNS && x < job.width {
        for (var i = 0u; i < OUTS; i++) { // unroll
            let row = lane / COLUMNS + i * (LANES / COLUMNS);
            let y = corner.y + row;
            if y < job.height {
                let value = blurred[row * STRIDE + column];
                layers[job.coarser + y * job.width + x] = value;
                if job.is_halved == 1u && x % 2u == 0u && y % 2u == 0u {
                    layers[job.halved + y / 2u * ((job.width + 1u) / 2u) + x / 2u] = value;
                }
            }
        }
    }
}
