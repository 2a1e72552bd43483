//! Whole pipelines on the adapter that TRACKWEAVE_ADAPTER names: on a software adapter, which rounds every operation, tracks
//! are the CPU's byte for byte, features and matches nearly so; a device that is lost ends a run and leaves nothing under its
//! name.

#[path = "support/colmap_reader.rs"]
mod colmap_reader;
#[path = "support/feature_sets.rs"]
mod feature_sets;
mod support;

use std::env;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use colmap_reader::Database;
use feature_sets::Agreement;
use libtest_mimic::{Arguments, Failed, Trial};
use serde_json::Value;
use support::Sequence;
use tempfile::TempDir;
use trackweave::device::{AdapterKind, Device, Gpu};
use trackweave::launcher::progress::Progress;
use trackweave::launcher::{self, LaunchError, PipelineRequest, RunRequest};
use trackweave::message::{Features, Keypoint};
use trackweave::scene::CameraPath;

type Outcome = Result<(), Failed>;

fn main() {
    let adapter = env::var("TRACKWEAVE_ADAPTER").ok();
    let reason = if adapter.is_some() { "" } else { " (TRACKWEAVE_ADAPTER is not set)" };
    let trial = |name: &str, check: fn(&str) -> Outcome| {
        let adapter = adapter.clone();
        let run = move || check(&adapter.ok_or("TRACKWEAVE_ADAPTER is not set")?);
        Trial::test(format!("{name}{reason}"), run).with_ignored_flag(!reason.is_empty())
    };
    let trials = vec![
        trial("tracks_are_those_of_the_cpu", tracks_are_those_of_the_cpu),
        trial("a_whole_result_is_as_the_cpu_s", a_whole_result_is_as_the_cpu_s),
        trial("whole_tracks_are_as_the_cpu_s", whole_tracks_are_as_the_cpu_s),
        trial("memory_changes_no_match", memory_changes_no_match),
        trial("guided_matching_finds_what_the_cpu_finds", guided_matching_finds_what_the_cpu_finds),
        trial("two_runs_are_the_same", two_runs_are_the_same),
        trial("a_lost_device_ends_the_run", a_lost_device_ends_the_run),
        trial("an_unknown_adapter_is_refused", an_unknown_adapter_is_refused),
    ];
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}

/// A folder with the input `images`.
struct Place(TempDir);

/// What a run left, `run.json` without what time decides.
#[derive(PartialEq)]
struct Files {
    record: Value,
    database: Vec<u8>,
    tracks: String,
}

impl Place {
    fn new(path: CameraPath) -> Place {
        let place = Place(tempfile::tempdir().unwrap());
        fs::create_dir(place.path("images")).unwrap();
        Sequence::small(path).write_folder(&place.path("images"));
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn call(&self, pipeline: &str, out: &str, device: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_trackweave"));
        command.args(["run", pipeline, "--input", "images", "--out", out, "--tracks"]).args(device);
        command.args(["--set", "frame_decode.folder_fps=10", "--fps", "all"]);
        command.current_dir(self.0.path()).output().unwrap()
    }

    fn run(&self, pipeline: &str, out: &str, device: &[&str]) -> Files {
        let ended = self.call(pipeline, out, device);
        assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
        let file = |name: &str| fs::read(self.path(out).join(name)).unwrap();
        let mut record: Value = serde_json::from_slice(&file("run.json")).unwrap();
        let entries = record.as_object_mut().unwrap();
        entries.remove("stages");
        let peak = entries.remove("gpu_peak_bytes").unwrap();
        assert_eq!(peak.as_u64().is_some_and(|bytes| bytes > 1 << 20), record["backend"] == "gpu", "{peak}");
        Files {
            record,
            database: file("database.db"),
            tracks: String::from_utf8(file("tracks.csv")).unwrap(),
        }
    }

    /// The adapter's result beside the CPU's, with what must differ between them taken out.
    fn both(&self, pipeline: &str, adapter: &str, more: &[&str]) -> [Files; 2] {
        let mut on_cpu = self.run(pipeline, "cpu", &[&["--backend", "cpu"], more].concat());
        let device = ["--backend", "gpu", "--adapter", adapter];
        let mut on_gpu = self.run(pipeline, "gpu", &[&device, more].concat());
        assert_eq!((&on_cpu.record["backend"], &on_cpu.record["adapter"]), (&"cpu".into(), &Value::Null));
        assert_eq!(on_gpu.record["backend"], "gpu");
        let name = on_gpu.record["adapter"].as_str().unwrap().to_lowercase();
        assert!(name.contains(&adapter.to_lowercase()), "{name}");
        for files in [&mut on_cpu, &mut on_gpu] {
            let record = files.record.as_object_mut().unwrap();
            record.remove("backend");
            record.remove("adapter");
        }
        [on_cpu, on_gpu]
    }
}

/// Whether the adapter rounds as the CPU does; GPUs fuse.
fn is_exact(adapter: &str) -> bool {
    Gpu::open(Some(adapter)).unwrap().adapter().kind == AdapterKind::Software
}

fn assert_same_lines(found: &str, expected: &str) {
    for (i, (found, expected)) in found.lines().zip(expected.lines()).enumerate() {
        assert_eq!(found, expected, "line {}", i + 1);
    }
    assert_eq!(found.lines().count(), expected.lines().count());
}

fn assert_same(found: &Files, expected: &Files) {
    assert!(expected.tracks.lines().count() > 1000, "{} lines", expected.tracks.lines().count());
    assert_same_lines(&found.tracks, &expected.tracks);
    assert_eq!(found.record, expected.record);
    assert!(found.database == expected.database, "the databases differ");
}

fn tracks_are_those_of_the_cpu(adapter: &str) -> Outcome {
    for path in [CameraPath::HandHeld, CameraPath::Forward] {
        let [on_cpu, on_gpu] = Place::new(path).both("tracks", adapter, &[]);
        if is_exact(adapter) {
            assert_same(&on_gpu, &on_cpu);
        }
    }
    Ok(())
}

fn a_whole_result_is_as_the_cpu_s(adapter: &str) -> Outcome {
    let joins_alone = ["--set", "keyframe_join.whole_tracks=false"];
    as_the_cpu_s(&Place::new(CameraPath::Orbit), adapter, &joins_alone).map(|_| ())
}

fn whole_tracks_are_as_the_cpu_s(adapter: &str) -> Outcome {
    let more = ["--set", "sift_extract.max_features=500"];
    let counts = as_the_cpu_s(&Place::new(CameraPath::Orbit), adapter, &more)?;
    let n = |files: &Files| -> Vec<u64> {
        let keyframes = files.record["keyframes"].as_array().unwrap();
        keyframes.iter().map(|keyframe| keyframe["track_keypoints"].as_u64().unwrap()).collect()
    };
    let [on_cpu, on_gpu] = counts.each_ref().map(n);
    assert!(on_cpu[1..].iter().all(|&n| n > 50), "{on_cpu:?}");
    assert!(!is_exact(adapter) || on_gpu == on_cpu, "{on_gpu:?}, on the cpu {on_cpu:?}");
    Ok(())
}

/// Runs `full` on both backends and compares what comes of it.
fn as_the_cpu_s(place: &Place, adapter: &str, more: &[&str]) -> Result<[Files; 2], Failed> {
    let [on_cpu, on_gpu] = place.both("full", adapter, more);
    if is_exact(adapter) {
        assert!(on_cpu.record["keyframes"].as_array().unwrap().len() > 2);
        assert!(on_cpu.tracks.lines().count() > 1000, "{} lines", on_cpu.tracks.lines().count());
        assert_same_lines(&on_gpu.tracks, &on_cpu.tracks);
        let [found, expected] =
            ["gpu", "cpu"].map(|out| Database::read(&place.path(out).join("database.db")));
        alike(&found, &expected)?;
    }
    Ok([on_cpu, on_gpu])
}

/// The same images with nearly the same features and matches.
fn alike(found: &Database, expected: &Database) -> Outcome {
    assert_eq!(found.images, expected.images);
    for (image, ..) in &expected.images {
        let agreement = Agreement::new(&features(found, *image), &features(expected, *image));
        assert!(agreement.n > 100, "{agreement:?}");
        agreement.check()?;
    }
    assert!(found.matches.keys().eq(expected.matches.keys()));
    let pairs = || expected.matches.iter().map(|(pair, matches)| (&found.matches[pair], matches));
    let n: usize = pairs().map(|(found, expected)| found.len().max(expected.len())).sum();
    let n_same: usize =
        pairs().map(|(found, expected)| found.iter().filter(|pair| expected.contains(pair)).count()).sum();
    println!("{n_same} of {n} matches are the same");
    assert!(n > 1000 && n_same as f64 >= 0.995 * n as f64, "{n_same} of {n} matches are the same");
    Ok(())
}

/// An image's features; a keypoint is its position and the affine frame about it.
fn features(database: &Database, image: u32) -> Features {
    let keypoint = |&[x, y, xx, _, yx, _]: &[f32; 6]| {
        let (scale, orientation) = (xx.hypot(yx), yx.atan2(xx));
        Keypoint { x, y, scale, orientation, response: 0.0 }
    };
    Features {
        keypoints: database.keypoints[&image].iter().map(keypoint).collect(),
        descriptors: database.descriptors[&image].clone(),
    }
}

/// With room for two keyframes' descriptors, and with room for all.
fn memory_changes_no_match(adapter: &str) -> Outcome {
    let place = Place::new(CameraPath::Orbit);
    for guided in ["epipolar_verify.guided=false", "epipolar_verify.guided=true"] {
        let run = |memory: &str| {
            let device = ["--backend", "gpu", "--adapter", adapter, "--gpu-memory", memory, "--set", guided];
            place.run("full", &format!("{guided} {memory}"), &device)
        };
        let all = run("1024");
        for memory in ["64", "0"] {
            assert_same(&run(memory), &all);
        }
    }
    Ok(())
}

/// Which keypoints lie in a band is asked in f32: as many inliers within half a percent.
fn guided_matching_finds_what_the_cpu_finds(adapter: &str) -> Outcome {
    let place = Place::new(CameraPath::Orbit);
    let guided = ["--set", "epipolar_verify.guided=true"];
    let on_cpu = place.run("full", "cpu", &[&["--backend", "cpu"][..], &guided].concat());
    let on_gpu =
        place.run("full", "gpu", &[&["--backend", "gpu", "--adapter", adapter][..], &guided].concat());
    let inliers = |files: &Files| -> Vec<f64> {
        let pairs = files.record["pairs"].as_array().unwrap();
        pairs.iter().map(|pair| pair["inliers"].as_f64().unwrap_or(0.0)).collect()
    };
    let (found, expected) = (inliers(&on_gpu), inliers(&on_cpu));
    let [n_found, n_expected] = [&found, &expected].map(|inliers| inliers.iter().sum::<f64>());
    println!(
        "guided: {n_found} inliers of {} pairs, on the cpu {n_expected} of {}",
        found.len(),
        expected.len()
    );
    assert!(
        n_expected > 1000.0 && (n_found - n_expected).abs() < 0.005 * n_expected,
        "{found:?} {expected:?}"
    );
    Ok(())
}

fn two_runs_are_the_same(adapter: &str) -> Outcome {
    let place = Place::new(CameraPath::Pan);
    let device = ["--backend", "gpu", "--adapter", adapter];
    let first = place.run("full", "first", &device);
    let second = place.run("full", "second", &[&device[..], &["--queue", "1"]].concat());
    assert_same(&second, &first);
    Ok(())
}

fn a_lost_device_ends_the_run(adapter: &str) -> Outcome {
    let place = Place::new(CameraPath::Orbit);
    let set = ["frame_decode.folder_fps=10", "frame_decode.sample_fps=all"];
    let request = RunRequest {
        pipeline: PipelineRequest {
            name: "full".into(),
            set: set.map(str::to_owned).into(),
            ..PipelineRequest::default()
        },
        input: place.path("images").to_string_lossy().into_owned(),
        out: place.path("out"),
        ..RunRequest::default()
    };
    let gpu = Gpu::open(Some(adapter))?;
    let losing = gpu.clone();
    let (running, ended) = mpsc::channel::<()>();
    let loser = thread::spawn(move || {
        // In the midst of the pushes: there are 16 frames of two submissions or more.
        while losing.counts().submissions < 13 {
            if ended.recv_timeout(Duration::from_millis(1)) == Err(RecvTimeoutError::Disconnected) {
                return false;
            }
        }
        losing.lose();
        true
    });
    let device = || Ok(Device::Gpu(gpu));
    let result = launcher::run_on(&request, device, Arc::new(Progress::hidden()));
    drop(running);
    assert!(loser.join().unwrap(), "the run ended before submission 13: {result:?}");
    let error = result.unwrap_err();
    let LaunchError::Stage { failure, partial } = &error else { panic!("{error}") };
    let text = failure.to_string();
    assert!(text.contains(" was lost: destroyed, at submission "), "{text}");
    assert!(text.to_lowercase().contains(&adapter.to_lowercase()), "{text}");
    assert_eq!(*partial, place.path("out.partial"));
    assert!(partial.join("run.json").exists() && !place.path("out").exists());
    Ok(())
}

fn an_unknown_adapter_is_refused(adapter: &str) -> Outcome {
    let place = Place::new(CameraPath::Pan);
    fs::create_dir(place.path("out")).unwrap();
    let there = Gpu::open(Some(adapter))?.adapter().to_string();
    for backend in ["gpu", "auto"] {
        let device = ["--backend", backend, "--adapter", "no such thing", "--overwrite"];
        let ended = place.call("tracks", "out", &device);
        let stderr = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(ended.status.code(), Some(2), "{stderr}");
        let last = stderr.lines().last().unwrap_or_default();
        assert!(last.starts_with("error: no adapter is called \"no such thing\" (there is "), "{stderr}");
        assert!(last.contains(&there), "{stderr}");
        assert_eq!(fs::read_dir(place.path("out")).unwrap().count(), 0);
        assert_eq!(fs::read_dir(place.0.path()).unwrap().count(), 2, "images and out");
    }
    Ok(())
}
