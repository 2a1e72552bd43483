//! The tracker's options: the user's table, and what follows from the picture's size.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::kernels::klt_anchor::AnchorParams;
use crate::kernels::klt_patch::{MAX_PATCH_PX, PatchParams};
use crate::kernels::klt_track::TrackParams;

/// Most tracks that may live at once.
pub const MAX_CAPACITY: u32 = 8192;
/// Largest tracking window.
pub const MAX_WINDOW_PX: u32 = 63;
/// Most pyramid levels.
pub const MAX_LEVELS: u32 = 12;

/// The user's table of the tracker. What is left out follows from the picture's size.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct KltPushOptions {
    /// Pyramid levels, level 0 included, 1..=12, never more than the picture holds. More reach larger motions.
    pub levels: Option<u32>,
    /// Side of the square tracking window, odd, 3..=63, never more than the picture holds. Larger is steadier and slower.
    pub window_px: Option<u32>,
    /// Most steps a level, 1..=255. More rescue slow convergence.
    pub max_iterations: Option<u32>,
    /// A step shorter than this ends a level, above 0. Larger is faster and coarser.
    pub epsilon_px: Option<f32>,
    /// Smallest eigenvalue a window pixel (gray in [0, 1], gradient a pixel), 0 or more. Larger drops flat windows.
    pub min_eigen: Option<f32>,
    /// Largest distance between a track's start and its way back, above 0. Larger keeps more wrong tracks.
    pub forward_backward_px: Option<f32>,
    /// Smallest zero-mean correlation of the final windows, -1..=1. Larger drops more.
    pub min_ncc: Option<f32>,
    /// What brightness may do: 0 nothing, 1 shift, 2 shift and scale.
    pub photometric: Option<u32>,
    /// Smallest eigenvalue of a new point as a share of the frame's largest, 0..=1. Larger selects fewer points.
    pub quality_level: Option<f32>,
    /// Smallest distance of a new point to other new points and live tracks, 1..=256.
    pub min_distance_px: Option<f32>,
    /// Sampled frames a track lives since its seed or the last keypoint of SIFT it joined, 1 or more. Larger drifts further
    /// without `anchor`.
    pub max_age_frames: Option<u32>,
    /// Most live tracks, 1..=8192.
    pub capacity: Option<u32>,
    /// Whether every track is aligned with the patch about its seed after each frame. Without, its errors add up, and
    /// `keyframe_join.whole_tracks` takes every track as it is: set that to false too.
    pub anchor: Option<bool>,
    /// Side of that square patch, odd, 3..=31, never more than the picture holds. Larger is finer on planes, worse at
    /// edges of depth.
    pub anchor_window_px: Option<u32>,
    /// Most steps of that alignment, 1..=255. More rescue slow convergence.
    pub anchor_iterations: Option<u32>,
    /// A step that moves the patch's centre and rim less than this ends it, above 0. Larger is faster and coarser.
    pub anchor_epsilon_px: Option<f32>,
    /// Smallest correlation with that patch at which a frame is said to show what the seed shows, -1..=1; at `min_ncc` or
    /// below wherever the track is aligned. Larger says so of fewer tracks, and of fewer wrong ones.
    pub seen_ncc: Option<f32>,
}

/// An option of the tracker is out of range.
#[derive(Clone, Debug, PartialEq, Error)]
#[error("klt_push.{option} is {value}, but must be {range}")]
pub struct KltOptionError {
    /// Name of the option.
    pub option: &'static str,
    /// Its value.
    pub value: String,
    /// What it may be.
    pub range: &'static str,
}

impl KltPushOptions {
    /// Checks every range.
    ///
    /// # Errors
    /// The first option out of its range.
    pub fn check(&self) -> Result<(), KltOptionError> {
        check("levels", self.levels, "1..=12", |v| (1..=MAX_LEVELS).contains(&v))?;
        check("window_px", self.window_px, "odd, 3..=63", |v| {
            (3..=MAX_WINDOW_PX).contains(&v) && v % 2 == 1
        })?;
        check("max_iterations", self.max_iterations, "1..=255", |v| (1..=255).contains(&v))?;
        check("epsilon_px", self.epsilon_px, "above 0", |v| v > 0.0 && v.is_finite())?;
        check("min_eigen", self.min_eigen, "0 or more", |v| v >= 0.0 && v.is_finite())?;
        check("forward_backward_px", self.forward_backward_px, "above 0", |v| v > 0.0)?;
        check("min_ncc", self.min_ncc, "-1..=1", |v| (-1.0..=1.0).contains(&v))?;
        check("photometric", self.photometric, "0, 1 or 2", |v| v <= 2)?;
        check("quality_level", self.quality_level, "0..=1", |v| (0.0..=1.0).contains(&v))?;
        check("min_distance_px", self.min_distance_px, "1..=256", |v| (1.0..=256.0).contains(&v))?;
        check("max_age_frames", self.max_age_frames, "1 or more", |v| v >= 1)?;
        check("capacity", self.capacity, "1..=8192", |v| (1..=MAX_CAPACITY).contains(&v))?;
        check("anchor_window_px", self.anchor_window_px, "odd, 3..=31", |v| {
            (3..=MAX_PATCH_PX as u32).contains(&v) && v % 2 == 1
        })?;
        check("anchor_iterations", self.anchor_iterations, "1..=255", |v| (1..=255).contains(&v))?;
        check("anchor_epsilon_px", self.anchor_epsilon_px, "above 0", |v| v > 0.0 && v.is_finite())?;
        check("seen_ncc", self.seen_ncc, "-1..=1", |v| (-1.0..=1.0).contains(&v))
    }

    /// The options for pictures of `width` x `height` pixels.
    pub fn for_size(&self, width: usize, height: usize) -> KltOptions {
        let preset = KltOptions::for_size(width, height);
        let window_px = self.window_px.unwrap_or(preset.window_px).min(largest_window(width, height));
        let levels = self.levels.unwrap_or_else(|| levels_for(width, height));
        KltOptions {
            levels: levels.min(most_levels(width, height, window_px)),
            window_px,
            max_iterations: self.max_iterations.unwrap_or(preset.max_iterations),
            epsilon_px: self.epsilon_px.unwrap_or(preset.epsilon_px),
            min_eigen: self.min_eigen.unwrap_or(preset.min_eigen),
            forward_backward_px: self.forward_backward_px.unwrap_or(preset.forward_backward_px),
            min_ncc: self.min_ncc.unwrap_or(preset.min_ncc),
            photometric: self.photometric.unwrap_or(preset.photometric),
            quality_level: self.quality_level.unwrap_or(preset.quality_level),
            min_distance_px: self.min_distance_px.unwrap_or(preset.min_distance_px),
            max_age_frames: self.max_age_frames.unwrap_or(preset.max_age_frames),
            capacity: self.capacity.unwrap_or(preset.capacity),
            anchor: self.anchor.unwrap_or(preset.anchor),
            anchor_window_px: self
                .anchor_window_px
                .unwrap_or(preset.anchor_window_px)
                .min(largest_window(width, height)),
            anchor_iterations: self.anchor_iterations.unwrap_or(preset.anchor_iterations),
            anchor_epsilon_px: self.anchor_epsilon_px.unwrap_or(preset.anchor_epsilon_px),
            seen_ncc: self.seen_ncc.unwrap_or(preset.seen_ncc),
        }
    }
}

fn check<T: Copy + ToString>(
    option: &'static str,
    value: Option<T>,
    range: &'static str,
    is_valid: impl Fn(T) -> bool,
) -> Result<(), KltOptionError> {
    match value {
        Some(v) if !is_valid(v) => Err(KltOptionError { option, value: v.to_string(), range }),
        _ => Ok(()),
    }
}

/// The tracker's options for one picture size. Meanings and ranges as in [`KltPushOptions`].
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct KltOptions {
    /// Pyramid levels, level 0 included.
    pub levels: u32,
    /// Side of the square tracking window, odd.
    pub window_px: u32,
    /// Most steps a level.
    pub max_iterations: u32,
    /// Length of the last step.
    pub epsilon_px: f32,
    /// Smallest eigenvalue a window pixel.
    pub min_eigen: f32,
    /// Largest forward-backward distance.
    pub forward_backward_px: f32,
    /// Smallest zero-mean correlation of the final windows.
    pub min_ncc: f32,
    /// 0 plain, 1 mean removed, 2 mean removed and scaled to the template's variance.
    pub photometric: u32,
    /// Share of the frame's largest smaller eigenvalue.
    pub quality_level: f32,
    /// Distance of new points among themselves and to live tracks.
    pub min_distance_px: f32,
    /// Sampled frames since the seed or the last join.
    pub max_age_frames: u32,
    /// Most live tracks.
    pub capacity: u32,
    /// Whether tracks are aligned with the patches about their seeds.
    pub anchor: bool,
    /// Side of the square patch, odd.
    pub anchor_window_px: u32,
    /// Most steps of that alignment.
    pub anchor_iterations: u32,
    /// Motion of the patch's centre and rim in the last step.
    pub anchor_epsilon_px: f32,
    /// Correlation with the patch of a track that shows what its seed shows.
    pub seen_ncc: f32,
}

impl KltOptions {
    /// The options for pictures of `width` x `height` pixels. Levels and window go by the longer side: a portrait picture
    /// is the same camera turned.
    pub fn for_size(width: usize, height: usize) -> KltOptions {
        let window_px = window_for(width, height).min(largest_window(width, height));
        KltOptions {
            levels: levels_for(width, height).min(most_levels(width, height, window_px)),
            window_px,
            max_iterations: 20,
            epsilon_px: 0.03,
            min_eigen: 1e-6,
            forward_backward_px: 0.5,
            min_ncc: 0.8,
            photometric: 2,
            quality_level: 0.01,
            min_distance_px: 8.0,
            max_age_frames: 16,
            capacity: 1024,
            anchor: true,
            anchor_window_px: 15.min(largest_window(width, height)),
            anchor_iterations: 10,
            anchor_epsilon_px: 0.1,
            seen_ncc: 0.95,
        }
    }

    /// What the tracking kernel reads of them.
    pub fn track_params(&self) -> TrackParams {
        TrackParams {
            window_px: self.window_px as usize,
            max_iterations: self.max_iterations,
            epsilon_px: self.epsilon_px,
            min_eigen: self.min_eigen,
            photometric: self.photometric,
        }
    }

    /// What reading a patch about a seed needs of them.
    pub fn patch_params(&self) -> PatchParams {
        PatchParams { window_px: self.anchor_window_px as usize, min_eigen: self.min_eigen }
    }

    /// What the alignment with the patches needs of them.
    pub fn anchor_params(&self) -> AnchorParams {
        AnchorParams {
            window_px: self.anchor_window_px as usize,
            max_iterations: self.anchor_iterations,
            epsilon_px: self.anchor_epsilon_px,
            min_ncc: self.min_ncc,
            seen_ncc: self.seen_ncc,
        }
    }
}

/// 5 + round(log2(longer side / 640)), at least 1.
fn levels_for(width: usize, height: usize) -> u32 {
    let octaves = libm::log2(width.max(height).max(1) as f64 / 640.0);
    (5.0 + octaves.round()).clamp(1.0, MAX_LEVELS as f64) as u32
}

/// 15 up to a longer side of 1280, 21 from 1920, odd between.
fn window_for(width: usize, height: usize) -> u32 {
    let side = width.max(height).clamp(1280, 1920);
    15 + 2 * (((side - 1280) * 3 + 320) / 640) as u32
}

/// The largest odd window that fits, at least 3.
fn largest_window(width: usize, height: usize) -> u32 {
    let side = width.min(height).min(MAX_WINDOW_PX as usize) as u32;
    (side.saturating_sub(1) / 2 * 2 + 1).max(3)
}

/// Levels until the shorter side of the top one would be smaller than the window, at least 1.
fn most_levels(width: usize, height: usize, window_px: u32) -> u32 {
    let mut side = width.min(height);
    let mut levels = 1;
    while side.div_ceil(2) >= window_px as usize && levels < MAX_LEVELS {
        side = side.div_ceil(2);
        levels += 1;
    }
    levels
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_follow_the_size() {
        let of = |width, height| {
            let options = KltOptions::for_size(width, height);
            (options.levels, options.window_px)
        };
        assert_eq!((of(640, 360), of(1280, 720)), ((5, 15), (6, 15)));
        assert_eq!((of(360, 640), of(720, 1280)), ((5, 15), (6, 15)));
        assert_eq!((of(320, 240), of(960, 540), of(1920, 1080)), ((4, 15), (6, 15), (6, 21)));
        // What the picture cannot hold: the top level is at least a window wide.
        assert_eq!((of(1280, 100), of(1, 1), of(12, 4000)), ((3, 15), (1, 3), (1, 11)));
    }

    #[test]
    fn what_the_user_says_holds_as_far_as_the_picture_does() {
        let user = KltPushOptions {
            levels: Some(12),
            window_px: Some(31),
            min_ncc: Some(0.5),
            capacity: Some(8192),
            ..Default::default()
        };
        let options = user.for_size(640, 360);
        assert_eq!((options.levels, options.window_px, options.capacity), (4, 31, 8192));
        assert_eq!(options.min_ncc, 0.5);
        assert_eq!(user.for_size(20, 20).window_px, 19);
        assert_eq!(user.for_size(640, 10).anchor_window_px, 9);
        assert_eq!(KltPushOptions::default().for_size(640, 360), KltOptions::for_size(640, 360));
    }

    #[test]
    fn an_option_out_of_range_is_named() {
        let wrong = |text: &str| {
            let options: KltPushOptions = toml::from_str(text).expect("a table");
            options.check().map_err(|error| error.to_string())
        };
        assert_eq!(wrong("window_px = 15\nphotometric = 0"), Ok(()));
        let message = "klt_push.window_px is 14, but must be odd, 3..=63";
        assert_eq!(wrong("window_px = 14"), Err(message.to_owned()));
        for text in
            ["levels = 0", "max_iterations = 256", "epsilon_px = 0.0", "min_eigen = -1.0", "capacity = 8193"]
        {
            assert!(wrong(text).is_err(), "{text}");
        }
        for text in ["photometric = 3", "quality_level = 1.5", "min_distance_px = 0.5", "max_age_frames = 0"]
        {
            assert!(wrong(text).is_err(), "{text}");
        }
        for text in
            ["anchor_window_px = 33", "anchor_iterations = 0", "anchor_epsilon_px = 0.0", "seen_ncc = 1.1"]
        {
            assert!(wrong(text).is_err(), "{text}");
        }
        for text in ["forward_backward_px = 0.0", "min_ncc = nan", "epsilon_px = inf", "window_px = 65"] {
            assert!(wrong(text).is_err(), "{text}");
        }
        assert!(toml::from_str::<KltPushOptions>("halfwindow = 7").is_err());
    }
}
