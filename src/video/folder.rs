//! A folder of images as a stream of frames.

use std::fs;
use std::path::{Path, PathBuf};

use image::{DynamicImage, ImageDecoder, ImageError, ImageReader};

use super::sampling::Fps;
use super::{DecodedFrame, FrameSource, VideoError};
use crate::message::VideoInfo;
use crate::picture::orient::Orientation;
use crate::picture::{ColorMatrix, Picture, PixelLayout, Plane};

/// The .png, .jpg and .jpeg files of a folder by name, hidden ones (macOS leaves `._x.jpg`) left out; frame i is shown at i / fps.
pub struct ImageFolder {
    input: String,
    paths: Vec<PathBuf>,
    next: usize,
    fps: Fps,
    info: VideoInfo,
}

impl ImageFolder {
    /// Lists the folder.
    pub fn open(folder: &Path, fps: Fps) -> Result<ImageFolder, VideoError> {
        let input = folder.display().to_string();
        let folder_error = |source| VideoError::Folder { input: input.clone(), source };
        let mut paths = Vec::new();
        for entry in fs::read_dir(folder).map_err(folder_error)? {
            let path = entry.map_err(folder_error)?.path();
            let extension = path.extension().and_then(|e| e.to_str()).unwrap_or("").to_lowercase();
            let hidden = path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
            if ["png", "jpg", "jpeg"].contains(&extension.as_str()) && !hidden && path.is_file() {
                paths.push(path);
            }
        }
        if paths.is_empty() {
            return Err(VideoError::EmptyFolder { input });
        }
        paths.sort();
        let info = VideoInfo {
            input: input.clone(),
            codec: "images".into(),
            pixel_aspect: (1, 1),
            duration_ns: Some(fps.tick_ns(paths.len() as u64)),
            ..VideoInfo::default()
        };
        Ok(ImageFolder { input, paths, next: 0, fps, info })
    }

    fn keep_first(&mut self, picture: &Picture, orientation: Orientation) {
        if self.info.width == 0 {
            (self.info.width, self.info.height) = picture.square_size();
            (self.info.quarter_turns, self.info.mirrored) = (orientation.quarter_turns, orientation.mirrored);
        }
    }
}

impl FrameSource for ImageFolder {
    fn next(&mut self, wanted: &mut dyn FnMut(u64) -> bool) -> Result<Option<DecodedFrame>, VideoError> {
        while self.next < self.paths.len() {
            let number = self.next as u64;
            self.next += 1;
            let pts_ns = self.fps.tick_ns(number);
            if wanted(pts_ns) {
                let path = self.paths[number as usize].clone();
                let (picture, orientation) =
                    read_upright(&path).map_err(|source| VideoError::Image { path, source })?;
                self.keep_first(&picture, orientation);
                return Ok(Some(DecodedFrame { number, pts_ns, picture }));
            }
        }
        Ok(None)
    }

    fn info(&self) -> VideoInfo {
        VideoInfo { input: self.input.clone(), ..self.info.clone() }
    }

    fn warnings(&self) -> Vec<String> {
        Vec::new()
    }
}

/// The image turned upright by its EXIF tag: gray where the file is, RGB otherwise; 8 bits, alpha dropped.
fn read_upright(path: &Path) -> Result<(Picture, Orientation), ImageError> {
    let mut decoder = ImageReader::open(path)?.with_guessed_format()?.into_decoder()?;
    let exif = decoder.orientation()?;
    let mut image = DynamicImage::from_decoder(decoder)?;
    image.apply_orientation(exif);
    let (width, height) = (image.width(), image.height());
    let (layout, stride, data) = match image.color().channel_count() {
        1 | 2 => (PixelLayout::Gray, width as usize, image.into_luma8().into_raw()),
        _ => (PixelLayout::Rgb, 3 * width as usize, image.into_rgb8().into_raw()),
    };
    let picture = Picture {
        width,
        height,
        pixel_aspect: (1, 1),
        layout,
        matrix: ColorMatrix::Bt601,
        full_range: true,
        planes: vec![Plane { stride, data }],
    };
    Ok((picture, Orientation::from_exif(exif.to_exif())))
}
