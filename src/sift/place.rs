//! Places that are described beside the keypoints that were found.

use super::SiftOptions;
use crate::kernels::refine::MOVE_OFFSET;
use crate::kernels::sift_point::SiftPoint;
use crate::message::{Descriptor, Keypoint};

/// A place in a picture to be described at the strongest orientation of what is seen there.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Place {
    /// Position in pixels of the picture, centres at integers.
    pub x: f32,
    /// See `x`.
    pub y: f32,
    /// Gaussian sigma in pixels, above 0. It is brought within what keypoints can have.
    pub scale: f32,
}

/// A place as a keypoint. Its response is 0.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DescribedPlace {
    /// Its number among the places.
    pub place: u32,
    /// The keypoint.
    pub keypoint: Keypoint,
    /// Its descriptor.
    pub descriptor: Descriptor,
}

impl Place {
    /// Where it is described: on the layer nearest to its scale, a keypoint on the layer it was found on unless that moved
    /// by more than half a layer. `steps` are those of the octaves; without any there is no layer.
    pub(super) fn sift_point(&self, steps: &[f32], options: &SiftOptions) -> Option<SiftPoint> {
        let scales = options.scales_per_octave as f32;
        let in_layers = scales * libm::log2f(self.scale / (steps.first()? * options.base_sigma_px));
        let octave = (((in_layers - 0.5) / scales).max(0.0) as usize).min(steps.len() - 1);
        let level = in_layers - scales * octave as f32;
        let found = level.clamp(1.0 - MOVE_OFFSET, scales + MOVE_OFFSET);
        let step = steps[octave];
        let scale = match found == level {
            true => self.scale / step,
            false => options.base_sigma_px * libm::exp2f(found / scales),
        };
        let layer = ((level + 0.5).max(1.0) as u32).min(options.scales_per_octave);
        Some(SiftPoint {
            octave: octave as u32,
            layer,
            x: self.x / step,
            y: self.y / step,
            scale,
            unused: [0; 3],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_layer_is_the_nearest_and_scales_stay_within_what_is_found() {
        let (options, steps) = (SiftOptions::default(), [0.5, 1.0, 2.0]);
        let on = |scale: f32| {
            let point = Place { x: 10.25, y: 7.0, scale }.sift_point(&steps, &options).expect("a layer");
            let step = steps[point.octave as usize];
            assert_eq!((step * point.x, step * point.y), (10.25, 7.0));
            (point.octave, point.layer, step * point.scale)
        };
        let scale = |level: f32| 0.8 * libm::exp2f(level / 3.0);
        for (level, octave, layer) in
            [(0.45, 0, 1), (1.4, 0, 1), (1.6, 0, 2), (3.4, 0, 3), (3.6, 1, 1), (6.6, 2, 1), (9.55, 2, 3)]
        {
            assert_eq!(on(scale(level)), (octave, layer, scale(level)), "{level} layers");
        }
        let near = |a: f32, b: f32| (a / b - 1.0).abs() < 1e-6;
        let (finest, coarsest) = (on(0.01), on(1000.0));
        assert!((finest.0, finest.1) == (0, 1) && near(finest.2, scale(0.4)), "{finest:?}");
        assert!((coarsest.0, coarsest.1) == (2, 3) && near(coarsest.2, scale(9.6)), "{coarsest:?}");
        assert_eq!(Place { x: 1.0, y: 1.0, scale: 1.0 }.sift_point(&[], &options), None);
    }
}
