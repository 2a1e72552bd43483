//! Pictures for the comparisons: a rendered room, its crops, and planes with odd strides.

use image::{RgbImage, imageops};
use trackweave::picture::{ColorMatrix, Picture, PixelLayout, Plane};
use trackweave::scene::CameraPath;

use crate::support::Sequence;

/// A picture of the demo's room.
pub fn render(width: u32, height: u32) -> RgbImage {
    Sequence::render(CameraPath::HandHeld, 1, 10.0, (width, height)).pictures.remove(0)
}

/// Its middle.
pub fn crop(picture: &RgbImage, width: u32, height: u32) -> RgbImage {
    let (x, y) = ((picture.width() - width) / 2, (picture.height() - height) / 2);
    imageops::crop_imm(picture, x, y, width, height).to_image()
}

/// Sizes of gray pictures: as it is, by two thirds, by a little less than a half, by a seventh.
pub fn smaller(picture: &RgbImage) -> Vec<(usize, usize)> {
    let size = |factor: f64| {
        let side = |n: u32| ((n as f64 * factor).round() as usize).max(1);
        (side(picture.width()), side(picture.height()))
    };
    [1.0, 2.0 / 3.0, 0.49, 1.0 / 7.0].map(size).to_vec()
}

/// The green channel as a luma plane whose rows are three bytes apart from each other.
pub fn luma(picture: &RgbImage, full_range: bool) -> Picture {
    let row = |y: u32| (0..picture.width()).map(move |x| picture.get_pixel(x, y)[1]);
    plane(picture, PixelLayout::Gray, full_range, |y| row(y).collect())
}

/// The picture as an RGB plane whose rows are three bytes apart from each other.
pub fn rgb(picture: &RgbImage) -> Picture {
    let row = |y: u32| (0..picture.width()).flat_map(move |x| picture.get_pixel(x, y).0);
    plane(picture, PixelLayout::Rgb, true, |y| row(y).collect())
}

fn plane(picture: &RgbImage, layout: PixelLayout, full_range: bool, row: impl Fn(u32) -> Vec<u8>) -> Picture {
    let stride = row(0).len() + 3;
    let data = (0..picture.height()).flat_map(|y| [row(y), vec![77; 3]].concat()).collect();
    Picture {
        width: picture.width(),
        height: picture.height(),
        pixel_aspect: (1, 1),
        layout,
        matrix: ColorMatrix::Bt601,
        full_range,
        planes: vec![Plane { stride, data }],
    }
}
