//! Pictures: decoded planes as they came, gray at analysis size, RGB for export.

use image::RgbImage;
use thiserror::Error;
use yuv::{
    YuvBiPlanarImage, YuvConversionMode, YuvError, YuvGrayImage, YuvPlanarImage, YuvRange, YuvStandardMatrix,
};

pub mod area;
pub mod orient;

use area::AreaTaps;

/// A gray image, row by row, f32 in [0, 1].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GrayImage {
    /// Width in pixels.
    pub width: usize,
    /// Height in pixels.
    pub height: usize,
    /// `width * height` values, row by row.
    pub data: Vec<f32>,
}

impl GrayImage {
    /// A black image.
    pub fn new(width: usize, height: usize) -> Self {
        GrayImage { width, height, data: vec![0.0; width * height] }
    }

    /// The value at integer position (x, y), which must be inside.
    #[inline(always)]
    pub fn at(&self, x: usize, y: usize) -> f32 {
        self.data[y * self.width + x]
    }

    /// Whether the picture shows the point (x, y): its pixels reach half a pixel beyond their centres.
    #[inline(always)]
    pub fn shows(&self, [x, y]: [f32; 2]) -> bool {
        let (right, bottom) = (self.width as f32 - 0.5, self.height as f32 - 0.5);
        x >= -0.5 && y >= -0.5 && x <= right && y <= bottom
    }
}

/// How the samples of a picture are laid out. All are 8 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PixelLayout {
    /// One plane: luma.
    Gray,
    /// Three planes: luma, Cb, Cr, chroma halved in x and y.
    I420,
    /// Three planes: luma, Cb, Cr, chroma halved in x.
    I422,
    /// Three planes: luma, Cb, Cr at full size.
    I444,
    /// Two planes: luma, interleaved CbCr halved in x and y.
    Nv12,
    /// One plane: interleaved R, G, B.
    Rgb,
}

/// Matrix of a luma-chroma picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColorMatrix {
    /// ITU-R BT.601.
    Bt601,
    /// ITU-R BT.709.
    Bt709,
    /// ITU-R BT.2020 (non-constant luminance).
    Bt2020,
}

/// One plane of samples.
#[derive(Clone, Debug, PartialEq)]
pub struct Plane {
    /// Bytes from one row to the next.
    pub stride: usize,
    /// Rows one after another.
    pub data: Vec<u8>,
}

/// An upright picture as it was decoded: no colour conversion, no scaling.
#[derive(Clone, Debug, PartialEq)]
pub struct Picture {
    /// Width in samples (not square where `pixel_aspect` says so).
    pub width: u32,
    /// Height in samples.
    pub height: u32,
    /// Width : height of a sample, upright.
    pub pixel_aspect: (u32, u32),
    /// Layout of the planes.
    pub layout: PixelLayout,
    /// Matrix, where the layout has chroma.
    pub matrix: ColorMatrix,
    /// Luma 0..=255 (true) or 16..=235 (false).
    pub full_range: bool,
    /// The planes of the layout.
    pub planes: Vec<Plane>,
}

/// A picture whose planes do not fit its layout and size.
#[derive(Debug, Error)]
pub enum PictureError {
    /// A plane is missing or too short.
    #[error("plane {plane} of a {width}x{height} {layout:?} picture has {got} bytes, {need} are needed")]
    Plane {
        /// Plane index.
        plane: usize,
        /// Picture width.
        width: u32,
        /// Picture height.
        height: u32,
        /// Picture layout.
        layout: PixelLayout,
        /// Bytes that are there.
        got: usize,
        /// Bytes that are needed.
        need: usize,
    },
    /// A width or height of zero.
    #[error("a picture of {0}x{1} pixels has no content")]
    Empty(u32, u32),
    /// The colour conversion refused the planes.
    #[error("colour conversion: {0}")]
    Conversion(#[from] YuvError),
}

impl PixelLayout {
    /// Bytes a row and rows of each plane of a picture of `width` x `height`.
    pub fn plane_sizes(self, width: u32, height: u32) -> Vec<(usize, usize)> {
        let (w, h) = (width as usize, height as usize);
        let (half_w, half_h) = (w.div_ceil(2), h.div_ceil(2));
        match self {
            PixelLayout::Gray => vec![(w, h)],
            PixelLayout::I420 => vec![(w, h), (half_w, half_h), (half_w, half_h)],
            PixelLayout::I422 => vec![(w, h), (half_w, h), (half_w, h)],
            PixelLayout::I444 => vec![(w, h); 3],
            PixelLayout::Nv12 => vec![(w, h), (2 * half_w, half_h)],
            PixelLayout::Rgb => vec![(3 * w, h)],
        }
    }
}

#[cfg(test)]
impl Picture {
    /// A pixel without planes, for tests of stages that pass the picture on unread.
    pub(crate) fn unseen() -> Picture {
        Picture {
            width: 1,
            height: 1,
            pixel_aspect: (1, 1),
            layout: PixelLayout::Gray,
            matrix: ColorMatrix::Bt601,
            full_range: true,
            planes: Vec::new(),
        }
    }
}

impl Picture {
    /// Luma alone in square pixels, 0..=255, row by row without padding.
    pub fn gray(width: usize, height: usize, luma: Vec<u8>) -> Picture {
        Picture {
            width: width as u32,
            height: height as u32,
            pixel_aspect: (1, 1),
            layout: PixelLayout::Gray,
            matrix: ColorMatrix::Bt601,
            full_range: true,
            planes: vec![Plane { stride: width, data: luma }],
        }
    }

    /// Width and height in square pixels: the longer edge of a sample is the pixel, so no detail is lost.
    pub fn square_size(&self) -> (u32, u32) {
        square_size(self.width, self.height, self.pixel_aspect)
    }

    /// Errors where a plane is missing or shorter than the layout asks.
    pub fn check(&self) -> Result<(), PictureError> {
        let (width, height, layout) = (self.width, self.height, self.layout);
        if width == 0 || height == 0 {
            return Err(PictureError::Empty(width, height));
        }
        for (plane, (row_bytes, rows)) in layout.plane_sizes(width, height).into_iter().enumerate() {
            let (stride, got) = self.planes.get(plane).map_or((0, 0), |p| (p.stride, p.data.len()));
            let need = stride.max(row_bytes) * (rows - 1) + row_bytes;
            if stride < row_bytes || got < need {
                return Err(PictureError::Plane { plane, width, height, layout, got, need });
            }
        }
        Ok(())
    }
}

/// Size in square pixels of `width` x `height` samples of the given aspect: the smaller side of a sample is enlarged.
pub fn square_size(width: u32, height: u32, pixel_aspect: (u32, u32)) -> (u32, u32) {
    let enlarged = |length: u32, by: u32, over: u32| {
        let (length, by, over) = (length as u64, by as u64, over as u64);
        ((2 * length * by + over) / (2 * over)).clamp(1, u32::MAX as u64) as u32
    };
    match pixel_aspect {
        (0, _) | (_, 0) => (width, height),
        (across, down) if across >= down => (enlarged(width, across, down), height),
        (across, down) => (width, enlarged(height, down, across)),
    }
}

/// The picture as RGB of `width` x `height` square pixels. With s = square width / `width`, pixel i covers
/// [i s, (i + 1) s) of the upright picture in both axes: the area average where it shrinks, linear where it grows.
/// Chroma is upsampled linearly (Nv12: repeated).
pub fn rgb_from_picture(picture: &Picture, width: u32, height: u32) -> Result<RgbImage, PictureError> {
    picture.check()?;
    if width == 0 || height == 0 {
        return Err(PictureError::Empty(width, height));
    }
    let rgb = coded_rgb_from_picture(picture)?;
    if (width, height) == (picture.width, picture.height) {
        return Ok(rgb);
    }
    let (columns, rows) = AreaTaps::of_picture(picture, width, height);
    Ok(area::rgb_from_rgb(&rgb, &columns, &rows))
}

/// RGB at the size of the samples.
fn coded_rgb_from_picture(picture: &Picture) -> Result<RgbImage, PictureError> {
    let (width, height) = (picture.width, picture.height);
    let row = 3 * width as usize;
    let mut rgb = vec![0; row * height as usize];
    let range = if picture.full_range { YuvRange::Full } else { YuvRange::Limited };
    let matrix = match picture.matrix {
        ColorMatrix::Bt601 => YuvStandardMatrix::Bt601,
        ColorMatrix::Bt709 => YuvStandardMatrix::Bt709,
        ColorMatrix::Bt2020 => YuvStandardMatrix::Bt2020,
    };
    let plane = |i: usize| (&picture.planes[i].data[..], picture.planes[i].stride as u32);
    let (y_plane, y_stride) = plane(0);
    match picture.layout {
        PixelLayout::Rgb => {
            for (out, samples) in rgb.chunks_exact_mut(row).zip(y_plane.chunks(y_stride as usize)) {
                out.copy_from_slice(&samples[..row]);
            }
        }
        PixelLayout::Gray => {
            let image = YuvGrayImage { y_plane, y_stride, width, height };
            yuv::yuv400_to_rgb(&image, &mut rgb, row as u32, range, matrix)?;
        }
        PixelLayout::Nv12 => {
            let (uv_plane, uv_stride) = plane(1);
            let image = YuvBiPlanarImage { y_plane, y_stride, uv_plane, uv_stride, width, height };
            yuv::yuv_nv12_to_rgb(&image, &mut rgb, row as u32, range, matrix, YuvConversionMode::Balanced)?;
        }
        PixelLayout::I420 | PixelLayout::I422 | PixelLayout::I444 => {
            let ((u_plane, u_stride), (v_plane, v_stride)) = (plane(1), plane(2));
            let image =
                YuvPlanarImage { y_plane, y_stride, u_plane, u_stride, v_plane, v_stride, width, height };
            let convert = match picture.layout {
                PixelLayout::I420 => yuv::yuv420_to_rgb_bilinear,
                PixelLayout::I422 => yuv::yuv422_to_rgb_bilinear,
                _ => yuv::yuv444_to_rgb,
            };
            convert(&image, &mut rgb, row as u32, range, matrix)?;
        }
    }
    Ok(RgbImage::from_raw(width, height, rgb).expect("the buffer has the size of the picture"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const W: u32 = 13;
    const H: u32 = 7;

    /// A picture of one colour, given as luma, Cb, Cr (or R, G, B).
    fn plain(layout: PixelLayout, full_range: bool, colour: [u8; 3]) -> Picture {
        let planes = layout.plane_sizes(W, H).into_iter().enumerate().map(|(i, (row, rows))| {
            let n_interleaved = match layout {
                PixelLayout::Rgb => 3,
                PixelLayout::Nv12 if i == 1 => 2,
                _ => 1,
            };
            let stride = row + 5;
            Plane {
                stride,
                data: (0..stride * rows).map(|at| colour[i + at % stride % n_interleaved]).collect(),
            }
        });
        let planes = planes.collect();
        Picture {
            width: W,
            height: H,
            pixel_aspect: (1, 1),
            layout,
            matrix: ColorMatrix::Bt709,
            full_range,
            planes,
        }
    }

    #[test]
    fn every_layout_and_range_gives_the_colour() {
        use PixelLayout::*;
        // Red of Rec. 709 as luma, Cb, Cr (BT.709 tables 3 and 4).
        let (limited, full) = ([63, 102, 240], [54, 99, 255]);
        for layout in [I420, I422, I444, Nv12] {
            for (full_range, colour) in [(false, limited), (true, full)] {
                let rgb = rgb_from_picture(&plain(layout, full_range, colour), W, H).unwrap();
                for pixel in rgb.pixels() {
                    let [r, g, b] = pixel.0;
                    assert!(r >= 252 && g <= 3 && b <= 3, "{layout:?} full {full_range}: {pixel:?}");
                }
            }
        }
        for (layout, full_range, value, expected) in
            [(Gray, false, 235, 255), (Gray, false, 16, 0), (Gray, true, 235, 235), (Gray, true, 16, 16)]
        {
            let rgb = rgb_from_picture(&plain(layout, full_range, [value; 3]), W, H).unwrap();
            assert!(
                rgb.pixels().all(|p| p.0 == [expected; 3]),
                "{layout:?} full {full_range}: {:?}",
                rgb[(0, 0)]
            );
        }
        let rgb = rgb_from_picture(&plain(Rgb, true, [1, 2, 3]), W, H).unwrap();
        assert!(rgb.pixels().all(|p| p.0 == [1, 2, 3]));
    }

    #[test]
    fn matrices_differ_as_their_standards_do() {
        let red_luma = |matrix| {
            let picture = Picture { matrix, ..plain(PixelLayout::I444, true, [128, 128, 178]) };
            rgb_from_picture(&picture, W, H).unwrap()[(3, 3)].0[0]
        };
        // R = Y + 2 (1 - Kr) (Cr - 128), Kr = 0.299, 0.2126, 0.2627.
        for (matrix, expected) in
            [(ColorMatrix::Bt601, 198), (ColorMatrix::Bt709, 207), (ColorMatrix::Bt2020, 202)]
        {
            assert!(red_luma(matrix).abs_diff(expected) <= 1, "{matrix:?}: {}", red_luma(matrix));
        }
    }

    #[test]
    fn samples_become_square() {
        assert_eq!(square_size(352, 288, (12, 11)), (384, 288));
        assert_eq!(square_size(720, 576, (1, 1)), (720, 576));
        assert_eq!(square_size(720, 480, (8, 9)), (720, 540));
        assert_eq!(square_size(720, 480, (0, 1)), (720, 480));
        let picture = Picture { pixel_aspect: (12, 11), ..plain(PixelLayout::Rgb, true, [9, 8, 7]) };
        let rgb = rgb_from_picture(&picture, 14, 7).unwrap();
        assert_eq!(rgb.dimensions(), (14, 7));
        assert!(rgb.pixels().all(|p| p.0 == [9, 8, 7]));
    }

    #[test]
    fn a_short_plane_is_named() {
        let mut picture = plain(PixelLayout::I420, true, [0; 3]);
        picture.planes[2].data.truncate(20);
        let error = rgb_from_picture(&picture, W, H).unwrap_err().to_string();
        assert_eq!(error, "plane 2 of a 13x7 I420 picture has 20 bytes, 43 are needed");
    }
}
