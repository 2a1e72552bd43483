//! Real sequences, found through TRACKWEAVE_DATA: what comes out is frozen, for the decoders of Debian 12, and maps with
//! COLMAP where TRACKWEAVE_PYTHON names a Python with pycolmap.
//!
//! After an intended change: INSTA_UPDATE=always cargo test --test sequences

#[path = "support/colmap_reader.rs"]
mod colmap_reader;
#[path = "support/outcome.rs"]
mod outcome;

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, OnceLock};

use libtest_mimic::{Arguments, Failed, Trial};
use outcome::{Outcome, snapshot};
use serde_json::Value;
use tempfile::TempDir;
use trackweave::device::BackendChoice;
use trackweave::geometry::camera::CameraOptions;
use trackweave::launcher::progress::Progress;
use trackweave::launcher::{self, PipelineRequest, RunRequest};

type Check = Box<dyn FnOnce(&Path) -> Result<(), Failed> + Send>;

fn main() {
    let data = env::var_os("TRACKWEAVE_DATA").map(PathBuf::from);
    let python = env::var("TRACKWEAVE_PYTHON").ok();
    let trial = |name: &str, lacking: Option<&str>, check: Check| {
        let reason = lacking.map_or(String::new(), |variable| format!(" ({variable} is not set)"));
        let folder = data.clone().unwrap_or_default();
        let trial = Trial::test(name.to_owned() + &reason, move || check(&folder));
        trial.with_ignored_flag(lacking.is_some())
    };
    let no_data = data.is_none().then_some("TRACKWEAVE_DATA");
    let no_python = no_data.or(python.is_none().then_some("TRACKWEAVE_PYTHON"));
    let python = python.unwrap_or_default();
    let trials = vec![
        trial("a_hand_held_corner_is_as_it_was", no_data, Box::new(corner_is_as_it_was)),
        trial("a_drive_is_as_it_was", no_data, Box::new(drive_is_as_it_was)),
        trial("a_camera_that_stands_still_is_told_so", no_data, Box::new(stand_still_is_said)),
        trial("colmap_maps_the_corner", no_python, Box::new(move |data| colmap_maps(&python, data))),
    ];
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}

/// The camera of calib.json, which has its first pixel centre at 0.
fn camera(folder: &Path) -> Result<CameraOptions, Failed> {
    let calib: Value = serde_json::from_str(&fs::read_to_string(folder.join("calib.json"))?)?;
    let number = |name: &str| calib[name].as_f64().ok_or(format!("calib.json has no {name}"));
    let mut params = vec![number("fx")?, number("fy")?, number("cx")? + 0.5, number("cy")? + 0.5];
    if calib["model"] == "OPENCV" {
        params.extend([number("k1")?, number("k2")?, number("p1")?, number("p2")?]);
    }
    Ok(CameraOptions { model: calib["model"].as_str().map(str::to_owned), params: Some(params) })
}

/// `full` on a sequence with its known camera, into the folder of the result.
fn run(data: &Path, sequence: &str, fps: &str) -> Result<(TempDir, PathBuf), Failed> {
    let (input, place) = (data.join("sequences").join(sequence), tempfile::tempdir()?);
    let out = place.path().join("out");
    let set = vec![format!("frame_decode.sample_fps={fps}"), "gray_upload.analysis_size_px=640".into()];
    let request = RunRequest {
        pipeline: PipelineRequest { name: "full".into(), set, ..PipelineRequest::default() },
        input: input.join("video.mp4").to_string_lossy().into_owned(),
        out: out.clone(),
        camera: camera(&input)?,
        backend: BackendChoice::Cpu,
        ..RunRequest::default()
    };
    launcher::run(&request, Arc::new(Progress::hidden()))?;
    Ok((place, out))
}

/// The folder of the one run on the corner.
fn corner(data: &Path) -> Result<&'static Path, Failed> {
    static RUN: OnceLock<Result<(TempDir, PathBuf), String>> = OnceLock::new();
    let run = RUN.get_or_init(|| run(data, "vamr_corner", "5").map_err(|failed| format!("{failed:?}")));
    Ok(run.as_ref().map(|(_, out)| out.as_path()).map_err(String::as_str)?)
}

fn corner_is_as_it_was(data: &Path) -> Result<(), Failed> {
    snapshot("sequences_vamr_corner", &Outcome::read(corner(data)?).text());
    Ok(())
}

fn drive_is_as_it_was(data: &Path) -> Result<(), Failed> {
    let (_place, out) = run(data, "kitti_s1", "10")?;
    snapshot("sequences_kitti_s1", &Outcome::read(&out).text());
    Ok(())
}

fn stand_still_is_said(data: &Path) -> Result<(), Failed> {
    let (_place, out) = run(data, "euroc_static", "4")?;
    let warnings = Outcome::read(&out).record.warnings;
    let says = "the camera does not move: from keyframe to keyframe the picture moves by 0.";
    if !warnings.iter().any(|warning| warning.starts_with(says)) {
        return Err(format!("{warnings:?}").into());
    }
    Ok(())
}

/// The true centres of the keyframes' cameras as arguments of the script: gt_poses.txt has a line a displayed frame.
fn true_centres(outcome: &Outcome, data: &Path) -> Result<Vec<String>, Failed> {
    let text = fs::read_to_string(data.join("sequences/vamr_corner/gt_poses.txt"))?;
    let poses: Vec<Vec<&str>> =
        text.lines().filter(|line| !line.starts_with('#')).map(|line| line.split(' ').collect()).collect();
    let keyframes = outcome.record.frames.iter().filter(|frame| frame.kept);
    Ok(keyframes.map(|frame| poses[frame.frame as usize][1..4].join(",")).collect())
}

fn colmap_maps(python: &str, data: &Path) -> Result<(), Failed> {
    let out = corner(data)?;
    let outcome = Outcome::read(out);
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/map_with_pycolmap.py");
    let mut command = Command::new(python);
    command.arg(script).arg(out.join("database.db")).args(true_centres(&outcome, data)?);
    let output = command.output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().find(|line| line.starts_with('{'));
    let line = line.ok_or_else(|| format!("{python}: {text}{}", String::from_utf8_lossy(&output.stderr)))?;
    let model = serde_json::from_str::<Value>(line)?["incremental"].clone();
    let n_keyframes = outcome.record.keyframes.len();
    assert!(n_keyframes >= 20, "{n_keyframes} keyframes");
    assert_eq!(model["registered"], n_keyframes, "all in one model: {model}");
    assert!(model["points"].as_u64() > Some(500), "{model}");
    // Metres, on a path of 0.8; the truth itself is good to some millimetres.
    assert!(model["rmse"].as_f64().is_some_and(|rmse| rmse < 0.0025), "{model}");
    assert!(model["reprojection_px"].as_f64().is_some_and(|px| px < 0.5), "{model}");
    Ok(())
}
