//! Matching over both backends.

use std::sync::Arc;

use rayon::prelude::*;

use super::GpuMatcher;
use crate::device::{Device, DeviceError};
use crate::kernels::match_descriptors::{MatchScratch, match_descriptors};
use crate::message::{DescriptorMatch, Features};

/// Matches a keyframe with earlier ones where kernels run.
#[derive(Debug)]
pub enum Matcher {
    /// The twins.
    Cpu,
    /// The shaders.
    Gpu(Box<GpuMatcher>),
}

impl Matcher {
    /// A matcher that holds no descriptors. On a device those of keyframes stay within `memory_bytes`, but those of the
    /// latest and of one earlier keyframe are always held.
    ///
    /// # Errors
    /// The device was lost, its workgroups have too little memory, or a shader does not compile.
    pub fn new(device: &Device, memory_bytes: u64) -> Result<Matcher, DeviceError> {
        match device {
            Device::Cpu => Ok(Matcher::Cpu),
            Device::Gpu(gpu) => Ok(Matcher::Gpu(Box::new(GpuMatcher::new(gpu, memory_bytes)?))),
        }
    }

    /// Matches of each of the `earlier` keyframes, oldest first, with the `latest`: see [`match_descriptors`].
    ///
    /// # Errors
    /// The device was lost or has no memory for them.
    pub fn matches(
        &mut self,
        earlier: &[Arc<Features>],
        latest: &Arc<Features>,
        ratio: f32,
    ) -> Result<Vec<Vec<DescriptorMatch>>, DeviceError> {
        match self {
            Matcher::Gpu(matcher) => matcher.matches(earlier, latest, ratio),
            Matcher::Cpu => {
                // Scratch is a megabyte, so it belongs to a task, not to an earlier keyframe.
                let matched = earlier.par_iter().map_init(MatchScratch::default, |scratch, earlier| {
                    match_descriptors(&earlier.descriptors, &latest.descriptors, ratio, scratch)
                });
                Ok(matched.collect())
            }
        }
    }
}
