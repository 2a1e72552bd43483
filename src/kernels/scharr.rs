//! Scharr gradients of a pyramid level: (3, 10, 3) / 32 across, central difference along.
//!
//! In: gray, row by row. Out: d/dx and d/dy a pixel of that level (a ramp of slope 1 gives 1). Reads clamp to the
//! border.
//! On the device one dispatch fills all levels of a pyramid.
//! One invocation: one pixel.

use rayon::prelude::*;

use super::pyramid_down::PyramidShape;
use crate::device::{Binding, KernelSource, params_layout};
use crate::numerics::vectorized;

/// The shader.
pub const SHADER: KernelSource = KernelSource {
    name: "scharr",
    wgsl: concat!(
        include_str!("../../shaders/shared/flat_index.wgsl"),
        include_str!("../../shaders/shared/pyramid.wgsl"),
        include_str!("../../shaders/scharr.wgsl")
    ),
    workgroup: [256, 1, 1],
    params: params_layout!(ScharrParams: shape, n_levels, n_pixels),
    bindings: &[
        Binding::read("pyramid"),
        Binding::read_write("gradient_x"),
        Binding::read_write("gradient_y"),
    ],
};

/// Parameters of the shader.
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct ScharrParams {
    /// All levels.
    pub shape: PyramidShape,
    /// How many levels get gradients, the finest first.
    pub n_levels: u32,
    /// Pixels of them.
    pub n_pixels: u32,
}

const ROWS: usize = 16;
const SIDE: f32 = 3.0 / 32.0;
const CENTRE: f32 = 10.0 / 32.0;

/// Fills both gradients of `gray`, which has `width` values a row.
pub fn scharr(gray: &[f32], width: usize, gradient_x: &mut [f32], gradient_y: &mut [f32]) {
    if width == 0 || gray.is_empty() {
        return;
    }
    let last = gray.len() / width - 1;
    let row = |y: usize| &gray[y * width..(y + 1) * width];
    gradient_x
        .par_chunks_mut(width * ROWS)
        .zip(gradient_y.par_chunks_mut(width * ROWS))
        .enumerate()
        .for_each(|(chunk, (rows_x, rows_y))| {
            vectorized(
                #[inline(always)]
                || {
                    let rows = rows_x.chunks_exact_mut(width).zip(rows_y.chunks_exact_mut(width));
                    for (i, (out_x, out_y)) in rows.enumerate() {
                        let y = chunk * ROWS + i;
                        scharr_row([row(y.saturating_sub(1)), row(y), row((y + 1).min(last))], out_x, out_y);
                    }
                },
            )
        });
}

#[inline(always)]
fn scharr_row([above, row, below]: [&[f32]; 3], out_x: &mut [f32], out_y: &mut [f32]) {
    let n = row.len();
    let at = |left: [f32; 3], centre: [f32; 2], right: [f32; 3]| {
        let x = SIDE * ((right[0] - left[0]) + (right[2] - left[2])) + CENTRE * (right[1] - left[1]);
        let y = SIDE * ((left[2] - left[0]) + (right[2] - right[0])) + CENTRE * (centre[1] - centre[0]);
        (x, y)
    };
    let column = |x: usize| [above[x], row[x], below[x]];
    for x in [0, n - 1] {
        (out_x[x], out_y[x]) =
            at(column(x.saturating_sub(1)), [above[x], below[x]], column((x + 1).min(n - 1)));
    }
    if n > 2 {
        let (above, row, below) = (&above[..n], &row[..n], &below[..n]);
        let (out_x, out_y) = (&mut out_x[..n], &mut out_y[..n]);
        for x in 1..n - 1 {
            let left = [above[x - 1], row[x - 1], below[x - 1]];
            let right = [above[x + 1], row[x + 1], below[x + 1]];
            (out_x[x], out_y[x]) = at(left, [above[x], below[x]], right);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numerics::SplitMix64;

    #[test]
    fn gradients_are_scharr_with_the_border_repeated() {
        let mut rng = SplitMix64::new(2, 0);
        for (width, height) in [(1, 1), (2, 3), (1, 6), (9, 1), (18, 33), (50, 20)] {
            let gray: Vec<f32> = (0..width * height).map(|_| rng.unit() as f32).collect();
            let (mut dx, mut dy) = (vec![f32::NAN; gray.len()], vec![f32::NAN; gray.len()]);
            scharr(&gray, width, &mut dx, &mut dy);
            for i in 0..gray.len() {
                let (x, y) = ((i % width) as isize, (i / width) as isize);
                let at = |c: isize, r: isize| {
                    let (c, r) =
                        ((x + c).clamp(0, width as isize - 1), (y + r).clamp(0, height as isize - 1));
                    gray[r as usize * width + c as usize] as f64
                };
                let weights = [(-1, 3.0), (0, 10.0), (1, 3.0)];
                let along_x: f64 = weights.iter().map(|&(r, w)| w / 32.0 * (at(1, r) - at(-1, r))).sum();
                let along_y: f64 = weights.iter().map(|&(c, w)| w / 32.0 * (at(c, 1) - at(c, -1))).sum();
                assert!((dx[i] as f64 - along_x).abs() < 1e-6, "{width}x{height}, d/dx of pixel {i}");
                assert!((dy[i] as f64 - along_y).abs() < 1e-6, "{width}x{height}, d/dy of pixel {i}");
            }
        }
    }

    #[test]
    fn a_ramp_has_its_slope() {
        let gray: Vec<f32> = (0..7 * 5).map(|i| 0.25 * (i % 7) as f32 - 0.125 * (i / 7) as f32).collect();
        let (mut dx, mut dy) = (vec![0.0; 35], vec![0.0; 35]);
        scharr(&gray, 7, &mut dx, &mut dy);
        assert_eq!((dx[17], dy[17]), (0.25, -0.125));
    }
}
