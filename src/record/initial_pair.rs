//! The pair an incremental mapper does best to begin with.
//!
//! A pair can be one with an inlier count COLMAP begins with, a motion and no homography that explains it (config
//! `calibrated` or `uncalibrated`), rays that meet at a median angle that is no mere noise, enough of them wide enough to
//! be points, and inliers that are not in a corner of the picture. The best has the largest product of wide inliers,
//! median angle, share that no homography explains, and spread; a motion straight ahead counts half, because it leaves
//! the depth of what lies ahead open.

use std::cmp::Reverse;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::PairRecord;
use crate::geometry::Config;
use crate::geometry::parallax::Parallax;

/// Inliers COLMAP's mapper begins with (init_min_num_inliers).
const MIN_INLIERS: u32 = 100;
/// Points COLMAP's mapper asks for to register the next image (abs_pose_min_num_inliers).
const MIN_WIDE_INLIERS: u32 = 30;
/// A smaller median angle in degrees is mostly noise.
const MIN_MEDIAN_ANGLE_DEG: f64 = 0.5;
/// Inliers in less of the picture's cells are in a corner of it.
const MIN_SPREAD: f64 = 0.3;
/// Angle in degrees beyond which wider is no better (COLMAP: init_min_tri_angle).
const FULL_ANGLE_DEG: f64 = 16.0;
/// |cosine| to the optical axis above which a motion is straight ahead (COLMAP: init_max_forward_motion).
const MAX_FORWARD: f64 = 0.95;
/// Where the intrinsics are not known, angles are believed where F is so near to an essential matrix.
const MIN_ESSENTIAL_RATIO: f64 = 0.95;

/// The pair, and what speaks for it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct InitialPair {
    /// Image id of the earlier keyframe.
    pub first: u32,
    /// Image id of the later keyframe.
    pub second: u32,
    /// Inlier matches.
    pub inliers: u32,
    /// What they tell of depth.
    #[serde(flatten)]
    pub parallax: Parallax,
    /// Whether the camera moves straight ahead or back.
    pub forward_only: bool,
}

/// Why no pair was chosen: how many of the verified pairs failed at which test first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Refused {
    verified: u32,
    homographies: u32,
    few_inliers: u32,
    narrow: u32,
    unbelieved: u32,
    crowded: u32,
}

/// The best pair; where two are equally good, the one with the lower ids.
///
/// # Errors
/// No pair is good enough.
pub fn choose(pairs: &[PairRecord]) -> Result<InitialPair, Refused> {
    let mut refused = Refused::default();
    let mut best: Option<(f64, InitialPair)> = None;
    for pair in pairs {
        let Some(candidate) = refused.test(pair) else { continue };
        let score = score(&candidate.parallax, candidate.forward_only);
        let rank = |score: f64, pair: &InitialPair| (score, Reverse((pair.first, pair.second)));
        if best.as_ref().is_none_or(|(s, p)| rank(score, &candidate) > rank(*s, p)) {
            best = Some((score, candidate));
        }
    }
    best.map(|(_, pair)| pair).ok_or(refused)
}

fn score(parallax: &Parallax, forward_only: bool) -> f64 {
    let angle = (parallax.median_angle_deg / FULL_ANGLE_DEG).min(1.0);
    let direction = if forward_only { 0.5 } else { 1.0 };
    f64::from(parallax.wide_inliers) * angle * (1.0 - parallax.homography_share) * parallax.spread * direction
}

impl Refused {
    /// The pair as a candidate, or none and the reason counted.
    fn test(&mut self, pair: &PairRecord) -> Option<InitialPair> {
        let config = pair.config?;
        self.verified += 1;
        let parallax = pair.parallax.filter(|_| matches!(config, Config::Calibrated | Config::Uncalibrated));
        let Some(parallax) = parallax else {
            self.homographies += 1;
            return None;
        };
        let failed = if pair.inliers < MIN_INLIERS {
            &mut self.few_inliers
        } else if parallax.essential_ratio < MIN_ESSENTIAL_RATIO {
            &mut self.unbelieved
        } else if parallax.median_angle_deg < MIN_MEDIAN_ANGLE_DEG || parallax.wide_inliers < MIN_WIDE_INLIERS
        {
            &mut self.narrow
        } else if parallax.spread < MIN_SPREAD {
            &mut self.crowded
        } else {
            let PairRecord { first, second, inliers, .. } = *pair;
            let forward_only = parallax.forward > MAX_FORWARD;
            return Some(InitialPair { first, second, inliers, parallax, forward_only });
        };
        *failed += 1;
        None
    }

    /// Whether there was a verified pair at all.
    pub fn any_verified(&self) -> bool {
        self.verified > 0
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reasons = [
            (self.homographies, "show a rotation or a plane".to_owned()),
            (self.few_inliers, format!("have fewer than {MIN_INLIERS} inliers")),
            (self.unbelieved, "do not fit the assumed focal length".to_owned()),
            (self.narrow, "have too little parallax".to_owned()),
            (self.crowded, "have all inliers in a corner".to_owned()),
        ];
        let reasons = reasons.iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("{n} {what}"));
        let reasons: Vec<String> = reasons.collect();
        write!(f, "of {} verified pairs {}", self.verified, reasons.join(", "))
    }
}

#[cfg(test)]
mod tests;
