// The largest of each strip of 4096 values, at least 0.
//
// Values of 0 or more, no NaN, so that the order of comparisons does not matter.
// One workgroup: one strip.
// Same bits as the twin.

struct Params {
    n_values: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage> values: array<f32>;
@group(0) @binding(2) var<storage, read_write> strips: array<f32>;

const LANES = 256u;
const STRIP = 4096u;

var<workgroup> largest: array<f32, LANES>;

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) strip: vec3u, @builtin(local_invocation_index) lane: u32) {
    let end = min((strip.x + 1u) * STRIP, params.n_values);
    var found = 0.0;
    for (var i = strip.x * STRIP + lane; i < end; i += LANES) {
        found = max(found, values[i]);
    }
    largest[lane] = found;
    workgroupBarrier();
    for (var half = LANES / 2u; half > 0u; half /= 2u) {
        if lane < half {
            largest[lane] = max(largest[lane], largest[lane + half]);
        }
        workgroupBarrier();
    }
    if lane == 0u {
        strips[strip.x] = largest[0];
    }
}
