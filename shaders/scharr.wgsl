// Scharr gradients of pyramid levels: (3, 10, 3) / 32 across, central difference along.
//
// d/dx and d/dy a pixel of the level (a ramp of slope 1 gives 1). Reads clamp to the border.
// One invocation: one pixel.
// Same bits as the twin where the device does not fuse.

struct Params {
    shape: array<Level, 12>,
    n_levels: u32,
    n_pixels: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage> pyramid: array<f32>;
@group(0) @binding(2) var<storage, read_write> gradient_x: array<f32>;
@group(0) @binding(3) var<storage, read_write> gradient_y: array<f32>;

const SIDE = 3.0 / 32.0;
const CENTRE = 10.0 / 32.0;

fn level_of(pixel: u32) -> Level {
    var level = params.shape[0];
    for (var l = 1u; l < params.n_levels; l++) {
        if params.shape[l].offset <= pixel {
            level = params.shape[l];
        }
    }
    return level;
}

@compute @workgroup_size(256)
fn main(
    @builtin(workgroup_id) group: vec3u,
    @builtin(num_workgroups) groups: vec3u,
    @builtin(local_invocation_index) lane: u32,
) {
    let index = flat_index(group, groups, lane, 256u);
    if index >= params.n_pixels {
        return;
    }
    let pixel = params.shape[0].offset + index;
    let level = level_of(pixel);
    let x = (pixel - level.offset) % level.width;
    let y = (pixel - level.offset) / level.width;
    let columns = vec3u(max(x, 1u) - 1u, x, min(x + 1u, level.width - 1u));
    let above = level.offset + (max(y, 1u) - 1u) * level.width;
    let row = level.offset + y * level.width;
    let below = level.offset + min(y + 1u, level.height - 1u) * level.width;
    let left = vec3f(pyramid[above + columns.x], pyramid[row + columns.x], pyramid[below + columns.x]);
    let centre = vec2f(pyramid[above + columns.y], pyramid[below + columns.y]);
    let right = vec3f(pyramid[above + columns.z], pyramid[row + columns.z], pyramid[below + columns.z]);
    gradient_x[pixel] = SIDE * ((right.x - left.x) + (right.z - left.z)) + CENTRE * (right.y - left.y);
    gradient_y[pixel] = SIDE * ((left.z - left.x) + (right.z - right.x)) + CENTRE * (centre.y - centre.x);
}
