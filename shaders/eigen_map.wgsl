// Smaller eigenvalue of the structure tensor summed over 3 x 3 pixels (Shi and Tomasi 1994).
//
// One value a pixel, 0 or more; exactly zero closer than `margin` to the border. Sum order: rows downwards, each from
// left to right.
// One invocation: one pixel.
// Same bits as the twin where the device does not fuse.

struct Params {
    width: u32,
    height: u32,
    margin: u32,
    begin: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage> gradient_x: array<f32>;
@group(0) @binding(2) var<storage> gradient_y: array<f32>;
@group(0) @binding(3) var<storage, read_write> eigen: array<f32>;

fn is_inside(at: u32, size: u32) -> bool {
    return at >= params.margin && at + params.margin < size;
}

@compute @workgroup_size(32, 8)
fn main(@builtin(global_invocation_id) at: vec3u) {
    if at.x >= params.width || at.y >= params.height {
        return;
    }
    let pixel = at.y * params.width + at.x;
    if !is_inside(at.x, params.width) || !is_inside(at.y, params.height) {
        eigen[pixel] = 0.0;
        return;
    }
    var xx = 0.0;
    var xy = 0.0;
    var yy = 0.0;
    for (var row = 0u; row < 3u; row++) {
        for (var column = 0u; column < 3u; column++) {
            let i = params.begin + pixel + row * params.width + column - params.width - 1u;
            let dx = gradient_x[i];
            let dy = gradient_y[i];
            xx += dx * dx;
            xy += dx * dy;
            yy += dy * dy;
        }
    }
    eigen[pixel] = min_eigenvalue(xx, xy, yy);
}
