//! Matching of keyframes' descriptors over both backends.

pub use self::gpu::GpuMatcher;
pub use self::matcher::Matcher;

mod arena;
mod gpu;
mod matcher;
