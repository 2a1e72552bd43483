// Pyramidal Lucas-Kanade of a track from one frame to the other and back, and the judgement of both.
//
// Positions in level-0 pixels, centres at integers; level L is at u / 2^L. WINDOW is the window's side. A record a track
// each in three runs: checked, forward, backward.
// One workgroup: one track, 32 lanes. Lanes i and i + 16 hold samples i, i + 16, ... of the window, row by row, so that sums
// fold as the twin's; what is costly, each of the two does for half of the samples.
// Loops whose line ends with `unroll` are written out by the host: a driver leaves loops that are bounded as they are.
// Same bits as the twins, klt_track and klt_check, where the device does not fuse.

struct Params {
    shape: array<Level, 12>,
    first: u32,
    n_tracks: u32,
    n_records: u32,
    n_levels: u32,
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
@group(0) @binding(2) var<storage> previous: array<f32>;
@group(0) @binding(3) var<storage> previous_x: array<f32>;
@group(0) @binding(4) var<storage> previous_y: array<f32>;
@group(0) @binding(5) var<storage> current: array<f32>;
@group(0) @binding(6) var<storage> current_x: array<f32>;
@group(0) @binding(7) var<storage> current_y: array<f32>;
@group(0) @binding(8) var<storage> starts: array<TrackRecord>;
@group(0) @binding(9) var<storage, read_write> records: array<TrackRecord>;

const LANES = 32u;
const SAMPLES = WINDOW * WINDOW;
const PAIRS = (SAMPLES + 31u) / 32u;
const HALF = f32(WINDOW / 2u);
const COUNT = f32(SAMPLES);
const FLAT_ENERGY = 1e-9;

// The window's rows and the one above and below, interpolated along x; what is behind them is read and not used.
const ROW_SAMPLES = (WINDOW + 2u) * WINDOW;
const ROW_CHUNKS = (ROW_SAMPLES + LANES - 1u) / LANES;
const ROWS_LEN = PAIRS * 32u + 2u * WINDOW + 32u;

var<workgroup> rows: array<f32, ROWS_LEN>;

// Planes of both frames: gray, d/dx, d/dy.
const GRAY = 0u;
const GRADIENT_X = 1u;
const GRADIENT_Y = 2u;

fn pixel(frame: u32, plane: u32, i: u32) -> f32 {
    if frame == 0u {
        if plane == GRAY {
            return previous[i];
        }
        if plane == GRADIENT_X {
            return previous_x[i];
        }
        return previous_y[i];
    }
    if plane == GRAY {
        return current[i];
    }
    if plane == GRADIENT_X {
        return current_x[i];
    }
    return current_y[i];
}

// The first of the pixels under a window, and the taps of every sample.
struct Place {
    corner: vec2i,
    taps_x: vec3f,
    taps_y: vec3f,
}

// The quadratic B-spline at -1 - t, -t and 1 - t.
fn taps(t: f32) -> vec3f {
    let before = 0.5 - t;
    let after = 0.5 + t;
    return vec3f(0.5 * before * before, 0.75 - t * t, 0.5 * after * after);
}

fn place_of(level: Level, at: vec2f) -> Place {
    let beyond = f32(WINDOW) - 0.5;
    let left = clamp(at.x - HALF, -beyond, f32(level.width));
    let top = clamp(at.y - HALF, -beyond, f32(level.height));
    let x = floor(left + 0.5);
    let y = floor(top + 0.5);
    return Place(vec2i(i32(x) - 1, i32(y) - 1), taps(left - x), taps(top - y));
}

fn is_wholly_inside(level: Level, place: Place) -> bool {
    let beyond = vec2i(i32(level.width), i32(level.height)) - i32(WINDOW) - 1;
    return all(place.corner >= vec2i(0)) && all(place.corner < beyond);
}

// A pixel of the rows that begin with the window's corner, wholly inside.
fn row_inside(frame: u32, plane: u32, start: u32, width: u32, place: Place, i: u32) -> f32 {
    let at = start + min(i / WINDOW, WINDOW + 1u) * width + i % WINDOW;
    return place.taps_x.x * pixel(frame, plane, at)
        + place.taps_x.y * pixel(frame, plane, at + 1u)
        + place.taps_x.z * pixel(frame, plane, at + 2u);
}

// The same where the window reaches over the border: there lies the border, for gradients zero.
fn row_anywhere(frame: u32, plane: u32, level: Level, place: Place, i: u32) -> f32 {
    let size = vec2i(i32(level.width), i32(level.height));
    let column = place.corner.x + i32(i % WINDOW);
    let row = place.corner.y + i32(i / WINDOW);
    let start = level.offset + u32(clamp(row, 0, size.y - 1)) * level.width;
    let columns = vec3i(column, column + 1, column + 2);
    let clamped = vec3u(clamp(columns, vec3i(0), vec3i(size.x - 1)));
    var values = vec3f(
        pixel(frame, plane, start + clamped.x),
        pixel(frame, plane, start + clamped.y),
        pixel(frame, plane, start + clamped.z),
    );
    if plane != GRAY {
        let inside = columns >= vec3i(0) & columns < vec3i(size.x);
        values = select(vec3f(0.0), values, inside & vec3<bool>(row >= 0 && row < size.y));
    }
    return place.taps_x.x * values.x + place.taps_x.y * values.y + place.taps_x.z * values.z;
}

// Interpolates along x the rows under the window.
fn read_rows(frame: u32, plane: u32, level: Level, place: Place, lane: u32) {
    if is_wholly_inside(level, place) {
        let start = level.offset + u32(place.corner.y) * level.width + u32(place.corner.x);
        for (var k = 0u; k < ROW_CHUNKS; k++) {
            let i = k * LANES + lane;
            rows[i] = row_inside(frame, plane, start, level.width, place, i);
        }
    } else {
        for (var k = 0u; k < ROW_CHUNKS; k++) {
            let i = k * LANES + lane;
            rows[i] = row_anywhere(frame, plane, level, place, i);
        }
    }
}

// A plane's rows once all lanes are done with those before: of the frame that `direction` leaves, or goes to.
fn read_left(direction: u32, plane: u32, level: Level, place: Place, lane: u32) {
    workgroupBarrier();
    if direction == 0u {
        read_rows(0u, plane, level, place, lane);
    } else {
        read_rows(1u, plane, level, place, lane);
    }
    workgroupBarrier();
}

fn read_reached(direction: u32, level: Level, place: Place, lane: u32) {
    read_left(1u - direction, GRAY, level, place, lane);
}

// Sample of chunk `k` from the rows that were read.
fn sample(place: Place, lane: u32, k: u32) -> f32 {
    let i = k * 16u + lane % 16u;
    return place.taps_y.x * rows[i] + place.taps_y.y * rows[i + WINDOW] + place.taps_y.z * rows[i + 2u * WINDOW];
}

// Which samples of a pair are of the window.
fn are_samples(lane: u32, m: u32) -> vec2<bool> {
    let i = m * 32u + lane % 16u;
    return vec2<bool>(i < SAMPLES, i + 16u < SAMPLES);
}

fn is_inside(level: Level, at: vec2f) -> bool {
    let right = f32(level.width) - 0.5;
    let bottom = f32(level.height) - 0.5;
    return at.x >= -0.5 && at.y >= -0.5 && at.x <= right && at.y <= bottom;
}

// Of the lane's samples, in pairs: the template less its mean, its gradients weighted.
var<private> template_gray: array<vec2f, PAIRS>;
var<private> template_x: array<vec2f, PAIRS>;
var<private> template_y: array<vec2f, PAIRS>;

// Sums over the template window: T its gray less `mean`, g its gradient, w the weight.
struct Template {
    mean: f32,
    energy: f32,
    gradient: vec2f,
    moment: vec2f,
    structure: vec3f,
}

fn read_template(direction: u32, level: Level, at: vec2f, lane: u32) -> Template {
    let place = place_of(level, at);
    var sum = 0.0;
    read_left(direction, GRAY, level, place, lane);
    for (var m = 0u; m < PAIRS; m++) { // unroll
        let t = select(vec2f(0.0), sample_pair(place, lane, m), are_samples(lane, m));
        sum += t.x;
        sum += t.y;
        template_gray[m] = t;
    }
    read_left(direction, GRADIENT_X, level, place, lane);
    for (var m = 0u; m < PAIRS; m++) { // unroll
        template_x[m] = select(vec2f(0.0), sample_pair(place, lane, m), are_samples(lane, m));
    }
    read_left(direction, GRADIENT_Y, level, place, lane);
    let mean = fold(vec4f(sum, 0.0, 0.0, 0.0), lane).x / COUNT;
    var first = vec4f();
    var second = vec4f();
    for (var m = 0u; m < PAIRS; m++) { // unroll
        let are = are_samples(lane, m);
        let t = select(vec2f(0.0), template_gray[m] - mean, are);
        let x = template_x[m];
        let y = select(vec2f(0.0), sample_pair(place, lane, m), are);
        let i = m * 32u + lane % 16u;
        let wx = vec2f(weights[i] * x.x, weights[i + 16u] * x.y);
        let wy = vec2f(weights[i] * y.x, weights[i + 16u] * y.y);
        first += vec4f(t.x * t.x, t.x * wx.x, t.x * wy.x, wx.x);
        first += vec4f(t.y * t.y, t.y * wx.y, t.y * wy.y, wx.y);
        second += vec4f(wy.x, wx.x * x.x, wx.x * y.x, wy.x * y.x);
        second += vec4f(wy.y, wx.y * x.y, wx.y * y.y, wy.y * y.y);
        template_gray[m] = t;
        template_x[m] = wx;
        template_y[m] = wy;
    }
    first = fold(first, lane);
    second = fold(second, lane);
    return Template(mean, first.x, vec2f(first.w, second.x), first.yz, second.yzw);
}

// J, J J, J w gx and J w gy over the target window, J its gray less the template's mean.
fn target_sums(direction: u32, level: Level, at: vec2f, mean: f32, lane: u32) -> vec4f {
    let place = place_of(level, at);
    read_reached(direction, level, place, lane);
    var sums = vec4f();
    for (var m = 0u; m < PAIRS; m++) { // unroll
        let j = select(vec2f(0.0), sample_pair(place, lane, m) - mean, are_samples(lane, m));
        sums += vec4f(j.x, j.x * j.x, j.x * template_x[m].x, j.x * template_y[m].x);
        sums += vec4f(j.y, j.y * j.y, j.y * template_x[m].y, j.y * template_y[m].y);
    }
    return fold(sums, lane);
}

fn gain_of(template_energy: f32, target_energy: f32) -> f32 {
    if target_energy > FLAT_ENERGY {
        return sqrt(template_energy / target_energy);
    }
    return 1.0;
}

// Whether the picture shows sample `i` of the windows about both points.
fn shows(level: Level, start: vec2f, end: vec2f, i: u32) -> bool {
    let offset = vec2f(f32(i % WINDOW), f32(i / WINDOW));
    return is_inside(level, start - HALF + offset) && is_inside(level, end - HALF + offset);
}

// Zero-mean correlation of the windows about `start` and `end` where both show the picture.
fn correlation(direction: u32, level: Level, start: vec2f, end: vec2f, mean: f32, lane: u32) -> f32 {
    let place = place_of(level, end);
    read_reached(direction, level, place, lane);
    var first = vec4f();
    var second = vec4f();
    for (var m = 0u; m < PAIRS; m++) { // unroll
        let are = are_samples(lane, m);
        let j = select(vec2f(0.0), sample_pair(place, lane, m) - mean, are);
        for (var h = 0u; h < 2u; h++) { // unroll
            let is_shared = are[h] && shows(level, start, end, (2u * m + h) * 16u + lane % 16u);
            let s = select(0.0, 1.0, is_shared);
            let st = s * template_gray[m][h];
            let sj = s * j[h];
            first += vec4f(s, st, sj, st * template_gray[m][h]);
            second += vec4f(sj * j[h], st * j[h], 0.0, 0.0);
        }
    }
    first = fold(first, lane);
    second = fold(second, lane);
    let count = first.x;
    let t = first.y;
    let j = first.z;
    let energy = (first.w - t / count * t) * (second.x - j / count * j);
    if energy > 0.0 {
        return (second.y - t / count * j) / sqrt(energy);
    }
    return 0.0;
}

// Follows a record's track: forward 0, backward 1.
fn follow(start: TrackRecord, direction: u32, lane: u32) -> TrackRecord {
    let at = vec2f(start.x, start.y);
    let starts_inside = is_inside(params.shape[0], at);
    let is_followed = is_alive(start) && starts_inside;
    var position = at * (1.0 / f32(1u << (params.n_levels - 1u)));
    var iterations = 0u;
    var has_converged = false;
    var has_structure = false;
    var sums: Template;
    for (var n_done = 1u; n_done <= params.n_levels; n_done++) {
        let l = params.n_levels - n_done;
        let level = params.shape[l];
        sums = read_template(direction, level, at * (1.0 / f32(1u << l)), lane);
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
            let is_active = is_followed && has_structure && !has_converged;
            if !agreed(is_active, lane) {
                break;
            }
            let found = target_sums(direction, level, position, sums.mean, lane);
            if is_active {
                let mean = select(found.x / COUNT, 0.0, params.photometric == 0u);
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
        }
        if l > 0u {
            position = 2.0 * position;
        }
    }
    let measure = correlation(direction, params.shape[0], at, position, sums.mean, lane);
    if !is_alive(start) {
        return start;
    }
    if !starts_inside {
        return track_record(at.x, at.y, 0.0, OUT_OF_FRAME, 0u);
    }
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
        record = follow(record, direction, lane);
    }
    if lane == 0u {
        records[index] = checked_record(start, there, record, params.forward_backward_px, params.min_ncc, params.infinity);
        records[params.n_records + index] = there;
        records[2u * params.n_records + index] = record;
    }
}
