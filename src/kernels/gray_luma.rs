//! Gray at analysis size of a luma plane: range expanded to [0, 1], area averaged.
//! Output pixel i is the weighted mean of the samples its taps name (first down the column, then along the row);
//! weights from `AreaTaps`. 16..=235 is clamped and stretched where the range is limited. Output in [0, 1].
//! One invocation: one output pixel.

use crate::device::{Binding, KernelSource, params_layout};
use crate::picture::area::{AreaTaps, area_average};

/// The shader. Taps are those of `AreaTaps`; the bytes lie four to a word, the first lowest.
pub const SHADER: KernelSource = KernelSource {
    name: "gray_luma",
    wgsl: concat!(
        include_str!("../../shaders/shared/area_average.wgsl"),
        include_str!("../../shaders/gray_luma.wgsl")
    ),
    workgroup: [32, 8, 1],
    params: params_layout!(GrayLumaParams: stride, columns_per_pixel, rows_per_pixel, width, height, black, white),
    bindings: &[
        Binding::read("luma"),
        Binding::read("columns_first"),
        Binding::read("columns_weights"),
        Binding::read("rows_first"),
        Binding::read("rows_weights"),
        Binding::read_write("gray"),
    ],
};

/// Parameters of the shader.
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct GrayLumaParams {
    /// Bytes from one row to the next.
    pub stride: u32,
    /// Taps along a row.
    pub columns_per_pixel: u32,
    /// Taps down a column.
    pub rows_per_pixel: u32,
    /// Width of the gray picture.
    pub width: u32,
    /// Height of the gray picture.
    pub height: u32,
    /// What is 0.
    pub black: f32,
    /// What is 1.
    pub white: f32,
}

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
