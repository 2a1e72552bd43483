//! Tracks every live track into the next frame: pyramid, forward, backward, check, anchor; ends 1 to 5 and 7.

use thiserror::Error;

pub use crate::klt::{KltOptionError, KltPushOptions};

use crate::device::Device;
use crate::kernels::klt_track::TrackRecord;
use crate::klt::{KltOptions, Tracker};
use crate::message::{EndReason, GrayFrame, Track, TrackEnd, TrackTable, TrackedFrame, TrackerFrame};
use crate::stages::{RunContext, Stage, StageError};

/// The stage. The tracker is made at the first frame.
pub struct KltPush {
    options: KltPushOptions,
    device: Device,
    tracker: Option<Tracker>,
}

/// Tracking cannot go on.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum KltPushError {
    /// Two frames of one run differ in size.
    #[error(
        "frame {frame} is {}x{} at analysis size, but the frame before is {}x{}: give one video or pictures of one size",
        now.0, now.1, before.0, before.1
    )]
    SizeChanged {
        /// Number of the frame.
        frame: u64,
        /// Its width and height.
        now: (usize, usize),
        /// Width and height of the frame before.
        before: (usize, usize),
    },
}

impl KltPush {
    /// A stage that has seen no frame.
    ///
    /// # Errors
    /// An option is out of its range.
    pub fn new(options: KltPushOptions, context: &RunContext) -> Result<KltPush, KltOptionError> {
        options.check()?;
        Ok(KltPush { options, device: context.device.clone(), tracker: None })
    }

    /// The tracker, for pictures of the size of `frame`'s.
    fn tracker(&mut self, frame: &GrayFrame) -> Result<&mut Tracker, StageError> {
        let now = frame.gray.size();
        match &mut self.tracker {
            Some(tracker) if tracker.size() != now => {
                let before = tracker.size();
                Err(KltPushError::SizeChanged { frame: frame.info.number, now, before }.into())
            }
            Some(tracker) => Ok(tracker),
            none => Ok(none.insert(Tracker::new(&self.device, self.options.for_size(now.0, now.1), now)?)),
        }
    }
}

impl Stage for KltPush {
    type Takes = (GrayFrame, TrackTable);
    type Gives = TrackedFrame;

    fn fire(&mut self, (frame, mut tracks): Self::Takes) -> Result<TrackedFrame, StageError> {
        let tracker = self.tracker(&frame)?;
        let starts: Vec<_> = tracks.tracks.iter().map(|t| TrackRecord::start(t.x, t.y)).collect();
        let ids: Vec<_> = tracks.tracks.iter().map(|t| t.id).collect();
        let records = tracker.push(&frame.gray, &ids, &starts)?;
        let options = tracker.options().clone();
        let ends;
        (tracks.tracks, ends) = advance(tracks.tracks, &records, &options);
        let tracker = Some(TrackerFrame { structure: tracker.structure(), options });
        let GrayFrame { info, picture, gray, sizes } = frame;
        Ok(TrackedFrame { info, picture, gray, sizes, tracker, tracks, ends })
    }
}

/// Moves the tracks that live on to their records' positions; the others end.
fn advance(tracks: Vec<Track>, records: &[TrackRecord], options: &KltOptions) -> (Vec<Track>, Vec<TrackEnd>) {
    let mut alive = Vec::with_capacity(tracks.len());
    let mut ends = Vec::new();
    for (track, record) in tracks.into_iter().zip(records) {
        let age = track.age + 1;
        let reason = record.reason().or((age > options.max_age_frames).then_some(EndReason::Age));
        match reason {
            Some(reason) => ends.push(TrackEnd { track: track.id, reason }),
            None => alive.push(moved(Track { age, ..track }, record, options)),
        }
    }
    (alive, ends)
}

/// The track where its record says it is.
fn moved(track: Track, record: &TrackRecord, options: &KltOptions) -> Track {
    let TrackRecord { x, y, measure, .. } = *record;
    let zoom = if record.is_seen() { Some(measure) } else { track.zoom };
    let grown = track.zoom.zip(zoom).map_or(1.0, |(before, now)| now / before);
    let scale = track.scale * grown;
    Track { x, y, zoom, scale, seen: record.is_seen() || !options.anchor, ..track }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::gray::Gray;
    use crate::message::{FrameInfo, Sizes, VideoInfo};
    use crate::picture::{ColorMatrix, GrayImage, Picture, PixelLayout};

    /// A texture of 80 x 60 that moves right by `shift` pixels.
    fn frame(number: u64, shift: f32, size: (usize, usize)) -> GrayFrame {
        let mut gray = GrayImage::new(size.0, size.1);
        for (i, value) in gray.data.iter_mut().enumerate() {
            let (x, y) = ((i % size.0) as f32 - shift, (i / size.0) as f32);
            *value = 0.5
                + 0.2 * (0.31 * x + 0.1 * y).sin() * (0.27 * y - 0.04 * x).cos()
                + 0.1 * (0.13 * x * y / 40.0).sin();
        }
        let picture = Picture {
            width: size.0 as u32,
            height: size.1 as u32,
            pixel_aspect: (1, 1),
            layout: PixelLayout::Gray,
            matrix: ColorMatrix::Bt601,
            full_range: true,
            planes: Vec::new(),
        };
        let analysis = (size.0 as u32, size.1 as u32);
        let info =
            FrameInfo { index: number as u32, number, pts_ns: 0, video: Arc::new(VideoInfo::default()) };
        let sizes = Sizes { analysis, exported: analysis, scale: 1.0 };
        GrayFrame { info, picture: Arc::new(picture), gray: Gray::Host(Arc::new(gray)), sizes }
    }

    fn stage(options: KltPushOptions) -> KltPush {
        KltPush::new(options, &RunContext::default()).expect("valid options")
    }

    fn table(positions: &[[f32; 2]]) -> TrackTable {
        let track = |(i, &[x, y]): (usize, &[f32; 2])| Track {
            id: 10 + i as u32,
            x,
            y,
            age: 0,
            at_keyframe: [x, y],
            seed_keyframe: 0,
            scale: 2.0,
            zoom: Some(1.0),
            seen: true,
            claims: Vec::new(),
        };
        TrackTable { tracks: positions.iter().enumerate().map(track).collect(), next_id: 99, whole: true }
    }

    #[test]
    fn tracks_move_and_age_and_end_with_their_reason() {
        let mut stage = stage(KltPushOptions { max_age_frames: Some(2), ..Default::default() });
        let first = stage.fire((frame(0, 0.0, (80, 60)), TrackTable::default())).expect("first frame");
        assert!(first.tracks.tracks.is_empty() && first.ends.is_empty());
        let start = table(&[[30.0, 30.0], [78.6, 30.0], [45.0, 28.0]]);
        let second = stage.fire((frame(1, 1.5, (80, 60)), start)).expect("second frame");
        assert_eq!(second.ends, [TrackEnd { track: 11, reason: EndReason::OutOfFrame }]);
        assert_eq!((second.tracks.next_id, second.tracks.whole), (99, true));
        for (track, (id, x, y)) in second.tracks.tracks.iter().zip([(10, 31.5, 30.0), (12, 46.5, 28.0)]) {
            assert_eq!((track.id, track.age), (id, 1));
            assert!((track.x - x).hypot(track.y - y) < 0.1, "track {id} at ({}, {})", track.x, track.y);
            assert_eq!(track.at_keyframe, [x - 1.5, y]);
        }
        let third = stage.fire((frame(2, 3.0, (80, 60)), second.tracks)).expect("third frame");
        assert_eq!(third.tracks.tracks.iter().map(|t| (t.id, t.age)).collect::<Vec<_>>(), [(10, 2), (12, 2)]);
        let fourth = stage.fire((frame(3, 4.5, (80, 60)), third.tracks)).expect("fourth frame");
        let aged = |track| TrackEnd { track, reason: EndReason::Age };
        assert_eq!((fourth.tracks.tracks.len(), fourth.ends), (0, vec![aged(10), aged(12)]));
    }

    /// The same texture from a camera that turns about its axis by 2 degrees a frame and comes nearer by 2 %, and where
    /// that shows (x, y).
    fn turning(number: u64, [x, y]: [f32; 2]) -> [f32; 2] {
        let (sin, cos) = (number as f32 * 0.035).sin_cos();
        let (zoom, x, y) = (1.02f32.powi(number as i32), x - 80.0, y - 60.0);
        [80.0 + zoom * (cos * x - sin * y), 60.0 + zoom * (sin * x + cos * y)]
    }

    fn turning_frame(number: u64) -> GrayFrame {
        let mut frame = frame(number, 0.0, (160, 120));
        let mut gray = GrayImage::new(160, 120);
        let (sin, cos) = (number as f32 * 0.035).sin_cos();
        let zoom = 1.02f32.powi(number as i32);
        for (i, value) in gray.data.iter_mut().enumerate() {
            let (x, y) = ((i % 160) as f32 - 80.0, (i / 160) as f32 - 60.0);
            let (x, y) = ((cos * x + sin * y) / zoom, (cos * y - sin * x) / zoom);
            *value = 0.5
                + 0.15 * (0.61 * x + 0.2 * y).sin() * (0.54 * y - 0.1 * x).cos()
                + 0.1 * (0.4 * x - 0.33 * y + 0.01 * x * y).sin();
        }
        frame.gray = Gray::Host(Arc::new(gray));
        frame
    }

    /// The table after `n_frames` of the turning camera; `before` changes it before every frame.
    fn turn(options: KltPushOptions, n_frames: u64, before: impl Fn(u64, &mut TrackTable)) -> TrackTable {
        let mut stage = stage(options);
        let points: Vec<_> =
            (0..48).map(|i| [50.3 + (i % 8) as f32 * 8.4, 35.6 + (i / 8) as f32 * 9.3]).collect();
        let mut tracks = table(&points);
        stage.fire((turning_frame(0), TrackTable::default())).expect("first frame");
        for number in 1..=n_frames {
            before(number, &mut tracks);
            tracks = stage.fire((turning_frame(number), tracks)).expect("a frame").tracks;
        }
        tracks
    }

    #[test]
    fn an_anchored_track_does_not_drift() {
        let median_error = |anchor| {
            // Few, so that a step needs what the one before found.
            let options =
                KltPushOptions { anchor: Some(anchor), anchor_iterations: Some(3), ..Default::default() };
            let tracks = turn(options, 12, |_, _| ());
            let mut errors: Vec<f32> = tracks
                .tracks
                .iter()
                .map(|track| {
                    let [x, y] = turning(12, track.at_keyframe);
                    (track.x - x).hypot(track.y - y)
                })
                .collect();
            assert!(errors.len() >= 40, "{} of 48 live", errors.len());
            errors.sort_by(f32::total_cmp);
            errors[errors.len() / 2]
        };
        let (anchored, free) = (median_error(true), median_error(false));
        assert!(anchored < 0.5 * free && anchored < 0.05, "{anchored} px with the anchor, {free} without");
    }

    #[test]
    fn a_track_knows_how_large_its_seed_is_seen() {
        // From frame 7 on it has joined a keypoint of another scale.
        let rejoin = |number, tracks: &mut TrackTable| {
            if number == 7 {
                tracks.tracks.iter_mut().for_each(|track| track.scale = 5.0);
            }
        };
        let tracks = turn(KltPushOptions::default(), 12, rejoin);
        let seen = tracks.tracks.iter().filter(|track| track.seen);
        let off = |track: &Track| {
            let zoom = track.zoom.expect("it was seen");
            let (zoom, since) = (zoom / 1.02f32.powi(12), track.scale / (5.0 * 1.02f32.powi(6)));
            (zoom - 1.0).abs().max((since - 1.0).abs())
        };
        let mut off: Vec<f32> = seen.map(off).collect();
        off.sort_by(f32::total_cmp);
        assert!(off.len() >= 40 && off[off.len() / 2] < 0.02, "{off:?}");

        // Nothing is known where tracks are not aligned, and nothing asked.
        let free = turn(KltPushOptions { anchor: Some(false), ..Default::default() }, 12, rejoin);
        assert!(free.tracks.iter().all(|track| track.seen && track.zoom == Some(1.0) && track.scale == 5.0));
    }

    #[test]
    fn what_is_not_seen_changes_no_scale() {
        let options = KltOptions::for_size(80, 60);
        let mut track = table(&[[30.0, 30.0]]).tracks.remove(0);
        let unseen = TrackRecord::start(31.0, 30.0);
        let mut scales = Vec::new();
        for record in [unseen.seen(1.5), unseen, unseen.seen(3.0)] {
            track = moved(track, &record, &options);
            scales.push((track.seen, track.scale, track.zoom));
        }
        assert_eq!(scales, [(true, 3.0, Some(1.5)), (false, 3.0, Some(1.5)), (true, 6.0, Some(3.0))]);
        // Joined while it was not seen, it begins anew when it is.
        track.zoom = None;
        track = moved(track, &unseen.seen(4.5), &options);
        assert_eq!((track.scale, track.zoom), (6.0, Some(4.5)));
    }

    #[test]
    fn a_join_keeps_the_anchor() {
        let joined = turn(KltPushOptions::default(), 8, |number, tracks| {
            if number == 4 {
                tracks.tracks.iter_mut().for_each(|track| track.age = 0);
            }
        });
        let unjoined = turn(KltPushOptions::default(), 8, |_, _| ());
        let positions =
            |table: &TrackTable| table.tracks.iter().map(|t| (t.id, t.x, t.y)).collect::<Vec<_>>();
        assert_eq!(positions(&joined), positions(&unjoined));
    }

    #[test]
    fn a_seed_that_follows_a_lost_track_gets_an_anchor_of_its_own() {
        // At the last frame half of the tracks make room for seeds elsewhere.
        let seed = |number: u64, tracks: &mut TrackTable| {
            if number == 5 {
                tracks.tracks.retain(|track| track.id % 2 == 0);
                let seeds = table(&[[61.2, 52.7], [95.4, 70.1], [72.9, 80.3]]).tracks;
                tracks.tracks.extend(seeds.into_iter().map(|track| Track { id: track.id + 100, ..track }));
            }
        };
        let crowded = turn(KltPushOptions::default(), 5, seed);
        let alone = turn(KltPushOptions::default(), 5, |number, tracks| {
            seed(number, tracks);
            tracks.tracks.retain(|track| track.id >= 100);
        });
        let seeded: Vec<_> = crowded.tracks.iter().filter(|track| track.id >= 100).cloned().collect();
        assert_eq!((alone.tracks.len(), &alone.tracks), (3, &seeded));
    }

    #[test]
    fn a_change_of_size_is_an_error() {
        let mut stage = stage(KltPushOptions::default());
        stage.fire((frame(0, 0.0, (80, 60)), TrackTable::default())).expect("first frame");
        let error = stage.fire((frame(7, 0.0, (60, 80)), TrackTable::default())).expect_err("another size");
        assert_eq!(
            error.to_string(),
            "frame 7 is 60x80 at analysis size, but the frame before is 80x60: give one video or pictures of one size"
        );
    }
}
