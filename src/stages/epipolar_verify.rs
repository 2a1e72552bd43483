//! Stage `epipolar_verify`: the geometry of each pair, its inliers, and the tracks it rejects.

use std::collections::BTreeMap;

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::device::DeviceError;
use crate::error::OptionError;
use crate::geometry::camera::{Camera, CameraError, CameraOptions};
use crate::geometry::two_view::TwoViewLimits;
use crate::matching::{self, Guide, Matcher};
use crate::message::{
    DescriptorMatch, Keyframe, MergedFrame, MergedPair, Verdict, VerifiedFrame, VerifiedPair,
};
use crate::stages::{RunContext, Stage, StageError};

mod pair;

use pair::{Found, PairVerifier, Verified};

/// Longer side of the exported picture at which `max_error_px` is a pixel.
const REFERENCE_SIDE: f64 = 1280.0;

/// Ratio of guided matching; the band has done most of the work.
const GUIDED_RATIO: f32 = 0.8;

/// Options of `epipolar_verify`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct EpipolarVerifyOptions {
    /// Largest residual of an inlier in exported pixels per 1280 of its longer side, above 0 and at most 100; larger
    /// accepts worse matches. None: 2 where the intrinsics are known, else 4, since the lens distortion is in it.
    pub max_error_px: Option<f64>,
    /// Fewest inliers of a verified pair, 8..=10000; larger leaves more pairs unverified.
    pub min_inliers: u32,
    /// Whether descriptors are matched again within the band of the geometry found, and the geometry found anew.
    pub guided: bool,
    /// Whether a track ends that is an outlier in more than half of its matches at a keyframe.
    pub reject: bool,
}

impl Default for EpipolarVerifyOptions {
    fn default() -> Self {
        EpipolarVerifyOptions { max_error_px: None, min_inliers: 15, guided: false, reject: true }
    }
}

impl EpipolarVerifyOptions {
    fn max_error_px(&self, calibrated: bool) -> f64 {
        self.max_error_px.unwrap_or(if calibrated { 2.0 } else { 4.0 })
    }
}

/// What verification keeps of a keyframe.
#[derive(Debug)]
struct View {
    /// Where each keypoint's ray meets the plane z = 1; none where the lens model has no ray.
    rays: Vec<Option<[f64; 2]>>,
    /// The first keypoint at each keypoint's position: keypoints of one position are one point.
    points: Vec<u32>,
    /// Descriptors and positions without the lens's distortion, when guided matching needs them.
    guided: Option<matching::View>,
}

/// Finds the two-view geometry of each pair.
#[derive(Debug)]
pub struct EpipolarVerify {
    options: EpipolarVerifyOptions,
    camera_options: CameraOptions,
    seed: u64,
    /// None where matching is not guided.
    matcher: Option<Matcher>,
    /// The camera of the first keyframe's size.
    camera: Option<Camera>,
    /// One a keyframe.
    views: Vec<View>,
}

impl EpipolarVerify {
    /// Checks the options and the camera, and makes the kernels.
    pub fn new(options: EpipolarVerifyOptions, context: &RunContext) -> Result<Self, StageError> {
        if let Some(px) = options.max_error_px.filter(|px| !(*px > 0.0 && *px <= 100.0)) {
            return Err(OptionError::new("max_error_px", px, "must be above 0 and at most 100").into());
        }
        if !(8..=10_000).contains(&options.min_inliers) {
            return Err(OptionError::new("min_inliers", options.min_inliers, "must be in 8..=10000").into());
        }
        Camera::from_options(&context.camera, 2, 2)?;
        let camera_options = context.camera.clone();
        let matcher = options.guided.then(|| context.matcher()).transpose()?;
        if let Some(matcher) = &matcher {
            matcher.prepare_guided()?;
        }
        let seed = context.seed;
        Ok(EpipolarVerify { options, camera_options, seed, matcher, camera: None, views: Vec::new() })
    }

    fn verify(
        &mut self,
        keyframe: &Keyframe,
        pairs: Vec<MergedPair>,
    ) -> Result<(Vec<VerifiedPair>, Verdict), StageError> {
        let ordinal = keyframe.keyframe;
        if ordinal as usize != self.views.len() {
            return Err(VerifyError::Order { keyframe: ordinal, expected: self.views.len() }.into());
        }
        let camera = self.camera_of(keyframe)?;
        self.views.push(View::new(keyframe, &camera, self.options.guided));
        check_indices(&self.views, ordinal, &pairs)?;
        let calibrated = self.camera_options.params.is_some();
        let longer_side = camera.width.max(camera.height) as f64;
        let verifier = PairVerifier {
            camera: &camera,
            calibrated,
            limits: TwoViewLimits {
                max_error_px: self.options.max_error_px(calibrated) * longer_side / REFERENCE_SIDE,
                min_inliers: self.options.min_inliers as usize,
            },
            seed: self.seed,
        };
        let second = &self.views[ordinal as usize];
        let first = |pair: &MergedPair| &self.views[pair.first as usize];
        let found = pairs.par_iter().map(|pair| verifier.find(pair, first(pair), second, ordinal));
        let found: Vec<Found> = found.collect();
        let guides = found.iter().map(|found| verifier.guide(found)).collect();
        let guided = match &self.matcher {
            Some(matcher) => guided_matches(matcher, &self.views, &pairs, guides)?,
            None => vec![Vec::new(); pairs.len()],
        };
        let all = pairs.par_iter().zip(found).zip(&guided);
        let verify = |(found, guided): ((&MergedPair, Found), &Vec<DescriptorMatch>)| {
            let first = &self.views[found.0.first as usize];
            verifier.verify(found, guided, first, second, ordinal)
        };
        let verified: Vec<Verified> = all.map(verify).collect();
        let rejected = if self.options.reject { rejected_tracks(&pairs, &verified) } else { Vec::new() };
        let verdict = Verdict { rejected };
        let pairs = pairs.into_iter().zip(verified).map(|(pair, verified)| VerifiedPair {
            first: pair.first,
            matches: pair.matches,
            geometry: verified.geometry,
        });
        Ok((pairs.collect(), verdict))
    }

    fn camera_of(&mut self, keyframe: &Keyframe) -> Result<Camera, CameraError> {
        let (width, height) = keyframe.sizes.exported;
        let camera = match self.camera.take() {
            Some(camera) => camera,
            None => Camera::from_options(&self.camera_options, width, height)?,
        };
        self.camera = Some(camera.clone());
        Ok(camera)
    }
}

impl Stage for EpipolarVerify {
    type Takes = MergedFrame;
    type Gives = (VerifiedFrame, Verdict);

    fn fire(&mut self, frame: MergedFrame) -> Result<(VerifiedFrame, Verdict), StageError> {
        let Some((keyframe, pairs)) = frame.keyframe else {
            return Ok((VerifiedFrame { log: frame.log, keyframe: None }, Verdict::default()));
        };
        let (pairs, verdict) = self.verify(&keyframe, pairs)?;
        Ok((VerifiedFrame { log: frame.log, keyframe: Some((keyframe, pairs)) }, verdict))
    }
}

impl View {
    fn new(keyframe: &Keyframe, camera: &Camera, guided: bool) -> View {
        let ray = |x, y| camera.cam_from_img(keyframe.sizes.exported_from_analysis(x, y));
        let rays: Vec<_> = keyframe.features.keypoints.par_iter().map(|k| ray(k.x, k.y)).collect();
        let pixel = |ray: &Option<[f64; 2]>| ray.map_or([f64::NAN; 2], |r| camera.pinhole_img_from_cam(r));
        let pixels = || rays.iter().map(pixel).collect();
        View {
            points: keyframe.features.points(),
            guided: guided.then(|| matching::View::with_positions(&keyframe.features, pixels())),
            rays,
        }
    }
}

/// Matches within the band of each pair that has a guide, all of the last of `views`.
fn guided_matches(
    matcher: &Matcher,
    views: &[View],
    pairs: &[MergedPair],
    guides: Vec<Option<Guide>>,
) -> Result<Vec<Vec<DescriptorMatch>>, DeviceError> {
    let mut matches = vec![Vec::new(); pairs.len()];
    let (at, guides): (Vec<usize>, Vec<Guide>) =
        guides.into_iter().enumerate().filter_map(|(at, guide)| Some((at, guide?))).unzip();
    let guided = |view: &View| view.guided.clone().expect("kept for guided matching");
    let earlier: Vec<_> = at.iter().map(|&at| guided(&views[pairs[at].first as usize])).collect();
    let Some(latest) = views.last().map(guided) else { return Ok(matches) };
    let found = matcher.guided_matches(&earlier, &guides, &latest, GUIDED_RATIO)?;
    for (at, found) in at.into_iter().zip(found) {
        matches[at] = found;
    }
    Ok(matches)
}

/// An earlier stage broke the order of keyframes or named keypoints that are not there.
#[derive(Debug, PartialEq, thiserror::Error)]
enum VerifyError {
    #[error("keyframe {keyframe} came where keyframe {expected} was due")]
    Order { keyframe: u32, expected: usize },
    #[error("keyframe {keyframe} has matches with keyframe {first}, which is not earlier")]
    Earlier { keyframe: u32, first: u32 },
    #[error(
        "a match of keyframes {first} and {keyframe} names keypoints {of_first} and {of_second}, but they have {n_first} and {n_second}"
    )]
    Keypoint { keyframe: u32, first: u32, of_first: u32, of_second: u32, n_first: usize, n_second: usize },
}

fn check_indices(views: &[View], keyframe: u32, pairs: &[MergedPair]) -> Result<(), VerifyError> {
    let n_second = views[keyframe as usize].rays.len();
    for pair in pairs {
        let first = pair.first;
        if first >= keyframe {
            return Err(VerifyError::Earlier { keyframe, first });
        }
        let n_first = views[first as usize].rays.len();
        let outside =
            |m: &&crate::message::Match| m.first as usize >= n_first || m.second as usize >= n_second;
        if let Some(m) = pair.matches.iter().find(outside) {
            let (of_first, of_second) = (m.first, m.second);
            return Err(VerifyError::Keypoint { keyframe, first, of_first, of_second, n_first, n_second });
        }
    }
    Ok(())
}

/// Tracks that are outliers in more than half of the verified pairs they have a match in, ascending.
fn rejected_tracks(pairs: &[MergedPair], verified: &[Verified]) -> Vec<u32> {
    let mut counts: BTreeMap<u32, (u32, u32)> = BTreeMap::new();
    for (pair, verified) in pairs.iter().zip(verified).filter(|(_, v)| v.geometry.is_some()) {
        for (m, agrees) in pair.matches.iter().zip(&verified.agrees) {
            let Some(track) = m.track else { continue };
            let (outliers, matches) = counts.entry(track).or_default();
            *outliers += !agrees as u32;
            *matches += 1;
        }
    }
    let rejected = counts.into_iter().filter(|(_, (outliers, matches))| 2 * outliers > *matches);
    rejected.map(|(track, _)| track).collect()
}

#[cfg(test)]
mod tests;
