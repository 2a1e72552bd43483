// Aligns tracks' windows with the patches about their seeds, under an affine map, gain and offset projected out.
//
// Level 0 of the frame begins at `begin` of the pyramid; positions in pixels, centres at integers. A live record that is
// taken gets its new position and, where the patch is seen there, a bit that says so and how many times as large; its
// slot gets the map. What lies outside of the picture does not count.
// One workgroup: one track, LANES lanes. Lane i holds samples i, i + LANES, ... of the window, row by row, and its share of
// every sum; all lanes then make the same step.
// Same bits as the twin with sixteen lanes where the device does not fuse.

struct Params {
    begin: u32,
    first: u32,
    width: u32,
    height: u32,
    window_px: u32,
    max_iterations: u32,
    epsilon_px: f32,
    min_ncc: f32,
    seen_ncc: f32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage> window: array<vec4f>;
@group(0) @binding(2) var<storage> pyramid: array<f32>;
@group(0) @binding(3) var<storage> sums: array<PatchSums>;
@group(0) @binding(4) var<storage> samples: array<f32>;
@group(0) @binding(5) var<storage> slots: array<u32>;
@group(0) @binding(6) var<storage, read_write> anchors: array<AnchorRecord>;
@group(0) @binding(7) var<storage, read_write> records: array<TrackRecord>;

// Farthest from its start a point may move.
const MAX_MOVE_PX = 2.0;
// Contrast left of the patch's, below which a window says nothing.
const MIN_GAIN = 0.05;
// Side of the largest square of pixels under a window.
const SIDE = 64.0;

// What is left to do: nothing, a window wholly inside of the picture, or one over its border.
const DONE = 0u;
const INSIDE = 1u;
const BORDER = 2u;

struct Warp {
    at: vec2f,
    linear: mat2x2f,
}

// The square of pixels under a window.
struct Under {
    first: vec2f,
    is_readable: bool,
    is_inside: bool,
}

fn half_window() -> f32 {
    return f32(params.window_px / 2u);
}

fn shows(at: vec2f) -> bool {
    let beyond = vec2f(f32(params.width), f32(params.height)) - 0.5;
    return all(at >= vec2f(-0.5)) && all(at <= beyond);
}

// The columns of `linear` are the rows of the map.
fn under(warp: Warp) -> Under {
    let along = abs(warp.linear[0]);
    let across = abs(warp.linear[1]);
    let reach = vec2f(along.x + along.y, across.x + across.y) * half_window() + 1.5;
    let first = floor(warp.at - reach);
    let size = ceil(warp.at + reach) - first + 1.0;
    let ends = first + size;
    let is_inside = all(first >= vec2f(0.0)) && ends.x <= f32(params.width) && ends.y <= f32(params.height);
    return Under(first, all(size <= vec2f(SIDE)), is_inside);
}

fn line(row: i32, columns: vec3u, taps: vec3f) -> f32 {
    let start = params.begin + u32(clamp(row, 0, i32(params.height) - 1)) * params.width;
    return taps.x * pyramid[start + columns.x]
        + taps.y * pyramid[start + columns.y]
        + taps.z * pyramid[start + columns.z];
}

// The picture's spline at `at` of the square that begins at `first`.
fn gray_at(first: vec2f, at: vec2f) -> f32 {
    let nearest = round(at);
    let x = taps(at.x - nearest.x);
    let y = taps(at.y - nearest.y);
    let middle = vec2i(first) + vec2i(nearest);
    let columns = vec3u(clamp(middle.x + vec3i(-1, 0, 1), vec3i(0), vec3i(i32(params.width) - 1)));
    return y.x * line(middle.y - 1, columns, x)
        + y.y * line(middle.y, columns, x)
        + y.z * line(middle.y + 1, columns, x);
}

// Sums over the window at a warp: w the weight, J gray less the patch's mean, T and D the patch's. And over the patch, where
// the picture shows the window.
struct Sums {
    // J, J T, J J, weighted
    target_gray: f32,
    target_product: f32,
    target_energy: f32,
    // D J
    target_moment: array<vec3f, 2>,
    weight: f32,
    gray: f32,
    energy: f32,
    descent: array<vec3f, 2>,
    moment: array<vec3f, 2>,
}

fn sum_up(warp: Warp, square: Under, slot: u32, where_it_is: u32, lane: u32) -> Sums {
    let n_samples = params.window_px * params.window_px;
    let run = (n_samples + 15u) / 16u * 16u;
    let begin = 3u * run * slot;
    let mean = sums[slot].mean;
    let along = warp.linear[0] * half_window();
    let across = warp.linear[1] * half_window();
    let from_first = warp.at - square.first;
    var window_sums: Twelve;
    var patch_sums: Twelve;
    for (var first = 0u; first < n_samples; first += LANES) {
        let i = first + lane;
        if i < n_samples {
            let place = window[i];
            var w = place.x;
            let u = place.y;
            let v = place.z;
            let t = samples[begin + i];
            var gx = samples[begin + run + i];
            var gy = samples[begin + 2u * run + i];
            // No offset is as large: the limit keeps drivers from adding in another order.
            let offset = vec2f(along.x * u + along.y * v, across.x * u + across.y * v);
            let at = from_first + min(offset, vec2f(SIDE));
            if where_it_is == BORDER {
                let shown = select(0.0, 1.0, shows(at + square.first));
                w = shown * w;
                gx = shown * gx;
                gy = shown * gy;
                let first_images = vec4f(gx, gy, u * gx, v * gx);
                let last_images = vec2f(u * gy, v * gy);
                patch_sums.first += first_images;
                patch_sums.second += vec4f(last_images, first_images.xy * t);
                patch_sums.third += vec4f(first_images.zw * t, last_images * t);
            }
            let j = gray_at(square.first, at) - mean;
            let wj = w * j;
            let x = gx * j;
            let y = gy * j;
            window_sums.first += vec4f(wj, wj * t, wj * j, x);
            window_sums.second += vec4f(y, u * x, v * x, u * y);
            window_sums.third += vec4f(v * y, w, w * t, w * t * t);
        }
    }
    window_sums = fold(window_sums, lane);
    let a = window_sums.first;
    let b = window_sums.second;
    let c = window_sums.third;
    var all_sums: Sums;
    all_sums.target_gray = a.x;
    all_sums.target_product = a.y;
    all_sums.target_energy = a.z;
    all_sums.target_moment = array<vec3f, 2>(vec3f(a.w, b.xy), vec3f(b.zw, c.x));
    if where_it_is == BORDER {
        patch_sums = fold(patch_sums, lane);
        all_sums.weight = c.y;
        all_sums.gray = c.z;
        all_sums.energy = c.w;
        let d = patch_sums.first;
        let e = patch_sums.second;
        let f = patch_sums.third;
        all_sums.descent = array<vec3f, 2>(d.xyz, vec3f(d.w, e.xy));
        all_sums.moment = array<vec3f, 2>(vec3f(e.zw, f.x), f.yzw);
    } else {
        let d = sums[slot].descent;
        let m = sums[slot].moment;
        all_sums.weight = sums[slot].weight;
        all_sums.gray = sums[slot].gray;
        all_sums.energy = sums[slot].energy;
        all_sums.descent = array<vec3f, 2>(vec3f(d[0], d[1], d[2]), vec3f(d[3], d[4], d[5]));
        all_sums.moment = array<vec3f, 2>(vec3f(m[0], m[1], m[2]), vec3f(m[3], m[4], m[5]));
    }
    return all_sums;
}

// The step of the patch that makes it the window, in pixels at the centre (x, y of the first) and at the rim, and the
// correlation before it.
struct Step {
    first: vec3f,
    last: vec3f,
    correlation: f32,
    is_some: bool,
}

fn step_of(slot: u32, s: Sums) -> Step {
    let covariance = s.target_product - s.gray * s.target_gray / s.weight;
    let patch_variance = s.energy - s.gray * s.gray / s.weight;
    let window_variance = s.target_energy - s.target_gray * s.target_gray / s.weight;
    let gain = covariance / patch_variance;
    let offset = (s.target_gray - gain * s.gray) / s.weight;
    let first = (s.target_moment[0] - (gain * s.moment[0] + offset * s.descent[0])) / gain;
    let last = (s.target_moment[1] - (gain * s.moment[1] + offset * s.descent[1])) / gain;
    return Step(
        vec3f(row_times(slot, 0u, first, last), row_times(slot, 1u, first, last), row_times(slot, 2u, first, last)),
        vec3f(row_times(slot, 3u, first, last), row_times(slot, 4u, first, last), row_times(slot, 5u, first, last)),
        covariance / sqrt(patch_variance * window_variance),
        s.weight > 0.0 && gain > MIN_GAIN && window_variance > 0.0,
    );
}

// A row of the patch's matrix times a vector.
fn row_times(slot: u32, row: u32, first: vec3f, last: vec3f) -> f32 {
    let at = 6u * row;
    return sums[slot].inverse[at] * first.x
        + sums[slot].inverse[at + 1u] * first.y
        + sums[slot].inverse[at + 2u] * first.z
        + sums[slot].inverse[at + 3u] * last.x
        + sums[slot].inverse[at + 4u] * last.y
        + sums[slot].inverse[at + 5u] * last.z;
}

// The warp after the inverse of `length` times the step.
fn after(warp: Warp, step: Step, length: f32) -> Warp {
    let dx = length * step.first.x;
    let dy = length * step.first.y;
    let rim = length / half_window();
    let p = 1.0 + rim * step.first.z;
    let q = rim * step.last.x;
    let r = rim * step.last.y;
    let s = 1.0 + rim * step.last.z;
    let determinant = p * s - q * r;
    let along = vec2f(s / determinant, -r / determinant);
    let across = vec2f(-q / determinant, p / determinant);
    let a = warp.linear[0];
    let b = warp.linear[1];
    let linear = mat2x2f(
        vec2f(a.x * along.x + a.y * along.y, a.x * across.x + a.y * across.y),
        vec2f(b.x * along.x + b.y * along.y, b.x * across.x + b.y * across.y),
    );
    let moved = vec2f(linear[0].x * dx + linear[0].y * dy, linear[1].x * dx + linear[1].y * dy);
    return Warp(warp.at - moved, linear);
}

// The record, moved to where the patch was found; where it is seen, its measure is how many times as large.
fn moved_record(record: TrackRecord, found: Warp, correlation: f32) -> TrackRecord {
    let moved = TrackRecord(found.at.x, found.at.y, record.measure, record.status);
    let rows = found.linear;
    let area = rows[0].x * rows[1].y - rows[0].y * rows[1].x;
    if correlation >= params.seen_ncc && area > 0.0 {
        return seen_record(moved, sqrt(area));
    }
    return moved;
}

@compute @workgroup_size(LANES)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) lane: u32) {
    let track = params.first + group.x;
    let slot = slots[track] & ~IS_NEW;
    let record = records[track];
    let anchor = anchors[slot];
    let start = Warp(vec2f(record.x, record.y), mat2x2f(anchor.a, anchor.b, anchor.c, anchor.d));
    var warp = start;
    var before = vec2f();
    var correlation = 0.0;
    var iterations = 0u;
    var is_taken = false;
    var is_done = !(is_alive(record) && sums[slot].inverse[0] > 0.0);
    for (var iteration = 1u; iteration <= params.max_iterations; iteration++) {
        let square = under(warp);
        if !is_done {
            iterations = iteration;
            is_done = !square.is_readable;
        }
        let to_do = agreed(select(select(BORDER, INSIDE, square.is_inside), DONE, is_done), lane);
        if to_do == DONE {
            break;
        }
        let step = step_of(slot, sum_up(warp, square, slot, to_do, lane));
        is_done = !step.is_some;
        if step.is_some {
            correlation = step.correlation;
            // As in klt_track: a step that turns back is halved.
            let length = select(1.0, 0.5, step.first.x * before.x + step.first.y * before.y < 0.0);
            warp = after(warp, step, length);
            before = length * step.first.xy;
            let a = step.first;
            let b = step.last;
            let squared = a.x * a.x + a.y * a.y + a.z * a.z + b.x * b.x + b.y * b.y + b.z * b.z;
            is_done = squared < params.epsilon_px * params.epsilon_px;
            let moved = warp.at - start.at;
            let is_near = moved.x * moved.x + moved.y * moved.y <= MAX_MOVE_PX * MAX_MOVE_PX;
            is_taken = is_done && correlation >= params.min_ncc && is_near && shows(warp.at);
        }
    }
    if lane == 0u && is_alive(record) {
        var found = start;
        if is_taken {
            found = warp;
            records[track] = moved_record(record, warp, correlation);
        }
        let a = found.linear[0];
        let b = found.linear[1];
        let status = f32(select(1u, 3u, is_taken) | (iterations << 16u));
        anchors[slot] = AnchorRecord(found.at.x, found.at.y, a.x, a.y, b.x, b.y, correlation, status);
    }
}
