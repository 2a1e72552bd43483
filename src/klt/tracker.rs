//! The tracker over both backends.

use std::sync::Arc;

use super::{CpuTracker, GpuTracker, KltOptions, Structure};
use crate::device::{Device, DeviceError};
use crate::gray::Gray;
use crate::kernels::klt_track::TrackRecord;

/// Tracks points from each frame to the next where kernels run.
#[derive(Debug)]
pub struct Tracker {
    options: Arc<KltOptions>,
    size: (usize, usize),
    backend: Backend,
}

#[derive(Debug)]
enum Backend {
    Cpu(Box<CpuTracker>),
    Gpu(Box<GpuTracker>),
}

impl Tracker {
    /// A tracker that has seen no frame, for pictures of `size`.
    ///
    /// # Errors
    /// The device has no memory for it, the window needs more workgroup memory than the adapter has, or a shader does not
    /// compile.
    pub fn new(device: &Device, options: KltOptions, size: (usize, usize)) -> Result<Tracker, DeviceError> {
        let options = Arc::new(options);
        let backend = match device {
            Device::Cpu => Backend::Cpu(Box::new(CpuTracker::new(options.clone()))),
            Device::Gpu(gpu) => Backend::Gpu(Box::new(GpuTracker::new(gpu, options.clone(), size)?)),
        };
        Ok(Tracker { options, size, backend })
    }

    /// Its options.
    pub fn options(&self) -> &Arc<KltOptions> {
        &self.options
    }

    /// Width and height of its pictures.
    pub fn size(&self) -> (usize, usize) {
        self.size
    }

    /// Takes the next frame and tracks `starts` of the tracks `ids`, which lie in the frame before, to it: each record
    /// holds the position, the forward-backward error and the status. The first frame takes no starts.
    ///
    /// # Errors
    /// The device was lost.
    ///
    /// # Panics
    /// The picture is of another size or not on the device, there is not an id for each start, or there are starts at the
    /// first frame.
    pub fn push(
        &mut self,
        gray: &Gray,
        ids: &[u32],
        starts: &[TrackRecord],
    ) -> Result<Vec<TrackRecord>, DeviceError> {
        assert_eq!(gray.size(), self.size, "size of a picture");
        match (&mut self.backend, gray) {
            (Backend::Cpu(tracker), gray) => Ok(tracker.push(&gray.host()?, ids, starts).to_vec()),
            (Backend::Gpu(tracker), Gray::Device(gray)) => tracker.push(gray, ids, starts),
            (Backend::Gpu(_), Gray::Host(_)) => panic!("a picture that never went up"),
        }
    }

    /// What selection reads of the last frame.
    ///
    /// # Panics
    /// There was none.
    pub fn structure(&self) -> Structure {
        match &self.backend {
            Backend::Cpu(tracker) => Structure::Host(tracker.pyramid().clone()),
            Backend::Gpu(tracker) => Structure::Device(tracker.structure()),
        }
    }
}
