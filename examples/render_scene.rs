//! Renders the demo's room to PNG files with their cameras: `render_scene OUT [PATH] [N_FRAMES] [WIDTH] [FPS]
//! [effect=value ...]`, PATH one of hand_held, pan, fast_pan, roll, orbit, forward, still; an effect is a field of
//! `scene::film::Film`, for example `noise=6`. `gt_poses.txt` holds t tx ty tz qx qy qz qw (camera to world), `camera.txt`
//! COLMAP's SIMPLE_PINHOLE parameters, `depth_000000.f32` the depth in metres at every pixel centre of a frame (f32, little
//! endian, row by row).

use std::error::Error;
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use trackweave::scene::demo::Demo;
use trackweave::scene::film::Film;
use trackweave::scene::{CameraPath, Intrinsics, Scene};

fn main() -> Result<(), Box<dyn Error>> {
    let (effects, args): (Vec<String>, Vec<String>) =
        std::env::args().skip(1).partition(|word| word.contains('='));
    let film: Film = toml::from_str(&effects.join("\n"))?;
    let usage = "usage: render_scene OUT [PATH] [N_FRAMES] [WIDTH] [FPS] [effect=value ...]";
    let out = PathBuf::from(args.first().ok_or(usage)?);
    let path = match args.get(1).map_or("hand_held", String::as_str) {
        "hand_held" => CameraPath::HandHeld,
        "pan" => CameraPath::Pan,
        "fast_pan" => CameraPath::FastPan,
        "roll" => CameraPath::Roll,
        "orbit" => CameraPath::Orbit,
        "forward" => CameraPath::Forward,
        "still" => CameraPath::Still,
        other => return Err(format!("no such path: {other}").into()),
    };
    let n_frames = args.get(2).map_or(Ok(10), |arg| arg.parse())?;
    let width: u32 = args.get(3).map_or(Ok(960), |arg| arg.parse())?;
    let fps: u32 = args.get(4).map_or(Ok(25), |arg| arg.parse())?;
    let intrinsics = Intrinsics::centered(width, width * 9 / 16);
    let poses = path.poses(n_frames, fps as f64);
    let demo = Demo { scene: Scene::demo(), intrinsics, fps, poses };
    demo.write_truth(&out)?;
    let mut rendering = Duration::ZERO;
    for (frame, pose) in demo.poses.iter().enumerate() {
        let start = Instant::now();
        let picture = film.expose(&demo.scene, &intrinsics, |seconds| path.at(seconds), frame, fps as f64);
        rendering += start.elapsed();
        picture.save(out.join(format!("frame_{frame:06}.png")))?;
        let depth = demo.scene.depth(pose, &intrinsics);
        let bytes: Vec<u8> = depth.iter().flat_map(|depth| (*depth as f32).to_le_bytes()).collect();
        fs::write(out.join(format!("depth_{frame:06}.f32")), bytes)?;
    }
    eprintln!("{:?} a frame", rendering / n_frames.max(1) as u32);
    Ok(())
}
