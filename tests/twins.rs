//! Every shader against its twin, on the adapter that TRACKWEAVE_ADAPTER names: bit for bit on software adapters, which
//! round every operation, within a kernel's tolerance on GPUs, which fuse multiplications and additions.

#[path = "twins/chunks.rs"]
mod chunks;
#[path = "twins/comparison.rs"]
mod comparison;
#[path = "twins/gray.rs"]
mod gray;
#[path = "twins/keypoints.rs"]
mod keypoints;
#[path = "twins/klt_anchor.rs"]
mod klt_anchor;
#[path = "support/klt_cases.rs"]
mod klt_cases;
#[path = "support/klt_scene.rs"]
mod klt_scene;
#[path = "twins/klt_track.rs"]
mod klt_track;
#[path = "twins/matching.rs"]
mod matching;
#[path = "twins/misuse.rs"]
mod misuse;
#[path = "twins/pictures.rs"]
mod pictures;
#[path = "twins/pyramid.rs"]
mod pyramid;
#[path = "twins/selection.rs"]
mod selection;
#[path = "twins/sift.rs"]
mod sift;
mod support;

use std::env;
use std::sync::Arc;

use comparison::{Cpu, Dev, compare, compare_bits};
use image::RgbImage;
use libtest_mimic::{Arguments, Failed, Trial};
use support::gray_from_rgb;
use trackweave::device::Gpu;
use trackweave::kernels::KERNELS;

type Outcome = Result<(), Failed>;
type Check = fn(&Gpu, &RgbImage) -> Outcome;

/// A comparison for each kernel.
const CHECKS: [(&str, Check); 26] = [
    ("gray_luma", gray::gray_luma),
    ("gray_rgb", gray::gray_rgb),
    ("pyramid_down", pyramid::pyramid_down),
    ("scharr", pyramid::scharr),
    ("eigen_map", selection::eigen_map),
    ("eigen_max", selection::eigen_max),
    ("eigen_at", selection::eigen_at),
    ("klt_track", klt_track::klt_track),
    ("klt_patch", klt_anchor::klt_patch),
    ("klt_anchor", klt_anchor::klt_anchor),
    ("klt_occupancy", selection::klt_occupancy),
    ("klt_select", selection::klt_select),
    ("klt_suppress", selection::klt_suppress),
    ("scan", selection::scan),
    ("klt_compact", selection::klt_compact),
    ("upsample", sift::upsample),
    ("gaussian_blur", sift::gaussian_blur),
    ("extrema", sift::extrema),
    ("refine", sift::refine),
    ("strongest", sift::strongest),
    ("orientation", keypoints::orientation),
    ("orientation_select", sift::orientation_select),
    ("descriptor", keypoints::descriptor),
    ("match_descriptors", matching::match_descriptors),
    ("match_mutual", matching::match_mutual),
    ("match_guided", matching::match_guided),
];

const SIZES: [(u32, u32); 5] = [(1, 1), (5, 9), (17, 30), (640, 360), (641, 363)];

fn main() {
    let adapter = env::var("TRACKWEAVE_ADAPTER").ok();
    let gpu = adapter.as_deref().map(|name| Gpu::open(Some(name)).unwrap_or_else(|error| panic!("{error}")));
    let reason = if gpu.is_some() { "" } else { " (TRACKWEAVE_ADAPTER is not set)" };
    let picture = Arc::new(pictures::render(641, 363));
    let mut trials = vec![Trial::test("every_kernel_is_compared", every_kernel_is_compared)];
    let mut add = |name: String, check: Box<dyn FnOnce(&Gpu) -> Outcome + Send>| {
        let gpu = gpu.clone();
        let run = move || check(&gpu.ok_or("TRACKWEAVE_ADAPTER is not set")?);
        trials.push(Trial::test(name + reason, run).with_ignored_flag(!reason.is_empty()));
    };
    for (name, check) in CHECKS {
        for (width, height) in SIZES {
            let picture = picture.clone();
            let crop = move |gpu: &Gpu| check(gpu, &pictures::crop(&picture, width, height));
            add(format!("{name}_{width}x{height}"), Box::new(crop));
        }
    }
    add("cases_of_the_verification".into(), Box::new(klt_track::cases));
    add("pushes_are_the_twins".into(), Box::new(klt_track::pushes_are_the_twins));
    add("chunks_of_tracks_give_the_same_bits".into(), Box::new(chunks::same_bits));
    add("a_kernel_too_large_is_refused".into(), Box::new(klt_track::a_kernel_too_large_is_refused));
    add("misuse_of_a_tracker_is_refused".into(), Box::new(misuse::is_refused));
    let whole = picture.clone();
    let keypoints = move |gpu: &Gpu| keypoints::a_turned_keypoint_is_named(gpu, &whole);
    add("a_turned_keypoint_is_named".into(), Box::new(keypoints));
    add("the_steepest_picture_does_not_overflow".into(), Box::new(keypoints::steepest));
    add("a_keypoint_of_two_bins_is_held_to_bytes".into(), Box::new(keypoints::two_bins));
    add("keypoints_beyond_a_row_of_groups".into(), Box::new(keypoints::beyond_a_row_of_groups));
    let whole = picture.clone();
    add("a_flipped_bit_is_named".into(), Box::new(move |gpu| a_flipped_bit_is_named(gpu, &whole)));
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}

fn every_kernel_is_compared() -> Outcome {
    assert_eq!(CHECKS.map(|(name, _)| name), KERNELS.map(|kernel| kernel.name));
    Ok(())
}

/// The comparison itself: one bit of one element of a real download, and it must fail there.
fn a_flipped_bit_is_named(gpu: &Gpu, picture: &RgbImage) -> Outcome {
    let gray = gray_from_rgb(picture);
    let (_, pyramid) = pyramid::pyramid_on_device(gpu, &gray)?;
    let mut found = gpu.download(&pyramid)?;
    let expected = found.clone();
    compare_bits("pyramid", Dev(&found), Cpu(&expected))?;
    let index = found.len() - 7;
    found[index] = f32::from_bits(found[index].to_bits() ^ 1);
    let failure = compare_bits("pyramid", Dev(&found), Cpu(&expected)).expect_err("a flipped bit passes");
    let message = failure.message().unwrap_or_default();
    assert!(message.contains(&format!("pyramid[{index}]")) && message.contains("1 of"), "{message}");
    found[index] = expected[index] + 1e-3;
    compare(gpu, "pyramid", Dev(&found), Cpu(&expected), 1e-6).expect_err("a wrong value passes");
    Ok(())
}
