// Gray at analysis size of an interleaved RGB picture: Rec. 601 luma in [0, 1], area averaged.
//
// An output pixel is the weighted mean of the samples its taps name, first down the column, then along the row.
// One invocation: one output pixel.
// Same bits as the twin where the device does not fuse.

struct Params {
    stride: u32,
    columns_per_pixel: u32,
    rows_per_pixel: u32,
    width: u32,
    height: u32,
    white: f32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage> rgb: array<u32>;
@group(0) @binding(2) var<storage> columns_first: array<u32>;
@group(0) @binding(3) var<storage> columns_weights: array<f32>;
@group(0) @binding(4) var<storage> rows_first: array<u32>;
@group(0) @binding(5) var<storage> rows_weights: array<f32>;
@group(0) @binding(6) var<storage, read_write> gray: array<f32>;

fn byte(i: u32) -> f32 {
    return f32((rgb[i / 4u] >> (8u * (i % 4u))) & 255u);
}

fn sample(x: u32, y: u32) -> f32 {
    let i = y * params.stride + 3u * x;
    return 0.299 * byte(i) + 0.587 * byte(i + 1u) + 0.114 * byte(i + 2u);
}

@compute @workgroup_size(32, 8)
fn main(@builtin(global_invocation_id) at: vec3u) {
    if at.x >= params.width || at.y >= params.height {
        return;
    }
    gray[at.y * params.width + at.x] = min(area_average(at.xy) / params.white, 1.0);
}
