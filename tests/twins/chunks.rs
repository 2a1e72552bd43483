//! Tracks of a push in chunks.

use std::sync::Arc;
use std::time::Duration;

use trackweave::device::{ChunkBudget, Device, Gpu};
use trackweave::gray::{Conversion, Gray};
use trackweave::kernels::klt_track::TrackRecord;
use trackweave::klt::{GpuTracker, KltOptions};
use trackweave::numerics::SplitMix64;

use crate::Outcome;
use crate::comparison::{Cpu, Dev, compare_bits};
use crate::klt_scene::{Warp, textured};
use crate::klt_track::picture_of;

const N_TRACKS: usize = 150;

/// Three frames in chunks of 3, 5 and 64 tracks, of what a budget finds, and of 64 where nothing fits it: the records of one
/// chunk, on any adapter.
pub fn same_bits(shared: &Gpu) -> Outcome {
    // A device of its own, so that the submissions are the tracker's alone.
    let gpu = Gpu::open(Some(&shared.adapter().name))?;
    let (whole, n_whole) = pushed(&gpu, ChunkBudget::fixed(usize::MAX))?;
    assert_eq!(n_whole, 3, "one submission a push");
    let hour = ChunkBudget::new(Duration::from_secs(3600));
    let nothing = ChunkBudget::new(Duration::ZERO);
    let fixed = ChunkBudget::fixed;
    // The first push has no tracks.
    for (chunks, n_expected) in
        [(fixed(3), 1 + 50 + 50), (fixed(5), 1 + 30 + 30), (fixed(64), 7), (nothing, 7), (hour, 1 + 2 + 1)]
    {
        let name = format!("records of {chunks:?}");
        let (records, n_submissions) = pushed(&gpu, chunks)?;
        assert_eq!(n_submissions, n_expected, "{name}");
        compare_bits(&name, Dev(bytemuck::cast_slice(&records)), Cpu(bytemuck::cast_slice(&whole)))?;
    }
    let (records, _) = pushed(&gpu, ChunkBudget::default())?;
    compare_bits("records", Dev(bytemuck::cast_slice(&records)), Cpu(bytemuck::cast_slice(&whole)))
}

/// Records of all pushes, and their submissions.
fn pushed(gpu: &Gpu, chunks: ChunkBudget) -> Result<(Vec<TrackRecord>, u64), libtest_mimic::Failed> {
    let (width, height) = (161, 120);
    let first = textured(width, height, 60, 10);
    let options = KltOptions { levels: 3, capacity: N_TRACKS as u32, ..KltOptions::for_size(width, height) };
    let mut tracker = GpuTracker::new(gpu, Arc::new(options), (width, height))?.with_chunks(chunks);
    let mut rng = SplitMix64::new(5, 0);
    let mut along = |size: usize| size as f32 * rng.unit() as f32 - 0.5;
    let mut starts: Vec<TrackRecord> =
        (0..N_TRACKS).map(|_| TrackRecord::start(along(width), along(height))).collect();
    let ids: Vec<u32> = (0..N_TRACKS as u32).collect();
    let (mut records, mut n_submissions) = (Vec::new(), 0);
    for (i, warp) in [Warp::NONE, Warp::Shift(2.6, -1.8), Warp::Turn(2.0)].into_iter().enumerate() {
        let picture = picture_of(&warp.apply(&first));
        let mut conversion =
            Conversion::new(&Device::Gpu(gpu.clone()), &picture, (width as u32, height as u32))?;
        let Gray::Device(gray) = conversion.run(&picture)? else { panic!("the gray is on the host") };
        let n = if i == 0 { 0 } else { N_TRACKS };
        let before = gpu.counts().submissions;
        let found = tracker.push(&gray, &ids[..n], &starts[..n])?;
        n_submissions += gpu.counts().submissions - before;
        if i > 0 {
            assert!(found.iter().filter(|record| record.is_alive()).count() > 50, "push {i}");
            starts.clone_from(&found);
        }
        records.extend(found);
    }
    Ok((records, n_submissions))
}
