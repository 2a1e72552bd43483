//! Standing: a live track without a keypoint to join becomes one where it is.

use std::collections::HashMap;

use super::points::{Buckets, distance2};
use crate::message::{Track, TrackKeypoint};

/// What decides which tracks become keypoints.
pub struct Choice<'a> {
    /// Whether each track has joined.
    pub joined: &'a [bool],
    /// Where SIFT's keypoints are.
    pub positions: &'a [[f32; 2]],
    /// Size of the picture.
    pub size: (u32, u32),
    /// Least distance to another keypoint.
    pub distance_px: f32,
}

impl Choice<'_> {
    /// Tracks that become keypoints, `(track index, index in described)`: of those that are `described` and have
    /// not joined, the older first; none too near to a keypoint of SIFT or of a track before it.
    ///
    /// `tracks` and `described` must be ascending by track.
    pub fn stand(&self, tracks: &[Track], described: &[TrackKeypoint]) -> Vec<(usize, usize)> {
        let sift = Buckets::new(self.positions, self.size, self.distance_px.max(4.0));
        let is_near = |a: [f32; 2], b: [f32; 2]| distance2(a, b) <= self.distance_px * self.distance_px;
        // What stands already, by cells of the distance.
        let mut standing: HashMap<[i32; 2], Vec<[f32; 2]>> = HashMap::new();
        let mut chosen = Vec::new();
        for (at, TrackKeypoint { track, keypoint, .. }) in described.iter().enumerate() {
            let Ok(index) = tracks.binary_search_by_key(track, |track| track.id) else { continue };
            let here = [keypoint.x, keypoint.y];
            let [column, row] = here.map(|coordinate| (coordinate / self.distance_px) as i32);
            let cells = (row - 1..=row + 1).flat_map(|r| (column - 1..=column + 1).map(move |c| [c, r]));
            let mut others = cells.filter_map(|cell| standing.get(&cell)).flatten();
            let is_free = !sift.near(here).any(|i| is_near(self.positions[i], here))
                && !others.any(|other| is_near(*other, here));
            if !self.joined[index] && is_free {
                standing.entry([column, row]).or_default().push(here);
                chosen.push((index, at));
            }
        }
        chosen
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Keypoint;

    fn track(id: u32, x: f32, y: f32) -> (Track, TrackKeypoint) {
        let track = Track {
            id,
            x,
            y,
            age: 1,
            at_keyframe: [x, y],
            seed_keyframe: 0,
            scale: 2.0,
            zoom: Some(1.0),
            seen: true,
            claims: Vec::new(),
        };
        let keypoint = Keypoint { x, y, scale: 2.0, orientation: 0.0, response: 0.0 };
        (track, TrackKeypoint { track: id, keypoint, descriptor: [0; 128] })
    }

    #[test]
    fn tracks_stand_apart_from_keypoints_and_from_each_other() {
        let (tracks, described): (Vec<Track>, Vec<TrackKeypoint>) = [
            track(1, 10.0, 10.0),
            track(2, 10.9, 10.0), // within 1 px of the first
            track(3, 20.0, 10.0), // within 1 px of a keypoint
            track(5, 30.0, 10.0), // joined
            track(7, 31.5, 10.0),
            track(8, 39.0, 10.0),
        ]
        .into_iter()
        .unzip();
        let of = |described: &[TrackKeypoint], distance_px| {
            let joined = [false, false, false, true, false, false];
            let positions = [[20.0, 11.0]];
            choice(&joined, &positions, distance_px).stand(&tracks, described)
        };
        assert_eq!(of(&described, 1.0), [(0, 0), (4, 4), (5, 5)]);
        assert_eq!(of(&described, 0.5), [(0, 0), (1, 1), (2, 2), (4, 4), (5, 5)]);
        assert_eq!(of(&described, 8.0), [(0, 0), (4, 4)]);
        // Those that are not described, or ended since.
        assert_eq!(of(&described[4..], 1.0), [(4, 0), (5, 1)]);
        assert_eq!(of(&[track(4, 5.0, 5.0).1], 1.0), []);
    }

    fn choice<'a>(joined: &'a [bool], positions: &'a [[f32; 2]], distance_px: f32) -> Choice<'a> {
        Choice { joined, positions, size: (64, 48), distance_px }
    }
}
