// The tracker's windows for subgroups of 32 lanes and more: a lane goes down a column of the window. One of up to sixteen
// columns is cut into BANDS of rows, which lie side by side in the SPAN lanes each.
//
// Loops whose line ends with `unroll` are written out by the host: a driver leaves loops that are bounded as they are.

const LANES = 32u;
const BANDS = LANES / SPAN;
const BAND_ROWS = (WINDOW + BANDS - 1u) / BANDS;

// Of the lane's samples: the template less its mean, its gradients weighted.
var<private> template_gray: array<f32, BAND_ROWS>;
var<private> template_x: array<f32, BAND_ROWS>;
var<private> template_y: array<f32, BAND_ROWS>;

// Whether `is_so`: all lanes know the same.
fn agreed(is_so: bool, lane: u32) -> bool {
    return is_so;
}

fn fold(value: vec4f) -> vec4f {
    var sum = value;
    sum += subgroupShuffleXor(sum, 16u);
    sum += subgroupShuffleXor(sum, 8u);
    sum += subgroupShuffleXor(sum, 4u);
    sum += subgroupShuffleXor(sum, 2u);
    sum += subgroupShuffleXor(sum, 1u);
    return sum;
}

fn column_of(lane: u32) -> u32 {
    return lane % SPAN;
}

fn first_row_of(lane: u32) -> u32 {
    return lane / SPAN * BAND_ROWS;
}

// How many of the lane's samples are of the window.
fn n_samples(lane: u32) -> u32 {
    let n_rows = WINDOW - min(first_row_of(lane), WINDOW);
    return select(0u, n_rows, column_of(lane) < WINDOW);
}

// The pixels under a lane's column: the three to each side of it, clamped, and the row above the first.
struct Column {
    begin: u32,
    width: u32,
    last_row: i32,
    first_row: i32,
    pixels: vec3u,
    taps_x: vec3f,
    taps_y: vec3f,
}

fn column_under(begin: u32, level: Level, corner: Corner, lane: u32) -> Column {
    let left = corner.pixel.x - 1 + i32(column_of(lane));
    let pixels = clamp(vec3i(left, left + 1, left + 2), vec3i(0), vec3i(i32(level.width) - 1));
    let first_row = corner.pixel.y - 1 + i32(first_row_of(lane));
    return Column(
        begin, level.width, i32(level.height) - 1, first_row, vec3u(pixels), corner.taps_x, corner.taps_y,
    );
}

// The gray of row `k` of the pixels under the column, interpolated along x.
fn gray_row(column: Column, k: u32) -> f32 {
    let row = u32(clamp(column.first_row + i32(k), 0, column.last_row));
    let at = column.begin + row * column.width + column.pixels;
    return column.taps_x.x * gray[at.x] + column.taps_x.y * gray[at.y] + column.taps_x.z * gray[at.z];
}

// The gradients there, with the taps of those pixels that are in the picture.
fn gradient_row(column: Column, taps_x: vec3f, k: u32) -> vec2f {
    let row = column.first_row + i32(k);
    let clamped = clamp(row, 0, column.last_row);
    let at = column.begin + u32(clamped) * column.width + column.pixels;
    let x = taps_x.x * gradient_x[at.x] + taps_x.y * gradient_x[at.y] + taps_x.z * gradient_x[at.z];
    let y = taps_x.x * gradient_y[at.x] + taps_x.y * gradient_y[at.y] + taps_x.z * gradient_y[at.z];
    return select(vec2f(0.0), vec2f(x, y), row == clamped);
}

fn read_template(frame: u32, level: Level, at: vec2f, lane: u32) -> Template {
    let corner = corner_of(level, at);
    let column = column_under(begin_of(frame, level), level, corner, lane);
    let left = corner.pixel.x - 1 + i32(column_of(lane));
    let taps_inside = select(vec3f(0.0), corner.taps_x, vec3i(left, left + 1, left + 2) == vec3i(column.pixels));
    let count = n_samples(lane);
    var sum = 0.0;
    var above = vec3f(gray_row(column, 0u), gradient_row(column, taps_inside, 0u));
    var centre = vec3f(gray_row(column, 1u), gradient_row(column, taps_inside, 1u));
    for (var k = 0u; k < BAND_ROWS; k++) { // unroll
        let below = vec3f(gray_row(column, k + 2u), gradient_row(column, taps_inside, k + 2u));
        let sample = column.taps_y.x * above + column.taps_y.y * centre + column.taps_y.z * below;
        above = centre;
        centre = below;
        template_gray[k] = select(0.0, sample.x, k < count);
        template_x[k] = sample.y;
        template_y[k] = sample.z;
        sum += template_gray[k];
    }
    let mean = fold(vec4f(sum, 0.0, 0.0, 0.0)).x / COUNT;
    let first_weight = first_row_of(lane) * WINDOW + column_of(lane);
    var first = vec4f();
    var second = vec4f();
    for (var k = 0u; k < BAND_ROWS; k++) { // unroll
        let is_sample = k < count;
        let t = select(0.0, template_gray[k] - mean, is_sample);
        let x = template_x[k];
        let y = template_y[k];
        let w = select(0.0, weights[min(first_weight + k * WINDOW, SAMPLES - 1u)], is_sample);
        let wx = w * x;
        let wy = w * y;
        first += vec4f(t * t, t * wx, t * wy, wx);
        second += vec4f(wy, wx * x, wx * y, wy * y);
        template_gray[k] = t;
        template_x[k] = wx;
        template_y[k] = wy;
    }
    first = fold(first);
    second = fold(second);
    return Template(mean, first.x, vec2f(first.w, second.x), first.yz, second.yzw);
}

// J, J J, J w gx and J w gy over the target window, J its gray less the template's mean.
fn target_sums(frame: u32, level: Level, at: vec2f, mean: f32, lane: u32) -> vec4f {
    let column = column_under(begin_of(frame, level), level, corner_of(level, at), lane);
    let count = n_samples(lane);
    var sums = vec4f();
    var above = gray_row(column, 0u);
    var centre = gray_row(column, 1u);
    for (var k = 0u; k < BAND_ROWS; k++) { // unroll
        let below = gray_row(column, k + 2u);
        let sample = column.taps_y.x * above + column.taps_y.y * centre + column.taps_y.z * below;
        above = centre;
        centre = below;
        let j = select(0.0, sample - mean, k < count);
        sums += vec4f(j, j * j, j * template_x[k], j * template_y[k]);
    }
    return fold(sums);
}

// The windows lie about `start` and `end`.
fn shared_sums(frame: u32, level: Level, start: vec2f, end: vec2f, mean: f32, lane: u32) -> Shared {
    let column = column_under(begin_of(frame, level), level, corner_of(level, end), lane);
    let count = n_samples(lane);
    let offset = vec2f(f32(column_of(lane)), f32(first_row_of(lane))) - HALF;
    var first = vec4f();
    var second = vec4f();
    var above = gray_row(column, 0u);
    var centre = gray_row(column, 1u);
    for (var k = 0u; k < BAND_ROWS; k++) { // unroll
        let below = gray_row(column, k + 2u);
        let sample = column.taps_y.x * above + column.taps_y.y * centre + column.taps_y.z * below;
        above = centre;
        centre = below;
        let down = offset + vec2f(0.0, f32(k));
        let is_shared = k < count && is_inside(level, start + down) && is_inside(level, end + down);
        let s = select(0.0, 1.0, is_shared);
        let t = template_gray[k];
        let j = select(0.0, sample - mean, is_shared);
        first += vec4f(s, s * t, j, s * t * t);
        second += vec4f(j * j, t * j, 0.0, 0.0);
    }
    first = fold(first);
    second = fold(second);
    return Shared(first.x, first.y, first.z, first.w, second.x, second.y);
}
