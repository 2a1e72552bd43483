// A level of a pyramid in one buffer: `PyramidShape` on the host.
struct Level {
    offset: u32,
    width: u32,
    height: u32,
    unused: u32,
}
