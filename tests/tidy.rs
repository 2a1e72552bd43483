//! The rules of the house that a text search can hold.

use std::fs;
use std::path::{Path, PathBuf};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Rust files under `folder` with their text, paths relative to the root with forward slashes.
fn rust_files(folder: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut folders: Vec<PathBuf> = vec![root().join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "rs") {
                let name = path.strip_prefix(root()).unwrap().to_string_lossy().replace('\\', "/");
                found.push((name, fs::read_to_string(&path).unwrap()));
            }
        }
    }
    found.sort();
    assert!(!found.is_empty(), "{folder}: no files found, the search itself is broken");
    found
}

/// Files under `src` that mention `word` though their path starts with none of `rooms`.
fn strangers(word: &str, rooms: &[&str]) -> Vec<String> {
    let knows = rust_files("src").into_iter().filter(|(_, text)| text.contains(word));
    let (inside, outside): (Vec<_>, Vec<_>) =
        knows.map(|(name, _)| name).partition(|name| rooms.iter().any(|room| name.starts_with(room)));
    assert!(!inside.is_empty(), "no file mentions `{word}`: the rule is out of date");
    outside
}

#[test]
fn only_video_knows_gstreamer() {
    assert_eq!(strangers("gstreamer", &["src/video"]), Vec::<String>::new());
}

#[test]
fn only_the_device_knows_wgpu() {
    assert_eq!(strangers("wgpu", &["src/device"]), Vec::<String>::new());
}

#[test]
fn only_colmap_and_the_demo_s_evaluation_know_sqlite() {
    assert_eq!(strangers("rusqlite", &["src/colmap", "src/scene/evaluation"]), Vec::<String>::new());
}

#[test]
fn the_program_does_not_read_the_environment() {
    let reads = |text: &str| ["env::var", "env::vars", "option_env!"].iter().any(|call| text.contains(call));
    let readers: Vec<String> =
        rust_files("src").into_iter().filter(|(_, t)| reads(t)).map(|(n, _)| n).collect();
    assert_eq!(readers, Vec::<String>::new());
}

#[test]
fn stages_never_name_each_other() {
    let stages: Vec<(String, String)> = rust_files("src/stages");
    let names: Vec<String> = stages
        .iter()
        .filter_map(|(path, _)| path.strip_prefix("src/stages/")?.strip_suffix(".rs").map(str::to_owned))
        .filter(|name| !name.contains('/'))
        .collect();
    assert_eq!(names.len(), 10);
    for (path, text) in &stages {
        let is_tests = |line: &&str| ["mod tests {", "pub(crate) mod tests {"].contains(line);
        let lines = text.lines().take_while(|line| !is_tests(line));
        let text: String = lines.flat_map(|line| [line, "\n"]).collect();
        for name in names.iter().filter(|name| !path.contains(name.as_str())) {
            for way in ["stages", "super"] {
                assert!(!text.contains(&format!("{way}::{name}")), "{path} names the stage {name}");
            }
        }
    }
}

#[test]
fn files_stay_readable() {
    let lengths = |folder| rust_files(folder).into_iter().map(|(name, text)| (name, text.lines().count()));
    let long: Vec<_> =
        lengths("src").filter(|&(_, n)| n > 500).chain(lengths("tests").filter(|&(_, n)| n > 600)).collect();
    assert_eq!(long, Vec::new(), "files over 500 lines (tests: 600): re-plan the room");
}

#[test]
fn nothing_is_left_open() {
    for (name, text) in rust_files("src") {
        for mark in ["todo!(", "unimplemented!(", "dbg!(", "FIXME", "TODO"] {
            assert!(!text.contains(mark), "{name} holds {mark}");
        }
    }
}
