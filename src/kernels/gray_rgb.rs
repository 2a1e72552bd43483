//! Gray at analysis size of an interleaved RGB picture: Rec. 601 luma in [0, 1], area averaged.
//! Output pixel i is the weighted mean of the samples its taps name (first down the column, then along the row);
//! weights from `AreaTaps`. Output in [0, 1].
//! One invocation: one output pixel.

use crate::device::{Binding, KernelSource, params_layout};
use crate::picture::area::{AreaTaps, area_average};

/// The shader. Taps are those of `AreaTaps`; the bytes lie four to a word, the first lowest.
pub const SHADER: KernelSource = KernelSource {
    name: "gray_rgb",
    wgsl: concat!(
        include_str!("../../shaders/shared/area_average.wgsl"),
        include_str!("../../shaders/gray_rgb.wgsl")
    ),
    workgroup: [32, 8, 1],
    params: params_layout!(GrayRgbParams: stride, columns_per_pixel, rows_per_pixel, width, height, white),
    bindings: &[
        Binding::read("rgb"),
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
pub struct GrayRgbParams {
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
    /// What the largest sample is, 255: a driver may multiply by the reciprocal of a divisor that it knows beforehand.
    pub white: f32,
}

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
