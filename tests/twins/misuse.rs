//! What a tracker on a device refuses: to read what it wrote over, and pushes that do not fit.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use trackweave::device::{Device, Gpu};
use trackweave::gray::{Conversion, Gray};
use trackweave::kernels::klt_track::TrackRecord;
use trackweave::klt::{GpuTracker, KltOptions, Tracker};

use crate::Outcome;
use crate::klt_scene::textured;
use crate::klt_track::picture_of;

/// What `misuse` says when it panics.
fn refused<T>(misuse: impl FnOnce() -> T) -> String {
    let Err(panic) = catch_unwind(AssertUnwindSafe(misuse)) else { return "nothing is refused".into() };
    panic
        .downcast_ref::<String>()
        .cloned()
        .or(panic.downcast_ref::<&str>().map(|&s| s.into()))
        .unwrap_or_default()
}

pub fn is_refused(gpu: &Gpu) -> Outcome {
    let (width, height) = (97, 64);
    let (size, device) = ((width as u32, height as u32), Device::Gpu(gpu.clone()));
    let picture = picture_of(&textured(width, height, 40, 3));
    let gray = Conversion::new(&device, &picture, size)?.run(&picture)?;
    let options = KltOptions::for_size(width, height);
    let mut tracker = Tracker::new(&device, options.clone(), (width, height))?;
    assert!(refused(|| tracker.structure()).contains("a frame was pushed"));
    tracker.push(&gray, &[], &[])?;
    let first = tracker.structure();
    tracker.push(&gray, &[], &[])?;
    // The first is still in its slot.
    let corners = first.corners(&options, &[])?;
    assert!(!corners.select(&[], &options, 9)?.is_empty());
    tracker.structure().corners(&options, &[])?;
    assert!(refused(|| corners.select(&[], &options, 9)).contains("another map was made"));
    tracker.push(&gray, &[], &[])?;
    assert!(refused(|| first.corners(&options, &[])).contains("the tracker took the next frame but one"));
    let start = [TrackRecord::start(30.0, 20.0)];
    assert!(refused(|| tracker.push(&gray, &[], &start)).contains("an id a start"));
    assert_eq!(tracker.push(&gray, &[4], &start)?.len(), 1, "the tracker goes on");
    let Gray::Device(gray) = gray else { panic!("the gray is on the host") };
    let mut other = GpuTracker::new(gpu, Arc::new(options), (height, width))?;
    assert!(refused(|| other.push(&gray, &[], &[])).contains("size of a picture"));
    Ok(())
}
