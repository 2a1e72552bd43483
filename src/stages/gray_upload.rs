//! Stage `gray_upload`: gray at analysis size.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::{RunContext, Stage, StageError};
use crate::device::{Device, DeviceError};
use crate::gray::{Conversion, Shape};
use crate::message::{Frame, GrayFrame, Sizes};
use crate::picture::Picture;

/// Options of `gray_upload`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
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
    device: Device,
    /// What the last picture's shape asks for.
    plan: Option<(Sizes, Conversion)>,
}

impl GrayUpload {
    /// Errors where a size is below 32 (analysis) or 1 (export).
    pub fn new(options: GrayUploadOptions, context: &RunContext) -> Result<GrayUpload, SizeError> {
        let (analysis_size_px, max_image_size_px) = (options.analysis_size_px, context.max_image_size_px);
        let at_least = |option, value, smallest| {
            if value < smallest { Err(SizeError { option, value, smallest }) } else { Ok(()) }
        };
        at_least("gray_upload.analysis_size_px", analysis_size_px, 32)?;
        at_least("--max-image-size", max_image_size_px.unwrap_or(1), 1)?;
        Ok(GrayUpload { analysis_size_px, max_image_size_px, device: context.device.clone(), plan: None })
    }

    fn plan(&mut self, picture: &Picture) -> Result<&mut (Sizes, Conversion), DeviceError> {
        let plan = self.plan.take().filter(|(_, conversion)| conversion.shape() == Shape::of(picture));
        let plan = match plan {
            Some(plan) => plan,
            None => {
                let sizes = sizes(picture.square_size(), self.analysis_size_px, self.max_image_size_px);
                (sizes, Conversion::new(&self.device, picture, sizes.analysis)?)
            }
        };
        Ok(self.plan.insert(plan))
    }
}

impl Stage for GrayUpload {
    type Takes = Frame;
    type Gives = GrayFrame;

    fn fire(&mut self, Frame { info, picture }: Frame) -> Result<GrayFrame, StageError> {
        picture.check()?;
        let (sizes, conversion) = self.plan(&picture)?;
        let gray = conversion.run(&picture)?;
        Ok(GrayFrame { info, gray, sizes: *sizes, picture })
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

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::sync::Arc;

    use super::*;
    use crate::kernels::gray_luma::gray_luma;
    use crate::message::FrameInfo;
    use crate::picture::area::AreaTaps;
    use crate::picture::{ColorMatrix, GrayImage, PixelLayout, Plane, rgb_from_picture};

    fn context(max_image_size_px: Option<u32>) -> RunContext {
        RunContext {
            input: String::new(),
            out: PathBuf::new(),
            seed: 0,
            camera: Default::default(),
            max_image_size_px,
            verdict_lag_frames: 4,
            ..RunContext::default()
        }
    }

    fn gray_of(picture: Picture, analysis_size_px: u32, max_image_size_px: Option<u32>) -> GrayFrame {
        let options = GrayUploadOptions { analysis_size_px };
        let info = FrameInfo { index: 0, number: 0, pts_ns: 0, video: Arc::default() };
        let mut stage = GrayUpload::new(options, &context(max_image_size_px)).unwrap();
        stage.fire(Frame { info, picture: Arc::new(picture) }).unwrap()
    }

    fn picture(
        width: u32,
        height: u32,
        layout: PixelLayout,
        full_range: bool,
        luma: impl Fn(u32, u32) -> u8,
    ) -> Picture {
        let planes = layout.plane_sizes(width, height).into_iter().enumerate().map(|(i, (row, rows))| {
            let n_interleaved = if layout == PixelLayout::Rgb { 3 } else { 1 };
            let stride = row + 3;
            let mut data = vec![128; stride * rows];
            for (y, samples) in data.chunks_exact_mut(stride).enumerate().filter(|_| i == 0) {
                for (x, sample) in samples[..row].iter_mut().enumerate() {
                    *sample = luma((x / n_interleaved) as u32, y as u32);
                }
            }
            Plane { stride, data }
        });
        let planes = planes.collect();
        Picture {
            width,
            height,
            pixel_aspect: (1, 1),
            layout,
            matrix: ColorMatrix::Bt601,
            full_range,
            planes,
        }
    }

    /// A bright Gaussian spot on black; positions count from the corner of the picture in square pixels.
    fn spot(x: f64, y: f64, across: f64) -> impl Fn(u32, u32) -> u8 {
        move |column, row| {
            let (dx, dy) = ((column as f64 + 0.5) * across - x, row as f64 + 0.5 - y);
            (250.0 * libm::exp(-(dx * dx + dy * dy) / (2.0 * 36.0))) as u8
        }
    }

    /// Centre of mass in analysis pixels.
    fn centre(gray: &GrayImage) -> (f32, f32) {
        let (mut sum, mut x_sum, mut y_sum) = (0.0f64, 0.0, 0.0);
        for y in 0..gray.height {
            for x in 0..gray.width {
                let value = gray.at(x, y) as f64;
                (sum, x_sum, y_sum) = (sum + value, x_sum + value * x as f64, y_sum + value * y as f64);
            }
        }
        ((x_sum / sum) as f32, (y_sum / sum) as f32)
    }

    fn assert_found(frame: &GrayFrame, x: f64, y: f64) {
        let (found_x, found_y) = centre(&frame.gray.host().unwrap());
        let [found_x, found_y] = frame.sizes.exported_from_analysis(found_x, found_y);
        assert!(
            (found_x - x).abs() < 0.02 && (found_y - y).abs() < 0.02,
            "({x}, {y}) came out at ({found_x}, {found_y})"
        );
    }

    #[test]
    fn a_spot_stays_where_it_is() {
        // 752x480 becomes 640x409: 480 / 409 is no 752 / 640, which is half a pixel at the bottom.
        for (x, y) in [(100.3, 60.7), (700.0, 440.0), (376.0, 240.0)] {
            let frame = gray_of(picture(752, 480, PixelLayout::Gray, true, spot(x, y, 1.0)), 640, None);
            assert_eq!((frame.sizes.analysis, frame.sizes.exported), ((640, 409), (752, 480)));
            assert_found(&frame, x, y);
            let portrait = gray_of(picture(480, 752, PixelLayout::Gray, true, spot(y, x, 1.0)), 640, None);
            assert_found(&portrait, y, x);
        }
    }

    #[test]
    fn a_limited_export_has_the_same_geometry() {
        let (x, y) = (640.5, 400.25);
        let source = picture(752, 480, PixelLayout::Gray, true, spot(x, y, 1.0));
        let frame = gray_of(source.clone(), 640, Some(500));
        assert_eq!(frame.sizes.exported, (500, 319));
        let (to_x, to_y) = (x * 500.0 / 752.0, y * 500.0 / 752.0);
        assert_found(&frame, to_x, to_y);
        let rgb = rgb_from_picture(&source, 500, 319).unwrap();
        let data = rgb.pixels().map(|pixel| pixel.0[1] as f32).collect();
        let (found_x, found_y) = centre(&GrayImage { width: 500, height: 319, data });
        assert!((found_x as f64 + 0.5 - to_x).abs() < 0.02 && (found_y as f64 + 0.5 - to_y).abs() < 0.02);
    }

    #[test]
    fn wide_samples_become_square() {
        let (x, y) = (301.0, 200.0);
        for analysis_size_px in [1280, 320] {
            let wide = picture(352, 288, PixelLayout::I420, true, spot(x, y, 12.0 / 11.0));
            let frame = gray_of(Picture { pixel_aspect: (12, 11), ..wide }, analysis_size_px, None);
            assert_eq!(frame.sizes.exported, (384, 288));
            assert_found(&frame, x, y);
        }
    }

    #[test]
    fn range_and_layout_give_the_same_gray() {
        use PixelLayout::*;
        for (layout, full_range) in [
            (Gray, true),
            (Gray, false),
            (I420, false),
            (I422, true),
            (I444, false),
            (Nv12, false),
            (Rgb, true),
        ] {
            // 0, a quarter, 1 and what lies outside a limited range.
            let (black, white) = if full_range { (0.0, 255.0) } else { (16.0, 235.0) };
            let levels = [black as u8, (black + (white - black) / 3.0) as u8, white as u8, 0, 255];
            let frame =
                gray_of(picture(41, 33, layout, full_range, |x, _| levels[x as usize % 5]), 1280, None);
            assert_eq!(frame.sizes.analysis, (41, 33), "enlarged");
            for (x, expected) in [(0, 0.0), (1, 1.0 / 3.0), (2, 1.0), (3, 0.0), (4, 1.0)] {
                let found = frame.gray.host().unwrap().at(x, 7);
                assert!(
                    (found - expected).abs() < 1e-5,
                    "{layout:?} full {full_range}: {found}, not {expected}"
                );
                assert!((0.0..=1.0).contains(&found));
            }
        }
    }

    #[test]
    fn rgb_is_weighted_as_rec_601_says() {
        let mut red = picture(8, 8, PixelLayout::Rgb, true, |_, _| 0);
        for pixel in red.planes[0].data.chunks_exact_mut(27).flat_map(|row| row[..24].chunks_exact_mut(3)) {
            pixel.copy_from_slice(&[255, 0, 51]);
        }
        let found = gray_of(red, 64, None).gray.host().unwrap().at(5, 5);
        assert!((found - (0.299 + 0.114 * 0.2)).abs() < 1e-6, "{found}");
    }

    #[test]
    fn bands_do_not_change_a_bit() {
        let source = picture(301, 203, PixelLayout::Gray, false, |x, y| (x * 7 + y * 31) as u8);
        let (columns, rows) = AreaTaps::of_picture(&source, 200, 135);
        let run = |n_bands: usize| {
            let (mut scratch, mut gray) = (vec![0.0; 301 * n_bands], vec![0.0; 200 * 135]);
            gray_luma(&source.planes[0].data, 304, false, &columns, &rows, &mut scratch, &mut gray);
            gray
        };
        assert_eq!(run(1), run(7));
    }

    #[test]
    fn sizes_keep_one_factor() {
        assert_eq!(sizes((1920, 1080), 1280, None).analysis, (1280, 720));
        assert_eq!(sizes((1080, 1920), 1280, None).analysis, (720, 1280));
        assert_eq!(sizes((640, 480), 1280, None).scale, 1.0);
        for full in [(333, 4000), (4000, 333), (161, 121), (3, 4000)] {
            let (w, h) = sizes(full, 100, None).analysis;
            assert!(w.max(h) <= 100 && w > 0 && h > 0, "{full:?}: {w}x{h}");
        }
        let too_small = GrayUpload::new(GrayUploadOptions { analysis_size_px: 31 }, &context(None)).err();
        let says = "gray_upload.analysis_size_px is 31: it must be at least 32";
        assert_eq!(too_small.unwrap().to_string(), says);
    }
}
