//! The program as a user meets it: messages, exit codes, and what stands under OUT.
//!
//! After an intended change: INSTA_UPDATE=always cargo test --test cli

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use image::{GrayImage, Luma};
use serde_json::Value;
use tempfile::TempDir;

fn snapshot(name: &str, text: &str) {
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path("../snapshots");
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| insta::assert_snapshot!(name, text));
}

/// What a call printed and how it ended.
struct Ended {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

/// A folder of a test, in which the program is run.
struct Place(TempDir);

impl Place {
    /// With a folder `images` of a textured picture that moves to the left.
    fn new() -> Place {
        let place = Place(tempfile::tempdir().unwrap());
        fs::create_dir(place.path("images")).unwrap();
        for i in 0..6 {
            let texture = |x: u32, y: u32| {
                let hash = ((x + 4 * i) / 3).wrapping_mul(0x9E37_79B1) ^ (y / 3).wrapping_mul(0x85EB_CA77);
                Luma([(hash.wrapping_mul(0xC2B2_AE3D) >> 24) as u8])
            };
            let picture = GrayImage::from_fn(96, 64, texture);
            picture.save(place.path(&format!("images/{i:03}.png"))).unwrap();
        }
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// On the CPU unless the line says otherwise, so that the machine makes no difference.
    fn command(&self, line: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_trackweave"));
        command.args(line.split_whitespace()).current_dir(self.0.path());
        if line.contains("--input") && !line.contains("--backend") {
            command.args(["--backend", "cpu"]);
        }
        command
    }

    fn call(&self, line: &str) -> Ended {
        let output = self.command(line).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ended { code: output.status.code(), stdout: text(&output.stdout), stderr: text(&output.stderr) }
    }

    /// Sorted names in a folder.
    fn names(&self, folder: &str) -> Vec<String> {
        let entries = fs::read_dir(self.path(folder)).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    fn record(&self, folder: &str) -> Value {
        serde_json::from_str(&fs::read_to_string(self.path(folder).join("run.json")).unwrap()).unwrap()
    }
}

#[test]
fn wrong_uses_are_explained_and_begin_nothing() {
    let place = Place::new();
    fs::create_dir(place.path("full_folder")).unwrap();
    fs::write(place.path("full_folder/thesis.tex"), "").unwrap();
    fs::write(place.path("file"), "").unwrap();
    fs::write(place.path("keys.toml"), "[[stage]]\nname = \"frame_decode\"\nqeue = 3\n").unwrap();
    let short = "[[stage]]\nname = \"frame_decode\"\n[[stage]]\nname = \"keyframe_gate\"\n[[stage]]\nname = \"export\"\n";
    fs::write(place.path("short.toml"), short).unwrap();
    let before = place.names("");

    let mut text = String::new();
    for line in [
        "run full --input missing.mp4 --out out",
        "run full --input images --out full_folder",
        "run full --input images --out full_folder --overwrite",
        "run full --input images --out file",
        "run full --input images --out file/out",
        "run full --input images --out /proc/out",
        "run full --input images --out ..",
        "run fool --input images --out out",
        "run keys.toml --input images --out out",
        "run short.toml --input images --out out",
        "run full --input images --out out --set klt_push.window_px",
        "run full --input images --out out --set klt_push.window=3 --set keyframe_gate.min_tracks=0",
        "run full --input images --out out --queue 0",
        "run full --input images --out out --fps never",
        "run full --input images --out out --keyframes missing.txt",
        "run full --input images --out out --max-keyframes 0",
        "run full --input images --input images --out out",
        "run full --input images --out out --backend cpu --adapter llvmpipe",
        "run full --input images --out out --camera-model FISHY",
        "run full --input images --out out --camera-model PINHOLE --camera-params 1,2,3",
        "run full --out out",
        "check fool",
        "graph short.toml",
        "profile full --input missing.mp4",
    ] {
        let ended = place.call(line);
        assert_eq!(ended.stdout, "", "{line}");
        text += &format!("$ trackweave {line}\n{}exit {:?}\n\n", ended.stderr, ended.code.unwrap());
    }
    assert_eq!(place.names(""), before);
    snapshot("wrong_uses", &text);
}

#[cfg(target_os = "linux")]
#[test]
fn a_place_that_cannot_be_written_is_refused_before_the_work() {
    let place = Place::new();
    let ended = place.call("run full --input images --out /proc/out");
    assert_eq!(ended.code, Some(2));
    let expected = "error: --out /proc/out: nothing can be written in /proc: ";
    assert!(ended.stderr.starts_with(expected), "{}", ended.stderr);
}

#[test]
fn a_run_publishes_a_whole_result_and_says_so_as_json() {
    let place = Place::new();
    let before = place.names("");
    let ended = place.call("run extract --input images --out deep/out --json --max-keyframes 3");
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert_eq!(place.names("deep"), ["out"]);
    assert_eq!(place.names("deep/out"), ["database.db", "images", "run.json"]);
    assert_eq!(place.names("").len(), before.len() + 1);

    let summary: Value = serde_json::from_str(&ended.stdout).unwrap();
    let record = place.record("deep/out");
    let keyframes = record["keyframes"].as_array().unwrap().len();
    assert_eq!((&summary["frames"], &summary["keyframes"]), (&6.into(), &keyframes.into()));
    assert!((1..=3).contains(&keyframes));
    assert_eq!(place.names("deep/out/images").len(), keyframes);
    assert_eq!(record["options"]["stages"]["keyframe_gate"]["max_keyframes"], 3);
    assert_eq!(record["backend"], "cpu");
    let stages = record["stages"].as_array().unwrap();
    assert_eq!(stages.len(), 10);
    assert!(stages.iter().all(|stage| stage["count"] == 6));
}

#[test]
fn queues_change_nothing_but_times() {
    let place = Place::new();
    let result = |name: &str, more: &str| {
        let ended = place.call(&format!("run full --input images --out {name} --tracks {more}"));
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        let mut record = place.record(name);
        record.as_object_mut().unwrap().remove("stages");
        let file = |file: &str| fs::read(place.path(name).join(file)).unwrap();
        (record, file("database.db"), file("tracks.csv"))
    };
    let first = result("one", "");
    assert!(first.0["keyframes"].as_array().unwrap().len() > 1);
    for queues in ["--queue 1", "--queue 7"] {
        let other = result(&queues.replace("--queue ", "queue_"), queues);
        assert!(first == other, "{queues}");
    }
}

#[test]
fn a_failure_keeps_the_earlier_result_and_what_there_is() {
    let place = Place::new();
    assert_eq!(place.call("run extract --input images --out out").code, Some(0));
    let earlier = place.record("out");
    fs::write(place.path("images/004.png"), "no picture").unwrap();
    for _ in 0..2 {
        let ended = place.call("run extract --input images --out out --overwrite");
        assert_eq!(ended.code, Some(1));
        let last = ended.stderr.lines().last().unwrap();
        assert!(last.starts_with("error: stage frame_decode failed at sampled frame 4: "), "{last}");
        assert!(last.ends_with("; what there is lies in out.partial"), "{last}");
    }
    assert_eq!(place.record("out"), earlier);
    assert_eq!(place.record("out.partial")["frames"].as_array().unwrap().len(), 4);
    assert_eq!(place.names(""), ["images", "out", "out.partial"]);

    fs::remove_file(place.path("images/004.png")).unwrap();
    assert_eq!(place.call("run extract --input images --out out --overwrite").code, Some(0));
    assert_eq!(place.record("out")["frames"].as_array().unwrap().len(), 5);
}

#[test]
fn a_run_never_replaces_its_own_input() {
    let place = Place::new();
    assert_eq!(place.call("run extract --input images --out out").code, Some(0));
    for input in ["out/images", "out/images/frame_000000.jpg", "file://out/images"] {
        let ended = place.call(&format!("run extract --input {input} --out out --overwrite"));
        assert_eq!(ended.code, Some(2), "{}", ended.stderr);
        assert!(ended.stderr.contains("lies in --out out"), "{}", ended.stderr);
    }
    assert!(place.path("out/images/frame_000000.jpg").exists());
    assert_eq!(place.names(""), ["images", "out"]);
}

#[cfg(unix)]
#[test]
fn readers_may_go_away() {
    let place = Place::new();
    for line in ["stages", "graph full", "check fool", "run extract --input images --out out --json"] {
        let [unread_out, unread_err] = [(); 2].map(|()| std::io::pipe().unwrap().1);
        let ended = place.command(line).stdout(unread_out).stderr(unread_err).status().unwrap();
        assert_eq!(ended.code(), Some(if line == "check fool" { 2 } else { 0 }), "{line}");
    }
    assert!(place.path("out/run.json").exists());
}

#[test]
fn a_profile_is_a_table_and_keeps_nothing() {
    let place = Place::new();
    let ended = place.call("profile tracks --input images");
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(ended.stdout.lines().any(|line| line.starts_with("klt_push")), "{}", ended.stdout);
    assert_eq!(place.names(""), ["images"]);
}

/// Half a second of silence: 8 bits, 8 kHz, mono.
#[cfg(feature = "video")]
fn silence() -> Vec<u8> {
    let n_samples = 4000u32;
    let mut wav = Vec::new();
    let format = [16, 0x0001_0001, 8000, 8000, 0x0008_0001].map(u32::to_le_bytes).concat();
    for part in [&b"RIFF"[..], &(36 + n_samples).to_le_bytes(), b"WAVEfmt ", &format, b"data"] {
        wav.extend(part);
    }
    wav.extend(n_samples.to_le_bytes());
    wav.resize(wav.len() + n_samples as usize, 128);
    wav
}

#[cfg(feature = "video")]
#[test]
fn what_is_no_video_is_said() {
    let place = Place::new();
    fs::write(place.path("text.mp4"), "dear diary").unwrap();
    fs::write(place.path("sound.wav"), silence()).unwrap();
    let mut text = String::new();
    for input in ["text.mp4", "sound.wav"] {
        let line = format!("run full --input {input} --out out");
        let ended = place.call(&line);
        let last = ended.stderr.lines().last().unwrap();
        text += &format!("$ trackweave {line}\n{last}\nexit {}\n\n", ended.code.unwrap());
        assert_eq!(place.record("out.partial")["frames"], Value::Array(Vec::new()));
        assert!(!place.path("out").exists());
    }
    snapshot("no_video", &text);
}

/// A run that is stopped in the midst of its work on the folder `many`.
#[cfg(unix)]
fn frozen_run(place: &Place) -> Child {
    fs::create_dir(place.path("many")).unwrap();
    for i in 0..5000 {
        fs::hard_link(place.path("images/000.png"), place.path(&format!("many/{i:04}.png"))).unwrap();
    }
    let mut command = place.command("run extract --input many --out out");
    let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let begin = Instant::now();
    let is_at_work = |folder: &Path| folder.join("result/database.db").exists();
    while !place.names("").iter().any(|name| is_at_work(&place.path(name))) {
        assert!(begin.elapsed() < Duration::from_secs(20), "it never begins");
        thread::sleep(Duration::from_millis(2));
    }
    let stopped = Command::new("sh").args(["-c", &format!("kill -STOP {}", child.id())]).status().unwrap();
    assert!(stopped.success() && !place.path("out").exists());
    child
}

#[cfg(unix)]
#[test]
fn a_killed_run_leaves_nothing_under_out_and_the_next_one_tidies_up() {
    let place = Place::new();
    let mut frozen = frozen_run(&place);
    let refused = place.call("run extract --input images --out out");
    assert_eq!(refused.code, Some(2));
    assert!(refused.stderr.contains("another run is writing there"), "{}", refused.stderr);

    frozen.kill().unwrap();
    frozen.wait().unwrap();
    assert_eq!(place.names("").len(), 3, "two folders of images and the temporary one");
    assert!(!place.path("out").exists());
    assert_eq!(place.call("run extract --input images --out out").code, Some(0));
    assert_eq!(place.names(""), ["images", "many", "out"]);
}
