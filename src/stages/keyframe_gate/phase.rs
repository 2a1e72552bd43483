//! Phase correlation of thumbnails (Kuglin and Hines 1975): the displacement between two frames as a whole.

use std::f64::consts::TAU;

use rustfft::num_complex::Complex;
use rustfft::{FftDirection, FftPlannerScalar};

use crate::picture::GrayImage;

/// Longer side of a thumbnail.
const THUMBNAIL_PX: usize = 128;
/// Width of the low-pass that turns the peak into a Gaussian, in thumbnail pixels: what lies between its samples can
/// be read from three of them.
const PEAK_SIGMA_PX: f64 = 0.8;
/// Least height of a clear peak, as a share of what a pure shift gives. Unrelated frames reach 0.15. A camera going
/// forward has a peak at no shift that fades with the motion: it must not answer for long.
const MIN_PEAK: f64 = 0.3;
/// Cross power below which a frequency carries no phase: gray in [0, 1], sums over the thumbnail.
const MIN_CROSS_POWER: f64 = 1e-6;

/// Spectrum of a frame's thumbnail: area-averaged, mean removed, Hann-windowed.
#[derive(Debug)]
pub struct Spectrum {
    width: usize,
    height: usize,
    /// Analysis pixels per thumbnail pixel in x and y.
    scale: [f64; 2],
    data: Vec<Complex<f64>>,
}

impl Spectrum {
    /// The spectrum of a gray image of at least one pixel.
    pub fn new(gray: &GrayImage) -> Spectrum {
        let longer = gray.width.max(gray.height);
        let shrunk = |size: usize| ((size * THUMBNAIL_PX.min(longer) + longer / 2) / longer).max(1);
        let (width, height) = (shrunk(gray.width), shrunk(gray.height));
        let thumbnail = area_average(gray, width, height);
        let mean = thumbnail.iter().sum::<f64>() / thumbnail.len() as f64;
        let hann = |i: usize, n: usize| 0.5 - 0.5 * libm::cos(TAU * (i as f64 + 0.5) / n as f64);
        let windowed = |(i, &v): (usize, &f64)| {
            Complex::from((v - mean) * hann(i % width, width) * hann(i / width, height))
        };
        let mut data: Vec<_> = thumbnail.iter().enumerate().map(windowed).collect();
        transform(&mut data, width, height, FftDirection::Forward);
        let scale = [gray.width as f64 / width as f64, gray.height as f64 / height as f64];
        Spectrum { width, height, scale, data }
    }

    /// How far the picture content moved from this frame to `later`, in analysis pixels; none without a clear peak.
    pub fn displacement_to(&self, later: &Spectrum) -> Option<[f32; 2]> {
        let (width, height) = (self.width, self.height);
        if (width, height) != (later.width, later.height) {
            return None;
        }
        let low_pass = |n: usize| -> Vec<f64> {
            let omega = |k| TAU * PEAK_SIGMA_PX * signed(k, n) / n as f64;
            (0..n).map(|k| libm::exp(-0.5 * omega(k) * omega(k))).collect()
        };
        let (pass_x, pass_y) = (low_pass(width), low_pass(height));
        let whitened = |(i, (a, b)): (usize, (&Complex<f64>, &Complex<f64>))| {
            let cross = a.conj() * b;
            let power = (cross.re * cross.re + cross.im * cross.im).sqrt();
            cross / (power + MIN_CROSS_POWER) * (pass_x[i % width] * pass_y[i / width])
        };
        let mut correlation: Vec<_> = self.data.iter().zip(&later.data).enumerate().map(whitened).collect();
        transform(&mut correlation, width, height, FftDirection::Inverse);
        let surface: Vec<f64> = correlation.iter().map(|c| c.re).collect();
        let peak = (0..surface.len()).fold(0, |best, i| if surface[i] > surface[best] { i } else { best });
        let pure_shift = pass_x.iter().sum::<f64>() * pass_y.iter().sum::<f64>();
        if surface[peak] < MIN_PEAK * pure_shift {
            return None;
        }
        let (x, y) = (peak % width, peak / width);
        let row = |dx: usize| surface[y * width + (x + width + dx - 1) % width];
        let column = |dy: usize| surface[(y + height + dy - 1) % height * width + x];
        let dx = signed(x, width) + gaussian_offset([0, 1, 2].map(row));
        let dy = signed(y, height) + gaussian_offset([0, 1, 2].map(column));
        Some([(dx * self.scale[0]) as f32, (dy * self.scale[1]) as f32])
    }
}

/// Index of a periodic axis as a displacement or frequency in -n/2..n/2.
fn signed(k: usize, n: usize) -> f64 {
    if 2 * k < n { k as f64 } else { k as f64 - n as f64 }
}

/// Where between -0.5 and 0.5 the peak of a Gaussian through three samples lies.
fn gaussian_offset(samples: [f64; 3]) -> f64 {
    let [before, at, after] = samples.map(|v| libm::log(v.max(f64::MIN_POSITIVE)));
    let curvature = before - 2.0 * at + after;
    if curvature < 0.0 { (0.5 * (before - after) / curvature).clamp(-0.5, 0.5) } else { 0.0 }
}

/// Discrete Fourier transform of rows, then columns, without a scale. The scalar plan gives the same bits everywhere.
fn transform(data: &mut Vec<Complex<f64>>, width: usize, height: usize, direction: FftDirection) {
    let mut planner = FftPlannerScalar::new();
    for (width, height) in [(width, height), (height, width)] {
        planner.plan_fft(width, direction).process(data);
        *data = (0..width * height).map(|i| data[i % height * width + i / height]).collect();
    }
}

/// Mean gray under each pixel of a grid of `width` x `height`, edge pixels by their share.
fn area_average(gray: &GrayImage, width: usize, height: usize) -> Vec<f64> {
    let columns = shares(gray.width, width);
    let mut narrow = vec![0.0; width * gray.height];
    for (line, out) in gray.data.chunks_exact(gray.width).zip(narrow.chunks_exact_mut(width)) {
        for ((begin, weights), out) in columns.iter().zip(out) {
            *out = weights.iter().zip(&line[*begin..]).map(|(w, &v)| w * v as f64).sum();
        }
    }
    let mut small = vec![0.0; width * height];
    for ((begin, weights), out) in shares(gray.height, height).iter().zip(small.chunks_exact_mut(width)) {
        for (w, line) in weights.iter().zip(narrow[begin * width..].chunks_exact(width)) {
            for (out, v) in out.iter_mut().zip(line) {
                *out += w * v;
            }
        }
    }
    small
}

/// For each of `to` equal parts of `from` samples: the first sample it covers and the share of each, summing to 1.
fn shares(from: usize, to: usize) -> Vec<(usize, Vec<f64>)> {
    // In units of 1 / `to` sample, so that the bounds are integers: part i covers i * from .. (i + 1) * from.
    let part = |i: usize| {
        let (low, high) = (i * from, (i + 1) * from);
        let covered = |s: usize| (high.min((s + 1) * to) - low.max(s * to)) as f64 / from as f64;
        (low / to, (low / to..high.div_ceil(to)).map(covered).collect())
    };
    (0..to).map(part).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numerics::SplitMix64;

    /// A random texture seen through a window at (x, y), in [0, 1]: smoothed noise of cells of 3, 10 and 40 px.
    fn view(seed: u64, width: usize, height: usize, x: f64, y: f64) -> GrayImage {
        let lattice =
            |cell: u64, i: i64, j: i64| SplitMix64::new(seed ^ cell << 32, ((i << 20) ^ j) as u64).unit();
        let noise = |cell: u64, x: f64, y: f64| {
            let (u, v) = (x / cell as f64, y / cell as f64);
            let (i, j) = (u.floor() as i64, v.floor() as i64);
            let [a, b] = [u - u.floor(), v - v.floor()].map(|t| t * t * (3.0 - 2.0 * t));
            let along = |j| (1.0 - a) * lattice(cell, i, j) + a * lattice(cell, i + 1, j);
            (1.0 - b) * along(j) + b * along(j + 1)
        };
        let at = |x, y| (0.2 * noise(3, x, y) + 0.3 * noise(10, x, y) + 0.5 * noise(40, x, y)) as f32;
        let data = (0..width * height).map(|i| at((i % width) as f64 + x, (i / width) as f64 + y)).collect();
        GrayImage { width, height, data }
    }

    #[test]
    fn known_shifts_are_found_to_a_pixel() {
        let first = Spectrum::new(&view(1, 640, 360, 0.0, 0.0));
        for (x, y) in [(0.0, 0.0), (3.0, 0.0), (8.0, -5.0), (-40.0, 22.5), (0.4, 90.0), (120.0, 2.0)] {
            let later = Spectrum::new(&view(1, 640, 360, -x, -y));
            let [dx, dy] = first.displacement_to(&later).expect("a clear peak");
            let error = (dx as f64 - x).hypot(dy as f64 - y);
            assert!(error < 1.0, "({x}, {y}) found as ({dx}, {dy})");
        }
    }

    #[test]
    fn a_picture_smaller_than_the_thumbnail_is_not_enlarged() {
        let first = Spectrum::new(&view(1, 60, 100, 0.0, 0.0));
        assert_eq!((first.width, first.height, first.scale), (60, 100, [1.0, 1.0]));
        let [dx, dy] = first.displacement_to(&Spectrum::new(&view(1, 60, 100, 4.0, -3.0))).unwrap();
        assert!((dx + 4.0).abs() < 0.5 && (dy - 3.0).abs() < 0.5, "({dx}, {dy})");
    }

    #[test]
    fn unrelated_flat_and_differently_sized_frames_have_no_peak() {
        let flat = |v| GrayImage { width: 640, height: 360, data: vec![v; 640 * 360] };
        assert_eq!(Spectrum::new(&flat(0.3)).displacement_to(&Spectrum::new(&flat(0.5))), None);
        let first = Spectrum::new(&view(1, 640, 360, 0.0, 0.0));
        assert_eq!(first.displacement_to(&Spectrum::new(&flat(0.5))), None);
        assert_eq!(first.displacement_to(&Spectrum::new(&view(1, 640, 400, 0.0, 0.0))), None);
        for seed in 2..12 {
            assert_eq!(
                first.displacement_to(&Spectrum::new(&view(seed, 640, 360, 0.0, 0.0))),
                None,
                "seed {seed}"
            );
        }
        let noise = |seed| {
            let mut rng = SplitMix64::new(seed, 1);
            GrayImage { width: 640, height: 360, data: (0..640 * 360).map(|_| rng.unit() as f32).collect() }
        };
        assert_eq!(Spectrum::new(&noise(1)).displacement_to(&Spectrum::new(&noise(2))), None);
        let pixel = GrayImage { width: 1, height: 1, data: vec![0.5] };
        assert_eq!(Spectrum::new(&pixel).displacement_to(&Spectrum::new(&pixel)), None);
    }

    #[test]
    fn area_average_weighs_edge_pixels_by_their_share() {
        let line = GrayImage { width: 5, height: 1, data: vec![1.0, 2.0, 3.0, 4.0, 5.0] };
        let halves = area_average(&line, 2, 1);
        assert!(
            (halves[0] - 4.5 / 2.5).abs() < 1e-12 && (halves[1] - 10.5 / 2.5).abs() < 1e-12,
            "{halves:?}"
        );
        let column = GrayImage { width: 1, height: 3, data: vec![3.0, 6.0, 12.0] };
        assert_eq!(area_average(&column, 1, 1), [7.0]);
        assert_eq!(area_average(&column, 1, 3), [3.0, 6.0, 12.0]);
    }
}
