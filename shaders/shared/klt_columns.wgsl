// The tracker's windows for subgroups of 32 lanes and more, lane i of the workgroup lane i of a subgroup: a lane goes down a
// column of the window. One of up to sixteen columns is cut into BANDS of BAND_ROWS rows, which lie side by side in SPAN
// lanes each; the host says how many.
//
// Loops whose line ends with `unroll` are written out by the host: a driver leaves loops that are bounded as they are.

const LANES = 32u;
const BANDS = LANES / SPAN;
// Whether a lane's neighbours hold the pixels beside its own.
const ARE_SHARED = SPAN >= WINDOW + 2u;
// Rows that every band of samples has.
const FULL_ROWS = select(WINDOW % BAND_ROWS, BAND_ROWS, WINDOW % BAND_ROWS == 0u);

// Of the lane's samples: the template less its mean, its gradients weighted.
var<private> template_gray: array<f32, BAND_ROWS>;
var<private> template_x: array<f32, BAND_ROWS>;
var<private> template_y: array<f32, BAND_ROWS>;

// Whether `is_so`: all lanes know the same.
fn agreed(is_so: bool, lane: u32) -> bool {
    return is_so;
}

// Sum over the lanes: 16, 8, 4, 2, 1.
fn fold_one(value: f32) -> f32 {
    var sum = value;
    sum += subgroupShuffleXor(sum, 16u);
    sum += subgroupShuffleXor(sum, 8u);
    sum += subgroupShuffleXor(sum, 4u);
    sum += subgroupShuffleXor(sum, 2u);
    sum += subgroupShuffleXor(sum, 1u);
    return sum;
}

// The same of four at once: while the lanes halve, each half goes on with half of the sums.
fn fold(value: vec4f, lane: u32) -> vec4f {
    let is_upper = (lane & 16u) != 0u;
    let two = select(value.xy, value.zw, is_upper) + subgroupShuffleXor(select(value.zw, value.xy, is_upper), 16u);
    let is_second = (lane & 8u) != 0u;
    var one = select(two.x, two.y, is_second) + subgroupShuffleXor(select(two.y, two.x, is_second), 8u);
    one += subgroupShuffleXor(one, 4u);
    one += subgroupShuffleXor(one, 2u);
    one += subgroupShuffleXor(one, 1u);
    return vec4f(subgroupShuffle(one, 0u), subgroupShuffle(one, 8u), subgroupShuffle(one, 16u), subgroupShuffle(one, 24u));
}

// The same of lanes that have samples; what others hold is nothing.
fn fold_samples(value: vec4f, lane: u32) -> vec4f {
    return fold(select(vec4f(0.0), value, n_samples(lane) > 0u), lane);
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

// What lies under a lane's column: pixel columns, those outside clamped, `inside` 1 for the others, else 0; and the row of
// pixels above its first sample.
struct Column {
    begin: u32,
    width: u32,
    last_row: i32,
    first_row: i32,
    pixels: vec3u,
    inside: vec3f,
    taps_x: vec3f,
    taps_y: vec3f,
}

fn column_under(begin: u32, level: Level, corner: Corner, lane: u32) -> Column {
    let left = corner.pixel.x - 1 + i32(column_of(lane));
    let pixels = vec3i(left, left + 1, left + 2);
    let clamped = clamp(pixels, vec3i(0), vec3i(i32(level.width) - 1));
    let inside = select(vec3f(0.0), vec3f(1.0), pixels == clamped);
    let first_row = corner.pixel.y - 1 + i32(first_row_of(lane));
    let last_row = i32(level.height) - 1;
    return Column(begin, level.width, last_row, first_row, vec3u(clamped), inside, corner.taps_x, corner.taps_y);
}

// Three pixels' values from the lane's own, where the lanes beside it hold the others.
fn shared_taps(taps_x: vec3f, own: f32) -> f32 {
    return taps_x.x * own + taps_x.y * subgroupShuffleDown(own, 1u) + taps_x.z * subgroupShuffleDown(own, 2u);
}

// The gray of row `k` of the pixels under the column, interpolated along x.
fn gray_row(column: Column, k: u32) -> f32 {
    let row = u32(clamp(column.first_row + i32(k), 0, column.last_row));
    let at = column.begin + row * column.width + column.pixels;
    if ARE_SHARED {
        return shared_taps(column.taps_x, gray[at.x]);
    }
    return column.taps_x.x * gray[at.x] + column.taps_x.y * gray[at.y] + column.taps_x.z * gray[at.z];
}

// The gradients there, zero outside of the picture.
fn gradient_row(column: Column, k: u32) -> vec2f {
    let row = column.first_row + i32(k);
    let clamped = clamp(row, 0, column.last_row);
    let at = column.begin + u32(clamped) * column.width + column.pixels;
    if ARE_SHARED {
        let is_shown = row == clamped && column.inside.x > 0.0;
        let x = shared_taps(column.taps_x, select(0.0, gradient_x[at.x], is_shown));
        let y = shared_taps(column.taps_x, select(0.0, gradient_y[at.x], is_shown));
        return vec2f(x, y);
    }
    let taps_x = column.taps_x * column.inside;
    let x = taps_x.x * gradient_x[at.x] + taps_x.y * gradient_x[at.y] + taps_x.z * gradient_x[at.z];
    let y = taps_x.x * gradient_y[at.x] + taps_x.y * gradient_y[at.y] + taps_x.z * gradient_y[at.z];
    return select(vec2f(0.0), vec2f(x, y), row == clamped);
}

// The value where the lane has a sample `k`, for rows that not every band has; lanes without any sample count nowhere.
fn counted(value: f32, k: u32, count: u32) -> f32 {
    if k < FULL_ROWS {
        return value;
    }
    return select(0.0, value, k < count);
}

fn read_template(frame: u32, level: Level, at: vec2f, lane: u32) -> Template {
    let column = column_under(begin_of(frame, level), level, corner_of(level, at), lane);
    let count = n_samples(lane);
    var sum = 0.0;
    var above = vec3f(gray_row(column, 0u), gradient_row(column, 0u));
    var centre = vec3f(gray_row(column, 1u), gradient_row(column, 1u));
    for (var k = 0u; k < BAND_ROWS; k++) { // unroll
        let below = vec3f(gray_row(column, k + 2u), gradient_row(column, k + 2u));
        let sample = column.taps_y.x * above + column.taps_y.y * centre + column.taps_y.z * below;
        above = centre;
        centre = below;
        template_gray[k] = counted(sample.x, k, count);
        template_x[k] = sample.y;
        template_y[k] = sample.z;
        sum += template_gray[k];
    }
    let mean = fold_one(select(0.0, sum, count > 0u)) / params.count;
    let first_weight = first_row_of(lane) * WINDOW + column_of(lane);
    var first = vec4f();
    var second = vec4f();
    for (var k = 0u; k < BAND_ROWS; k++) { // unroll
        let t = counted(template_gray[k] - mean, k, count);
        let x = template_x[k];
        let y = template_y[k];
        let w = counted(weights[min(first_weight + k * WINDOW, SAMPLES - 1u)], k, count);
        let wx = w * x;
        let wy = w * y;
        first += vec4f(t * t, t * wx, t * wy, wx);
        second += vec4f(wy, wx * x, wx * y, wy * y);
        template_gray[k] = t;
        template_x[k] = wx;
        template_y[k] = wy;
    }
    first = fold_samples(first, lane);
    second = fold_samples(second, lane);
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
        let j = counted(sample - mean, k, count);
        sums += vec4f(j, j * j, j * template_x[k], j * template_y[k]);
    }
    return fold_samples(sums, lane);
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
    first = fold_samples(first, lane);
    second = fold_samples(second, lane);
    return Shared(first.x, first.y, first.z, first.w, second.x, second.y);
}
