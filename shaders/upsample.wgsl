// Doubles a gray image by linear interpolation.
//
// Pixel (2x, 2y) of the target is pixel (x, y) of the source: centres stay at integers. Border clamped.
// One invocation: four pixels of the target, two a side.
// Same bits as the twin.

struct Params {
    source: u32,
    doubled: u32,
    width: u32,
    height: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read_write> layers: array<f32>;

@compute @workgroup_size(32, 8)
fn main(@builtin(global_invocation_id) pixel: vec3u) {
    let width = params.width;
    if pixel.x >= width || pixel.y >= params.height {
        return;
    }
    let next = min(pixel.x + 1u, width - 1u);
    let upper = params.source + pixel.y * width;
    let lower = params.source + min(pixel.y + 1u, params.height - 1u) * width;
    let here = layers[upper + pixel.x];
    let right = layers[upper + next];
    let below = 0.5 * (here + layers[lower + pixel.x]);
    let below_right = 0.5 * (right + layers[lower + next]);
    let corner = params.doubled + 4u * pixel.y * width + 2u * pixel.x;
    layers[corner] = here;
    layers[corner + 1u] = 0.5 * (here + right);
    layers[corner + 2u * width] = below;
    layers[corner + 2u * width + 1u] = 0.5 * (below + below_right);
}
