// Strengths of points, counted in each cell of a grid over the picture: `StrengthGrid` on the host.
struct StrengthGrid {
    // Where the next column and row of cells begin, in pixels of the picture.
    column_ends: array<vec4f, 2>,
    row_ends: array<vec4f, 2>,
    // Pixels of the picture along one of the first octave.
    first_step: f32,
    // Of all bits but the last 20, where the least bin begins.
    least_bits: u32,
    unused: vec2u,
}

const STRENGTH_BINS = 64u;

fn count_of(are: vec4<bool>) -> u32 {
    let ones = select(vec4u(0u), vec4u(1u), are);
    return ones.x + ones.y + ones.z + ones.w;
}

fn cell_of(grid: StrengthGrid, octave: u32, x: f32, y: f32) -> u32 {
    let step = grid.first_step * f32(1u << octave);
    let at = step * vec2f(x, y);
    let column = count_of(grid.column_ends[0] <= vec4f(at.x)) + count_of(grid.column_ends[1] <= vec4f(at.x));
    let row = count_of(grid.row_ends[0] <= vec4f(at.y)) + count_of(grid.row_ends[1] <= vec4f(at.y));
    return 8u * row + column;
}

// Eight bins from one power of two to the next.
fn bin_of(grid: StrengthGrid, value: f32) -> u32 {
    let bits = bitcast<u32>(abs(value)) >> 20u;
    return min(max(bits, grid.least_bits) - grid.least_bits, STRENGTH_BINS - 1u);
}
