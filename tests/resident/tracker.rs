//! The tracker's arrays.

use trackweave::device::Gpu;
use trackweave::kernels::klt_track::TrackRecord;
use trackweave::klt::{GpuTracker, KltOptions, LumaLayout};
use trackweave::numerics::SplitMix64;
use trackweave::picture::area::AreaTaps;

use crate::klt_scene::{Warp, scene};
use crate::{Outcome, compare};

/// The account after the tracker is made and after each of three pushes is the allocator's; nothing is left behind it.
pub fn pushes(gpu: &Gpu, width: usize, height: usize, capacity: usize) -> Outcome {
    let options = KltOptions::for_size(width, height);
    let [columns, rows] = [width, height].map(|n| AreaTaps::new(n, n, 1.0));
    let layout = LumaLayout { columns: &columns, rows: &rows, stride: width, full_range: true };
    let mut tracker = GpuTracker::new(gpu, &options, layout, capacity)?;
    compare(gpu)?;
    let resident = gpu.resident();
    let first = scene(width, height);
    let mut rng = SplitMix64::new(3, 0);
    let mut along = |size: usize| (8.0 + (size as f64 - 16.0) * rng.unit()) as f32;
    let starts: Vec<TrackRecord> =
        (0..100).map(|_| TrackRecord::start(along(width), along(height))).collect();
    for (i, warp) in [Warp::NONE, Warp::Shift(1.5, -0.5), Warp::Shift(3.0, -1.0)].into_iter().enumerate() {
        let gray = warp.apply(&first);
        let luma: Vec<u8> = gray.data.iter().map(|value| (255.0 * value).round() as u8).collect();
        let records = tracker.push(&luma, if i == 0 { &[] } else { &starts })?;
        assert!(i == 0 || records.iter().filter(|record| record.is_alive()).count() > 50, "push {i}");
        compare(gpu)?;
        assert_eq!(gpu.resident(), resident, "push {i}");
    }
    drop(tracker);
    compare(gpu)?;
    assert_eq!((gpu.resident(), gpu.allocated().map(|found| found.buffers)), (vec![], Some(vec![])));
    Ok(())
}
