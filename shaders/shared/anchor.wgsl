// What is kept of a track from its seed on, by slot.

// The sums over the patch about a seed: `PatchSums` on the host.
struct PatchSums {
    mean: f32,
    weight: f32,
    gray: f32,
    energy: f32,
    descent: array<f32, 6>,
    moment: array<f32, 6>,
    inverse: array<f32, 36>,
}

// How a patch was last seen: `AnchorRecord` on the host. The sample `offset` from the seed lies at (x, y) + [[a, b], [c, d]]
// * offset. The status is an exact integer: bit 0 aligned, bit 1 taken, bits 16-23 iterations.
struct AnchorRecord {
    x: f32,
    y: f32,
    a: f32,
    b: f32,
    c: f32,
    d: f32,
    correlation: f32,
    status: f32,
}

// A track's slot, with a bit that says that the track is new.
const IS_NEW = 0x80000000u;

// The quadratic B-spline at -1 - t, -t and 1 - t.
fn taps(t: f32) -> vec3f {
    let before = 0.5 - t;
    let after = 0.5 + t;
    return vec3f(0.5 * before * before, 0.75 - t * t, 0.5 * after * after);
}
