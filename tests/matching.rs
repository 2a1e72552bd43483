//! Matching on the adapter that TRACKWEAVE_ADAPTER names: integers, so the matches are the CPU's on every adapter, whatever
//! room there is for descriptors.

use std::env;
use std::sync::Arc;

use libtest_mimic::{Arguments, Failed, Trial};
use trackweave::device::{Device, Gpu};
use trackweave::kernels::match_guided::TILE;
use trackweave::matching::{GpuMatcher, Guide, Matcher, View};
use trackweave::message::{Descriptor, DescriptorMatch, Features, Keypoint};
use trackweave::numerics::SplitMix64;

type Outcome = Result<(), Failed>;

/// Keypoints of the keyframes.
const SIZES: [usize; 12] = [300, 280, 0, 310, 1, 290, 305, 150, 450, 20, 300, 299];
/// Keyframes that each is matched with.
const LAST: usize = 5;
const DESCRIPTOR_BYTES: usize = size_of::<Descriptor>();

fn main() {
    let adapter = env::var("TRACKWEAVE_ADAPTER").ok();
    let gpu = adapter.as_deref().map(|name| Gpu::open(Some(name)).unwrap_or_else(|error| panic!("{error}")));
    let reason = if gpu.is_some() { "" } else { " (TRACKWEAVE_ADAPTER is not set)" };
    let trial = |name: &str, check: fn(&Gpu) -> Outcome| {
        let gpu = gpu.clone();
        let run = move || check(&gpu.ok_or("TRACKWEAVE_ADAPTER is not set")?);
        Trial::test(format!("{name}{reason}"), run).with_ignored_flag(!reason.is_empty())
    };
    let trials = vec![
        trial("matches_are_those_of_the_cpu", matches_are_those_of_the_cpu),
        trial("one_submission_while_all_fits", one_submission_while_all_fits),
        trial("the_oldest_go_and_come_again", the_oldest_go_and_come_again),
        trial("keyframes_may_skip", keyframes_may_skip),
        trial("more_than_is_bound_at_once_goes_and_comes", more_than_is_bound_at_once),
        trial("guided_matches_are_those_of_the_cpu", guided_matches_are_those_of_the_cpu),
        trial("two_threads_share_descriptors", two_threads_share_descriptors),
    ];
    let mut arguments = Arguments::from_args();
    // Accounts and counts are the adapter's.
    arguments.test_threads = Some(1);
    libtest_mimic::run(&arguments, trials).exit();
}

/// Keyframes that show about the same: random descriptors, a few changed, in another order.
fn keyframes() -> Vec<View> {
    seen().into_iter().map(|(features, positions)| View::with_positions(&features, positions)).collect()
}

fn seen() -> Vec<(Arc<Features>, Vec<[f64; 2]>)> {
    let keyframe = |(ordinal, &n): (usize, &usize)| {
        let mut rng = SplitMix64::new(1, ordinal as u64);
        let descriptor = |i: usize| -> Descriptor {
            let mut of_point = SplitMix64::new(2, ((i + 7 * ordinal) % 400) as u64);
            let mut descriptor: Descriptor = std::array::from_fn(|_| of_point.below(60) as u8);
            descriptor[..20].fill_with(|| rng.below(60) as u8);
            descriptor
        };
        let keypoint = Keypoint { x: 1.0, y: 1.0, scale: 1.0, orientation: 0.0, response: 1.0 };
        let features =
            Features { keypoints: vec![keypoint; n], descriptors: (0..n).map(descriptor).collect() };
        let position = |i| {
            let mut of_point = SplitMix64::new(3, ((i + 7 * ordinal) % 400) as u64);
            [of_point.unit() * 1280.0 + 9.0 * ordinal as f64, of_point.unit() * 720.0]
        };
        (Arc::new(features), (0..n).map(position).collect())
    };
    SIZES.iter().enumerate().map(keyframe).collect()
}

fn windows(keyframes: &[View]) -> impl Iterator<Item = (&[View], &View)> {
    (0..keyframes.len()).map(|at| (&keyframes[at.saturating_sub(LAST)..at], &keyframes[at]))
}

fn on_cpu(keyframes: &[View]) -> Vec<Vec<Vec<DescriptorMatch>>> {
    let cpu = Matcher::new(&Device::Cpu, 0).unwrap();
    windows(keyframes).map(|(earlier, latest)| cpu.matches(earlier, latest, 0.8).unwrap()).collect()
}

fn bytes_of(gpu: &Gpu, name: &str) -> u64 {
    gpu.resident().iter().find(|buffer| buffer.0 == name).map_or(0, |buffer| buffer.1)
}

fn same(name: &str, found: &[Vec<Vec<DescriptorMatch>>], expected: &[Vec<Vec<DescriptorMatch>>]) -> Outcome {
    let n: usize = expected.iter().flatten().map(Vec::len).sum();
    assert!(n > 3000, "only {n} matches: the keyframes say nothing");
    assert_eq!(found.len(), expected.len(), "{name}");
    for (at, (found, expected)) in found.iter().zip(expected).enumerate() {
        for (back, (found, expected)) in found.iter().zip(expected).enumerate() {
            if found != expected {
                return Err(format!(
                    "{name}: keyframe {at} with the {back}. before it: {found:?}, not {expected:?}"
                )
                .into());
            }
        }
        assert_eq!(found.len(), expected.len(), "{name}: keyframe {at}");
    }
    Ok(())
}

/// Also that a wrong match is named: what `same` is worth.
fn matches_are_those_of_the_cpu(gpu: &Gpu) -> Outcome {
    let keyframes = keyframes();
    let expected = on_cpu(&keyframes);
    let matcher = Matcher::new(&Device::Gpu(gpu.clone()), 1 << 30)?;
    let mut found = Vec::new();
    for (earlier, latest) in windows(&keyframes) {
        found.push(matcher.matches(earlier, latest, 0.8)?);
    }
    same("all fits", &found, &expected)?;
    found[6][0][3].distance2 ^= 1;
    same("all fits", &found, &expected).expect_err("a wrong distance passes");
    Ok(())
}

fn one_submission_while_all_fits(gpu: &Gpu) -> Outcome {
    let keyframes = keyframes();
    let mut matcher = GpuMatcher::new(gpu, 1 << 30)?;
    for (earlier, latest) in windows(&keyframes) {
        let before = gpu.counts();
        matcher.matches(earlier, latest, 0.8)?;
        let after = gpu.counts();
        let has_pairs = !latest.is_empty() && earlier.iter().any(|e| !e.is_empty());
        assert_eq!(after.submissions - before.submissions, has_pairs as u64);
        assert_eq!(after.dispatches - before.dispatches, 2 * has_pairs as u64);
    }
    Ok(())
}

/// Room for all, for some, for two: the same matches, and never more descriptors than that.
fn the_oldest_go_and_come_again(gpu: &Gpu) -> Outcome {
    let keyframes = keyframes();
    let expected = on_cpu(&keyframes);
    let room = |view: &View| view.len().next_multiple_of(TILE);
    let pairs =
        windows(&keyframes).flat_map(|(earlier, latest)| earlier.iter().map(move |e| room(e) + room(latest)));
    // Two that are matched are held in any case.
    let two = pairs.max().unwrap();
    let mut n_submissions = Vec::new();
    for most in [10_000, 1500, 1200, 900, 600, 1, 0] {
        let before = gpu.counts();
        let mut matcher = GpuMatcher::new(gpu, (most * DESCRIPTOR_BYTES) as u64)?;
        let mut found = Vec::new();
        for (earlier, latest) in windows(&keyframes) {
            found.push(matcher.matches(earlier, latest, 0.8)?);
            let bound = most.max(two) * DESCRIPTOR_BYTES;
            let held = bytes_of(gpu, "descriptors");
            assert!(held <= bound as u64, "{held} bytes of descriptors, bound {bound}");
        }
        same(&format!("room for {most}"), &found, &expected)?;
        n_submissions.push(gpu.counts().submissions - before.submissions);
        drop(matcher);
        assert_eq!(bytes_of(gpu, "descriptors"), 0, "{:?}", gpu.resident());
    }
    assert!(n_submissions.is_sorted() && n_submissions[0] < n_submissions[2], "{n_submissions:?}");
    Ok(())
}

/// What was forgotten may be asked for again, and the same keyframe may come twice.
fn keyframes_may_skip(gpu: &Gpu) -> Outcome {
    let keyframes = keyframes();
    let mut matcher = GpuMatcher::new(gpu, (1000 * DESCRIPTOR_BYTES) as u64)?;
    let cpu = Matcher::new(&Device::Cpu, 0)?;
    let order: [(&[usize], usize); 6] =
        [(&[0, 1, 3], 5), (&[6, 7], 8), (&[0, 1, 3], 5), (&[5, 5, 0], 5), (&[], 3), (&[8, 3, 1, 0], 11)];
    for (earlier, latest) in order {
        let earlier: Vec<_> = earlier.iter().map(|&at| keyframes[at].clone()).collect();
        let found = matcher.matches(&earlier, &keyframes[latest], 0.8)?;
        assert_eq!(found, cpu.matches(&earlier, &keyframes[latest], 0.8)?);
    }
    Ok(())
}

/// Three keyframes with more descriptors than llvmpipe binds at once, and the memory for them.
fn more_than_is_bound_at_once(gpu: &Gpu) -> Outcome {
    let view = |descriptors| View::new(&Arc::new(Features { keypoints: Vec::new(), descriptors }));
    let many = |value: u8| {
        let mut descriptors = vec![[value; 128]; 360_000];
        descriptors[350_000 + value as usize] = [9; 128];
        view(descriptors)
    };
    let (earlier, latest) = ([0, 20, 40].map(many), view(vec![[9; 128]]));
    let found = Matcher::new(&Device::Gpu(gpu.clone()), 1 << 30)?.matches(&earlier, &latest, 0.8)?;
    let expected = Matcher::Cpu.matches(&earlier, &latest, 0.8)?;
    assert!(expected.iter().all(|matches| matches.len() == 1), "{expected:?}");
    assert_eq!(found, expected);
    Ok(())
}

/// F of a camera that moves sideways: the epipolar line of (x, y) is the row y. The last has no lines.
fn guides(n: usize) -> Vec<Guide> {
    let sideways = [0.0, 0.0, 0.0, 0.0, 0.0, -1.0, 0.0, 1.0, 0.0];
    (0..n)
        .map(|at| Guide { f: if at == 4 { [0.0; 9] } else { sideways }, band_px: 3.0 + at as f64 })
        .collect()
}

/// At any room: positions that are no edge of a band are seen alike in f32.
fn guided_matches_are_those_of_the_cpu(gpu: &Gpu) -> Outcome {
    let keyframes = keyframes();
    let cpu = Matcher::new(&Device::Cpu, 0)?;
    let mut expected = Vec::new();
    for (earlier, latest) in windows(&keyframes) {
        expected.push(cpu.guided_matches(earlier, &guides(earlier.len()), latest, 0.8)?);
    }
    for most in [10_000, 900, 0] {
        let bytes = most * (DESCRIPTOR_BYTES + 17);
        let matcher = Matcher::new(&Device::Gpu(gpu.clone()), bytes as u64)?;
        let mut found = Vec::new();
        for (earlier, latest) in windows(&keyframes) {
            found.push(matcher.guided_matches(earlier, &guides(earlier.len()), latest, 0.8)?);
        }
        same(&format!("room for {most}"), &found, &expected)?;
    }
    Ok(())
}

/// Plain and guided matching at once, as two stages do, at any room: the matches of each alone, and descriptors once.
fn two_threads_share_descriptors(gpu: &Gpu) -> Outcome {
    let seen = seen();
    let plain: Vec<View> = seen.iter().map(|(features, _)| View::new(features)).collect();
    let placed: Vec<View> =
        seen.iter().map(|(features, at)| View::with_positions(features, at.clone())).collect();
    let run = |matcher: &Matcher| {
        windows(&plain)
            .map(|(earlier, latest)| matcher.matches(earlier, latest, 0.8))
            .collect::<Result<Vec<_>, _>>()
    };
    let run_guided = |matcher: &Matcher| {
        let matches = |(earlier, latest): (&[View], &View)| {
            matcher.guided_matches(earlier, &guides(earlier.len()), latest, 0.8)
        };
        windows(&placed).map(matches).collect::<Result<Vec<_>, _>>()
    };
    let (expected, expected_guided) = (run(&Matcher::Cpu)?, run_guided(&Matcher::Cpu)?);
    for most in [10_000, 1500, 900, 0] {
        let matcher = Matcher::new(&Device::Gpu(gpu.clone()), (most * (DESCRIPTOR_BYTES + 17)) as u64)?;
        matcher.prepare_guided()?;
        let (found, found_guided) = std::thread::scope(|scope| {
            let other = matcher.clone();
            let guided = scope.spawn(move || run_guided(&other));
            (run(&matcher), guided.join().expect("it does not panic"))
        });
        same(&format!("room for {most}"), &found?, &expected)?;
        same(&format!("guided, room for {most}"), &found_guided?, &expected_guided)?;
        // All keyframes together have rooms for less than 4096.
        assert!(bytes_of(gpu, "descriptors") <= (4096 * DESCRIPTOR_BYTES) as u64);
    }
    Ok(())
}
