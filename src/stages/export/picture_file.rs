//! Keyframe pictures as files.

use std::collections::VecDeque;
use std::fs;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use image::RgbImage;
use image::codecs::png::PngEncoder;
use jpeg_encoder::{ColorType, Encoder, EncodingError, SamplingFactor};
use serde::{Deserialize, Serialize};

use super::{ExportError, io_error};
use crate::message::FrameInfo;
use crate::picture::{Picture, PixelLayout, rgb_from_picture};

/// File format of the images.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ImageFormat {
    /// JPEG, chroma halved where the picture's is.
    Jpg,
    /// PNG: exact and several times larger.
    Png,
}

/// What an encoder says against a picture.
#[derive(Debug, thiserror::Error)]
pub enum EncodeError {
    /// More than JPEG can hold.
    #[error(
        "{width} x {height} pixels are too many for JPEG (65535): use export.image_format = \"png\" or --max-image-size"
    )]
    JpegSize {
        /// Exported width.
        width: u32,
        /// Exported height.
        height: u32,
    },
    /// From the JPEG encoder.
    #[error(transparent)]
    Jpeg(#[from] EncodingError),
    /// From the PNG encoder.
    #[error(transparent)]
    Png(#[from] image::ImageError),
}

/// Frame rate that bounds a video's number of frames by its duration.
const MAX_FPS: u64 = 240;

/// Pictures that are encoded at a time: one takes three times as long as a keyframe takes in the slowest stage before.
const MOST_UNDER_WAY: usize = 4;

/// Writes images into one folder, several at a time: encoding one takes longer than most stages take for a keyframe.
pub struct PictureWriter {
    folder: Arc<PathBuf>,
    format: ImageFormat,
    jpeg_quality: u8,
    /// What comes of those under way, oldest first: bytes.
    under_way: VecDeque<JoinHandle<Result<u64, ExportError>>>,
    bytes: u64,
}

impl PictureWriter {
    /// A writer into an existing folder.
    pub fn new(folder: PathBuf, format: ImageFormat, jpeg_quality: u8) -> PictureWriter {
        PictureWriter { folder: folder.into(), format, jpeg_quality, under_way: VecDeque::new(), bytes: 0 }
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

    /// Begins to write a picture at the exported size, on a thread of its own: a task of rayon's would keep stages waiting
    /// that share its threads. What went wrong with an earlier picture is told here or by `finish`.
    pub fn begin(&mut self, name: &str, picture: &Arc<Picture>, size: (u32, u32)) -> Result<(), ExportError> {
        while self.under_way.len() >= MOST_UNDER_WAY {
            self.wait_for_oldest()?;
        }
        let (folder, own_name, picture) = (self.folder.clone(), name.to_owned(), picture.clone());
        let (format, jpeg_quality) = (self.format, self.jpeg_quality);
        let work = move || write(&folder, &own_name, &picture, size, format, jpeg_quality);
        let thread = thread::Builder::new().name(format!("export {name}")).spawn(work);
        self.under_way.push_back(thread.map_err(io_error("start a thread for", &self.folder.join(name)))?);
        Ok(())
    }

    /// Waits for all that are under way.
    pub fn finish(&mut self) -> Result<(), ExportError> {
        while !self.under_way.is_empty() {
            self.wait_for_oldest()?;
        }
        Ok(())
    }

    /// Bytes of all that are written.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    fn wait_for_oldest(&mut self) -> Result<(), ExportError> {
        if let Some(thread) = self.under_way.pop_front() {
            self.bytes += thread.join().unwrap_or_else(|panic| resume_unwind(panic))?;
        }
        Ok(())
    }
}

impl Drop for PictureWriter {
    /// After a failure: nothing is written into the folder any more once the writer is gone.
    fn drop(&mut self) {
        for thread in self.under_way.drain(..) {
            let _one_failure_is_told = thread.join();
        }
    }
}

/// Bytes of the file.
fn write(
    folder: &Path,
    name: &str,
    picture: &Picture,
    size: (u32, u32),
    format: ImageFormat,
    jpeg_quality: u8,
) -> Result<u64, ExportError> {
    let rgb = rgb_from_picture(picture, size.0, size.1)
        .map_err(|source| ExportError::Picture { name: name.to_owned(), source })?;
    let file = match format {
        ImageFormat::Jpg => jpeg(&rgb, jpeg_quality, picture.layout),
        ImageFormat::Png => png(&rgb).map_err(EncodeError::from),
    };
    let file = file.map_err(|source| ExportError::Encode { name: name.to_owned(), source })?;
    let path = folder.join(name);
    fs::write(&path, &file).map_err(io_error("write", &path))?;
    Ok(file.len() as u64)
}

fn jpeg(rgb: &RgbImage, quality: u8, layout: PixelLayout) -> Result<Vec<u8>, EncodeError> {
    let (width, height) = rgb.dimensions();
    let (Ok(columns), Ok(rows)) = (u16::try_from(width), u16::try_from(height)) else {
        return Err(EncodeError::JpegSize { width, height });
    };
    let mut file = Vec::new();
    let mut encoder = Encoder::new(&mut file, quality);
    encoder.set_sampling_factor(match layout {
        PixelLayout::I420 | PixelLayout::Nv12 => SamplingFactor::F_2_2,
        PixelLayout::I422 => SamplingFactor::F_2_1,
        PixelLayout::I444 | PixelLayout::Rgb | PixelLayout::Gray => SamplingFactor::F_1_1,
    });
    encoder.encode(rgb.as_raw(), columns, rows, ColorType::Rgb)?;
    Ok(file)
}

fn png(rgb: &RgbImage) -> Result<Vec<u8>, image::ImageError> {
    let mut file = Vec::new();
    rgb.write_with_encoder(PngEncoder::new(&mut file))?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn picture(value: u8) -> Arc<Picture> {
        Arc::new(Picture::gray(40, 30, vec![value; 40 * 30]))
    }

    #[test]
    fn all_are_written_when_it_finishes() {
        let folder = tempfile::tempdir().unwrap();
        let mut writer = PictureWriter::new(folder.path().to_owned(), ImageFormat::Png, 95);
        let names: Vec<String> = (0..20).map(|i| format!("{i}.png")).collect();
        for (i, name) in names.iter().enumerate() {
            writer.begin(name, &picture(10 * i as u8), (40, 30)).unwrap();
        }
        writer.finish().unwrap();
        let read = |(i, name): (usize, &String)| {
            let path = folder.path().join(name);
            assert_eq!(image::open(&path).unwrap().into_luma8().get_pixel(7, 9).0, [10 * i as u8]);
            fs::metadata(path).unwrap().len()
        };
        assert_eq!(names.iter().enumerate().map(read).sum::<u64>(), writer.bytes());
    }

    #[test]
    fn the_oldest_failure_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let mut writer = PictureWriter::new(folder.path().join("none"), ImageFormat::Png, 95);
        let begun = ["a.png", "b.png"].map(|name| writer.begin(name, &picture(0), (40, 30)));
        let told = begun.into_iter().find_map(Result::err).unwrap_or_else(|| writer.finish().unwrap_err());
        assert!(matches!(told, ExportError::Io { path, .. } if path.ends_with("none/a.png")));
    }
}
