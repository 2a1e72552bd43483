// An octave's Gaussian layers, or rows of them from `first_row` on, one behind the other in a buffer: `OctaveShape` on the
// host.
struct OctaveShape {
    begin: u32,
    width: u32,
    height: u32,
    first_row: u32,
}

// A keypoint in pixels of its octave: `SiftPoint` on the host.
struct SiftPoint {
    octave: u32,
    layer: u32,
    x: f32,
    y: f32,
    scale: f32,
    unused_a: u32,
    unused_b: u32,
    unused_c: u32,
}

// Where the layer of a point begins.
fn layer_begin(shape: OctaveShape, point: SiftPoint) -> u32 {
    return shape.begin + point.layer * shape.width * shape.height;
}
