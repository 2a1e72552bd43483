//! The tracker's arrays.

use std::sync::Arc;

use trackweave::device::{Device, DeviceError, Gpu};
use trackweave::gray::Conversion;
use trackweave::kernels::klt_track::TrackRecord;
use trackweave::klt::{KltOptions, Tracker};
use trackweave::numerics::SplitMix64;
use trackweave::picture::{GrayImage, Picture};

use crate::klt_scene::{Warp, scene};
use crate::{Account, Outcome};

/// An 8-bit picture of values in 0..=1.
pub fn picture_of(gray: &GrayImage) -> Picture {
    let luma = gray.data.iter().map(|value| (255.0 * value).round() as u8).collect();
    Picture::gray(gray.width, gray.height, luma)
}

/// The account after the tracker is made, after each of three pushes, after a selection and after the tracker is dropped is
/// what is allocated and counted; nothing is left behind.
pub fn pushes(account: &Account, width: usize, height: usize, capacity: usize) -> Outcome {
    let gpu = &account.gpu;
    let options = KltOptions { capacity: capacity as u32, ..KltOptions::for_size(width, height) };
    let (device, first) = (Device::Gpu(gpu.clone()), scene(width, height));
    let mut tracker = Tracker::new(&device, options, (width, height))?;
    account.compare()?;
    let resident = gpu.resident();
    let mut rng = SplitMix64::new(3, 0);
    let mut along = |size: usize| (8.0 + (size as f64 - 16.0) * rng.unit()) as f32;
    let starts: Vec<TrackRecord> =
        (0..100).map(|_| TrackRecord::start(along(width), along(height))).collect();
    let ids: Vec<u32> = (0..100).collect();
    for (i, warp) in [Warp::NONE, Warp::Shift(1.5, -0.5), Warp::Shift(3.0, -1.0)].into_iter().enumerate() {
        let picture = picture_of(&warp.apply(&first));
        let size = (width as u32, height as u32);
        let gray = Conversion::new(&device, &picture, size)?.run(&picture)?;
        let n = if i == 0 { 0 } else { ids.len() };
        let records = tracker.push(&gray, &ids[..n], &starts[..n])?;
        assert!(i == 0 || records.iter().filter(|record| record.is_alive()).count() > 50, "push {i}");
        account.compare()?;
        drop(gray);
        assert_eq!(gpu.resident(), resident, "push {i}");
        account.compare()?;
    }
    let points: Vec<[f32; 2]> = starts.iter().map(|start| [start.x, start.y]).collect();
    let corners = tracker.structure().corners(tracker.options(), &points)?;
    assert!(corners.select(&points, tracker.options(), capacity)?.len() > 100);
    account.compare()?;
    drop((tracker, corners));
    account.compare()?;
    assert_eq!((gpu.resident(), gpu.allocated().map(|found| found.buffers)), (vec![], Some(vec![])));
    Ok(())
}

/// A push to a lost device says so, again and again; what it held is given back.
pub fn lost(gpu: &Gpu) -> Outcome {
    let (width, height) = (64, 48);
    let options = KltOptions { levels: 1, ..KltOptions::for_size(width, height) };
    let device = Device::Gpu(gpu.clone());
    let mut tracker = Tracker::new(&device, options, (width, height))?;
    let picture = picture_of(&GrayImage::new(width, height));
    let mut conversion = Conversion::new(&device, &picture, (width as u32, height as u32))?;
    let gray = conversion.run(&picture)?;
    tracker.push(&gray, &[], &[])?;
    gpu.lose();
    let is_lost = |error| matches!(error, DeviceError::Lost { .. });
    assert!(is_lost(conversion.run(&picture).expect_err("a lost device converts")));
    assert!(is_lost(gray.host().map(Arc::unwrap_or_clone).expect_err("a lost device gives its gray")));
    for starts in [&[][..], &[TrackRecord::start(30.0, 20.0)]] {
        let error = tracker.push(&gray, &[7][..starts.len()], starts);
        assert!(is_lost(error.expect_err("a lost device tracks")));
    }
    drop((tracker, conversion, gray));
    assert_eq!(gpu.resident(), []);
    Ok(())
}
