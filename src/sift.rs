//! SIFT (Lowe 2004) over both backends, and its host side: options, the sizes of octaves, which points stay.

pub use self::cpu::{SiftScratch, describe_places, extract_features};
pub use self::extractor::Extractor;
pub use self::gpu::{GpuSift, SiftRoom};
pub use self::options::{SiftOptionError, SiftOptions};
pub use self::place::{DescribedPlace, Place};

use crate::kernels::refine::Extremum;
use crate::kernels::sift_point::SiftPoint;
use crate::message::Keypoint;

mod cpu;
mod extractor;
mod gpu;
mod octaves;
mod options;
mod place;
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

    /// Where it is described.
    fn sift_point(&self, options: &SiftOptions) -> SiftPoint {
        let [x, y] = self.position;
        let scale = options.base_sigma_px * libm::exp2f(self.level / options.scales_per_octave as f32);
        SiftPoint { octave: self.octave, layer: self.layer, x, y, scale, unused: [0; 3] }
    }
}

/// The keypoint in the analysis picture of a point described at `orientation`; `steps` are those of the octaves.
fn keypoint(point: &SiftPoint, steps: &[f32], orientation: f32, response: f32) -> Keypoint {
    let step = steps[point.octave as usize];
    Keypoint { x: step * point.x, y: step * point.y, scale: step * point.scale, orientation, response }
}
