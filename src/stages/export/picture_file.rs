//! Keyframe pictures as files.

use std::fs;
use std::io::Cursor;
use std::path::PathBuf;

use image::codecs::jpeg::JpegEncoder;
use image::codecs::png::PngEncoder;
use serde::{Deserialize, Serialize};

use super::{ExportError, io_error};
use crate::message::FrameInfo;
use crate::picture::{Picture, rgb_from_picture};

/// File format of the images.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ImageFormat {
    /// JPEG, chroma at full size.
    Jpg,
    /// PNG: exact and several times larger.
    Png,
}

/// Frame rate that bounds a video's number of frames by its duration.
const MAX_FPS: u64 = 240;

/// Writes images into one folder.
pub struct PictureWriter {
    folder: PathBuf,
    format: ImageFormat,
    jpeg_quality: u8,
    bytes: u64,
}

impl PictureWriter {
    /// A writer into an existing folder.
    pub fn new(folder: PathBuf, format: ImageFormat, jpeg_quality: u8) -> PictureWriter {
        PictureWriter { folder, format, jpeg_quality, bytes: 0 }
    }

    /// The file name of a frame. All names of a video have as many digits as its longest number needs, six at least,
    /// so that their order is that of time.
    pub fn name(&self, frame: &FrameInfo) -> String {
        let most_frames = frame.video.duration_ns.unwrap_or(0) / 1_000_000_000 * MAX_FPS;
        let digits = most_frames.checked_ilog10().map_or(1, |log| log as usize + 1).max(6);
        let extension = match self.format {
            ImageFormat::Jpg => "jpg",
            ImageFormat::Png => "png",
        };
        format!("frame_{:0digits$}.{extension}", frame.number)
    }

    /// Writes a picture at the exported size.
    pub fn write(&mut self, name: &str, picture: &Picture, size: (u32, u32)) -> Result<(), ExportError> {
        let rgb = rgb_from_picture(picture, size.0, size.1)
            .map_err(|source| ExportError::Picture { name: name.to_owned(), source })?;
        let mut file = Cursor::new(Vec::new());
        let encoded = match self.format {
            ImageFormat::Jpg => {
                rgb.write_with_encoder(JpegEncoder::new_with_quality(&mut file, self.jpeg_quality))
            }
            ImageFormat::Png => rgb.write_with_encoder(PngEncoder::new(&mut file)),
        };
        encoded.map_err(|source| ExportError::Encode { name: name.to_owned(), source })?;
        let path = self.folder.join(name);
        fs::write(&path, file.get_ref()).map_err(io_error("write", &path))?;
        self.bytes += file.get_ref().len() as u64;
        Ok(())
    }

    /// Bytes written so far.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}
