//! Deformed windows, sample by sample, and the sums over them.

use super::super::klt_patch::{MAX_CHUNKS, PatchSums, TemplateSums, offsets};
use super::super::klt_track::window::{taps, weights};
use super::{TargetSums, Warp};
use crate::numerics::fold_all;
use crate::picture::GrayImage;

/// Side of the square of pixels that holds the ones under a window.
const SIDE: usize = 64;

/// Reads windows of one size.
pub struct Sampler {
    used: usize,
    half: f32,
    u: [[f32; 16]; MAX_CHUNKS],
    v: [[f32; 16]; MAX_CHUNKS],
    weight: [[f32; 16]; MAX_CHUNKS],
    /// The pixels under the window; samples reach two rows and two pixels behind the square.
    pixels: [f32; (SIDE + 2) * SIDE + 2],
}

/// The square of pixels under a window: its first column and row in the picture, columns and rows in use.
struct Under {
    left: isize,
    top: isize,
    columns: usize,
    rows: usize,
}

impl Under {
    #[inline(always)]
    fn is_inside(&self, image: &GrayImage) -> bool {
        let (right, bottom) = (self.left + self.columns as isize, self.top + self.rows as isize);
        let (width, height) = (image.width as isize, image.height as isize);
        self.left >= 0 && self.top >= 0 && right <= width && bottom <= height
    }

    /// 1 where the picture shows a place among the copied pixels, else 0.
    #[inline(always)]
    fn shows(&self, image: &GrayImage, x: f32, y: f32) -> f32 {
        image.shows([x + self.left as f32, y + self.top as f32]) as u8 as f32
    }
}

impl Sampler {
    #[inline(always)]
    pub fn new(window_px: usize) -> Sampler {
        let [u, v] = offsets(window_px);
        Sampler {
            used: super::chunks(window_px),
            half: (window_px / 2) as f32,
            u,
            v,
            weight: weights(window_px),
            pixels: [0.0; (SIDE + 2) * SIDE + 2],
        }
    }

    /// Sums over the window at `warp` and over the patch, where the picture shows the window; none where the window is
    /// stretched beyond what is read.
    #[inline(always)]
    pub fn sums(
        &mut self,
        image: &GrayImage,
        warp: &Warp,
        patch: &PatchSums,
        samples: &[[f32; 16]],
    ) -> Option<(TemplateSums, TargetSums)> {
        let under = self.under(warp)?;
        let is_inside = under.is_inside(image);
        self.copy(image, &under, is_inside);
        Some(if is_inside {
            let (_, target) = self.sum_up::<true>(image, warp, &under, patch.mean, samples);
            (patch.template, target)
        } else {
            self.sum_up::<false>(image, warp, &under, patch.mean, samples)
        })
    }

    /// The pixels whose splines reach the window.
    #[inline(always)]
    fn under(&self, warp: &Warp) -> Option<Under> {
        let [[a, b], [c, d]] = warp.linear;
        let reach = [(a.abs() + b.abs()) * self.half + 1.5, (c.abs() + d.abs()) * self.half + 1.5];
        let [left, top] = [(warp.at[0] - reach[0]).floor(), (warp.at[1] - reach[1]).floor()];
        let [right, bottom] = [(warp.at[0] + reach[0]).ceil(), (warp.at[1] + reach[1]).ceil()];
        let (columns, rows) = (right - left + 1.0, bottom - top + 1.0);
        (columns <= SIDE as f32 && rows <= SIDE as f32).then_some(Under {
            left: left as isize,
            top: top as isize,
            columns: columns as usize,
            rows: rows as usize,
        })
    }

    /// Copies the pixels under the window; outside of the picture the nearest of the border.
    #[inline(always)]
    fn copy(&mut self, image: &GrayImage, under: &Under, is_inside: bool) {
        let &Under { left, top, columns, rows } = under;
        for (row, pixels) in self.pixels.chunks_exact_mut(SIDE).take(rows).enumerate() {
            let y = (top + row as isize).clamp(0, image.height as isize - 1) as usize;
            let line = &image.data[y * image.width..][..image.width];
            if is_inside {
                pixels[..columns].copy_from_slice(&line[left as usize..][..columns]);
                continue;
            }
            for (column, pixel) in pixels[..columns].iter_mut().enumerate() {
                *pixel = line[(left + column as isize).clamp(0, image.width as isize - 1) as usize];
            }
        }
    }

    /// The sums over samples that the picture shows; `WHOLE` where it shows all, and those over the patch are known.
    #[inline(always)]
    fn sum_up<const WHOLE: bool>(
        &self,
        image: &GrayImage,
        warp: &Warp,
        under: &Under,
        mean: f32,
        samples: &[[f32; 16]],
    ) -> (TemplateSums, TargetSums) {
        let (gray, gradients) = samples.split_at(self.used);
        let (gradient_x, gradient_y) = gradients.split_at(self.used);
        let mut template = [[0.0f32; 16]; 15];
        let mut target = [[0.0f32; 16]; 9];
        for chunk in 0..self.used {
            let (t, u, v) = (&gray[chunk], &self.u[chunk], &self.v[chunk]);
            let (mut w, mut gx, mut gy) = (self.weight[chunk], gradient_x[chunk], gradient_y[chunk]);
            let [x, y] = self.positions(warp, under, chunk);
            if !WHOLE {
                for lane in 0..16 {
                    let shown = under.shows(image, x[lane], y[lane]);
                    (w[lane], gx[lane], gy[lane]) = (shown * w[lane], shown * gx[lane], shown * gy[lane]);
                    let (w, t, gx, gy) = (w[lane], t[lane], gx[lane], gy[lane]);
                    let images = [gx, gy, u[lane] * gx, v[lane] * gx, u[lane] * gy, v[lane] * gy];
                    template[0][lane] += w;
                    template[1][lane] += w * t;
                    template[2][lane] += w * t * t;
                    for i in 0..6 {
                        template[3 + i][lane] += images[i];
                        template[9 + i][lane] += images[i] * t;
                    }
                }
            }
            let window = self.read(&x, &y);
            for lane in 0..16 {
                let j = window[lane] - mean;
                let (wj, x, y) = (w[lane] * j, gx[lane] * j, gy[lane] * j);
                target[0][lane] += wj;
                target[1][lane] += wj * t[lane];
                target[2][lane] += wj * j;
                target[3][lane] += x;
                target[4][lane] += y;
                target[5][lane] += u[lane] * x;
                target[6][lane] += v[lane] * x;
                target[7][lane] += u[lane] * y;
                target[8][lane] += v[lane] * y;
            }
        }
        let [gray, product, energy, moment @ ..] = fold_all(&target);
        let target = TargetSums { gray, product, energy, moment };
        if WHOLE {
            return (TemplateSums::default(), target);
        }
        let [weight, gray, energy, both @ ..] = fold_all(&template);
        let [a, b, c, d, e, f, moment @ ..] = both;
        (TemplateSums { weight, gray, energy, descent: [a, b, c, d, e, f], moment }, target)
    }

    /// Where one of the window's sixteens lies among the copied pixels.
    #[inline(always)]
    fn positions(&self, warp: &Warp, under: &Under, chunk: usize) -> [[f32; 16]; 2] {
        let [[a, b], [c, d]] = warp.linear;
        let [a, b, c, d] = [a * self.half, b * self.half, c * self.half, d * self.half];
        let (x0, y0) = (warp.at[0] - under.left as f32, warp.at[1] - under.top as f32);
        let (u, v) = (&self.u[chunk], &self.v[chunk]);
        let [mut x, mut y] = [[0.0; 16]; 2];
        for lane in 0..16 {
            x[lane] = x0 + (a * u[lane] + b * v[lane]);
            y[lane] = y0 + (c * u[lane] + d * v[lane]);
        }
        [x, y]
    }

    /// The copied pixels' spline at sixteen places.
    #[inline(always)]
    fn read(&self, x: &[f32; 16], y: &[f32; 16]) -> [f32; 16] {
        let mut gray = [0.0; 16];
        for lane in 0..16 {
            let (column, tx) = nearest(x[lane]);
            let (row, ty) = nearest(y[lane]);
            let first = row * SIDE + column;
            let [left, middle, right] = taps(tx);
            let [above, centre, below] = taps(ty);
            let line = |at: usize| {
                left * self.pixels[at] + middle * self.pixels[at + 1] + right * self.pixels[at + 2]
            };
            gray[lane] = above * line(first) + centre * line(first + SIDE) + below * line(first + 2 * SIDE);
        }
        gray
    }
}

/// One less than the integer nearest to `at` (1 to 64), and how far `at` is beyond the nearest. Adding 3 * 2^22 leaves
/// the rounded number in the lowest bits, which vectors do as they are and a conversion does not.
#[inline(always)]
fn nearest(at: f32) -> (usize, f32) {
    const ROUND: f32 = 12_582_912.0;
    let rounded = at + ROUND;
    ((rounded.to_bits().wrapping_sub(1) & (SIDE as u32 - 1)) as usize, at - (rounded - ROUND))
}
