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
