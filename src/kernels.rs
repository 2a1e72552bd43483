//! The kernels: one file each, a plain function on slices, and the shader that does the same on a device.

pub mod descriptor;
pub mod dog;
pub mod eigen_at;
pub mod eigen_map;
pub mod eigen_max;
pub mod extrema;
pub mod gaussian_blur;
pub mod gray_luma;
pub mod gray_rgb;
pub mod klt_anchor;
pub mod klt_check;
pub mod klt_compact;
pub mod klt_occupancy;
pub mod klt_patch;
pub mod klt_select;
pub mod klt_suppress;
pub mod klt_track;
pub mod match_descriptors;
pub mod match_guided;
pub mod match_mutual;
pub mod orientation;
pub mod orientation_select;
pub mod pyramid_down;
pub mod refine;
pub mod scan;
pub mod scharr;
pub mod sift_point;
pub mod strength;
pub mod strongest;
mod unroll;
pub mod upsample;

use std::sync::Arc;

use crate::device::KernelSource;
use crate::picture::GrayImage;

/// The kernels that have a shader.
pub const KERNELS: [&KernelSource; 26] = [
    &gray_luma::SHADER,
    &gray_rgb::SHADER,
    &pyramid_down::SHADER,
    &scharr::SHADER,
    &eigen_map::SHADER,
    &eigen_max::SHADER,
    &eigen_at::SHADER,
    &klt_track::SHADER,
    &klt_patch::SHADER,
    &klt_anchor::SHADER,
    &klt_occupancy::SHADER,
    &klt_select::SHADER,
    &klt_suppress::SHADER,
    &scan::SHADER,
    &klt_compact::SHADER,
    &upsample::SHADER,
    &gaussian_blur::SHADER,
    &extrema::SHADER,
    &refine::SHADER,
    &strongest::SHADER,
    &orientation::SHADER,
    &orientation_select::SHADER,
    &descriptor::SHADER,
    &match_descriptors::SHADER,
    &match_mutual::SHADER,
    &match_guided::SHADER,
];

/// A level of a pyramid with its Scharr gradients (per pixel, gray in [0, 1]).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PyramidLevel {
    /// Gray of this level; pixel (x, y) lies at (2^L x, 2^L y) of level 0.
    pub gray: Arc<GrayImage>,
    /// d gray / dx, row by row.
    pub gradient_x: Vec<f32>,
    /// d gray / dy, row by row.
    pub gradient_y: Vec<f32>,
}

/// A frame's pyramid, level 0 first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pyramid {
    /// Levels, the finest first.
    pub levels: Vec<PyramidLevel>,
}

impl Pyramid {
    /// Makes this the pyramid of `gray`, reusing its buffers where no one else holds them. `scratch` keeps the blur in x.
    pub fn rebuild(&mut self, gray: &Arc<GrayImage>, levels: usize, scratch: &mut Vec<f32>) {
        self.levels.resize_with(levels.max(1), PyramidLevel::default);
        self.levels[0].gray = gray.clone();
        self.levels[0].fill_gradients();
        for l in 1..self.levels.len() {
            let (finer, coarser) = self.levels.split_at_mut(l);
            let (source, level) = (&finer[l - 1].gray, &mut coarser[0]);
            let (width, height) = (source.width.div_ceil(2), source.height.div_ceil(2));
            scratch.resize(width * source.height, 0.0);
            let mut image = Arc::try_unwrap(std::mem::take(&mut level.gray)).unwrap_or_default();
            image.width = width;
            image.height = height;
            image.data.resize(width * height, 0.0);
            pyramid_down::pyramid_down(&source.data, source.width, scratch, &mut image.data);
            level.gray = Arc::new(image);
            level.fill_gradients();
        }
    }
}

impl PyramidLevel {
    fn fill_gradients(&mut self) {
        let n = self.gray.data.len();
        self.gradient_x.resize(n, 0.0);
        self.gradient_y.resize(n, 0.0);
        scharr::scharr(&self.gray.data, self.gray.width, &mut self.gradient_x, &mut self.gradient_y);
    }
}
