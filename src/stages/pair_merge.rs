//! Stage `pair_merge`: one list of matches a pair from the tracks' and the descriptors' matches.

use crate::message::{
    DescriptorMatch, KltMatch, Match, MatchedFrame, MatchedKeyframe, MergedFrame, MergedPair, Source,
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
        let second_points = matched.keyframe.features.points();
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{DescriptorPair, Features, Keypoint, KltPair};

    fn klt(rows: &[(u32, u32, u32)]) -> Vec<KltMatch> {
        rows.iter().map(|&(first, second, track)| KltMatch { first, second, track }).collect()
    }

    fn sift(rows: &[(u32, u32, u32)]) -> Vec<DescriptorMatch> {
        rows.iter().map(|&(first, second, distance2)| DescriptorMatch { first, second, distance2 }).collect()
    }

    type Row = (u32, u32, Source, Option<u32>);
    type Case<'a> = (&'a str, &'a [(u32, u32, u32)], &'a [(u32, u32, u32)], &'a [Row]);

    fn rows(matches: Vec<Match>) -> Vec<Row> {
        matches.into_iter().map(|m| (m.first, m.second, m.source, m.track)).collect()
    }

    /// Keypoints 2, 3, 4 of the first and 5, 6 of the second keyframe are one point each.
    const FIRST: [u32; 8] = [0, 1, 2, 2, 2, 5, 6, 7];
    const SECOND: [u32; 8] = [0, 1, 2, 3, 4, 5, 5, 7];

    #[test]
    fn merge_table() {
        use Source::{Both, Klt, Sift};
        let cases: [Case; 9] = [
            ("nothing", &[], &[], &[]),
            ("tracks only", &[(1, 7, 40), (5, 0, 41)], &[], &[(1, 7, Klt, Some(40)), (5, 0, Klt, Some(41))]),
            ("descriptors only", &[], &[(1, 7, 9), (5, 0, 8)], &[(1, 7, Sift, None), (5, 0, Sift, None)]),
            ("the same match", &[(1, 7, 40)], &[(1, 7, 9)], &[(1, 7, Both, Some(40))]),
            ("a conflict stays", &[(1, 7, 40)], &[(1, 4, 9)], &[(1, 4, Sift, None), (1, 7, Klt, Some(40))]),
            ("other orientations", &[(2, 5, 40)], &[(3, 6, 9)], &[(3, 6, Both, Some(40))]),
            (
                "the nearest of several orientations",
                &[(2, 5, 40)],
                &[(3, 6, 9), (4, 5, 7)],
                &[(3, 6, Sift, None), (4, 5, Both, Some(40))],
            ),
            (
                "the same keypoints before nearer ones",
                &[(2, 5, 40)],
                &[(2, 5, 9), (4, 6, 7)],
                &[(2, 5, Both, Some(40)), (4, 6, Sift, None)],
            ),
            (
                "one of the points differs",
                &[(2, 5, 40), (7, 3, 41)],
                &[(3, 4, 9)],
                &[(2, 5, Klt, Some(40)), (3, 4, Sift, None), (7, 3, Klt, Some(41))],
            ),
        ];
        for (name, tracks, descriptors, expected) in cases {
            assert_eq!(rows(merge([&FIRST, &SECOND], &klt(tracks), &sift(descriptors))), expected, "{name}");
        }
    }

    #[test]
    fn two_tracks_of_one_match_are_one_match() {
        let tracks = klt(&[(1, 7, 40), (1, 7, 41), (2, 5, 42), (2, 6, 43)]);
        let merged = rows(merge([&FIRST, &SECOND], &tracks, &sift(&[(3, 5, 1)])));
        assert_eq!(merged, [(1, 7, Source::Klt, Some(40)), (3, 5, Source::Both, Some(42))]);
    }

    #[test]
    fn keypoints_of_one_position_are_one_point() {
        let at = |x, y| Keypoint { x, y, scale: 1.0, orientation: x * y, response: 1.0 };
        let keypoints = vec![at(1.0, 2.0), at(1.0, 2.0), at(1.0, 3.0), at(2.0, 3.0), at(2.0, 3.0)];
        let features = Features { keypoints, descriptors: Vec::new() };
        assert_eq!(features.points(), [0, 0, 2, 3, 3]);
        assert!(Features::default().points().is_empty());
    }

    #[test]
    fn pairs_are_the_union_by_ascending_first() {
        let mut stage = PairMerge { points: vec![FIRST.to_vec(); 6] };
        let matched = |keyframe: u32, klt_pairs: &[u32], sift_pairs: &[u32]| MatchedKeyframe {
            keyframe: crate::stages::descriptor_match::tests::keyframe(keyframe, 8),
            klt: klt_pairs.iter().map(|&first| KltPair { first, matches: klt(&[(1, 7, 40)]) }).collect(),
            descriptor: sift_pairs
                .iter()
                .map(|&first| DescriptorPair { first, matches: sift(&[(1, 7, 9)]) })
                .collect(),
        };
        let pairs = stage.merge_keyframe(&matched(6, &[0, 2, 5], &[2, 3, 4])).unwrap();
        let seen: Vec<_> = pairs.iter().map(|p| (p.first, p.matches[0].source)).collect();
        let (klt, sift) = (Source::Klt, Source::Sift);
        assert_eq!(seen, [(0, klt), (2, Source::Both), (3, sift), (4, sift), (5, klt)]);

        let error = |stage: &mut PairMerge, matched| stage.merge_keyframe(&matched).unwrap_err().to_string();
        assert!(error(&mut stage, matched(9, &[], &[])).contains("keyframe 9 came where keyframe 7"));
        assert!(error(&mut stage, matched(7, &[7], &[])).contains("keyframe 7, which is not earlier"));
    }
}
