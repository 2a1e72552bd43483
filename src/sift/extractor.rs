//! The extraction over both backends.

use super::{DescribedPlace, GpuSift, Place, SiftOptions, SiftScratch, describe_places, extract_features};
use crate::device::{Device, DeviceError, Gpu};
use crate::gray::Gray;
use crate::message::Features;

/// Extracts features where kernels run.
#[derive(Debug)]
pub struct Extractor {
    options: SiftOptions,
    backend: Backend,
}

#[derive(Debug)]
enum Backend {
    Cpu(Box<SiftScratch>),
    /// What the device has made for pictures of the last size.
    Gpu(Gpu, Option<Box<GpuSift>>),
}

impl Extractor {
    /// For options that were checked.
    pub fn new(device: &Device, options: SiftOptions) -> Extractor {
        let backend = match device {
            Device::Cpu => Backend::Cpu(Box::default()),
            Device::Gpu(gpu) => Backend::Gpu(gpu.clone(), None),
        };
        Extractor { options, backend }
    }

    /// The features of a picture, as [`extract_features`] orders them.
    ///
    /// # Errors
    /// The device has no memory for it, or was lost.
    ///
    /// # Panics
    /// The picture is not on the extractor's device.
    pub fn extract(&mut self, gray: &Gray) -> Result<Features, DeviceError> {
        Ok(self.extract_with(gray, &[])?.0)
    }

    /// The same with the `places` that have an orientation as keypoints, in their order.
    ///
    /// # Errors
    /// As `extract`.
    ///
    /// # Panics
    /// As `extract`.
    pub fn extract_with(
        &mut self,
        gray: &Gray,
        places: &[Place],
    ) -> Result<(Features, Vec<DescribedPlace>), DeviceError> {
        match (&mut self.backend, gray) {
            (Backend::Cpu(scratch), gray) => {
                let features = extract_features(&*gray.host()?, &self.options, scratch);
                Ok((features, describe_places(places, &self.options, scratch)))
            }
            (Backend::Gpu(gpu, sift), Gray::Device(gray)) => {
                sift.take_if(|sift| sift.size() != gray.size());
                let sift = match sift {
                    Some(sift) => sift,
                    none => none.insert(Box::new(GpuSift::new(gpu, self.options.clone(), gray.size())?)),
                };
                sift.extract_with(gray, places)
            }
            (Backend::Gpu(..), Gray::Host(_)) => panic!("a picture that never went up"),
        }
    }
}
