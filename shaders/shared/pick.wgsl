// A selected pixel of a cell: `Pick` on the host. Strength 0: none.
struct Pick {
    x: u32,
    y: u32,
    strength: f32,
}
