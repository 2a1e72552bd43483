// The tracker's windows for any adapter: sixteen lanes hold samples i, i + 16, ... of a window, row by row, and sums fold as
// the twin's, through workgroup memory.

const LANES = 16u;
const CHUNKS = (SAMPLES + LANES - 1u) / LANES;

// The window's rows and the one above and below, interpolated along x; what is behind them is read and not used.
const ROW_CHUNKS = ((WINDOW + 2u) * WINDOW + LANES - 1u) / LANES;
const ROWS_LEN = CHUNKS * LANES + 2u * WINDOW + LANES;

var<workgroup> rows: array<f32, ROWS_LEN>;
var<workgroup> partial: array<vec4f, LANES>;
var<workgroup> is_agreed: u32;

// Of the lane's samples: the template less its mean, its gradients weighted.
var<private> template_gray: array<f32, CHUNKS>;
var<private> template_x: array<f32, CHUNKS>;
var<private> template_y: array<f32, CHUNKS>;

// Whether `is_so`: all lanes know the same, and the compiler knows that they do.
fn agreed(is_so: bool, lane: u32) -> bool {
    if lane == 0u {
        is_agreed = u32(is_so);
    }
    return workgroupUniformLoad(&is_agreed) == 1u;
}

// Sums over the lanes: 8, 4, 2, 1, as `numerics::fold16`.
fn fold(value: vec4f, lane: u32) -> vec4f {
    partial[lane] = value;
    workgroupBarrier();
    var sums: array<vec4f, 8>;
    for (var i = 0u; i < 8u; i++) {
        sums[i] = partial[i] + partial[i + 8u];
    }
    workgroupBarrier();
    for (var width = 4u; width > 0u; width /= 2u) {
        for (var i = 0u; i < width; i++) {
            sums[i] += sums[i + width];
        }
    }
    return sums[0];
}

// Planes of a frame.
const GRAY = 0u;
const GRADIENT_X = 1u;
const GRADIENT_Y = 2u;

fn pixel(plane: u32, i: u32) -> f32 {
    if plane == GRAY {
        return gray[i];
    }
    if plane == GRADIENT_X {
        return gradient_x[i];
    }
    return gradient_y[i];
}

fn is_wholly_inside(level: Level, corner: Corner) -> bool {
    let beyond = vec2i(i32(level.width), i32(level.height)) - i32(WINDOW);
    return all(corner.pixel > vec2i(0)) && all(corner.pixel < beyond);
}

// A place of the rows, of a window wholly inside.
fn row_inside(plane: u32, start: u32, width: u32, corner: Corner, i: u32) -> f32 {
    let at = start + min(i / WINDOW, WINDOW + 1u) * width + i % WINDOW;
    return corner.taps_x.x * pixel(plane, at)
        + corner.taps_x.y * pixel(plane, at + 1u)
        + corner.taps_x.z * pixel(plane, at + 2u);
}

// The same where the window reaches over the border: there lies the border, for gradients zero.
fn row_anywhere(plane: u32, begin: u32, level: Level, corner: Corner, i: u32) -> f32 {
    let size = vec2i(i32(level.width), i32(level.height));
    let column = corner.pixel.x - 1 + i32(i % WINDOW);
    let row = corner.pixel.y - 1 + i32(i / WINDOW);
    let start = begin + u32(clamp(row, 0, size.y - 1)) * level.width;
    let columns = vec3i(column, column + 1, column + 2);
    let clamped = vec3u(clamp(columns, vec3i(0), vec3i(size.x - 1)));
    var values =
        vec3f(pixel(plane, start + clamped.x), pixel(plane, start + clamped.y), pixel(plane, start + clamped.z));
    if plane != GRAY {
        let inside = columns >= vec3i(0) & columns < vec3i(size.x);
        values = select(vec3f(0.0), values, inside & vec3<bool>(row >= 0 && row < size.y));
    }
    return corner.taps_x.x * values.x + corner.taps_x.y * values.y + corner.taps_x.z * values.z;
}

// Interpolates along x the rows under the window, once all lanes are done with those before.
fn read_rows(plane: u32, begin: u32, level: Level, corner: Corner, lane: u32) {
    workgroupBarrier();
    if is_wholly_inside(level, corner) {
        let start = begin + u32(corner.pixel.y - 1) * level.width + u32(corner.pixel.x - 1);
        for (var k = 0u; k < ROW_CHUNKS; k++) {
            let i = k * LANES + lane;
            rows[i] = row_inside(plane, start, level.width, corner, i);
        }
    } else {
        for (var k = 0u; k < ROW_CHUNKS; k++) {
            let i = k * LANES + lane;
            rows[i] = row_anywhere(plane, begin, level, corner, i);
        }
    }
    workgroupBarrier();
}

// The lane's sample `k`, from the rows that were read.
fn sample(corner: Corner, lane: u32, k: u32) -> f32 {
    let i = k * LANES + lane;
    return corner.taps_y.x * rows[i] + corner.taps_y.y * rows[i + WINDOW] + corner.taps_y.z * rows[i + 2u * WINDOW];
}

fn is_sample(lane: u32, k: u32) -> bool {
    return k * LANES + lane < SAMPLES;
}

fn read_template(frame: u32, level: Level, at: vec2f, lane: u32) -> Template {
    let corner = corner_of(level, at);
    let begin = begin_of(frame, level);
    var sum = 0.0;
    read_rows(GRAY, begin, level, corner, lane);
    for (var k = 0u; k < CHUNKS; k++) {
        template_gray[k] = select(0.0, sample(corner, lane, k), is_sample(lane, k));
        sum += template_gray[k];
    }
    read_rows(GRADIENT_X, begin, level, corner, lane);
    for (var k = 0u; k < CHUNKS; k++) {
        template_x[k] = select(0.0, sample(corner, lane, k), is_sample(lane, k));
    }
    read_rows(GRADIENT_Y, begin, level, corner, lane);
    let mean = fold(vec4f(sum, 0.0, 0.0, 0.0), lane).x / params.count;
    var first = vec4f();
    var second = vec4f();
    for (var k = 0u; k < CHUNKS; k++) {
        let t = select(0.0, template_gray[k] - mean, is_sample(lane, k));
        let x = template_x[k];
        let y = select(0.0, sample(corner, lane, k), is_sample(lane, k));
        let w = weights[k * LANES + lane];
        let wx = w * x;
        let wy = w * y;
        first += vec4f(t * t, t * wx, t * wy, wx);
        second += vec4f(wy, wx * x, wx * y, wy * y);
        template_gray[k] = t;
        template_x[k] = wx;
        template_y[k] = wy;
    }
    first = fold(first, lane);
    second = fold(second, lane);
    return Template(mean, first.x, vec2f(first.w, second.x), first.yz, second.yzw);
}

// J, J J, J w gx and J w gy over the target window, J its gray less the template's mean.
fn target_sums(frame: u32, level: Level, at: vec2f, mean: f32, lane: u32) -> vec4f {
    let corner = corner_of(level, at);
    read_rows(GRAY, begin_of(frame, level), level, corner, lane);
    var sums = vec4f();
    for (var k = 0u; k < CHUNKS; k++) {
        let j = select(0.0, sample(corner, lane, k) - mean, is_sample(lane, k));
        sums += vec4f(j, j * j, j * template_x[k], j * template_y[k]);
    }
    return fold(sums, lane);
}

// The windows lie about `start` and `end`.
fn shared_sums(frame: u32, level: Level, start: vec2f, end: vec2f, mean: f32, lane: u32) -> Shared {
    let corner = corner_of(level, end);
    read_rows(GRAY, begin_of(frame, level), level, corner, lane);
    var first = vec4f();
    var second = vec4f();
    for (var k = 0u; k < CHUNKS; k++) {
        let i = k * LANES + lane;
        let offset = vec2f(f32(i % WINDOW), f32(i / WINDOW));
        let is_shared = is_inside(level, start - HALF + offset) && is_inside(level, end - HALF + offset);
        let s = select(0.0, 1.0, is_shared && is_sample(lane, k));
        let t = template_gray[k];
        let j = select(0.0, sample(corner, lane, k) - mean, is_sample(lane, k));
        let st = s * t;
        let sj = s * j;
        first += vec4f(s, st, sj, st * t);
        second += vec4f(sj * j, st * j, 0.0, 0.0);
    }
    first = fold(first, lane);
    second = fold(second, lane);
    return Shared(first.x, first.y, first.z, first.w, second.x, second.y);
}
