//! Tracks forward, back and checked.

use std::sync::Arc;

use image::RgbImage;
use libtest_mimic::Failed;
use trackweave::device::{AdapterKind, AnyBuffer, Buffer, Device, DeviceError, Gpu};
use trackweave::gray::{Conversion, Gray};
use trackweave::kernels::klt_check::klt_check;
use trackweave::kernels::klt_track::{self as kernel, KltTrackParams, TrackRecord};
use trackweave::kernels::pyramid_down::PyramidShape;
use trackweave::kernels::{Pyramid, PyramidLevel};
use trackweave::klt::{CpuTracker, GpuTracker, KltOptions};
use trackweave::message::EndReason;
use trackweave::numerics::SplitMix64;
use trackweave::picture::{GrayImage, Picture};

use crate::Outcome;
use crate::comparison::{Cpu, Dev, compare_bits};
use crate::klt_cases;
use crate::klt_scene::{Warp, relit, textured};

/// Window, levels, photometric model, most steps, and the tracks of a dispatch.
const SETTINGS: [(u32, u32, u32, u32, usize); 7] = [
    (15, 5, 2, 20, 64),
    (3, 6, 0, 20, 5),
    (9, 4, 1, 20, 64),
    (21, 3, 2, 20, 3),
    (31, 2, 2, 9, 64),
    (15, 1, 2, 255, 64),
    (63, 2, 2, 9, 64),
];

const N_TRACKS: usize = 90;

/// Share of the records that GPUs, which fuse, must have as the twin has.
const ALIKE: f64 = 0.99;

pub fn klt_track(gpu: &Gpu, picture: &RgbImage) -> Outcome {
    let (width, height) = (picture.width() as usize, picture.height() as usize);
    let first = textured(width, height, 6 + width * height * 400 / (640 * 360), 10);
    let (mut n_records, mut differing) = (0, Vec::new());
    for (i, &(window_px, levels, photometric, max_iterations, chunk)) in SETTINGS.iter().enumerate() {
        let second = match i % 3 {
            0 => relit(&Warp::Shift(5.3, -3.8).apply(&first), 0.8, 0.1),
            1 => Warp::Turn(3.0).apply(&first),
            _ => Warp::Shift(-0.4, 0.7).apply(&first),
        };
        let options = KltOptions {
            window_px,
            levels,
            photometric,
            max_iterations,
            ..KltOptions::for_size(width, height)
        };
        let starts = starts(width, height, i as u64);
        let frames = [pyramid_of(&first, levels), pyramid_of(&second, levels)];
        let expected = on_cpu(&frames, &options, &starts);
        let found = on_device(gpu, &frames, &options, &starts, chunk)?;
        let name = format!("window {window_px}, {levels} levels: records");
        if gpu.adapter().kind == AdapterKind::Software {
            compare_bits(&name, Dev(bytemuck::cast_slice(&found)), Cpu(bytemuck::cast_slice(&expected)))?;
            continue;
        }
        n_records += found.len();
        for (i, (found, expected)) in found.iter().zip(&expected).enumerate() {
            if !is_alike(found, expected) {
                differing.push(format!("{name}[{i}] is {found:?}, the twin's {expected:?}"));
            }
        }
    }
    if differing.len() as f64 > (1.0 - ALIKE) * n_records as f64 {
        return Err(
            format!("{} of {n_records} records differ:\n{}", differing.len(), differing.join("\n")).into()
        );
    }
    Ok(())
}

/// Every case of the tracker's verification. On GPUs what differs is counted over all of them.
pub fn cases(gpu: &Gpu) -> Outcome {
    let (mut n_records, mut differing) = (0, Vec::new());
    for case in klt_cases::all() {
        let frames = [&case.first, &case.second].map(|frame| pyramid_of(frame, case.options.levels));
        let starts = klt_cases::starts(&case.points);
        let expected = on_cpu(&frames, &case.options, &starts);
        let found = on_device(gpu, &frames, &case.options, &starts, starts.len())?;
        if gpu.adapter().kind == AdapterKind::Software {
            compare_bits(
                &case.name,
                Dev(bytemuck::cast_slice(&found)),
                Cpu(bytemuck::cast_slice(&expected)),
            )?;
        }
        let pairs = found.iter().zip(&expected).enumerate();
        let apart: Vec<_> = pairs.filter(|(_, (found, expected))| !is_alike(found, expected)).collect();
        println!("{}: {} of {} records differ", case.name, apart.len(), found.len());
        differing.extend(apart.iter().map(|apart| format!("{}: {apart:?}", case.name)));
        n_records += found.len();
    }
    if differing.len() as f64 > (1.0 - ALIKE) * n_records as f64 {
        return Err(format!("{} of {n_records} differ:\n{}", differing.len(), differing.join("\n")).into());
    }
    Ok(())
}

/// Where an ended track would be says nothing: its steps left the picture, or found no ground.
fn is_alike(found: &TrackRecord, expected: &TrackRecord) -> bool {
    let is_near = |a: f32, b: f32| (a - b).abs() <= 1e-3;
    (found.is_alive(), found.reason()) == (expected.is_alive(), expected.reason())
        && (!expected.is_alive()
            || is_near(found.x, expected.x)
                && is_near(found.y, expected.y)
                && found.iterations().abs_diff(expected.iterations()) <= 1)
}

/// Points all over the picture, on its rim, beyond it, nowhere, and tracks that ended before.
fn starts(width: usize, height: usize, seed: u64) -> Vec<TrackRecord> {
    let mut rng = SplitMix64::new(21 + seed, width as u64);
    let (right, bottom) = (width as f32 - 0.5, height as f32 - 0.5);
    let mut starts: Vec<TrackRecord> = (0..N_TRACKS)
        .map(|_| {
            TrackRecord::start(
                (right + 0.5) * rng.unit() as f32 - 0.5,
                (bottom + 0.5) * rng.unit() as f32 - 0.5,
            )
        })
        .collect();
    let odd = [
        TrackRecord::start(-0.5, -0.5),
        TrackRecord::start(right, bottom),
        TrackRecord::start(right, 0.3),
        TrackRecord::start(2.0, bottom - 1.25),
        TrackRecord::start(right + 0.1, 1.0),
        TrackRecord::start(0.0, -0.6),
        TrackRecord::start(f32::NAN, 3.0),
        TrackRecord::start(1.0, f32::NAN),
        TrackRecord::start(3e38, 0.0),
        TrackRecord::start(0.0, f32::NEG_INFINITY),
        TrackRecord::new(f32::NAN, 1e30, 0.3, Some(EndReason::Residual), 7),
        TrackRecord::new(1.0, 1.0, 0.7, Some(EndReason::OutOfFrame), 255),
    ];
    for (i, record) in odd.into_iter().enumerate() {
        starts[7 * i + 2] = record;
    }
    starts
}

fn pyramid_of(gray: &GrayImage, levels: u32) -> Pyramid {
    let mut pyramid = Pyramid::default();
    pyramid.rebuild(&Arc::new(gray.clone()), levels as usize, &mut Vec::new());
    pyramid
}

/// Checked, forward and backward.
fn on_cpu([first, second]: &[Pyramid; 2], options: &KltOptions, starts: &[TrackRecord]) -> Vec<TrackRecord> {
    let params = options.track_params();
    let nothing = vec![TrackRecord::default(); starts.len()];
    let [mut checked, mut forward, mut backward] = [nothing.clone(), nothing.clone(), nothing];
    kernel::klt_track(first, second, &params, starts, &mut forward);
    kernel::klt_track(second, first, &params, &forward, &mut backward);
    klt_check(starts, &forward, &backward, options.forward_backward_px, options.min_ncc, &mut checked);
    [checked, forward, backward].concat()
}

/// The same, in dispatches of `chunk` tracks.
fn on_device(
    gpu: &Gpu,
    frames: &[Pyramid; 2],
    options: &KltOptions,
    starts: &[TrackRecord],
    chunk: usize,
) -> Result<Vec<TrackRecord>, Failed> {
    let [pyramid, gradient_x, gradient_y] = planes(gpu, frames)?;
    let weights = kernel::weights_on_device(gpu, options.window_px as usize)?;
    let records = gpu.buffer::<TrackRecord>("records", 3 * starts.len())?;
    let on_device = gpu.buffer_with("starts", starts)?;
    let kernel = kernel::kernel(gpu, options.window_px as usize)?;
    let gray = &frames[0].levels[0].gray;
    let mut recording = gpu.record("klt_track");
    for first in (0..starts.len()).step_by(chunk) {
        let n = chunk.min(starts.len() - first);
        let params = KltTrackParams::new(options, [gray.width, gray.height], 0, first, n, starts.len());
        let buffers: [&dyn AnyBuffer; 6] =
            [&weights, &pyramid, &gradient_x, &gradient_y, &on_device, &records];
        let bound = kernel.bind(&params, &buffers)?;
        recording.dispatch(&bound, params.groups());
    }
    recording.submit()?.wait()?;
    Ok(gpu.download(&records)?)
}

/// The picture as decoded, samples from 16 to 235.
pub fn picture_of(gray: &GrayImage) -> Picture {
    let luma = gray.data.iter().map(|value| (16.0 + 219.0 * value).round() as u8).collect();
    Picture { full_range: false, ..Picture::gray(gray.width, gray.height, luma) }
}

/// Frames through a tracker: the records of the twins, one submission a push beside the upload's, memory to the byte.
pub fn pushes_are_the_twins(shared: &Gpu) -> Outcome {
    // A device of its own, so that the account is the tracker's alone.
    let gpu = Gpu::open(Some(&shared.adapter().name))?;
    let (width, height, capacity) = (161, 120, 70);
    let first = textured(width, height, 60, 10);
    let pictures =
        [Warp::NONE, Warp::Shift(2.6, -1.8), Warp::Turn(2.0)].map(|warp| picture_of(&warp.apply(&first)));
    let size = (width as u32, height as u32);
    let options = KltOptions { levels: 5, capacity: capacity as u32, ..KltOptions::for_size(width, height) };
    let mut tracker = GpuTracker::new(&gpu, Arc::new(options.clone()), (width, height))?;
    let n_pixels = PyramidShape::new(width, height, options.levels as usize).pixels() as u64;
    let plane = 2 * 4 * n_pixels;
    let n_cells = (width.div_ceil(8) * height.div_ceil(8)) as u64;
    let n_tracks = capacity as u64;
    let resident = vec![
        ("alive", 8 * n_tracks),
        ("anchors", 32 * n_tracks),
        ("cell_starts", 4 * (n_cells + 1)),
        ("cell_tracks", 2 * 4 * n_tracks),
        ("checked", 16 * n_tracks),
        ("eigen", 4 * (width * height) as u64),
        ("gradient_x", plane),
        ("gradient_y", plane),
        ("kept", 4 * n_cells),
        ("largest", 4),
        ("n_selected", 4),
        // In either slot two dispatches of levels, the gradients and the map; tracks; patches and alignment; two of the largest,
        // one at points; the selection.
        ("parameters", 2 * (2 * 200 + 200 + 16) + 252 + 24 + 36 + 2 * 4 + 12 + 16 + 20 + 12 + 4 + 4),
        ("patch_samples", 3 * 4 * 240 * n_tracks),
        ("patch_sums", 208 * n_tracks),
        ("picks", 12 * n_cells),
        ("point_values", 2 * 4),
        ("points", 8),
        ("pyramid", plane),
        ("records", 48 * n_tracks),
        ("selected", 2 * 12 * n_cells),
        ("slots", 4 * n_tracks),
        ("starts", 16 * n_tracks),
        ("strips", 4 * (width * height).div_ceil(4096) as u64 + 4),
        ("sums", 4 * (n_cells + 1)),
        ("weights", 4 * 240),
        ("window", 16 * 240),
    ];
    assert_eq!(gpu.resident(), resident);
    let mut twin = CpuTracker::new(Arc::new(options));
    let mut on_cpu = Conversion::new(&Device::Cpu, &pictures[0], size)?;
    let mut on_device = Conversion::new(&Device::Gpu(gpu.clone()), &pictures[0], size)?;
    let submissions = gpu.counts().submissions;
    let mut records: Vec<TrackRecord> = starts(width, height, 5)[..capacity].to_vec();
    for (i, picture) in pictures.iter().enumerate() {
        let starts = if i == 0 { &[][..] } else { &records };
        // In the last every fourth track is new.
        let id = |n: u32| if i == 2 && n.is_multiple_of(4) { 100 + n } else { n };
        let ids: Vec<u32> = (0..starts.len() as u32).map(id).collect();
        let expected = twin.push(&on_cpu.run(picture)?.host()?, &ids, starts);
        let Gray::Device(gray) = on_device.run(picture)? else { panic!("the gray is on the host") };
        let found = tracker.push(&gray, &ids, starts)?;
        if gpu.adapter().kind == AdapterKind::Software {
            compare_bits("pushed", Dev(bytemuck::cast_slice(&found)), Cpu(bytemuck::cast_slice(expected)))?;
        }
        let differing: Vec<_> = found.iter().zip(expected).filter(|(a, b)| !is_alike(a, b)).collect();
        assert!(differing.len() as f64 <= (1.0 - ALIKE) * starts.len() as f64, "{differing:#?}");
        if i > 0 {
            // Fewer in the next: what lived and a few that did not.
            records = found[..capacity - 9].to_vec();
            assert!(records.iter().filter(|record| record.is_alive()).count() > 30);
        }
    }
    // The first chunk of all is of 64 tracks.
    assert_eq!(gpu.counts().submissions - submissions, 2 * 3 + 1);
    drop(on_device);
    assert_eq!(gpu.resident(), resident);
    drop(tracker);
    assert_eq!(gpu.resident(), []);
    Ok(())
}

/// Every window that options allow fits here; a kernel that the adapter cannot hold is refused with both sizes.
pub fn a_kernel_too_large_is_refused(gpu: &Gpu) -> Outcome {
    kernel::kernel(gpu, 63)?;
    match gpu.check_workgroup_memory("klt_track", 1 << 30) {
        Err(error @ DeviceError::WorkgroupMemory { limit, .. }) => {
            let text =
                format!("klt_track needs 1073741824 bytes a workgroup, but {} has {limit}", gpu.adapter());
            assert!(error.to_string().starts_with(&text), "{error}");
            Ok(())
        }
        other => Err(format!("{other:?}").into()),
    }
}

/// Gray and gradients of both frames, all levels.
fn planes(gpu: &Gpu, frames: &[Pyramid; 2]) -> Result<[Buffer<f32>; 3], DeviceError> {
    let all = |name, of: fn(&PyramidLevel) -> &[f32]| {
        let levels = frames.iter().flat_map(|frame| &frame.levels);
        gpu.buffer_with(name, &levels.flat_map(|level| of(level).to_vec()).collect::<Vec<f32>>())
    };
    Ok([
        all("gray", |l| &l.gray.data)?,
        all("gradient_x", |l| &l.gradient_x)?,
        all("gradient_y", |l| &l.gradient_y)?,
    ])
}
