//! Matching of keyframes' descriptors over both backends.

pub use self::gpu::GpuMatcher;
pub use self::matcher::{Matcher, SharedMatcher};
pub use self::places::Places;
pub use self::view::View;

mod arena;
mod gpu;
mod matcher;
mod places;
mod view;

/// The geometry of a pair that guided matching follows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Guide {
    /// Row-major, x2' F x1 = 0, in pixels of the views' positions.
    pub f: [f64; 9],
    /// Half the width of the band about an epipolar line.
    pub band_px: f64,
}
