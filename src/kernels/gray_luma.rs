//! Gray at analysis size of a luma plane: range expanded to [0, 1], area averaged.
//! Output pixel i is the weighted mean of the samples its taps name (first down the column, then along the row);
//! weights from `AreaTaps`. 16..=235 is clamped and stretched where the range is limited. Output in [0, 1].
//! One invocation: one output pixel.

use crate::picture::area::{AreaTaps, area_average};

/// `luma`: `rows.n_in` rows of `columns.n_in` samples, `stride` bytes apart. `scratch`: a multiple of `columns.n_in`;
/// one row of it for each band of rows at once. `gray`: `columns.n_out() * rows.n_out()`.
pub fn gray_luma(
    luma: &[u8],
    stride: usize,
    full_range: bool,
    columns: &AreaTaps,
    rows: &AreaTaps,
    scratch: &mut [f32],
    gray: &mut [f32],
) {
    let (black, white) = if full_range { (0.0, 255.0) } else { (16.0, 235.0) };
    let add_row = |y: usize, weight: f32, sums: &mut [f32]| {
        for (sum, &sample) in sums.iter_mut().zip(&luma[y * stride..]) {
            *sum += weight * ((sample as f32).max(black).min(white) - black);
        }
    };
    let span: f32 = white - black;
    area_average(columns, rows, 1, scratch, gray, add_row, |sum| (sum / span).min(1.0));
}
