//! The Gaussian scale space of a picture (Lowe 2004, section 3), octave by octave.

use rayon::prelude::*;

use super::SiftOptions;
use crate::kernels::dog::dog;
use crate::kernels::gaussian_blur::{GaussianTaps, MAX_RADIUS, gaussian_blur};
use crate::kernels::upsample::upsample;
use crate::numerics::vectorized;
use crate::picture::GrayImage;

/// Blur that a picture is taken to have, in its pixels.
const INPUT_SIGMA_PX: f64 = 0.5;
/// Octaves end where a side would be shorter.
const MIN_SIDE_PX: usize = 12;
/// Rows of one task.
pub const BLOCK_ROWS: usize = 16;

/// An octave: pixel (x, y) lies at `step` (x, y) of the analysis picture.
#[derive(Debug, Default)]
pub struct Octave {
    /// Width in pixels.
    pub width: usize,
    /// Height in pixels.
    pub height: usize,
    /// Analysis pixels a pixel.
    pub step: f32,
    /// `scales_per_octave + 3` Gaussian layers one after another; layer i has `base_sigma * 2^(i / scales)` pixels.
    pub gaussians: Vec<f32>,
}

impl Octave {
    /// One Gaussian layer.
    pub fn gaussian(&self, layer: usize) -> &[f32] {
        let size = self.width * self.height;
        &self.gaussians[layer * size..][..size]
    }

    fn reset(&mut self, width: usize, height: usize, step: f32, n_layers: usize) {
        (self.width, self.height, self.step) = (width, height, step);
        self.gaussians.resize(n_layers * width * height, 0.0);
    }
}

/// The octaves of a picture. The buffers live on from picture to picture.
#[derive(Debug, Default)]
pub struct ScaleSpace {
    octaves: Vec<Octave>,
    n_octaves: usize,
    rows: Vec<f32>,
    source: Vec<f32>,
}

impl ScaleSpace {
    /// The octaves of the picture it was last built from, the finest first.
    pub fn octaves(&self) -> &[Octave] {
        &self.octaves[..self.n_octaves]
    }

    /// Builds all octaves of `gray`.
    pub fn build(&mut self, gray: &GrayImage, options: &SiftOptions) {
        let scales = options.scales_per_octave as usize;
        let n_layers = scales + 3;
        let sigma = |layer: usize| options.base_sigma_px as f64 * libm::exp2(layer as f64 / scales as f64);
        let taps_between = |from: f64, to: f64| GaussianTaps::new((to * to - from * from).max(0.01).sqrt());
        let (mut width, mut height, mut step, mut input_sigma) =
            (gray.width, gray.height, 1.0, INPUT_SIGMA_PX);
        if options.first_octave < 0 {
            (width, height, step, input_sigma) = (2 * width, 2 * height, 0.5, 2.0 * INPUT_SIGMA_PX);
        }
        self.n_octaves = 0;
        self.source.resize(width * height, 0.0);
        while width.min(height) >= MIN_SIDE_PX && self.n_octaves < options.octaves as usize {
            if self.octaves.len() == self.n_octaves {
                self.octaves.push(Octave::default());
            }
            let (before, octave) = self.octaves.split_at_mut(self.n_octaves);
            let octave = &mut octave[0];
            octave.reset(width, height, step, n_layers);
            match before.last() {
                None => {
                    copy_or_double(gray, width, &mut self.rows, &mut self.source);
                    let taps = taps_between(input_sigma, sigma(0));
                    let first = &mut octave.gaussians[..width * height];
                    blur(&self.source, width, height, &taps, &mut self.rows, first);
                }
                Some(finer) => halve(finer.gaussian(scales), finer.width, octave),
            }
            for layer in 1..n_layers {
                let taps = taps_between(sigma(layer - 1), sigma(layer));
                let (finer, coarser) = octave.gaussians.split_at_mut(layer * width * height);
                let finer = &finer[(layer - 1) * width * height..];
                blur(finer, width, height, &taps, &mut self.rows, &mut coarser[..width * height]);
            }
            self.n_octaves += 1;
            (width, height, step) = (width.div_ceil(2), height.div_ceil(2), 2.0 * step);
        }
    }
}

/// Writes the `scales_per_octave + 2` DoG layers of an octave to the beginning of `dogs`, which only grows.
pub fn fill_dogs(octave: &Octave, dogs: &mut Vec<f32>) {
    let size = octave.width * octave.height;
    let n = octave.gaussians.len() - size;
    dogs.resize(dogs.len().max(n), 0.0);
    let block = BLOCK_ROWS * octave.width;
    dogs[..n].par_chunks_mut(block).enumerate().for_each(|(index, target)| {
        let start = index * block;
        let finer = &octave.gaussians[start..][..target.len()];
        let coarser = &octave.gaussians[start + size..][..target.len()];
        vectorized(
            #[inline(always)]
            || dog(finer, coarser, target),
        );
    });
}

fn copy_or_double(gray: &GrayImage, width: usize, rows: &mut Vec<f32>, target: &mut [f32]) {
    if width == gray.width {
        target.copy_from_slice(&gray.data);
        return;
    }
    for_blocks(
        width,
        rows,
        target,
        #[inline(always)]
        |first_row, _, target| {
            upsample(&gray.data, gray.width, gray.height, first_row, target);
        },
    );
}

fn blur(
    source: &[f32],
    width: usize,
    height: usize,
    taps: &GaussianTaps,
    rows: &mut Vec<f32>,
    target: &mut [f32],
) {
    for_blocks(
        width,
        rows,
        target,
        #[inline(always)]
        |first_row, row, target| {
            gaussian_blur(source, width, height, taps, first_row, row, target);
        },
    );
}

/// Runs `fill(first_row, row, block)` on all blocks of rows of `target`, each with a padded row of its own in `rows`.
fn for_blocks(
    width: usize,
    rows: &mut Vec<f32>,
    target: &mut [f32],
    fill: impl Fn(usize, &mut [f32], &mut [f32]) + Sync,
) {
    let (block, row) = (BLOCK_ROWS * width, width + 2 * MAX_RADIUS);
    rows.resize(rows.len().max(target.len().div_ceil(block) * row), 0.0);
    let blocks = target.par_chunks_mut(block).zip(rows.par_chunks_exact_mut(row));
    blocks.enumerate().for_each(|(index, (block, row))| {
        vectorized(
            #[inline(always)]
            || fill(index * BLOCK_ROWS, row, block),
        )
    });
}

/// The first layer of the next octave: pixel (x, y) is pixel (2x, 2y), so centres stay at integers.
fn halve(source: &[f32], source_width: usize, octave: &mut Octave) {
    let width = octave.width;
    let target = &mut octave.gaussians[..width * octave.height];
    target.par_chunks_exact_mut(width).with_min_len(BLOCK_ROWS).enumerate().for_each(|(y, row)| {
        let source_row = &source[2 * y * source_width..];
        for (x, value) in row.iter_mut().enumerate() {
            *value = source_row[2 * x];
        }
    });
}
