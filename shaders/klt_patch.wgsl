// Reads the patches about the starts of new tracks and makes them ready for klt_anchor.
//
// Level 0 of the starts' frame begins at `begin` of the planes; positions in pixels, centres at integers. A slot's samples
// lie in three runs: gray less its weighted mean, then the weighted gradients.
// One workgroup: one track, LANES lanes. Lane i holds samples i, i + LANES, ... of the window, row by row.
// Same bits as the twin with sixteen lanes where the device does not fuse.

struct Params {
    begin: u32,
    first: u32,
    width: u32,
    height: u32,
    window_px: u32,
    min_eigen: f32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage> window: array<vec4f>;
@group(0) @binding(2) var<storage> pyramid: array<f32>;
@group(0) @binding(3) var<storage> gradient_x: array<f32>;
@group(0) @binding(4) var<storage> gradient_y: array<f32>;
@group(0) @binding(5) var<storage> starts: array<TrackRecord>;
@group(0) @binding(6) var<storage> slots: array<u32>;
@group(0) @binding(7) var<storage, read_write> sums: array<PatchSums>;
@group(0) @binding(8) var<storage, read_write> samples: array<f32>;
@group(0) @binding(9) var<storage, read_write> anchors: array<AnchorRecord>;

// The matrix of the normal equations by rows of its lower triangle, its Cholesky factor and the factor's inverse.
var<workgroup> products: array<f32, 21>;
var<workgroup> factor: array<f32, 36>;
var<workgroup> lower: array<f32, 36>;
var<workgroup> has_structure: u32;

// The pixels of a sample, clamped into the picture, and which of them lie inside.
struct Pixels {
    start: vec3u,
    column: vec3u,
    row_is_inside: vec3<bool>,
    column_is_inside: vec3<bool>,
}

fn pixels_of(middle: vec2i) -> Pixels {
    let size = vec2i(i32(params.width), i32(params.height));
    let columns = middle.x + vec3i(-1, 0, 1);
    let rows = middle.y + vec3i(-1, 0, 1);
    let inside_columns = clamp(columns, vec3i(0), vec3i(size.x - 1));
    let inside_rows = clamp(rows, vec3i(0), vec3i(size.y - 1));
    return Pixels(
        params.begin + vec3u(inside_rows) * params.width,
        vec3u(inside_columns),
        rows == inside_rows,
        columns == inside_columns,
    );
}

fn gray_line(start: u32, pixels: Pixels, x: vec3f) -> f32 {
    return x.x * pyramid[start + pixels.column.x]
        + x.y * pyramid[start + pixels.column.y]
        + x.z * pyramid[start + pixels.column.z];
}

fn gray_of(pixels: Pixels, x: vec3f, y: vec3f) -> f32 {
    return y.x * gray_line(pixels.start.x, pixels, x)
        + y.y * gray_line(pixels.start.y, pixels, x)
        + y.z * gray_line(pixels.start.z, pixels, x);
}

// Both gradients; they are zero outside.
fn gradient_line(row: u32, pixels: Pixels, x: vec3f) -> vec2f {
    let at = pixels.start[row] + pixels.column;
    let inside = pixels.column_is_inside & vec3<bool>(pixels.row_is_inside[row]);
    let gx = select(vec3f(0.0), vec3f(gradient_x[at.x], gradient_x[at.y], gradient_x[at.z]), inside);
    let gy = select(vec3f(0.0), vec3f(gradient_y[at.x], gradient_y[at.y], gradient_y[at.z]), inside);
    return vec2f(x.x * gx.x + x.y * gx.y + x.z * gx.z, x.x * gy.x + x.y * gy.y + x.z * gy.z);
}

fn gradient_of(pixels: Pixels, x: vec3f, y: vec3f) -> vec2f {
    return y.x * gradient_line(0u, pixels, x)
        + y.y * gradient_line(1u, pixels, x)
        + y.z * gradient_line(2u, pixels, x);
}

// Weight, gray, energy, descent and moment as in `PatchSums`, then w D D', D the steepest descent images, by rows of its
// lower triangle.
struct Normal {
    a: Twelve,
    b: Twelve,
    c: Twelve,
}

// Reads the samples of a patch, `run` apart from `begin` on, and sums over them. Returns the mean beside.
fn read_patch(at: vec2f, begin: u32, run: u32, lane: u32, mean: ptr<function, f32>) -> Normal {
    let side = params.window_px;
    let n_samples = side * side;
    // A window wholly outside sees the border only, wherever it is.
    let beyond = f32(side) - 0.5;
    let half = f32(side / 2u);
    let left = clamp(at.x - half, -beyond, f32(params.width));
    let top = clamp(at.y - half, -beyond, f32(params.height));
    let nearest = vec2f(floor(left + 0.5), floor(top + 0.5));
    let x = taps(left - nearest.x);
    let y = taps(top - nearest.y);
    let corner = vec2i(nearest);
    var for_mean: Twelve;
    for (var first = 0u; first < n_samples; first += LANES) {
        let i = first + lane;
        if i < n_samples {
            let t = gray_of(pixels_of(corner + vec2i(i32(i % side), i32(i / side))), x, y);
            let w = window[i].x;
            samples[begin + i] = t;
            for_mean.first += vec4f(w, w * t, 0.0, 0.0);
        }
    }
    for_mean = fold(for_mean, lane);
    *mean = for_mean.first.y / for_mean.first.x;
    var a: Twelve;
    var b: Twelve;
    var c: Twelve;
    for (var first = 0u; first < n_samples; first += LANES) {
        let i = first + lane;
        if i < n_samples {
            let place = window[i];
            let w = place.x;
            let u = place.y;
            let v = place.z;
            let t = samples[begin + i] - *mean;
            let g = gradient_of(pixels_of(corner + vec2i(i32(i % side), i32(i / side))), x, y);
            let d = array<f32, 6>(g.x, g.y, u * g.x, v * g.x, u * g.y, v * g.y);
            let e = array<f32, 6>(w * d[0], w * d[1], w * d[2], w * d[3], w * d[4], w * d[5]);
            samples[begin + i] = t;
            samples[begin + run + i] = e[0];
            samples[begin + 2u * run + i] = e[1];
            a.first += vec4f(w, w * t, w * t * t, e[0]);
            a.second += vec4f(e[1], e[2], e[3], e[4]);
            a.third += vec4f(e[5], e[0] * t, e[1] * t, e[2] * t);
            b.first += vec4f(e[3] * t, e[4] * t, e[5] * t, e[0] * d[0]);
            b.second += vec4f(e[1] * d[0], e[1] * d[1], e[2] * d[0], e[2] * d[1]);
            b.third += vec4f(e[2] * d[2], e[3] * d[0], e[3] * d[1], e[3] * d[2]);
            c.first += vec4f(e[3] * d[3], e[4] * d[0], e[4] * d[1], e[4] * d[2]);
            c.second += vec4f(e[4] * d[3], e[4] * d[4], e[5] * d[0], e[5] * d[1]);
            c.third += vec4f(e[5] * d[2], e[5] * d[3], e[5] * d[4], e[5] * d[5]);
        }
    }
    return Normal(fold(a, lane), fold(b, lane), fold(c, lane));
}

fn keep_products(first: u32, values: vec4f) {
    products[first] = values.x;
    products[first + 1u] = values.y;
    products[first + 2u] = values.z;
    products[first + 3u] = values.w;
}

// Keeps the sums of a slot.
fn keep(slot: u32, mean: f32, n: Normal) {
    let a = n.a;
    let b = n.b;
    sums[slot].mean = mean;
    sums[slot].weight = a.first.x;
    sums[slot].gray = a.first.y;
    sums[slot].energy = a.first.z;
    sums[slot].descent = array<f32, 6>(a.first.w, a.second.x, a.second.y, a.second.z, a.second.w, a.third.x);
    sums[slot].moment = array<f32, 6>(a.third.y, a.third.z, a.third.w, b.first.x, b.first.y, b.first.z);
    products[0] = b.first.w;
    keep_products(1u, b.second);
    keep_products(5u, b.third);
    keep_products(9u, n.c.first);
    keep_products(13u, n.c.second);
    keep_products(17u, n.c.third);
}

// The Cholesky factor of the normal equations of a slot with gain and offset projected out; 0 where a pivot is smaller than
// `least` or not above 0, else 1.
fn factorize(slot: u32, least: f32) -> u32 {
    let weight = sums[slot].weight;
    let energy = sums[slot].energy;
    var product = 0u;
    var is_whole = 1u;
    for (var i = 0u; i < 6u; i++) {
        for (var j = 0u; j <= i; j++) {
            let offset = sums[slot].descent[i] * sums[slot].descent[j] / weight;
            let gain = sums[slot].moment[i] * sums[slot].moment[j] / energy;
            var rest = products[product] - offset - gain;
            product++;
            for (var k = 0u; k < j; k++) {
                rest -= factor[6u * i + k] * factor[6u * j + k];
            }
            if i == j {
                is_whole = select(0u, is_whole, rest >= least && rest > 0.0);
                factor[7u * i] = sqrt(rest);
            } else {
                factor[6u * i + j] = rest / factor[7u * j];
            }
        }
    }
    return is_whole;
}

// Column `j` of the factor's inverse.
fn invert_column(j: u32) {
    for (var i = j; i < 6u; i++) {
        var rest = select(0.0, 1.0, i == j);
        for (var k = j; k < i; k++) {
            rest -= factor[6u * i + k] * lower[6u * k + j];
        }
        lower[6u * i + j] = rest / factor[7u * i];
    }
}

// An element of the product of the factor's inverse, transposed, and itself.
fn inverse_at(i: u32, j: u32) -> f32 {
    var sum = 0.0;
    for (var k = max(i, j); k < 6u; k++) {
        sum += lower[6u * k + i] * lower[6u * k + j];
    }
    return sum;
}

@compute @workgroup_size(LANES)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) lane: u32) {
    let track = params.first + group.x;
    if (slots[track] & IS_NEW) != 0u {
        let slot = slots[track] & ~IS_NEW;
        let at = vec2f(starts[track].x, starts[track].y);
        let run = (params.window_px * params.window_px + 15u) / 16u * 16u;
        var mean: f32;
        let normal = read_patch(at, 3u * run * slot, run, lane, &mean);
        if lane == 0u {
            keep(slot, mean, normal);
            has_structure = factorize(slot, params.min_eigen * normal.a.first.x);
            anchors[slot] = AnchorRecord(at.x, at.y, 1.0, 0.0, 0.0, 1.0, 0.0, 0.0);
        }
        workgroupBarrier();
        if lane < 6u {
            invert_column(lane);
        }
        workgroupBarrier();
        for (var i = lane; i < 36u; i += LANES) {
            sums[slot].inverse[i] = select(0.0, inverse_at(i / 6u, i % 6u), has_structure == 1u);
        }
    }
}
