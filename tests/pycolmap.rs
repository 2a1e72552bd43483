//! COLMAP's own reader and mappers on a database that export wrote. Needs a Python with pycolmap (3.10 to 4.2):
//! TRACKWEAVE_PYTHON names it.

#[path = "support/projected_scene.rs"]
mod projected_scene;

use std::env;
use std::path::Path;
use std::process::Command;

use libtest_mimic::{Arguments, Failed, Trial};
use projected_scene::{N_CAMERAS, PARAMS, SIZES, frames, pose};
use serde_json::{Value, json};
use trackweave::geometry::camera::CameraOptions;
use trackweave::stages::export::{Export, ExportOptions};
use trackweave::stages::{RunContext, Stage, StreamEnd};

fn main() {
    let python = env::var("TRACKWEAVE_PYTHON").ok();
    let reason =
        if python.is_some() { "" } else { " (ignored: TRACKWEAVE_PYTHON names no Python with pycolmap)" };
    let name = format!("pycolmap_reads_and_maps_what_export_wrote{reason}");
    let ignored = python.is_none();
    let trial =
        Trial::test(name, move || reads_and_maps(&python.unwrap_or_default())).with_ignored_flag(ignored);
    libtest_mimic::run(&Arguments::from_args(), vec![trial]).exit();
}

fn reads_and_maps(python: &str) -> Result<(), Failed> {
    let out = tempfile::tempdir()?;
    write(out.path())?;
    let found = read_and_map(python, &out.path().join("database.db"))?;
    check_contents(&found);
    for mapper in ["incremental", "global"] {
        // Versions before 4 have no global mapper.
        let Some(model) = found.get(mapper) else { continue };
        let at_most = |field: &str, bound: f64| model[field].as_f64().is_some_and(|value| value < bound);
        assert_eq!(model["registered"], N_CAMERAS, "{mapper}: {found}");
        assert!(model["points"].as_u64() > Some(350), "{mapper}: {model}");
        assert!(at_most("rmse", 1e-3) && at_most("reprojection_px", 1e-2), "{mapper}: {model}");
    }
    Ok(())
}

fn write(out: &Path) -> Result<(), Failed> {
    let camera = CameraOptions { model: Some("PINHOLE".into()), params: Some(PARAMS.to_vec()) };
    let context = RunContext { out: out.to_owned(), camera, ..Default::default() };
    let mut stage = Export::new(ExportOptions::default(), &context)?;
    frames().into_iter().try_for_each(|frame| stage.fire(frame))?;
    Ok(stage.finish(StreamEnd::Complete)?)
}

fn read_and_map(python: &str, database: &Path) -> Result<Value, Failed> {
    let centres = (0..N_CAMERAS).map(|keyframe| {
        let pose = pose(keyframe);
        let centre = -(pose.rotation.inverse() * pose.translation);
        format!("{},{},{}", centre.x, centre.y, centre.z)
    });
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/map_with_pycolmap.py");
    let output = Command::new(python).arg(script).arg(database).args(centres).output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().find(|line| line.starts_with('{'));
    let line = line.ok_or_else(|| format!("{python}: {text}{}", String::from_utf8_lossy(&output.stderr)))?;
    Ok(serde_json::from_str(line)?)
}

fn check_contents(found: &Value) {
    let source = frames();
    let (last, _) = source[2 * (N_CAMERAS as usize - 1)].keyframe.as_ref().unwrap();
    let (_, pairs) = source[2].keyframe.as_ref().unwrap();
    let (geometry, first) = (pairs[0].geometry.as_ref().unwrap(), pairs[0].matches[0]);
    let names: Vec<Value> =
        (0..N_CAMERAS).map(|i| json!([i + 1, format!("frame_{:06}.jpg", 6 * i)])).collect();
    assert_eq!(found["cameras"], json!([[1, SIZES.exported.0, SIZES.exported.1, PARAMS]]));
    assert_eq!(found["images"], json!(names));
    assert_eq!(found["keypoints"], json!(vec![400; N_CAMERAS as usize]));
    assert_eq!(found["descriptors"], found["keypoints"]);
    let keypoint = last.features.keypoints[0];
    let expected = [keypoint.x, keypoint.y].map(|v| 2.0 * f64::from(v) + 1.0);
    close(&found["first_keypoint"], &expected, 1e-4);
    assert_eq!(found["first_match"], json!([first.first, first.second]));
    assert_eq!(found["first_inlier"], found["first_match"]);
    assert_eq!(found["config"], geometry.config as i32);
    close(&found["translation"], &geometry.cam2_from_cam1.unwrap().1, 1e-12);
    close(&found["f"], &geometry.f.unwrap(), 1e-15);
}

fn close(found: &Value, expected: &[f64], tolerance: f64) {
    let found: Vec<f64> = serde_json::from_value(found.clone()).unwrap();
    let near =
        found.len() == expected.len() && found.iter().zip(expected).all(|(a, b)| (a - b).abs() <= tolerance);
    assert!(near, "{found:?} is not {expected:?}");
}
