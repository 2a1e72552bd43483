//! The demo: a rendered video with known cameras, `full` on it, and how right its matches are.

use std::path::Path;

use super::progress::Progress;
use super::{LaunchError, RunRequest};
use crate::error::with_causes;
use crate::scene::demo::Demo;

/// Renders the video and its truth into `folder`. Makes `request` one to run `full` on it, into `folder`/result.
#[cfg(feature = "video")]
pub fn prepare(folder: &Path, request: RunRequest, progress: &Progress) -> Result<RunRequest, LaunchError> {
    use super::output::OutputFolder;
    use super::{PipelineRequest, StageFlag, all, choose_device};

    let out = folder.join("result");
    // Whether there is the device, and the result can be written, is known before the work starts.
    drop(choose_device(&request)?);
    drop(OutputFolder::prepare(&out, request.overwrite).map_err(|error| all(vec![error]))?);
    let demo = Demo::walk();
    let n_frames = demo.poses.len();
    let video = demo
        .render_video(folder, |n| progress.step("rendered frames", n, n_frames))
        .map_err(|error| LaunchError::Demo(with_causes(&error)))?;
    progress.end();
    let matches =
        StageFlag { flag: "demo", stage: "export", option: "matches", value: toml::Value::Boolean(true) };
    Ok(RunRequest {
        pipeline: PipelineRequest { name: "full".into(), flags: vec![matches], ..PipelineRequest::default() },
        input: video.path.to_string_lossy().into_owned(),
        out,
        camera: video.camera,
        ..request
    })
}

/// Rendering needs a video encoder.
#[cfg(not(feature = "video"))]
pub fn prepare(_: &Path, _: RunRequest, _: &Progress) -> Result<RunRequest, LaunchError> {
    Err(LaunchError::Demo("this build cannot encode video; build it with the feature `video`".into()))
}

/// How right the matches of a run of the demo are, in words.
pub fn evaluation(out: &Path) -> Result<String, LaunchError> {
    let evaluation = Demo::walk().evaluate(out).map_err(|error| LaunchError::Demo(with_causes(&error)))?;
    Ok(evaluation.to_string())
}
