// A refined extremum, in pixels of its octave: `RefinedPoint` on the host.
struct RefinedPoint {
    octave: u32,
    layer: u32,
    x: f32,
    y: f32,
    level: f32,
    value: f32,
    column: u32,
    row: u32,
}
