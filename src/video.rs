//! Reading and writing frames: image folders, and video files through GStreamer (nothing else knows it).

use std::path::PathBuf;

use thiserror::Error;

use crate::message::VideoInfo;
use crate::picture::Picture;

#[cfg(feature = "video")]
pub mod decode;
#[cfg(feature = "video")]
pub mod encode;
pub mod folder;
#[cfg(feature = "video")]
mod planes;
pub mod sampling;
#[cfg(feature = "video")]
mod tone_map;

/// A displayed frame that was asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct DecodedFrame {
    /// Ordinal among the displayed frames, from 0.
    pub number: u64,
    /// Presentation time from the first displayed frame.
    pub pts_ns: u64,
    /// The upright picture.
    pub picture: Picture,
}

/// Displayed frames in their order, from a file, a stream or a folder.
pub trait FrameSource: Send {
    /// The next frame whose time `wanted` says yes to; it is asked once for every displayed frame. None at the end.
    fn next(&mut self, wanted: &mut dyn FnMut(u64) -> bool) -> Result<Option<DecodedFrame>, VideoError>;

    /// What is known of the input; whole once a frame was given.
    fn info(&self) -> VideoInfo;

    /// What was skipped or repaired so far, in words.
    fn warnings(&self) -> Vec<String>;
}

/// Why frames could not be read or written.
#[derive(Debug, Error)]
pub enum VideoError {
    /// Nothing is there.
    #[error("input {input} does not exist")]
    Missing {
        /// The input as the user named it.
        input: String,
    },
    /// A folder without pictures.
    #[error("folder {input} holds no .png, .jpg or .jpeg file")]
    EmptyFolder {
        /// The folder.
        input: String,
    },
    /// A folder that cannot be listed.
    #[error("folder {input} cannot be read: {source}")]
    Folder {
        /// The folder.
        input: String,
        /// What the system says.
        source: std::io::Error,
    },
    /// A picture of a folder that cannot be read.
    #[error("image {} cannot be read: {source}", path.display())]
    Image {
        /// The file.
        path: PathBuf,
        /// What the image decoder says.
        source: image::ImageError,
    },
    /// The content is no video.
    #[error("{input} is not a video or of an unknown format ({reason})")]
    NotVideo {
        /// The input as the user named it.
        input: String,
        /// What GStreamer says.
        reason: String,
    },
    /// Only sound or other tracks.
    #[error("{input} has no video track")]
    NoVideoTrack {
        /// The input as the user named it.
        input: String,
    },
    /// The stream ended without a frame.
    #[error("no frame of {input} could be decoded: {reason}")]
    NoFrames {
        /// The input as the user named it.
        input: String,
        /// What is known of the cause.
        reason: String,
    },
    /// GStreamer lacks an element.
    #[error("{input} needs {what}, which is not installed; on Debian it is in {package}")]
    MissingPlugin {
        /// The input or output as the user named it.
        input: String,
        /// The element or decoder, in GStreamer's words.
        what: String,
        /// Where to look for it.
        package: String,
    },
    /// Reading failed on the way.
    #[error("{input} failed after {frames} frames: {reason}")]
    Broken {
        /// The input as the user named it.
        input: String,
        /// Frames that came before.
        frames: u64,
        /// What GStreamer says.
        reason: String,
    },
    /// Nothing came for a long time.
    #[error("{input} gave no frame for {seconds} s (after {frames} frames)")]
    Stalled {
        /// The input as the user named it.
        input: String,
        /// How long was waited.
        seconds: u64,
        /// Frames that came before.
        frames: u64,
    },
    /// The picture size changes on the way.
    #[error(
        "frame {number} of {input} is {}x{}, the frames before are {}x{}; cut the input where the size changes",
        now.0, now.1, was.0, was.1
    )]
    SizeChanged {
        /// The input as the user named it.
        input: String,
        /// The first frame of another size.
        number: u64,
        /// Upright size of the frames before, in square pixels.
        was: (u32, u32),
        /// Upright size of this frame, in square pixels.
        now: (u32, u32),
    },
    /// A frame that cannot be brought to a known layout.
    #[error("frame {number} of {input}: {reason}")]
    Frame {
        /// The input as the user named it.
        input: String,
        /// Ordinal among the displayed frames.
        number: u64,
        /// What went wrong.
        reason: String,
    },
    /// A rate that makes no sense.
    #[error("{option} is {value}: it must be a positive number, a fraction like 30000/1001{}", if *all { " or \"all\"" } else { "" })]
    Rate {
        /// The option at fault.
        option: &'static str,
        /// What it is set to.
        value: String,
        /// Whether `all` may be said.
        all: bool,
    },
    /// GStreamer itself does not start.
    #[error("GStreamer does not start: {reason}")]
    Backend {
        /// What it says.
        reason: String,
    },
    /// Built without the feature.
    #[error("{input}: this build reads image folders only; build with the cargo feature `video`")]
    NoVideoSupport {
        /// The input as the user named it.
        input: String,
    },
    /// Writing a video failed.
    #[error("video {} cannot be written: {reason}", path.display())]
    Encode {
        /// The file.
        path: PathBuf,
        /// What went wrong.
        reason: String,
    },
}
