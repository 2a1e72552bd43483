//! From GStreamer's frames to pictures: the planes as they are where the layout is ours, converted otherwise.

use std::str::FromStr;

use gstreamer as gst;
use gstreamer::glib::translate::IntoGlib;
use gstreamer_video as gst_video;
use gstreamer_video::prelude::*;
use gstreamer_video::{VideoFormat, VideoFrameRef, VideoInfo};

use super::tone_map::{ToneMap, Transfer};
use crate::picture::orient::{Orientation, upright_plane};
use crate::picture::{ColorMatrix, Picture, PixelLayout, Plane, square_size};

/// Makes pictures of frames of one format.
pub struct Converter {
    /// The format it was made for.
    pub caps: gst::Caps,
    /// Pixel aspect ratio as coded.
    pub pixel_aspect: (u32, u32),
    info: VideoInfo,
    orientation: Orientation,
    /// Layout of the pictures.
    layout: PixelLayout,
    /// Where the decoder's layout is not ours.
    convert: Option<(gst_video::VideoConverter, VideoInfo)>,
    /// Where the transfer function is that of high dynamic range.
    tone_map: Option<ToneMap>,
}

impl Converter {
    /// `colorimetry` (GStreamer's notation) holds where the format has none. Errors where GStreamer cannot describe or
    /// convert the format.
    pub fn new(
        caps: gst::Caps,
        orientation: Orientation,
        colorimetry: Option<&str>,
    ) -> Result<Converter, String> {
        let mut described = caps.clone();
        if let (Some(colorimetry), Some(format)) = (colorimetry, described.make_mut().structure_mut(0))
            && !format.has_field("colorimetry")
        {
            format.set("colorimetry", colorimetry);
        }
        let info = VideoInfo::from_caps(&described).map_err(|e| format!("format {described}: {e}"))?;
        let par = info.par();
        let pixel_aspect = match (par.numer(), par.denom()) {
            (across, down) if across > 0 && down > 0 => (across as u32, down as u32),
            _ => (1, 1),
        };
        let tone_map = transfer(&info).map(ToneMap::new);
        let (layout, format) = if tone_map.is_some() {
            (PixelLayout::Rgb, VideoFormat::Argb64)
        } else {
            target(&info, orientation)
        };
        let convert = if format == info.format() { None } else { Some(converter(&info, format)?) };
        Ok(Converter { caps, pixel_aspect, info, orientation, layout, convert, tone_map })
    }

    /// Upright size in square pixels.
    pub fn upright_size(&self) -> (u32, u32) {
        let (width, height) = self.orientation.upright((self.info.width(), self.info.height()));
        square_size(width, height, self.orientation.upright(self.pixel_aspect))
    }

    /// An upright copy of a frame.
    pub fn picture(&self, sample: &gst::Sample) -> Result<Picture, String> {
        let buffer = sample.buffer().ok_or("a frame without data")?;
        let frame = VideoFrameRef::from_buffer_ref_readable(buffer, &self.info).map_err(|e| e.to_string())?;
        let Some((converter, info)) = &self.convert else { return Ok(self.upright(&frame)) };
        let mut converted = gst::Buffer::with_size(info.size()).map_err(|e| e.to_string())?;
        let target = converted.get_mut().expect("nobody else holds the new buffer");
        let mut target = VideoFrameRef::from_buffer_ref_writable(target, info).map_err(|e| e.to_string())?;
        converter.frame_ref(&frame, &mut target);
        drop(target);
        let frame = VideoFrameRef::from_buffer_ref_readable(&converted, info).map_err(|e| e.to_string())?;
        Ok(self.upright(&frame))
    }

    fn upright(&self, frame: &VideoFrameRef<&gst::BufferRef>) -> Picture {
        let coded = (frame.width() as usize, frame.height() as usize);
        let chroma = |component: u8| {
            let info = frame.info();
            (info.comp_width(component) as usize, info.comp_height(component) as usize)
        };
        let plane = |i: usize| (frame.plane_data(i as u32).unwrap_or(&[]), frame.plane_stride()[i] as usize);
        let luma = || {
            let (samples, stride) = plane(0);
            upright_plane::<1>(samples, stride, coded, self.orientation)
        };
        let planes = match self.layout {
            PixelLayout::Gray => vec![luma()],
            PixelLayout::Nv12 => {
                let (samples, stride) = plane(1);
                vec![luma(), upright_plane::<2>(samples, stride, chroma(1), self.orientation)]
            }
            PixelLayout::Rgb => vec![self.upright_rgb(plane(0), coded)],
            _ => {
                let component = |c: u8| {
                    let (samples, stride) = plane(frame.info().comp_plane(c) as usize);
                    upright_plane::<1>(samples, stride, chroma(c), self.orientation)
                };
                vec![luma(), component(1), component(2)]
            }
        };
        let (width, height) = self.orientation.upright((frame.width(), frame.height()));
        Picture {
            width,
            height,
            pixel_aspect: self.orientation.upright(self.pixel_aspect),
            layout: self.layout,
            matrix: matrix(&self.info),
            full_range: self.layout == PixelLayout::Rgb
                || self.info.colorimetry().range() == gst_video::VideoColorRange::Range0_255,
            planes,
        }
    }

    fn upright_rgb(&self, (samples, stride): (&[u8], usize), coded: (usize, usize)) -> Plane {
        match &self.tone_map {
            None => upright_plane::<3>(samples, stride, coded, self.orientation),
            Some(tone_map) => {
                let rgb = tone_map.rgb_from_argb64(samples, stride, coded);
                upright_plane::<3>(&rgb, 3 * coded.0, coded, self.orientation)
            }
        }
    }
}

/// Our layout for a format, and the format it must be brought to first (its own, where nothing is to be done).
fn target(info: &VideoInfo, orientation: Orientation) -> (PixelLayout, VideoFormat) {
    let format = info.format();
    let turned = orientation.swaps_axes();
    match format {
        VideoFormat::I420 | VideoFormat::Yv12 => (PixelLayout::I420, format),
        VideoFormat::Nv12 => (PixelLayout::Nv12, format),
        VideoFormat::Y444 => (PixelLayout::I444, format),
        VideoFormat::Y42b if !turned => (PixelLayout::I422, format),
        VideoFormat::Gray8 => (PixelLayout::Gray, format),
        VideoFormat::Rgb => (PixelLayout::Rgb, format),
        _ if info.is_gray() => (PixelLayout::Gray, VideoFormat::Gray8),
        _ if info.is_yuv() => match (info.format_info().w_sub()[1], info.format_info().h_sub()[1]) {
            (0, _) => (PixelLayout::I444, VideoFormat::Y444),
            // Half the chroma columns become half the rows in a turned picture: no layout of ours.
            (_, 0) if turned => (PixelLayout::I444, VideoFormat::Y444),
            (_, 0) => (PixelLayout::I422, VideoFormat::Y42b),
            _ => (PixelLayout::I420, VideoFormat::I420),
        },
        _ => (PixelLayout::Rgb, VideoFormat::Rgb),
    }
}

/// A converter that changes layout and depth alone; to RGB also the matrix.
fn converter(
    info: &VideoInfo,
    format: VideoFormat,
) -> Result<(gst_video::VideoConverter, VideoInfo), String> {
    let refused = |e: gst::glib::BoolError| format!("{} to {format}: {e}", info.format());
    let mut to = VideoInfo::builder(format, info.width(), info.height())
        .fps(info.fps())
        .interlace_mode(info.interlace_mode());
    let colorimetry = info.colorimetry();
    if !info.is_rgb() && !matches!(format, VideoFormat::Rgb | VideoFormat::Argb64) {
        to = to.colorimetry(&colorimetry);
    }
    let to = to.build().map_err(refused)?;
    let mut config = gst_video::VideoConverterConfig::new();
    config.set_dither_method(gst_video::VideoDitherMethod::None);
    let converter = gst_video::VideoConverter::new(info, &to, Some(config)).map_err(refused)?;
    Ok((converter, to))
}

fn matrix(info: &VideoInfo) -> ColorMatrix {
    match info.colorimetry().matrix() {
        gst_video::VideoColorMatrix::Bt709 | gst_video::VideoColorMatrix::Smpte240m => ColorMatrix::Bt709,
        gst_video::VideoColorMatrix::Bt2020 => ColorMatrix::Bt2020,
        _ => ColorMatrix::Bt601,
    }
}

/// GStreamer's numbers of the transfer functions of high dynamic range; the bindings name them only where they demand
/// a newer GStreamer than the others need.
const SMPTE_2084: i32 = 14;
const ARIB_STD_B67: i32 = 15;

fn transfer(info: &VideoInfo) -> Option<Transfer> {
    match info.colorimetry().transfer().into_glib() {
        SMPTE_2084 => Some(Transfer::Pq),
        ARIB_STD_B67 => Some(Transfer::Hlg),
        _ => None,
    }
}

/// GStreamer's tag names the turn after a mirror (`flip-rotate-90`); ours mirrors after the turn.
pub fn orientation_from_tag(tag: &str) -> Orientation {
    let (mirrored, turn) = match tag.strip_prefix("flip-") {
        Some(turn) => (true, turn),
        None => (false, tag),
    };
    let degrees = turn.strip_prefix("rotate-").and_then(|d| u32::from_str(d).ok()).unwrap_or(0);
    let turns = (degrees / 90 % 4) as u8;
    Orientation { quarter_turns: if mirrored { (4 - turns) % 4 } else { turns }, mirrored }
}
