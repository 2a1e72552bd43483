//! Stage `descriptor_match`: each keyframe's descriptors against those of earlier keyframes.

use std::collections::VecDeque;
use std::sync::Arc;

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::error::OptionError;
use crate::kernels::match_descriptors::{MatchScratch, match_descriptors};
use crate::message::{DescriptorPair, Features, JoinedFrame, MatchedFrame, MatchedKeyframe};
use crate::stages::{RunContext, Stage, StageError};

/// Options of `descriptor_match`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DescriptorMatchOptions {
    /// Earlier keyframes to match with, the latest ones, 0..=10000; more closes longer loops and costs as much more.
    pub last_keyframes: u32,
    /// The nearest descriptor is at most this share of the distance to the second nearest, in 0.1..=1; larger gives
    /// more and worse matches.
    pub ratio: f32,
}

impl Default for DescriptorMatchOptions {
    fn default() -> Self {
        DescriptorMatchOptions { last_keyframes: 10, ratio: 0.8 }
    }
}

/// Matches each keyframe with the last keyframes before it.
#[derive(Debug)]
pub struct DescriptorMatch {
    options: DescriptorMatchOptions,
    /// The last keyframes' ordinals and features, oldest first.
    earlier: VecDeque<(u32, Arc<Features>)>,
    scratch: Vec<MatchScratch>,
}

impl DescriptorMatch {
    /// Checks the options.
    pub fn new(options: DescriptorMatchOptions, _context: &RunContext) -> Result<Self, OptionError> {
        if options.last_keyframes > 10_000 {
            return Err(OptionError::new("last_keyframes", options.last_keyframes, "must be in 0..=10000"));
        }
        if !(0.1..=1.0).contains(&options.ratio) {
            return Err(OptionError::new("ratio", options.ratio, "must be in 0.1..=1"));
        }
        Ok(DescriptorMatch { options, earlier: VecDeque::new(), scratch: Vec::new() })
    }

    /// Pairs without a match are left out.
    fn match_earlier(&mut self, features: &Features) -> Vec<DescriptorPair> {
        self.scratch.resize_with(self.earlier.len(), MatchScratch::default);
        let matched = self.earlier.par_iter().zip(&mut self.scratch).map(|((first, earlier), scratch)| {
            let ratio = self.options.ratio;
            let matches = match_descriptors(&earlier.descriptors, &features.descriptors, ratio, scratch);
            DescriptorPair { first: *first, matches }
        });
        matched.filter(|pair| !pair.matches.is_empty()).collect()
    }
}

impl Stage for DescriptorMatch {
    type Takes = JoinedFrame;
    type Gives = MatchedFrame;

    fn fire(&mut self, frame: JoinedFrame) -> Result<MatchedFrame, StageError> {
        let keyframe = frame.keyframe.map(|(keyframe, klt)| {
            let descriptor = self.match_earlier(&keyframe.features);
            self.earlier.push_back((keyframe.keyframe, Arc::clone(&keyframe.features)));
            if self.earlier.len() > self.options.last_keyframes as usize {
                self.earlier.pop_front();
            }
            MatchedKeyframe { keyframe, klt, descriptor }
        });
        Ok(MatchedFrame { log: frame.log, keyframe })
    }
}
