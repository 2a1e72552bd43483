// Sums of all values before each, and of all behind the last.
//
// Integers; `sums` holds one more than `values`.
// One workgroup: all of them.
// Same bits as the twin.

struct Params {
    n_values: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage> values: array<u32>;
@group(0) @binding(2) var<storage, read_write> sums: array<u32>;

const LANES = 256u;

var<workgroup> runs: array<u32, LANES>;

@compute @workgroup_size(256)
fn main(@builtin(local_invocation_index) lane: u32) {
    let run = (params.n_values + LANES - 1u) / LANES;
    let first = min(lane * run, params.n_values);
    let end = min(first + run, params.n_values);
    var sum = 0u;
    for (var i = first; i < end; i++) {
        sum += values[i];
    }
    runs[lane] = sum;
    workgroupBarrier();
    sum = 0u;
    for (var before = 0u; before < lane; before++) {
        sum += runs[before];
    }
    for (var i = first; i < end; i++) {
        sums[i] = sum;
        sum += values[i];
    }
    if lane == LANES - 1u {
        sums[params.n_values] = sum;
    }
}
