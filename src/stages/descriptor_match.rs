//! Stage `descriptor_match`: each keyframe's descriptors against those of earlier keyframes.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::device::DeviceError;
use crate::error::OptionError;
use crate::matching::{Matcher, Places, View};
use crate::message::{DescriptorPair, JoinedFrame, MatchedFrame, MatchedKeyframe};
use crate::stages::{RunContext, Stage, StageError};

/// Options of `descriptor_match`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DescriptorMatchOptions {
    /// How many keyframes back those are that a keyframe is matched with, ascending, each 1..=10000; more finds more of
    /// what the tracks lost and costs as much more.
    pub keyframes_back: Vec<u32>,
    /// The nearest descriptor is at most this share of the distance to the second nearest, in 0.1..=1; larger gives
    /// more and worse matches.
    pub ratio: f32,
    /// Keyframes before all those to match with too, more than ten back, those that look most alike, 0..=1000; more finds
    /// a place again that others resemble. 0: no loop is looked for.
    pub loops: u32,
    /// The least similarity of a keyframe that is matched as a loop, 0..=1: the cosine between what tells the two from the
    /// mean of all keyframes; larger looks at fewer keyframes and misses more loops.
    pub loop_similarity: f32,
}

impl Default for DescriptorMatchOptions {
    fn default() -> Self {
        DescriptorMatchOptions {
            keyframes_back: (1..=10).collect(),
            ratio: 0.8,
            loops: 3,
            loop_similarity: 0.2,
        }
    }
}

impl DescriptorMatchOptions {
    fn check(&self) -> Result<(), OptionError> {
        if let Some(back) = self.keyframes_back.iter().find(|back| !(1..=10_000).contains(*back)) {
            return Err(OptionError::new("keyframes_back", back, "must be in 1..=10000"));
        }
        if let Some(two) = self.keyframes_back.windows(2).find(|two| two[0] >= two[1]) {
            let must = format!("must be more than the one before it, {}", two[0]);
            return Err(OptionError::new("keyframes_back", two[1], must));
        }
        if !(0.1..=1.0).contains(&self.ratio) {
            return Err(OptionError::new("ratio", self.ratio, "must be in 0.1..=1"));
        }
        if self.loops > 1000 {
            return Err(OptionError::new("loops", self.loops, "must be in 0..=1000"));
        }
        if !(0.0..=1.0).contains(&self.loop_similarity) {
            return Err(OptionError::new("loop_similarity", self.loop_similarity, "must be in 0..=1"));
        }
        Ok(())
    }

    /// 0: none is matched.
    fn farthest(&self) -> u32 {
        self.keyframes_back.last().copied().unwrap_or(0)
    }
}

/// Keyframes so many back or fewer are no loop.
const NO_LOOP: u32 = 10;

/// Matches each keyframe with keyframes some way back, and with earlier ones that show the same place.
#[derive(Debug)]
pub struct DescriptorMatch {
    options: DescriptorMatchOptions,
    matcher: Matcher,
    /// The latest keyframes, all that may still be matched, and their ordinals, one after the other.
    earlier: VecDeque<(u32, View)>,
    places: Places,
}

impl DescriptorMatch {
    /// Checks the options and makes the kernels.
    pub fn new(options: DescriptorMatchOptions, context: &RunContext) -> Result<Self, StageError> {
        options.check()?;
        let matcher = context.matcher()?;
        Ok(DescriptorMatch { options, matcher, earlier: VecDeque::new(), places: Places::default() })
    }

    /// Pairs without a match are left out.
    fn match_earlier(&mut self, latest: &View) -> Result<Vec<DescriptorPair>, DeviceError> {
        let mut matched = self.loops(latest);
        let back = self.options.keyframes_back.iter().rev();
        let at = back.filter_map(|&back| self.earlier.len().checked_sub(back as usize));
        matched.extend(at.map(|at| self.earlier[at].clone()));
        let (firsts, views): (Vec<u32>, Vec<View>) = matched.into_iter().unzip();
        let found = self.matcher.matches(&views, latest, self.options.ratio)?;
        let pairs = firsts.into_iter().zip(found);
        let pairs = pairs.map(|(first, matches)| DescriptorPair { first, matches });
        Ok(pairs.filter(|pair| !pair.matches.is_empty()).collect())
    }

    /// Keyframes farther back that look like the latest, oldest first.
    fn loops(&mut self, latest: &View) -> Vec<(u32, View)> {
        let DescriptorMatchOptions { loops, loop_similarity, .. } = self.options;
        if loops == 0 {
            return Vec::new();
        }
        self.places.push(latest.features());
        let near = self.options.farthest().max(NO_LOOP) as usize;
        let found = self.places.like_latest(loops as usize, near, loop_similarity.into());
        found.into_iter().map(|at| self.earlier[at].clone()).collect()
    }

    /// Keeps a keyframe for those to come, and those before it that may be matched again.
    fn keep(&mut self, keyframe: u32, view: View) {
        self.earlier.push_back((keyframe, view));
        if self.options.loops == 0 && self.earlier.len() > self.options.farthest() as usize {
            self.earlier.pop_front();
        }
    }
}

impl Stage for DescriptorMatch {
    type Takes = JoinedFrame;
    type Gives = MatchedFrame;

    fn fire(&mut self, frame: JoinedFrame) -> Result<MatchedFrame, StageError> {
        let Some((keyframe, klt)) = frame.keyframe else {
            return Ok(MatchedFrame { log: frame.log, keyframe: None });
        };
        let view = View::new(&keyframe.features);
        let descriptor = self.match_earlier(&view)?;
        self.keep(keyframe.keyframe, view);
        let keyframe = Some(MatchedKeyframe { keyframe, klt, descriptor });
        Ok(MatchedFrame { log: frame.log, keyframe })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::message::{
        Descriptor, Features, FrameInfo, FrameLog, GateDecision, GateReason, Keyframe, Keypoint, Sizes,
    };
    use crate::numerics::SplitMix64;
    use crate::picture::Picture;

    const SIZES: Sizes = Sizes { analysis: (640, 360), exported: (640, 360), scale: 1.0 };

    fn info() -> FrameInfo {
        FrameInfo { index: 0, number: 0, pts_ns: 0, video: Arc::default() }
    }

    /// A keyframe of `n` keypoints at positions of their own; the same random descriptors, a few changed, in each.
    pub fn keyframe(ordinal: u32, n: u32) -> Arc<Keyframe> {
        let keypoint = |i: u32| Keypoint { x: i as f32, y: 1.0, scale: 1.0, orientation: 0.0, response: 1.0 };
        let descriptor = |i: u32| -> Descriptor {
            let changed = (i + ordinal).is_multiple_of(5) as u64 * (ordinal as u64 + 1);
            let mut rng = SplitMix64::new(i as u64, changed);
            std::array::from_fn(|_| rng.below(256) as u8)
        };
        let keypoints = (0..n).map(keypoint).collect();
        let features = Features { keypoints, descriptors: (0..n).map(descriptor).collect() };
        let picture = Picture::unseen();
        Arc::new(Keyframe {
            keyframe: ordinal,
            info: info(),
            sizes: SIZES,
            picture: Arc::new(picture),
            features: Arc::new(features),
            track_keypoints: 0,
            seeds: 0,
            joined: 0,
            fill_ins: 0,
        })
    }

    /// Keyframe `ordinal` at a place whose descriptors no other place has.
    fn at_place(place: u64, ordinal: u32) -> Arc<Keyframe> {
        let descriptor = |i: u32| -> Descriptor {
            let mut rng = SplitMix64::new(100 + place, i as u64);
            std::array::from_fn(|_| (rng.unit() * rng.unit() * 256.0) as u8)
        };
        let descriptors = (0..2000).map(descriptor).collect();
        let mut keyframe = Arc::into_inner(keyframe(ordinal, 2000)).expect("no one else has it");
        let keypoints = keyframe.features.keypoints.clone();
        keyframe.features = Arc::new(Features { keypoints, descriptors });
        Arc::new(keyframe)
    }

    fn joined(keyframe: Option<Arc<Keyframe>>) -> JoinedFrame {
        let gate = GateDecision { kept: keyframe.is_some(), reason: GateReason::All, motion_px: None };
        let log = FrameLog { info: info(), sizes: SIZES, gate, rows: Vec::new(), ends: Vec::new() };
        JoinedFrame { log, keyframe: keyframe.map(|k| (k, Vec::new())) }
    }

    fn stage(keyframes_back: &[u32]) -> DescriptorMatch {
        let options =
            DescriptorMatchOptions { keyframes_back: keyframes_back.to_vec(), ..Default::default() };
        DescriptorMatch::new(options, &RunContext::default()).unwrap()
    }

    fn pairs(stage: &mut DescriptorMatch, keyframe: Arc<Keyframe>) -> Vec<DescriptorPair> {
        stage.fire(joined(Some(keyframe))).unwrap().keyframe.unwrap().descriptor
    }

    #[test]
    fn keyframes_back_are_matched_oldest_first() {
        let mut stage = stage(&[1, 2, 4]);
        for ordinal in 0..8 {
            assert!(stage.fire(joined(None)).unwrap().keyframe.is_none());
            let pairs = pairs(&mut stage, keyframe(ordinal, 40));
            let firsts: Vec<u32> = pairs.iter().map(|p| p.first).collect();
            let back = [4, 2, 1].into_iter().filter_map(|back| ordinal.checked_sub(back));
            assert_eq!(firsts, back.collect::<Vec<_>>());
            // A fifth of the descriptors is changed in each of the two keyframes.
            assert!(
                pairs.iter().all(|p| p.matches.len() == 24 && p.matches.iter().all(|m| m.first == m.second))
            );
        }
        assert!(pairs(&mut self::stage(&[]), keyframe(0, 40)).is_empty());
    }

    #[test]
    fn a_loop_is_matched_more_than_ten_keyframes_back() {
        let run = |loops, keyframes_back: &[u32], places: &[u64]| {
            let options = DescriptorMatchOptions {
                keyframes_back: keyframes_back.to_vec(),
                loops,
                ..Default::default()
            };
            let mut stage = DescriptorMatch::new(options, &RunContext::default()).unwrap();
            let mut firsts = |(ordinal, place)| {
                let pairs = pairs(&mut stage, at_place(place, ordinal));
                let many = pairs.iter().filter(|pair| pair.matches.len() > 100);
                many.map(|pair| pair.first).collect::<Vec<_>>()
            };
            (0..).zip(places.iter().copied()).map(&mut firsts).collect::<Vec<_>>()
        };
        // Places with descriptors of their own, then the second one again: eleven and ten keyframes later.
        let (far, near) = ([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 1], [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 1]);
        let nothing = vec![vec![]; 12];
        assert_eq!(run(0, &[2], &far), [&nothing[..12], &[vec![]]].concat());
        assert_eq!(run(3, &[2], &far), [&nothing[..12], &[vec![1]]].concat());
        assert_eq!(run(3, &[2], &near), nothing[..12]);
        // What is matched anyway is no loop.
        assert_eq!(run(3, &[2, 11], &far), [&nothing[..12], &[vec![1]]].concat());
        assert_eq!(run(3, &[2, 12], &far), nothing[..].iter().cloned().chain([vec![]]).collect::<Vec<_>>());
    }

    #[test]
    fn what_is_not_matched_again_is_not_kept() {
        let options = DescriptorMatchOptions { keyframes_back: vec![1, 3], loops: 0, ..Default::default() };
        let mut stage = DescriptorMatch::new(options, &RunContext::default()).unwrap();
        for ordinal in 0..8 {
            let firsts = pairs(&mut stage, keyframe(ordinal, 40)).into_iter().map(|pair| pair.first);
            let back = [3, 1].into_iter().filter_map(|back| ordinal.checked_sub(back));
            assert!(firsts.eq(back), "keyframe {ordinal}");
            assert_eq!(stage.earlier.len(), 3.min(ordinal as usize + 1));
        }
    }

    #[test]
    fn keyframes_without_keypoints_make_no_pairs() {
        let mut stage = stage(&[1, 2, 3]);
        let n_pairs = [(0, 20), (1, 0), (2, 20)].map(|(k, n)| pairs(&mut stage, keyframe(k, n)).len());
        assert_eq!(n_pairs, [0, 0, 1]);
    }

    #[test]
    fn no_picture_is_held() {
        let mut stage = stage(&[1, 2, 3]);
        let keyframe = keyframe(0, 5);
        let picture = Arc::downgrade(&keyframe.picture);
        drop(stage.fire(joined(Some(keyframe))).unwrap());
        assert_eq!(picture.strong_count(), 0);
    }

    #[test]
    fn thread_counts_do_not_matter() {
        let run = |n_threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(n_threads).build().unwrap();
            let mut stage = stage(&[1, 2, 3, 4]);
            pool.install(|| (0..6).map(|k| pairs(&mut stage, keyframe(k, 50 + k))).collect::<Vec<_>>())
        };
        assert_eq!(run(1), run(5));
    }

    #[test]
    fn bad_options_are_named() {
        let error = |options| DescriptorMatch::new(options, &RunContext::default()).unwrap_err().to_string();
        let defaults = DescriptorMatchOptions::default;
        assert!(error(DescriptorMatchOptions { ratio: 1.5, ..defaults() }).starts_with("ratio = 1.5"));
        assert!(error(DescriptorMatchOptions { ratio: f32::NAN, ..defaults() }).starts_with("ratio"));
        assert!(error(DescriptorMatchOptions { loops: 1001, ..defaults() }).starts_with("loops = 1001"));
        let unlike = DescriptorMatchOptions { loop_similarity: -0.1, ..defaults() };
        assert!(error(unlike).starts_with("loop_similarity = -0.1"));
        for keyframes_back in [vec![0, 1], vec![2, 1], vec![3, 3], vec![10_001]] {
            let wrong = DescriptorMatchOptions { keyframes_back, ..defaults() };
            assert!(error(wrong).starts_with("keyframes_back = "));
        }
    }
}
