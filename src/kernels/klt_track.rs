//! Pyramidal Lucas-Kanade of one point: inverse compositional (Baker and Matthews 2004), coarse to fine (Bouguet 2000).
//!
//! In: two pyramids and start records; positions in level-0 pixels, centres at integers; level L is at u / 2^L.
//! Out: one record a track: position, zero-mean correlation of the final windows, status. A start that is not alive
//! passes through. A track is out of frame where its point is. Gradients outside of the picture are zero, and those
//! inside are weighted by (1 - u^2) (1 - v^2), u and v from -1 to 1 across the window (the weighting function of Tomasi
//! and Kanade 1991). Sums over a window: sample index row by row, modulo 16, folded by `fold16`.
//! Tracks never read each other. On the device one dispatch tracks forward and back and checks, a workgroup a track.

use rayon::prelude::*;

pub use self::record::TrackRecord;
pub use self::shader::{KltTrackParams, SHADER, kernel, weights_on_device};
use self::window::{Outside, Place, read, under_len, weights};
use super::eigen_map::min_eigenvalue;
use super::{Pyramid, PyramidLevel};
use crate::message::EndReason;
use crate::numerics::{fold_all, fold16, vectorized};
use crate::picture::GrayImage;

mod record;
mod shader;
pub(super) mod window;

/// What `klt_track` needs besides pictures and records. Ranges as in `KltPushOptions`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TrackParams {
    /// Side of the window, odd, 3..=63.
    pub window_px: usize,
    /// Most steps a level, 1..=255.
    pub max_iterations: u32,
    /// A step shorter than this ends a level.
    pub epsilon_px: f32,
    /// Smallest eigenvalue a window pixel.
    pub min_eigen: f32,
    /// 0 plain, 1 mean removed, 2 mean removed and scaled to the template's variance.
    pub photometric: u32,
}

/// Tracks a task of rayon.
const TRACKS: usize = 32;

/// Tracks `starts` from `template` to `target`, two pyramids of one size and number of levels, into `out`.
pub fn klt_track(
    template: &Pyramid,
    target: &Pyramid,
    params: &TrackParams,
    starts: &[TrackRecord],
    out: &mut [TrackRecord],
) {
    let frames = [template, target];
    starts.par_chunks(TRACKS).zip(out.par_chunks_mut(TRACKS)).for_each(|(starts, out)| {
        match params.window_px {
            15 => vectorized(
                #[inline(always)]
                || track_chunk::<16, 15>(frames, params, 15, starts, out),
            ),
            21 => vectorized(
                #[inline(always)]
                || track_chunk::<24, 28>(frames, params, 21, starts, out),
            ),
            n @ ..15 => vectorized(
                #[inline(always)]
                || track_chunk::<16, 15>(frames, params, n, starts, out),
            ),
            n @ 16..=31 => vectorized(
                #[inline(always)]
                || track_chunk::<32, 61>(frames, params, n, starts, out),
            ),
            n => vectorized(
                #[inline(always)]
                || track_chunk::<64, 249>(frames, params, n, starts, out),
            ),
        }
    });
}

/// `n` is the side of the window, `ROW` what its rows are read in, `CHUNKS` the sixteens that hold the largest `n`.
#[inline(always)]
fn track_chunk<const ROW: usize, const CHUNKS: usize>(
    frames: [&Pyramid; 2],
    params: &TrackParams,
    n: usize,
    starts: &[TrackRecord],
    out: &mut [TrackRecord],
) {
    let mut windows = Windows::<ROW, CHUNKS>::new(n);
    for (start, out) in starts.iter().zip(out) {
        *out = if start.is_alive() { track(&mut windows, frames, params, *start) } else { *start };
    }
}

/// One track through all levels.
#[inline(always)]
fn track<const ROW: usize, const CHUNKS: usize>(
    windows: &mut Windows<ROW, CHUNKS>,
    [template, target]: [&Pyramid; 2],
    params: &TrackParams,
    start: TrackRecord,
) -> TrackRecord {
    let at = [start.x, start.y];
    if !target.levels[0].gray.shows(at) {
        return TrackRecord::new(at[0], at[1], 0.0, Some(EndReason::OutOfFrame), 0);
    }
    let coarsest = template.levels.len() - 1;
    let mut position = at_level(at, coarsest);
    for level in (1..=coarsest).rev() {
        let sums = windows.read_template(&template.levels[level], at_level(at, level));
        if let Some(step) = Step::new(&sums, params, windows) {
            position = windows.descend(&target.levels[level].gray, &sums, &step, params, position).position;
        }
        position = [2.0 * position[0], 2.0 * position[1]];
    }
    let sums = windows.read_template(&template.levels[0], at);
    let Some(step) = Step::new(&sums, params, windows) else {
        return TrackRecord::new(position[0], position[1], 0.0, Some(EndReason::LowStructure), 0);
    };
    let descent = windows.descend(&target.levels[0].gray, &sums, &step, params, position);
    windows.judge(&target.levels[0].gray, &sums, at, descent)
}

/// Level L samples level 0 at 2^L i.
#[inline(always)]
fn at_level([x, y]: [f32; 2], level: usize) -> [f32; 2] {
    let scale = 1.0 / (1u64 << level) as f32;
    [x * scale, y * scale]
}

/// Sums over the template window: T its gray less `mean`, g its gradient, w the weight.
#[derive(Clone, Copy)]
struct TemplateSums {
    mean: f32,
    /// T T
    energy: f32,
    /// w gx, w gy
    gradient: [f32; 2],
    /// T w gx, T w gy
    moment: [f32; 2],
    /// w gx gx, w gx gy, w gy gy
    structure: [f32; 3],
}

/// Sums over the target window: J its gray less the template's mean.
#[derive(Clone, Copy)]
struct TargetSums {
    /// J
    gray: f32,
    /// J J
    energy: f32,
    /// J w gx, J w gy
    moment: [f32; 2],
}

/// The Gauss-Newton step of a level: the inverse of G and the photometric model.
struct Step {
    inverse: [f32; 3],
    photometric: u32,
    count: f32,
}

impl Step {
    /// None where the window has too little structure.
    #[inline(always)]
    fn new<const ROW: usize, const CHUNKS: usize>(
        sums: &TemplateSums,
        params: &TrackParams,
        windows: &Windows<ROW, CHUNKS>,
    ) -> Option<Step> {
        let [xx, xy, yy] = sums.structure;
        let determinant = xx * yy - xy * xy;
        let eigenvalue = min_eigenvalue(xx, xy, yy) / windows.total_weight;
        let has_structure = eigenvalue >= params.min_eigen && determinant > 0.0;
        let inverse = [yy / determinant, -xy / determinant, xx / determinant];
        has_structure.then_some(Step { inverse, photometric: params.photometric, count: windows.count() })
    }

    /// delta = G^-1 b, b the residual's moment: T g - J g, with J's mean removed (1) and its energy scaled (2).
    #[inline(always)]
    fn delta(&self, template: &TemplateSums, target: &TargetSums) -> [f32; 2] {
        let mean = if self.photometric == 0 { 0.0 } else { target.gray / self.count };
        let gain = if self.photometric == 2 {
            gain(template.energy, target.energy - mean * target.gray)
        } else {
            1.0
        };
        let bx = template.moment[0] - gain * (target.moment[0] - mean * template.gradient[0]);
        let by = template.moment[1] - gain * (target.moment[1] - mean * template.gradient[1]);
        let [a, b, c] = self.inverse;
        [a * bx + b * by, b * bx + c * by]
    }
}

/// What brings a window's energy to the template's; 1 for a flat window.
#[inline(always)]
fn gain(template: f32, target: f32) -> f32 {
    if target > FLAT_ENERGY { (template / target).sqrt() } else { 1.0 }
}

/// Below this a window's summed squared deviation is rounding.
const FLAT_ENERGY: f32 = 1e-9;

/// Where the steps of a level led.
#[derive(Clone, Copy)]
struct Descent {
    position: [f32; 2],
    iterations: u32,
    converged: bool,
}

/// The windows of one track, samples row by row in sixteens. Behind the last sample gradients and deviations are zero.
struct Windows<const ROW: usize, const CHUNKS: usize> {
    n: usize,
    /// What a sample's gradient counts.
    weight: [[f32; 16]; CHUNKS],
    total_weight: f32,
    /// Template less its mean.
    gray: [[f32; 16]; CHUNKS],
    /// Of the template, weighted.
    gradient_x: [[f32; 16]; CHUNKS],
    gradient_y: [[f32; 16]; CHUNKS],
    target: [[f32; 16]; CHUNKS],
    /// 1 for a sample of both pictures, else 0.
    shared: [[f32; 16]; CHUNKS],
    /// The pixels under a window that reaches over the border.
    under: Vec<f32>,
}

impl<const ROW: usize, const CHUNKS: usize> Windows<ROW, CHUNKS> {
    fn new(n: usize) -> Windows<ROW, CHUNKS> {
        let nothing = [[0.0; 16]; CHUNKS];
        let weight = weights(n);
        let mut total = [0.0; 16];
        for weight in &weight {
            for lane in 0..16 {
                total[lane] += weight[lane];
            }
        }
        Windows {
            n,
            weight,
            total_weight: fold16(total),
            gray: nothing,
            gradient_x: nothing,
            gradient_y: nothing,
            target: nothing,
            shared: nothing,
            under: vec![0.0; under_len(n, ROW)],
        }
    }

    #[inline(always)]
    fn count(&self) -> f32 {
        (self.n * self.n) as f32
    }

    #[inline(always)]
    fn used(&self) -> usize {
        (self.n * self.n).div_ceil(16)
    }

    /// Reads the template about (x, y) and sums over it.
    #[inline(always)]
    fn read_template(&mut self, level: &PyramidLevel, at: [f32; 2]) -> TemplateSums {
        let place = Place::new(level.gray.width, level.gray.height, at, self.n);
        let (border, zero, under) = (Outside::Border, Outside::Zero, &mut self.under);
        read::<ROW, CHUNKS>(&level.gray.data, &place, border, 0.0, under, &mut self.gray);
        read::<ROW, CHUNKS>(&level.gradient_x, &place, zero, 0.0, under, &mut self.gradient_x);
        read::<ROW, CHUNKS>(&level.gradient_y, &place, zero, 0.0, under, &mut self.gradient_y);
        let used = self.used();
        let mut sum = [0.0f32; 16];
        for gray in &self.gray[..used] {
            for lane in 0..16 {
                sum[lane] += gray[lane];
            }
        }
        let mean = fold16(sum) / self.count();
        for gray in &mut self.gray[..used] {
            for lane in 0..16 {
                gray[lane] -= mean;
            }
        }
        self.gray[..used].as_flattened_mut()[self.n * self.n..].fill(0.0);
        let [energy, tx, ty, gx, gy, xx, xy, yy] = self.weigh_template(used);
        TemplateSums { mean, energy, gradient: [gx, gy], moment: [tx, ty], structure: [xx, xy, yy] }
    }

    /// Weights the gradients and sums.
    #[inline(always)]
    fn weigh_template(&mut self, used: usize) -> [f32; 8] {
        let gradients = self.gradient_x[..used].iter_mut().zip(&mut self.gradient_y[..used]);
        let windows = self.gray[..used].iter().zip(&self.weight[..used]).zip(gradients);
        let mut sums = [[0.0f32; 16]; 8];
        for ((t, w), (gx, gy)) in windows {
            for lane in 0..16 {
                let (t, x, y) = (t[lane], gx[lane], gy[lane]);
                let (wx, wy) = (w[lane] * x, w[lane] * y);
                sums[0][lane] += t * t;
                sums[1][lane] += t * wx;
                sums[2][lane] += t * wy;
                sums[3][lane] += wx;
                sums[4][lane] += wy;
                sums[5][lane] += wx * x;
                sums[6][lane] += wx * y;
                sums[7][lane] += wy * y;
                (gx[lane], gy[lane]) = (wx, wy);
            }
        }
        fold_all(&sums)
    }

    /// Steps from `position` until one is short, in pixels of `image`'s level.
    #[inline(always)]
    fn descend(
        &mut self,
        image: &GrayImage,
        sums: &TemplateSums,
        step: &Step,
        params: &TrackParams,
        mut position: [f32; 2],
    ) -> Descent {
        let mut before = [0.0f32; 2];
        for iteration in 1..=params.max_iterations {
            self.read_target(image, sums.mean, position);
            let [dx, dy] = step.delta(sums, &self.target_sums(sums.mean));
            // Where the gradient is flatter than the texture, steps overshoot and turn back for ever.
            let length = if dx * before[0] + dy * before[1] < 0.0 { 0.5 } else { 1.0 };
            before = [length * dx, length * dy];
            position = [position[0] + before[0], position[1] + before[1]];
            if dx * dx + dy * dy < params.epsilon_px * params.epsilon_px {
                return Descent { position, iterations: iteration, converged: true };
            }
        }
        Descent { position, iterations: params.max_iterations, converged: false }
    }

    #[inline(always)]
    fn read_target(&mut self, image: &GrayImage, mean: f32, at: [f32; 2]) {
        let place = Place::new(image.width, image.height, at, self.n);
        read::<ROW, CHUNKS>(&image.data, &place, Outside::Border, mean, &mut self.under, &mut self.target);
    }

    #[inline(always)]
    fn target_sums(&self, mean: f32) -> TargetSums {
        let used = self.used();
        let windows = self.target[..used].iter().zip(&self.gradient_x[..used]).zip(&self.gradient_y[..used]);
        let mut sums = [[0.0f32; 16]; 4];
        for ((j, gx), gy) in windows {
            for lane in 0..16 {
                let j = j[lane] - mean;
                sums[0][lane] += j;
                sums[1][lane] += j * j;
                sums[2][lane] += j * gx[lane];
                sums[3][lane] += j * gy[lane];
            }
        }
        let [gray, energy, x, y] = fold_all(&sums);
        TargetSums { gray, energy, moment: [x, y] }
    }

    /// The record of a track from `start` whose steps at level 0 are done.
    #[inline(always)]
    fn judge(
        &mut self,
        image: &GrayImage,
        sums: &TemplateSums,
        start: [f32; 2],
        descent: Descent,
    ) -> TrackRecord {
        let Descent { position: [x, y], iterations, converged } = descent;
        if !image.shows([x, y]) {
            return TrackRecord::new(x, y, 0.0, Some(EndReason::OutOfFrame), iterations);
        }
        self.read_target(image, sums.mean, [x, y]);
        self.find_shared(image, start, [x, y]);
        let reason = (!converged).then_some(EndReason::NoConvergence);
        TrackRecord::new(x, y, self.correlation(sums.mean), reason, iterations)
    }

    /// Marks the samples that lie inside of the picture about both points.
    #[inline(always)]
    fn find_shared(&mut self, image: &GrayImage, start: [f32; 2], end: [f32; 2]) {
        let (n, half) = (self.n, (self.n / 2) as f32);
        let shown = |row: usize, column: usize| {
            let sample = |[x, y]: [f32; 2]| [x - half + column as f32, y - half + row as f32];
            image.shows(sample(start)) && image.shows(sample(end))
        };
        let samples = &mut self.shared.as_flattened_mut()[..n * n];
        if shown(0, 0) && shown(n - 1, n - 1) {
            samples.fill(1.0);
            return;
        }
        for (i, shared) in samples.iter_mut().enumerate() {
            *shared = shown(i / n, i % n) as u8 as f32;
        }
    }

    /// Zero-mean correlation of the template and the target window where both show the picture; 0 where one is flat.
    #[inline(always)]
    fn correlation(&self, mean: f32) -> f32 {
        let used = self.used();
        let windows = self.gray[..used].iter().zip(&self.target[..used]).zip(&self.shared[..used]);
        let mut partial = [[0.0f32; 16]; 6];
        for ((t, j), s) in windows {
            for lane in 0..16 {
                let (s, t, j) = (s[lane], t[lane], j[lane] - mean);
                let (st, sj) = (s * t, s * j);
                partial[0][lane] += s;
                partial[1][lane] += st;
                partial[2][lane] += sj;
                partial[3][lane] += st * t;
                partial[4][lane] += sj * j;
                partial[5][lane] += st * j;
            }
        }
        let [count, t, j, tt, jj, tj] = fold_all(&partial);
        let energy = (tt - t / count * t) * (jj - j / count * j);
        if energy > 0.0 { (tj - t / count * j) / energy.sqrt() } else { 0.0 }
    }
}
