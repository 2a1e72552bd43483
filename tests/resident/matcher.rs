//! The matcher's arrays.

use std::sync::Arc;

use trackweave::device::{DeviceError, Gpu};
use trackweave::kernels::match_guided::TILE;
use trackweave::matching::{GpuMatcher, Guide, View};
use trackweave::message::Features;
use trackweave::numerics::SplitMix64;

use crate::{Account, Outcome};

/// Bytes of a tile of keypoints: descriptors, then with where they lie.
const PLAIN: u64 = TILE as u64 * 128;
const GUIDED: u64 = TILE as u64 * (128 + 16) + 16;

/// Keyframes of so many keypoints, for plain and for guided matching.
fn keyframes(sizes: &[usize]) -> Vec<[View; 2]> {
    let mut rng = SplitMix64::new(6, 0);
    let mut keyframe = |&n: &usize| {
        let descriptors = (0..n).map(|_| std::array::from_fn(|_| rng.below(256) as u8)).collect();
        let features = Arc::new(Features { keypoints: Vec::new(), descriptors });
        let positions = (0..n).map(|_| [rng.unit() * 640.0, rng.unit() * 360.0]).collect();
        [View::new(&features), View::with_positions(&features, positions)]
    };
    sizes.iter().map(&mut keyframe).collect()
}

/// Bytes that keyframes have in the account.
fn of_keyframes(gpu: &Gpu) -> u64 {
    let names = ["descriptors", "spots", "tiles"];
    gpu.resident().iter().filter(|(name, _)| names.contains(name)).map(|(_, bytes)| bytes).sum()
}

/// The latest of `keyframes` with the others, plain and, if so, guided.
fn run(matcher: &mut GpuMatcher, keyframes: &[[View; 2]], is_guided: bool) -> Result<(), DeviceError> {
    let f = [0.0, 0.0, 0.0, 0.0, 0.0, -1.0, 0.0, 1.0, 0.0];
    let views = |kind: usize| keyframes.iter().map(|keyframe| keyframe[kind].clone()).collect::<Vec<_>>();
    let (plain, guided) = (views(0), views(1));
    let Some((latest, earlier)) = plain.split_last() else { return Ok(()) };
    matcher.matches(earlier, latest, 0.8)?;
    if is_guided {
        let guides = vec![Guide { f, band_px: 3.0 }; earlier.len()];
        matcher.guided_matches(&guided[..earlier.len()], &guides, &guided[earlier.len()], 0.8)?;
    }
    Ok(())
}

/// The account after the matcher is made, after calls of either kind, after growth and after the matcher is dropped is what is
/// allocated and counted; keyframes have what they were to have, once for both kinds.
pub fn calls(account: &Account) -> Outcome {
    let gpu = &account.gpu;
    let keyframes = keyframes(&[300, 40, 500, 310, 0, 320]);
    let mut matcher = GpuMatcher::new(gpu, 1 << 30)?;
    account.compare()?;
    run(&mut matcher, &keyframes[..2], false)?;
    account.compare()?;
    // 320 and 64.
    assert_eq!(of_keyframes(gpu), 512 / TILE as u64 * PLAIN);
    run(&mut matcher, &keyframes[..3], false)?;
    account.compare()?;
    let tiles = 1024 / TILE as u64;
    assert_eq!(of_keyframes(gpu), tiles * PLAIN);
    for _ in 0..2 {
        run(&mut matcher, &keyframes[..3], true)?;
        account.compare()?;
        assert_eq!(of_keyframes(gpu), tiles * GUIDED, "descriptors lie there once");
    }
    // 320, 64, 512, 320, 320.
    run(&mut matcher, &keyframes, true)?;
    account.compare()?;
    assert_eq!(of_keyframes(gpu), 2 * tiles * GUIDED);
    drop(matcher);
    account.compare()?;
    assert_eq!(gpu.resident(), []);
    Ok(())
}

/// The same where keyframes have to go all the time: never more than the bound, or two keyframes.
pub fn spills(account: &Account) -> Outcome {
    let gpu = &account.gpu;
    let keyframes = keyframes(&[200; 8]);
    for tiles in [0, 20, 24, 40] {
        let mut matcher = GpuMatcher::new(gpu, tiles * GUIDED)?;
        for last in 1..keyframes.len() {
            run(&mut matcher, &keyframes[last.saturating_sub(5)..=last], true)?;
            account.compare()?;
            let (held, two) = (of_keyframes(gpu), 2 * 7);
            assert!(held <= tiles.max(two) * GUIDED, "keyframe {last}: {held} bytes, room for {tiles} tiles");
        }
        drop(matcher);
        account.compare()?;
        assert_eq!(gpu.resident(), []);
    }
    Ok(())
}
