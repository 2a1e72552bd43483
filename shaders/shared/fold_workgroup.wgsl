// What lanes of a track say to each other, through workgroup memory: for any adapter.

var<workgroup> partial: array<vec4f, 16>;
var<workgroup> is_any_active: u32;

// Sums over sixteen lanes: 8, 4, 2, 1, as `numerics::fold16`. Both halves hold the same.
fn fold(value: vec4f, lane: u32) -> vec4f {
    if lane < 16u {
        partial[lane] = value;
    }
    workgroupBarrier();
    var sums: array<vec4f, 8>;
    for (var i = 0u; i < 8u; i++) {
        sums[i] = partial[i] + partial[i + 8u];
    }
    workgroupBarrier();
    for (var width = 4u; width > 0u; width /= 2u) {
        for (var i = 0u; i < width; i++) {
            sums[i] += sums[i + width];
        }
    }
    return sums[0];
}

// Samples of chunks 2m and 2m + 1.
fn sample_pair(place: Place, lane: u32, m: u32) -> vec2f {
    return vec2f(sample(place, lane, 2u * m), sample(place, lane, 2u * m + 1u));
}

// Whether the track goes on: all lanes know the same, and the compiler knows that they do.
fn agreed(is_active: bool, lane: u32) -> bool {
    if lane == 0u {
        is_any_active = u32(is_active);
    }
    return workgroupUniformLoad(&is_any_active) == 1u;
}
