//! Decoding a video file or stream: displayed frames with their times, read to the end without a clock.
//!
//! `uridecodebin ! deinterlace ! appsink`: only a video track is decoded, frames keep the decoder's own layout, and a
//! frame is copied out of GStreamer only when it is sampled. Times are running times, so edit lists and the clipping
//! of segments hold.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use gstreamer as gst;
use gstreamer::prelude::*;
use gstreamer_app as gst_app;
use parking_lot::Mutex;

use super::planes::{Converter, orientation_from_tag};
use super::{DecodedFrame, FrameSource, VideoError};
use crate::message::VideoInfo;
use crate::picture::orient::Orientation;

/// How long one wait for a frame takes before the messages are looked at.
const POLL: gst::ClockTime = gst::ClockTime::from_mseconds(100);
/// How often in a row that wait may be in vain.
const MAX_IDLE_POLLS: u64 = 600;
/// Decoded frames that may wait for the reader.
const QUEUE_FRAMES: u32 = 4;
/// Messages of damage that are passed on word by word; the rest is counted.
const MAX_WARNINGS: usize = 5;

/// What the streaming threads find out before the first frame.
#[derive(Default)]
struct Found {
    orientation: Orientation,
    codec: Option<String>,
    /// What the container says of the colours; it speaks where the stream does not.
    container_colorimetry: Option<String>,
    video_linked: bool,
    all_tracks_known: bool,
}

/// A video being decoded; dropping it stops the decoder.
pub struct VideoDecoder {
    input: String,
    pipeline: gst::Pipeline,
    bus: gst::Bus,
    sink: gst_app::AppSink,
    found: Arc<Mutex<Found>>,
    converter: Option<Converter>,
    clock: Clock,
    info: VideoInfo,
    missing: Vec<String>,
    failure: Option<VideoError>,
    damage: Vec<String>,
    n_damage: u64,
}

/// Numbers and times of the displayed frames.
#[derive(Default)]
struct Clock {
    n_frames: u64,
    first_ns: u64,
    last_ns: u64,
    n_late: u64,
}

impl Clock {
    /// Number and time of the frame shown at `running_ns`. A time that is missing or goes back (damage) becomes that of
    /// the frame before.
    fn tick(&mut self, running_ns: Option<u64>) -> (u64, u64) {
        if self.n_frames == 0 {
            self.first_ns = running_ns.unwrap_or(0);
        }
        let pts_ns = running_ns.map_or(self.last_ns, |t| t.saturating_sub(self.first_ns));
        self.n_late += u64::from(self.n_frames > 0 && pts_ns <= self.last_ns);
        self.last_ns = pts_ns.max(self.last_ns);
        self.n_frames += 1;
        (self.n_frames - 1, self.last_ns)
    }
}

impl VideoDecoder {
    /// Opens a file.
    pub fn open_path(path: &Path) -> Result<VideoDecoder, VideoError> {
        let input = path.display().to_string();
        gst::init().map_err(|e| VideoError::Backend { reason: e.to_string() })?;
        let absolute: PathBuf =
            path.canonicalize().map_err(|_| VideoError::Missing { input: input.clone() })?;
        let uri = gst::glib::filename_to_uri(&absolute, None)
            .map_err(|e| VideoError::NotVideo { input: input.clone(), reason: e.to_string() })?;
        Self::open(input, &uri)
    }

    /// Opens what a URI names: `file://`, `http://` and whatever GStreamer has a source for.
    pub fn open_uri(uri: &str) -> Result<VideoDecoder, VideoError> {
        gst::init().map_err(|e| VideoError::Backend { reason: e.to_string() })?;
        Self::open(uri.into(), uri)
    }

    fn open(input: String, uri: &str) -> Result<VideoDecoder, VideoError> {
        let make = |name: &str, package: &str| {
            gst::ElementFactory::make(name).build().map_err(|_| VideoError::MissingPlugin {
                input: input.clone(),
                what: name.into(),
                package: package.into(),
            })
        };
        let source = make("uridecodebin", "gstreamer1.0-plugins-base")?;
        source.set_property("uri", uri);
        source.set_property("caps", gst::Caps::builder("video/x-raw").any_features().build());
        source.set_property("expose-all-streams", false);
        source.set_property("force-sw-decoders", true);
        // From the network through a temporary file: read forwards only, an edit list or a late index loses frames.
        source.set_property("download", true);
        let deinterlace = make("deinterlace", "gstreamer1.0-plugins-good")?;
        deinterlace.set_property_from_str("fields", "top"); // one picture a frame, not one a field
        let sink = gst_app::AppSink::builder()
            .sync(false)
            .qos(false)
            .max_buffers(QUEUE_FRAMES)
            .enable_last_sample(false)
            .caps(&gst::Caps::new_empty_simple("video/x-raw"))
            .build();

        let pipeline = gst::Pipeline::new();
        let broken = |reason: String| VideoError::Broken { input: input.clone(), frames: 0, reason };
        pipeline
            .add_many([&source, &deinterlace, sink.upcast_ref()])
            .and_then(|()| deinterlace.link(&sink))
            .map_err(|e| broken(e.to_string()))?;
        let found = Arc::new(Mutex::new(Found::default()));
        link_first_video(&source, &deinterlace, &found);
        watch_stream(&sink, &found);
        prefer_colours_of_the_stream(&pipeline, &found);
        let bus = pipeline.bus().expect("a pipeline has a bus");
        let decoder = VideoDecoder {
            info: VideoInfo { input: input.clone(), ..VideoInfo::default() },
            input,
            pipeline,
            bus,
            sink,
            found,
            converter: None,
            clock: Clock::default(),
            missing: Vec::new(),
            failure: None,
            damage: Vec::new(),
            n_damage: 0,
        };
        // A failure to start is on the bus too, with its reason.
        let _ = decoder.pipeline.set_state(gst::State::Playing);
        Ok(decoder)
    }

    /// The next displayed frame; none at a good end.
    fn pull(&mut self) -> Result<Option<gst::Sample>, VideoError> {
        for _ in 0..MAX_IDLE_POLLS {
            if let Some(sample) = self.sink.try_pull_sample(POLL) {
                return Ok(Some(sample));
            }
            let ended = self.sink.is_eos();
            self.read_messages();
            if let Some(failure) = self.failure.take() {
                return Err(failure);
            }
            if ended {
                return if self.clock.n_frames > 0 { Ok(None) } else { Err(self.nothing_came()) };
            }
            let (known, linked) = {
                let found = self.found.lock();
                (found.all_tracks_known, found.video_linked)
            };
            if known && !linked {
                return Err(self.nothing_came());
            }
        }
        let seconds = MAX_IDLE_POLLS * POLL.mseconds() / 1000;
        Err(VideoError::Stalled { input: self.input.clone(), seconds, frames: self.clock.n_frames })
    }

    fn read_messages(&mut self) {
        while let Some(message) = self.bus.pop() {
            match message.view() {
                gst::MessageView::Error(e) if self.failure.is_none() => {
                    self.failure = Some(self.failure_from(&e.error(), e.debug().as_deref()));
                }
                gst::MessageView::Warning(w) if !w.error().matches(gst::StreamError::CodecNotFound) => {
                    self.n_damage += 1;
                    if self.damage.len() < MAX_WARNINGS {
                        self.damage.push(w.error().message().to_string());
                    }
                }
                gst::MessageView::Element(e) => {
                    self.missing.extend(e.structure().and_then(missing_for_video));
                }
                _ => {}
            }
        }
    }

    fn failure_from(&self, error: &gst::glib::Error, debug: Option<&str>) -> VideoError {
        let input = self.input.clone();
        let reason = error.message().to_string();
        if let Some(what) = self.missing.first() {
            return missing_plugin(input, what);
        }
        if error.matches(gst::ResourceError::NotFound) {
            return VideoError::Missing { input };
        }
        let frames = self.clock.n_frames;
        if frames > 0 {
            return VideoError::Broken { input, frames, reason };
        }
        let unknown = [gst::StreamError::TypeNotFound, gst::StreamError::WrongType];
        if unknown.iter().any(|&kind| error.matches(kind)) {
            return VideoError::NotVideo { input, reason };
        }
        // A decoder is missing, and none for video: there are other tracks only.
        if error.matches(gst::CoreError::MissingPlugin) || error.matches(gst::StreamError::CodecNotFound) {
            return VideoError::NoVideoTrack { input };
        }
        let detail = debug.and_then(|d| d.lines().last()).map(|d| format!("{reason} ({d})"));
        VideoError::NoFrames { input, reason: detail.unwrap_or(reason) }
    }

    /// Why there is no frame although nothing failed.
    fn nothing_came(&self) -> VideoError {
        let input = self.input.clone();
        if let Some(what) = self.missing.first() {
            return missing_plugin(input, what);
        }
        if !self.found.lock().video_linked {
            return VideoError::NoVideoTrack { input };
        }
        let reason = self.damage.first().cloned();
        VideoError::NoFrames { input, reason: reason.unwrap_or("the video track holds no frame".into()) }
    }

    /// The first frame settles what is known of the video; a frame of another shape gets a converter of its own.
    fn converter(&mut self, sample: &gst::Sample) -> Result<&mut Converter, String> {
        let caps = sample.caps_owned().ok_or("a frame without a format")?;
        if self.converter.as_ref().is_none_or(|c| c.caps != caps) {
            let found = self.found.lock();
            let colorimetry = found.container_colorimetry.as_deref();
            self.converter = Some(Converter::new(caps, found.orientation, colorimetry)?);
        }
        Ok(self.converter.as_mut().expect("made above"))
    }

    fn settle_info(&mut self) {
        let found = self.found.lock();
        let orientation = found.orientation;
        self.info.codec = found.codec.clone().unwrap_or("unknown".into());
        (self.info.quarter_turns, self.info.mirrored) = (orientation.quarter_turns, orientation.mirrored);
        drop(found);
        if let Some(converter) = &self.converter {
            self.info.pixel_aspect = converter.pixel_aspect;
            (self.info.width, self.info.height) = converter.upright_size();
        }
        self.info.duration_ns = self.pipeline.query_duration::<gst::ClockTime>().map(|d| d.nseconds());
    }
}

impl FrameSource for VideoDecoder {
    fn next(&mut self, wanted: &mut dyn FnMut(u64) -> bool) -> Result<Option<DecodedFrame>, VideoError> {
        while let Some(sample) = self.pull()? {
            let (number, pts_ns) = self.clock.tick(running_ns(&sample));
            if !wanted(pts_ns) {
                continue;
            }
            let input = self.input.clone();
            let frame_error = |reason| VideoError::Frame { input, number, reason };
            let picture = self.converter(&sample).and_then(|c| c.picture(&sample)).map_err(frame_error)?;
            if self.info.width == 0 {
                self.settle_info();
            }
            return Ok(Some(DecodedFrame { number, pts_ns, picture }));
        }
        Ok(None)
    }

    fn info(&self) -> VideoInfo {
        self.info.clone()
    }

    fn warnings(&self) -> Vec<String> {
        let mut warnings: Vec<String> =
            self.damage.iter().map(|reason| format!("{}: decoder: {reason}", self.input)).collect();
        if self.n_damage > self.damage.len() as u64 {
            warnings.push(format!("{}: {} damaged places in all", self.input, self.n_damage));
        }
        if self.clock.n_late > 0 {
            let (input, n) = (&self.input, self.clock.n_late);
            warnings
                .push(format!("{input}: {n} frames come no later than the frame before (damaged stream?)"));
        }
        let last_ns = self.clock.last_ns;
        if let Some(duration_ns) = self.info.duration_ns.filter(|&all| is_cut_short(last_ns, all)) {
            let [last_s, all_s] = [last_ns, duration_ns].map(|ns| ns as f64 * 1e-9);
            let input = &self.input;
            warnings.push(format!(
                "{input}: the last frame is shown at {last_s:.1} s of {all_s:.1} s; the file may be cut off"
            ));
        }
        warnings
    }
}

impl Drop for VideoDecoder {
    fn drop(&mut self) {
        let _ = self.pipeline.set_state(gst::State::Null);
    }
}

/// A second and a tenth are missing at the end: more than a sound track that is a little longer.
fn is_cut_short(last_ns: u64, duration_ns: u64) -> bool {
    let missing_ns = duration_ns.saturating_sub(last_ns);
    missing_ns > 1_000_000_000 && missing_ns > duration_ns / 10
}

/// Links the first video track; other tracks stay unlinked and are thrown away.
fn link_first_video(source: &gst::Element, to: &gst::Element, found: &Arc<Mutex<Found>>) {
    let (to, linked) = (to.downgrade(), found.clone());
    source.connect_pad_added(move |_, pad| {
        let Some(sink_pad) = to.upgrade().and_then(|to| to.static_pad("sink")) else { return };
        let caps = pad.current_caps().unwrap_or_else(|| pad.query_caps(None));
        let is_video = caps.structure(0).is_some_and(|s| s.name().starts_with("video/"));
        if is_video && !sink_pad.is_linked() && pad.link(&sink_pad).is_ok() {
            linked.lock().video_linked = true;
        }
    });
    let known = found.clone();
    source.connect_no_more_pads(move |_| known.lock().all_tracks_known = true);
}

/// Notes orientation and codec from the tags that reach the sink before the first frame.
fn watch_stream(sink: &gst_app::AppSink, found: &Arc<Mutex<Found>>) {
    let found = found.clone();
    let pad = sink.static_pad("sink").expect("an appsink has a sink pad");
    let kinds = gst::PadProbeType::EVENT_DOWNSTREAM | gst::PadProbeType::BUFFER;
    pad.add_probe(kinds, move |_, probe| {
        let mut found = found.lock();
        match &probe.data {
            Some(gst::PadProbeData::Buffer(_)) => return gst::PadProbeReturn::Remove,
            Some(gst::PadProbeData::Event(event)) => {
                if let gst::EventView::Tag(tag) = event.view() {
                    let tags = tag.tag();
                    if let Some(value) = tags.get::<gst::tags::ImageOrientation>() {
                        found.orientation = orientation_from_tag(value.get());
                    }
                    let codec = tags.get::<gst::tags::VideoCodec>().map(|c| c.get().to_string());
                    found.codec = found.codec.take().or(codec);
                }
            }
            _ => {}
        }
        gst::PadProbeReturn::Ok
    });
}

/// Hides the container's colour description from the parsers that read the one of the stream. GStreamer 1.22 believes
/// the container first, and QuickTime's (`nclc`) cannot say full range.
fn prefer_colours_of_the_stream(pipeline: &gst::Pipeline, found: &Arc<Mutex<Found>>) {
    let found = found.clone();
    pipeline.connect_deep_element_added(move |_, _, element| {
        let parser =
            element.factory().is_some_and(|f| ["h264parse", "h265parse"].contains(&f.name().as_str()));
        let Some(pad) = element.static_pad("sink").filter(|_| parser) else { return };
        let found = found.clone();
        pad.add_probe(gst::PadProbeType::EVENT_DOWNSTREAM, move |_, probe| {
            let Some(gst::PadProbeData::Event(event)) = &mut probe.data else {
                return gst::PadProbeReturn::Ok;
            };
            let gst::EventView::Caps(caps) = event.view() else { return gst::PadProbeReturn::Ok };
            let mut caps = caps.caps_owned();
            let colorimetry = caps.structure(0).and_then(|s| s.get::<String>("colorimetry").ok());
            if let (Some(colorimetry), Some(format)) = (colorimetry, caps.make_mut().structure_mut(0)) {
                format.remove_field("colorimetry");
                found.lock().container_colorimetry = Some(colorimetry);
                *event = gst::event::Caps::new(&caps);
            }
            gst::PadProbeReturn::Ok
        });
    });
}

/// When a frame is shown, in the time of the presentation.
fn running_ns(sample: &gst::Sample) -> Option<u64> {
    let segment = sample.segment()?.downcast_ref::<gst::ClockTime>()?;
    Some(segment.to_running_time(sample.buffer()?.pts()?)?.nseconds())
}

/// What a missing-plugin message says, unless it speaks of sound, subtitles or metadata.
fn missing_for_video(structure: &gst::StructureRef) -> Option<String> {
    if structure.name() != "missing-plugin" {
        return None;
    }
    let caps = structure.get::<gst::Caps>("detail").ok();
    let media = caps.as_ref().and_then(|caps| caps.structure(0)).map(|s| s.name().to_string());
    let other =
        media.is_some_and(|m| ["audio/", "text/", "meta/", "subpicture/"].iter().any(|k| m.starts_with(k)));
    let name = structure.get::<String>("name").unwrap_or_else(|_| "a plug-in".into());
    (!other).then_some(name)
}

fn missing_plugin(input: String, what: &str) -> VideoError {
    let package = "gstreamer1.0-libav, gstreamer1.0-plugins-good or gstreamer1.0-plugins-bad".into();
    VideoError::MissingPlugin { input, what: what.into(), package }
}
