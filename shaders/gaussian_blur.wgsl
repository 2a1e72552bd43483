// Gaussian blur of layers: y, then x, each rounded to f32.
//
// A sum begins with the centre and adds the pairs of equal taps outwards. Border clamped. A job blurs the layer at `finer`
// to the one at `coarser`, and may put every second pixel of every second row at `halved`: the next octave's first layer.
// One workgroup: 32 x 32 pixels of one of the jobs; one invocation: first runs of four rows, then four pixels of a row.
// Same bits as the twin where the device does not fuse.

struct BlurJob {
    finer: u32,
    coarser: u32,
    halved: u32,
    width: u32,
    height: u32,
    first_tap: u32,
    radius: u32,
    tiles_a_row: u32,
    n_tiles: u32,
    is_halved: u32,
    unused_a: u32,
    unused_b: u32,
}

struct Params {
    jobs: array<BlurJob, 2>,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage> taps: array<f32>;
@group(0) @binding(2) var<storage, read_write> layers: array<f32>;

const LANES = 256u;
const TILE = 32u;
const RUN = 4u;
const MAX_RADIUS = 32u;
// Columns lie one behind the other, a value apart: lanes that walk along either side of the tile meet in no bank.
const COLUMN = TILE + 1u;

var<workgroup> blurred: array<f32, (TILE + 2u * MAX_RADIUS) * COLUMN>;

fn finer_pixel(job: BlurJob, column: u32, y: i32) -> f32 {
    return layers[column + u32(clamp(y, 0, i32(job.height) - 1)) * job.width];
}

// Four pixels of a column, from row `y` on.
fn blur_y(job: BlurJob, x: i32, y: i32) -> vec4f {
    let column = job.finer + u32(clamp(x, 0, i32(job.width) - 1));
    var before = vec4f(
        finer_pixel(job, column, y),
        finer_pixel(job, column, y + 1),
        finer_pixel(job, column, y + 2),
        finer_pixel(job, column, y + 3),
    );
    var after = before;
    var sum = taps[job.first_tap] * before;
    for (var t = 1; t <= i32(job.radius); t++) {
        before = vec4f(finer_pixel(job, column, y - t), before.xyz);
        after = vec4f(after.yzw, finer_pixel(job, column, y + 3 + t));
        sum += taps[job.first_tap + u32(t)] * (before + after);
    }
    return sum;
}

// Four pixels of a row, `centre` being the first of them in the workgroup's memory.
fn blur_x(job: BlurJob, centre: u32) -> vec4f {
    var before = vec4f(
        blurred[centre],
        blurred[centre + COLUMN],
        blurred[centre + 2u * COLUMN],
        blurred[centre + 3u * COLUMN],
    );
    var after = before;
    var sum = taps[job.first_tap] * before;
    for (var t = 1u; t <= job.radius; t++) {
        before = vec4f(blurred[centre - t * COLUMN], before.xyz);
        after = vec4f(after.yzw, blurred[centre + (3u + t) * COLUMN]);
        sum += taps[job.first_tap + t] * (before + after);
    }
    return sum;
}

@compute @workgroup_size(256)
fn main(
    @builtin(workgroup_id) group: vec3u,
    @builtin(num_workgroups) groups: vec3u,
    @builtin(local_invocation_index) lane: u32,
) {
    var tile = flat_index(group, groups, 0u, 1u);
    var job = params.jobs[0];
    if tile >= job.n_tiles {
        tile -= job.n_tiles;
        job = params.jobs[1];
    }
    let corner = TILE * vec2u(tile % job.tiles_a_row, tile / job.tiles_a_row);
    let n_columns = TILE + 2u * job.radius;
    for (var i = lane; i < n_columns * TILE / RUN; i += LANES) {
        let column = i % n_columns;
        let row = RUN * (i / n_columns);
        let x = i32(corner.x + column) - i32(job.radius);
        let sums = blur_y(job, x, i32(corner.y + row));
        let place = column * COLUMN + row;
        blurred[place] = sums.x;
        blurred[place + 1u] = sums.y;
        blurred[place + 2u] = sums.z;
        blurred[place + 3u] = sums.w;
    }
    workgroupBarrier();
    let first = RUN * (lane / TILE);
    let row = lane % TILE;
    let sums = blur_x(job, (job.radius + first) * COLUMN + row);
    workgroupBarrier();
    let place = first * COLUMN + row;
    blurred[place] = sums.x;
    blurred[place + COLUMN] = sums.y;
    blurred[place + 2u * COLUMN] = sums.z;
    blurred[place + 3u * COLUMN] = sums.w;
    workgroupBarrier();
    for (var k = 0u; k < RUN; k++) {
        let own_row = lane / TILE + k * (LANES / TILE);
        let pixel = corner + vec2u(lane % TILE, own_row);
        if pixel.x < job.width && pixel.y < job.height {
            let value = blurred[(lane % TILE) * COLUMN + own_row];
            layers[job.coarser + pixel.y * job.width + pixel.x] = value;
            if job.is_halved == 1u && all(pixel % 2u == vec2u(0u)) {
                layers[job.halved + pixel.y / 2u * ((job.width + 1u) / 2u) + pixel.x / 2u] = value;
            }
        }
    }
}
