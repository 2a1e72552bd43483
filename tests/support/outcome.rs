//! What came of a run, and its text for a snapshot: what a person can review, then digests of every bit.

use std::collections::BTreeMap;
use std::fmt::{Debug, Write};
use std::fs;
use std::path::Path;

use serde::Serialize;
use trackweave::record::RunRecord;

use crate::colmap_reader::Database;

/// Frames, keyframes and pairs that are listed.
const N_LISTED: usize = 12;

/// A run's folder, read.
pub struct Outcome {
    pub record: RunRecord,
    pub database: Database,
}

impl Outcome {
    pub fn read(out: &Path) -> Outcome {
        let text = fs::read_to_string(out.join("run.json")).expect("there is a run record");
        let record = serde_json::from_str(&text).expect("run.json is a run record");
        Outcome { record, database: Database::read(&out.join("database.db")) }
    }

    pub fn text(&self) -> String {
        let (frames, keyframes) = (self.frames(), self.keyframes());
        let (pairs, database) = (self.pairs(), self.contents());
        let warnings: String =
            self.record.warnings.iter().map(|warning| format!("warning: {warning}\n")).collect();
        [frames, keyframes, pairs, database, warnings].join("\n")
    }

    fn frames(&self) -> String {
        let frames = &self.record.frames;
        let mut decisions = BTreeMap::<String, u32>::new();
        for frame in frames {
            let kept = if frame.kept { "kept" } else { "dropped" };
            *decisions.entry(format!("{kept} by {}", word(frame.reason))).or_default() += 1;
        }
        let decisions: Vec<String> = decisions.iter().map(|(what, n)| format!("{n} {what}")).collect();
        let ends: Vec<String> =
            self.record.ends.iter().map(|(reason, n)| format!("{n} {}", word(reason))).collect();
        let lengths = self.record.track_lengths.iter().map(|bin| format!("{}:{}", bin.frames, bin.tracks));
        let lengths: Vec<String> = lengths.collect();
        let mut text = format!("{} frames: {}\n", frames.len(), decisions.join(", "));
        text += &format!("track ends: {}\n", ends.join(", "));
        text += &format!("tracks by frames: {}\n\n", lengths.join(" "));
        text += "frame  kept  reason  motion_px  alive  ends\n";
        for frame in frames.iter().take(N_LISTED) {
            let (kept, reason) = (if frame.kept { "yes" } else { "no" }, word(frame.reason));
            let (motion, ends) = (rounded(frame.motion_px), frame.ends.values().sum::<u32>());
            let row = format!("{:5}  {kept:4}  {reason:6}  {motion:>9}", frame.frame);
            writeln!(text, "{row}  {:5}  {ends:4}", frame.alive).unwrap();
        }
        text
    }

    fn keyframes(&self) -> String {
        let mut text = "keyframe          keypoints  seeds  joined  fill_ins  motion_px\n".to_owned();
        for k in self.record.keyframes.iter().take(N_LISTED) {
            let counts = format!("{:9}  {:5}  {:6}  {:8}", k.keypoints, k.seeds, k.joined, k.fill_ins);
            writeln!(text, "{}  {counts}  {:>9}", k.image, rounded(k.motion_px)).unwrap();
        }
        text
    }

    fn pairs(&self) -> String {
        let pairs = &self.record.pairs;
        let mut text = format!("{} pairs\nfirst  second  klt  sift  both  inliers  config\n", pairs.len());
        for pair in pairs.iter().take(N_LISTED) {
            let counts = format!("{:3}  {:4}  {:4}", pair.matches.klt, pair.matches.sift, pair.matches.both);
            let config = pair.config.map_or("-".into(), word);
            writeln!(text, "{:5}  {:6}  {counts}  {:7}  {config}", pair.first, pair.second, pair.inliers)
                .unwrap();
        }
        text
    }

    fn contents(&self) -> String {
        let Database { cameras, images, keypoints, descriptors, matches, geometries, .. } = &self.database;
        let mut text = "table                  rows  digest\n".to_owned();
        for (table, n_rows, digest) in [
            ("cameras", cameras.len(), digest(cameras)),
            ("images", images.len(), digest(images)),
            ("keypoints", keypoints.values().map(Vec::len).sum(), digest(keypoints)),
            ("descriptors", descriptors.values().map(Vec::len).sum(), digest(descriptors)),
            ("matches", matches.values().map(Vec::len).sum(), digest(matches)),
            ("inliers", geometries.values().map(|g| g.inliers.len()).sum(), digest(geometries)),
        ] {
            writeln!(text, "{table:20}  {n_rows:5}  {digest:016x}").unwrap();
        }
        text += "\nimage      x       y  scale\n";
        for (image, rows) in keypoints.iter().take(2) {
            for [x, y, a, _, b, _] in rows.iter().take(3) {
                writeln!(text, "{image:5}  {x:5.1}  {y:5.1}  {:5.1}", (a * a + b * b).sqrt()).unwrap();
            }
        }
        text
    }
}

/// A value's name in run.json.
fn word(value: impl Serialize) -> String {
    serde_json::to_value(value).unwrap().as_str().unwrap().to_owned()
}

fn rounded(px: Option<f64>) -> String {
    px.map_or("-".into(), |px| format!("{px:.2}"))
}

/// FNV-1a of a value's text, in which numbers stand with as many digits as tell them apart.
fn digest(value: &impl Debug) -> u64 {
    let text = format!("{value:?}");
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ byte as u64).wrapping_mul(0x100_0000_01b3))
}

/// Compares `text` with `snapshots/NAME.snap`.
pub fn snapshot(name: &str, text: &str) {
    assert!(text.len() < 8192, "a snapshot of {} bytes is too long to review", text.len());
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path(concat!(env!("CARGO_MANIFEST_DIR"), "/snapshots"));
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.set_description("after an intended change: INSTA_UPDATE=always make test");
    settings.bind(|| insta::assert_snapshot!(name, text));
}
