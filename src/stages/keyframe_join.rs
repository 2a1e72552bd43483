//! Weaves the tracks into the keyframe's keypoints: applies the verdict, joins tracks to points, makes keypoints of those
//! that find none, emits the KLT pairs, seeds new tracks. The table goes back to klt_push, so this is the one place it returns from.
//!
//! Rules: seed of the tracker, sections 3.3 and 3.4, as the design settles them.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::device::DeviceError;
use crate::klt::{Corners, KltOptions};
use crate::message::{
    Claim, EndReason, FeaturedFrame, FeaturedKeyframe, Features, FrameLog, JoinedFrame, Keyframe, KltPair,
    Sizes, Track, TrackEnd, TrackKeypoint, TrackRow, TrackTable, TrackerFrame, Verdict,
};
use crate::stages::{RunContext, Stage, StageError};
use points::{Point, points_from_features};

mod join;
mod points;
mod seed;
mod stand;

/// Scale of a corner that is no keypoint, scaled: about that of most keypoints.
const CORNER_SCALE_PX: f32 = 2.0;

/// Options of keyframe_join.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct KeyframeJoinOptions {
    /// Largest distance from a track to the point it joins, scaled, 0.1..=8. Larger joins more, and more wrong ones.
    pub join_radius_px: f32,
    /// Selected corners fill the room that seeds leave at keyframes with fewer points of SIFT than this, 0..=100000. Larger
    /// tracks more corners that SIFT does not find, and more that slide along edges.
    pub fill_ins_below: u32,
    /// Whether a track that finds no keypoint to join becomes one where it is. Without, it joins where SIFT finds its point
    /// again, and most tracks do not.
    pub whole_tracks: bool,
    /// A track's keypoint is matched with the track's keypoints in so many keyframes before, 1..=10000, and in those 2, 4,
    /// 8 ... times as many back. Larger gives the mapper more pairs, few of which add anything.
    pub matched_back: u32,
}

impl Default for KeyframeJoinOptions {
    fn default() -> Self {
        KeyframeJoinOptions {
            join_radius_px: 0.5,
            fill_ins_below: 1000,
            whole_tracks: true,
            matched_back: 10,
        }
    }
}

impl KeyframeJoinOptions {
    fn check(&self) -> Result<(), KeyframeJoinOptionError> {
        let checks = [
            ("join_radius_px", self.join_radius_px as f64, 0.1..=8.0, "0.1..=8"),
            ("fill_ins_below", self.fill_ins_below as f64, 0.0..=1e5, "0..=100000"),
            ("matched_back", self.matched_back as f64, 1.0..=1e4, "1..=10000"),
        ];
        for (option, value, allowed, range) in checks {
            if !allowed.contains(&value) {
                return Err(KeyframeJoinOptionError { option, value, range });
            }
        }
        Ok(())
    }
}

/// An option of keyframe_join is out of range.
#[derive(Debug, Error)]
#[error("keyframe_join.{option} is {value}, but must be {range}")]
pub struct KeyframeJoinOptionError {
    option: &'static str,
    value: f64,
    range: &'static str,
}

/// The stage.
pub struct KeyframeJoin {
    options: KeyframeJoinOptions,
}

impl KeyframeJoin {
    /// The stage with checked options.
    ///
    /// # Errors
    /// One is out of its range.
    pub fn new(options: KeyframeJoinOptions, _: &RunContext) -> Result<Self, KeyframeJoinOptionError> {
        options.check()?;
        Ok(KeyframeJoin { options })
    }

    /// Joins, claims and seeds at a keyframe. Keypoints of tracks go behind the others.
    fn weave(
        &self,
        table: &mut TrackTable,
        kept: &mut FeaturedKeyframe,
        sizes: Sizes,
    ) -> Result<Woven, DeviceError> {
        let points = points_from_features(&kept.features);
        let radius_px = sizes.scaled(self.options.join_radius_px);
        let assigned = join::assign(&table.tracks, &points, sizes.analysis, radius_px);
        let mut claims = join::Claims::new(kept.keyframe, self.options.matched_back);
        for &(track, point) in &assigned {
            let (track, point) = (&mut table.tracks[track], &points[point]);
            claims.claim(track, point.keypoint);
            (track.age, track.scale) = (0, point.scale);
            track.zoom = track.zoom.filter(|_| track.seen);
        }
        let standing = self.standing(&table.tracks, &assigned, &kept.track_keypoints, &points, sizes);
        for &(track, of_track) in &standing {
            let (track, of_track) = (&mut table.tracks[track], &kept.track_keypoints[of_track]);
            claims.claim(track, push_keypoint(&mut kept.features, of_track));
        }
        for track in &mut table.tracks {
            track.at_keyframe = [track.x, track.y];
        }
        let mut woven = Woven {
            pairs: claims.into_pairs(),
            joined: assigned.len() as u32,
            track_keypoints: standing.len() as u32,
            seeds: 0,
            fill_ins: 0,
        };
        if let Some(tracker) = &kept.tracker {
            let mut claimed = vec![false; points.len()];
            assigned.iter().for_each(|&(_, point)| claimed[point] = true);
            (woven.seeds, woven.fill_ins) = self.refresh(
                table,
                tracker,
                Refresh { points: &points, claimed: &claimed, sizes, keyframe: kept.keyframe },
            )?;
        }
        table.whole = self.options.whole_tracks;
        Ok(woven)
    }

    /// Tracks that become keypoints: `(track index, index in described)`; `assigned` have joined.
    fn standing(
        &self,
        tracks: &[Track],
        assigned: &[(usize, usize)],
        described: &[TrackKeypoint],
        points: &[Point],
        sizes: Sizes,
    ) -> Vec<(usize, usize)> {
        let mut joined = vec![false; tracks.len()];
        assigned.iter().for_each(|&(track, _)| joined[track] = true);
        let positions = positions_of(points);
        let choice = stand::Choice {
            joined: &joined,
            positions: &positions,
            size: sizes.analysis,
            distance_px: sizes.scaled(self.options.join_radius_px),
        };
        choice.stand(tracks, described)
    }

    /// Fills the room in the table: unclaimed points first, then selected corners. Returns how many of each.
    fn refresh(
        &self,
        table: &mut TrackTable,
        tracker: &TrackerFrame,
        at: Refresh,
    ) -> Result<(u32, u32), DeviceError> {
        let options = &*tracker.options;
        let positions = positions_of(at.points);
        let corners = tracker.structure.corners(options, &positions)?;
        let alive: Vec<[f32; 2]> = table.tracks.iter().map(|t| [t.x, t.y]).collect();
        let room = (options.capacity as usize).saturating_sub(alive.len());
        let seeds = seed_points(&at, &alive, &corners, options);
        for &index in seeds.iter().take(room) {
            let point = &at.points[index];
            push_track(table, [point.x, point.y], &at, Some(point));
        }
        let n_seeds = seeds.len().min(room);
        let room = room - n_seeds;
        if at.points.len() >= self.options.fill_ins_below as usize || room == 0 {
            return Ok((n_seeds as u32, 0));
        }
        let alive: Vec<[f32; 2]> = table.tracks.iter().map(|t| [t.x, t.y]).collect();
        let selected = corners.select(&alive, options, room)?;
        let radius_px = at.sizes.scaled(self.options.join_radius_px);
        let nearest = points::Buckets::new(&positions, at.sizes.analysis, radius_px.max(4.0));
        for corner in &selected {
            let point = nearest_point([corner.x, corner.y], at.points, &nearest, radius_px);
            push_track(table, [corner.x, corner.y], &at, point);
        }
        Ok((n_seeds as u32, selected.len() as u32))
    }
}

/// What happened at a keyframe.
struct Woven {
    pairs: Vec<KltPair>,
    joined: u32,
    track_keypoints: u32,
    seeds: u32,
    fill_ins: u32,
}

/// Where new tracks are sought.
struct Refresh<'a> {
    points: &'a [Point],
    claimed: &'a [bool],
    sizes: Sizes,
    keyframe: u32,
}

/// Points that become seeds, the best first.
fn seed_points(at: &Refresh, alive: &[[f32; 2]], corners: &Corners, options: &KltOptions) -> Vec<usize> {
    let threshold = options.quality_level * corners.largest;
    let candidates = seed::candidates(
        at.points,
        at.claimed,
        alive,
        at.sizes.analysis,
        options.min_distance_px,
        &corners.at_points,
        threshold,
    );
    seed::order_by_cell(&candidates, at.points, at.sizes.analysis)
}

fn positions_of(points: &[Point]) -> Vec<[f32; 2]> {
    points.iter().map(|p| [p.x, p.y]).collect()
}

fn nearest_point<'a>(
    position: [f32; 2],
    points: &'a [Point],
    buckets: &points::Buckets,
    radius_px: f32,
) -> Option<&'a Point> {
    buckets
        .near(position)
        .map(|index| (points::distance2(position, [points[index].x, points[index].y]), index))
        .filter(|&(d2, _)| d2 <= radius_px * radius_px)
        .min_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)))
        .map(|(_, index)| &points[index])
}

/// Seeds a track; `point` is the one it claims.
fn push_track(table: &mut TrackTable, [x, y]: [f32; 2], at: &Refresh, point: Option<&Point>) {
    let claim = |point: &Point| Claim { keyframe: at.keyframe, keypoint: point.keypoint };
    table.tracks.push(Track {
        id: table.next_id,
        x,
        y,
        age: 0,
        at_keyframe: [x, y],
        seed_keyframe: at.keyframe,
        scale: point.map_or(at.sizes.scaled(CORNER_SCALE_PX), |point| point.scale),
        zoom: Some(1.0),
        seen: true,
        claims: point.map(claim).into_iter().collect(),
    });
    table.next_id += 1;
}

/// Adds a track's keypoint and gives its index.
fn push_keypoint(features: &mut Features, of_track: &TrackKeypoint) -> u32 {
    features.keypoints.push(of_track.keypoint);
    features.descriptors.push(of_track.descriptor);
    features.keypoints.len() as u32 - 1
}

/// Takes rejected tracks out of the table; those that ended already are not named again.
fn apply_verdict(table: &mut TrackTable, verdict: &Verdict, ends: &mut Vec<TrackEnd>) {
    table.tracks.retain(|track| {
        let rejected = verdict.rejected.binary_search(&track.id).is_ok();
        if rejected {
            ends.push(TrackEnd { track: track.id, reason: EndReason::Epipolar });
        }
        !rejected
    });
}

impl Stage for KeyframeJoin {
    type Takes = (FeaturedFrame, Verdict);
    type Gives = (JoinedFrame, TrackTable);

    fn fire(&mut self, (frame, verdict): Self::Takes) -> Result<Self::Gives, StageError> {
        let FeaturedFrame { info, sizes, gate, tracks: mut table, mut ends, keyframe } = frame;
        apply_verdict(&mut table, &verdict, &mut ends);
        let mut joined = |mut kept: FeaturedKeyframe| -> Result<_, DeviceError> {
            let woven = self.weave(&mut table, &mut kept, sizes)?;
            let keyframe = Keyframe {
                keyframe: kept.keyframe,
                info: info.clone(),
                sizes,
                picture: kept.picture,
                features: Arc::new(kept.features),
                track_keypoints: woven.track_keypoints,
                seeds: woven.seeds,
                joined: woven.joined,
                fill_ins: woven.fill_ins,
            };
            Ok((Arc::new(keyframe), woven.pairs))
        };
        let keyframe = keyframe.map(&mut joined).transpose()?;
        let rows = table.tracks.iter().map(|t| TrackRow { track: t.id, x: t.x, y: t.y }).collect();
        let log = FrameLog { info, sizes, gate, rows, ends };
        Ok((JoinedFrame { log, keyframe }, table))
    }
}

#[cfg(test)]
mod tests;
