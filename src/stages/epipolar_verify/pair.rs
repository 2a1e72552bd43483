//! One pair: point pairs from matches, the geometry, one-to-one inliers.

use std::collections::{BTreeMap, BTreeSet};

use super::View;
use crate::colmap::{image_id_from_keyframe, pair_id};
use crate::geometry::camera::Camera;
use crate::geometry::parallax::Parallax;
use crate::geometry::points::PointPairs;
use crate::geometry::two_view::{TwoView, TwoViewLimits, estimate_two_view};
use crate::geometry::{Config, TwoViewGeometry};
use crate::matching::Guide;
use crate::message::{DescriptorMatch, Match, MergedPair, Source};
use crate::numerics::SplitMix64;

/// What every pair of a keyframe is verified with.
pub(super) struct PairVerifier<'a> {
    pub camera: &'a Camera,
    pub calibrated: bool,
    pub limits: TwoViewLimits,
    pub seed: u64,
}

/// What came of a pair.
pub(super) struct Verified {
    /// The geometry with its inliers; none where verification failed.
    pub geometry: Option<TwoViewGeometry>,
    /// Whether each match of the pair agrees with the geometry, kept as an inlier or not.
    pub agrees: Vec<bool>,
}

/// A geometry, and whether each match agrees with it.
pub(super) type Found = Option<(TwoViewGeometry, Vec<bool>)>;

impl PairVerifier<'_> {
    /// The geometry of the matches of a pair.
    pub(super) fn find(&self, pair: &MergedPair, first: &View, second: &View, ordinal: u32) -> Found {
        self.geometry_of(&pair.matches, first, second, pair_id_of(pair, ordinal))
    }

    /// What was found of a pair, found anew where guided matching has matches that the pair does not have.
    pub(super) fn verify(
        &self,
        (pair, found): (&MergedPair, Found),
        guided: &[DescriptorMatch],
        first: &View,
        second: &View,
        ordinal: u32,
    ) -> Verified {
        let Some(new) = new_matches(guided, &pair.matches) else {
            return self.verified(found, pair.matches.len());
        };
        // Those found by the band come last, so that `agrees` begins with those of the pair.
        let mut matches = pair.matches.clone();
        matches.extend(new);
        let again = self.geometry_of(&matches, first, second, pair_id_of(pair, ordinal));
        self.verified(again.or(found), pair.matches.len())
    }

    /// What guided matching follows; none where there is no band.
    pub(super) fn guide(&self, found: &Found) -> Option<Guide> {
        let (geometry, _) = found.as_ref()?;
        let f = *geometry.f.as_ref().filter(|_| geometry.config != Config::PlanarOrPanoramic)?;
        Some(Guide { f, band_px: self.limits.max_error_px })
    }

    fn verified(&self, found: Found, n_matches: usize) -> Verified {
        let (geometry, mut agrees) =
            found.map_or((None, Vec::new()), |(geometry, agrees)| (Some(geometry), agrees));
        agrees.resize(n_matches, false);
        Verified { geometry, agrees }
    }

    /// The geometry with one-to-one inliers, and whether each match agrees with it.
    fn geometry_of(&self, matches: &[Match], first: &View, second: &View, pair_id: u64) -> Found {
        let candidates = candidates_of(matches, first, second);
        let rays = |[a, b]: [u32; 2]| {
            let ([x1, y1], [x2, y2]) = (first.rays[a as usize]?, second.rays[b as usize]?);
            Some([x1, y1, x2, y2])
        };
        let (candidates, pairs): (Vec<Candidate>, Vec<[f64; 4]>) =
            candidates.into_iter().filter_map(|c| rays(c.points).map(|rays| (c, rays))).unzip();
        let points: PointPairs = pairs.into_iter().collect();
        let mut rng = SplitMix64::new(self.seed, pair_id);
        let TwoView { mut geometry, residuals } =
            estimate_two_view(&points, self.camera, self.calibrated, &self.limits, &mut rng)?;
        let mut agrees = vec![false; matches.len()];
        for (candidate, residual) in candidates.iter().zip(&residuals) {
            for &at in &candidate.matches {
                agrees[at] = *residual < 1.0;
            }
        }
        geometry.inliers = one_to_one(matches, &candidates, &residuals);
        let inliers = geometry.inliers.iter().filter_map(|m| rays([m.first, m.second])).collect();
        geometry.parallax = Parallax::of(&geometry, &inliers, self.camera, self.limits.max_error_px);
        (geometry.inliers.len() >= self.limits.min_inliers).then_some((geometry, agrees))
    }
}

fn pair_id_of(pair: &MergedPair, ordinal: u32) -> u64 {
    let [id1, id2] = [pair.first, ordinal].map(image_id_from_keyframe);
    pair_id(id1, id2) as u64
}

/// Matches that guided matching found and the pair does not have; none where there is nothing new.
fn new_matches(guided: &[DescriptorMatch], matches: &[Match]) -> Option<Vec<Match>> {
    let known =
        |m: &Match| matches.binary_search_by_key(&(m.first, m.second), |m| (m.first, m.second)).is_ok();
    let found =
        guided.iter().map(|m| Match { first: m.first, second: m.second, source: Source::Sift, track: None });
    let new: Vec<Match> = found.filter(|m| !known(m)).collect();
    (!new.is_empty()).then_some(new)
}

/// A pair of points and the matches between their keypoints.
struct Candidate {
    points: [u32; 2],
    /// Indices of matches, the preferred one first.
    matches: Vec<usize>,
}

/// One candidate for each pair of points: several matches between two positions say nothing more than one.
fn candidates_of(matches: &[Match], first: &View, second: &View) -> Vec<Candidate> {
    let mut by_points: BTreeMap<[u32; 2], Vec<usize>> = BTreeMap::new();
    for (at, m) in matches.iter().enumerate() {
        let points = [first.points[m.first as usize], second.points[m.second as usize]];
        by_points.entry(points).or_default().push(at);
    }
    let rank = |at: &usize| match matches[*at].source {
        Source::Both => 0,
        Source::Klt => 1,
        Source::Sift => 2,
    };
    let candidate = |(points, mut matches): ([u32; 2], Vec<usize>)| {
        matches.sort_by_key(rank);
        Candidate { points, matches }
    };
    by_points.into_iter().map(candidate).collect()
}

/// The inliers with each point in one of them at most, by ascending residual; ascending by (first, second).
fn one_to_one(matches: &[Match], candidates: &[Candidate], residuals: &[f64]) -> Vec<Match> {
    let mut order: Vec<usize> = (0..candidates.len()).filter(|i| residuals[*i] < 1.0).collect();
    order.sort_by(|a, b| residuals[*a].total_cmp(&residuals[*b]).then(a.cmp(b)));
    let mut taken = [BTreeSet::new(), BTreeSet::new()];
    let mut inliers = Vec::with_capacity(order.len());
    for i in order {
        let [a, b] = candidates[i].points;
        if taken[0].contains(&a) || taken[1].contains(&b) {
            continue;
        }
        taken[0].insert(a);
        taken[1].insert(b);
        inliers.push(matches[candidates[i].matches[0]]);
    }
    inliers.sort_by_key(|m| (m.first, m.second));
    inliers
}
