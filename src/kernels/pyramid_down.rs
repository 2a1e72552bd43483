//! One pyramid level from the next finer one: taps (1, 4, 6, 4, 1) / 16, x then y, then every second pixel.
//!
//! Sizes w x h to ceil(w / 2) x ceil(h / 2); pixel (x, y) of the result lies at (2x, 2y). Reads clamp to the border.
//! The blur in x is rounded to f32 before the blur in y.
//! On the device one dispatch makes up to three levels of a pyramid that lies in one buffer.
//! One workgroup: 4 x 4 pixels of the coarsest level made, and of the finer ones what it needs for them.

use rayon::prelude::*;

use crate::device::{Binding, KernelSource, params_layout};
use crate::klt::MAX_LEVELS;
use crate::numerics::vectorized;

/// The shader.
pub const SHADER: KernelSource = KernelSource {
    name: "pyramid_down",
    wgsl: concat!(
        include_str!("../../shaders/shared/pyramid.wgsl"),
        include_str!("../../shaders/pyramid_down.wgsl")
    ),
    workgroup: [256, 1, 1],
    params: params_layout!(PyramidDownParams: shape, finest, n_made),
    bindings: &[Binding::read_write("pyramid")],
};

/// Most levels that one dispatch makes.
pub const MOST_MADE: u32 = 3;

/// Parameters of the shader.
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct PyramidDownParams {
    /// All levels.
    pub shape: PyramidShape,
    /// The level that is there.
    pub finest: u32,
    /// How many coarser ones are made, 1 to `MOST_MADE`.
    pub n_made: u32,
}

/// A level of a pyramid that lies in one buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct LevelShape {
    /// Element that level begins at.
    pub offset: u32,
    /// Width in pixels.
    pub width: u32,
    /// Height in pixels.
    pub height: u32,
    /// Nothing.
    pub unused: u32,
}

/// Where the levels of a pyramid lie in one buffer: one behind the other, the finest first. What is left is zero.
#[derive(Clone, Copy, Debug, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct PyramidShape(pub [LevelShape; MAX_LEVELS as usize]);

impl PyramidShape {
    /// `levels` levels, at most 12, of a picture of `width` x `height`.
    pub fn new(width: usize, height: usize, levels: usize) -> PyramidShape {
        let mut shape = PyramidShape(Default::default());
        let mut next = LevelShape { offset: 0, width: width as u32, height: height as u32, unused: 0 };
        for level in &mut shape.0[..levels] {
            *level = next;
            next.offset += next.width * next.height;
            (next.width, next.height) = (next.width.div_ceil(2), next.height.div_ceil(2));
        }
        shape
    }

    /// The same behind `pixels` others in the buffer.
    pub fn behind(mut self, pixels: usize) -> PyramidShape {
        self.0.iter_mut().for_each(|level| level.offset += pixels as u32);
        self
    }

    /// Pixels of all levels.
    pub fn pixels(&self) -> usize {
        self.0.iter().map(|level| level.width as usize * level.height as usize).sum()
    }

    /// Parameters and workgroups of the dispatches that make levels 1 to `levels` - 1 of level 0.
    pub fn dispatches(&self, levels: usize) -> Vec<(PyramidDownParams, [u32; 3])> {
        let finest = (0..levels.saturating_sub(1)).step_by(MOST_MADE as usize);
        finest
            .map(|finest| {
                let n_made = (levels - 1 - finest).min(MOST_MADE as usize);
                let LevelShape { width, height, .. } = self.0[finest + n_made];
                let params = PyramidDownParams { shape: *self, finest: finest as u32, n_made: n_made as u32 };
                (params, [width.div_ceil(4), height.div_ceil(4), 1])
            })
            .collect()
    }
}

const ROWS: usize = 16;

/// Halves `source`, which has `width` values a row. `blurred_x` holds ceil(width / 2) values a row for every row of
/// `source`; `out` holds ceil(width / 2) values a row for every second.
pub fn pyramid_down(source: &[f32], width: usize, blurred_x: &mut [f32], out: &mut [f32]) {
    if width == 0 || source.is_empty() {
        return;
    }
    let half = width.div_ceil(2);
    blurred_x.par_chunks_mut(half * ROWS).zip(source.par_chunks(width * ROWS)).for_each(
        |(blurred, source)| {
            vectorized(
                #[inline(always)]
                || {
                    for (blurred, source) in blurred.chunks_exact_mut(half).zip(source.chunks_exact(width)) {
                        blur_x(source, blurred);
                    }
                },
            )
        },
    );
    let blurred_x = &*blurred_x;
    let last = (source.len() / width - 1) as isize;
    out.par_chunks_mut(half * ROWS).enumerate().for_each(|(chunk, rows)| {
        vectorized(
            #[inline(always)]
            || {
                for (i, out) in rows.chunks_exact_mut(half).enumerate() {
                    let centre = 2 * (chunk * ROWS + i) as isize;
                    let row = |offset: isize| {
                        let start = (centre + offset).clamp(0, last) as usize * half;
                        &blurred_x[start..start + half]
                    };
                    blur_y([row(-2), row(-1), row(0), row(1), row(2)], out);
                }
            },
        )
    });
}

#[inline(always)]
fn taps(a: f32, b: f32, c: f32, d: f32, e: f32) -> f32 {
    0.0625 * (a + e) + 0.25 * (b + d) + 0.375 * c
}

#[inline(always)]
fn blur_x(source: &[f32], out: &mut [f32]) {
    let last = source.len() as isize - 1;
    let clamped = |x: usize| {
        let at = |offset: isize| source[(2 * x as isize + offset).clamp(0, last) as usize];
        taps(at(-2), at(-1), at(0), at(1), at(2))
    };
    let n = (source.len().saturating_sub(2) / 2).saturating_sub(1);
    out[0] = clamped(0);
    let (pairs, _) = source.as_chunks::<2>();
    if n > 0 {
        let (left, middle, right) = (&pairs[..n], &pairs[1..n + 1], &pairs[2..n + 2]);
        let inner = &mut out[1..n + 1];
        for i in 0..n {
            inner[i] = taps(left[i][0], left[i][1], middle[i][0], middle[i][1], right[i][0]);
        }
    }
    for x in n + 1..out.len() {
        out[x] = clamped(x);
    }
}

#[inline(always)]
fn blur_y(rows: [&[f32]; 5], out: &mut [f32]) {
    let rows = rows.map(|row| &row[..out.len()]);
    for x in 0..out.len() {
        out[x] = taps(rows[0][x], rows[1][x], rows[2][x], rows[3][x], rows[4][x]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numerics::SplitMix64;

    #[test]
    fn halving_is_the_separable_binomial_blur_of_every_second_pixel() {
        let mut rng = SplitMix64::new(1, 0);
        for (width, height) in
            [(1usize, 1usize), (2, 2), (1, 5), (3, 4), (7, 2), (18, 33), (41, 37), (64, 10)]
        {
            let source: Vec<f32> = (0..width * height).map(|_| rng.unit() as f32).collect();
            let (half_width, half_height) = (width.div_ceil(2), height.div_ceil(2));
            let mut blurred_x = vec![0.0; half_width * height];
            let mut out = vec![f32::NAN; half_width * half_height];
            pyramid_down(&source, width, &mut blurred_x, &mut out);
            for (i, &value) in out.iter().enumerate() {
                let (x, y) = (2 * (i % half_width) as isize, 2 * (i / half_width) as isize);
                let mut expected = 0.0;
                for (r, a) in (-2..).zip([1.0, 4.0, 6.0, 4.0, 1.0f64]) {
                    for (c, b) in (-2..).zip([1.0, 4.0, 6.0, 4.0, 1.0f64]) {
                        let row = (y + r).clamp(0, height as isize - 1) as usize;
                        let column = (x + c).clamp(0, width as isize - 1) as usize;
                        expected += a * b / 256.0 * source[row * width + column] as f64;
                    }
                }
                assert!((value as f64 - expected).abs() < 1e-6, "{width}x{height}, pixel {i}");
            }
        }
    }
}
