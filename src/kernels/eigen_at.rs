//! The values of an eigenvalue map at points.
//!
//! In: a map, row by row, and positions in pixels, centres at integers. Out: of each the value of the nearest pixel, zero
//! outside the map.
//! One invocation: one point.

use crate::device::{Binding, KernelSource, params_layout};

/// The shader.
pub const SHADER: KernelSource = KernelSource {
    name: "eigen_at",
    wgsl: concat!(
        include_str!("../../shaders/shared/flat_index.wgsl"),
        include_str!("../../shaders/eigen_at.wgsl")
    ),
    workgroup: [64, 1, 1],
    params: params_layout!(EigenAtParams: width, height, n_points),
    bindings: &[Binding::read("eigen"), Binding::read("points"), Binding::read_write("values")],
};

/// Parameters of the shader.
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct EigenAtParams {
    /// Width of the map in pixels.
    pub width: u32,
    /// Height of the map in pixels.
    pub height: u32,
    /// Number of points.
    pub n_points: u32,
}

impl EigenAtParams {
    /// For `n_points` on a map of `width` x `height`.
    pub fn new((width, height): (usize, usize), n_points: usize) -> EigenAtParams {
        EigenAtParams { width: width as u32, height: height as u32, n_points: n_points as u32 }
    }
}

/// Fills `values`, one a point, from `eigen`, which has `width` values a row.
pub fn eigen_at(eigen: &[f32], width: usize, points: &[[f32; 2]], values: &mut [f32]) {
    let height = eigen.len().checked_div(width).unwrap_or(0);
    for (&[x, y], value) in points.iter().zip(values) {
        let (column, row) = ((x + 0.5).floor(), (y + 0.5).floor());
        let inside = column >= 0.0 && row >= 0.0 && column < width as f32 && row < height as f32;
        *value = if inside { eigen[row as usize * width + column as usize] } else { 0.0 };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_pixel_counts_and_outside_is_zero() {
        let eigen = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
        let points =
            [[0.0, 0.0], [2.4, 0.6], [1.5, -0.5], [2.5, 0.0], [-0.6, 1.0], [0.0, 1.5], [f32::NAN, 0.0]];
        let mut values = [9.0; 7];
        eigen_at(&eigen, 3, &points, &mut values);
        assert_eq!(values, [1.0, 6.0, 3.0, 0.0, 0.0, 0.0, 0.0]);
    }
}
