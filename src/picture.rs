//! Pictures: decoded planes as they came, gray at analysis size.

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
