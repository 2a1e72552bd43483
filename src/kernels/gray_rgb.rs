//! Gray at analysis size of an interleaved RGB picture: Rec. 601 luma in [0, 1], area averaged.
//! Output pixel i is the weighted mean of the samples its taps name (first down the column, then along the row);
//! weights from `AreaTaps`. Output in [0, 1].
//! One invocation: one output pixel.

use crate::picture::area::{AreaTaps, area_average};

/// `rgb`: `rows.n_in` rows of `columns.n_in` pixels of three bytes, `stride` bytes apart. `scratch`: a multiple of
/// `columns.n_in`; one row of it for each band of rows at once. `gray`: `columns.n_out() * rows.n_out()`.
pub fn gray_rgb(
    rgb: &[u8],
    stride: usize,
    columns: &AreaTaps,
    rows: &AreaTaps,
    scratch: &mut [f32],
    gray: &mut [f32],
) {
    let add_row = |y: usize, weight: f32, sums: &mut [f32]| {
        for (sum, pixel) in sums.iter_mut().zip(rgb[y * stride..].chunks_exact(3)) {
            let luma = 0.299 * pixel[0] as f32 + 0.587 * pixel[1] as f32 + 0.114 * pixel[2] as f32;
            *sum += weight * luma;
        }
    };
    area_average(columns, rows, 1, scratch, gray, add_row, |sum| (sum / 255.0).min(1.0));
}
