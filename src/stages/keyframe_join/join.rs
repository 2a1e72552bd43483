//! Joining: a live track takes over a point of the keyframe that lies where the track is.

use std::collections::BTreeMap;

use super::points::{Buckets, Point, distance2};
use crate::message::{Claim, KltMatch, KltPair, Track};

/// Which point each track joins: `(track index, point index)`, ascending by track.
///
/// Candidates within `radius_px` are taken by ascending distance, then track, then point; a point goes to one track and
/// a track to one point. Tracks must be ascending by id.
pub fn assign(tracks: &[Track], points: &[Point], size: (u32, u32), radius_px: f32) -> Vec<(usize, usize)> {
    let positions: Vec<[f32; 2]> = points.iter().map(|p| [p.x, p.y]).collect();
    let buckets = Buckets::new(&positions, size, radius_px.max(4.0));
    let mut candidates: Vec<(f32, usize, usize)> = Vec::new();
    for (track_idx, track) in tracks.iter().enumerate() {
        for point_idx in buckets.near([track.x, track.y]) {
            let d2 = distance2([track.x, track.y], positions[point_idx]);
            if d2 <= radius_px * radius_px {
                candidates.push((d2, track_idx, point_idx));
            }
        }
    }
    candidates.sort_by(|a, b| a.0.total_cmp(&b.0).then((a.1, a.2).cmp(&(b.1, b.2))));
    let mut track_taken = vec![false; tracks.len()];
    let mut point_taken = vec![false; points.len()];
    let mut assigned = Vec::new();
    for (_, track_idx, point_idx) in candidates {
        if !track_taken[track_idx] && !point_taken[point_idx] {
            (track_taken[track_idx], point_taken[point_idx]) = (true, true);
            assigned.push((track_idx, point_idx));
        }
    }
    assigned.sort_unstable();
    assigned
}

/// The matches that tracks give a keyframe.
pub struct Claims {
    keyframe: u32,
    matched_back: u32,
    pairs: BTreeMap<u32, Vec<KltMatch>>,
}

impl Claims {
    /// None yet. A claim is matched with the track's latest, with those in each of the last `matched_back` keyframes, and
    /// 2, 4, 8 ... times as many keyframes back.
    pub fn new(keyframe: u32, matched_back: u32) -> Claims {
        Claims { keyframe, matched_back, pairs: BTreeMap::new() }
    }

    /// Gives a track its claim on a keypoint of the keyframe.
    pub fn claim(&mut self, track: &mut Track, keypoint: u32) {
        for (at, earlier) in track.claims.iter().enumerate() {
            let is_latest = at + 1 == track.claims.len();
            if is_latest || self.is_matched(self.keyframe - earlier.keyframe) {
                let found = KltMatch { first: earlier.keypoint, second: keypoint, track: track.id };
                self.pairs.entry(earlier.keyframe).or_default().push(found);
            }
        }
        track.claims.push(Claim { keyframe: self.keyframe, keypoint });
    }

    fn is_matched(&self, back: u32) -> bool {
        back <= self.matched_back
            || (back.is_multiple_of(self.matched_back) && (back / self.matched_back).is_power_of_two())
    }

    /// The pairs, ascending by earlier keyframe.
    pub fn into_pairs(self) -> Vec<KltPair> {
        self.pairs
            .into_iter()
            .map(|(first, mut matches)| {
                matches.sort_unstable_by_key(|m| (m.first, m.second));
                KltPair { first, matches }
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn track(id: u32, x: f32, y: f32, claims: &[(u32, u32)]) -> Track {
        let claims = claims.iter().map(|&(keyframe, keypoint)| Claim { keyframe, keypoint }).collect();
        Track {
            id,
            x,
            y,
            age: 5,
            at_keyframe: [x, y],
            seed_keyframe: 0,
            scale: 2.0,
            zoom: Some(1.0),
            seen: true,
            claims,
        }
    }

    fn point(x: f32, y: f32, keypoint: u32) -> Point {
        Point { x, y, keypoint, scale: 2.0 }
    }

    #[test]
    fn nearest_pair_is_taken_first_and_the_loser_stays() {
        // Track 3 is nearer to the point both want; track 1 gets the other point, further away.
        let tracks = [track(1, 10.0, 10.0, &[]), track(3, 10.6, 10.0, &[])];
        let points = [point(10.5, 10.0, 0), point(9.2, 10.0, 2)];
        assert_eq!(assign(&tracks, &points, (64, 48), 1.0), vec![(0, 1), (1, 0)]);
        assert_eq!(assign(&tracks, &points[..1], (64, 48), 1.0), vec![(1, 0)]);
    }

    #[test]
    fn equal_distances_go_to_the_lower_track() {
        let tracks = [track(1, 9.5, 10.0, &[]), track(2, 10.5, 10.0, &[])];
        assert_eq!(assign(&tracks, &[point(10.0, 10.0, 0)], (64, 48), 1.0), vec![(0, 0)]);
    }

    #[test]
    fn the_radius_is_a_bound_and_inclusive() {
        let tracks = [track(1, 10.0, 10.0, &[])];
        assert_eq!(assign(&tracks, &[point(11.0, 10.0, 0)], (64, 48), 1.0).len(), 1);
        assert_eq!(assign(&tracks, &[point(11.001, 10.0, 0)], (64, 48), 1.0).len(), 0);
        // Across a cell border and at the edge of the picture.
        assert_eq!(assign(&[track(1, 63.9, 47.9, &[])], &[point(64.4, 48.2, 0)], (64, 48), 1.0).len(), 1);
    }

    #[test]
    fn matches_are_of_each_track_and_ascend() {
        let mut tracks =
            [track(1, 5.0, 5.0, &[(0, 7), (2, 9)]), track(4, 8.0, 5.0, &[(2, 3)]), track(6, 9.0, 9.0, &[])];
        let mut claims = Claims::new(3, 3);
        tracks.iter_mut().zip([11, 13, 17]).for_each(|(track, keypoint)| claims.claim(track, keypoint));
        let m = |first, second, track| KltMatch { first, second, track };
        assert_eq!(
            claims.into_pairs(),
            vec![
                KltPair { first: 0, matches: vec![m(7, 11, 1)] },
                KltPair { first: 2, matches: vec![m(3, 13, 4), m(9, 11, 1)] }
            ]
        );
        assert_eq!(tracks[2].claims, vec![Claim { keyframe: 3, keypoint: 17 }]);
    }

    #[test]
    fn a_claim_matches_the_latest_and_ever_farther_claims() {
        let every: Vec<(u32, u32)> = (0..30).map(|keyframe| (keyframe, 100 + keyframe)).collect();
        let back = |matched_back, claims: &[(u32, u32)]| {
            let mut claims_of_keyframe = Claims::new(30, matched_back);
            claims_of_keyframe.claim(&mut track(1, 5.0, 5.0, claims), 11);
            claims_of_keyframe.into_pairs().iter().rev().map(|pair| 30 - pair.first).collect::<Vec<_>>()
        };
        assert_eq!(back(1, &every), [1, 2, 4, 8, 16]);
        assert_eq!(back(3, &every), [1, 2, 3, 6, 12, 24]);
        assert_eq!(back(1000, &every), (1..=30).collect::<Vec<_>>());
        assert_eq!(back(3, &[(2, 1), (6, 9), (18, 4), (26, 7), (28, 3)]), [2, 12, 24]);
        // After a gap the track goes on.
        assert_eq!(back(3, &[(0, 1), (19, 1)]), [11]);
    }
}
