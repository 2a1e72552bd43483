//! SIFT on the adapter that TRACKWEAVE_ADAPTER names against the CPU's, as sets, on rendered pictures and on frames of real
//! sequences, which are found through TRACKWEAVE_DATA. A build without the feature `video` takes a folder of frames of the
//! video's name.

#[path = "support/feature_sets.rs"]
mod feature_sets;
mod support;

use std::env;
use std::path::{Path, PathBuf};

use feature_sets::Agreement;
use libtest_mimic::{Arguments, Failed, Trial};
use support::Sequence;
use trackweave::device::{Device, Gpu};
use trackweave::gray::{Conversion, Gray};
use trackweave::message::{Features, Frame};
use trackweave::numerics::SplitMix64;
use trackweave::picture::Picture;
use trackweave::scene::CameraPath;
use trackweave::sift::{
    DescribedPlace, Extractor, GpuSift, Place, SiftOptions, SiftRoom, SiftScratch, describe_places,
    extract_features,
};
use trackweave::stages::frame_decode::{FrameDecode, FrameDecodeOptions};
use trackweave::stages::{RunContext, SourceStage};
use trackweave::video::sampling::SampleRate;

type Outcome = Result<(), Failed>;

/// Sequences that frames are taken of.
const SEQUENCES: [&str; 3] = ["vamr_corner", "kitti_s1", "icl_kt3_200"];

fn main() {
    let adapter = env::var("TRACKWEAVE_ADAPTER").ok().filter(|name| !name.is_empty());
    let data = env::var_os("TRACKWEAVE_DATA").map(PathBuf::from);
    let gpu = adapter.as_deref().map(|name| Gpu::open(Some(name)).unwrap_or_else(|error| panic!("{error}")));
    let lacking = if gpu.is_some() { "" } else { " (TRACKWEAVE_ADAPTER is not set)" };
    let trial = |name: &str, lacking: &str, check: Box<dyn FnOnce(&Gpu) -> Outcome + Send>| {
        let gpu = gpu.clone();
        let run = move || check(&gpu.ok_or("TRACKWEAVE_ADAPTER is not set")?);
        Trial::test(name.to_owned() + lacking, run).with_ignored_flag(!lacking.is_empty())
    };
    let mut trials = vec![
        trial("a_rendered_room_has_the_cpu_s_features", lacking, Box::new(a_rendered_room)),
        trial("every_option_reaches_the_device", lacking, Box::new(every_option)),
        trial("room_grows_and_changes_no_bit", lacking, Box::new(room_grows)),
        trial("a_picture_in_sections_has_the_whole_one_s_features", lacking, Box::new(sections)),
        trial("places_are_described_as_on_the_cpu", lacking, Box::new(places_are_described)),
        trial("ten_runs_are_the_same", lacking, Box::new(ten_runs)),
        trial("sizes_change_and_tiny_pictures_have_none", lacking, Box::new(sizes_change)),
        trial("the_comparison_fails", lacking, Box::new(the_comparison_fails)),
    ];
    let no_data =
        if data.is_some() || !lacking.is_empty() { lacking } else { " (TRACKWEAVE_DATA is not set)" };
    for sequence in SEQUENCES {
        let folder = data.clone().unwrap_or_default().join("sequences").join(sequence);
        let frames = Box::new(move |gpu: &Gpu| real_frames(gpu, &folder));
        trials.push(trial(&format!("frames_of_{sequence}_have_the_cpu_s_features"), no_data, frames));
    }
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}

fn rendered(width: u32, height: u32) -> Picture {
    let picture = Sequence::render(CameraPath::Orbit, 1, 10.0, (width, height)).pictures.remove(0);
    Picture::gray(width as usize, height as usize, picture.pixels().map(|pixel| pixel[1]).collect())
}

fn noise(width: usize, height: usize) -> Picture {
    let mut rng = SplitMix64::new(11, 0);
    Picture::gray(width, height, (0..width * height).map(|_| rng.below(256) as u8).collect())
}

/// The gray on the device at the picture's own size.
fn uploaded(gpu: &Gpu, picture: &Picture) -> Result<Gray, Failed> {
    let size = (picture.width, picture.height);
    Ok(Conversion::new(&Device::Gpu(gpu.clone()), picture, size)?.run(picture)?)
}

fn on_cpu(gray: &Gray, options: &SiftOptions) -> Result<Features, Failed> {
    Ok(extract_features(&*gray.host()?, options, &mut SiftScratch::default()))
}

/// Features of both backends, the device's first.
fn both(gpu: &Gpu, picture: &Picture, options: &SiftOptions) -> Result<[Features; 2], Failed> {
    let gray = uploaded(gpu, picture)?;
    let found = Extractor::new(&Device::Gpu(gpu.clone()), options.clone()).extract(&gray)?;
    Ok([found, on_cpu(&gray, options)?])
}

fn agree(gpu: &Gpu, name: &str, picture: &Picture, options: &SiftOptions, at_least: usize) -> Outcome {
    let [found, expected] = both(gpu, picture, options)?;
    let agreement = Agreement::new(&found, &expected);
    println!("{name}: {agreement:?}");
    assert!(expected.keypoints.len() >= at_least, "{name}: {} keypoints", expected.keypoints.len());
    agreement.check().map_err(|failed| format!("{name}: {failed:?}").into())
}

fn a_rendered_room(gpu: &Gpu) -> Outcome {
    for (width, height) in [(640, 360), (641, 363)] {
        agree(gpu, "room", &rendered(width, height), &SiftOptions::default(), 500)?;
    }
    Ok(())
}

fn every_option(gpu: &Gpu) -> Outcome {
    let picture = rendered(320, 241);
    let options = SiftOptions::default;
    for (name, options) in [
        ("first_octave", SiftOptions { first_octave: 0, ..options() }),
        ("octaves", SiftOptions { octaves: 1, ..options() }),
        ("more octaves", SiftOptions { octaves: 16, ..options() }),
        ("scales", SiftOptions { scales_per_octave: 2, ..options() }),
        ("more scales", SiftOptions { scales_per_octave: 8, ..options() }),
        ("base_sigma_px", SiftOptions { base_sigma_px: 2.4, scales_per_octave: 2, ..options() }),
        ("min_contrast", SiftOptions { min_contrast: 0.002, ..options() }),
        ("edge_ratio", SiftOptions { edge_ratio: 3.0, ..options() }),
        ("max_orientations", SiftOptions { max_orientations: 4, ..options() }),
        ("max_features", SiftOptions { max_features: 200, ..options() }),
        ("magnification", SiftOptions { magnification: 5.0, ..options() }),
    ] {
        agree(gpu, name, &picture, &options, 50)?;
    }
    Ok(())
}

fn room_grows(gpu: &Gpu) -> Outcome {
    let options = SiftOptions { min_contrast: 0.001, ..SiftOptions::default() };
    let gray = uploaded(gpu, &rendered(640, 360))?;
    let Gray::Device(on_device) = &gray else { panic!("a picture on the device") };
    let expected = GpuSift::new(gpu, options.clone(), gray.size())?.extract(on_device)?;
    assert!(expected.keypoints.len() > 1500, "{} keypoints", expected.keypoints.len());
    for room in [4, 1000, 2048] {
        let mut sift = GpuSift::with_room(
            gpu,
            options.clone(),
            gray.size(),
            SiftRoom { extrema: room, ..SiftRoom::default() },
        )?;
        for run in ["first", "second"] {
            assert!(sift.extract(on_device)? == expected, "the {run} run with room for {room}");
        }
    }
    Ok(())
}

/// Room for ever fewer rows, of a small picture down to strips of two.
fn sections(shared: &Gpu) -> Outcome {
    // Other trials have layers on the shared one.
    let gpu = &Gpu::open(Some(&shared.adapter().name))?;
    let options = SiftOptions::default;
    for (size, options) in [
        ((320, 180), options()),
        ((161, 123), SiftOptions { first_octave: 0, octaves: 3, max_features: 300, ..options() }),
        (
            (203, 305),
            SiftOptions { scales_per_octave: 2, base_sigma_px: 2.4, magnification: 6.0, ..options() },
        ),
        (
            (320, 241),
            SiftOptions { scales_per_octave: 5, max_orientations: 4, min_contrast: 0.003, ..options() },
        ),
    ] {
        let gray = uploaded(gpu, &rendered(size.0, size.1))?;
        let Gray::Device(on_device) = &gray else { panic!("a picture on the device") };
        let mut whole = GpuSift::new(gpu, options.clone(), gray.size())?;
        let places = some_places(size, 150);
        let (expected, described) = whole.extract_with(on_device, &places)?;
        assert!(described.len() > 100, "{} of 150 places", described.len());
        assert!(whole.n_sections() == 1 && expected.keypoints.len() > 30, "{}", expected.keypoints.len());
        let bytes = gpu.resident().iter().find(|(name, _)| *name == "gaussians").ok_or("no layers")?.1;
        drop(whole);
        let strips_of_two = options.first_octave == 0;
        for (share, least) in [(2, 3), (1000, 40)].into_iter().take(1 + strips_of_two as usize) {
            let room = SiftRoom { layer_bytes: bytes / share, ..SiftRoom::default() };
            let mut sift = GpuSift::with_room(gpu, options.clone(), gray.size(), room)?;
            assert!(sift.n_sections() >= least, "{} sections of {size:?}", sift.n_sections());
            for run in ["first", "second"] {
                let (found, again) = sift.extract_with(on_device, &places)?;
                assert!(again == described, "{size:?}, {share}, {run} run: the places differ");
                let n = found.keypoints.iter().zip(&expected.keypoints).filter(|(a, b)| a == b).count();
                let sizes = [found.keypoints.len(), expected.keypoints.len()];
                assert!(found == expected, "{size:?}, {share}, {run} run: {n} keypoints equal of {sizes:?}");
            }
        }
    }
    Ok(())
}

/// Places all over a picture, some at its border, of all scales.
fn some_places((width, height): (u32, u32), n: usize) -> Vec<Place> {
    let mut rng = SplitMix64::new(17, 0);
    let mut along = |size: u32| ((1.2 * rng.unit() - 0.1).clamp(0.0, 1.0) * (size - 1) as f64) as f32;
    let mut place = |i: usize| Place {
        x: along(width),
        y: along(height),
        scale: 0.5 * libm::exp2f(i as f32 * 6.0 / n as f32),
    };
    (0..n).map(&mut place).collect()
}

fn features_of(described: &[DescribedPlace]) -> Features {
    Features {
        keypoints: described.iter().map(|found| found.keypoint).collect(),
        descriptors: described.iter().map(|found| found.descriptor).collect(),
    }
}

/// More places than keypoints and fewer, and none.
fn places_are_described(gpu: &Gpu) -> Outcome {
    let options = SiftOptions { max_features: 300, ..SiftOptions::default() };
    let gray = uploaded(gpu, &rendered(320, 241))?;
    let mut extractor = Extractor::new(&Device::Gpu(gpu.clone()), options.clone());
    let alone = extractor.extract(&gray)?;
    let mut scratch = SiftScratch::default();
    extract_features(&*gray.host()?, &options, &mut scratch);
    for n in [1000, 60, 0] {
        let places = some_places((320, 241), n);
        let (features, found) = extractor.extract_with(&gray, &places)?;
        assert!(features == alone, "{n} places change the features");
        let expected = describe_places(&places, &options, &scratch);
        assert!(expected.len() >= 9 * n / 10, "{} of {n} places", expected.len());
        let numbers =
            |described: &[DescribedPlace]| described.iter().map(|found| found.place).collect::<Vec<_>>();
        assert_eq!(numbers(&found), numbers(&expected));
        let agreement = Agreement::new(&features_of(&found), &features_of(&expected));
        println!("{n} places: {agreement:?}");
        agreement.check()?;
    }
    Ok(())
}

fn ten_runs(gpu: &Gpu) -> Outcome {
    let gray = uploaded(gpu, &rendered(640, 360))?;
    let options = SiftOptions { max_features: 700, ..SiftOptions::default() };
    let first = Extractor::new(&Device::Gpu(gpu.clone()), options.clone()).extract(&gray)?;
    assert!(first.keypoints.len() > 500, "{} keypoints", first.keypoints.len());
    let mut extractor = Extractor::new(&Device::Gpu(gpu.clone()), options);
    for run in 1..10 {
        assert!(extractor.extract(&gray)? == first, "run {run} differs from the first");
    }
    Ok(())
}

fn sizes_change(gpu: &Gpu) -> Outcome {
    let options = SiftOptions::default();
    let mut extractor = Extractor::new(&Device::Gpu(gpu.clone()), options.clone());
    for (width, height) in [(320, 240), (5, 3), (200, 300), (6, 6), (320, 240), (1, 1)] {
        let gray = uploaded(gpu, &noise(width, height))?;
        let agreement = Agreement::new(&extractor.extract(&gray)?, &on_cpu(&gray, &options)?);
        assert_eq!(agreement.n > 100, width >= 200, "{width} x {height}");
        agreement.check()?;
    }
    Ok(())
}

/// One feature in fifty is put wrong in each way that counts.
fn the_comparison_fails(gpu: &Gpu) -> Outcome {
    let [found, expected] = both(gpu, &rendered(640, 360), &SiftOptions::default())?;
    Agreement::new(&found, &expected).check()?;
    let wrong_ways: [fn(&mut Features, usize); 5] = [
        |features, i| features.keypoints[i].x += 0.06,
        |features, i| features.keypoints[i].scale *= 1.02,
        |features, i| features.keypoints[i].orientation += 0.03,
        |features, i| features.descriptors[i][77] ^= 4,
        |features, i| features.keypoints.swap(i, i + 20),
    ];
    for (way, wrong) in wrong_ways.iter().enumerate() {
        let mut features = found.clone();
        for i in (0..features.keypoints.len() - 20).step_by(50) {
            wrong(&mut features, i);
        }
        let failure = Agreement::new(&features, &expected).check();
        assert!(failure.is_err(), "way {way} passes");
    }
    Ok(())
}

/// Three frames that are far apart.
fn real_frames(gpu: &Gpu, folder: &Path) -> Outcome {
    let context = RunContext {
        input: folder.join("video.mp4").to_string_lossy().into_owned(),
        ..RunContext::default()
    };
    let sample_fps = SampleRate::parse("all").ok_or("no rate")?;
    let mut source = FrameDecode::new(FrameDecodeOptions { sample_fps, ..Default::default() }, &context)
        .map_err(|error| format!("{error:?}"))?;
    let frames = std::iter::from_fn(|| source.next().transpose()).take(50);
    for (index, frame) in frames.enumerate() {
        let Frame { picture, .. } = frame.map_err(|error| format!("{error:?}"))?;
        if index % 20 == 5 {
            agree(gpu, &format!("frame {index}"), &picture, &SiftOptions::default(), 200)?;
        }
    }
    Ok(())
}
