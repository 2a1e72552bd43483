//! The live tracks of each cell, all of them: a counting sort of the track indices by cell.
//!
//! In: positions in pixels, centres at integers; positions outside the frame count to the nearest cell. Out: where each
//! cell's tracks begin, and the track indices cell by cell, ascending within a cell.
//! One workgroup: the whole table.

use crate::device::{Binding, KernelSource, params_layout};

/// The shader. `unordered` is scratch for the track indices.
pub const SHADER: KernelSource = KernelSource {
    name: "klt_occupancy",
    wgsl: include_str!("../../shaders/klt_occupancy.wgsl"),
    workgroup: [256, 1, 1],
    params: params_layout!(KltOccupancyParams: cell_px, columns, rows, n_tracks),
    bindings: &[
        Binding::read("alive"),
        Binding::read_write("starts"),
        Binding::read_write("tracks"),
        Binding::read_write("unordered"),
    ],
};

/// Parameters of the shader.
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct KltOccupancyParams {
    /// Side of a cell in pixels.
    pub cell_px: u32,
    /// Cells a row.
    pub columns: u32,
    /// Rows of cells.
    pub rows: u32,
    /// Number of live tracks.
    pub n_tracks: u32,
}

/// Square cells over a frame, row by row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Grid {
    /// Frame width in pixels.
    pub width: usize,
    /// Frame height in pixels.
    pub height: usize,
    /// Side of a cell in pixels, so that only the 3 x 3 cells around a point can hold one closer than the distance.
    pub cell_px: usize,
    /// Cells a row.
    pub columns: usize,
    /// Rows of cells.
    pub rows: usize,
}

impl Grid {
    /// Cells as wide as `min_distance_px`, rounded up to whole pixels.
    pub fn new(width: usize, height: usize, min_distance_px: f32) -> Grid {
        let cell_px = min_distance_px.ceil().max(1.0) as usize;
        Grid { width, height, cell_px, columns: width.div_ceil(cell_px), rows: height.div_ceil(cell_px) }
    }

    /// Number of cells.
    pub fn cells(&self) -> usize {
        self.columns * self.rows
    }

    /// The cell a position lies in: pixel (x, y) covers x - 0.5 to x + 0.5.
    pub fn cell_of(&self, [x, y]: [f32; 2]) -> usize {
        let column = ((x + 0.5).max(0.0) as usize / self.cell_px).min(self.columns - 1);
        let row = ((y + 0.5).max(0.0) as usize / self.cell_px).min(self.rows - 1);
        row * self.columns + column
    }

    /// The cells around `cell`, itself included, ascending.
    pub fn neighbourhood(&self, cell: usize) -> impl Iterator<Item = usize> + use<> {
        let (column, row, columns) = (cell % self.columns, cell / self.columns, self.columns);
        let columns_near = column.saturating_sub(1)..(column + 2).min(self.columns);
        let rows_near = row.saturating_sub(1)..(row + 2).min(self.rows);
        rows_near.flat_map(move |r| columns_near.clone().map(move |c| r * columns + c))
    }
}

/// Track indices by cell.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Occupancy {
    /// Cells + 1 values: cell `c` holds `tracks[starts[c]..starts[c + 1]]`.
    pub starts: Vec<u32>,
    /// Track indices.
    pub tracks: Vec<u32>,
}

impl Occupancy {
    /// Makes room for the cells of `grid` and `n_tracks` tracks.
    pub fn resize(&mut self, grid: &Grid, n_tracks: usize) {
        self.starts.resize(grid.cells() + 1, 0);
        self.tracks.resize(n_tracks, 0);
    }

    /// The tracks of a cell.
    pub fn of(&self, cell: usize) -> &[u32] {
        &self.tracks[self.starts[cell] as usize..self.starts[cell + 1] as usize]
    }
}

/// Sorts the tracks into `out`, which has the size of `grid` and `alive`.
pub fn klt_occupancy(grid: &Grid, alive: &[[f32; 2]], out: &mut Occupancy) {
    out.starts.fill(0);
    if grid.cells() == 0 {
        return;
    }
    for &position in alive {
        out.starts[grid.cell_of(position)] += 1;
    }
    let mut end = 0;
    for start in &mut out.starts {
        end += *start;
        *start = end;
    }
    for (track, &position) in alive.iter().enumerate().rev() {
        let start = &mut out.starts[grid.cell_of(position)];
        *start -= 1;
        out.tracks[*start as usize] = track as u32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_track_is_in_its_cell_once() {
        let grid = Grid::new(20, 17, 8.0);
        assert_eq!((grid.columns, grid.rows), (3, 3));
        // Cell 0 ends half a pixel before pixel 8; outside counts to the nearest cell.
        let alive = [[7.4, 0.0], [7.6, 0.0], [3.0, 3.0], [-9.0, 99.0], [19.0, 16.0]];
        let mut occupancy = Occupancy::default();
        for _ in 0..2 {
            occupancy.resize(&grid, alive.len());
            klt_occupancy(&grid, &alive, &mut occupancy);
            let cells: Vec<_> = (0..9).map(|cell| occupancy.of(cell).to_vec()).collect();
            let none = Vec::new();
            let expected = [
                vec![0, 2],
                vec![1],
                none.clone(),
                none.clone(),
                none.clone(),
                none.clone(),
                vec![3],
                none,
                vec![4],
            ];
            assert_eq!(cells, expected);
        }
    }

    #[test]
    fn a_neighbourhood_is_what_the_border_leaves_of_nine_cells() {
        let grid = Grid::new(32, 24, 8.0);
        assert_eq!(grid.neighbourhood(5).collect::<Vec<_>>(), [0, 1, 2, 4, 5, 6, 8, 9, 10]);
        assert_eq!(grid.neighbourhood(3).collect::<Vec<_>>(), [2, 3, 6, 7]);
    }
}
