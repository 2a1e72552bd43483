//! Area averaging with one geometry for gray and RGB: an output pixel covers `step` input samples from its own corner.

use image::RgbImage;
use rayon::prelude::*;

use super::Picture;
use crate::numerics::vectorized;

/// Weights of the input samples that make up each output sample, along one axis.
#[derive(Clone, Debug, PartialEq)]
pub struct AreaTaps {
    /// Input samples along the axis.
    pub n_in: usize,
    /// Weights an output sample; the same for all, padded with zeros.
    pub n_taps: usize,
    /// First input sample of each output sample; `first + n_taps <= n_in`.
    pub first: Vec<u32>,
    /// `n_taps` weights an output sample, ascending; they sum to 1.
    pub weights: Vec<f32>,
}

impl AreaTaps {
    /// Output sample i covers `[i step, (i + 1) step)` of `n_in` input samples: their mean where `step >= 1`, linear
    /// interpolation at the centre where it is smaller. Beyond the last input sample the last one is repeated.
    /// `n_in`, `n_out` and `step` must be positive.
    pub fn new(n_in: usize, n_out: usize, step: f64) -> AreaTaps {
        let half = step.max(1.0) / 2.0;
        let span = |i: usize| {
            let centre = (i as f64 + 0.5) * step;
            (centre - half, centre + half)
        };
        let n_taps = (0..n_out).map(|i| (span(i).1.ceil() - span(i).0.floor()) as usize).max();
        let n_taps = n_taps.unwrap_or(1).clamp(1, n_in);
        let mut taps = AreaTaps { n_in, n_taps, first: vec![], weights: vec![0.0; n_out * n_taps] };
        for (i, weights) in taps.weights.chunks_exact_mut(n_taps).enumerate() {
            let (low, high) = span(i);
            let first = (low.floor() as i64).clamp(0, (n_in - n_taps) as i64);
            let mut sums = vec![0.0; n_taps];
            for sample in low.floor() as i64..high.ceil() as i64 {
                let overlap = high.min((sample + 1) as f64) - low.max(sample as f64);
                sums[(sample.clamp(0, n_in as i64 - 1) - first) as usize] += overlap / (2.0 * half);
            }
            for (weight, sum) in weights.iter_mut().zip(sums) {
                *weight = sum as f32;
            }
            taps.first.push(first as u32);
        }
        taps
    }

    /// Columns and rows that bring the samples of a picture to `width` x `height` square pixels, with the one factor
    /// square width / `width` for both axes.
    pub fn of_picture(picture: &Picture, width: u32, height: u32) -> (AreaTaps, AreaTaps) {
        let square = picture.square_size();
        let scale = square.0 as f64 / width as f64;
        let taps = |n_in: u32, n_square: u32, n_out: u32| {
            AreaTaps::new(n_in as usize, n_out as usize, scale * n_in as f64 / n_square as f64)
        };
        (taps(picture.width, square.0, width), taps(picture.height, square.1, height))
    }

    /// Output samples along the axis.
    pub fn n_out(&self) -> usize {
        self.first.len()
    }

    /// First input sample and the weights of output sample `i`.
    #[inline(always)]
    pub fn at(&self, i: usize) -> (usize, &[f32]) {
        (self.first[i] as usize, &self.weights[i * self.n_taps..][..self.n_taps])
    }
}

/// Averages a picture of `n` interleaved channels. `add_row(y, weight, sums)` adds weight x input row y to the
/// `columns.n_in * n` sums; `put(sum)` makes an output sample of a weighted sum. `scratch` holds one or more such rows
/// of sums; its length decides how many bands run at once, never the result. Sums go down the column first, then along
/// the row, ascending.
#[inline(always)]
pub fn area_average<T: Send>(
    columns: &AreaTaps,
    rows: &AreaTaps,
    n: usize,
    scratch: &mut [f32],
    out: &mut [T],
    add_row: impl Fn(usize, f32, &mut [f32]) + Sync,
    put: impl Fn(f32) -> T + Sync,
) {
    let (row_in, row_out) = (columns.n_in * n, columns.n_out() * n);
    let n_bands = (scratch.len() / row_in).max(1);
    let band_rows = rows.n_out().div_ceil(n_bands);
    let bands = out.par_chunks_mut(band_rows * row_out).zip(scratch.par_chunks_exact_mut(row_in));
    bands.enumerate().for_each(|(band, (band_out, sums))| {
        for (i, out) in band_out.chunks_exact_mut(row_out).enumerate() {
            let (first, weights) = rows.at(band * band_rows + i);
            vectorized(
                #[inline(always)]
                || {
                    sums.fill(0.0);
                    for (t, &weight) in weights.iter().enumerate() {
                        add_row(first + t, weight, sums);
                    }
                    average_along_row(columns, n, sums, out, &put);
                },
            );
        }
    });
}

#[inline(always)]
fn average_along_row<T>(columns: &AreaTaps, n: usize, sums: &[f32], out: &mut [T], put: &impl Fn(f32) -> T) {
    match (columns.n_taps, n) {
        (1, _) if columns.n_in == columns.n_out() => {
            for (value, &sum) in out.iter_mut().zip(sums) {
                *value = put(sum);
            }
        }
        (2, 1) => average_taps::<T, 2, 1>(columns, sums, out, put),
        (3, 1) => average_taps::<T, 3, 1>(columns, sums, out, put),
        (4, 1) => average_taps::<T, 4, 1>(columns, sums, out, put),
        (2, 3) => average_taps::<T, 2, 3>(columns, sums, out, put),
        (3, 3) => average_taps::<T, 3, 3>(columns, sums, out, put),
        (4, 3) => average_taps::<T, 4, 3>(columns, sums, out, put),
        (n_taps, _) => average_any(columns, n_taps, n, sums, out, put),
    }
}

/// The usual counts of taps, unrolled; the sums are those of `average_any`.
#[inline(always)]
fn average_taps<T, const TAPS: usize, const N: usize>(
    columns: &AreaTaps,
    sums: &[f32],
    out: &mut [T],
    put: &impl Fn(f32) -> T,
) {
    let (pixels, samples) = (out.as_chunks_mut::<N>().0, sums.as_chunks::<N>().0);
    let weights = columns.weights.as_chunks::<TAPS>().0;
    for ((pixel, &first), weights) in pixels.iter_mut().zip(&columns.first).zip(weights) {
        let samples = &samples[first as usize..][..TAPS];
        for channel in 0..N {
            let mut sum = 0.0;
            for t in 0..TAPS {
                sum += weights[t] * samples[t][channel];
            }
            pixel[channel] = put(sum);
        }
    }
}

#[inline(always)]
fn average_any<T>(
    columns: &AreaTaps,
    n_taps: usize,
    n: usize,
    sums: &[f32],
    out: &mut [T],
    put: &impl Fn(f32) -> T,
) {
    for (x, pixel) in out.chunks_exact_mut(n).enumerate() {
        let (first, weights) = columns.at(x);
        let samples = &sums[first * n..][..n_taps * n];
        for (channel, value) in pixel.iter_mut().enumerate() {
            let mut sum = 0.0;
            for (t, weight) in weights.iter().enumerate() {
                sum += weight * samples[t * n + channel];
            }
            *value = put(sum);
        }
    }
}

/// RGB brought to the size of the taps.
pub fn rgb_from_rgb(rgb: &RgbImage, columns: &AreaTaps, rows: &AreaTaps) -> RgbImage {
    let row_in = 3 * columns.n_in;
    let mut scratch = vec![0.0; row_in * rayon::current_num_threads()];
    let mut out = RgbImage::new(columns.n_out() as u32, rows.n_out() as u32);
    let add_row = |y: usize, weight: f32, sums: &mut [f32]| {
        for (sum, &sample) in sums.iter_mut().zip(&rgb.as_raw()[y * row_in..][..row_in]) {
            *sum += weight * sample as f32;
        }
    };
    area_average(columns, rows, 3, &mut scratch, &mut out, add_row, |sum| (sum + 0.5) as u8);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn taps_cover_their_interval() {
        let taps = AreaTaps::new(10, 4, 2.5);
        let rows: Vec<(usize, &[f32])> = (0..4).map(|i| taps.at(i)).collect();
        assert_eq!(rows[0], (0, &[0.4, 0.4, 0.2][..]));
        assert_eq!(rows[1], (2, &[0.2, 0.4, 0.4][..]));
        assert_eq!(rows[3], (7, &[0.2, 0.4, 0.4][..]));
        assert_eq!(AreaTaps::new(6, 3, 2.0).n_taps, 2);
        assert_eq!(AreaTaps::new(6, 6, 1.0).weights, [1.0; 6]);
    }

    #[test]
    fn growing_is_linear() {
        // Output centres at 0.25, 0.75, 1.25, ... of samples centred at 0.5, 1.5.
        let taps = AreaTaps::new(2, 4, 0.5);
        let value = |i: usize| {
            let (first, weights) = taps.at(i);
            weights.iter().enumerate().map(|(t, w)| w * [0.0, 8.0][first + t]).sum::<f32>()
        };
        assert_eq!([value(0), value(1), value(2), value(3)], [0.0, 2.0, 6.0, 8.0]);
    }

    #[test]
    fn beyond_the_edge_the_last_sample_is_repeated() {
        let taps = AreaTaps::new(5, 3, 2.0);
        assert_eq!(taps.at(2), (3, &[0.0, 1.0][..]));
    }
}
