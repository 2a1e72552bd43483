//! What the account of `Gpu::resident` says beside what wgpu's allocator says, on the adapter that TRACKWEAVE_ADAPTER names:
//! buffer by buffer, to the byte; and beside what wgpu counts.

#[path = "support/klt_scene.rs"]
mod klt_scene;
#[path = "resident/matcher.rs"]
mod matcher;
#[path = "resident/sift.rs"]
mod sift;
#[path = "resident/tracker.rs"]
mod tracker;

use std::env;

use libtest_mimic::{Arguments, Failed, Trial};
use trackweave::device::{Allocated, Allocation, Counted, Gpu};

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
    let grows = |name: &str| matcher::calls(&Account::open(name)?);
    let spills = |name: &str| matcher::spills(&Account::open(name)?);
    trials.push(trial("a_matcher_that_grows".into(), Box::new(grows)));
    trials.push(trial("a_matcher_without_room".into(), Box::new(spills)));
    for (width, height) in [(320, 180), (641, 363)] {
        let extractions = move |name: &str| sift::extractions(&Account::open(name)?, width, height);
        trials.push(trial(format!("an_extraction_at_{width}x{height}"), Box::new(extractions)));
    }
    for (width, height) in [(640, 360), (1280, 720)] {
        for capacity in [1024, 8192] {
            let pushes = move |name: &str| tracker::pushes(&Account::open(name)?, width, height, capacity);
            trials.push(trial(format!("a_tracker_of_{capacity}_at_{width}x{height}"), Box::new(pushes)));
        }
    }
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}

fn allocated(gpu: &Gpu) -> Result<Allocated, Failed> {
    gpu.allocated().ok_or_else(|| "the interface does not tell what it allocates".into())
}

/// A device, and what wgpu made for itself when it was opened.
pub struct Account {
    /// The device.
    pub gpu: Gpu,
    untouched: Allocated,
}

impl Account {
    fn open(name: &str) -> Result<Account, Failed> {
        let gpu = Gpu::open(Some(name))?;
        let untouched = allocated(&gpu)?;
        assert_eq!((untouched.buffers.as_slice(), gpu.buffers()), (&[][..], vec![]));
        assert_eq!(untouched.counted.buffers, untouched.internal.len() as u64);
        Ok(Account { gpu, untouched })
    }

    /// Every buffer of the account is allocated and counted, and nothing else but what wgpu made for itself.
    pub fn compare(&self) -> Outcome {
        let (ours, theirs) = (self.gpu.buffers(), allocated(&self.gpu)?);
        assert_eq!(theirs.internal, self.untouched.internal, "writes and zeros leave nothing behind");
        assert_eq!(self.gpu.resident_bytes(), ours.iter().map(|&(_, bytes)| bytes).sum::<u64>());
        let all = theirs.buffers.iter().chain(&theirs.internal).map(|found| found.bytes);
        assert!(all.sum::<u64>() <= theirs.reserved, "{theirs:?}");
        compare_allocated(&ours, &theirs.buffers)?;
        compare_counted(&ours, theirs.counted, self.untouched.counted)
    }
}

/// Holds `ours`, named sizes, against what is counted: there are as many more than `own` as there are of ours, and their
/// bytes are our sizes' sum. Unlike an allocation the count has nothing that alignment skips: on adapters that do not round
/// sizes up the sums are equal, on others once sizes are rounded up, those of parameters to one multiple, all else to one.
fn compare_counted(ours: &[(&str, u64)], counted: Counted, own: Counted) -> Outcome {
    let bytes = counted.bytes - own.bytes;
    let (parameters, others): (Vec<_>, Vec<_>) = ours.iter().partition(|ours| ours.0 == "parameters");
    let sum =
        |of: &[(&str, u64)], multiple: u64| of.iter().map(|ours| ours.1.next_multiple_of(multiple)).sum();
    let sums = |of: &[(&str, u64)]| ALIGNMENTS.map(|multiple| -> u64 { sum(of, multiple) });
    let (of_parameters, of_others) = (sums(&parameters), sums(&others));
    let is_sum = of_parameters.iter().any(|a| of_others.iter().any(|b| a + b == bytes));
    if counted.buffers - own.buffers == ours.len() as u64 && is_sum {
        return Ok(());
    }
    let (n, sum): (usize, u64) = (ours.len(), sum(ours, 1));
    Err(format!(
        "{n} buffers of {sum} bytes, but {counted:?} with wgpu's own {own:?}; parameters are of {of_parameters:?} \
         bytes, all else of {of_others:?}, rounded up to {ALIGNMENTS:?}"
    )
    .into())
}

/// Holds `ours`, named sizes, against the allocations: a name's allocations are its buffers to the byte, once what their
/// alignment skips is taken off and sizes are rounded up to it.
fn compare_allocated(ours: &[(&str, u64)], theirs: &[Allocation]) -> Outcome {
    let mut names: Vec<&str> = ours.iter().map(|&(name, _)| name).collect();
    names.extend(theirs.iter().map(|found| found.name.as_str()));
    names.sort();
    names.dedup();
    for name in names {
        let sizes: Vec<u64> = ours.iter().filter(|ours| ours.0 == name).map(|ours| ours.1).collect();
        let found: Vec<&Allocation> = theirs.iter().filter(|found| found.name == name).collect();
        if !is_explained(&sizes, &found) {
            return Err(format!("\"{name}\" is of {sizes:?} bytes, but allocated are {found:?}").into());
        }
    }
    Ok(())
}

/// Whether one multiple of all sizes and an alignment of each allocation make `found` of `sizes`: storage and a readback may
/// have one name, and what a buffer is for decides what it is aligned to.
fn is_explained(sizes: &[u64], found: &[&Allocation]) -> bool {
    let could_be = |found: &Allocation, size: u64, multiple: u64| {
        let alignments = ALIGNMENTS.iter().filter(|&&alignment| alignment >= multiple);
        let size = size.next_multiple_of(multiple);
        alignments.into_iter().any(|&alignment| found.bytes_aligned_to(alignment) == size)
    };
    sizes.len() == found.len()
        && ALIGNMENTS.iter().any(|&multiple| {
            let could_be = |i: usize, size: usize| could_be(found[i], sizes[size], multiple);
            let mut takers = vec![None; found.len()];
            (0..sizes.len()).all(|size| takes(size, &could_be, &mut takers, &mut vec![false; found.len()]))
        })
}

/// Finds `size` an allocation that no other takes, or whose taker finds another (an augmenting path of a matching).
fn takes(
    size: usize,
    could_be: &dyn Fn(usize, usize) -> bool,
    takers: &mut [Option<usize>],
    is_tried: &mut [bool],
) -> bool {
    for i in 0..takers.len() {
        if is_tried[i] || !could_be(i, size) {
            continue;
        }
        is_tried[i] = true;
        if takers[i].is_none_or(|other| takes(other, could_be, takers, is_tried)) {
            takers[i] = Some(size);
            return true;
        }
    }
    false
}

fn buffers(name: &str) -> Outcome {
    let account = Account::open(name)?;
    let gpu = &account.gpu;
    let lengths = [0, 1, 4, 5, 63, 64, 65, 100, 255, 257, 1000, 4097, 100_001, 9_000_001, 80_000_003];
    let names = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "o"];
    let made: Result<Vec<_>, _> =
        lengths.iter().zip(names).map(|(&n, name)| gpu.buffer::<u8>(name, n)).collect();
    let mut made = made?;
    let readback = gpu.readback::<u64>("readback", 1001)?;
    let same_name = [gpu.buffer::<u8>("k", 1001)?, gpu.buffer::<u8>("k", 1000)?];
    assert_eq!(allocated(gpu)?.buffers.len(), gpu.buffers().len());
    account.compare()?;
    let most = gpu.resident_bytes();
    made.drain(3..11);
    account.compare()?;
    assert_eq!(gpu.buffers().len(), 10, "seven, two called k, the readback");
    drop((made, same_name, readback));
    account.compare()?;
    assert_eq!((gpu.peak_bytes(), gpu.resident_bytes()), (most, 0));
    assert_eq!((allocated(gpu)?.buffers, gpu.resident()), (vec![], vec![]));
    Ok(())
}

fn written(name: &str) -> Outcome {
    let account = Account::open(name)?;
    let gpu = &account.gpu;
    let buffer = gpu.buffer_with("written", &[7u32; 3000])?;
    let readback = gpu.readback::<u32>("answer", 3000)?;
    let mut recording = gpu.record("answer");
    recording.read(&buffer, 0..3000, &readback);
    gpu.write(&buffer, 0, &[8]);
    let submission = recording.submit()?;
    drop(buffer);
    submission.wait()?;
    assert_eq!(readback.take()?[..2], [8, 7]);
    account.compare()?;
    drop(readback);
    let timed = gpu.record_timed("nothing")?;
    account.compare()?;
    timed.submit()?.wait()?;
    account.compare()?;
    Ok(())
}
