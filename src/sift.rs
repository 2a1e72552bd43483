//! SIFT (Lowe 2004) over both backends, and its host side: options, the sizes of octaves, which points stay.

pub use self::cpu::{SiftScratch, extract_features};
pub use self::extractor::Extractor;
pub use self::gpu::{GpuSift, SiftRoom};
pub use self::options::{SiftOptionError, SiftOptions};

use crate::kernels::refine::Extremum;
use crate::message::Keypoint;

mod cpu;
mod extractor;
mod gpu;
mod octaves;
mod options;
mod scale_space;
mod selection;
#[cfg(test)]
mod tests;

/// A refined extremum. Positions are pixels of its octave.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Point {
    octave: u32,
    layer: u32,
    pixel: [u32; 2],
    position: [f32; 2],
    /// The refined layer.
    level: f32,
    response: f32,
}

impl Point {
    fn from_extremum(extremum: &Extremum, octave: u32) -> Point {
        let [x, y, level] = extremum.position;
        Point {
            octave,
            layer: extremum.pixel[2],
            pixel: [extremum.pixel[0], extremum.pixel[1]],
            position: [x, y],
            level,
            response: extremum.value.abs(),
        }
    }

    fn order(&self) -> [u32; 4] {
        [self.octave, self.layer, self.pixel[1], self.pixel[0]]
    }

    /// Sigma in pixels of the octave.
    fn scale(&self, options: &SiftOptions) -> f32 {
        options.base_sigma_px * libm::exp2f(self.level / options.scales_per_octave as f32)
    }

    /// The keypoint in the analysis picture; `steps` are those of the octaves, `scale` is the point's.
    fn keypoint(&self, steps: &[f32], scale: f32, orientation: f32) -> Keypoint {
        let step = steps[self.octave as usize];
        let [x, y] = self.position;
        Keypoint { x: step * x, y: step * y, scale: step * scale, orientation, response: self.response }
    }
}
