//! The Gaussian scale space of a picture (Lowe 2004, section 3), octave by octave.

use rayon::prelude::*;

use super::SiftOptions;
use super::octaves::{OctaveSize, doubling, layer_taps, octave_sizes};
use crate::kernels::dog::dog;
use crate::kernels::gaussian_blur::{GaussianTaps, MAX_RADIUS, gaussian_blur};
use crate::kernels::upsample::upsample;
use crate::numerics::vectorized;
use crate::picture::GrayImage;

/// Rows of one task.
pub const BLOCK_ROWS: usize = 16;

/// An octave and its layers.
#[derive(Debug, Default)]
pub struct Octave {
    /// Its size.
    pub size: OctaveSize,
    /// `scales_per_octave + 3` Gaussian layers one after another; layer i has `base_sigma * 2^(i / scales)` pixels.
    gaussians: Vec<f32>,
    /// `scales_per_octave + 2` DoG layers one after another; layer i is Gaussian layer i + 1 less layer i.
    pub dogs: Vec<f32>,
}

impl Octave {
    /// One Gaussian layer.
    pub fn gaussian(&self, layer: usize) -> &[f32] {
        let size = self.size.pixels();
        &self.gaussians[layer * size..][..size]
    }

    fn reset(&mut self, size: OctaveSize, n_layers: usize) {
        self.size = size;
        self.gaussians.resize(n_layers * size.pixels(), 0.0);
        self.dogs.resize((n_layers - 1) * size.pixels(), 0.0);
    }

    /// Blurs Gaussian layer `layer - 1` to `layer` and takes their difference, block by block while it is in the cache.
    fn fill_layer(&mut self, layer: usize, taps: &GaussianTaps, rows: &mut Vec<f32>) {
        let (OctaveSize { width, height, .. }, size) = (self.size, self.size.pixels());
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
        self.n_octaves = 0;
        for size in octave_sizes((gray.width, gray.height), options) {
            if self.octaves.len() == self.n_octaves {
                self.octaves.push(Octave::default());
            }
            let (before, octave) = self.octaves.split_at_mut(self.n_octaves);
            let octave = &mut octave[0];
            octave.reset(size, scales + 3);
            match before.last() {
                None => {
                    let source = match doubling(options) {
                        2 => double(gray, &mut self.rows, &mut self.doubled),
                        _ => &gray.data,
                    };
                    blur(source, octave, &layer_taps(0, options), &mut self.rows);
                }
                Some(finer) => halve(finer.gaussian(scales), finer.size.width, octave),
            }
            for layer in 1..scales + 3 {
                octave.fill_layer(layer, &layer_taps(layer, options), &mut self.rows);
            }
            self.n_octaves += 1;
        }
    }
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
    let OctaveSize { width, height, .. } = octave.size;
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
    let width = octave.size.width;
    let target = &mut octave.gaussians[..octave.size.pixels()];
    target.par_chunks_exact_mut(width).with_min_len(BLOCK_ROWS).enumerate().for_each(|(y, row)| {
        let source_row = &source[2 * y * source_width..];
        for (x, value) in row.iter_mut().enumerate() {
            *value = source_row[2 * x];
        }
    });
}
