//! Stage `frame_decode`: displayed frames of the input, upright, sampled by presentation time.

use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use super::{RunContext, SourceStage, StageError};
use crate::message::{Frame, FrameInfo, VideoInfo};
use crate::record::RunRecord;
use crate::video::folder::ImageFolder;
use crate::video::sampling::{Fps, SampleRate, Sampler};
use crate::video::{DecodedFrame, FrameSource, VideoError};

/// Options of `frame_decode`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FrameDecodeOptions {
    /// Frames taken a second, above 0 (4, 2.5, "30000/1001"), or "all"; more makes tracking safer and slower.
    pub sample_fps: SampleRate,
    /// Images a second of an image folder, above 0; at the default `sample_fps` every image is taken.
    pub folder_fps: Fps,
}

impl Default for FrameDecodeOptions {
    fn default() -> Self {
        FrameDecodeOptions { sample_fps: SampleRate::Fps(Fps::whole(4)), folder_fps: Fps::whole(4) }
    }
}

/// The source of the graph. The input is opened at the first call of `next`.
pub struct FrameDecode {
    input: String,
    folder_fps: Fps,
    sampler: Sampler,
    record: Arc<Mutex<RunRecord>>,
    source: Option<Box<dyn FrameSource>>,
    video: Option<Arc<VideoInfo>>,
    index: u32,
}

impl FrameDecode {
    /// Errors where the input is not there or a rate is not positive.
    pub fn new(options: FrameDecodeOptions, context: &RunContext) -> Result<FrameDecode, VideoError> {
        if let SampleRate::Fps(fps) = options.sample_fps {
            check_rate("frame_decode.sample_fps", fps, true)?;
        }
        check_rate("frame_decode.folder_fps", options.folder_fps, false)?;
        let input = context.input.clone();
        if !is_uri(&input) && !Path::new(&input).exists() {
            return Err(VideoError::Missing { input });
        }
        Ok(FrameDecode {
            input,
            folder_fps: options.folder_fps,
            sampler: Sampler::new(options.sample_fps),
            record: context.record.clone(),
            source: None,
            video: None,
            index: 0,
        })
    }

    fn decode_next(&mut self) -> Result<Option<DecodedFrame>, VideoError> {
        if self.source.is_none() {
            self.source = Some(open(&self.input, self.folder_fps)?);
        }
        let source = self.source.as_mut().expect("opened above");
        let sampler = &mut self.sampler;
        let frame = source.next(&mut |pts_ns| sampler.wants(pts_ns))?;
        if frame.is_none() {
            self.record.lock().warnings.extend(source.warnings());
        }
        Ok(frame)
    }

    /// The video's description, whole from the first frame on; later frames must be of its size.
    fn described(&mut self, frame: &DecodedFrame) -> Result<Arc<VideoInfo>, VideoError> {
        let source = self.source.as_ref().expect("it gave the frame");
        let video = self
            .video
            .get_or_insert_with(|| Arc::new(VideoInfo { input: self.input.clone(), ..source.info() }));
        let (was, now) = ((video.width, video.height), frame.picture.square_size());
        if was != now {
            let (input, number) = (self.input.clone(), frame.number);
            return Err(VideoError::SizeChanged { input, number, was, now });
        }
        Ok(video.clone())
    }
}

impl SourceStage for FrameDecode {
    type Gives = Frame;

    fn next(&mut self) -> Result<Option<Frame>, StageError> {
        let Some(frame) = self.decode_next()? else { return Ok(None) };
        let video = self.described(&frame)?;
        let info = FrameInfo { index: self.index, number: frame.number, pts_ns: frame.pts_ns, video };
        self.index += 1;
        Ok(Some(Frame { info, picture: Arc::new(frame.picture) }))
    }
}

fn check_rate(option: &'static str, fps: Fps, all: bool) -> Result<(), VideoError> {
    if fps.numerator > 0 && fps.denominator > 0 {
        return Ok(());
    }
    Err(VideoError::Rate { option, value: format!("{}/{}", fps.numerator, fps.denominator), all })
}

fn is_uri(input: &str) -> bool {
    input.split_once("://").is_some_and(|(scheme, _)| {
        !scheme.is_empty() && scheme.bytes().all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b))
    })
}

fn open(input: &str, folder_fps: Fps) -> Result<Box<dyn FrameSource>, VideoError> {
    let path = input.strip_prefix("file://").unwrap_or(input);
    if Path::new(path).is_dir() {
        return Ok(Box::new(ImageFolder::open(Path::new(path), folder_fps)?));
    }
    open_video(input)
}

#[cfg(feature = "video")]
fn open_video(input: &str) -> Result<Box<dyn FrameSource>, VideoError> {
    use crate::video::decode::VideoDecoder;
    if is_uri(input) {
        return Ok(Box::new(VideoDecoder::open_uri(input)?));
    }
    Ok(Box::new(VideoDecoder::open_path(Path::new(input))?))
}

#[cfg(not(feature = "video"))]
fn open_video(input: &str) -> Result<Box<dyn FrameSource>, VideoError> {
    Err(VideoError::NoVideoSupport { input: input.into() })
}
