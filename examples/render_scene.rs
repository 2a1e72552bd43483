//! Renders the demo's room to PNG files with their cameras: `render_scene OUT [PATH] [N_FRAMES] [WIDTH] [FPS]
//! [decor=DECOR] [depth_step=N] [effect=value ...]`, PATH one of hand_held, pan, fast_pan, roll, orbit, forward, loop,
//! sweep, still; DECOR rich, poor or repetitive; an effect is a field of `scene::film::Film`, for example `noise=6`.
//! `gt_poses.txt` holds t tx ty tz qx qy qz qw (camera to world), `camera.txt` COLMAP's SIMPLE_PINHOLE parameters,
//! `depth_000000.f32` the depth in metres at every pixel centre of a frame (f32, little endian, row by row), of every
//! frame or every N-th.

use std::error::Error;
use std::fs;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use trackweave::scene::demo::Demo;
use trackweave::scene::film::Film;
use trackweave::scene::{CameraPath, Decor, Intrinsics, Scene};

fn main() -> Result<(), Box<dyn Error>> {
    let (mut words, args): (Vec<String>, Vec<String>) =
        std::env::args().skip(1).partition(|word| word.contains('='));
    let decor = taken(&mut words, "decor=").map_or(Ok(Decor::Rich), |word| named("decor", &word))?;
    let depth_step: NonZeroUsize =
        taken(&mut words, "depth_step=").map_or(Ok(NonZeroUsize::MIN), |word| word.parse())?;
    let film: Film = toml::from_str(&words.join("\n"))?;
    let usage = "usage: render_scene OUT [PATH] [N_FRAMES] [WIDTH] [FPS] [decor=DECOR] [depth_step=N] \
                 [effect=value ...]";
    let out = PathBuf::from(args.first().ok_or(usage)?);
    let path: CameraPath = named("path", args.get(1).map_or("hand_held", String::as_str))?;
    let n_frames = args.get(2).map_or(Ok(10), |arg| arg.parse())?;
    let width: u32 = args.get(3).map_or(Ok(960), |arg| arg.parse())?;
    let fps: u32 = args.get(4).map_or(Ok(25), |arg| arg.parse())?;
    let intrinsics = Intrinsics::centered(width, width * 9 / 16);
    let poses = path.poses(n_frames, fps as f64);
    let demo = Demo { scene: Scene::room(decor), intrinsics, fps, poses };
    demo.write_truth(&out)?;
    let mut rendering = Duration::ZERO;
    for (frame, pose) in demo.poses.iter().enumerate() {
        let start = Instant::now();
        let picture = film.expose(&demo.scene, &intrinsics, |seconds| path.at(seconds), frame, fps as f64);
        rendering += start.elapsed();
        picture.save(out.join(format!("frame_{frame:06}.png")))?;
        if frame % depth_step == 0 {
            let depth = demo.scene.depth(pose, &intrinsics);
            let bytes: Vec<u8> = depth.iter().flat_map(|depth| (*depth as f32).to_le_bytes()).collect();
            fs::write(out.join(format!("depth_{frame:06}.f32")), bytes)?;
        }
    }
    eprintln!("{:?} a frame", rendering / n_frames.max(1) as u32);
    Ok(())
}

/// Takes the word that begins with `key` out of `words`; what follows the key.
fn taken(words: &mut Vec<String>, key: &str) -> Option<String> {
    let index = words.iter().position(|word| word.starts_with(key))?;
    Some(words.remove(index)[key.len()..].to_owned())
}

/// The value called `name`.
fn named<T: serde::de::DeserializeOwned>(what: &str, name: &str) -> Result<T, String> {
    serde_json::from_value(name.into()).map_err(|_| format!("no such {what}: {name}"))
}
