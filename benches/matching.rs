//! Times matching on a GPU, on the adapter that is named or on the processor alone, plain and guided in turns:
//! `cargo bench --bench matching [-- REPEATS [ADAPTER|cpu]]`.
//!
//! Wall times go from resident descriptors to matches in memory of the host, everything recorded anew. Device times are sums
//! over the passes of a timed recording. One way: the nearest of N descriptors among N others, not merged. Alike: the share
//! of matches that the twins find too.

use std::error::Error;
use std::sync::Arc;
use std::time::Instant;

use trackweave::device::{DeviceError, Gpu, PassTime};
use trackweave::kernels::match_descriptors::{MatchDescriptorsParams, SHADER, Searches};
use trackweave::kernels::match_mutual::Nearest;
use trackweave::matching::{GpuMatcher, Guide, Matcher, View};
use trackweave::message::{Descriptor, DescriptorMatch, Features};
use trackweave::numerics::SplitMix64;

/// Runs that are not timed.
const WARM_UP: usize = 10;
const RATIO: f32 = 0.8;
const BAND_PX: f64 = 4.0;
const MEMORY_BYTES: u64 = 1 << 30;
const SIZES: [usize; 3] = [1000, 4000, 8000];
/// Earlier keyframes that a keyframe is matched with.
const PAIRS: [usize; 2] = [1, 10];

fn main() -> Result<(), Box<dyn Error>> {
    // Cargo passes `--bench` too.
    let mut words = std::env::args().skip(1).filter(|word| !word.starts_with("--"));
    let repeats: usize = words.next().map_or(Ok(100), |word| word.parse())?;
    let adapter = words.next();
    if adapter.as_deref() != Some("cpu") {
        on_gpu(&Gpu::open(adapter.as_deref())?, repeats)?;
    }
    on_cpu(repeats.min(5))
}

/// How the camera moves from keyframe to keyframe.
#[derive(Clone, Copy, Debug)]
enum Motion {
    /// Epipolar lines are rows.
    Sideways,
    /// They meet in the middle of the picture.
    Forward,
}

/// Keyframes of a camera, the last of them matched with all before it within the guides' bands.
struct Case {
    n: usize,
    motion: Motion,
    views: Vec<View>,
    guides: Vec<Guide>,
}

impl Case {
    fn new(n: usize, motion: Motion, n_pairs: usize) -> Case {
        let f = match motion {
            Motion::Sideways => [0.0, 0.0, 0.0, 0.0, 0.0, -1.0, 0.0, 1.0, 0.0],
            Motion::Forward => [0.0, -1.0, 360.0, 1.0, 0.0, -640.0, -360.0, 640.0, 0.0],
        };
        let views = (0..=n_pairs as u64).map(|ordinal| keyframe(ordinal, n, motion)).collect();
        Case { n, motion, views, guides: vec![Guide { f, band_px: BAND_PX }; n_pairs] }
    }

    fn all() -> impl Iterator<Item = Case> {
        let sizes = SIZES.into_iter().flat_map(|n| PAIRS.map(|n_pairs| (n, n_pairs)));
        sizes.flat_map(|(n, n_pairs)| [Motion::Sideways, Motion::Forward].map(|m| Case::new(n, m, n_pairs)))
    }

    fn split(&self) -> (&[View], &View) {
        let (latest, earlier) = self.views.split_last().expect("there is one");
        (earlier, latest)
    }
}

/// Half of its keypoints are those of the others, up to noise.
fn keyframe(ordinal: u64, n: usize, motion: Motion) -> View {
    let mut own = SplitMix64::new(1, ordinal);
    let mut points = SplitMix64::new(2, 0);
    let (mut positions, mut descriptors) = (Vec::new(), Vec::<Descriptor>::new());
    for i in 0..n {
        let seen = [points.unit() * 1280.0, points.unit() * 720.0];
        let shared: Descriptor = std::array::from_fn(|_| points.below(120) as u8);
        let is_shared = i % 2 == 0;
        let [x, y] = if is_shared { seen } else { [own.unit() * 1280.0, own.unit() * 720.0] };
        let noise = [own.unit(), own.unit()];
        let moved = match motion {
            Motion::Sideways => [x + 12.0 * ordinal as f64, y],
            Motion::Forward => {
                [(x, 640.0), (y, 360.0)].map(|(v, c)| c + (v - c) * 1.01f64.powi(ordinal as i32))
            }
        };
        positions.push([0, 1].map(|axis| moved[axis] + noise[axis]));
        let noisy = |v: u8| if is_shared { v + own.below(24) as u8 } else { own.below(144) as u8 };
        descriptors.push(shared.map(noisy));
    }
    View::with_positions(&Arc::new(Features { keypoints: Vec::new(), descriptors }), positions)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

fn timed<T, E>(op: impl FnOnce() -> Result<T, E>) -> Result<(T, f64), E> {
    let begin = Instant::now();
    Ok((op()?, 1e3 * begin.elapsed().as_secs_f64()))
}

fn on_gpu(gpu: &Gpu, repeats: usize) -> Result<(), Box<dyn Error>> {
    println!("{}, {}; medians of {repeats}, ms\n", gpu.adapter(), gpu.adapter().driver);
    println!("| keypoints | one way, wall | device |");
    println!("|---:|---:|---:|");
    for n in SIZES {
        one_way(gpu, n, repeats)?;
    }
    println!(
        "\n| keypoints | pairs | motion | plain, wall | guided, wall | ratio | plain, device | guided, device \
         | ratio | plain: nearest | mutual | guided: nearest | mutual | matches | alike | guided | alike |"
    );
    println!("|---:|---:|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|");
    for case in Case::all() {
        both_ways(gpu, &case, repeats)?;
    }
    println!("\n| keypoints | plain, held | new | guided, held | new |");
    println!("|---:|---:|---:|---:|---:|");
    for n in SIZES {
        new_keyframes(gpu, n, repeats)?;
    }
    println!();
    Ok(())
}

/// What a keyframe takes that is new to the device: its descriptors go up, and for guided matching it is put into tiles.
fn new_keyframes(gpu: &Gpu, n: usize, repeats: usize) -> Result<(), Box<dyn Error>> {
    let case = Case::new(n, Motion::Sideways, 1);
    let (earlier, _) = case.split();
    let mut matcher = GpuMatcher::new(gpu, MEMORY_BYTES)?;
    let mut walls: [Vec<f64>; 4] = Default::default();
    for repeat in 0..WARM_UP + repeats {
        let latest = [1, 1].map(|ordinal| keyframe(ordinal, n, Motion::Sideways));
        let (_, plain_new) = timed(|| matcher.matches(earlier, &latest[0], RATIO))?;
        let (_, plain) = timed(|| matcher.matches(earlier, &latest[0], RATIO))?;
        let (_, guided_new) = timed(|| matcher.guided_matches(earlier, &case.guides, &latest[1], RATIO))?;
        let (_, guided) = timed(|| matcher.guided_matches(earlier, &case.guides, &latest[1], RATIO))?;
        if repeat >= WARM_UP {
            walls
                .iter_mut()
                .zip([plain, plain_new, guided, guided_new])
                .for_each(|(walls, wall)| walls.push(wall));
        }
    }
    let [plain, plain_new, guided, guided_new] = walls.map(median);
    println!("| {n} | {plain:.3} | {plain_new:.3} | {guided:.3} | {guided_new:.3} |");
    Ok(())
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
        let (passes, wall) = timed(|| {
            let mut recording = gpu.record_timed("one way")?;
            recording.pass("nearest").dispatch(&bound, there.groups());
            recording.submit()?.wait()
        })?;
        if repeat >= WARM_UP {
            walls.push(wall);
            times.extend(passes.first().map(|pass| pass.ms));
        }
    }
    println!("| {n} | {:.3} | {:.4} |", median(walls), median(times));
    Ok(())
}

/// Plain matching, then guided.
fn both_ways(gpu: &Gpu, case: &Case, repeats: usize) -> Result<(), Box<dyn Error>> {
    let (earlier, latest) = case.split();
    let mut matcher = GpuMatcher::new(gpu, MEMORY_BYTES)?;
    let mut walls: [Vec<f64>; 2] = Default::default();
    let mut passes: [[Vec<f64>; 2]; 2] = Default::default();
    let mut found: [Vec<Vec<DescriptorMatch>>; 2] = Default::default();
    for repeat in 0..WARM_UP + repeats {
        let (of_plain, wall) = timed(|| matcher.matches(earlier, latest, RATIO))?;
        let (of_guided, guided_wall) =
            timed(|| matcher.guided_matches(earlier, &case.guides, latest, RATIO))?;
        let (_, plain_times) = matcher.matches_timed(earlier, latest, RATIO)?;
        let (_, guided_times) = matcher.guided_matches_timed(earlier, &case.guides, latest, RATIO)?;
        if repeat < WARM_UP {
            continue;
        }
        found = [of_plain, of_guided];
        for (walls, wall) in walls.iter_mut().zip([wall, guided_wall]) {
            walls.push(wall);
        }
        for (passes, times) in passes.iter_mut().zip([plain_times, guided_times]) {
            for (at, pass) in passes.iter_mut().enumerate() {
                pass.push(times.iter().skip(at).step_by(2).map(|time: &PassTime| time.ms).sum());
            }
        }
    }
    let expected = [
        Matcher::Cpu.matches(earlier, latest, RATIO)?,
        Matcher::Cpu.guided_matches(earlier, &case.guides, latest, RATIO)?,
    ];
    let [wall, guided_wall] = walls.map(median);
    let [[nearest, mutual], [guided_nearest, guided_mutual]] = passes.map(|of| of.map(median));
    let [device, guided_device] = [nearest + mutual, guided_nearest + guided_mutual];
    let [(n_found, alike), (n_guided, guided_alike)] = [0, 1].map(|at| alike(&found[at], &expected[at]));
    println!(
        "| {} | {} | {:?} | {wall:.3} | {guided_wall:.3} | {:.2} | {device:.4} | {guided_device:.4} | {:.2} \
         | {nearest:.4} | {mutual:.4} | {guided_nearest:.4} | {guided_mutual:.4} | {n_found} | {alike:.2} % \
         | {n_guided} | {guided_alike:.2} % |",
        case.n,
        earlier.len(),
        case.motion,
        guided_wall / wall,
        guided_device / device,
    );
    Ok(())
}

/// Number of matches, and how many of a hundred are among those expected.
fn alike(found: &[Vec<DescriptorMatch>], expected: &[Vec<DescriptorMatch>]) -> (usize, f64) {
    let pairs = found.iter().zip(expected);
    let n_same: usize = pairs.map(|(a, b)| a.iter().filter(|one| b.contains(one)).count()).sum();
    let [n_found, n_expected] = [found, expected].map(|all| all.iter().map(Vec::len).sum::<usize>());
    (n_found, 100.0 * n_same as f64 / n_found.max(n_expected).max(1) as f64)
}

/// On one thread and on all of the machine.
fn on_cpu(repeats: usize) -> Result<(), Box<dyn Error>> {
    let all = std::thread::available_parallelism()?.get();
    println!("cpu; medians of {repeats}, ms\n");
    println!("| keypoints | pairs | motion | threads | plain | guided | ratio | matches | guided |");
    println!("|---:|---:|---|---:|---:|---:|---:|---:|---:|");
    for case in Case::all() {
        for n_threads in [1, all] {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(n_threads).build()?;
            pool.install(|| twins(&case, n_threads, repeats))?;
        }
    }
    Ok(())
}

fn twins(case: &Case, n_threads: usize, repeats: usize) -> Result<(), DeviceError> {
    let (earlier, latest) = case.split();
    let mut walls: [Vec<f64>; 2] = Default::default();
    let mut n_found = [0; 2];
    for _ in 0..repeats {
        let (of_plain, wall) = timed(|| Matcher::Cpu.matches(earlier, latest, RATIO))?;
        let (of_guided, guided_wall) =
            timed(|| Matcher::Cpu.guided_matches(earlier, &case.guides, latest, RATIO))?;
        n_found = [of_plain, of_guided].map(|found| found.iter().map(Vec::len).sum());
        walls[0].push(wall);
        walls[1].push(guided_wall);
    }
    let [wall, guided_wall] = walls.map(median);
    println!(
        "| {} | {} | {:?} | {n_threads} | {wall:.2} | {guided_wall:.2} | {:.3} | {} | {} |",
        case.n,
        earlier.len(),
        case.motion,
        guided_wall / wall,
        n_found[0],
        n_found[1],
    );
    Ok(())
}
