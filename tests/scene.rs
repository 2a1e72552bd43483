//! The rendered scene is what its cameras say: exact flow agrees with the pictures.

mod support;

use nalgebra::Vector3;
use support::{PATHS, gray_from_rgb, sample};
use trackweave::message::{Descriptor, Keypoint};
use trackweave::scene::surface::{Lamp, Layer, Material, Surface};
use trackweave::scene::texture::Texture;
use trackweave::scene::{CameraPath, Decor, Intrinsics, Pose, Scene, true_essential, true_fundamental};
use trackweave::sift::{SiftOptions, SiftScratch, extract_features};

const SMALL: (u32, u32) = (320, 240);

/// Two views half a second apart on a path.
fn views(path: CameraPath) -> (Pose, Pose) {
    (path.at(0.5), path.at(1.0))
}

/// A grid of positions between pixel centres.
fn positions(intrinsics: &Intrinsics) -> impl Iterator<Item = (f64, f64)> {
    let (width, height) = (intrinsics.width as usize, intrinsics.height as usize);
    let columns = (4..width - 4).step_by(7);
    columns.flat_map(move |x| (4..height - 4).step_by(7).map(move |y| (x as f64 + 0.3, y as f64 + 0.6)))
}

#[test]
fn exact_flow_lies_on_the_epipolar_line_and_half_a_pixel_off_does_not() {
    let (scene, intrinsics) = (Scene::demo(), Intrinsics::centered(SMALL.0, SMALL.1));
    for path in [CameraPath::HandHeld, CameraPath::Orbit, CameraPath::Forward] {
        let (pose1, pose2) = views(path);
        let fundamental = true_fundamental(&intrinsics, &pose1, &pose2);
        let distances = |shift: f64| -> Vec<f64> {
            let distance = |(x, y)| {
                let flow = scene.flow(&intrinsics, &pose1, &pose2, x, y)?;
                let line = fundamental * Vector3::new(x, y, 1.0);
                let shifted = Vector3::new(flow.x + shift, flow.y + shift, 1.0);
                Some(line.dot(&shifted).abs() / line.xy().norm())
            };
            positions(&intrinsics).filter_map(distance).collect()
        };
        let exact = distances(0.0);
        assert!(exact.len() > 1000 && exact.iter().all(|d| *d < 1e-7), "{path:?}");
        let shifted = distances(0.5);
        let mean = shifted.iter().sum::<f64>() / shifted.len() as f64;
        assert!(mean > 0.1, "{path:?}: a shift of half a pixel moves points {mean} px off their lines");
    }
}

#[test]
fn pictures_agree_along_the_flow_and_only_there() {
    let (scene, intrinsics) = (Scene::demo(), Intrinsics::centered(SMALL.0, SMALL.1));
    for path in PATHS {
        let (pose1, pose2) = views(path);
        let first = gray_from_rgb(&scene.render(&pose1, &intrinsics));
        let second = gray_from_rgb(&scene.render(&pose2, &intrinsics));
        let median_difference = |shift: f64| {
            let difference = |(x, y)| {
                let flow = scene.flow(&intrinsics, &pose1, &pose2, x, y)?;
                let (x2, y2) = (flow.x + shift, flow.y + shift);
                let inside = flow.visible && intrinsics.contains(x2 + 2.0, y2 + 2.0);
                (inside && x2 > 1.0 && y2 > 1.0).then(|| {
                    255.0 * (sample(&first, x as f32, y as f32) - sample(&second, x2 as f32, y2 as f32)).abs()
                })
            };
            let mut differences: Vec<f32> = positions(&intrinsics).filter_map(difference).collect();
            assert!(differences.len() > 500, "{path:?}: {} points", differences.len());
            differences.sort_by(f32::total_cmp);
            differences[differences.len() / 2]
        };
        let (exact, half_off) = (median_difference(0.0), median_difference(0.5));
        assert!(exact < 5.0, "{path:?}: median difference {exact} gray levels");
        assert!(half_off > 1.3 * exact, "{path:?}: {half_off} half a pixel off, {exact} on the point");
    }
}

#[test]
fn decors_differ_in_what_descriptors_find() {
    let intrinsics = Intrinsics::centered(480, 270);
    let (pose1, pose2) = views(CameraPath::Orbit);
    // Keypoints, and of those whose nearest descriptor in the second view keeps the ratio 0.8 and whose point that view
    // shows, the share of matches beside the point.
    let found = |decor: Decor| {
        let scene = Scene::room(decor);
        let [first, second] = [pose1, pose2].map(|pose| {
            let gray = gray_from_rgb(&scene.render(&pose, &intrinsics));
            extract_features(&gray, &SiftOptions::default(), &mut SiftScratch::default())
        });
        let is_wrong = |(keypoint, descriptor): (&Keypoint, &Descriptor)| {
            let distance2 = |other: &Descriptor| -> u32 {
                descriptor.iter().zip(other).map(|(a, b)| u32::from(a.abs_diff(*b)).pow(2)).sum()
            };
            let distances = second.descriptors.iter().map(distance2);
            let mut nearest: Vec<_> = distances.zip(&second.keypoints).collect();
            nearest.sort_by_key(|(distance2, _)| *distance2);
            let (x, y) = (f64::from(keypoint.x), f64::from(keypoint.y));
            let flow = scene.flow(&intrinsics, &pose1, &pose2, x, y).filter(|flow| flow.visible)?;
            let at = nearest[0].1;
            let keeps_ratio = f64::from(nearest[0].0) < 0.64 * f64::from(nearest[1].0);
            keeps_ratio.then(|| (f64::from(at.x) - flow.x).hypot(f64::from(at.y) - flow.y) > 3.0)
        };
        let wrong: Vec<bool> = first.keypoints.iter().zip(&first.descriptors).filter_map(is_wrong).collect();
        let n_wrong = wrong.iter().filter(|wrong| **wrong).count();
        (first.keypoints.len(), n_wrong as f64 / wrong.len() as f64)
    };
    let [rich, poor, repetitive] = [Decor::Rich, Decor::Poor, Decor::Repetitive].map(found);
    assert!(poor.0 > 60 && 3 * poor.0 < rich.0, "{poor:?} of {rich:?}");
    assert!(repetitive.0 > poor.0 && repetitive.1 > 2.0 * rich.1, "{repetitive:?}, {rich:?}");
}

#[test]
fn pixel_centres_are_at_integers() {
    let ramp =
        Texture::new(&image::RgbImage::from_fn(32, 32, |x, y| image::Rgb([8 * x as u8, 8 * y as u8, 0])));
    let base = Layer { texture: 0, repeats: [1.0; 2], offset: [0.0; 2] };
    let surface = Surface {
        corner: Vector3::new(-0.5, -0.5, 2.0),
        side_u: Vector3::x(),
        side_v: Vector3::y(),
        material: Material { base, tint: [1.0; 3], stain: None },
    };
    let lamp = Lamp { position: Vector3::zeros(), strength: 0.0, ambient: 1.0 };
    let scene = Scene::new(vec![ramp], vec![surface], lamp);
    let intrinsics = Intrinsics { f: 64.0, cx: 30.3, cy: 25.9, width: 64, height: 48 };
    let pose = Pose::looking_at(Vector3::zeros(), Vector3::z());
    let picture = scene.render(&pose, &intrinsics);
    for (x, y) in [(20, 20), (30, 25), (40, 30)] {
        let point = scene.point_at(&pose, &intrinsics, x as f64, y as f64).unwrap();
        // 32 texels a metre, the first centre half a texel in, 8 levels a texel.
        let expected = [point[0], point[1]].map(|metres| 8.0 * ((metres + 0.5) * 32.0 - 0.5));
        let seen = picture.get_pixel(x, y);
        let off = [seen[0] as f64 - expected[0], seen[1] as f64 - expected[1]];
        assert!(off.iter().all(|off| off.abs() <= 0.51), "({x}, {y}): {off:?} levels off at 8 a pixel");
    }
}

#[test]
fn depth_is_that_of_the_points() {
    let (scene, intrinsics) = (Scene::demo(), Intrinsics::centered(SMALL.0, SMALL.1));
    let pose = CameraPath::HandHeld.at(1.0);
    let depth = scene.depth(&pose, &intrinsics);
    let mut depths = std::collections::BTreeSet::new();
    for (x, y) in (0..320).step_by(5).flat_map(|x| (0..240).step_by(5).map(move |y| (x, y))) {
        let point = scene.point_at(&pose, &intrinsics, x as f64, y as f64).expect("the room is closed");
        let expected = pose.cam_from_world(&point.into()).z;
        assert!((depth[y * 320 + x] / expected - 1.0).abs() < 1e-9, "({x}, {y})");
        depths.insert((expected * 2.0) as u32);
    }
    assert!(depths.len() >= 8, "surfaces at many depths, in half metres: {depths:?}");
}

#[test]
fn occluded_points_are_flagged() {
    let (scene, intrinsics) = (Scene::demo(), Intrinsics::centered(SMALL.0, SMALL.1));
    let (pose1, pose2) = (CameraPath::HandHeld.at(0.0), CameraPath::HandHeld.at(3.0));
    let depth2 = scene.depth(&pose2, &intrinsics);
    let (mut visible, mut hidden) = (0, 0);
    for (x, y) in positions(&intrinsics) {
        let point = scene.point_at(&pose1, &intrinsics, x, y).expect("the room is closed");
        let Some(flow) = scene.flow(&intrinsics, &pose1, &pose2, x, y) else { continue };
        if !intrinsics.contains(flow.x, flow.y) {
            assert!(!flow.visible);
            continue;
        }
        let at = flow.y.round().clamp(0.0, 239.0) as usize * 320 + flow.x.round().clamp(0.0, 319.0) as usize;
        let in_front = depth2[at] < 0.8 * pose2.cam_from_world(&point.into()).z;
        visible += usize::from(flow.visible);
        hidden += usize::from(in_front && !flow.visible);
        // At an outline the nearest pixel centre may show the other surface: a few of hundreds.
        assert!(flow.visible || depth2[at] < 1.01 * pose2.cam_from_world(&point.into()).z);
    }
    assert!(visible > 500 && hidden > 30, "{visible} visible, {hidden} hidden");
}

#[test]
fn the_same_bits_on_one_thread_and_on_many() {
    let (scene, intrinsics) = (Scene::demo(), Intrinsics::centered(160, 120));
    let render = |n_threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(n_threads).build().unwrap();
        pool.install(|| scene.render(&CameraPath::HandHeld.at(1.3), &intrinsics))
    };
    assert_eq!(render(1), render(3));
}

#[test]
fn a_still_camera_gives_identical_frames_and_no_essential_matrix() {
    let (scene, intrinsics) = (Scene::demo(), Intrinsics::centered(160, 120));
    let poses = CameraPath::Still.poses(3, 30.0);
    let frames: Vec<_> = poses.iter().map(|pose| scene.render(pose, &intrinsics)).collect();
    assert!(frames[0] == frames[1] && frames[1] == frames[2]);
    assert_eq!(true_essential(&poses[0], &poses[2]).norm(), 0.0);
    let moved = scene.render(&CameraPath::Pan.at(1.0), &intrinsics);
    assert!(moved != frames[0]);
}
