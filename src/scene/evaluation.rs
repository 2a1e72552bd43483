//! How right the matches of a run on a rendered video are: the distance to the true epipolar line and to the true
//! point, by source of the match.

use std::collections::HashMap;
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use nalgebra::Vector3;
use rusqlite::{Connection, OpenFlags};

use super::demo::Demo;
use super::{Pose, true_fundamental};
use crate::colmap::images_from_pair_id;
use crate::message::Source;
use crate::record::{RunRecord, TrackLengthRecord};

/// A match within this distance of the true epipolar lines, in both pictures, counts as right.
pub const LINE_PX: f64 = 1.0;
/// A match within this distance of the true point, in the later picture, counts as right.
pub const POINT_PX: f64 = 2.0;

/// Bars of the histogram of track lengths.
const N_BARS: u32 = 16;
/// Characters of its longest bar.
const BAR_WIDTH: u64 = 40;

/// The verified matches of one source against the truth. Distances are pixels of the rendered video.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Correctness {
    /// Distance to the true epipolar line, the larger of the two pictures', a match; ascending.
    pub line_px: Vec<f64>,
    /// Distance to the true point in the later picture, a match whose point is visible there; ascending.
    pub point_px: Vec<f64>,
}

/// What `Demo::evaluate` found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Evaluation {
    /// Matches of tracks alone.
    pub klt: Correctness,
    /// Matches of descriptors alone.
    pub sift: Correctness,
    /// Matches of both.
    pub both: Correctness,
    /// The run's histogram of track lengths.
    pub track_lengths: Vec<TrackLengthRecord>,
}

/// What keeps a run from being evaluated.
#[derive(Debug, thiserror::Error)]
pub enum EvaluationError {
    /// A file of the run cannot be read.
    #[error("cannot read {}", path.display())]
    Io {
        /// Which file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// run.json is none.
    #[error("{} is not a run record", path.display())]
    Record {
        /// Which file.
        path: PathBuf,
        /// What is wrong.
        source: serde_json::Error,
    },
    /// The database cannot be read.
    #[error("cannot read {}", path.display())]
    Database {
        /// Which file.
        path: PathBuf,
        /// What is wrong.
        source: rusqlite::Error,
    },
    /// A line of matches.csv is malformed.
    #[error("{} line {line}: {text:?} is not first,second,keypoint1,keypoint2,source,...", path.display())]
    Csv {
        /// Which file.
        path: PathBuf,
        /// From 1.
        line: usize,
        /// The line.
        text: String,
    },
    /// The files of the run contradict each other or the video.
    #[error("the run's files disagree: {0}")]
    Disagreement(String),
}

/// (image id, image id, keypoint, keypoint) to source.
type Sources = HashMap<[u32; 4], Source>;

impl Evaluation {
    /// Reads database.db, matches.csv and run.json of `out` and measures every verified match.
    pub(super) fn of_run(demo: &Demo, out: &Path) -> Result<Evaluation, EvaluationError> {
        let record = read_record(&out.join("run.json"))?;
        let sources = read_sources(&out.join("matches.csv"))?;
        let poses = image_poses(demo, &record)?;
        let database_path = out.join("database.db");
        let (keypoints, pairs) = read_database(&database_path, demo.intrinsics.width)
            .map_err(|source| EvaluationError::Database { path: database_path, source })?;
        let mut evaluation = Evaluation { track_lengths: record.track_lengths, ..Evaluation::default() };
        for (pair_id, matches) in pairs {
            let (first, second) = images_from_pair_id(pair_id);
            let [pose1, pose2] = [first, second].map(|id| poses.get(id as usize - 1));
            let (Some(pose1), Some(pose2)) = (pose1, pose2) else {
                let reason =
                    format!("the database has images {first} and {second}, run.json {}", poses.len());
                return Err(EvaluationError::Disagreement(reason));
            };
            for [a, b] in matches {
                let missing = |what: &str| {
                    let reason = format!("images {first} and {second}, match ({a}, {b}): no {what}");
                    EvaluationError::Disagreement(reason)
                };
                let source =
                    sources.get(&[first, second, a, b]).ok_or_else(|| missing("line in matches.csv"))?;
                let at = |image, keypoint: u32| keypoints.get(&image)?.get(keypoint as usize).copied();
                let from = at(first, a).ok_or_else(|| missing("first keypoint"))?;
                let to = at(second, b).ok_or_else(|| missing("second keypoint"))?;
                evaluation.of_source(*source).add(demo, [pose1, pose2], from, to);
            }
        }
        for source in [Source::Klt, Source::Sift, Source::Both] {
            evaluation.of_source(source).sort();
        }
        Ok(evaluation)
    }

    fn of_source(&mut self, source: Source) -> &mut Correctness {
        match source {
            Source::Klt => &mut self.klt,
            Source::Sift => &mut self.sift,
            Source::Both => &mut self.both,
        }
    }

    /// Matches of every source.
    pub fn all(&self) -> Correctness {
        let mut all = self.klt.clone();
        for other in [&self.sift, &self.both] {
            all.line_px.extend(&other.line_px);
            all.point_px.extend(&other.point_px);
        }
        all.sort();
        all
    }
}

impl Correctness {
    /// Adds a match between positions of two pictures, pixel centres at integers.
    fn add(&mut self, demo: &Demo, [pose1, pose2]: [&Pose; 2], from: [f64; 2], to: [f64; 2]) {
        let fundamental = true_fundamental(&demo.intrinsics, pose1, pose2);
        let (p, q) = (Vector3::new(from[0], from[1], 1.0), Vector3::new(to[0], to[1], 1.0));
        let (line_of_p, line_of_q) = (fundamental * p, fundamental.transpose() * q);
        let shorter_normal = line_of_p.xy().norm().min(line_of_q.xy().norm());
        self.line_px.push((q.dot(&line_of_p) / shorter_normal).abs());
        let flow = demo.scene.flow(&demo.intrinsics, pose1, pose2, from[0], from[1]);
        if let Some(flow) = flow.filter(|flow| flow.visible) {
            let off = [to[0] - flow.x, to[1] - flow.y];
            self.point_px.push((off[0] * off[0] + off[1] * off[1]).sqrt());
        }
    }

    fn sort(&mut self) {
        self.line_px.sort_by(f64::total_cmp);
        self.point_px.sort_by(f64::total_cmp);
    }

    /// Share of the matches within `LINE_PX` of the true epipolar lines; none without matches.
    pub fn share_on_line(&self) -> Option<f64> {
        share_within(&self.line_px, LINE_PX)
    }

    /// Share of the matches with a visible point within `POINT_PX` of it.
    pub fn share_on_point(&self) -> Option<f64> {
        share_within(&self.point_px, POINT_PX)
    }
}

fn share_within(ascending: &[f64], limit: f64) -> Option<f64> {
    let within = ascending.partition_point(|distance| *distance <= limit);
    (!ascending.is_empty()).then(|| within as f64 / ascending.len() as f64)
}

fn read_record(path: &Path) -> Result<RunRecord, EvaluationError> {
    let text =
        fs::read_to_string(path).map_err(|source| EvaluationError::Io { path: path.into(), source })?;
    serde_json::from_str(&text).map_err(|source| EvaluationError::Record { path: path.into(), source })
}

fn read_sources(path: &Path) -> Result<Sources, EvaluationError> {
    let text =
        fs::read_to_string(path).map_err(|source| EvaluationError::Io { path: path.into(), source })?;
    let mut sources = Sources::new();
    for (index, line) in text.lines().enumerate().skip(1) {
        let (key, source) = parse_match(line).ok_or_else(|| EvaluationError::Csv {
            path: path.into(),
            line: index + 1,
            text: line.into(),
        })?;
        sources.insert(key, source);
    }
    Ok(sources)
}

fn parse_match(line: &str) -> Option<([u32; 4], Source)> {
    let mut fields = line.split(',');
    let mut key = [0; 4];
    for number in &mut key {
        *number = fields.next()?.parse().ok()?;
    }
    let source = match fields.next()? {
        "klt" => Source::Klt,
        "sift" => Source::Sift,
        "both" => Source::Both,
        _ => return None,
    };
    Some((key, source))
}

/// The true pose of every image of the database: image id i + 1 at index i.
fn image_poses(demo: &Demo, record: &RunRecord) -> Result<Vec<Pose>, EvaluationError> {
    let pose = |image: &str| {
        let frame = record.frames.iter().find(|frame| frame.image.as_deref() == Some(image));
        let pose = frame.and_then(|frame| demo.poses.get(frame.frame as usize));
        pose.copied().ok_or_else(|| {
            let n_frames = demo.poses.len();
            EvaluationError::Disagreement(format!("image {image} is none of the {n_frames} frames"))
        })
    };
    record.keyframes.iter().map(|keyframe| pose(&keyframe.image)).collect()
}

/// Keypoint positions by image id, pixel centres at integers, in pixels of a picture `width` wide.
type Keypoints = HashMap<u32, Vec<[f64; 2]>>;
/// Verified matches by pair id.
type Pairs = Vec<(i64, Vec<[u32; 2]>)>;

fn read_database(path: &Path, width: u32) -> rusqlite::Result<(Keypoints, Pairs)> {
    let database = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    let mut keypoints = Keypoints::new();
    let mut query = database.prepare(
        "SELECT image_id, keypoints.cols, keypoints.data, cameras.width FROM keypoints
         JOIN images USING (image_id) JOIN cameras USING (camera_id) WHERE keypoints.rows > 0",
    )?;
    let mut rows = query.query([])?;
    while let Some(row) = rows.next()? {
        let (n_columns, exported_width): (u32, u32) = (row.get(1)?, row.get(3)?);
        let scale = width as f64 / exported_width as f64;
        let values: Vec<f64> =
            words(row.get_ref(2)?.as_blob()?).map(|w| f32::from_le_bytes(w) as f64).collect();
        let positions = values.chunks_exact(n_columns.max(2) as usize);
        keypoints.insert(row.get(0)?, positions.map(|p| [p[0] * scale - 0.5, p[1] * scale - 0.5]).collect());
    }
    let mut pairs = Pairs::new();
    let mut query =
        database.prepare("SELECT pair_id, data FROM two_view_geometries WHERE rows > 0 ORDER BY pair_id")?;
    let mut rows = query.query([])?;
    while let Some(row) = rows.next()? {
        let indices: Vec<u32> = words(row.get_ref(1)?.as_blob()?).map(u32::from_le_bytes).collect();
        pairs.push((row.get(0)?, indices.chunks_exact(2).map(|pair| [pair[0], pair[1]]).collect()));
    }
    Ok((keypoints, pairs))
}

/// The 4-byte words of a blob.
fn words(blob: &[u8]) -> impl Iterator<Item = [u8; 4]> {
    blob.as_chunks::<4>().0.iter().copied()
}

impl fmt::Display for Evaluation {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        writeln!(f, "verified matches against the known cameras and surfaces")?;
        writeln!(
            f,
            "source  matches  <= {LINE_PX} px of the true line  median  <= {POINT_PX} px of the true point  median"
        )?;
        let all = self.all();
        for (name, of_source) in
            [("klt", &self.klt), ("sift", &self.sift), ("both", &self.both), ("all", &all)]
        {
            let percent = |share: Option<f64>| share.map_or("-".into(), |s| format!("{:.1} %", 100.0 * s));
            let median = |ascending: &[f64]| match ascending.get(ascending.len() / 2) {
                Some(median) => format!("{median:.2}"),
                None => "-".into(),
            };
            writeln!(
                f,
                "{name:6} {:8}  {:>24}  {:>6}  {:>25}  {:>6}",
                of_source.line_px.len(),
                percent(of_source.share_on_line()),
                median(&of_source.line_px),
                percent(of_source.share_on_point()),
                median(&of_source.point_px),
            )?;
        }
        write_histogram(f, &self.track_lengths)
    }
}

fn write_histogram(f: &mut fmt::Formatter, lengths: &[TrackLengthRecord]) -> fmt::Result {
    let longest = lengths.iter().map(|bin| bin.frames).max().unwrap_or(0);
    let bin_width = longest.div_ceil(N_BARS).max(1);
    let mut bars = vec![0; longest.div_ceil(bin_width) as usize];
    for bin in lengths.iter().filter(|bin| bin.frames > 0) {
        bars[((bin.frames - 1) / bin_width) as usize] += bin.tracks;
    }
    let most = bars.iter().copied().max().unwrap_or(0).max(1);
    writeln!(f, "tracks by length in sampled frames")?;
    for (index, tracks) in bars.iter().enumerate() {
        let last = (index as u32 + 1) * bin_width;
        let first = last - bin_width + 1;
        let range = if bin_width == 1 { format!("{first}") } else { format!("{first}-{last}") };
        let bar = "#".repeat((tracks * BAR_WIDTH).div_ceil(most) as usize);
        writeln!(f, "{range:>9} {tracks:8} {bar}")?;
    }
    Ok(())
}
