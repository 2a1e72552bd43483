//! Patches about seeds, and windows aligned with them.

use std::ops::Range;
use std::sync::Arc;

use image::RgbImage;
use libtest_mimic::Failed;
use trackweave::device::{AdapterKind, AnyBuffer, Gpu};
use trackweave::kernels::klt_anchor::{self as anchor, AnchorRecord, KltAnchorParams};
use trackweave::kernels::klt_patch::{self as patch, IS_NEW, KltPatchParams, PatchSums, chunks};
use trackweave::kernels::klt_track::TrackRecord;
use trackweave::kernels::{Pyramid, PyramidLevel};
use trackweave::klt::KltOptions;
use trackweave::message::EndReason;
use trackweave::numerics::SplitMix64;
use trackweave::picture::GrayImage;

use crate::Outcome;
use crate::comparison::{Cpu, Dev, compare_bits};
use crate::klt_scene::{Warp, relit, textured};

type Setting = (u32, f32, u32, f32, f32, f32);

/// Window, smallest pivot, most steps, last step, smallest correlation, that of a patch that is seen: among those that
/// are taken some are below.
const SETTINGS: [Setting; 6] = [
    (15, 1e-6, 10, 0.1, 0.8, 0.9997),
    (3, 0.0, 30, 0.01, -1.0, 0.95),
    (31, 1e-5, 10, 0.03, 0.5, 0.95),
    (9, 1e-4, 3, 0.1, 0.8, 0.95),
    (21, 1e-6, 255, 1e-4, 0.9, 0.9998),
    (15, 1e-3, 1, 10.0, 0.0, 0.95),
];

const N_TRACKS: usize = 90;
/// What a dispatch does.
const CHUNKS: [Range<usize>; 2] = [0..37, 37..N_TRACKS];
/// More than there are tracks.
const N_SLOTS: usize = 97;
/// What lies before level 0 in a plane.
const BEGIN: usize = 13;

/// Share of the slots that GPUs, which fuse, must have as the twin has.
const ALIKE: f64 = 0.99;
/// Above this a patch's inverse is made of rounding: a window of 3 hardly tells eight unknowns.
const LARGEST_INVERSE: f32 = 1e5;

/// A frame, the seeds in it, and the slots of their tracks.
struct Scene {
    options: KltOptions,
    level: PyramidLevel,
    seeds: Vec<TrackRecord>,
    slots: Vec<u32>,
}

impl Scene {
    fn all(width: usize, height: usize) -> impl Iterator<Item = (usize, Scene)> {
        SETTINGS.into_iter().enumerate().map(move |(i, setting)| (i, Scene::new(width, height, i, setting)))
    }

    fn new(width: usize, height: usize, i: usize, setting: Setting) -> Scene {
        let (anchor_window_px, min_eigen, anchor_iterations, anchor_epsilon_px, min_ncc, seen_ncc) = setting;
        let image = textured(width, height, 6 + width * height * 400 / (640 * 360), 10);
        let mut pyramid = Pyramid::default();
        pyramid.rebuild(&Arc::new(image), 1, &mut Vec::new());
        let mut rng = SplitMix64::new(31 + i as u64, width as u64);
        let mut seeds: Vec<TrackRecord> = (0..N_TRACKS)
            .map(|_| {
                let mut within = |side: usize| (side as f64 * rng.unit() - 0.5) as f32;
                TrackRecord::start(within(width), within(height))
            })
            .collect();
        seeds[3] = TrackRecord::start(-0.5, -0.5);
        seeds[20] = TrackRecord::start(width as f32 - 0.5, height as f32 - 0.5);
        seeds[41] = TrackRecord::start((width / 2) as f32, (height / 2) as f32);
        // Every fifth track is not new.
        let slot = |track: usize| {
            ((track * 37 + 11) as u32 % N_SLOTS as u32) | if track % 5 == 4 { 0 } else { IS_NEW }
        };
        Scene {
            options: KltOptions {
                anchor_window_px,
                min_eigen,
                anchor_iterations,
                anchor_epsilon_px,
                min_ncc,
                seen_ncc,
                ..KltOptions::for_size(width, height)
            },
            level: pyramid.levels.remove(0),
            seeds,
            slots: (0..N_TRACKS).map(slot).collect(),
        }
    }

    fn size(&self) -> [usize; 2] {
        [self.level.gray.width, self.level.gray.height]
    }

    fn window_px(&self) -> usize {
        self.options.anchor_window_px as usize
    }

    fn patches(&self) -> (Vec<PatchSums>, Vec<[f32; 16]>) {
        let mut seeds = [None; N_SLOTS];
        for (seed, slot) in self.seeds.iter().zip(&self.slots).filter(|(_, slot)| *slot & IS_NEW != 0) {
            seeds[(slot & !IS_NEW) as usize] = Some([seed.x, seed.y]);
        }
        let mut sums = vec![PatchSums::default(); N_SLOTS];
        let mut samples = vec![[0.0; 16]; N_SLOTS * 3 * chunks(self.window_px())];
        patch::klt_patch(&self.level, &self.options.patch_params(), &seeds, &mut sums, &mut samples);
        (sums, samples)
    }
}

pub fn klt_patch(gpu: &Gpu, picture: &RgbImage) -> Outcome {
    let mut alike = Alike::default();
    for (_, scene) in Scene::all(picture.width() as usize, picture.height() as usize) {
        let name = format!("window {}", scene.window_px());
        let (sums, samples) = scene.patches();
        let (found_sums, found_samples, found_anchors) = patches_on_device(gpu, &scene)?;
        let anchors = anchors_of(&scene);
        compare_bits(&format!("{name}: maps"), floats(&found_anchors), expected(&anchors))?;
        if gpu.adapter().kind == AdapterKind::Software {
            compare_bits(&format!("{name}: samples"), floats(&found_samples), expected(&samples))?;
            compare_bits(&format!("{name}: sums"), floats(&found_sums), expected(&sums))?;
        }
        let stride = 3 * chunks(scene.window_px());
        let slots = found_samples.chunks_exact(stride).zip(samples.chunks_exact(stride));
        for (slot, (found, expected)) in slots.enumerate() {
            let pairs = found.as_flattened().iter().zip(expected.as_flattened());
            let are_near = pairs.into_iter().all(|(a, b)| (a - b).abs() <= 1e-5);
            let (found, expected) = (&found_sums[slot], &sums[slot]);
            alike.count(are_near && are_alike(found, expected), || {
                format!("{name}, slot {slot}: {found:?}, the twin's {expected:?}")
            });
        }
    }
    alike.outcome()
}

/// The maps of new tracks: none.
fn anchors_of(scene: &Scene) -> Vec<AnchorRecord> {
    let mut anchors = vec![AnchorRecord::default(); N_SLOTS];
    for (seed, slot) in scene.seeds.iter().zip(&scene.slots).filter(|(_, slot)| *slot & IS_NEW != 0) {
        let start = AnchorRecord::start([seed.x, seed.y], [[1.0, 0.0], [0.0, 1.0]]);
        anchors[(slot & !IS_NEW) as usize] = AnchorRecord { status: 0.0, ..start };
    }
    anchors
}

fn are_alike(found: &PatchSums, expected: &PatchSums) -> bool {
    let [found, expected] =
        [found, expected].map(|sums| bytemuck::cast_slice::<_, f32>(std::slice::from_ref(sums)));
    let largest = |values: &[f32]| values.iter().fold(0.0f32, |most, v| most.max(v.abs()));
    let near = |a: &[f32], b: &[f32], share: f32| {
        let limit = share * largest(b);
        a.iter().zip(b).all(|(a, b)| (a - b).abs() <= limit)
    };
    // Mean and sums, then the inverse, but for those of pivots that are rounding.
    near(&found[..16], &expected[..16], 1e-5)
        && (largest(&expected[16..]) > LARGEST_INVERSE || near(&found[16..], &expected[16..], 1e-2))
}

type Patches = (Vec<PatchSums>, Vec<[f32; 16]>, Vec<AnchorRecord>);

fn patches_on_device(gpu: &Gpu, scene: &Scene) -> Result<Patches, Failed> {
    let PyramidLevel { gray, gradient_x, gradient_y } = &scene.level;
    let planes = [plane(gpu, &gray.data)?, plane(gpu, gradient_x)?, plane(gpu, gradient_y)?];
    let [pyramid, gradient_x, gradient_y] = planes;
    let window = patch::window_on_device(gpu, scene.window_px())?;
    let starts = gpu.buffer_with("starts", &scene.seeds)?;
    let slots = gpu.buffer_with("slots", &scene.slots)?;
    let sums = gpu.buffer::<PatchSums>("sums", N_SLOTS)?;
    let samples = gpu.buffer::<[f32; 16]>("samples", N_SLOTS * 3 * chunks(scene.window_px()))?;
    let anchors = gpu.buffer::<AnchorRecord>("anchors", N_SLOTS)?;
    let buffers: [&dyn AnyBuffer; 9] =
        [&window, &pyramid, &gradient_x, &gradient_y, &starts, &slots, &sums, &samples, &anchors];
    let mut recording = gpu.record("klt_patch");
    for tracks in CHUNKS {
        let params = KltPatchParams::new(&scene.options, scene.size(), BEGIN, tracks.start);
        let bound = patch::kernel(gpu)?.bind(&params, &buffers)?;
        recording.dispatch(&bound, [tracks.len() as u32, 1, 1]);
    }
    recording.submit()?.wait()?;
    Ok((gpu.download(&sums)?, gpu.download(&samples)?, gpu.download(&anchors)?))
}

fn plane(gpu: &Gpu, values: &[f32]) -> Result<trackweave::device::Buffer<f32>, Failed> {
    Ok(gpu.buffer_with("plane", &[&[f32::NAN; BEGIN], values].concat())?)
}

/// Where the tracks are before the alignment, and how their patches were seen.
struct Before {
    image: GrayImage,
    records: Vec<TrackRecord>,
    anchors: Vec<AnchorRecord>,
}

impl Before {
    /// The seeds' frame seen anew, tracks near to their places; maps that stretch, turn over and flatten.
    fn new(scene: &Scene, i: usize) -> Before {
        let warp = [Warp::Shift(2.3, -1.8), Warp::Turn(2.0), Warp::NONE][i % 3];
        let image = relit(&warp.apply(&scene.level.gray), 0.8, 0.05);
        let mut rng = SplitMix64::new(41 + i as u64, image.width as u64);
        let mut around = |centre: f32, reach: f32| centre + reach * (2.0 * rng.unit() as f32 - 1.0);
        let mut anchors = vec![AnchorRecord::default(); N_SLOTS];
        let mut records = Vec::new();
        for (track, (seed, slot)) in scene.seeds.iter().zip(&scene.slots).enumerate() {
            let [x, y] = warp.forward(scene.size(), [seed.x as f64, seed.y as f64]).map(|v| v as f32);
            let record = TrackRecord::new(around(x, 1.2), around(y, 1.2), 0.1, None, 7);
            let linear = match track % 15 {
                0 => [[4.3, 0.1], [-0.2, 1.4]],
                1 => [[2.0, 0.0], [0.0, 2.0]],
                2 => [[-1.0, 0.0], [0.0, 1.0]],
                3 => [[0.2, 0.0], [0.0, 0.01]],
                _ => [[around(1.0, 0.1), around(0.0, 0.1)], [around(0.0, 0.1), around(1.0, 0.1)]],
            };
            anchors[(slot & !IS_NEW) as usize] = AnchorRecord { linear, ..AnchorRecord::default() };
            records.push(match track % 11 {
                7 => TrackRecord::new(x, y, 0.1, Some(EndReason::Residual), 3),
                _ => record,
            });
        }
        records[5] = TrackRecord::start(-3.0, 8.5);
        records[50] = TrackRecord::start(image.width as f32 + 40.0, 1e4);
        Before { image, records, anchors }
    }

    /// The twin's records and maps afterwards.
    fn on_cpu(&self, scene: &Scene) -> (Vec<TrackRecord>, Vec<AnchorRecord>) {
        let (sums, samples) = scene.patches();
        let (mut records, mut anchors) = (self.records.clone(), self.anchors.clone());
        let mut starts = [AnchorRecord::default(); N_SLOTS];
        let mut aligned = starts;
        let slots: Vec<usize> = scene.slots.iter().map(|slot| (slot & !IS_NEW) as usize).collect();
        for (record, &slot) in records.iter().zip(&slots).filter(|(record, _)| record.is_alive()) {
            starts[slot] = AnchorRecord::start([record.x, record.y], anchors[slot].linear);
        }
        let params = scene.options.anchor_params();
        anchor::klt_anchor(&self.image, &params, &sums, &samples, &starts, &mut aligned);
        for (record, slot) in records.iter_mut().zip(slots).filter(|(record, _)| record.is_alive()) {
            anchors[slot] = aligned[slot];
            if aligned[slot].is_taken() {
                *record = aligned[slot].moved(record, params.seen_ncc);
            }
        }
        (records, anchors)
    }

    fn on_device(&self, gpu: &Gpu, scene: &Scene) -> Result<(Vec<TrackRecord>, Vec<AnchorRecord>), Failed> {
        let (sums, samples) = scene.patches();
        let (sums, samples) = (gpu.buffer_with("sums", &sums)?, gpu.buffer_with("samples", &samples)?);
        let window = patch::window_on_device(gpu, scene.window_px())?;
        let pyramid = plane(gpu, &self.image.data)?;
        let slots = gpu.buffer_with("slots", &scene.slots)?;
        let anchors = gpu.buffer_with("anchors", &self.anchors)?;
        let records = gpu.buffer_with("records", &self.records)?;
        let buffers: [&dyn AnyBuffer; 7] = [&window, &pyramid, &sums, &samples, &slots, &anchors, &records];
        let mut recording = gpu.record("klt_anchor");
        for tracks in CHUNKS {
            let params = KltAnchorParams::new(&scene.options, scene.size(), BEGIN, tracks.start);
            let bound = anchor::kernel(gpu)?.bind(&params, &buffers)?;
            recording.dispatch(&bound, [tracks.len() as u32, 1, 1]);
        }
        recording.submit()?.wait()?;
        Ok((gpu.download(&records)?, gpu.download(&anchors)?))
    }
}

pub fn klt_anchor(gpu: &Gpu, picture: &RgbImage) -> Outcome {
    let (mut alike, mut n_taken, mut n_seen) = (Alike::default(), 0, 0);
    for (i, scene) in Scene::all(picture.width() as usize, picture.height() as usize) {
        let name = format!("window {}", scene.window_px());
        let before = Before::new(&scene, i);
        let (records, anchors) = before.on_cpu(&scene);
        let (found_records, found_anchors) = before.on_device(gpu, &scene)?;
        if gpu.adapter().kind == AdapterKind::Software {
            compare_bits(&format!("{name}: anchors"), floats(&found_anchors), expected(&anchors))?;
            compare_bits(&format!("{name}: records"), floats(&found_records), expected(&records))?;
        }
        n_taken += anchors.iter().filter(|anchor| anchor.is_taken()).count();
        n_seen += records.iter().filter(|record| record.is_seen()).count();
        for (track, slot) in scene.slots.iter().enumerate() {
            let slot = (slot & !IS_NEW) as usize;
            let is_near = |a: f32, b: f32| (a - b).abs() <= 1e-3;
            let (found, expected) = (&found_records[track], &records[track]);
            let is_alike = is_near(found.x, expected.x)
                && is_near(found.y, expected.y)
                && is_near(found.measure, expected.measure)
                && found.is_seen() == expected.is_seen()
                && found_anchors[slot].is_taken() == anchors[slot].is_taken();
            alike.count(is_alike, || format!("{name}, track {track}: {found:?}, the twin's {expected:?}"));
        }
    }
    if picture.width() >= 640 {
        assert!((150..450).contains(&n_taken), "{n_taken} of {} are taken", SETTINGS.len() * N_TRACKS);
        assert!(0 < n_seen && n_seen < n_taken, "{n_seen} of {n_taken} are seen");
    }
    alike.outcome()
}

/// How many slots are as the twin's.
#[derive(Default)]
struct Alike {
    n_slots: usize,
    differing: Vec<String>,
}

impl Alike {
    fn count(&mut self, is_alike: bool, describe: impl FnOnce() -> String) {
        self.n_slots += 1;
        if !is_alike {
            self.differing.push(describe());
        }
    }

    fn outcome(self) -> Outcome {
        let n_differing = self.differing.len();
        if n_differing as f64 > (1.0 - ALIKE) * self.n_slots as f64 {
            let all = self.differing.join("\n");
            return Err(format!("{n_differing} of {} slots differ:\n{all}", self.n_slots).into());
        }
        Ok(())
    }
}

fn floats<T: bytemuck::Pod>(values: &[T]) -> Dev<'_, f32> {
    Dev(bytemuck::cast_slice(values))
}

fn expected<T: bytemuck::Pod>(values: &[T]) -> Cpu<'_, f32> {
    Cpu(bytemuck::cast_slice(values))
}
