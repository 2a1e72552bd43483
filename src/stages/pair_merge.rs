//! Stage `pair_merge`: one list of matches a pair from the tracks' and the descriptors' matches.

use crate::message::{
    DescriptorMatch, Keypoint, KltMatch, Match, MatchedFrame, MatchedKeyframe, MergedFrame, MergedPair,
    Source,
};
use crate::stages::{Stage, StageError};

/// Merges the two kinds of pairs.
///
/// Keypoints of one position are one point: where a track and a descriptor match join the same two points, it is one
/// match of source `both` between the keypoints whose descriptors agree.
#[derive(Debug, Default)]
pub struct PairMerge {
    /// For each keyframe, the point that each keypoint belongs to: the first keypoint at its position.
    points: Vec<Vec<u32>>,
}

impl PairMerge {
    /// A stage without options.
    pub fn new() -> Self {
        PairMerge::default()
    }

    fn merge_keyframe(&mut self, matched: &MatchedKeyframe) -> Result<Vec<MergedPair>, StageError> {
        let ordinal = matched.keyframe.keyframe;
        if ordinal as usize != self.points.len() {
            return Err(MergeError::Order { keyframe: ordinal, expected: self.points.len() }.into());
        }
        let second_points = points_of_keypoints(&matched.keyframe.features.keypoints);
        let (mut klt, mut descriptor) = (matched.klt.iter().peekable(), matched.descriptor.iter().peekable());
        let mut pairs = Vec::new();
        loop {
            let next = [klt.peek().map(|p| p.first), descriptor.peek().map(|p| p.first)];
            let Some(first) = next.into_iter().flatten().min() else { break };
            let klt = klt.next_if(|p| p.first == first).map_or(&[][..], |p| &p.matches);
            let descriptor = descriptor.next_if(|p| p.first == first).map_or(&[][..], |p| &p.matches);
            let first_points =
                self.points.get(first as usize).ok_or(MergeError::Earlier { keyframe: ordinal, first })?;
            pairs.push(MergedPair { first, matches: merge([first_points, &second_points], klt, descriptor) });
        }
        self.points.push(second_points);
        Ok(pairs)
    }
}

impl Stage for PairMerge {
    type Takes = MatchedFrame;
    type Gives = MergedFrame;

    fn fire(&mut self, frame: MatchedFrame) -> Result<MergedFrame, StageError> {
        let keyframe = match frame.keyframe {
            Some(matched) => {
                let pairs = self.merge_keyframe(&matched)?;
                Some((matched.keyframe, pairs))
            }
            None => None,
        };
        Ok(MergedFrame { log: frame.log, keyframe })
    }
}

/// Why pairs could not be merged: an earlier stage broke the order of keyframes.
#[derive(Debug, PartialEq, thiserror::Error)]
enum MergeError {
    #[error("keyframe {keyframe} came where keyframe {expected} was due")]
    Order { keyframe: u32, expected: usize },
    #[error("keyframe {keyframe} has matches with keyframe {first}, which is not earlier")]
    Earlier { keyframe: u32, first: u32 },
}

/// The first keypoint at each keypoint's position. Keypoints of one position stand side by side.
fn points_of_keypoints(keypoints: &[Keypoint]) -> Vec<u32> {
    let mut point = 0;
    let of_keypoint = |i: usize| {
        if i > 0 && (keypoints[i].x, keypoints[i].y) != (keypoints[i - 1].x, keypoints[i - 1].y) {
            point = i as u32;
        }
        point
    };
    (0..keypoints.len()).map(of_keypoint).collect()
}

/// Every descriptor match stands; a track's match joins the descriptor match of the same keypoints, else the nearest
/// one of the same points, else stands by itself. Ascending by (first, second), each once.
fn merge(points: [&[u32]; 2], klt: &[KltMatch], descriptor: &[DescriptorMatch]) -> Vec<Match> {
    let points_of = |first: u32, second: u32| (points[0][first as usize], points[1][second as usize]);
    let from_descriptor =
        |m: &DescriptorMatch| Match { first: m.first, second: m.second, source: Source::Sift, track: None };
    let mut matches: Vec<Match> = descriptor.iter().map(from_descriptor).collect();
    let mut by_points: Vec<_> =
        descriptor.iter().enumerate().map(|(i, m)| (points_of(m.first, m.second), m.distance2, i)).collect();
    by_points.sort_unstable();

    for m in klt {
        let exact = descriptor.binary_search_by_key(&(m.first, m.second), |d| (d.first, d.second)).ok();
        let of_points = || {
            let key = points_of(m.first, m.second);
            let at = by_points.partition_point(|entry| entry.0 < key);
            by_points.get(at).filter(|entry| entry.0 == key).map(|entry| entry.2)
        };
        match exact.or_else(of_points) {
            Some(i) => {
                matches[i].source = Source::Both;
                matches[i].track.get_or_insert(m.track);
            }
            None => matches.push(Match {
                first: m.first,
                second: m.second,
                source: Source::Klt,
                track: Some(m.track),
            }),
        }
    }
    matches.sort_by_key(|m| (m.first, m.second));
    matches.dedup_by_key(|m| (m.first, m.second));
    matches
}
