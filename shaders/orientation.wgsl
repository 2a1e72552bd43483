// Dominant orientations of keypoints (Lowe 2004, section 5): the peaks of a smoothed histogram of 36 bins of the gradients
// around each.
//
// Gray in [0, 1]; positions in pixels of the octave, centres at integers; angles in (-pi, pi], x towards y, the strongest
// first. Lanes add to the histogram in whole units, so that their order does not count.
// One workgroup: one keypoint; lane i takes samples i, i + LANES, ... of the window and bin i.
// Same angles as the twin but for rounding to units: 4e9 or less are shared by all samples of a window.

struct Params {
    octaves: array<OctaveShape, 16>,
    n_points: u32,
    max_orientations: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage> points: array<SiftPoint>;
@group(0) @binding(2) var<storage> gaussians: array<f32>;
@group(0) @binding(3) var<storage, read_write> angles: array<f32>;
@group(0) @binding(4) var<storage, read_write> counts: array<u32>;

const LANES = 64u;
const PI = 3.14159274;
const BINS = 36u;
const MOST_ANGLES = 4u;
const MAX_RADIUS = 45.0;
const MAX_SIDE = 91u;
const SMOOTHINGS = 6u;
const PEAK_RATIO = 0.8;
// Neighbouring lanes mostly hit one bin: each adds to a copy of its own.
const COPIES = 4u;

var<workgroup> units: array<atomic<u32>, BINS * COPIES>;
var<workgroup> column_weights: array<f32, MAX_SIDE>;
var<workgroup> row_weights: array<f32, MAX_SIDE>;
// Two histograms, smoothed from one into the other.
var<workgroup> histogram: array<f32, 2 * BINS>;
var<workgroup> highest: atomic<u32>;
var<workgroup> heights: array<f32, BINS>;
var<workgroup> n_peaks: atomic<u32>;

// The pixels near a point that have neighbours on both sides, along an axis.
struct Span {
    start: u32,
    len: u32,
}

fn span(centre: f32, radius: i32, first: u32, size: u32) -> Span {
    let nearest = i32(centre + 0.5);
    let start = max(nearest - radius, i32(first) + 1);
    let end = min(nearest + radius + 1, i32(first + size) - 1);
    return Span(u32(start), u32(max(end - start, 0)));
}

fn gaussian(distance: f32, sigma: f32) -> f32 {
    let ratio = distance / sigma;
    return exp(-0.5 * ratio * ratio);
}

// Units of a weight of 1. A Gaussian at integers sums to no more than its peak and its integral, 1 + sqrt(2 pi) sigma, and
// magnitudes are held to 1.5 (gray in [0, 1] has sqrt(2)): at most 4e9 units, and 2 x 91 x 91 roundings of at most a half.
fn units_of_one(sigma: f32) -> f32 {
    let sum = 1.0 + 2.506629 * sigma;
    return 4e9 / (1.5 * sum * sum);
}

fn add(bin: u32, lane: u32, weight: f32) {
    let whole = select(bin, bin - BINS, bin >= BINS);
    atomicAdd(&units[COPIES * whole + lane % COPIES], u32(weight + 0.5));
}

fn add_sample(pixel: u32, width: u32, weight: f32, lane: u32) {
    let gradient_x = gaussians[pixel + 1u] - gaussians[pixel - 1u];
    let gradient_y = gaussians[pixel + width] - gaussians[pixel - width];
    let magnitude = min(sqrt(gradient_x * gradient_x + gradient_y * gradient_y), 1.5);
    let place = (atan2_poly(gradient_y, gradient_x) + PI) * (f32(BINS) / (2.0 * PI));
    let bin = u32(place);
    let share = place - f32(bin);
    add(bin, lane, (1.0 - share) * (magnitude * weight));
    add(bin + 1u, lane, share * (magnitude * weight));
}

fn add_window(point: SiftPoint, lane: u32) {
    let shape = params.octaves[point.octave];
    let sigma = 1.5 * point.scale;
    let radius = i32(clamp(3.0 * sigma, 1.0, MAX_RADIUS));
    let columns = span(point.x, radius, 0u, shape.width);
    let rows = span(point.y, radius, shape.first_row, shape.height);
    for (var i = lane; i < columns.len; i += LANES) {
        column_weights[i] = gaussian(f32(columns.start + i) - point.x, sigma) * units_of_one(sigma);
    }
    for (var i = lane; i < rows.len; i += LANES) {
        row_weights[i] = gaussian(f32(rows.start + i) - point.y, sigma);
    }
    workgroupBarrier();
    let first_row = rows.start - shape.first_row;
    let begin = layer_begin(shape, point) + first_row * shape.width + columns.start;
    // An integer's quotient through floats: half a sample more keeps it clear of whole numbers.
    let rows_a_sample = 1.0 / f32(max(columns.len, 1u));
    for (var i = lane; i < columns.len * rows.len; i += LANES) {
        let row = u32((f32(i) + 0.5) * rows_a_sample);
        let column = i - row * columns.len;
        let weight = column_weights[column] * row_weights[row];
        add_sample(begin + row * shape.width + column, shape.width, weight, lane);
    }
}

fn left_of(bin: u32) -> u32 {
    return select(bin - 1u, BINS - 1u, bin == 0u);
}

fn right_of(bin: u32) -> u32 {
    return select(bin + 1u, 0u, bin == BINS - 1u);
}

fn smooth_histogram(lane: u32) {
    if lane < BINS {
        var sum = 0u;
        for (var copy = 0u; copy < COPIES; copy++) {
            sum += atomicLoad(&units[COPIES * lane + copy]);
        }
        histogram[lane] = f32(sum);
    }
    workgroupBarrier();
    for (var i = 0u; i < SMOOTHINGS; i++) {
        let before = BINS * (i % 2u);
        if lane < BINS {
            let left = histogram[before + left_of(lane)];
            let right = histogram[before + right_of(lane)];
            histogram[BINS - before + lane] = (left + histogram[before + lane] + right) / 3.0;
        }
        workgroupBarrier();
    }
}

// The angle of a peak, placed by a parabola. Bin i stands for the angle i / 36 of a turn from -pi.
fn peak_angle(bin: u32) -> f32 {
    let left = histogram[left_of(bin)];
    let right = histogram[right_of(bin)];
    let offset = 0.5 * (left - right) / (left - 2.0 * histogram[bin] + right);
    let angle = (f32(bin) + offset) * (2.0 * PI / f32(BINS)) - PI;
    return select(angle, angle + 2.0 * PI, angle <= -PI);
}

fn is_peak(bin: u32) -> bool {
    let here = histogram[bin];
    return here > histogram[left_of(bin)]
        && here > histogram[right_of(bin)]
        && here >= PEAK_RATIO * bitcast<f32>(atomicLoad(&highest));
}

// How many peaks come before one: higher ones, and equal ones of lower bins.
fn rank(bin: u32) -> u32 {
    var n = 0u;
    for (var other = 0u; other < BINS; other++) {
        let comes_first = heights[other] > heights[bin] || (heights[other] == heights[bin] && other < bin);
        n += select(0u, 1u, comes_first);
    }
    return n;
}

@compute @workgroup_size(LANES)
fn main(
    @builtin(workgroup_id) group: vec3u,
    @builtin(num_workgroups) groups: vec3u,
    @builtin(local_invocation_index) lane: u32,
) {
    let index = flat_index(group, groups, 0u, 1u);
    let point = points[min(index, params.n_points - 1u)];
    for (var i = lane; i < BINS * COPIES; i += LANES) {
        atomicStore(&units[i], 0u);
    }
    if lane == 0u {
        atomicStore(&highest, 0u);
        atomicStore(&n_peaks, 0u);
    }
    add_window(point, lane);
    workgroupBarrier();
    smooth_histogram(lane);
    if lane < BINS {
        // Floats that are not negative have the order of their bits.
        atomicMax(&highest, bitcast<u32>(histogram[lane]));
    }
    workgroupBarrier();
    if lane < BINS {
        let has_peak = is_peak(lane);
        heights[lane] = select(0.0, histogram[lane], has_peak);
        atomicAdd(&n_peaks, select(0u, 1u, has_peak));
    }
    workgroupBarrier();
    let n = min(atomicLoad(&n_peaks), params.max_orientations);
    if index < params.n_points {
        if lane < BINS && heights[min(lane, BINS - 1u)] > 0.0 {
            let place = rank(lane);
            if place < n {
                angles[MOST_ANGLES * index + place] = peak_angle(lane);
            }
        }
        if lane >= n && lane < MOST_ANGLES {
            angles[MOST_ANGLES * index + lane] = 0.0;
        }
        if lane == 0u {
            counts[index] = n;
        }
    }
}
