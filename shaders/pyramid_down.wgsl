// Pyramid levels from a finer one: taps (1, 4, 6, 4, 1) / 16, x then y, then every second pixel.
//
// Pixel (x, y) of a level lies at (2x, 2y) of the finer one. Reads clamp to the border. The blur in x is rounded to f32
// before the blur in y.
// One workgroup: 4 x 4 pixels of the coarsest level made, and of the finer ones what it needs for them.
// Same bits as the twin where the device does not fuse.

struct Params {
    shape: array<Level, 12>,
    finest: u32,
    n_made: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read_write> pyramid: array<f32>;

const LANES = 256u;
const TILE = 4;

// 4 pixels a side need 11 of the level before, those 25, those 53.
var<workgroup> blurred_x: array<f32, 53 * 25>;
var<workgroup> made: array<f32, 25 * 25>;

fn taps(a: f32, b: f32, c: f32, d: f32, e: f32) -> f32 {
    return 0.0625 * (a + e) + 0.25 * (b + d) + 0.375 * c;
}

// Pixels of one level that the workgroup needs.
struct Region {
    corner: vec2i,
    size: i32,
}

// What level `k` behind the finest needs, so that the tile can be made.
fn region(tile: vec2u, k: u32) -> Region {
    var needed = Region(vec2i(tile) * TILE, TILE);
    for (var level = params.n_made; level > k; level--) {
        needed = Region(2 * needed.corner - 2, 2 * needed.size + 3);
    }
    return needed;
}

// Column or row of one of the five taps.
fn clamped(centre: i32, offset: i32, size: u32) -> i32 {
    return clamp(centre + offset, 0, i32(size) - 1);
}

// A pixel of the level before: the finest lies in the pyramid, the others in the workgroup.
fn finer_pixel(k: u32, finer: Level, needed: Region, x: i32, y: i32) -> f32 {
    if k == 1u {
        return pyramid[finer.offset + u32(y) * finer.width + u32(x)];
    }
    let at = vec2i(x, y) - needed.corner;
    return made[at.y * needed.size + at.x];
}

fn blur_x(k: u32, finer: Level, level: Level, needed: Region, out: Region, i: i32) {
    let x = 2 * clamp(out.corner.x + i % out.size, 0, i32(level.width) - 1);
    let y = clamp(needed.corner.y + i / out.size, 0, i32(finer.height) - 1);
    let a = finer_pixel(k, finer, needed, clamped(x, -2, finer.width), y);
    let b = finer_pixel(k, finer, needed, clamped(x, -1, finer.width), y);
    let c = finer_pixel(k, finer, needed, clamped(x, 0, finer.width), y);
    let d = finer_pixel(k, finer, needed, clamped(x, 1, finer.width), y);
    let e = finer_pixel(k, finer, needed, clamped(x, 2, finer.width), y);
    blurred_x[i] = taps(a, b, c, d, e);
}

fn blurred_row(finer: Level, needed: Region, out: Region, column: i32, y: i32, offset: i32) -> f32 {
    let row = clamped(y, offset, finer.height) - needed.corner.y;
    return blurred_x[row * out.size + column];
}

fn blur_y(finer: Level, level: Level, needed: Region, out: Region, i: i32) -> f32 {
    let column = i % out.size;
    let y = 2 * clamp(out.corner.y + i / out.size, 0, i32(level.height) - 1);
    let a = blurred_row(finer, needed, out, column, y, -2);
    let b = blurred_row(finer, needed, out, column, y, -1);
    let c = blurred_row(finer, needed, out, column, y, 0);
    let d = blurred_row(finer, needed, out, column, y, 1);
    let e = blurred_row(finer, needed, out, column, y, 2);
    return taps(a, b, c, d, e);
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) lane: u32) {
    for (var k = 1u; k <= params.n_made; k++) {
        let finer = params.shape[params.finest + k - 1u];
        let level = params.shape[params.finest + k];
        let needed = region(group.xy, k - 1u);
        let out = region(group.xy, k);
        for (var i = lane; i < u32(out.size * needed.size); i += LANES) {
            blur_x(k, finer, level, needed, out, i32(i));
        }
        workgroupBarrier();
        // Of what is made here, other workgroups make the rim too.
        let own = TILE << (params.n_made - k);
        let corner = vec2i(group.xy) * own;
        for (var i = lane; i < u32(out.size * out.size); i += LANES) {
            let value = blur_y(finer, level, needed, out, i32(i));
            made[i] = value;
            let at = out.corner + vec2i(i32(i) % out.size, i32(i) / out.size);
            let is_own = all(at >= corner) && all(at < corner + own);
            if is_own && all(at < vec2i(i32(level.width), i32(level.height))) {
                pyramid[level.offset + u32(at.y) * level.width + u32(at.x)] = value;
            }
        }
        workgroupBarrier();
    }
}
