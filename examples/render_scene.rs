//! Renders the demo's room to PNG files with their cameras: `render_scene OUT [PATH] [N_FRAMES] [WIDTH]`, PATH one of
//! hand_held, pan, orbit, forward, still. `poses.txt` holds t tx ty tz qx qy qz qw (camera to world), `camera.txt` COLMAP's
//! SIMPLE_PINHOLE parameters.

use std::error::Error;
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use trackweave::scene::{CameraPath, Intrinsics, Scene};

const FPS: f64 = 30.0;

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let out = PathBuf::from(args.first().ok_or("usage: render_scene OUT [PATH] [N_FRAMES] [WIDTH]")?);
    let path = match args.get(1).map_or("hand_held", String::as_str) {
        "hand_held" => CameraPath::HandHeld,
        "pan" => CameraPath::Pan,
        "orbit" => CameraPath::Orbit,
        "forward" => CameraPath::Forward,
        "still" => CameraPath::Still,
        other => return Err(format!("no such path: {other}").into()),
    };
    let n_frames = args.get(2).map_or(Ok(10), |arg| arg.parse())?;
    let width: u32 = args.get(3).map_or(Ok(960), |arg| arg.parse())?;
    let intrinsics = Intrinsics::centered(width, width * 9 / 16);
    let scene = Scene::demo();
    fs::create_dir_all(&out)?;
    let mut lines = String::new();
    let mut rendering = Duration::ZERO;
    for (k, pose) in path.poses(n_frames, FPS).iter().enumerate() {
        let [x, y, z, w] = pose.world_from_cam_xyzw();
        let c = pose.center;
        lines += &format!("{:.9} {} {} {} {x} {y} {z} {w}\n", k as f64 / FPS, c.x, c.y, c.z);
        let start = Instant::now();
        let picture = scene.render(pose, &intrinsics);
        rendering += start.elapsed();
        picture.save(out.join(format!("frame_{k:06}.png")))?;
    }
    eprintln!("{:?} a frame", rendering / n_frames.max(1) as u32);
    fs::write(out.join("poses.txt"), lines)?;
    let [f, cx, cy] = intrinsics.colmap_params();
    fs::write(
        out.join("camera.txt"),
        format!("SIMPLE_PINHOLE {} {} {f} {cx} {cy}\n", intrinsics.width, intrinsics.height),
    )?;
    Ok(())
}
