//! Gaussian blur: y, then x, each rounded to f32; a sum begins with the centre and adds the pairs of equal taps
//! outwards. Taps reach to 4 sigma and sum to 1. Border clamped; centres stay where they are.
//! One invocation: a block of rows.

/// Largest radius of a blur in pixels: sigma up to 8.
pub const MAX_RADIUS: usize = 32;

/// Pixels that are summed at once.
const SPAN: usize = 32;

/// One side of a symmetric filter, the centre first.
#[derive(Clone, Debug, PartialEq)]
pub struct GaussianTaps {
    radius: usize,
    taps: [f32; MAX_RADIUS + 1],
}

impl GaussianTaps {
    /// The taps of a Gaussian of `sigma` pixels, 0 < sigma <= 8.
    pub fn new(sigma: f64) -> Self {
        let radius = (libm::ceil(4.0 * sigma) as usize).clamp(1, MAX_RADIUS);
        let weight = |i: usize| libm::exp(-0.5 * (i as f64 / sigma) * (i as f64 / sigma));
        let sum = 1.0 + 2.0 * (1..=radius).map(weight).sum::<f64>();
        let mut taps = [0.0; MAX_RADIUS + 1];
        for (i, tap) in taps[..=radius].iter_mut().enumerate() {
            *tap = (weight(i) / sum) as f32;
        }
        GaussianTaps { radius, taps }
    }

    /// Pixels to either side of the centre.
    pub fn radius(&self) -> usize {
        self.radius
    }
}

/// Writes the rows from `first_row` on of the blurred image to `target`. `scratch`: `width + 2 * MAX_RADIUS` values.
#[inline(always)]
pub fn gaussian_blur(
    source: &[f32],
    width: usize,
    height: usize,
    taps: &GaussianTaps,
    first_row: usize,
    scratch: &mut [f32],
    target: &mut [f32],
) {
    let radius = taps.radius;
    let padded = &mut scratch[..width + 2 * radius];
    for (block_row, target_row) in target.chunks_exact_mut(width).enumerate() {
        let y = (first_row + block_row) as isize;
        let row_start = |t: isize| (y + t).clamp(0, height as isize - 1) as usize * width;
        filter_row(taps, &mut padded[radius..radius + width], |x, t| &source[row_start(t) + x..]);
        let (first, last) = (padded[radius], padded[radius + width - 1]);
        padded[..radius].fill(first);
        padded[radius + width..].fill(last);
        filter_row(taps, target_row, |x, t| &padded[(radius + x).wrapping_add_signed(t)..]);
    }
}

/// Filters a row; `at(x, t)` begins with the samples at `t` taps from `x`, `x + 1`, ...
#[inline(always)]
fn filter_row<'a>(taps: &GaussianTaps, target: &mut [f32], at: impl Fn(usize, isize) -> &'a [f32]) {
    let width = target.len();
    if width < SPAN {
        for x in 0..width {
            target[x] = filter_span::<1>(taps, |t| at(x, t))[0];
        }
        return;
    }
    // The last span overlaps the one before it, so that every span is full.
    for start in (0..width).step_by(SPAN) {
        let x = start.min(width - SPAN);
        target[x..x + SPAN].copy_from_slice(&filter_span::<SPAN>(taps, |t| at(x, t)));
    }
}

#[inline(always)]
fn filter_span<'a, const N: usize>(taps: &GaussianTaps, at: impl Fn(isize) -> &'a [f32]) -> [f32; N] {
    let centre = &at(0)[..N];
    let mut sum = [0.0; N];
    for i in 0..N {
        sum[i] = taps.taps[0] * centre[i];
    }
    for t in 1..=taps.radius {
        let (before, after) = (&at(-(t as isize))[..N], &at(t as isize)[..N]);
        for i in 0..N {
            sum[i] += taps.taps[t] * (before[i] + after[i]);
        }
    }
    sum
}
