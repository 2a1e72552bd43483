// Each value times `factor`, more `OFFSET`.

override OFFSET: f32 = 0.0;

struct Params {
    factor: f32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage> values: array<f32>;
@group(0) @binding(2) var<storage, read_write> scaled: array<f32>;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) at: vec3u) {
    if at.x < arrayLength(&scaled) {
        scaled[at.x] = params.factor * values[at.x] + OFFSET;
    }
}
