//! Strengths of points, counted by bins in each cell of a grid over the picture: what a few of many points are chosen by.

/// Cells along the picture's width and height.
pub const CELLS: usize = 8;
/// Bins of a cell.
pub const BINS: usize = 64;

/// Bits of a float below those that tell its bin: eight bins from one power of two to the next.
const REST_BITS: u32 = 20;
/// Strengths below this, 2^-10, share the least bin.
const LEAST_STRENGTH: f32 = 0.0009765625;

/// Where cells and bins begin.
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct StrengthGrid {
    column_ends: [f32; CELLS],
    row_ends: [f32; CELLS],
    first_step: f32,
    least_bits: u32,
    unused: [u32; 2],
}

impl StrengthGrid {
    /// Over a picture of `size`, width and height; `first_step` of its pixels are one of octave 0. Strengths are
    /// `min_strength` or more.
    pub fn new(size: (usize, usize), first_step: f32, min_strength: f32) -> StrengthGrid {
        StrengthGrid {
            column_ends: ends(size.0),
            row_ends: ends(size.1),
            first_step,
            least_bits: min_strength.max(LEAST_STRENGTH).to_bits() >> REST_BITS,
            unused: [0; 2],
        }
    }

    /// The cell of a position in pixels of an octave.
    pub fn cell(&self, octave: u32, [x, y]: [f32; 2]) -> usize {
        let step = self.first_step * (1 << octave) as f32;
        let along = |ends: &[f32; CELLS], position: f32| ends.iter().filter(|end| **end <= position).count();
        along(&self.row_ends, step * y) * CELLS + along(&self.column_ends, step * x)
    }

    /// The bin of a DoG value.
    pub fn bin(&self, value: f32) -> usize {
        let bits = value.abs().to_bits() >> REST_BITS;
        (bits.saturating_sub(self.least_bits) as usize).min(BINS - 1)
    }
}

/// The column or row of cells of a position, in pixels of a picture of `size` pixels along.
pub fn cell_along(position: f32, size: usize) -> usize {
    let share = (position + 0.5) / size as f32;
    ((share * CELLS as f32) as usize).min(CELLS - 1)
}

/// The least position behind each cell: no division on the device, which would round it otherwise.
fn ends(size: usize) -> [f32; CELLS] {
    let mut ends = [f32::MAX; CELLS];
    for (cell, end) in ends[..CELLS - 1].iter_mut().enumerate() {
        // Floats that are not negative have the order of their bits.
        let (mut least, mut most) = (0, f32::MAX.to_bits());
        while least < most {
            let middle = least + (most - least) / 2;
            if cell_along(f32::from_bits(middle), size) > cell {
                most = middle;
            } else {
                least = middle + 1;
            }
        }
        *end = f32::from_bits(least);
    }
    ends
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_end_where_the_division_says() {
        for size in [6, 12, 359, 640, 1080, 4097] {
            for (cell, end) in ends(size)[..CELLS - 1].iter().enumerate() {
                assert_eq!(cell_along(*end, size), cell + 1, "end {end} of {size}");
                assert_eq!(cell_along(end.next_down(), size), cell, "before {end} of {size}");
            }
        }
        let grid = StrengthGrid::new((640, 360), 0.5, 0.01);
        for octave in 0..4 {
            for x in 0..160 {
                let (step, x) = (0.5 * (1 << octave) as f32, x as f32 + 0.3);
                let expected = cell_along(step * x, 640) + CELLS * cell_along(step * x, 360);
                assert_eq!(grid.cell(octave, [x; 2]), expected);
            }
        }
    }

    #[test]
    fn bins_ascend_and_begin_at_the_least_strength() {
        let grid = StrengthGrid::new((640, 360), 0.5, 0.01);
        assert_eq!([0.0, 0.01, -0.0101, 1e9].map(|value| grid.bin(value)), [0, 0, 0, BINS - 1]);
        assert_eq!(grid.bin(0.02), 8);
        let bins: Vec<usize> = (1..1000).map(|i| grid.bin(i as f32 / 1000.0)).collect();
        assert!(bins.is_sorted() && bins[998] > 50);
    }
}
