// The values of an eigenvalue map at points.
//
// Positions in pixels, centres at integers: the value of the nearest pixel, zero outside the map.
// One invocation: one point.
// Same bits as the twin.

struct Params {
    width: u32,
    height: u32,
    n_points: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage> eigen: array<f32>;
@group(0) @binding(2) var<storage> points: array<vec2f>;
@group(0) @binding(3) var<storage, read_write> values: array<f32>;

@compute @workgroup_size(64)
fn main(
    @builtin(workgroup_id) group: vec3u,
    @builtin(num_workgroups) groups: vec3u,
    @builtin(local_invocation_index) lane: u32,
) {
    let i = flat_index(group, groups, lane, 64u);
    if i >= params.n_points {
        return;
    }
    let pixel = floor(points[i] + 0.5);
    let size = vec2f(f32(params.width), f32(params.height));
    if all(pixel >= vec2f(0.0)) && all(pixel < size) {
        values[i] = eigen[u32(pixel.y) * params.width + u32(pixel.x)];
    } else {
        values[i] = 0.0;
    }
}
