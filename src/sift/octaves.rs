//! The octaves of a picture and the blur of their layers (Lowe 2004, section 3).

use super::SiftOptions;
use crate::kernels::gaussian_blur::GaussianTaps;

/// Blur that a picture is taken to have, in its pixels.
const INPUT_SIGMA_PX: f64 = 0.5;
/// Octaves end where a side would be shorter.
const MIN_SIDE_PX: usize = 12;

/// Size of an octave: pixel (x, y) lies at `step` (x, y) of the analysis picture.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct OctaveSize {
    /// Width in pixels.
    pub width: usize,
    /// Height in pixels.
    pub height: usize,
    /// Analysis pixels a pixel.
    pub step: f32,
}

impl OctaveSize {
    /// Pixels of a layer.
    pub fn pixels(&self) -> usize {
        self.width * self.height
    }
}

/// Pixels of the first octave along one of the picture's.
pub fn doubling(options: &SiftOptions) -> usize {
    if options.first_octave < 0 { 2 } else { 1 }
}

/// The octaves of a picture of `size`, the finest first.
pub fn octave_sizes(size: (usize, usize), options: &SiftOptions) -> Vec<OctaveSize> {
    let doubles = doubling(options);
    let first = OctaveSize { width: doubles * size.0, height: doubles * size.1, step: 1.0 / doubles as f32 };
    let halved = |o: &OctaveSize| {
        let (width, height) = (o.width.div_ceil(2), o.height.div_ceil(2));
        Some(OctaveSize { width, height, step: 2.0 * o.step })
    };
    std::iter::successors(Some(first), halved)
        .take_while(|octave| octave.width.min(octave.height) >= MIN_SIDE_PX)
        .take(options.octaves as usize)
        .collect()
}

/// The blur of Gaussian layer `layer`: from the layer before to `base_sigma * 2^(layer / scales)` pixels; of layer 0
/// from the picture's pixels, doubled as the options say.
pub fn layer_taps(layer: usize, options: &SiftOptions) -> GaussianTaps {
    let scales = options.scales_per_octave as f64;
    let sigma = |layer: usize| options.base_sigma_px as f64 * libm::exp2(layer as f64 / scales);
    match layer {
        0 => taps_between(doubling(options) as f64 * INPUT_SIGMA_PX, sigma(0)),
        _ => taps_between(sigma(layer - 1), sigma(layer)),
    }
}

/// The blur that takes a picture of sigma `from` to sigma `to`, at least a tenth of a pixel.
fn taps_between(from: f64, to: f64) -> GaussianTaps {
    GaussianTaps::new((to * to - from * from).max(0.01).sqrt())
}
