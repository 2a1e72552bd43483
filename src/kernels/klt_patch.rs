//! Reads the patch about a track's seed and makes it ready for `klt_anchor`: an affine map is sought under which a later
//! frame shows the patch, whatever its gain and offset (inverse compositional, Baker and Matthews 2004; appearance
//! projected out, Hager and Belhumeur 1998).
//!
//! In: level 0 of the seed's frame; seeds by slot in pixels, centres at integers. Out: sums by slot, and samples, three
//! runs of `chunks(window_px)` sixteens a slot: gray T less its weighted mean, then the weighted gradients. A slot
//! without a seed stays as it is. Windows, weights and sums as in `klt_track`. One invocation: one slot.

use rayon::prelude::*;

pub(super) use self::shader::folding;
pub use self::shader::{IS_NEW, KltPatchParams, SHADER, kernel, window_on_device};
use super::PyramidLevel;
use super::klt_track::window::{Outside, Place, read, under_len, weights};
use crate::numerics::{fold_all, vectorized};

mod shader;

/// Largest window of a patch.
pub const MAX_PATCH_PX: usize = 31;
/// Sixteens that hold the largest window.
pub(super) const MAX_CHUNKS: usize = chunks(MAX_PATCH_PX);
/// Slots a task of rayon.
const SLOTS: usize = 32;
/// What the rows of a window are read in.
const ROW: usize = 32;

/// What `klt_patch` needs besides picture and seeds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PatchParams {
    /// Side of the window, odd, 3..=31.
    pub window_px: usize,
    /// Smallest pivot of the normal equations a unit of weight; below it the patch does not tell its affine map.
    pub min_eigen: f32,
}

/// Sums over a patch, or over the part of it that both pictures show: w the weight, D the steepest descent images gx,
/// gy, u gx, v gx, u gy, v gy, where u and v go from -1 to 1 across the window.
#[derive(Clone, Copy, Debug, Default, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct TemplateSums {
    /// w
    pub weight: f32,
    /// w T
    pub gray: f32,
    /// w T T
    pub energy: f32,
    /// w D
    pub descent: [f32; 6],
    /// w D T
    pub moment: [f32; 6],
}

/// What a patch is besides its samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct PatchSums {
    /// Weighted mean of the gray, taken off the samples.
    pub mean: f32,
    /// Sums over the whole patch.
    pub template: TemplateSums,
    /// Inverse of w D D' with gain and offset projected out; zero where the patch has too little structure.
    pub inverse: [[f32; 6]; 6],
}

impl PatchSums {
    /// Whether the patch tells an affine map.
    #[inline(always)]
    pub fn has_structure(&self) -> bool {
        self.inverse[0][0] > 0.0
    }
}

/// Sixteens that hold a window of `window_px`.
pub const fn chunks(window_px: usize) -> usize {
    (window_px * window_px).div_ceil(16)
}

/// Reads the patches of `seeds` into their slots of `sums` and `samples`.
pub fn klt_patch(
    level: &PyramidLevel,
    params: &PatchParams,
    seeds: &[Option<[f32; 2]>],
    sums: &mut [PatchSums],
    samples: &mut [[f32; 16]],
) {
    let stride = 3 * chunks(params.window_px);
    let slots = seeds.par_chunks(SLOTS).zip(sums.par_chunks_mut(SLOTS));
    slots.zip(samples.par_chunks_mut(SLOTS * stride)).for_each(|((seeds, sums), samples)| {
        if seeds.iter().all(Option::is_none) {
            return;
        }
        vectorized(
            #[inline(always)]
            || {
                let mut reader = Reader::new(params.window_px);
                let slots = seeds.iter().zip(sums).zip(samples.chunks_exact_mut(stride));
                for ((seed, sums), samples) in slots {
                    if let Some(seed) = seed {
                        *sums = reader.read(level, params.min_eigen, *seed, samples);
                    }
                }
            },
        )
    });
}

/// Reads patches of one size.
struct Reader {
    n: usize,
    weight: [[f32; 16]; MAX_CHUNKS],
    u: [[f32; 16]; MAX_CHUNKS],
    v: [[f32; 16]; MAX_CHUNKS],
    window: [[f32; 16]; MAX_CHUNKS],
    /// The pixels under a window that reaches over the border.
    under: Vec<f32>,
}

impl Reader {
    #[inline(always)]
    fn new(n: usize) -> Reader {
        let [u, v] = offsets(n);
        let (weight, under) = (weights(n), vec![0.0; under_len(n, ROW)]);
        Reader { n, weight, u, v, window: [[0.0; 16]; MAX_CHUNKS], under }
    }

    #[inline(always)]
    fn read(
        &mut self,
        level: &PyramidLevel,
        min_eigen: f32,
        at: [f32; 2],
        samples: &mut [[f32; 16]],
    ) -> PatchSums {
        let used = chunks(self.n);
        let place = Place::new(level.gray.width, level.gray.height, at, self.n);
        let planes = [
            (&level.gray.data, Outside::Border),
            (&level.gradient_x, Outside::Zero),
            (&level.gradient_y, Outside::Zero),
        ];
        for ((plane, outside), samples) in planes.into_iter().zip(samples.chunks_exact_mut(used)) {
            read::<ROW, MAX_CHUNKS>(plane, &place, outside, 0.0, &mut self.under, &mut self.window);
            samples.copy_from_slice(&self.window[..used]);
        }
        let (gray, gradients) = samples.split_at_mut(used);
        let mean = take_mean(&self.weight, gray, self.n * self.n);
        let (template, normal) = self.weigh(gray, gradients);
        let inverse = inverse(&normal, min_eigen * template.weight).unwrap_or_default();
        PatchSums { mean, template, inverse }
    }

    /// Weights the gradients; the sums, and the lower triangle of the normal equations with gain and offset projected out.
    #[inline(always)]
    fn weigh(&self, gray: &[[f32; 16]], gradients: &mut [[f32; 16]]) -> (TemplateSums, [[f32; 6]; 6]) {
        let (gradient_x, gradient_y) = gradients.split_at_mut(gray.len());
        let mut sums = [[0.0f32; 16]; 15];
        let mut products = [[0.0f32; 16]; 21];
        for (chunk, t) in gray.iter().enumerate() {
            let (w, u, v) = (&self.weight[chunk], &self.u[chunk], &self.v[chunk]);
            let (gx, gy) = (&mut gradient_x[chunk], &mut gradient_y[chunk]);
            let (mut descent, mut weighted) = ([[0.0f32; 16]; 6], [[0.0f32; 16]; 6]);
            for lane in 0..16 {
                let (w, t, u, v, x, y) = (w[lane], t[lane], u[lane], v[lane], gx[lane], gy[lane]);
                let images = [x, y, u * x, v * x, u * y, v * y];
                for i in 0..6 {
                    descent[i][lane] = images[i];
                    weighted[i][lane] = w * images[i];
                }
                sums[0][lane] += w;
                sums[1][lane] += w * t;
                sums[2][lane] += w * t * t;
            }
            (*gx, *gy) = (weighted[0], weighted[1]);
            let mut product = 0;
            for i in 0..6 {
                for lane in 0..16 {
                    sums[3 + i][lane] += weighted[i][lane];
                    sums[9 + i][lane] += weighted[i][lane] * t[lane];
                }
                for j in 0..=i {
                    for lane in 0..16 {
                        products[product][lane] += weighted[i][lane] * descent[j][lane];
                    }
                    product += 1;
                }
            }
        }
        let [weight, gray, energy, both @ ..] = fold_all(&sums);
        let [a, b, c, d, e, f, moment @ ..] = both;
        let descent = [a, b, c, d, e, f];
        let mut products = fold_all(&products).into_iter();
        let mut normal = [[0.0; 6]; 6];
        for i in 0..6 {
            for j in 0..=i {
                let (offset, gain) = (descent[i] * descent[j] / weight, moment[i] * moment[j] / energy);
                normal[i][j] = products.next().unwrap_or_default() - offset - gain;
            }
        }
        (TemplateSums { weight, gray, energy, descent, moment }, normal)
    }
}

/// Takes the weighted mean off the first `count` samples.
#[inline(always)]
fn take_mean(weight: &[[f32; 16]], gray: &mut [[f32; 16]], count: usize) -> f32 {
    let mut sums = [[0.0f32; 16]; 2];
    for (w, t) in weight.iter().zip(&*gray) {
        for lane in 0..16 {
            sums[0][lane] += w[lane];
            sums[1][lane] += w[lane] * t[lane];
        }
    }
    let [total, sum] = fold_all(&sums);
    for t in &mut gray.as_flattened_mut()[..count] {
        *t -= sum / total;
    }
    sum / total
}

/// u and v of every sample of a window, from -1 to 1.
#[inline(always)]
pub(super) fn offsets(n: usize) -> [[[f32; 16]; MAX_CHUNKS]; 2] {
    let half = (n / 2) as f32;
    let mut offsets = [[[0.0; 16]; MAX_CHUNKS]; 2];
    let [u, v] = &mut offsets;
    for (i, (u, v)) in u.as_flattened_mut().iter_mut().zip(v.as_flattened_mut()).take(n * n).enumerate() {
        *u = ((i % n) as f32 - half) / half;
        *v = ((i / n) as f32 - half) / half;
    }
    offsets
}

/// The inverse of a symmetric matrix, given by its lower triangle, through its Cholesky factor; none where a pivot is
/// smaller than `least` or not above 0.
fn inverse(matrix: &[[f32; 6]; 6], least: f32) -> Option<[[f32; 6]; 6]> {
    let mut factor = [[0.0f32; 6]; 6];
    for i in 0..6 {
        for j in 0..=i {
            let mut rest = matrix[i][j];
            for k in 0..j {
                rest -= factor[i][k] * factor[j][k];
            }
            if i == j && !(rest >= least && rest > 0.0) {
                return None;
            }
            factor[i][j] = if i == j { rest.sqrt() } else { rest / factor[j][j] };
        }
    }
    let mut lower = [[0.0f32; 6]; 6];
    for j in 0..6 {
        for i in j..6 {
            let mut rest = if i == j { 1.0 } else { 0.0 };
            for k in j..i {
                rest -= factor[i][k] * lower[k][j];
            }
            lower[i][j] = rest / factor[i][i];
        }
    }
    let mut inverse = [[0.0f32; 6]; 6];
    for i in 0..6 {
        for j in 0..6 {
            for k in i.max(j)..6 {
                inverse[i][j] += lower[k][i] * lower[k][j];
            }
        }
    }
    Some(inverse)
}
