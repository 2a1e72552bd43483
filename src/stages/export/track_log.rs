//! Tracks over the run: tracks.csv, the histogram of lengths, ends by reason. Holds the rows of one frame.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::PathBuf;

use super::{ExportError, io_error};
use crate::message::{EndReason, FrameInfo, FrameLog, TrackEnd};
use crate::record::TrackLengthRecord;
use crate::stages::StreamEnd;

/// A live track at the frame that is held.
struct HeldRow {
    track: u32,
    /// Exported pixels.
    position: [f64; 2],
    /// Sampled frames with a position, this one included.
    n_frames: u32,
}

/// Follows the live tracks from frame to frame.
pub struct TrackLog {
    csv: Option<(PathBuf, BufWriter<File>)>,
    held_frame: Option<FrameInfo>,
    held: Vec<HeldRow>,
    lengths: BTreeMap<u32, u64>,
    ends: BTreeMap<EndReason, u64>,
}

impl TrackLog {
    /// Opens tracks.csv where a path is given.
    pub fn create(csv: Option<PathBuf>) -> Result<TrackLog, ExportError> {
        let csv = match csv {
            Some(path) => {
                let mut file = BufWriter::new(File::create(&path).map_err(io_error("create", &path))?);
                writeln!(file, "track_id,frame,pts_s,x,y,end_reason").map_err(io_error("write", &path))?;
                Some((path, file))
            }
            None => None,
        };
        let ends = EndReason::ALL.map(|reason| (reason, 0)).into();
        Ok(TrackLog { csv, held_frame: None, held: Vec::new(), lengths: BTreeMap::new(), ends })
    }

    /// Takes the next sampled frame: its ends decide the last column of the rows held.
    pub fn advance(&mut self, log: &FrameLog) -> Result<(), ExportError> {
        let mut ends = log.ends.clone();
        ends.sort_by_key(|end| end.track);
        self.check_ends(&ends, log.info.number)?;
        for end in &ends {
            *self.ends.entry(end.reason).or_default() += 1;
        }
        let reason =
            |track| ends.binary_search_by_key(&track, |end| end.track).ok().map(|i| ends[i].reason.number());
        self.write_held(reason)?;

        let before = std::mem::take(&mut self.held);
        let mut before = before.into_iter().peekable();
        for row in &log.rows {
            while let Some(gone) = before.next_if(|held| held.track < row.track) {
                *self.lengths.entry(gone.n_frames).or_default() += 1;
            }
            let n_frames = before.next_if(|held| held.track == row.track).map_or(0, |held| held.n_frames) + 1;
            let position = log.sizes.exported_from_analysis(row.x, row.y);
            self.held.push(HeldRow { track: row.track, position, n_frames });
        }
        for gone in before {
            *self.lengths.entry(gone.n_frames).or_default() += 1;
        }
        self.held_frame = Some(log.info.clone());
        Ok(())
    }

    /// Writes the last frame's rows: alive at the end, or of unknown fate where the stream was cut.
    pub fn finish(&mut self, end: StreamEnd) -> Result<(), ExportError> {
        self.write_held(|_| (end == StreamEnd::Complete).then_some(0))?;
        for held in std::mem::take(&mut self.held) {
            *self.lengths.entry(held.n_frames).or_default() += 1;
        }
        match &mut self.csv {
            Some((path, file)) => file.flush().map_err(io_error("write", path)),
            None => Ok(()),
        }
    }

    /// Where tracks.csv is, if it is written.
    pub fn path(&self) -> Option<&PathBuf> {
        self.csv.as_ref().map(|(path, _)| path)
    }

    /// Ended tracks by reason, all reasons named.
    pub fn ends(&self) -> BTreeMap<EndReason, u64> {
        self.ends.clone()
    }

    /// The histogram of lengths, ascending.
    pub fn lengths(&self) -> Vec<TrackLengthRecord> {
        self.lengths.iter().map(|(&frames, &tracks)| TrackLengthRecord { frames, tracks }).collect()
    }

    fn check_ends(&self, ends: &[TrackEnd], frame: u64) -> Result<(), ExportError> {
        let missing =
            ends.iter().find(|end| self.held.binary_search_by_key(&end.track, |held| held.track).is_err());
        match missing {
            Some(end) => Err(ExportError::EndWithoutTrack { track: end.track, frame }),
            None => Ok(()),
        }
    }

    fn write_held(&mut self, reason: impl Fn(u32) -> Option<u8>) -> Result<(), ExportError> {
        let (Some((path, file)), Some(frame)) = (&mut self.csv, &self.held_frame) else { return Ok(()) };
        for held in &self.held {
            write_row(file, frame, held, reason(held.track)).map_err(io_error("write", path))?;
        }
        Ok(())
    }
}

fn write_row(
    file: &mut impl Write,
    frame: &FrameInfo,
    held: &HeldRow,
    reason: Option<u8>,
) -> std::io::Result<()> {
    let (seconds, nanoseconds) = (frame.pts_ns / 1_000_000_000, frame.pts_ns % 1_000_000_000);
    let [x, y] = held.position;
    write!(file, "{},{},{seconds}.{nanoseconds:09},{x:.4},{y:.4},", held.track, frame.number)?;
    match reason {
        Some(number) => writeln!(file, "{number}"),
        None => writeln!(file),
    }
}
