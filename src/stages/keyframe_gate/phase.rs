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
/// Half the width of the square about the peak that is not side lobe (Bolme et al. 2010: 11 x 11).
const PEAK_HALF_WIDTH: usize = 5;
/// Peak above the mean of the side lobes, in their standard deviations. The highest side lobe of unrelated frames
/// stands near 4.5.
const MIN_PEAK_TO_SIDELOBE: f64 = 8.0;
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
        let low_pass = |k: usize, n: usize| {
            let omega = TAU * signed(k, n) / n as f64;
            libm::exp(-0.5 * PEAK_SIGMA_PX * PEAK_SIGMA_PX * omega * omega)
        };
        let whitened = |(i, (a, b)): (usize, (&Complex<f64>, &Complex<f64>))| {
            let cross = a.conj() * b;
            let power = (cross.re * cross.re + cross.im * cross.im).sqrt();
            cross / (power + MIN_CROSS_POWER) * low_pass(i % width, width) * low_pass(i / width, height)
        };
        let mut correlation: Vec<_> = self.data.iter().zip(&later.data).enumerate().map(whitened).collect();
        transform(&mut correlation, width, height, FftDirection::Inverse);
        let surface: Vec<f64> = correlation.iter().map(|c| c.re).collect();
        let peak = (0..surface.len()).fold(0, |best, i| if surface[i] > surface[best] { i } else { best });
        let (x, y) = (peak % width, peak / width);
        if !is_clear(&surface, width, x, y) {
            return None;
        }
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

/// Whether the peak at (x, y) stands out: peak-to-sidelobe ratio (Bolme et al. 2010, section 3.5).
fn is_clear(surface: &[f64], width: usize, x: usize, y: usize) -> bool {
    let height = surface.len() / width;
    let distance = |a: usize, b: usize, n: usize| a.abs_diff(b).min(n - a.abs_diff(b));
    let (mut sum, mut sum2, mut count) = (0.0, 0.0, 0.0);
    for (i, &value) in surface.iter().enumerate() {
        let near = distance(i % width, x, width) <= PEAK_HALF_WIDTH
            && distance(i / width, y, height) <= PEAK_HALF_WIDTH;
        if !near {
            (sum, sum2, count) = (sum + value, sum2 + value * value, count + 1.0);
        }
    }
    let mean = sum / count;
    let deviation = (sum2 / count - mean * mean).max(0.0).sqrt();
    surface[y * width + x] - mean > MIN_PEAK_TO_SIDELOBE * deviation
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
