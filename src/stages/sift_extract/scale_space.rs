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
    gaussians: Vec<f32>,
    /// `scales_per_octave + 2` DoG layers one after another; layer i is Gaussian layer i + 1 less layer i.
    pub dogs: Vec<f32>,
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
        self.dogs.resize((n_layers - 1) * width * height, 0.0);
    }

    /// Blurs Gaussian layer `layer - 1` to `layer` and takes their difference, block by block while it is in the cache.
    fn fill_layer(&mut self, layer: usize, taps: &GaussianTaps, rows: &mut Vec<f32>) {
        let (width, height, size) = (self.width, self.height, self.width * self.height);
        let (finer, coarser) = self.gaussians.split_at_mut(layer * size);
        let finer = &finer[(layer - 1) * size..];
        let dogs = &mut self.dogs[(layer - 1) * size..][..size];
        let block = BLOCK_ROWS * width;
        for_blocks(
            width,
            rows,
            coarser[..size].par_chunks_mut(block).zip(dogs.par_chunks_mut(block)),
            #[inline(always)]
            |first_row, row, (coarser, dogs): (&mut [f32], &mut [f32])| {
                gaussian_blur(finer, width, height, taps, first_row, row, coarser);
                dog(&finer[first_row * width..], coarser, dogs);
            },
        );
    }
}

/// The octaves of a picture. The buffers live on from picture to picture.
#[derive(Debug, Default)]
pub struct ScaleSpace {
    octaves: Vec<Octave>,
    n_octaves: usize,
    rows: Vec<f32>,
    doubled: Vec<f32>,
}

impl ScaleSpace {
    /// The octaves of the picture it was last built from, the finest first.
    pub fn octaves(&self) -> &[Octave] {
        &self.octaves[..self.n_octaves]
    }

    /// Builds all octaves of `gray`.
    pub fn build(&mut self, gray: &GrayImage, options: &SiftOptions) {
        let scales = options.scales_per_octave as usize;
        let sigma = |layer: usize| options.base_sigma_px as f64 * libm::exp2(layer as f64 / scales as f64);
        let doubles = if options.first_octave < 0 { 2 } else { 1 };
        let (mut width, mut height, mut step) =
            (doubles * gray.width, doubles * gray.height, 1.0 / doubles as f32);
        self.n_octaves = 0;
        while width.min(height) >= MIN_SIDE_PX && self.n_octaves < options.octaves as usize {
            if self.octaves.len() == self.n_octaves {
                self.octaves.push(Octave::default());
            }
            let (before, octave) = self.octaves.split_at_mut(self.n_octaves);
            let octave = &mut octave[0];
            octave.reset(width, height, step, scales + 3);
            match before.last() {
                None => {
                    let taps = taps_between(doubles as f64 * INPUT_SIGMA_PX, sigma(0));
                    let source = match doubles {
                        2 => double(gray, &mut self.rows, &mut self.doubled),
                        _ => &gray.data,
                    };
                    blur(source, octave, &taps, &mut self.rows);
                }
                Some(finer) => halve(finer.gaussian(scales), finer.width, octave),
            }
            for layer in 1..scales + 3 {
                octave.fill_layer(layer, &taps_between(sigma(layer - 1), sigma(layer)), &mut self.rows);
            }
            self.n_octaves += 1;
            (width, height, step) = (width.div_ceil(2), height.div_ceil(2), 2.0 * step);
        }
    }
}

/// The blur that takes a picture of sigma `from` to sigma `to`, at least a tenth of a pixel.
fn taps_between(from: f64, to: f64) -> GaussianTaps {
    GaussianTaps::new((to * to - from * from).max(0.01).sqrt())
}

fn double<'a>(gray: &GrayImage, rows: &mut Vec<f32>, doubled: &'a mut Vec<f32>) -> &'a [f32] {
    doubled.resize(4 * gray.data.len(), 0.0);
    for_blocks(
        2 * gray.width,
        rows,
        doubled.par_chunks_mut(2 * gray.width * BLOCK_ROWS),
        #[inline(always)]
        |first_row, _, target| upsample(&gray.data, gray.width, gray.height, first_row, target),
    );
    doubled
}

/// The first layer of the first octave.
fn blur(source: &[f32], octave: &mut Octave, taps: &GaussianTaps, rows: &mut Vec<f32>) {
    let (width, height) = (octave.width, octave.height);
    for_blocks(
        width,
        rows,
        octave.gaussians[..width * height].par_chunks_mut(BLOCK_ROWS * width),
        #[inline(always)]
        |first_row, row, target| gaussian_blur(source, width, height, taps, first_row, row, target),
    );
}

/// Runs `fill(first_row, row, block)` on all blocks of rows, each with a padded row of its own in `rows`.
fn for_blocks<B: Send>(
    width: usize,
    rows: &mut Vec<f32>,
    blocks: impl IndexedParallelIterator<Item = B>,
    fill: impl Fn(usize, &mut [f32], B) + Sync,
) {
    let row_size = width + 2 * MAX_RADIUS;
    rows.resize(rows.len().max(blocks.len() * row_size), 0.0);
    blocks.zip(rows.par_chunks_exact_mut(row_size)).enumerate().for_each(|(index, (block, row))| {
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
