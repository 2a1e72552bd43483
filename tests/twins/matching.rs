//! Nearest descriptors and mutual matches: integers, so bit for bit on every adapter.

use image::RgbImage;
use trackweave::device::{AnyBuffer, Buffer, DeviceError, Gpu};
use trackweave::kernels::match_descriptors::{self, MatchDescriptorsParams, MatchScratch, Search, Searches};
use trackweave::kernels::match_guided::{
    self, Band, GuidedPoints, GuidedScratch, MatchGuidedParams, Spot, Spots, TILE,
};
use trackweave::kernels::match_mutual::{self, MatchMutualParams, MutualMatch, Nearest, RatioTest};
use trackweave::message::{Descriptor, DescriptorMatch};
use trackweave::numerics::SplitMix64;

use crate::Outcome;
use crate::comparison::{Cpu, Dev, compare_equal};

/// Numbers of descriptors of the keyframes of a pair.
const SIZES: [[usize; 2]; 13] = [
    [0, 0],
    [1, 0],
    [0, 17],
    [1, 1],
    [1, 16],
    [15, 1],
    [15, 17],
    [16, 16],
    [17, 64],
    [128, 65],
    [129, 63],
    [1000, 1300],
    [1300, 1000],
];

/// How random descriptors are: values a byte may take but one, and bytes that are random. Few make many ties and equals.
const KINDS: [(u32, usize); 4] = [(255, 128), (1, 5), (1, 128), (3, 1)];

type Pair = [Vec<Descriptor>; 2];

fn random(rng: &mut SplitMix64, n: usize, (steps, n_random): (u32, usize)) -> Vec<Descriptor> {
    let mut make = || {
        let mut descriptor = [17; 128];
        descriptor[128 - n_random..].fill_with(|| (rng.below(steps + 1) * 255 / steps) as u8);
        descriptor
    };
    (0..n).map(|_| make()).collect()
}

/// A third of the second keyframe's descriptors are nearly the first one's.
fn pairs_of(seed: u32, kind: (u32, usize), sizes: &[[usize; 2]]) -> Vec<Pair> {
    let mut rng = SplitMix64::new(seed as u64, kind.0 as u64);
    let pair = |&[n, m]: &[usize; 2]| {
        let (first, mut second) = (random(&mut rng, n, kind), random(&mut rng, m, kind));
        for (a, b) in first.iter().rev().zip(second.iter_mut().step_by(3)) {
            *b = *a;
            b[7] ^= 4;
        }
        [first, second]
    };
    sizes.iter().map(pair).collect()
}

fn searches_of(pairs: &[Pair]) -> (Vec<Descriptor>, Searches) {
    let mut all: Vec<Descriptor> = vec![[9; 128]; 3];
    let mut place = |descriptors: &Vec<Descriptor>| {
        let begin = all.len();
        all.extend(descriptors);
        (begin, descriptors.len())
    };
    let places: Vec<_> = pairs.iter().map(|pair| [place(&pair[0]), place(&pair[1])]).collect();
    (all, Searches::both_ways(&places))
}

fn search_on_device(
    gpu: &Gpu,
    descriptors: &[Descriptor],
    all: &Searches,
) -> Result<(Buffer<Search>, Buffer<Nearest>), DeviceError> {
    let searches = gpu.buffer_with("searches", &all.searches)?;
    let descriptors = gpu.buffer_with("descriptors", descriptors)?;
    let nearest = gpu.buffer_with("nearest", &vec![Nearest { index: 77, ..Nearest::NONE }; all.n_nearest])?;
    let params = MatchDescriptorsParams { n_searches: all.searches.len() as u32 };
    let kernel = gpu.kernel(&match_descriptors::SHADER, &[])?;
    let bound = kernel.bind(&params, &[&searches, &descriptors, &nearest])?;
    let mut recording = gpu.record("match_descriptors");
    recording.dispatch(&bound, all.groups());
    recording.submit()?.wait()?;
    Ok((searches, nearest))
}

/// What all slices of a search give together.
fn merged(search: &Search, nearest: &[Nearest]) -> Vec<Nearest> {
    let n_slices = search.n_others.div_ceil(search.slice);
    let merge = |query: u32| {
        let at = |slice: u32| nearest[(search.nearest + slice * search.n_queries + query) as usize];
        let slices: Vec<Nearest> = (0..n_slices).map(at).collect();
        let Some(best) = slices.iter().min_by_key(|found| (found.distance2, found.index)) else {
            return Nearest::NONE;
        };
        let others = slices.iter().filter(|found| found.index != best.index).map(|found| found.distance2);
        let rival2 = others.chain(slices.iter().map(|found| found.rival2)).min().unwrap_or(u32::MAX);
        Nearest { rival2, ..*best }
    };
    (0..search.n_queries).map(merge).collect()
}

pub fn match_descriptors(gpu: &Gpu, picture: &RgbImage) -> Outcome {
    for kind in KINDS {
        // All pairs together, whose slices are long, and each by itself.
        let many = SIZES.repeat(3);
        let alone = SIZES.iter().map(std::slice::from_ref);
        for sizes in alone.chain([&many[..]]) {
            let pairs = pairs_of(picture.width(), kind, sizes);
            let (descriptors, all) = searches_of(&pairs);
            let (_, nearest) = search_on_device(gpu, &descriptors, &all)?;
            let nearest = gpu.download(&nearest)?;
            for ([first, second], searches) in pairs.iter().zip(all.searches.chunks_exact(2)) {
                let mut scratch = MatchScratch::default();
                match_descriptors::match_descriptors(first, second, 0.8, &mut scratch);
                for (search, expected) in searches.iter().zip(scratch.nearest()) {
                    let name = format!("{} x {} {kind:?}", search.n_queries, search.n_others);
                    compare_equal(&name, Dev(&merged(search, &nearest)), Cpu(expected))?;
                }
            }
        }
    }
    if picture.width() == 1 { longest_slices(gpu) } else { Ok(()) }
}

/// One pair so often that slices are as long as they get: a place in the last columns fills its bits of a key.
fn longest_slices(gpu: &Gpu) -> Outcome {
    let [first, mut second] = pairs_of(4, KINDS[0], &[[130, 1100]]).remove(0);
    // Nearest of all, in the last columns of the first slice.
    second[480..512].copy_from_slice(&first[..32]);
    let place = [(0, first.len()), (first.len(), second.len())];
    let all = Searches::both_ways(&[place; 120]);
    assert!(all.searches.iter().all(|search| search.slice == 512), "{:?}", all.searches[0]);
    let (_, nearest) = search_on_device(gpu, &[&first[..], &second].concat(), &all)?;
    let nearest = gpu.download(&nearest)?;
    let mut scratch = MatchScratch::default();
    match_descriptors::match_descriptors(&first, &second, 0.8, &mut scratch);
    for searches in [&all.searches[..2], &all.searches[238..]] {
        for (search, expected) in searches.iter().zip(scratch.nearest()) {
            let name = format!("{} x {} in long slices", search.n_queries, search.n_others);
            compare_equal(&name, Dev(&merged(search, &nearest)), Cpu(expected))?;
        }
    }
    Ok(())
}

fn mutual_on_device(
    gpu: &Gpu,
    all: &Searches,
    [searches, nearest]: [&dyn AnyBuffer; 2],
    ratio: f32,
) -> Result<Vec<MutualMatch>, DeviceError> {
    let matches = gpu.buffer("matches", all.n_matches)?;
    let params = MatchMutualParams::new(all.searches.len() / 2, all.n_matches, RatioTest::new(ratio));
    let bound = gpu.kernel(&match_mutual::SHADER, &[])?.bind(&params, &[searches, nearest, &matches])?;
    let mut recording = gpu.record("match_mutual");
    recording.dispatch(&bound, match_mutual::SHADER.flat_groups(all.n_matches));
    recording.submit()?.wait()?;
    gpu.download(&matches)
}

pub fn match_mutual(gpu: &Gpu, picture: &RgbImage) -> Outcome {
    let mut found = 0;
    for kind in KINDS {
        let pairs = pairs_of(picture.width(), kind, &SIZES);
        let (descriptors, all) = searches_of(&pairs);
        let (searches, nearest) = search_on_device(gpu, &descriptors, &all)?;
        for ratio in [0.1, 0.8, 1.0] {
            let matches = mutual_on_device(gpu, &all, [&searches, &nearest], ratio)?;
            for ([first, second], search) in pairs.iter().zip(all.searches.iter().step_by(2)) {
                let expected =
                    match_descriptors::match_descriptors(first, second, ratio, &mut MatchScratch::default());
                let begin = search.matches as usize;
                let device: Vec<_> = MutualMatch::found(&matches[begin..begin + first.len()]).collect();
                let name = format!("{} x {} {kind:?}, ratio {ratio}", first.len(), second.len());
                compare_equal(&name, Dev(&device), Cpu(&expected))?;
                found += expected.len();
            }
        }
    }
    assert!(found > 2000, "only {found} matches: the cases say nothing");
    ratios_at_the_boundary(gpu)
}

/// Distances about where nearest * 10^8 = rival * ratio^2, up to the largest there are.
fn ratios_at_the_boundary(gpu: &Gpu) -> Outcome {
    let mut rng = SplitMix64::new(1, 2);
    for ratio in [0.0, 0.0001, 0.1, 0.7777, 0.8, 0.9999, 1.0] {
        let r = (ratio as f64 * 1e4).round() as u64;
        let mut ways: [Vec<Nearest>; 2] = Default::default();
        for i in 0..3000u32 {
            let rival2 = if i % 10 == 0 { u32::MAX } else { rng.below(8_323_201) };
            let near = (rival2.min(8_323_200) as u64 * r * r / 100_000_000) as u32;
            let distance2 = (near + i % 3).saturating_sub(1);
            ways[0].push(Nearest { distance2, index: i, rival2 });
            ways[1].push(Nearest { distance2, index: i ^ (i % 7 == 0) as u32, rival2: rival2.max(1) });
        }
        let search = |nearest: u32| Search {
            n_queries: 3000,
            n_others: 3000,
            slice: 3000,
            nearest,
            ..bytemuck::Zeroable::zeroed()
        };
        let searches = [search(0), search(3000)];
        let all = Searches { searches: searches.into(), n_groups: 0, n_nearest: 6000, n_matches: 3000 };
        let on_device = gpu.buffer_with("searches", &all.searches)?;
        let nearest = gpu.buffer_with("nearest", &ways.concat())?;
        let matches = mutual_on_device(gpu, &all, [&on_device, &nearest], ratio)?;
        let device: Vec<DescriptorMatch> = MutualMatch::found(&matches).collect();
        let expected = match_mutual::match_mutual(&ways[0], &ways[1], RatioTest::new(ratio));
        assert!(expected.len() > 200, "ratio {ratio}: {} matches", expected.len());
        compare_equal(&format!("ratio {ratio}"), Dev(&device), Cpu(&expected))?;
    }
    Ok(())
}

/// Keypoints in a 640 x 400 picture, every fourth at the position of the one before; a few have no position.
fn guided_side(rng: &mut SplitMix64, n: usize) -> Side {
    let mut positions: Vec<[f64; 2]> = Vec::new();
    let mut descriptors = Vec::new();
    for i in 0..n {
        let shared = positions.last().copied().filter(|_| i % 4 == 3);
        let own = [rng.unit() * 640.0, rng.unit() * 400.0];
        positions.push(if i % 50 == 49 { [f64::NAN, 1.0] } else { shared.unwrap_or(own) });
        let mut descriptor = [9; 128];
        descriptor[..6].fill_with(|| rng.below(4) as u8 * 20);
        descriptors.push(descriptor);
    }
    (positions, descriptors)
}

/// Lines through an epipole in or about the picture, at the slopes of a random pencil.
fn random_geometry(rng: &mut SplitMix64) -> [f64; 9] {
    let (x, y) = (rng.unit() * 1200.0 - 300.0, rng.unit() * 800.0 - 200.0);
    let cross = nalgebra::Matrix3::new(0.0, -1.0, y, 1.0, 0.0, -x, -y, x, 0.0);
    let map = nalgebra::Matrix3::from_fn(|r, c| (r == c) as u8 as f64 + 1e-4 * (rng.unit() - 0.5));
    let f: Vec<f64> = (cross * map).transpose().iter().copied().collect();
    f.try_into().expect("nine values")
}

type Side = (Vec<[f64; 2]>, Vec<Descriptor>);

/// Both ways and the test.
fn guided_on_device(
    gpu: &Gpu,
    sides: &[Side; 2],
    f: &[f64; 9],
    band_px: f64,
) -> Result<Vec<DescriptorMatch>, DeviceError> {
    let [n, m] = [&sides[0], &sides[1]].map(|(positions, _)| positions.len());
    let spots = [&sides[0], &sides[1]].map(|(positions, _)| Spots::new(positions));
    // The second side begins at a tile.
    let begin = n.next_multiple_of(TILE);
    let mut descriptors = sides[0].1.clone();
    descriptors.resize(begin, [7; 128]);
    descriptors.extend(&sides[1].1);
    let mut in_order = spots[0].spots.clone();
    in_order.resize(begin, Spot { x: 0.0, y: 0.0, point: 5, index: 5 });
    in_order.extend(&spots[1].spots);
    let all = Searches::guided(&[[(0, n), (begin, m)]]);
    let band = Band::new(f, band_px, [spots[0].middle, spots[1].middle]).expect("there are lines");
    let searches = gpu.buffer_with("searches", &all.searches)?;
    let bands = gpu.buffer_with("bands", &[band])?;
    let descriptors = gpu.buffer_with("descriptors", &descriptors)?;
    let in_order = gpu.buffer_with("spots", &in_order)?;
    let tiles = gpu.buffer_with("tiles", &[&spots[0].bounds[..], &spots[1].bounds].concat())?;
    let nearest = gpu.buffer::<Nearest>("nearest", all.n_nearest)?;
    let params = MatchGuidedParams { n_searches: 2 };
    let kernel = gpu.kernel(&match_guided::SHADER, &[])?;
    let buffers: [&dyn AnyBuffer; 6] = [&searches, &bands, &descriptors, &in_order, &tiles, &nearest];
    let bound = kernel.bind(&params, &buffers)?;
    let mut recording = gpu.record("match_guided");
    recording.dispatch(&bound, all.groups());
    recording.submit()?.wait()?;
    let matches = mutual_on_device(gpu, &all, [&searches, &nearest], 0.8)?;
    Ok(MutualMatch::found(&matches).collect())
}

fn guided_on_cpu(sides: &[Side; 2], f: &[f64; 9], band_px: f64) -> Vec<DescriptorMatch> {
    let [first, second] =
        [&sides[0], &sides[1]].map(|(positions, descriptors)| GuidedPoints { positions, descriptors });
    match_guided::match_guided(first, second, f, band_px, 0.8, &mut GuidedScratch::default())
}

/// Exact integers on candidates that f32 may see on the other side of a band's edge: at least 99.5 % of the matches.
pub fn match_guided(gpu: &Gpu, picture: &RgbImage) -> Outcome {
    let mut rng = SplitMix64::new(picture.width() as u64, 5);
    let (mut n_found, mut n_expected, mut n_same) = (0, 0, 0);
    for [n, m] in [[1, 0], [1, 1], [63, 64], [65, 129], [300, 2500], [2100, 700]] {
        let sides = [guided_side(&mut rng, n), guided_side(&mut rng, m)];
        let f = random_geometry(&mut rng);
        for band_px in [0.0, 1.5, 4.0, 40.0, 2000.0] {
            let found = guided_on_device(gpu, &sides, &f, band_px)?;
            let expected = guided_on_cpu(&sides, &f, band_px);
            n_same += found.iter().filter(|found| expected.contains(found)).count();
            (n_found, n_expected) = (n_found + found.len(), n_expected + expected.len());
        }
    }
    println!("match_guided: {n_same} of {n_found} matches are among the {n_expected} of the twin");
    if n_expected < 150 || 1000 * n_same < 995 * n_found.max(n_expected) {
        return Err(format!("{n_same} of {n_found} matches are among the {n_expected} of the twin").into());
    }
    guided_on_whole_pixels(gpu, picture)
}

/// At whole pixels f32 is exact, so every match is the twin's: no tile is left out that a band reaches. Epipoles in the
/// picture, at its border, outside and at infinity. For more than 8192 keypoints tiles are asked in two goes.
fn guided_on_whole_pixels(gpu: &Gpu, picture: &RgbImage) -> Outcome {
    let mut rng = SplitMix64::new(9, picture.width() as u64);
    let mut side = |n: usize| -> Side {
        let (mut positions, mut descriptors) = guided_side(&mut rng, n);
        positions.iter_mut().flatten().for_each(|v| *v = v.round());
        // So that the middle is at (320, 200).
        [positions[0], positions[1]] = [[0.0, 0.0], [640.0, 400.0]];
        descriptors.iter_mut().for_each(|descriptor| descriptor[6..30].fill_with(|| rng.below(3) as u8 * 30));
        (positions, descriptors)
    };
    // About the middle; the largest is a power of two, which F is divided by.
    let epipoles = [[0, 0, 1], [64, -32, 1], [256, 128, 1], [-512, 64, 1], [2048, 1024, 1]];
    let directions = [[1, 0, 0], [0, 1, 0], [1, 2, 0], [-2, 1, 0]];
    let sizes: &[[usize; 2]] = match picture.width() {
        640 => &[[3, 9000], [9000, 90], [300, 650]],
        _ => &[[40, 33], [2, 300]],
    };
    let mut n_found = 0;
    for &[n, m] in sizes {
        let sides = [side(n), side(m)];
        for [x, y, z] in epipoles.into_iter().chain(directions) {
            let [x, y, z] = [x + 320 * z, y + 200 * z, z].map(f64::from);
            let f = [0.0, -z, y, z, 0.0, -x, -y, x, 0.0];
            for band_px in [1.0, 3.3, 10.7, 50.3] {
                let name = format!("{n} x {m}, epipole {x} {y} {z}, band {band_px}");
                let found = guided_on_device(gpu, &sides, &f, band_px)?;
                n_found += found.len();
                compare_equal(&name, Dev(&found), Cpu(&guided_on_cpu(&sides, &f, band_px)))?;
            }
        }
    }
    assert!(n_found > 100, "only {n_found} matches: the cases say nothing");
    Ok(())
}
