//! Tracks every live track into the next frame: pyramid, forward, backward, check.

pub use crate::klt::{KltOptionError, KltPushOptions};
