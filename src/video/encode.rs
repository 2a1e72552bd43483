//! Writing a video: VP8 in WebM, or FFV1 in Matroska where no bit may be lost. The same frames give the same stream.

use std::path::{Path, PathBuf};

use gstreamer as gst;
use gstreamer::prelude::*;
use gstreamer_app as gst_app;
use gstreamer_video as gst_video;
use image::RgbImage;

use super::VideoError;

/// How much may be lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VideoQuality {
    /// VP8 in WebM (`.webm`) at a high quality: small, plays everywhere.
    High,
    /// FFV1 in Matroska (`.mkv`): luma and (halved) chroma survive bit for bit.
    Lossless,
}

/// A video file being written at a constant rate. Without `finish` the file stays incomplete.
pub struct VideoEncoder {
    path: PathBuf,
    size: (u32, u32),
    fps: (u32, u32),
    n_frames: u64,
    pipeline: gst::Pipeline,
    source: gst_app::AppSrc,
}

/// Longest wait for the encoder to end.
const FINISH_TIMEOUT: gst::ClockTime = gst::ClockTime::from_seconds(120);

impl VideoEncoder {
    /// Opens `path` for `width` x `height` pixels at `fps_numerator / fps_denominator` frames a second. WebM and
    /// Matroska round times to milliseconds: rates that divide 1000 are exact.
    pub fn create(
        path: &Path,
        width: u32,
        height: u32,
        fps_numerator: u32,
        fps_denominator: u32,
        quality: VideoQuality,
    ) -> Result<VideoEncoder, VideoError> {
        let failed = |reason: String| VideoError::Encode { path: path.into(), reason };
        if width == 0 || height == 0 || fps_numerator == 0 || fps_denominator == 0 {
            let rate = format!("{fps_numerator}/{fps_denominator}");
            return Err(failed(format!("{width}x{height} at {rate} frames a second is empty")));
        }
        gst::init().map_err(|e| VideoError::Backend { reason: e.to_string() })?;
        let (size, fps) = ((width, height), (fps_numerator, fps_denominator));
        let source = rgb_source(size, fps).map_err(|e| failed(e.to_string()))?;
        let pipeline = gst::Pipeline::new();
        let mut elements = vec![source.clone().upcast::<gst::Element>()];
        for (name, package) in chain(quality) {
            elements.push(gst::ElementFactory::make(name).build().map_err(|_| {
                VideoError::MissingPlugin {
                    input: path.display().to_string(),
                    what: name.into(),
                    package: package.into(),
                }
            })?);
        }
        let [_, _, filter, encoder, .., sink] = &elements[..] else {
            unreachable!("the chain has six elements")
        };
        let i420 =
            gst::Caps::builder("video/x-raw").field("format", "I420").field("colorimetry", "bt601").build();
        filter.set_property("caps", i420);
        sink.set_property("location", path.to_string_lossy().as_ref());
        set_quality(encoder, quality, size);
        let linked = pipeline.add_many(&elements).and_then(|()| gst::Element::link_many(&elements));
        linked.map_err(|e| failed(e.to_string()))?;
        let encoder = VideoEncoder { path: path.into(), size, fps, n_frames: 0, pipeline, source };
        encoder.pipeline.set_state(gst::State::Playing).map_err(|_| encoder.failure())?;
        Ok(encoder)
    }

    /// Adds a frame; it must have the size of the video.
    pub fn push(&mut self, frame: &RgbImage) -> Result<(), VideoError> {
        if frame.dimensions() != self.size {
            let ((w, h), (width, height)) = (frame.dimensions(), self.size);
            let reason = format!("frame {} is {w}x{h}, the video {width}x{height}", self.n_frames);
            return Err(VideoError::Encode { path: self.path.clone(), reason });
        }
        let row = 3 * self.size.0 as usize;
        let mut samples = Vec::with_capacity(row.next_multiple_of(4) * self.size.1 as usize);
        for pixels in frame.as_raw().chunks_exact(row) {
            samples.extend_from_slice(pixels);
            samples.resize(samples.len().next_multiple_of(4), 0); // GStreamer's rows begin at multiples of 4
        }
        let mut buffer = gst::Buffer::from_mut_slice(samples);
        let times = buffer.get_mut().expect("nobody else holds the new buffer");
        times.set_pts(self.time(self.n_frames));
        times.set_duration(self.time(self.n_frames + 1) - self.time(self.n_frames));
        self.n_frames += 1;
        self.source.push_buffer(buffer).map(drop).map_err(|_| self.failure())
    }

    /// Writes what is left and closes the file.
    pub fn finish(self) -> Result<(), VideoError> {
        self.source.end_of_stream().map_err(|_| self.failure())?;
        let bus = self.pipeline.bus().expect("a pipeline has a bus");
        let ends = [gst::MessageType::Eos, gst::MessageType::Error];
        match bus.timed_pop_filtered(FINISH_TIMEOUT, &ends) {
            Some(message) if message.type_() == gst::MessageType::Eos => Ok(()),
            Some(message) => Err(self.reported(&message)),
            None => Err(self.error(format!("the encoder did not end in {FINISH_TIMEOUT}"))),
        }
    }

    fn time(&self, frame: u64) -> gst::ClockTime {
        let (numerator, denominator) = (self.fps.0 as u128, self.fps.1 as u128);
        gst::ClockTime::from_nseconds((frame as u128 * 1_000_000_000 * denominator / numerator) as u64)
    }

    fn error(&self, reason: String) -> VideoError {
        VideoError::Encode { path: self.path.clone(), reason }
    }

    /// The error that waits on the bus.
    fn failure(&self) -> VideoError {
        let bus = self.pipeline.bus().expect("a pipeline has a bus");
        match bus.timed_pop_filtered(gst::ClockTime::from_seconds(1), &[gst::MessageType::Error]) {
            Some(message) => self.reported(&message),
            None => self.error("the encoder takes no more frames".into()),
        }
    }

    fn reported(&self, message: &gst::Message) -> VideoError {
        match message.view() {
            gst::MessageView::Error(e) => self.error(e.error().message().to_string()),
            _ => self.error("unknown failure".into()),
        }
    }
}

impl Drop for VideoEncoder {
    fn drop(&mut self) {
        let _ = self.pipeline.set_state(gst::State::Null);
    }
}

fn rgb_source((width, height): (u32, u32), fps: (u32, u32)) -> Result<gst_app::AppSrc, gst::glib::BoolError> {
    let info = gst_video::VideoInfo::builder(gst_video::VideoFormat::Rgb, width, height)
        .fps(gst::Fraction::new(fps.0 as i32, fps.1 as i32))
        .build()?;
    let caps = info.to_caps()?;
    let source = gst_app::AppSrc::builder().caps(&caps).format(gst::Format::Time).block(true);
    Ok(source.max_bytes(4 * info.size() as u64).build())
}

/// The elements after the source, with the Debian package of each.
fn chain(quality: VideoQuality) -> [(&'static str, &'static str); 5] {
    let (encoder, muxer) = match quality {
        VideoQuality::High => (("vp8enc", "gstreamer1.0-plugins-good"), "webmmux"),
        VideoQuality::Lossless => (("avenc_ffv1", "gstreamer1.0-libav"), "matroskamux"),
    };
    [
        ("videoconvert", "gstreamer1.0-plugins-base"),
        ("capsfilter", "libgstreamer1.0-0"),
        encoder,
        (muxer, "gstreamer1.0-plugins-good"),
        ("filesink", "libgstreamer1.0-0"),
    ]
}

/// Constant quality on one thread, and speeds that do not depend on the clock.
fn set_quality(encoder: &gst::Element, quality: VideoQuality, (width, height): (u32, u32)) {
    match quality {
        VideoQuality::High => {
            encoder.set_property_from_str("end-usage", "cq");
            encoder.set_property("cq-level", 6i32);
            encoder.set_property("min-quantizer", 0i32);
            encoder.set_property("max-quantizer", 24i32);
            encoder.set_property(
                "target-bitrate",
                (60 * width as i64 * height as i64).min(i32::MAX as i64) as i32,
            );
            encoder.set_property("deadline", 1_000_000i64);
            encoder.set_property("cpu-used", 4i32);
            encoder.set_property("threads", 1i32);
            encoder.set_property("keyframe-max-dist", 30i32);
        }
        VideoQuality::Lossless => encoder.set_property_from_str("threads", "1"),
    }
}
