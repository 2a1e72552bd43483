//! The kernels: one file each, a plain function on slices.

pub mod descriptor;
pub mod dog;
pub mod eigen_map;
pub mod eigen_max;
pub mod extrema;
pub mod gaussian_blur;
pub mod gray_luma;
pub mod gray_rgb;
pub mod klt_check;
pub mod klt_compact;
pub mod klt_occupancy;
pub mod klt_select;
pub mod klt_suppress;
pub mod klt_track;
pub mod match_descriptors;
pub mod match_guided;
pub mod orientation;
pub mod pyramid_down;
pub mod refine;
pub mod scharr;
pub mod upsample;

use crate::picture::GrayImage;

/// A level of a pyramid with its Scharr gradients (per pixel, gray in [0, 1]).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PyramidLevel {
    /// Gray of this level; pixel (x, y) lies at (2^L x, 2^L y) of level 0.
    pub gray: GrayImage,
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
