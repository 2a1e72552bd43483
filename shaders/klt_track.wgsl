// Pyramidal Lucas-Kanade of a track from one frame to the other and back, and the judgement of both.
//
// Positions in level-0 pixels, centres at integers; level L is at u / 2^L. WINDOW is the window's side. Frame f's planes begin
// at f * frame_len. A record a track each in three runs: checked, forward, backward.
// One workgroup: one track. How its lanes read windows and what they say to each other is put before this text:
// `klt_rows.wgsl`, same bits as the twins, klt_track and klt_check, where the device does not fuse; or `klt_columns.wgsl`.

struct Params {
    shape: array<Level, 12>,
    first: u32,
    n_tracks: u32,
    n_records: u32,
    n_levels: u32,
    previous: u32,
    frame_len: u32,
    count: f32,
    max_iterations: u32,
    photometric: u32,
    epsilon_px: f32,
    min_eigen: f32,
    total_weight: f32,
    forward_backward_px: f32,
    min_ncc: f32,
    infinity: f32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage> weights: array<f32>;
@group(0) @binding(2) var<storage> gray: array<f32>;
@group(0) @binding(3) var<storage> gradient_x: array<f32>;
@group(0) @binding(4) var<storage> gradient_y: array<f32>;
@group(0) @binding(5) var<storage> starts: array<TrackRecord>;
@group(0) @binding(6) var<storage, read_write> records: array<TrackRecord>;

const SAMPLES = WINDOW * WINDOW;
const HALF = f32(WINDOW / 2u);
const FLAT_ENERGY = 1e-9;

// The pixel nearest to the window's first sample.
struct Corner {
    pixel: vec2i,
    taps_x: vec3f,
    taps_y: vec3f,
}

fn corner_of(level: Level, at: vec2f) -> Corner {
    let beyond = f32(WINDOW) - 0.5;
    let left = clamp(at.x - HALF, -beyond, f32(level.width));
    let top = clamp(at.y - HALF, -beyond, f32(level.height));
    let x = floor(left + 0.5);
    let y = floor(top + 0.5);
    return Corner(vec2i(i32(x), i32(y)), taps(left - x), taps(top - y));
}

// Where a level begins in the planes.
fn begin_of(frame: u32, level: Level) -> u32 {
    return frame * params.frame_len + level.offset;
}

fn is_inside(level: Level, at: vec2f) -> bool {
    let right = f32(level.width) - 0.5;
    let bottom = f32(level.height) - 0.5;
    return at.x >= -0.5 && at.y >= -0.5 && at.x <= right && at.y <= bottom;
}

// Sums over the template window: T its gray less `mean`, g its gradient, w the weight.
struct Template {
    mean: f32,
    energy: f32,
    gradient: vec2f,
    moment: vec2f,
    structure: vec3f,
}

// Sums over the samples of both windows that both pictures show: T as above, J the target's gray less the template's mean.
struct Shared {
    count: f32,
    t: f32,
    j: f32,
    tt: f32,
    jj: f32,
    tj: f32,
}

fn gain_of(template_energy: f32, target_energy: f32) -> f32 {
    if target_energy > FLAT_ENERGY {
        return sqrt(template_energy / target_energy);
    }
    return 1.0;
}

// Zero-mean correlation of the windows about `start` and `end` where both show the picture.
fn correlation(frame: u32, level: Level, start: vec2f, end: vec2f, mean: f32, lane: u32) -> f32 {
    let sums = shared_sums(frame, level, start, end, mean, lane);
    let energy = (sums.tt - sums.t / sums.count * sums.t) * (sums.jj - sums.j / sums.count * sums.j);
    if energy > 0.0 {
        return (sums.tj - sums.t / sums.count * sums.j) / sqrt(energy);
    }
    return 0.0;
}

// Follows a record's track from `frame` to the other.
fn follow(start: TrackRecord, frame: u32, lane: u32) -> TrackRecord {
    let at = vec2f(start.x, start.y);
    if !agreed(is_alive(start), lane) {
        return start;
    }
    if !agreed(is_inside(params.shape[0], at), lane) {
        return track_record(at.x, at.y, 0.0, OUT_OF_FRAME, 0u);
    }
    var position = at * (1.0 / f32(1u << (params.n_levels - 1u)));
    var iterations = 0u;
    var has_converged = false;
    var has_structure = false;
    var sums: Template;
    for (var n_done = 1u; n_done <= params.n_levels; n_done++) {
        let l = params.n_levels - n_done;
        let level = params.shape[l];
        sums = read_template(frame, level, at * (1.0 / f32(1u << l)), lane);
        let xx = sums.structure.x;
        let xy = sums.structure.y;
        let yy = sums.structure.z;
        let determinant = xx * yy - xy * xy;
        let eigenvalue = min_eigenvalue(xx, xy, yy) / params.total_weight;
        has_structure = eigenvalue >= params.min_eigen && determinant > 0.0;
        let inverse = vec3f(yy / determinant, -xy / determinant, xx / determinant);
        iterations = 0u;
        has_converged = false;
        var before = vec2f();
        for (var iteration = 1u; iteration <= params.max_iterations; iteration++) {
            if !agreed(has_structure && !has_converged, lane) {
                break;
            }
            let found = target_sums(1u - frame, level, position, sums.mean, lane);
            let mean = select(found.x / params.count, 0.0, params.photometric == 0u);
            let gain = select(1.0, gain_of(sums.energy, found.y - mean * found.x), params.photometric == 2u);
            let bx = sums.moment.x - gain * (found.z - mean * sums.gradient.x);
            let by = sums.moment.y - gain * (found.w - mean * sums.gradient.y);
            let dx = inverse.x * bx + inverse.y * by;
            let dy = inverse.y * bx + inverse.z * by;
            // Where the gradient is flatter than the texture, steps overshoot and turn back for ever.
            let length = select(1.0, 0.5, dx * before.x + dy * before.y < 0.0);
            before = vec2f(length * dx, length * dy);
            position += before;
            iterations = iteration;
            has_converged = dx * dx + dy * dy < params.epsilon_px * params.epsilon_px;
        }
        if l > 0u {
            position = 2.0 * position;
        }
    }
    let measure = correlation(1u - frame, params.shape[0], at, position, sums.mean, lane);
    if !has_structure {
        return track_record(position.x, position.y, 0.0, LOW_STRUCTURE, 0u);
    }
    if !is_inside(params.shape[0], position) {
        return track_record(position.x, position.y, 0.0, OUT_OF_FRAME, iterations);
    }
    let reason = select(NO_CONVERGENCE, NO_REASON, has_converged);
    return track_record(position.x, position.y, measure, reason, iterations);
}

@compute @workgroup_size(LANES)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) lane: u32) {
    let index = params.first + group.x;
    let start = starts[index];
    var there: TrackRecord;
    var record = start;
    for (var direction = 0u; direction < 2u; direction++) {
        there = record;
        record = follow(record, (params.previous + direction) % 2u, lane);
    }
    if lane == 0u {
        records[index] = checked_record(start, there, record, params.forward_backward_px, params.min_ncc, params.infinity);
        records[params.n_records + index] = there;
        records[2u * params.n_records + index] = record;
    }
}
