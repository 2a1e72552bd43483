//! Windows about non-integer points, rows one behind the other without gaps.
//!
//! Between pixels a picture is the quadratic B-spline with the pixels as coefficients (Unser 1999, "Splines: a perfect
//! fit for signal and image processing"): three taps an axis. It blurs by the same quarter of a square pixel at every
//! fraction, where linear interpolation blurs by f (1 - f), which pulls matches towards whole pixels.

/// A window of n x n samples: the first of the (n + 2) x (n + 2) pixels under it, and the taps of every sample.
#[derive(Clone, Copy)]
pub struct Place {
    width: usize,
    height: usize,
    n: usize,
    x: isize,
    y: isize,
    taps_x: [f32; 3],
    taps_y: [f32; 3],
}

/// What lies outside of a picture.
#[derive(Clone, Copy, PartialEq)]
pub enum Outside {
    /// The nearest pixel of the border.
    Border,
    /// Zero; for windows about points inside.
    Zero,
}

impl Place {
    /// The window of `n` x `n` samples centred at `at` in a picture of `width` x `height`, none of them 0.
    #[inline(always)]
    pub fn new(width: usize, height: usize, at: [f32; 2], n: usize) -> Place {
        // A window wholly outside sees the border only, wherever it is.
        let (beyond, half) = (n as f32 - 0.5, (n / 2) as f32);
        let left = (at[0] - half).clamp(-beyond, width as f32);
        let top = (at[1] - half).clamp(-beyond, height as f32);
        let (x, y) = ((left + 0.5).floor(), (top + 0.5).floor());
        let (taps_x, taps_y) = (taps(left - x), taps(top - y));
        Place { width, height, n, x: x as isize - 1, y: y as isize - 1, taps_x, taps_y }
    }

    /// Row `row` of the pixels under the window; rows outside are those of the border.
    #[inline(always)]
    fn image_row(&self, row: usize) -> usize {
        (self.y + row as isize).clamp(0, self.height as isize - 1) as usize * self.width
    }

    /// Whether rows of `ROW` + 2 pixels can be read in place.
    #[inline(always)]
    fn is_inside<const ROW: usize>(&self) -> bool {
        self.x >= 0
            && self.y >= 0
            && self.x as usize + self.n + 1 < self.width
            && (self.y as usize + self.n + 1) * self.width + self.x as usize + ROW + 1
                < self.width * self.height
    }
}

/// The quadratic B-spline at -1 - `t`, -`t` and 1 - `t`, `t` in [-0.5, 0.5].
#[inline(always)]
pub fn taps(t: f32) -> [f32; 3] {
    let (before, after) = (0.5 - t, 0.5 + t);
    [0.5 * before * before, 0.75 - t * t, 0.5 * after * after]
}

/// Room for the pixels under a window of `n` samples a side: n + 2 rows of three times `row`.
pub fn under_len(n: usize, row: usize) -> usize {
    (n + 2) * 3 * row
}

/// Reads the window at `place` into `out`, row by row; what is left of the last sixteen is `rest`. `ROW` is larger than
/// the window's side; `under` has room for the pixels under a window that reaches over the border.
#[inline(always)]
pub fn read<const ROW: usize, const CHUNKS: usize>(
    image: &[f32],
    place: &Place,
    outside: Outside,
    rest: f32,
    under: &mut [f32],
    out: &mut [[f32; 16]; CHUNKS],
) {
    let (out, n) = (out.as_flattened_mut(), place.n);
    if place.is_inside::<ROW>() {
        interpolate::<ROW>(image, place, |row| place.image_row(row) + place.x as usize, out);
    } else {
        copy::<ROW>(image, place, outside, under);
        interpolate::<ROW>(under, place, |row| (3 * row + 1) * ROW, out);
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
    let [a, b, c] = place.taps_y;
    let mut above = interpolate_row::<ROW>(&pixels[row_start(0)..], place.taps_x);
    let mut middle = interpolate_row::<ROW>(&pixels[row_start(1)..], place.taps_x);
    for row in 0..place.n {
        let below = interpolate_row::<ROW>(&pixels[row_start(row + 2)..], place.taps_x);
        let out = &mut out[row * place.n..row * place.n + ROW];
        for x in 0..ROW {
            out[x] = a * above[x] + b * middle[x] + c * below[x];
        }
        (above, middle) = (middle, below);
    }
}

#[inline(always)]
fn interpolate_row<const ROW: usize>(pixels: &[f32], [a, b, c]: [f32; 3]) -> [f32; ROW] {
    let (left, middle, right) = (&pixels[..ROW], &pixels[1..ROW + 1], &pixels[2..ROW + 2]);
    let mut row = [0.0; ROW];
    for x in 0..ROW {
        row[x] = a * left[x] + b * middle[x] + c * right[x];
    }
    row
}

/// Copies the (n + 2) x (n + 2) pixels under the window to where the second `ROW` of the rows of `under` begins.
#[inline(always)]
fn copy<const ROW: usize>(image: &[f32], place: &Place, outside: Outside, under: &mut [f32]) {
    let Place { width, height, n, x, y, .. } = *place;
    for (row, line) in under.chunks_exact_mut(3 * ROW).enumerate() {
        if outside == Outside::Zero && !(0..height as isize).contains(&(y + row as isize)) {
            line.fill(0.0);
            continue;
        }
        let pixels = &image[place.image_row(row)..][..width];
        let (before, behind) = match outside {
            Outside::Border => (pixels[0], pixels[width - 1]),
            Outside::Zero => (0.0, 0.0),
        };
        let at = |column: isize| (ROW as isize + column - x) as usize;
        line[ROW..=2 * ROW].fill(before);
        if width <= ROW {
            for column in 0..n + 2 {
                if let Ok(inside) = usize::try_from(x + column as isize) {
                    line[ROW + column] = if inside < width { pixels[inside] } else { behind };
                }
            }
            continue;
        }
        // As many pixels as any window needs, where they belong.
        let first = x.clamp(0, (width - ROW - 1) as isize);
        line[at(first)..=at(first) + ROW].copy_from_slice(&pixels[first as usize..=first as usize + ROW]);
        let right = at(width as isize);
        if right <= 2 * ROW {
            line[right..=2 * ROW].fill(behind);
        }
    }
}

/// (1 - u^2) (1 - v^2) by sample, zero behind the last.
pub fn weights<const CHUNKS: usize>(n: usize) -> [[f32; 16]; CHUNKS] {
    let half = (n / 2) as f32;
    let weight = |i: usize| {
        let u = (i as f32 - half) / (half + 1.0);
        1.0 - u * u
    };
    let mut weights = [[0.0; 16]; CHUNKS];
    for (i, out) in weights.as_flattened_mut()[..n * n].iter_mut().enumerate() {
        *out = weight(i % n) * weight(i / n);
    }
    weights
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numerics::SplitMix64;

    /// The quadratic B-spline, piece by piece.
    fn spline(distance: f64) -> f64 {
        match distance.abs() {
            d if d <= 0.5 => 0.75 - d * d,
            d if d <= 1.5 => 0.5 * (1.5 - d) * (1.5 - d),
            _ => 0.0,
        }
    }

    /// All pixels within reach, each weighted, the plain way.
    fn sample(image: &[f32], [width, height]: [i64; 2], outside: Outside, x: f64, y: f64) -> f64 {
        let mut sum = 0.0;
        for row in y.floor() as i64 - 2..=y.floor() as i64 + 3 {
            for column in x.floor() as i64 - 2..=x.floor() as i64 + 3 {
                let (inside_x, inside_y) = (column.clamp(0, width - 1), row.clamp(0, height - 1));
                let is_outside = (inside_x, inside_y) != (column, row);
                let pixel = image[(inside_y * width + inside_x) as usize] as f64;
                let pixel = if is_outside && outside == Outside::Zero { 0.0 } else { pixel };
                sum += spline(x - column as f64) * spline(y - row as f64) * pixel;
            }
        }
        sum
    }

    fn check<const ROW: usize, const CHUNKS: usize>(
        n: usize,
        width: usize,
        height: usize,
        rng: &mut SplitMix64,
    ) {
        let image: Vec<f32> = (0..width * height).map(|_| rng.unit() as f32).collect();
        let mut under = vec![f32::NAN; under_len(n, ROW)];
        let mut out = [[0.0; 16]; CHUNKS];
        for _ in 0..40 {
            let spread = |size: usize, unit: f64| (unit * (size as f64 + 60.0) - 30.0) as f32;
            let at = [spread(width, rng.unit()), spread(height, rng.unit())];
            let is_inside = |at: f32, size: usize| at >= -0.5 && at < size as f32 - 0.5;
            let zero = is_inside(at[0], width) && is_inside(at[1], height) && rng.unit() < 0.7;
            let outside = if zero { Outside::Zero } else { Outside::Border };
            read::<ROW, CHUNKS>(
                &image,
                &Place::new(width, height, at, n),
                outside,
                7.0,
                &mut under,
                &mut out,
            );
            let out = out.as_flattened();
            for i in 0..n * n {
                let offset = [i % n, i / n].map(|v| v as f64 - (n / 2) as f64);
                let (x, y) = (at[0] as f64 + offset[0], at[1] as f64 + offset[1]);
                let expected = sample(&image, [width as i64, height as i64], outside, x, y);
                assert!(
                    (out[i] as f64 - expected).abs() < 1e-5,
                    "{width}x{height}, window {n} at {at:?}, sample {i}: {} and {expected}",
                    out[i]
                );
            }
            assert!(out[n * n..(n * n).next_multiple_of(16)].iter().all(|&v| v == 7.0));
        }
    }

    #[test]
    fn windows_are_splines_inside_and_see_the_border_or_zero_outside() {
        let mut rng = SplitMix64::new(3, 0);
        for (width, height) in [(1, 1), (5, 9), (16, 16), (17, 30), (18, 17), (40, 23), (90, 70)] {
            check::<16, 15>(15, width, height, &mut rng);
            check::<16, 15>(3, width, height, &mut rng);
            check::<24, 28>(21, width, height, &mut rng);
            check::<32, 61>(31, width, height, &mut rng);
            check::<64, 249>(63, width, height, &mut rng);
        }
    }

    #[test]
    fn a_picture_is_blurred_alike_at_every_fraction() {
        let parabola: Vec<f32> = (0..32 * 32).map(|i| ((i % 32) as f32 - 16.0).powi(2)).collect();
        let mut under = vec![0.0; under_len(3, 16)];
        let mut out = [[0.0f32; 16]; 15];
        for at in [[15.0, 16.0], [15.3, 16.0], [15.5, 15.5], [16.9, 16.2]] {
            read::<16, 15>(&parabola, &Place::new(32, 32, at, 3), Outside::Border, 0.0, &mut under, &mut out);
            let expected = (at[0] - 16.0f32).powi(2) + 0.25;
            assert!((out[0][4] - expected).abs() < 1e-5, "{} and {expected} at {at:?}", out[0][4]);
        }
    }
}
