//! Matching over both backends.

use std::sync::Arc;

use parking_lot::Mutex;
use rayon::prelude::*;

use super::{GpuMatcher, Guide, View};
use crate::device::{Device, DeviceError};
use crate::kernels::match_descriptors::{MatchScratch, match_descriptors};
use crate::kernels::match_guided::{GuidedPoints, GuidedScratch, match_guided};
use crate::message::DescriptorMatch;

/// Matches a keyframe with earlier ones where kernels run. A clone is another handle of the same: on a device they share
/// keyframes' descriptors and take turns, which decides when a match is found, never which.
#[derive(Clone, Debug)]
pub enum Matcher {
    /// The twins.
    Cpu,
    /// The shaders.
    Gpu(Arc<Mutex<GpuMatcher>>),
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
            Device::Gpu(gpu) => Ok(Matcher::Gpu(Arc::new(Mutex::new(GpuMatcher::new(gpu, memory_bytes)?)))),
        }
    }

    /// Makes what guided matching needs, so that no keyframe waits for it.
    ///
    /// # Errors
    /// The device was lost, or a shader does not compile.
    pub fn prepare_guided(&self) -> Result<(), DeviceError> {
        match self {
            Matcher::Cpu => Ok(()),
            Matcher::Gpu(matcher) => matcher.lock().prepare_guided(),
        }
    }

    /// Matches of each of the `earlier` keyframes, oldest first, with the `latest`: see [`match_descriptors`].
    ///
    /// # Errors
    /// The device was lost or has no memory for them.
    pub fn matches(
        &self,
        earlier: &[View],
        latest: &View,
        ratio: f32,
    ) -> Result<Vec<Vec<DescriptorMatch>>, DeviceError> {
        match self {
            Matcher::Gpu(matcher) => matcher.lock().matches(earlier, latest, ratio),
            Matcher::Cpu => {
                // Scratch is a megabyte, so it belongs to a task, not to an earlier keyframe.
                let matched = earlier.par_iter().map_init(MatchScratch::default, |scratch, earlier| {
                    let [first, second] = [earlier, latest].map(|view| &view.features.descriptors);
                    match_descriptors(first, second, ratio, scratch)
                });
                Ok(matched.collect())
            }
        }
    }

    /// Matches of each of the `earlier` keyframes, oldest first, with the `latest`, within the bands of their `guides`: see
    /// [`match_guided`].
    ///
    /// # Errors
    /// As `matches`.
    ///
    /// # Panics
    /// There is not one guide a keyframe.
    pub fn guided_matches(
        &self,
        earlier: &[View],
        guides: &[Guide],
        latest: &View,
        ratio: f32,
    ) -> Result<Vec<Vec<DescriptorMatch>>, DeviceError> {
        assert_eq!(earlier.len(), guides.len(), "guides");
        match self {
            Matcher::Gpu(matcher) => matcher.lock().guided_matches(earlier, guides, latest, ratio),
            Matcher::Cpu => {
                let pairs = earlier.par_iter().zip(guides);
                let matched = pairs.map_init(GuidedScratch::default, |scratch, (earlier, guide)| {
                    match_guided(
                        points_of(earlier),
                        points_of(latest),
                        &guide.f,
                        guide.band_px,
                        ratio,
                        scratch,
                    )
                });
                Ok(matched.collect())
            }
        }
    }
}

fn points_of(view: &View) -> GuidedPoints<'_> {
    GuidedPoints { positions: &view.positions, descriptors: &view.features.descriptors }
}

/// The matcher of a run, made when it is first asked for. A clone is another handle of the same.
#[derive(Clone, Debug, Default)]
pub struct SharedMatcher(Arc<Mutex<Option<Matcher>>>);

impl SharedMatcher {
    /// The matcher; the first call says on which device and within how many bytes.
    ///
    /// # Errors
    /// As [`Matcher::new`].
    pub fn get(&self, device: &Device, memory_bytes: u64) -> Result<Matcher, DeviceError> {
        let mut made = self.0.lock();
        let matcher = match made.take() {
            Some(matcher) => matcher,
            None => Matcher::new(device, memory_bytes)?,
        };
        Ok(made.insert(matcher).clone())
    }
}
