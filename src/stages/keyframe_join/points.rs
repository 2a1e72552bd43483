//! The points of a keyframe: SIFT keypoints of one position, whatever their orientations, are one point.

use crate::message::{Features, Keypoint};

/// A position that carries one or more keypoints.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Position in analysis pixels.
    pub x: f32,
    /// See `x`.
    pub y: f32,
    /// The first keypoint at this position: the one a track claims.
    pub keypoint: u32,
    /// Its scale in analysis pixels.
    pub scale: f32,
}

/// The points of a keyframe's keypoints, in their order.
pub fn points_from_features(features: &Features) -> Vec<Point> {
    let keypoints = (0u32..).zip(&features.keypoints).zip(features.points());
    keypoints
        .filter(|((index, _), point)| index == point)
        .map(|((keypoint, &Keypoint { x, y, scale, .. }), _)| Point { x, y, keypoint, scale })
        .collect()
}

/// Positions sorted into square cells, for all neighbours within a radius of at most one cell.
pub struct Buckets {
    cell_px: f32,
    columns: usize,
    rows: usize,
    /// Where each cell begins in `entries`.
    starts: Vec<usize>,
    entries: Vec<u32>,
}

impl Buckets {
    /// Buckets of `positions` in a picture of `size` pixels. Positions outside fall into the border cells.
    pub fn new(positions: &[[f32; 2]], size: (u32, u32), cell_px: f32) -> Buckets {
        let columns = (size.0 as f32 / cell_px).ceil().max(1.0) as usize;
        let rows = (size.1 as f32 / cell_px).ceil().max(1.0) as usize;
        let mut buckets =
            Buckets { cell_px, columns, rows, starts: vec![0; columns * rows + 1], entries: Vec::new() };
        let cells: Vec<usize> = positions.iter().map(|&p| buckets.cell_of(p)).collect();
        for &cell in &cells {
            buckets.starts[cell + 1] += 1;
        }
        for cell in 0..columns * rows {
            buckets.starts[cell + 1] += buckets.starts[cell];
        }
        let mut next = buckets.starts.clone();
        buckets.entries = vec![0; positions.len()];
        for (index, &cell) in cells.iter().enumerate() {
            buckets.entries[next[cell]] = index as u32;
            next[cell] += 1;
        }
        buckets
    }

    fn column_row(&self, [x, y]: [f32; 2]) -> (usize, usize) {
        let column = ((x / self.cell_px).max(0.0) as usize).min(self.columns - 1);
        let row = ((y / self.cell_px).max(0.0) as usize).min(self.rows - 1);
        (column, row)
    }

    /// The cell a position falls into, row by row.
    pub fn cell_of(&self, position: [f32; 2]) -> usize {
        let (column, row) = self.column_row(position);
        row * self.columns + column
    }

    /// Indices of the positions in the cell of `position` and the eight around it.
    pub fn near(&self, position: [f32; 2]) -> impl Iterator<Item = usize> + '_ {
        let (column, row) = self.column_row(position);
        let columns = column.saturating_sub(1)..=(column + 1).min(self.columns - 1);
        (row.saturating_sub(1)..=(row + 1).min(self.rows - 1)).flat_map(move |r| {
            let first = self.starts[r * self.columns + columns.start()];
            let last = self.starts[r * self.columns + columns.end() + 1];
            self.entries[first..last].iter().map(|&i| i as usize)
        })
    }
}

/// Squared distance of two positions.
pub fn distance2(a: [f32; 2], b: [f32; 2]) -> f32 {
    let (dx, dy) = (a[0] - b[0], a[1] - b[1]);
    dx * dx + dy * dy
}
