// SIFT descriptors (Lowe 2004, section 6) of keypoints with an orientation each: 4 x 4 cells of 8 directions, L1-root, one
// byte a bin, four bins a word, the first lowest.
//
// Gradients on a turned grid of 20 x 20 samples, interpolated between pixels (centres at integers), 0 near the border.
// Sum order as the twin: samples of a row from left to right, rows downwards; norms as `numerics::fold16`.
// One workgroup: one descriptor; lane i takes samples i, i + LANES, ... and bins 2 i and 2 i + 1.
// Same bits as the twin where the device does not fuse, but for sine and cosine.

struct Params {
    octaves: array<OctaveShape, 16>,
    shares: array<vec4f, 8>,
    magnification: f32,
    n_descriptors: u32,
    unused: vec2u,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage> points: array<SiftPoint>;
@group(0) @binding(2) var<storage> oriented: array<OrientedPoint>;
@group(0) @binding(3) var<storage> gaussians: array<f32>;
@group(0) @binding(4) var<storage, read_write> descriptors: array<u32>;

const LANES = 64u;
const PI = 3.14159274;
const DIRECTIONS = 8.0;
// Samples of a cell and of the grid, a side.
const CELL = 4u;
const SIDE = 20u;
const BINS = 128u;

// A point of `points` with one of its angles: `OrientedPoint` on the host.
struct OrientedPoint {
    point: u32,
    angle: f32,
}

var<workgroup> magnitudes: array<f32, SIDE * SIDE>;
var<workgroup> directions: array<f32, SIDE * SIDE>;
var<workgroup> bins: array<f32, BINS>;
var<workgroup> partial: array<f32, 16>;
var<workgroup> bytes: array<u32, LANES>;

// Twice the gradient at a place between pixels: central differences, interpolated.
fn gradient_at(begin: u32, shape: OctaveShape, at_octave: vec2f) -> vec2f {
    let at = at_octave - vec2f(0.0, f32(shape.first_row));
    let end = vec2f(f32(shape.width), f32(shape.height)) - 2.0;
    if !(all(at >= vec2f(1.0)) && all(at < end)) {
        return vec2f(0.0);
    }
    let width = shape.width;
    let pixel = vec2u(at);
    let within = at - vec2f(pixel);
    let q = begin + pixel.y * width + pixel.x;
    let p = q - width;
    let r = q + width;
    let s = r + width;
    let q_0 = gaussians[q - 1u];
    let q_1 = gaussians[q];
    let q_2 = gaussians[q + 1u];
    let q_3 = gaussians[q + 2u];
    let r_0 = gaussians[r - 1u];
    let r_1 = gaussians[r];
    let r_2 = gaussians[r + 1u];
    let r_3 = gaussians[r + 2u];
    let top_left = vec2f(q_2 - q_0, r_1 - gaussians[p]);
    let top_right = vec2f(q_3 - q_1, r_2 - gaussians[p + 1u]);
    let bottom_left = vec2f(r_2 - r_0, gaussians[s] - q_1);
    let bottom_right = vec2f(r_3 - r_1, gaussians[s + 1u] - q_2);
    let top = top_left + within.x * (top_right - top_left);
    let bottom = bottom_left + within.x * (bottom_right - bottom_left);
    return top + within.y * (bottom - top);
}

fn sample_grid(point: SiftPoint, angle: f32, lane: u32) {
    let shape = params.octaves[point.octave];
    let begin = layer_begin(shape, point);
    let turn = sin_cos(angle);
    let sin = turn.x;
    let cos = turn.y;
    let cell = params.magnification * point.scale;
    let across = cell * cos;
    let along = cell * sin;
    for (var i = lane; i < SIDE * SIDE; i += LANES) {
        // Sixteen lanes take a square of samples: what they read lies close together, however the grid is turned.
        let square = i / 16u;
        let column = CELL * (square % 5u) + i % 4u;
        let row = CELL * (square / 5u) + (i / 4u) % 4u;
        let u = (f32(column) - 9.5) / f32(CELL);
        let v = (f32(row) - 9.5) / f32(CELL);
        let at = vec2f(point.x + (u * across - v * along), point.y + (u * along + v * across));
        let gradient = gradient_at(begin, shape, at);
        let turned_x = cos * gradient.x + sin * gradient.y;
        let turned_y = cos * gradient.y - sin * gradient.x;
        magnitudes[SIDE * row + column] = sqrt(turned_x * turned_x + turned_y * turned_y);
        directions[SIDE * row + column] = atan2_poly(-turned_y, turned_x) * (DIRECTIONS / (2.0 * PI));
    }
}

// What a sample gives to two directions.
fn shared_by(sample: u32, pair: vec2f) -> vec2f {
    let distance = abs(directions[sample] - pair);
    return max(1.0 - min(distance, abs(DIRECTIONS - distance)), vec2f(0.0)) * magnitudes[sample];
}

// Two bins: eight samples of each of eight rows share in a cell.
fn sum_cell(lane: u32) -> vec2f {
    let cell = vec2u(lane / 4u % 4u, lane / 16u);
    let pair = f32(2u * (lane % 4u)) + vec2f(0.0, 1.0);
    let first = params.shares[2u * cell.x];
    let second = params.shares[2u * cell.x + 1u];
    var sum = vec2f(0.0);
    for (var row = 0u; row < 2u * CELL; row++) {
        let at = SIDE * (CELL * cell.y + row) + CELL * cell.x;
        var row_sum = first.x * shared_by(at, pair);
        row_sum += first.y * shared_by(at + 1u, pair);
        row_sum += first.z * shared_by(at + 2u, pair);
        row_sum += first.w * shared_by(at + 3u, pair);
        row_sum += second.x * shared_by(at + 4u, pair);
        row_sum += second.y * shared_by(at + 5u, pair);
        row_sum += second.z * shared_by(at + 6u, pair);
        row_sum += second.w * shared_by(at + 7u, pair);
        sum += params.shares[2u * cell.y + row / 4u][row % 4u] * row_sum;
    }
    return sum;
}

fn partials(i: u32) -> vec4f {
    return vec4f(partial[i], partial[i + 1u], partial[i + 2u], partial[i + 3u]);
}

// The sum over all bins, two of which are the lane's.
fn sum_bins(own: vec2f, lane: u32) -> f32 {
    bins[2u * lane] = own.x;
    bins[2u * lane + 1u] = own.y;
    workgroupBarrier();
    if lane < 16u {
        var sum = 0.0;
        for (var i = lane; i < BINS; i += 16u) {
            sum += bins[i];
        }
        partial[lane] = sum;
    }
    workgroupBarrier();
    let four = (partials(0u) + partials(8u)) + (partials(4u) + partials(12u));
    let two = four.xy + four.zw;
    return two.x + two.y;
}

@compute @workgroup_size(LANES)
fn main(
    @builtin(workgroup_id) group: vec3u,
    @builtin(num_workgroups) groups: vec3u,
    @builtin(local_invocation_index) lane: u32,
) {
    let index = flat_index(group, groups, 0u, 1u);
    let oriented_point = oriented[min(index, params.n_descriptors - 1u)];
    sample_grid(points[oriented_point.point], oriented_point.angle, lane);
    workgroupBarrier();
    let own = sum_cell(lane);
    let norm = sqrt(sum_bins(own * own, lane));
    let clamped = min(own, vec2f(0.2 * norm));
    let sum = sum_bins(clamped, lane);
    let root = sqrt(clamped / select(1.0, sum, sum > 0.0));
    let quantized = vec2u(min(512.0 * root + 0.5, vec2f(255.0)));
    bytes[lane] = quantized.x | (quantized.y << 8u);
    workgroupBarrier();
    if lane < BINS / 4u && index < params.n_descriptors {
        descriptors[BINS / 4u * index + lane] = bytes[2u * lane] | (bytes[2u * lane + 1u] << 16u);
    }
}
