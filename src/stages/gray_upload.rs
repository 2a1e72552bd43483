//! Stage `gray_upload`: gray at analysis size.

use std::sync::Arc;

use serde::Deserialize;
use thiserror::Error;

use super::{RunContext, Stage, StageError};
use crate::kernels::gray_luma::gray_luma;
use crate::kernels::gray_rgb::gray_rgb;
use crate::message::{Frame, GrayFrame, Sizes};
use crate::picture::area::AreaTaps;
use crate::picture::{GrayImage, Picture, PixelLayout};

/// Options of `gray_upload`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct GrayUploadOptions {
    /// Longer side of the analysed picture in pixels, 32 or more, never enlarged; more finds finer detail, slower.
    pub analysis_size_px: u32,
}

impl Default for GrayUploadOptions {
    fn default() -> Self {
        GrayUploadOptions { analysis_size_px: 1280 }
    }
}

/// A size option out of range.
#[derive(Debug, Error, PartialEq)]
#[error("{option} is {value}: it must be at least {smallest}")]
pub struct SizeError {
    /// The option at fault.
    pub option: &'static str,
    /// What it is set to.
    pub value: u32,
    /// The smallest that makes sense.
    pub smallest: u32,
}

/// Makes the gray picture and settles both sizes.
pub struct GrayUpload {
    analysis_size_px: u32,
    max_image_size_px: Option<u32>,
    /// Taps and scratch of the last picture's shape.
    plan: Option<Plan>,
}

struct Plan {
    shape: (u32, u32, (u32, u32)),
    sizes: Sizes,
    columns: AreaTaps,
    rows: AreaTaps,
    scratch: Vec<f32>,
}

impl GrayUpload {
    /// Errors where a size is below 32 (analysis) or 1 (export).
    pub fn new(options: GrayUploadOptions, context: &RunContext) -> Result<GrayUpload, SizeError> {
        let (analysis_size_px, max_image_size_px) = (options.analysis_size_px, context.max_image_size_px);
        let at_least = |option, value, smallest| {
            if value < smallest { Err(SizeError { option, value, smallest }) } else { Ok(()) }
        };
        at_least("gray_upload.analysis_size_px", analysis_size_px, 32)?;
        at_least("max-image-size", max_image_size_px.unwrap_or(1), 1)?;
        Ok(GrayUpload { analysis_size_px, max_image_size_px, plan: None })
    }

    fn plan(&mut self, picture: &Picture) -> &mut Plan {
        let shape = (picture.width, picture.height, picture.pixel_aspect);
        if self.plan.as_ref().is_none_or(|plan| plan.shape != shape) {
            let sizes = sizes(picture.square_size(), self.analysis_size_px, self.max_image_size_px);
            let (columns, rows) = AreaTaps::of_picture(picture, sizes.analysis.0, sizes.analysis.1);
            let scratch = vec![0.0; columns.n_in * rayon::current_num_threads()];
            self.plan = Some(Plan { shape, sizes, columns, rows, scratch });
        }
        self.plan.as_mut().expect("made above")
    }
}

impl Stage for GrayUpload {
    type Takes = Frame;
    type Gives = GrayFrame;

    fn fire(&mut self, frame: Frame) -> Result<GrayFrame, StageError> {
        frame.picture.check()?;
        let Plan { sizes, columns, rows, scratch, .. } = self.plan(&frame.picture);
        let mut gray = GrayImage::new(sizes.analysis.0 as usize, sizes.analysis.1 as usize);
        let (picture, plane) = (&frame.picture, &frame.picture.planes[0]);
        let (samples, stride) = (&plane.data, plane.stride);
        if picture.layout == PixelLayout::Rgb {
            gray_rgb(samples, stride, columns, rows, scratch, &mut gray.data);
        } else {
            gray_luma(samples, stride, picture.full_range, columns, rows, scratch, &mut gray.data);
        }
        Ok(GrayFrame { info: frame.info, picture: frame.picture, gray: Arc::new(gray), sizes: *sizes })
    }
}

/// Both sizes of an upright picture of `full` square pixels. One factor holds for both axes, so the last row (or
/// column) of a limited picture may end within a pixel of the edge.
pub fn sizes(full: (u32, u32), analysis_size_px: u32, max_image_size_px: Option<u32>) -> Sizes {
    let analysis = limited(full, analysis_size_px);
    let exported = max_image_size_px.map_or(full, |limit| limited(full, limit));
    Sizes { analysis, exported, scale: exported.0 as f64 / analysis.0 as f64 }
}

/// The size with its longer side at most `limit`: the width by whole pixels, the height by the width's factor.
fn limited((width, height): (u32, u32), limit: u32) -> (u32, u32) {
    if width.max(height) <= limit {
        return (width, height);
    }
    let limited_width =
        if width >= height { limit } else { (width as u64 * limit as u64 / height as u64) as u32 };
    let limited_width = limited_width.max(1);
    let limited_height = (height as f64 * limited_width as f64 / width as f64).round() as u32;
    (limited_width, limited_height.clamp(1, limit))
}
