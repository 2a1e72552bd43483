//! Orientations and descriptors of keypoints.

use std::f32::consts::{PI, TAU};

use image::RgbImage;
use libtest_mimic::Failed;
use trackweave::device::{AdapterKind, Buffer, Gpu};
use trackweave::kernels::descriptor::{self, DescriptorGrid, DescriptorParams, OrientedPoint};
use trackweave::kernels::gaussian_blur::{self, GaussianTaps, gaussian_blur};
use trackweave::kernels::orientation::{self, MAX_ORIENTATIONS, OrientationParams};
use trackweave::kernels::sift_point::{OctaveShape, SiftPoint};
use trackweave::message::Descriptor;
use trackweave::numerics::SplitMix64;
use trackweave::picture::GrayImage;

use crate::Outcome;
use crate::comparison::{Cpu, Dev, compare_equal};
use crate::pictures;
use crate::support::gray_from_rgb;

const N_LAYERS: usize = 3;
const N_OCTAVES: usize = 3;
const N_POINTS: usize = 512;
const N_RUNS: usize = 10;
const MAGNIFICATION: f32 = 3.0;

/// Three octaves of a picture, blurred thrice each, and points all over them, their borders and corners too.
struct Scene {
    sizes: Vec<(usize, usize)>,
    gaussians: Vec<f32>,
    points: Vec<SiftPoint>,
    oriented: Vec<OrientedPoint>,
}

impl Scene {
    fn new(picture: &RgbImage) -> Scene {
        let mut gray = gray_from_rgb(picture);
        let (mut sizes, mut gaussians) = (Vec::new(), Vec::new());
        for _ in 0..N_OCTAVES {
            sizes.push((gray.width, gray.height));
            for sigma in [0.8, 1.2, 1.6] {
                gaussians.extend(blurred(&gray, sigma));
            }
            gray = every_second(&gray);
        }
        let mut rng = SplitMix64::new(3, gray.width as u64);
        let points: Vec<SiftPoint> = (0..N_POINTS).map(|i| point(&sizes, i, &mut rng)).collect();
        let oriented = (0..N_POINTS).map(|i| {
            let angle = match i {
                0..8 => [PI, -PI, PI / 2.0, -PI / 2.0, PI / 4.0, 0.0, 3.0 * PI / 4.0, -0.0][i],
                _ => (rng.unit() as f32 - 0.5) * TAU,
            };
            OrientedPoint { point: (i * 5 % N_POINTS) as u32, angle }
        });
        let oriented = oriented.collect();
        Scene { sizes, gaussians, points, oriented }
    }

    /// The layer of a point with its size.
    fn layer(&self, point: &SiftPoint) -> (&[f32], usize, usize) {
        let shape = OctaveShape::table(&self.sizes, N_LAYERS)[point.octave as usize];
        let (width, height) = (shape.width as usize, shape.height as usize);
        let begin = shape.begin as usize + point.layer as usize * width * height;
        (&self.gaussians[begin..][..width * height], width, height)
    }
}

/// Every eighth point lies in the border of its octave; scales go from 1.6 to 10.
fn point(sizes: &[(usize, usize)], i: usize, rng: &mut SplitMix64) -> SiftPoint {
    let octave = i % sizes.len();
    let (width, height) = sizes[octave];
    let mut along = |size: usize| {
        let last = (size - 1) as f32;
        match (i % 8, rng.below(4)) {
            (0, 0) => 0.0,
            (0, 1) => last,
            (0, 2) => 0.5f32.min(last),
            _ => rng.unit() as f32 * last,
        }
    };
    let [x, y] = [along(width), along(height)];
    let scale = 1.6 * libm::powf(6.25, rng.unit() as f32);
    SiftPoint { octave: octave as u32, layer: rng.below(N_LAYERS as u32), x, y, scale, unused: [7; 3] }
}

fn blurred(gray: &GrayImage, sigma: f64) -> Vec<f32> {
    let (mut target, mut row) =
        (vec![0.0; gray.data.len()], vec![0.0; gray.width + 2 * gaussian_blur::MAX_RADIUS]);
    gaussian_blur(&gray.data, gray.width, gray.height, &GaussianTaps::new(sigma), 0, &mut row, &mut target);
    target
}

fn every_second(gray: &GrayImage) -> GrayImage {
    let (width, height) = (gray.width.div_ceil(2), gray.height.div_ceil(2));
    let data = (0..width * height).map(|i| gray.at(2 * (i % width), 2 * (i / width))).collect();
    GrayImage { width, height, data }
}

/// Angles and their counts, at most `most` a point.
fn orientations_on_device(gpu: &Gpu, scene: &Scene, most: u32) -> Result<(Vec<[f32; 4]>, Vec<u32>), Failed> {
    let points = gpu.buffer_with("points", &scene.points)?;
    let gaussians = gpu.buffer_with("gaussians", &scene.gaussians)?;
    // What an earlier picture left there does not count.
    let angles = gpu.buffer_with("angles", &vec![[9.0f32; MAX_ORIENTATIONS]; scene.points.len()])?;
    let counts = gpu.buffer_with("counts", &vec![9u32; scene.points.len()])?;
    let params = OrientationParams {
        octaves: OctaveShape::table(&scene.sizes, N_LAYERS),
        n_points: scene.points.len() as u32,
        max_orientations: most,
    };
    let bound =
        gpu.kernel(&orientation::SHADER, &[])?.bind(&params, &[&points, &gaussians, &angles, &counts])?;
    let mut recording = gpu.record("orientation");
    recording.dispatch(&bound, params.groups());
    recording.submit()?.wait()?;
    Ok((gpu.download(&angles)?, gpu.download(&counts)?))
}

fn orientations_of_twin(scene: &Scene) -> (Vec<[f32; 4]>, Vec<u32>) {
    let oriented = scene.points.iter().map(|point| {
        let (layer, width, height) = scene.layer(point);
        let mut angles = [0.0; MAX_ORIENTATIONS];
        let n = orientation::orientation(layer, width, height, [point.x, point.y], point.scale, &mut angles);
        (angles, n as u32)
    });
    oriented.unzip()
}

pub fn orientation(gpu: &Gpu, picture: &RgbImage) -> Outcome {
    let scene = Scene::new(picture);
    let (angles, counts) = orientations_on_device(gpu, &scene, 4)?;
    let expected = orientations_of_twin(&scene);
    compare_orientations(gpu, Dev(&angles), Dev(&counts), Cpu(&expected.0), Cpu(&expected.1))?;
    let bits = |angles: &[[f32; 4]]| -> Vec<u32> { angles.iter().flatten().map(|a| a.to_bits()).collect() };
    for _ in 1..N_RUNS {
        let again = orientations_on_device(gpu, &scene, 4)?;
        assert_eq!((bits(&again.0), again.1), (bits(&angles), counts.clone()), "two runs differ");
    }
    let (first, n) = orientations_on_device(gpu, &scene, 1)?;
    let strongest: Vec<[f32; 4]> = angles.iter().map(|angles| [angles[0], 0.0, 0.0, 0.0]).collect();
    compare_equal("angles", Dev(&first), Cpu(&strongest))?;
    assert!(n.iter().zip(&counts).all(|(n, all)| *n == (*all).min(1)), "more than one orientation");
    Ok(())
}

/// At least 99 % of the points have as many orientations and none more than 0.02 rad away, on a software adapter 1e-4;
/// what is behind the last is 0.
fn compare_orientations(
    gpu: &Gpu,
    Dev(found): Dev<[f32; 4]>,
    Dev(counts): Dev<u32>,
    Cpu(expected): Cpu<[f32; 4]>,
    Cpu(expected_counts): Cpu<u32>,
) -> Outcome {
    let tolerance = if gpu.adapter().kind == AdapterKind::Software { 1e-4 } else { 0.02 };
    let in_range = |angle: &f32| *angle > -PI && *angle <= PI;
    assert!(found.iter().flatten().all(in_range), "an angle is not in (-pi, pi]");
    let distance = |a: f32, b: f32| {
        let distance = (a - b).abs();
        distance.min(TAU - distance)
    };
    let is_near = |i: usize| {
        counts[i] == expected_counts[i]
            && (0..MAX_ORIENTATIONS).all(|k| distance(found[i][k], expected[i][k]) <= tolerance)
    };
    let far: Vec<usize> = (0..expected.len()).filter(|i| !is_near(*i)).collect();
    match far.first() {
        Some(i) if 100 * far.len() > expected.len() => {
            let (found, expected) =
                (&found[*i][..counts[*i].min(4) as usize], &expected[*i][..expected_counts[*i] as usize]);
            let count = format!("{} of {} differ", far.len(), counts.len());
            Err(format!("orientations[{i}] are {found:?}, the twin's {expected:?} ({count})").into())
        }
        _ => Ok(()),
    }
}

fn descriptors_on_device(gpu: &Gpu, scene: &Scene) -> Result<Vec<Descriptor>, Failed> {
    let points = gpu.buffer_with("points", &scene.points)?;
    let oriented = gpu.buffer_with("oriented", &scene.oriented)?;
    let gaussians = gpu.buffer_with("gaussians", &scene.gaussians)?;
    let descriptors: Buffer<Descriptor> =
        gpu.buffer_with("descriptors", &vec![[9; 128]; scene.oriented.len()])?;
    let octaves = OctaveShape::table(&scene.sizes, N_LAYERS);
    let params = DescriptorParams::new(octaves, MAGNIFICATION, scene.oriented.len());
    let bound = gpu
        .kernel(&descriptor::SHADER, &[])?
        .bind(&params, &[&points, &oriented, &gaussians, &descriptors])?;
    let mut recording = gpu.record("descriptor");
    recording.dispatch(&bound, params.groups());
    recording.submit()?.wait()?;
    Ok(gpu.download(&descriptors)?)
}

fn descriptors_of_twin(scene: &Scene) -> Vec<Descriptor> {
    let grid = DescriptorGrid::default();
    let described = scene.oriented.iter().map(|oriented| {
        let point = &scene.points[oriented.point as usize];
        let (layer, width, height) = scene.layer(point);
        // No sample has two neighbours on all sides, and the twin is asked only where one may.
        if width.min(height) < 4 {
            return [0; 128];
        }
        let position = [point.x, point.y];
        let cell = MAGNIFICATION * point.scale;
        descriptor::descriptor(layer, width, height, position, cell, oriented.angle, &grid)
    });
    described.collect()
}

pub fn descriptor(gpu: &Gpu, picture: &RgbImage) -> Outcome {
    let scene = Scene::new(picture);
    let found = descriptors_on_device(gpu, &scene)?;
    compare_descriptors(gpu, Dev(&found), Cpu(&descriptors_of_twin(&scene)))?;
    for _ in 1..N_RUNS {
        compare_equal("descriptors", Dev(&descriptors_on_device(gpu, &scene)?), Cpu(&found))?;
    }
    Ok(())
}

/// At least 99 % have no bin that is more than 2 away; on a software adapter 1 away, and 999 of 1000 bins are the same.
fn compare_descriptors(gpu: &Gpu, Dev(found): Dev<Descriptor>, Cpu(expected): Cpu<Descriptor>) -> Outcome {
    let tolerance = if gpu.adapter().kind == AdapterKind::Software { 1 } else { 2 };
    let worst = |i: usize| found[i].iter().zip(&expected[i]).map(|(a, b)| a.abs_diff(*b)).max().unwrap_or(0);
    let far: Vec<usize> = (0..expected.len()).filter(|i| worst(*i) > tolerance).collect();
    let bins = found.as_flattened().iter().zip(expected.as_flattened());
    let n_unequal = bins.filter(|(a, b)| a != b).count();
    if tolerance == 1 && 1000 * n_unequal > 128 * expected.len() {
        return Err(format!("{n_unequal} bins of {} descriptors differ", expected.len()).into());
    }
    match far.first() {
        Some(i) if 100 * far.len() > expected.len() => {
            let (found, expected) = (&found[*i], &expected[*i]);
            Err(format!("descriptors[{i}] is {found:?}, the twin's {expected:?} ({} differ)", far.len())
                .into())
        }
        _ => Ok(()),
    }
}

/// The comparisons themselves: two in a hundred real downloads are turned a little, and it must be noticed.
pub fn a_turned_keypoint_is_named(gpu: &Gpu, picture: &RgbImage) -> Outcome {
    let scene = Scene::new(&pictures::crop(picture, 160, 120));
    let (mut angles, counts) = orientations_on_device(gpu, &scene, 4)?;
    let (expected, expected_counts) = orientations_of_twin(&scene);
    let turned = (0..N_POINTS).filter(|i| counts[*i] > 0).step_by(50);
    let turned: Vec<usize> = turned.collect();
    turned.iter().for_each(|i| angles[*i][0] *= if angles[*i][0].abs() > 1.0 { 0.96 } else { 0.0 });
    compare_orientations(gpu, Dev(&angles), Dev(&counts), Cpu(&expected), Cpu(&expected_counts))
        .expect_err("turned orientations pass");
    let mut more = counts.clone();
    turned.iter().for_each(|i| more[*i] += 1);
    let (angles, _) = orientations_on_device(gpu, &scene, 4)?;
    compare_orientations(gpu, Dev(&angles), Dev(&more), Cpu(&expected), Cpu(&expected_counts))
        .expect_err("wrong counts pass");
    let mut found = descriptors_on_device(gpu, &scene)?;
    let expected = descriptors_of_twin(&scene);
    found.iter_mut().step_by(50).for_each(|descriptor| descriptor[77] ^= 4);
    compare_descriptors(gpu, Dev(&found), Cpu(&expected)).expect_err("wrong descriptors pass");
    Ok(())
}

/// Stripes of black and white, two pixels wide, across above the point and along below it, a little weaker: four peaks
/// of the most units that pictures give, of which a part would wrap around first.
pub fn steepest(gpu: &Gpu) -> Outcome {
    const SIDE: usize = 101;
    let stripes = |i: usize| match (i % SIDE, i / SIDE) {
        (x, 0..=50) => (x / 2 % 2) as f32,
        (_, y) => 0.9 * (y / 2 % 2) as f32,
    };
    let point = SiftPoint { octave: 0, layer: 0, x: 50.0, y: 50.0, scale: 10.0, unused: [0; 3] };
    let scene = Scene {
        sizes: vec![(SIDE, SIDE)],
        gaussians: (0..SIDE * SIDE).map(stripes).collect(),
        points: vec![point],
        oriented: Vec::new(),
    };
    let (mut angles, counts) = orientations_on_device(gpu, &scene, 4)?;
    let (mut expected, expected_counts) = orientations_of_twin(&scene);
    assert_eq!(expected_counts, [4]);
    // Up and down the stripes there is as much: which is the stronger is rounding, and so is the sign of half a turn.
    for angles in angles.iter_mut().chain(&mut expected) {
        angles.iter_mut().for_each(|angle| *angle = if *angle < -3.0 { *angle + TAU } else { *angle });
        angles.sort_by(f32::total_cmp);
    }
    let near = |(a, b): (&f32, &f32)| (a - b).abs() < 1e-3;
    assert!(angles[0].iter().zip(&expected[0]).all(near), "{angles:?}, the twin's {expected:?}");
    compare_equal("counts", Dev(&counts), Cpu(&expected_counts))
}

/// An edge across a strip five pixels high: two bins have nearly all, more than a byte holds.
pub fn two_bins(gpu: &Gpu) -> Outcome {
    let point = SiftPoint { octave: 0, layer: 0, x: 20.0, y: 2.0, scale: 2.0, unused: [0; 3] };
    let scene = Scene {
        sizes: vec![(40, 5)],
        gaussians: (0..40 * 5).map(|i| (i % 40 > 22) as u32 as f32).collect(),
        points: vec![point],
        oriented: vec![OrientedPoint { point: 0, angle: 0.0 }],
    };
    let expected = descriptors_of_twin(&scene);
    assert!(expected[0].iter().filter(|bin| **bin == 255).count() >= 2, "{expected:?}");
    compare_descriptors(gpu, Dev(&descriptors_on_device(gpu, &scene)?), Cpu(&expected))
}

/// More points than workgroups in a row: those behind are as those before.
pub fn beyond_a_row_of_groups(gpu: &Gpu) -> Outcome {
    const PERIOD: usize = 61;
    let mut scene = Scene::new(&pictures::render(33, 27));
    let n = 32768 + PERIOD;
    scene.points.truncate(PERIOD);
    scene.points = scene.points.iter().cycle().take(n).map(|p| SiftPoint { scale: 1.6, ..*p }).collect();
    scene.oriented = (0..n as u32).map(|point| OrientedPoint { point, angle: 0.5 }).collect();
    let (angles, counts) = orientations_on_device(gpu, &scene, 4)?;
    let descriptors = descriptors_on_device(gpu, &scene)?;
    assert!(counts[..PERIOD].iter().any(|n| *n > 0) && descriptors[0] != descriptors[1]);
    for i in PERIOD..n {
        assert_eq!((angles[i], counts[i]), (angles[i % PERIOD], counts[i % PERIOD]), "point {i}");
        assert_eq!(descriptors[i], descriptors[i % PERIOD], "descriptor {i}");
    }
    Ok(())
}
