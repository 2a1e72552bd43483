//! Smaller eigenvalue of the structure tensor summed over 3 x 3 pixels (Shi and Tomasi 1994).
//!
//! In: gradients a pixel, row by row. Out: one value a pixel, 0 or more; exactly zero closer than `half_window` to the
//! border, where a track would end as out of frame. Sum order: rows downwards, each from left to right.
//! One invocation: one pixel.

use rayon::prelude::*;

use crate::device::{Binding, KernelSource, params_layout};
use crate::numerics::vectorized;

/// The shader.
pub const SHADER: KernelSource = KernelSource {
    name: "eigen_map",
    wgsl: concat!(
        include_str!("../../shaders/shared/min_eigenvalue.wgsl"),
        include_str!("../../shaders/eigen_map.wgsl")
    ),
    workgroup: [32, 8, 1],
    params: params_layout!(EigenMapParams: width, height, margin, begin),
    bindings: &[Binding::read("gradient_x"), Binding::read("gradient_y"), Binding::read_write("eigen")],
};

/// Parameters of the shader.
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct EigenMapParams {
    /// Width in pixels.
    pub width: u32,
    /// Height in pixels.
    pub height: u32,
    /// Pixels closer to the border are zero; half a window, 1 or more.
    pub margin: u32,
    /// Where the gradients begin in their buffers.
    pub begin: u32,
}

const ROWS: usize = 16;

/// Fills `out`. All slices hold `width` values a row and the same number of rows.
pub fn eigen_map(gradient_x: &[f32], gradient_y: &[f32], width: usize, half_window: usize, out: &mut [f32]) {
    if width == 0 {
        return;
    }
    let height = out.len() / width;
    let margin = half_window.max(1);
    out.par_chunks_mut(width * ROWS).enumerate().for_each(|(chunk, rows)| {
        vectorized(
            #[inline(always)]
            || {
                for (i, row) in rows.chunks_exact_mut(width).enumerate() {
                    let y = chunk * ROWS + i;
                    row.fill(0.0);
                    if width > 2 * margin && y >= margin && y + margin < height {
                        let block = (y - 1) * width..(y + 2) * width;
                        let inner = &mut row[margin..width - margin];
                        eigen_row(&gradient_x[block.clone()], &gradient_y[block], width, margin, inner);
                    }
                }
            },
        )
    });
}

/// One row from the three gradient rows around it; `out[0]` is column `first`.
#[inline(always)]
fn eigen_row(gradient_x: &[f32], gradient_y: &[f32], width: usize, first: usize, out: &mut [f32]) {
    let n = out.len() + 2;
    let starts = [0, 1, 2].map(|row| row * width + first - 1);
    let gx = starts.map(|start| &gradient_x[start..start + n]);
    let gy = starts.map(|start| &gradient_y[start..start + n]);
    for x in 0..out.len() {
        let (mut xx, mut xy, mut yy) = (0.0f32, 0.0f32, 0.0f32);
        for r in 0..3 {
            for c in 0..3 {
                let (dx, dy) = (gx[r][x + c], gy[r][x + c]);
                xx += dx * dx;
                xy += dx * dy;
                yy += dy * dy;
            }
        }
        out[x] = min_eigenvalue(xx, xy, yy);
    }
}

/// Smaller eigenvalue of [[xx, xy], [xy, yy]], 0 or more.
#[inline(always)]
pub fn min_eigenvalue(xx: f32, xy: f32, yy: f32) -> f32 {
    let difference = xx - yy;
    let root = (difference * difference + 4.0 * (xy * xy)).sqrt();
    (0.5 * ((xx + yy) - root)).max(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numerics::SplitMix64;

    #[test]
    fn the_map_is_the_smaller_eigenvalue_inside_and_zero_in_the_margin() {
        let (width, height, margin) = (37, 41, 7);
        let mut rng = SplitMix64::new(4, 0);
        let mut noise = || -> Vec<f32> { (0..width * height).map(|_| rng.unit() as f32 - 0.5).collect() };
        let (dx, dy) = (noise(), noise());
        let mut out = vec![f32::NAN; width * height];
        eigen_map(&dx, &dy, width, margin, &mut out);
        for (i, &value) in out.iter().enumerate() {
            let (x, y) = (i % width, i / width);
            if x < margin || y < margin || x + margin >= width || y + margin >= height {
                assert_eq!(value, 0.0, "pixel ({x}, {y})");
                continue;
            }
            let mut tensor = nalgebra::Matrix2::<f64>::zeros();
            for j in (y - 1..=y + 1).flat_map(|row| (x - 1..=x + 1).map(move |column| row * width + column)) {
                let gradient = nalgebra::Vector2::new(dx[j] as f64, dy[j] as f64);
                tensor += gradient * gradient.transpose();
            }
            let expected = tensor.symmetric_eigenvalues().min();
            assert!((value as f64 - expected).abs() < 1e-5, "pixel ({x}, {y}): {value}, {expected}");
        }
    }

    #[test]
    fn a_picture_smaller_than_its_margins_is_zero() {
        let mut out = [f32::NAN; 15];
        eigen_map(&[1.0; 15], &[1.0; 15], 5, 7, &mut out);
        assert_eq!(out, [0.0; 15]);
    }
}
