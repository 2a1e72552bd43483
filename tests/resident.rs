//! What the account of `Gpu::resident` says beside what wgpu's allocator says, on the adapter that TRACKWEAVE_ADAPTER names:
//! buffer by buffer, to the byte.

#[path = "support/klt_scene.rs"]
mod klt_scene;
#[path = "resident/tracker.rs"]
mod tracker;

use std::env;

use libtest_mimic::{Arguments, Failed, Trial};
use trackweave::device::{Allocated, Allocation, Gpu};

type Outcome = Result<(), Failed>;

/// What an interface may align buffers to, and round their sizes up to.
const ALIGNMENTS: [u64; 9] = [1, 4, 16, 32, 64, 128, 256, 512, 1024];

fn main() {
    let adapter = env::var("TRACKWEAVE_ADAPTER").ok();
    let gpu = adapter.as_deref().map(|name| Gpu::open(Some(name)).unwrap_or_else(|error| panic!("{error}")));
    let reason = match gpu.as_ref().map(Gpu::allocated) {
        None => " (TRACKWEAVE_ADAPTER is not set)",
        Some(None) => " (the interface does not tell what it allocates)",
        Some(Some(_)) => "",
    };
    let trial = |name: String, check: Box<dyn FnOnce(&str) -> Outcome + Send>| {
        let adapter = adapter.clone().unwrap_or_default();
        Trial::test(name + reason, move || check(&adapter)).with_ignored_flag(!reason.is_empty())
    };
    let mut trials = vec![
        trial("buffers_are_allocated_as_they_are_accounted_for".into(), Box::new(buffers)),
        trial("what_is_written_to_is_kept_until_it_is_submitted".into(), Box::new(written)),
        trial(
            "a_push_to_a_lost_device_fails".into(),
            Box::new(|name: &str| tracker::lost(&Gpu::open(Some(name))?)),
        ),
    ];
    for (width, height) in [(640, 360), (1280, 720)] {
        for capacity in [1024, 8192] {
            let pushes = move |name: &str| tracker::pushes(&Gpu::open(Some(name))?, width, height, capacity);
            trials.push(trial(format!("a_tracker_of_{capacity}_at_{width}x{height}"), Box::new(pushes)));
        }
    }
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}

fn allocated(gpu: &Gpu) -> Result<Allocated, Failed> {
    gpu.allocated().ok_or_else(|| "the interface does not tell what it allocates".into())
}

/// Every buffer of the account is allocated, and nothing else but what wgpu made for itself: a name's allocations are its
/// buffers to the byte, once what their alignment skips is taken off and sizes are rounded up to it.
pub fn compare(gpu: &Gpu) -> Outcome {
    let (ours, theirs) = (gpu.buffers(), allocated(gpu)?);
    let mut names: Vec<&str> = ours.iter().map(|&(name, _)| name).collect();
    names.extend(theirs.buffers.iter().map(|found| found.name.as_str()));
    names.sort();
    names.dedup();
    for name in names {
        let sizes: Vec<u64> = ours.iter().filter(|ours| ours.0 == name).map(|ours| ours.1).collect();
        let found: Vec<&Allocation> = theirs.buffers.iter().filter(|found| found.name == name).collect();
        if !is_explained(&sizes, &found) {
            return Err(format!("\"{name}\" is of {sizes:?} bytes, but allocated are {found:?}").into());
        }
    }
    assert_eq!(gpu.resident_bytes(), ours.iter().map(|&(_, bytes)| bytes).sum::<u64>());
    let all = theirs.buffers.iter().chain(&theirs.internal).map(|found| found.bytes);
    assert!(all.sum::<u64>() <= theirs.reserved, "{theirs:?}");
    Ok(())
}

/// Whether one alignment of all buffers and one multiple of all sizes make `found` of `sizes`.
fn is_explained(sizes: &[u64], found: &[&Allocation]) -> bool {
    let sorted = |bytes: &mut dyn Iterator<Item = u64>| {
        let mut bytes: Vec<u64> = bytes.collect();
        bytes.sort();
        bytes
    };
    ALIGNMENTS.iter().any(|&alignment| {
        let without_skipped = sorted(&mut found.iter().map(|found| found.bytes_aligned_to(alignment)));
        let multiples = ALIGNMENTS.iter().filter(|&&multiple| multiple <= alignment);
        multiples.copied().any(|multiple| {
            without_skipped == sorted(&mut sizes.iter().map(|size| size.next_multiple_of(multiple)))
        })
    })
}

fn buffers(name: &str) -> Outcome {
    let gpu = Gpu::open(Some(name))?;
    let untouched = allocated(&gpu)?;
    assert_eq!((untouched.buffers.as_slice(), gpu.buffers()), (&[][..], vec![]));
    let lengths = [0, 1, 4, 5, 63, 64, 65, 100, 255, 257, 1000, 4097, 100_001, 9_000_001, 80_000_003];
    let names = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "o"];
    let made: Result<Vec<_>, _> =
        lengths.iter().zip(names).map(|(&n, name)| gpu.buffer::<u8>(name, n)).collect();
    let mut made = made?;
    let readback = gpu.readback::<u64>("readback", 1001)?;
    let same_name = [gpu.buffer::<u8>("k", 1001)?, gpu.buffer::<u8>("k", 1000)?];
    assert_eq!(allocated(&gpu)?.buffers.len(), gpu.buffers().len());
    compare(&gpu)?;
    made.drain(3..11);
    compare(&gpu)?;
    assert_eq!(gpu.buffers().len(), 10, "seven, two called k, the readback");
    drop((made, same_name, readback));
    compare(&gpu)?;
    assert_eq!((allocated(&gpu)?.buffers, gpu.resident()), (vec![], vec![]));
    assert_eq!(allocated(&gpu)?.internal, untouched.internal, "writes and zeros leave nothing behind");
    Ok(())
}

fn written(name: &str) -> Outcome {
    let gpu = Gpu::open(Some(name))?;
    let internal = allocated(&gpu)?.internal;
    let buffer = gpu.buffer_with("written", &[7u32; 3000])?;
    let readback = gpu.readback::<u32>("answer", 3000)?;
    let mut recording = gpu.record("answer");
    recording.read(&buffer, 0..3000, &readback);
    gpu.write(&buffer, 0, &[8]);
    let submission = recording.submit()?;
    drop(buffer);
    submission.wait()?;
    assert_eq!(readback.take()?[..2], [8, 7]);
    compare(&gpu)?;
    drop(readback);
    let timed = gpu.record_timed("nothing")?;
    compare(&gpu)?;
    timed.submit()?.wait()?;
    compare(&gpu)?;
    assert_eq!(allocated(&gpu)?.internal, internal);
    Ok(())
}
