//! Turning planes upright: the eight orientations of a camera.

use serde::{Deserialize, Serialize};

use super::Plane;

/// What makes a coded picture upright: first clockwise quarter turns, then a mirror left to right.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Orientation {
    /// Clockwise quarter turns, 0..=3.
    pub quarter_turns: u8,
    /// Mirrored left to right after the turn.
    pub mirrored: bool,
}

impl Orientation {
    /// The orientation of an EXIF number 1..=8; others are upright (Exif 2.32, tag 274).
    pub fn from_exif(number: u8) -> Orientation {
        let (quarter_turns, mirrored) = match number {
            2 => (0, true),
            3 => (2, false),
            4 => (2, true),
            5 => (1, true),
            6 => (1, false),
            7 => (3, true),
            8 => (3, false),
            _ => (0, false),
        };
        Orientation { quarter_turns, mirrored }
    }

    /// Whether width and height change places.
    pub fn swaps_axes(self) -> bool {
        self.quarter_turns % 2 == 1
    }

    /// Upright (width, height) of a coded one; also of any pair that belongs to the two axes.
    pub fn upright(self, coded: (u32, u32)) -> (u32, u32) {
        if self.swaps_axes() { (coded.1, coded.0) } else { coded }
    }

    /// Where upright sample (x, y) of a `width` x `height` upright plane lies in the coded plane.
    fn coded_from_upright(self, (x, y): (usize, usize), (width, height): (usize, usize)) -> (usize, usize) {
        let x = if self.mirrored { width - 1 - x } else { x };
        match self.quarter_turns {
            0 => (x, y),
            1 => (y, width - 1 - x),
            2 => (width - 1 - x, height - 1 - y),
            _ => (height - 1 - y, x),
        }
    }
}

/// A tightly packed upright copy of a coded plane of `coded` = (width, height) samples of `N` bytes, `stride` bytes a
/// row.
pub fn upright_plane<const N: usize>(
    samples: &[u8],
    stride: usize,
    coded: (usize, usize),
    orientation: Orientation,
) -> Plane {
    let (coded_w, coded_h) = coded;
    let (width, height) = if orientation.swaps_axes() { (coded_h, coded_w) } else { coded };
    if orientation == Orientation::default() {
        let rows = samples.chunks(stride).take(height).flat_map(|row| &row[..width * N]);
        return Plane { stride: width * N, data: rows.copied().collect() };
    }
    let mut data = vec![0; width * height * N];
    // Blocks keep both sides of a turn in the cache.
    const BLOCK: usize = 32;
    for y0 in (0..height).step_by(BLOCK) {
        for x0 in (0..width).step_by(BLOCK) {
            for y in y0..(y0 + BLOCK).min(height) {
                for x in x0..(x0 + BLOCK).min(width) {
                    let (from_x, from_y) = orientation.coded_from_upright((x, y), (width, height));
                    let from = from_y * stride + from_x * N;
                    let to = (y * width + x) * N;
                    data[to..to + N].copy_from_slice(&samples[from..from + N]);
                }
            }
        }
    }
    debug_assert_eq!(coded_w * coded_h, width * height);
    Plane { stride: width * N, data }
}

#[cfg(test)]
mod tests {
    use image::{DynamicImage, RgbImage};

    use super::*;

    /// The image crate turns pictures by EXIF number with code of its own.
    #[test]
    fn all_eight_agree_with_the_image_crate() {
        let (w, h) = (37, 70);
        let coded = RgbImage::from_fn(w, h, |x, y| image::Rgb([x as u8, y as u8, (x * 7 + y * 13) as u8]));
        for number in 1..=8 {
            let orientation = Orientation::from_exif(number);
            let mut expected = DynamicImage::ImageRgb8(coded.clone());
            expected.apply_orientation(image::metadata::Orientation::from_exif(number).unwrap());
            let size = orientation.upright((w, h));
            assert_eq!(size, (expected.width(), expected.height()), "EXIF {number}");
            let plane =
                upright_plane::<3>(coded.as_raw(), 3 * w as usize, (w as usize, h as usize), orientation);
            assert_eq!(plane.stride, 3 * size.0 as usize);
            assert!(plane.data == expected.as_bytes(), "EXIF {number}: another picture");
        }
    }

    #[test]
    fn a_stride_is_skipped() {
        let samples = [1, 2, 9, 9, 3, 4, 9, 9, 5, 6];
        let turned = upright_plane::<1>(&samples, 4, (2, 3), Orientation::from_exif(6));
        assert_eq!(turned, Plane { stride: 3, data: vec![5, 3, 1, 6, 4, 2] });
        let same = upright_plane::<1>(&samples, 4, (2, 3), Orientation::default());
        assert_eq!(same.data, [1, 2, 3, 4, 5, 6]);
    }
}
