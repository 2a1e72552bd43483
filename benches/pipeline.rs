//! Times the whole pipeline `full` from raw frames in memory: `cargo bench --bench pipeline [-- FRAMES [BACKEND [INPUT]]]`
//! and any number of `stage.option=value`.
//!
//! The frames are those of a folder or a video, or of a hand-held walk rendered at a size like 1280x720; forwards and
//! backwards until there are enough. None is decoded while the time runs. Busy: the share of the time that a stage works; the highest is the
//! one that all others wait for.

use std::error::Error;
use std::sync::Arc;
use std::time::Instant;
use std::{env, fs};

use trackweave::device::{BackendChoice, Device, Gpu};
use trackweave::message::{Frame, FrameInfo, VideoInfo};
use trackweave::picture::{ColorMatrix, Picture, PixelLayout, Plane};
use trackweave::pipeline::config::PipelineConfig;
use trackweave::pipeline::plan::Plan;
use trackweave::pipeline::token::any_source;
use trackweave::scene::{CameraPath, Intrinsics, Scene};
use trackweave::stages::frame_decode::{FrameDecode, FrameDecodeOptions};
use trackweave::stages::{RunContext, SourceStage, StageError};
use trackweave::video::sampling::SampleRate;

const FPS: u64 = 25;
/// Frames that are rendered or decoded at most.
const MOST: usize = 150;

fn main() -> Result<(), Box<dyn Error>> {
    // Cargo passes `--bench` too.
    let words = env::args().skip(1).filter(|word| !word.starts_with("--"));
    let (sets, words): (Vec<String>, Vec<String>) = words.partition(|word| word.contains('='));
    let n_frames = words.first().map_or(Ok(300), |word| word.parse())?;
    let choice = match words.get(1).map(String::as_str) {
        None | Some("gpu") => BackendChoice::Gpu,
        Some("cpu") => BackendChoice::Cpu,
        Some(other) => return Err(format!("the backend is gpu or cpu, not {other}").into()),
    };
    let input = words.get(2).map_or("1280x720", String::as_str);
    let size = input.split_once('x').and_then(|(w, h)| Some((w.parse().ok()?, h.parse().ok()?)));
    let pictures = match size {
        Some((width, height)) => rendered(width, height, n_frames.min(MOST)),
        None => decoded(input)?,
    };
    if pictures.is_empty() {
        return Err(format!("no frame came out of {input}").into());
    }
    let device = Device::choose(choice, None)?;
    println!("{:?}, {} rayon threads", device.adapter(), rayon::current_num_threads());
    // The first run makes the device's pipelines.
    for run in ["first", "second", "third"] {
        time(run, &device, &pictures, n_frames, &sets)?;
    }
    Ok(())
}

/// Frames in memory, forwards and backwards.
struct Frames {
    pictures: Vec<Arc<Picture>>,
    video: Arc<VideoInfo>,
    next: usize,
    end: usize,
}

impl SourceStage for Frames {
    type Gives = Frame;

    fn next(&mut self) -> Result<Option<Frame>, StageError> {
        let index = self.next;
        if index == self.end {
            return Ok(None);
        }
        self.next += 1;
        let last = self.pictures.len() - 1;
        let step = index % (2 * last).max(1);
        let picture = self.pictures[step.min(2 * last - step)].clone();
        let number = index as u64;
        let pts_ns = number * 1_000_000_000 / FPS;
        let info = FrameInfo { index: index as u32, number, pts_ns, video: self.video.clone() };
        Ok(Some(Frame { info, picture }))
    }
}

fn time(
    run: &str,
    device: &Device,
    pictures: &[Arc<Picture>],
    n_frames: usize,
    sets: &[String],
) -> Result<(), Box<dyn Error>> {
    let out = env::temp_dir().join(format!("trackweave-bench-{}", std::process::id()));
    fs::create_dir(&out)?;
    let mut config = PipelineConfig::load("full").map_err(|errors| format!("{errors:?}"))?;
    for set in sets {
        config.set(set)?;
    }
    let plan = Plan::new(&config).map_err(|errors| format!("{errors:?}"))?;
    let context = RunContext {
        input: "memory://frames".into(),
        out: out.clone(),
        device: device.clone(),
        verdict_lag_frames: plan.verdict_lag_frames,
        ..RunContext::default()
    };
    let (width, height) = pictures[0].square_size();
    let video = VideoInfo { input: context.input.clone(), width, height, ..VideoInfo::default() };
    let frames = Frames { pictures: pictures.to_vec(), video: Arc::new(video), next: 0, end: n_frames };
    let mut graph = plan.build(&context).map_err(|errors| format!("{errors:?}"))?.graph;
    graph.replace("frame_decode", any_source(frames));
    let begin = Instant::now();
    let outcome = graph.run();
    let took = begin.elapsed().as_secs_f64();
    fs::remove_dir_all(&out)?;
    if let Some(failure) = outcome.failure {
        return Err(failure.into());
    }
    let record = context.record.lock();
    let (keyframes, pairs) = (record.keyframes.len(), record.pairs.len());
    println!(
        "\n{run} run, {width} x {height}: {n_frames} frames in {took:.3} s: {:.1} a second",
        n_frames as f64 / took
    );
    println!(
        "{keyframes} keyframes, {pairs} pairs; on the device at most {:?} bytes\n",
        device.gpu().map(Gpu::peak_bytes)
    );
    println!("| stage | frames | busy | p50 ms | p90 | p99 | max |");
    println!("|---|---:|---:|---:|---:|---:|---:|");
    for stage in outcome.stages {
        let (name, count, ms) = (&stage.name, stage.count, stage.busy_ms);
        let busy = 100.0 * stage.busy_s / took;
        println!("| {name} | {count} | {busy:.1} % | {} | {} | {} | {} |", ms.p50, ms.p90, ms.p99, ms.max);
    }
    Ok(())
}

fn decoded(input: &str) -> Result<Vec<Arc<Picture>>, Box<dyn Error>> {
    let context = RunContext { input: input.into(), ..RunContext::default() };
    let sample_fps = SampleRate::parse("all").ok_or("no rate")?;
    let options = FrameDecodeOptions { sample_fps, ..FrameDecodeOptions::default() };
    let mut source = FrameDecode::new(options, &context)?;
    let mut pictures = Vec::new();
    while let Some(frame) = source.next().map_err(|error| error.to_string())? {
        pictures.push(frame.picture);
        if pictures.len() == MOST {
            break;
        }
    }
    Ok(pictures)
}

/// Luma of the renders, and gray chroma.
fn rendered(width: u32, height: u32, n_frames: usize) -> Vec<Arc<Picture>> {
    let (scene, intrinsics) = (Scene::demo(), Intrinsics::centered(width, height));
    let poses = CameraPath::HandHeld.poses(n_frames, FPS as f64);
    let chroma = width.div_ceil(2) as usize;
    let picture = |pose| {
        let luma = image::DynamicImage::from(scene.render(pose, &intrinsics)).into_luma8().into_raw();
        let gray = Plane { stride: chroma, data: vec![128; chroma * height.div_ceil(2) as usize] };
        Arc::new(Picture {
            width,
            height,
            pixel_aspect: (1, 1),
            layout: PixelLayout::I420,
            matrix: ColorMatrix::Bt709,
            full_range: true,
            planes: vec![Plane { stride: width as usize, data: luma }, gray.clone(), gray],
        })
    };
    poses.iter().map(picture).collect()
}
