//! Times matching on a GPU, or on the adapter that is named, beside the twins: `cargo bench --bench matching [-- REPEATS
//! [ADAPTER]]`.
//!
//! Wall times go from resident descriptors to matches in memory of the host, everything recorded anew. Device times are sums
//! over the passes of a timed recording. One way: the nearest of N descriptors among N others, not merged. Alike: the share
//! of matches that the twins find too.

use std::error::Error;
use std::sync::Arc;
use std::time::Instant;

use trackweave::device::{Device, DeviceError, Gpu, PassTime};
use trackweave::kernels::match_descriptors::{MatchDescriptorsParams, SHADER, Searches};
use trackweave::kernels::match_mutual::Nearest;
use trackweave::matching::{GpuMatcher, Guide, Matcher, View};
use trackweave::message::{Descriptor, DescriptorMatch, Features};
use trackweave::numerics::SplitMix64;

/// Runs that are not timed.
const WARM_UP: usize = 10;
const RATIO: f32 = 0.8;
const MEMORY_BYTES: u64 = 1 << 30;
/// Earlier keyframes of a keyframe that is matched with many.
const MANY: usize = 10;

fn main() -> Result<(), Box<dyn Error>> {
    // Cargo passes `--bench` too.
    let mut words = std::env::args().skip(1).filter(|word| !word.starts_with("--"));
    let repeats = words.next().map_or(Ok(100), |word| word.parse())?;
    let gpu = Gpu::open(words.next().as_deref())?;
    println!("{}, {}; medians of {repeats}, ms\n", gpu.adapter(), gpu.adapter().driver);
    println!("| keypoints | what | pairs | wall | device | nearest | mutual | matches | alike |");
    println!("|---:|---|---:|---:|---:|---:|---:|---:|---:|");
    for n in [1000, 4000, 8000] {
        one_way(&gpu, n, repeats)?;
        for n_pairs in [1, MANY] {
            for is_guided in [false, true] {
                both_ways(&gpu, n, n_pairs, is_guided, repeats)?;
            }
        }
    }
    Ok(())
}

/// A keyframe of a camera that moves sideways: half of its keypoints are those of the others, up to noise.
fn keyframe(ordinal: u64, n: usize) -> View {
    let mut own = SplitMix64::new(1, ordinal);
    let mut points = SplitMix64::new(2, 0);
    let (mut positions, mut descriptors) = (Vec::new(), Vec::<Descriptor>::new());
    for i in 0..n {
        let shift = 12.0 * ordinal as f64 + own.unit();
        let (x, y) = (points.unit() * 1280.0, points.unit() * 720.0);
        let shared: Descriptor = std::array::from_fn(|_| points.below(120) as u8);
        let is_shared = i % 2 == 0;
        positions.push([x + shift, if is_shared { y + own.unit() } else { own.unit() * 720.0 }]);
        let noisy = |v: u8| if is_shared { v + own.below(24) as u8 } else { own.below(144) as u8 };
        descriptors.push(shared.map(noisy));
    }
    View::with_positions(&Arc::new(Features { keypoints: Vec::new(), descriptors }), positions)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

fn one_way(gpu: &Gpu, n: usize, repeats: usize) -> Result<(), Box<dyn Error>> {
    let mut rng = SplitMix64::new(3, n as u64);
    let random: Vec<Descriptor> = (0..2 * n).map(|_| std::array::from_fn(|_| rng.below(144) as u8)).collect();
    let all = Searches::both_ways(&[[(0, n), (n, n)]]);
    let there = Searches { n_groups: all.searches[1].first_group as usize, ..all.clone() };
    let searches = gpu.buffer_with("searches", &all.searches[..1])?;
    let descriptors = gpu.buffer_with("descriptors", &random)?;
    let nearest = gpu.buffer::<Nearest>("nearest", all.searches[1].nearest as usize)?;
    let params = MatchDescriptorsParams { n_searches: 1 };
    let bound = gpu.kernel(&SHADER, &[])?.bind(&params, &[&searches, &descriptors, &nearest])?;
    let (mut walls, mut times) = (Vec::new(), Vec::new());
    for repeat in 0..WARM_UP + repeats {
        let begin = Instant::now();
        let mut recording = gpu.record_timed("one way")?;
        recording.pass("nearest").dispatch(&bound, there.groups());
        let passes = recording.submit()?.wait()?;
        if repeat >= WARM_UP {
            walls.push(1e3 * begin.elapsed().as_secs_f64());
            times.extend(passes.first().map(|pass| pass.ms));
        }
    }
    let (wall, device) = (median(walls), median(times));
    println!("| {n} | one way | 1 | {wall:.3} | {device:.4} | {device:.4} | | | |");
    Ok(())
}

fn both_ways(
    gpu: &Gpu,
    n: usize,
    n_pairs: usize,
    is_guided: bool,
    repeats: usize,
) -> Result<(), Box<dyn Error>> {
    let views: Vec<View> = (0..=n_pairs as u64).map(|ordinal| keyframe(ordinal, n)).collect();
    let (latest, earlier) = views.split_last().expect("there is one");
    let sideways = [0.0, 0.0, 0.0, 0.0, 0.0, -1.0, 0.0, 1.0, 0.0];
    let guides = vec![Guide { f: sideways, band_px: 4.0 }; n_pairs];
    let (mut matcher, mut cpu) = if is_guided {
        (GpuMatcher::guided(gpu, MEMORY_BYTES)?, Matcher::guided(&Device::Cpu, 0)?)
    } else {
        (GpuMatcher::new(gpu, MEMORY_BYTES)?, Matcher::new(&Device::Cpu, 0)?)
    };
    let mut run = || -> Result<Vec<Vec<DescriptorMatch>>, DeviceError> {
        if is_guided {
            matcher.guided_matches(earlier, &guides, latest, RATIO)
        } else {
            matcher.matches(earlier, latest, RATIO)
        }
    };
    let mut walls = Vec::new();
    let mut found = Vec::new();
    for repeat in 0..WARM_UP + repeats {
        let begin = Instant::now();
        found = run()?;
        if repeat >= WARM_UP {
            walls.push(1e3 * begin.elapsed().as_secs_f64());
        }
    }
    let mut passes: [Vec<f64>; 2] = Default::default();
    for _ in 0..repeats {
        let (_, times): (_, Vec<PassTime>) = if is_guided {
            matcher.guided_matches_timed(earlier, &guides, latest, RATIO)?
        } else {
            matcher.matches_timed(earlier, latest, RATIO)?
        };
        for (at, pass) in passes.iter_mut().enumerate() {
            pass.push(times.iter().skip(at).step_by(2).map(|time| time.ms).sum());
        }
    }
    let expected = if is_guided {
        cpu.guided_matches(earlier, &guides, latest, RATIO)?
    } else {
        cpu.matches(earlier, latest, RATIO)?
    };
    let pairs = found.iter().zip(&expected);
    let n_same: usize = pairs.map(|(a, b)| a.iter().filter(|one| b.contains(one)).count()).sum();
    let [n_found, n_expected] = [&found, &expected].map(|all| all.iter().map(Vec::len).sum::<usize>());
    let alike = 100.0 * n_same as f64 / n_found.max(n_expected).max(1) as f64;
    let [nearest, mutual] = passes.map(median);
    let (what, wall, device) =
        (if is_guided { "guided" } else { "both ways" }, median(walls), nearest + mutual);
    println!(
        "| {n} | {what} | {n_pairs} | {wall:.3} | {device:.4} | {nearest:.4} | {mutual:.4} | {n_found} | {alike:.2} % |"
    );
    Ok(())
}
