//! Weaves the tracks into the keyframe's keypoints: applies the verdict, joins tracks to points, emits the KLT pairs,
//! seeds new tracks. The table goes back to klt_push, so this is the one place it returns from.
//!
//! Rules: seed of the tracker, sections 3.3 and 3.4, as the design settles them.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::device::DeviceError;
use crate::klt::{Corners, KltOptions};
use crate::message::{
    Claim, EndReason, FeaturedFrame, FeaturedKeyframe, FrameLog, JoinedFrame, Keyframe, KltPair, Sizes,
    Track, TrackEnd, TrackRow, TrackTable, TrackerFrame, Verdict,
};
use crate::stages::{RunContext, Stage, StageError};
use points::{Point, points_from_features};

mod join;
mod points;
mod seed;

/// Options of keyframe_join.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct KeyframeJoinOptions {
    /// Largest distance from a track to the point it joins, scaled, 0.1..=8. Larger joins more, and more wrong ones.
    pub join_radius_px: f32,
    /// Whether selected corners fill the room that seeds leave.
    pub fill_ins: bool,
}

impl Default for KeyframeJoinOptions {
    fn default() -> Self {
        KeyframeJoinOptions { join_radius_px: 0.5, fill_ins: true }
    }
}

/// An option of keyframe_join is out of range.
#[derive(Debug, Error)]
#[error("keyframe_join.join_radius_px is {0}, but must be 0.1..=8")]
pub struct KeyframeJoinOptionError(f32);

/// The stage.
pub struct KeyframeJoin {
    options: KeyframeJoinOptions,
}

impl KeyframeJoin {
    /// The stage with checked options.
    ///
    /// # Errors
    /// A radius out of its range.
    pub fn new(options: KeyframeJoinOptions, _: &RunContext) -> Result<Self, KeyframeJoinOptionError> {
        if !(0.1..=8.0).contains(&options.join_radius_px) {
            return Err(KeyframeJoinOptionError(options.join_radius_px));
        }
        Ok(KeyframeJoin { options })
    }

    /// Joins, claims and seeds at a keyframe.
    fn weave(
        &self,
        table: &mut TrackTable,
        kept: &FeaturedKeyframe,
        sizes: Sizes,
    ) -> Result<Woven, DeviceError> {
        let points = points_from_features(&kept.features);
        let radius_px = sizes.scaled(self.options.join_radius_px);
        let assigned = join::assign(&table.tracks, &points, sizes.analysis, radius_px);
        let pairs = join::claim(&mut table.tracks, &points, &assigned, kept.keyframe);
        for track in &mut table.tracks {
            track.at_keyframe = [track.x, track.y];
        }
        let mut woven = Woven { pairs, joined: assigned.len() as u32, seeds: 0, fill_ins: 0 };
        if let Some(tracker) = &kept.tracker {
            let mut claimed = vec![false; points.len()];
            assigned.iter().for_each(|&(_, point)| claimed[point] = true);
            (woven.seeds, woven.fill_ins) = self.refresh(
                table,
                tracker,
                Refresh { points: &points, claimed: &claimed, sizes, keyframe: kept.keyframe },
            )?;
        }
        Ok(woven)
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
            let claim = Claim { keyframe: at.keyframe, keypoint: point.keypoint };
            push_track(table, [point.x, point.y], Some(claim));
        }
        let n_seeds = seeds.len().min(room);
        let room = room - n_seeds;
        if !self.options.fill_ins || room == 0 {
            return Ok((n_seeds as u32, 0));
        }
        let alive: Vec<[f32; 2]> = table.tracks.iter().map(|t| [t.x, t.y]).collect();
        let selected = corners.select(&alive, options, room)?;
        let radius_px = at.sizes.scaled(self.options.join_radius_px);
        let nearest = points::Buckets::new(&positions, at.sizes.analysis, radius_px.max(4.0));
        for corner in &selected {
            let claim = nearest_point([corner.x, corner.y], at.points, &nearest, radius_px)
                .map(|point| Claim { keyframe: at.keyframe, keypoint: point.keypoint });
            push_track(table, [corner.x, corner.y], claim);
        }
        Ok((n_seeds as u32, selected.len() as u32))
    }
}

/// What happened at a keyframe.
struct Woven {
    pairs: Vec<KltPair>,
    joined: u32,
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

fn push_track(table: &mut TrackTable, [x, y]: [f32; 2], claim: Option<Claim>) {
    let claims = claim.into_iter().collect();
    table.tracks.push(Track { id: table.next_id, x, y, age: 0, at_keyframe: [x, y], claims });
    table.next_id += 1;
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
        let mut joined = |kept: FeaturedKeyframe| -> Result<_, DeviceError> {
            let Woven { pairs, joined, seeds, fill_ins } = self.weave(&mut table, &kept, sizes)?;
            let FeaturedKeyframe { keyframe, picture, features, tracker: _ } = kept;
            let info = info.clone();
            let keyframe = Keyframe { keyframe, info, sizes, picture, features, seeds, joined, fill_ins };
            Ok((Arc::new(keyframe), pairs))
        };
        let keyframe = keyframe.map(&mut joined).transpose()?;
        let rows = table.tracks.iter().map(|t| TrackRow { track: t.id, x: t.x, y: t.y }).collect();
        let log = FrameLog { info, sizes, gate, rows, ends };
        Ok((JoinedFrame { log, keyframe }, table))
    }
}

#[cfg(test)]
mod tests;
