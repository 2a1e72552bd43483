//! Stage `export`: images, database, tracks.csv, matches.csv and the run record, into the temporary folder only.
//!
//! A keyframe is written and committed as it comes; what is held over is the rows of one frame, the keypoints of one
//! keyframe, the pictures that are being encoded and a few numbers a frame, a keyframe and a pair.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use self::match_log::MatchLog;
use self::picture_file::{EncodeError, PictureWriter};
use self::track_log::TrackLog;
use super::{RunContext, Stage, StageError, StreamEnd};
use crate::colmap::database::{DatabaseError, DatabaseWriter};
use crate::colmap::{KeypointRow, image_id_from_keyframe, keypoint_row};
use crate::geometry::camera::{Camera, CameraError, CameraOptions};
use crate::geometry::parallax::Parallax;
use crate::message::{Features, FrameLog, Keyframe, Match, Source, VerifiedFrame, VerifiedPair};
use crate::picture::PictureError;
use crate::record::diagnosis::{self, Circumstances};
use crate::record::{FrameRecord, KeyframeRecord, PairRecord, RunRecord, SourceCounts, initial_pair};

pub mod match_log;
pub mod picture_file;
pub mod track_log;

pub use picture_file::ImageFormat;

/// Options of export.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ExportOptions {
    /// Whether tracks.csv is written: one row a live track and sampled frame.
    pub tracks: bool,
    /// Whether matches.csv is written: one row a match with its source and whether it is an inlier.
    pub matches: bool,
    /// File format of the images: `jpg` or `png`.
    pub image_format: ImageFormat,
    /// Quality of JPEG images, 1..=100. Larger: fewer artefacts, larger files.
    pub jpeg_quality: u8,
}

impl Default for ExportOptions {
    fn default() -> Self {
        ExportOptions { tracks: false, matches: false, image_format: ImageFormat::Jpg, jpeg_quality: 95 }
    }
}

impl ExportOptions {
    /// Errors where an option is out of its range; touches no file.
    pub fn check(&self) -> Result<(), ExportError> {
        if !(1..=100).contains(&self.jpeg_quality) {
            return Err(ExportError::JpegQuality(self.jpeg_quality));
        }
        Ok(())
    }
}

/// What keeps results from being written.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The option is out of range.
    #[error("export.jpeg_quality is {0}, it must be in 1..=100")]
    JpegQuality(u8),
    /// The file system refused.
    #[error("cannot {action} {}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// On which file.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// The encoder refused.
    #[error("cannot encode image {name}")]
    Encode {
        /// The image.
        name: String,
        /// The encoder's reason.
        source: EncodeError,
    },
    /// The picture cannot be made RGB.
    #[error("cannot convert the picture of image {name}")]
    Picture {
        /// The image.
        name: String,
        /// What is wrong with it.
        source: PictureError,
    },
    /// The database cannot be written.
    #[error(transparent)]
    Database(#[from] DatabaseError),
    /// The camera does not fit.
    #[error(transparent)]
    Camera(#[from] CameraError),
    /// A match names a keypoint that its image does not have.
    #[error(
        "pair of images {first} and {second}: a match names keypoints {keypoints:?}, but there are {counts:?}"
    )]
    KeypointRange {
        /// Image id.
        first: u32,
        /// Image id.
        second: u32,
        /// Of the match.
        keypoints: [u32; 2],
        /// Keypoints of the two images.
        counts: [u32; 2],
    },
    /// A track ended that had no position at the frame before.
    #[error("track {track} ended at frame {frame} but was not alive at the frame before")]
    EndWithoutTrack {
        /// Track id.
        track: u32,
        /// Displayed frame number.
        frame: u64,
    },
    /// Nothing came out of the input.
    #[error("no frame came out of {input}: look whether it plays")]
    NoFrame {
        /// The input as the user named it.
        input: String,
    },
    /// Every frame was dropped.
    #[error(
        "none of the {frames} frames of {input} became a keyframe: look at --keyframes and keyframe_gate"
    )]
    NoKeyframe {
        /// Sampled frames.
        frames: usize,
        /// The input as the user named it.
        input: String,
    },
}

/// See the module.
pub struct Export {
    input: String,
    camera: CameraOptions,
    verdict_lag_frames: u32,
    record: Arc<Mutex<RunRecord>>,
    database_path: PathBuf,
    database: Option<DatabaseWriter>,
    pictures: PictureWriter,
    tracks: TrackLog,
    matches: MatchLog,
    cameras: BTreeMap<(u32, u32), u32>,
    previous: Arc<Features>,
    rows: Vec<KeypointRow>,
    exported_side: u32,
}

impl Export {
    /// Checks the options and opens the outputs in `context.out`.
    pub fn new(options: ExportOptions, context: &RunContext) -> Result<Export, ExportError> {
        options.check()?;
        let images = context.out.join("images");
        fs::create_dir_all(&images).map_err(io_error("create", &images))?;
        let database_path = context.out.join("database.db");
        let tracks_csv = options.tracks.then(|| context.out.join("tracks.csv"));
        let matches_csv = options.matches.then(|| context.out.join("matches.csv"));
        Ok(Export {
            input: context.input.clone(),
            camera: context.camera.clone(),
            verdict_lag_frames: context.verdict_lag_frames,
            record: context.record.clone(),
            database: Some(DatabaseWriter::create(&database_path)?),
            database_path,
            pictures: PictureWriter::new(images, options.image_format, options.jpeg_quality),
            tracks: TrackLog::create(tracks_csv)?,
            matches: MatchLog::create(matches_csv)?,
            cameras: BTreeMap::new(),
            previous: Arc::default(),
            rows: Vec::new(),
            exported_side: 0,
        })
    }

    fn write_frame(&mut self, frame: &VerifiedFrame) -> Result<(), ExportError> {
        self.tracks.advance(&frame.log)?;
        let image = match &frame.keyframe {
            Some((keyframe, pairs)) => Some(self.write_keyframe(keyframe, pairs)?),
            None => None,
        };
        let mut record = self.record.lock();
        if record.video.is_none() {
            record.video = Some((*frame.log.info.video).clone());
        }
        record.frames.push(frame_record(&frame.log, image));
        Ok(())
    }

    /// Writes a keyframe with its pairs, commits, and returns the name of its image.
    fn write_keyframe(&mut self, keyframe: &Keyframe, pairs: &[VerifiedPair]) -> Result<String, ExportError> {
        let name = self.pictures.name(&keyframe.info);
        self.pictures.begin(&name, &keyframe.picture, keyframe.sizes.exported)?;
        self.write_image(&name, keyframe)?;
        let record = KeyframeRecord {
            image: name.clone(),
            keypoints: keyframe.features.keypoints.len() as u32,
            track_keypoints: keyframe.track_keypoints,
            seeds: keyframe.seeds,
            joined: keyframe.joined,
            fill_ins: keyframe.fill_ins,
            motion_px: self.motion_px(keyframe, pairs),
        };
        self.record.lock().keyframes.push(record);
        for pair in pairs {
            self.write_pair(pair, keyframe.keyframe)?;
        }
        self.previous = keyframe.features.clone();
        let (width, height) = keyframe.sizes.exported;
        self.exported_side = width.max(height);
        self.database().commit()?;
        Ok(name)
    }

    fn write_image(&mut self, name: &str, keyframe: &Keyframe) -> Result<(), ExportError> {
        let id = image_id_from_keyframe(keyframe.keyframe);
        let camera = self.camera_id(keyframe.sizes.exported)?;
        let features = &keyframe.features;
        let mut rows = std::mem::take(&mut self.rows);
        rows.clear();
        rows.extend(features.keypoints.iter().map(|keypoint| keypoint_row(keypoint, &keyframe.sizes)));
        let database = self.database();
        database.add_image(id, name, camera)?;
        database.write_features(id, &rows, &features.descriptors)?;
        self.rows = rows;
        Ok(())
    }

    /// The camera of an exported picture size: one row a size.
    fn camera_id(&mut self, size: (u32, u32)) -> Result<u32, ExportError> {
        if let Some(&id) = self.cameras.get(&size) {
            return Ok(id);
        }
        let camera = Camera::from_options(&self.camera, size.0, size.1)?;
        let id = self.database().add_camera(&camera)?;
        self.cameras.insert(size, id);
        Ok(id)
    }

    fn write_pair(&mut self, pair: &VerifiedPair, keyframe: u32) -> Result<(), ExportError> {
        let (first, second) = (image_id_from_keyframe(pair.first), image_id_from_keyframe(keyframe));
        let inliers = pair.geometry.as_ref().map_or(&[][..], |geometry| &geometry.inliers);
        self.check_range(first, second, &pair.matches)?;
        self.check_range(first, second, inliers)?;
        let database = self.database();
        database.write_matches(first, second, pair.matches.iter().map(|m| [m.first, m.second]))?;
        if let Some(geometry) = &pair.geometry {
            database.write_two_view_geometry(first, second, geometry)?;
        }
        self.matches.write(first, second, pair)?;
        self.record.lock().pairs.push(PairRecord {
            first,
            second,
            matches: source_counts(&pair.matches),
            inliers: inliers.len() as u32,
            inliers_by_source: source_counts(inliers),
            config: pair.geometry.as_ref().map(|geometry| geometry.config),
            parallax: pair.geometry.as_ref().and_then(|geometry| geometry.parallax).map(Parallax::rounded),
        });
        Ok(())
    }

    fn check_range(&self, first: u32, second: u32, matches: &[Match]) -> Result<(), ExportError> {
        let record = self.record.lock();
        let count = |id: u32| record.keyframes.get(id as usize - 1).map_or(0, |keyframe| keyframe.keypoints);
        let counts = [count(first), count(second)];
        match matches.iter().find(|m| m.first >= counts[0] || m.second >= counts[1]) {
            Some(m) => {
                let keypoints = [m.first, m.second];
                Err(ExportError::KeypointRange { first, second, keypoints, counts })
            }
            None => Ok(()),
        }
    }

    /// Median displacement in exported pixels of the matches with the keyframe before.
    fn motion_px(&self, keyframe: &Keyframe, pairs: &[VerifiedPair]) -> Option<f64> {
        let pair = pairs.iter().find(|pair| pair.first + 1 == keyframe.keyframe)?;
        let matches = pair.geometry.as_ref().map_or(&pair.matches, |geometry| &geometry.inliers);
        let mut lengths = Vec::with_capacity(matches.len());
        for m in matches {
            let a = self.previous.keypoints.get(m.first as usize)?;
            let b = keyframe.features.keypoints.get(m.second as usize)?;
            let [dx, dy] = [f64::from(b.x) - f64::from(a.x), f64::from(b.y) - f64::from(a.y)];
            lengths.push((dx * dx + dy * dy).sqrt() * keyframe.sizes.scale);
        }
        median(&mut lengths)
    }

    fn database(&mut self) -> &mut DatabaseWriter {
        self.database.as_mut().expect("the database is open until finish")
    }

    fn close(&mut self, end: StreamEnd) -> Result<(), ExportError> {
        if let Some(database) = self.database.take() {
            database.finish()?;
        }
        self.pictures.finish()?;
        self.tracks.finish(end)?;
        self.matches.finish()?;
        let mut record = self.record.lock();
        record.ends = self.tracks.ends();
        record.track_lengths = self.tracks.lengths();
        record.bytes.insert("images".to_owned(), self.pictures.bytes());
        let sizes = [
            ("database", Some(&self.database_path)),
            ("tracks_csv", self.tracks.path()),
            ("matches_csv", self.matches.path()),
        ];
        for (name, path) in sizes {
            if let Some(path) = path {
                let metadata = fs::metadata(path).map_err(io_error("look at", path))?;
                record.bytes.insert(name.to_owned(), metadata.len());
            }
        }
        let circumstances = Circumstances {
            exported_side: self.exported_side,
            verdict_lag_frames: self.verdict_lag_frames,
            end,
        };
        record.initial_pair = initial_pair::choose(&record.pairs).ok();
        let warnings = diagnosis::warnings(&record, &circumstances);
        record.warnings.extend(warnings);
        let (input, frames) = (self.input.clone(), record.frames.len());
        match end {
            StreamEnd::Complete if frames == 0 => Err(ExportError::NoFrame { input }),
            StreamEnd::Complete if record.keyframes.is_empty() => {
                Err(ExportError::NoKeyframe { frames, input })
            }
            _ => Ok(()),
        }
    }
}

impl Stage for Export {
    type Takes = VerifiedFrame;
    type Gives = ();

    fn fire(&mut self, frame: VerifiedFrame) -> Result<(), StageError> {
        Ok(self.write_frame(&frame)?)
    }

    fn finish(&mut self, end: StreamEnd) -> Result<(), StageError> {
        Ok(self.close(end)?)
    }
}

fn frame_record(log: &FrameLog, image: Option<String>) -> FrameRecord {
    let mut ends = BTreeMap::new();
    for end in &log.ends {
        *ends.entry(end.reason).or_insert(0) += 1;
    }
    FrameRecord {
        frame: log.info.number,
        pts_s: log.info.pts_ns as f64 / 1e9,
        kept: log.gate.kept,
        reason: log.gate.reason,
        image,
        alive: log.rows.len() as u32,
        ends,
        motion_px: log.gate.motion_px.map(|motion| f64::from(motion) * log.sizes.scale),
    }
}

fn source_counts(matches: &[Match]) -> SourceCounts {
    let mut counts = SourceCounts::default();
    for m in matches {
        match m.source {
            Source::Klt => counts.klt += 1,
            Source::Sift => counts.sift += 1,
            Source::Both => counts.both += 1,
        }
    }
    counts
}

fn median(values: &mut [f64]) -> Option<f64> {
    let middle = values.len() / 2;
    values.get(middle)?;
    Some(*values.select_nth_unstable_by(middle, f64::total_cmp).1)
}

fn io_error(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> ExportError {
    let path = path.to_owned();
    move |source| ExportError::Io { action, path, source }
}
