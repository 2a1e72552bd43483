//! What is tracked: rendered sequences with true flow, and folders of pictures with known poses.

use std::error::Error;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use nalgebra::{Quaternion, UnitQuaternion, Vector3};
use trackweave::numerics::SplitMix64;
use trackweave::picture::GrayImage;
use trackweave::scene::{CameraPath, Intrinsics, Pose, Scene};

/// Frames in the order of time.
pub struct Sequence {
    pub name: String,
    pub frames: Vec<Arc<GrayImage>>,
    pub truth: Truth,
}

/// What is known of a sequence.
pub enum Truth {
    /// Where every point goes.
    Flow { scene: Scene, views: Vec<View> },
    /// On which line a point lies: fx, fy, cx, cy (pixel centres at integers) and a pose a frame.
    Poses { camera: [f64; 4], poses: Vec<Pose> },
}

/// A camera and its pose.
#[derive(Clone, Copy)]
pub struct View {
    pub pose: Pose,
    pub intrinsics: Intrinsics,
}

/// What a rendered picture suffers.
#[derive(Clone, Copy, Default)]
pub struct Harm {
    /// Standard deviation of the noise, of 255.
    pub noise: f64,
    /// Time the shutter is open, in seconds; 0 for a sharp picture.
    pub shutter_s: f64,
    /// How far the exposure swings, as a share.
    pub exposure: f64,
}

const WIDTH: u32 = 640;
const HEIGHT: u32 = 360;
/// Pictures whose mean is a blurred one.
const SUB_FRAMES: usize = 8;

/// Renders `n_frames` at `fps`.
pub fn rendered(name: &str, n_frames: usize, fps: f64, harm: Harm, view: impl Fn(f64) -> View) -> Sequence {
    let scene = Scene::demo();
    let times: Vec<f64> = (0..n_frames).map(|k| k as f64 / fps).collect();
    let frames =
        times.iter().enumerate().map(|(k, &t)| Arc::new(picture(&scene, k, t, harm, &view))).collect();
    let views = times.iter().map(|&t| view(t)).collect();
    Sequence { name: name.to_owned(), frames, truth: Truth::Flow { scene, views } }
}

fn picture(scene: &Scene, k: usize, t: f64, harm: Harm, view: &impl Fn(f64) -> View) -> GrayImage {
    let n = if harm.shutter_s > 0.0 { SUB_FRAMES } else { 1 };
    let mut gray = GrayImage::new(WIDTH as usize, HEIGHT as usize);
    for i in 0..n {
        let View { pose, intrinsics } = view(t + harm.shutter_s * ((i as f64 + 0.5) / n as f64 - 0.5));
        for (sum, pixel) in gray.data.iter_mut().zip(scene.render(&pose, &intrinsics).pixels()) {
            let [red, green, blue] = pixel.0.map(f32::from);
            *sum += (0.299 * red + 0.587 * green + 0.114 * blue) / n as f32;
        }
    }
    let gain = 1.0 + harm.exposure * libm::sin(2.0 * t);
    let mut rng = SplitMix64::new(7, k as u64);
    for value in &mut gray.data {
        let noise = harm.noise * ((0..12).map(|_| rng.unit()).sum::<f64>() - 6.0);
        *value = (gain as f32 * *value + noise as f32).round().clamp(0.0, 255.0) / 255.0;
    }
    gray
}

/// A camera of the room on one of its paths.
pub fn on(path: CameraPath) -> impl Fn(f64) -> View {
    move |t| View { pose: path.at(t), intrinsics: Intrinsics::centered(WIDTH, HEIGHT) }
}

/// A camera that stands, turns about its axis (radians a second) and zooms (natural logarithm a second), starting
/// with `zoom` times the usual focal length.
pub fn turning(roll: f64, zoom: f64, zoom_rate: f64) -> impl Fn(f64) -> View {
    move |t| {
        let usual = Intrinsics::centered(WIDTH, HEIGHT);
        let intrinsics = Intrinsics { f: usual.f * zoom * libm::exp(zoom_rate * t), ..usual };
        View { pose: CameraPath::Still.at(0.0).turned(0.0, 0.0, roll * t), intrinsics }
    }
}

/// Where the point seen at `at` in the first view lies in the second; none where it is hidden or outside.
pub fn flow(scene: &Scene, first: &View, second: &View, at: [f32; 2]) -> Option<[f64; 2]> {
    let point = scene.point_at(&first.pose, &first.intrinsics, at[0] as f64, at[1] as f64)?;
    let in_second = second.pose.cam_from_world(&Vector3::from(point));
    let [x, y] = second.intrinsics.project(&in_second)?;
    let nearest = Vector3::from(scene.point_at(&second.pose, &second.intrinsics, x, y)?);
    let depth = second.pose.cam_from_world(&nearest).z;
    (second.intrinsics.contains(x, y) && in_second.z < depth * (1.0 + 1e-6)).then_some([x, y])
}

/// Reads `folder` as `render_scene` writes it: pictures in the order of their names, camera.txt (PINHOLE or
/// SIMPLE_PINHOLE) and gt_poses.txt.
pub fn read(folder: &Path) -> Result<Sequence, Box<dyn Error>> {
    let entries = fs::read_dir(folder)?.collect::<Result<Vec<_>, _>>()?;
    let mut paths: Vec<_> = entries.iter().map(|entry| entry.path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "png"));
    paths.sort();
    let frames = paths.iter().map(|path| read_gray(path).map(Arc::new)).collect::<Result<_, _>>()?;
    let camera = read_camera(&fs::read_to_string(folder.join("camera.txt"))?)?;
    let poses = fs::read_to_string(folder.join("gt_poses.txt"))?;
    let poses =
        poses.lines().filter(|line| !line.starts_with('#')).map(read_pose).collect::<Result<_, _>>()?;
    let name = folder.file_name().ok_or("a folder without a name")?.to_string_lossy().into_owned();
    Ok(Sequence { name, frames, truth: Truth::Poses { camera, poses } })
}

fn numbers<'a>(words: impl Iterator<Item = &'a str>) -> Result<Vec<f64>, std::num::ParseFloatError> {
    words.map(str::parse).collect()
}

fn read_camera(text: &str) -> Result<[f64; 4], Box<dyn Error>> {
    let params = numbers(text.split_whitespace().skip(3))?;
    match params[..] {
        [f, cx, cy] => Ok([f, f, cx - 0.5, cy - 0.5]),
        [fx, fy, cx, cy] => Ok([fx, fy, cx - 0.5, cy - 0.5]),
        _ => Err("camera.txt: model, width, height and the parameters of a pinhole camera".into()),
    }
}

fn read_pose(line: &str) -> Result<Pose, Box<dyn Error>> {
    let [_, x, y, z, i, j, k, w] = numbers(line.split_whitespace())?[..] else {
        return Err("gt_poses.txt: eight numbers a line".into());
    };
    let rotation = UnitQuaternion::from_quaternion(Quaternion::new(w, i, j, k));
    let cam_from_world_rotation = rotation.inverse().to_rotation_matrix().into_inner();
    Ok(Pose { cam_from_world_rotation, center: Vector3::new(x, y, z) })
}

fn read_gray(path: &Path) -> Result<GrayImage, Box<dyn Error>> {
    let luma = image::open(path)?.into_luma8();
    let (width, height) = (luma.width() as usize, luma.height() as usize);
    let data = luma.into_raw().into_iter().map(|value| value as f32 / 255.0).collect();
    Ok(GrayImage { width, height, data })
}
