//! Bilinear windows about non-integer points, rows one behind the other without gaps.

/// The pixels under a window that reaches over the left or right border: `ROW` rows of three times `ROW`.
pub type Patch<const ROW: usize> = [[[f32; ROW]; 3]; ROW];

/// A window of n x n samples: the pixel at or before its top left sample, and the fraction to the next.
#[derive(Clone, Copy)]
pub struct Place {
    width: usize,
    height: usize,
    n: usize,
    x: isize,
    y: isize,
    fraction: [f32; 2],
}

impl Place {
    /// The window of `n` x `n` samples centred at `at` in a picture of `width` x `height`, none of them 0.
    #[inline(always)]
    pub fn new(width: usize, height: usize, at: [f32; 2], n: usize) -> Place {
        // A window wholly outside sees border pixels only, wherever it is.
        let beyond = n as f32 + 1.0;
        let half = (n / 2) as f32;
        let left = (at[0] - half).clamp(-beyond, width as f32);
        let top = (at[1] - half).clamp(-beyond, height as f32);
        let (x, y) = (left.floor(), top.floor());
        Place { width, height, n, x: x as isize, y: y as isize, fraction: [left - x, top - y] }
    }

    /// Row `row` of the pixels under the window; rows outside are those of the border.
    #[inline(always)]
    fn image_row(&self, row: usize) -> usize {
        (self.y + row as isize).clamp(0, self.height as isize - 1) as usize * self.width
    }

    /// Whether rows of `ROW` + 1 pixels can be read in place.
    #[inline(always)]
    fn is_inside<const ROW: usize>(&self) -> bool {
        self.x >= 0
            && self.x as usize + self.n < self.width
            && self.image_row(self.n) + self.x as usize + ROW < self.width * self.height
    }
}

/// Reads the window at `place` into `out`, row by row; what is left of the last sixteen is `rest`. Pixels outside are
/// those of the border. `ROW` is larger than the window's side.
#[inline(always)]
pub fn read<const ROW: usize, const CHUNKS: usize>(
    image: &[f32],
    place: &Place,
    rest: f32,
    patch: &mut Patch<ROW>,
    out: &mut [[f32; 16]; CHUNKS],
) {
    let (out, n) = (out.as_flattened_mut(), place.n);
    if place.is_inside::<ROW>() {
        interpolate::<ROW>(image, place, |row| place.image_row(row) + place.x as usize, out);
    } else {
        copy_clamped::<ROW>(image, place, patch);
        interpolate::<ROW>(patch.as_flattened().as_flattened(), place, |row| (3 * row + 1) * ROW, out);
    }
    out[n * n..(n * n).next_multiple_of(16)].fill(rest);
}

/// Rows of `ROW` samples, of which the next row covers all but n. `row_start` says where a row of pixels begins.
#[inline(always)]
fn interpolate<const ROW: usize>(
    pixels: &[f32],
    place: &Place,
    row_start: impl Fn(usize) -> usize,
    out: &mut [f32],
) {
    let [ax, ay] = place.fraction;
    let mut above = interpolate_row::<ROW>(&pixels[row_start(0)..], ax);
    for row in 0..place.n {
        let below = interpolate_row::<ROW>(&pixels[row_start(row + 1)..], ax);
        let out = &mut out[row * place.n..row * place.n + ROW];
        for x in 0..ROW {
            out[x] = above[x] + ay * (below[x] - above[x]);
        }
        above = below;
    }
}

#[inline(always)]
fn interpolate_row<const ROW: usize>(pixels: &[f32], ax: f32) -> [f32; ROW] {
    let (left, right) = (&pixels[..ROW], &pixels[1..ROW + 1]);
    let mut row = [0.0; ROW];
    for x in 0..ROW {
        row[x] = left[x] + ax * (right[x] - left[x]);
    }
    row
}

/// Copies the (n + 1) x (n + 1) pixels under the window to the middle third of the patch's rows.
#[inline(always)]
fn copy_clamped<const ROW: usize>(image: &[f32], place: &Place, patch: &mut Patch<ROW>) {
    let Place { width, n, x, .. } = *place;
    for (row, patch) in patch.iter_mut().take(n + 1).enumerate() {
        let pixels = &image[place.image_row(row)..][..width];
        let patch = patch.as_flattened_mut();
        if width < ROW {
            for column in 0..=n {
                let nearest = (x + column as isize).clamp(0, width as isize - 1);
                patch[ROW + column] = pixels[nearest as usize];
            }
            continue;
        }
        // One vector of pixels where it belongs, the border's value before or behind it.
        let first = x.clamp(0, (width - ROW) as isize);
        let at = |column: isize| (ROW as isize + column - x) as usize;
        patch[ROW..2 * ROW].fill(pixels[0]);
        patch[at(first)..at(first) + ROW].copy_from_slice(&pixels[first as usize..first as usize + ROW]);
        let right = at(width as isize);
        if right < 2 * ROW {
            patch[right..right + ROW].fill(pixels[width - 1]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numerics::SplitMix64;

    /// Bilinear with the border repeated, the plain way.
    fn sample(image: &[f32], width: usize, height: usize, x: f64, y: f64) -> f64 {
        let at = |x: f64, y: f64| {
            let (x, y) =
                (x.clamp(0.0, width as f64 - 1.0) as usize, y.clamp(0.0, height as f64 - 1.0) as usize);
            image[y * width + x] as f64
        };
        let (x0, y0) = (x.floor(), y.floor());
        let row = |y: f64| (1.0 - (x - x0)) * at(x0, y) + (x - x0) * at(x0 + 1.0, y);
        (1.0 - (y - y0)) * row(y0) + (y - y0) * row(y0 + 1.0)
    }

    fn check<const ROW: usize, const CHUNKS: usize>(
        n: usize,
        width: usize,
        height: usize,
        rng: &mut SplitMix64,
    ) {
        let image: Vec<f32> = (0..width * height).map(|_| rng.unit() as f32).collect();
        let mut patch = [[[0.0; ROW]; 3]; ROW];
        let mut out = [[0.0; 16]; CHUNKS];
        for _ in 0..40 {
            let spread = |size: usize, unit: f64| (unit * (size as f64 + 60.0) - 30.0) as f32;
            let at = [spread(width, rng.unit()), spread(height, rng.unit())];
            read(&image, &Place::new(width, height, at, n), 7.0, &mut patch, &mut out);
            let out = out.as_flattened();
            for i in 0..n * n {
                let offset = [i % n, i / n].map(|v| v as f64 - (n / 2) as f64);
                let (x, y) = (at[0] as f64 + offset[0], at[1] as f64 + offset[1]);
                let expected = sample(&image, width, height, x, y);
                assert!(
                    (out[i] as f64 - expected).abs() < 1e-5,
                    "{width}x{height}, window {n} at {at:?}, sample {i}"
                );
            }
            assert!(out[n * n..(n * n).next_multiple_of(16)].iter().all(|&v| v == 7.0));
        }
    }

    #[test]
    fn windows_are_bilinear_inside_and_repeat_the_border_outside() {
        let mut rng = SplitMix64::new(3, 0);
        for (width, height) in [(1, 1), (5, 9), (16, 16), (17, 30), (40, 23), (90, 70)] {
            check::<16, 15>(15, width, height, &mut rng);
            check::<16, 15>(3, width, height, &mut rng);
            check::<24, 28>(21, width, height, &mut rng);
            check::<32, 61>(31, width, height, &mut rng);
            check::<64, 249>(63, width, height, &mut rng);
        }
    }
}
