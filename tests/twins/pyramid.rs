//! Pyramids and their gradients.

use std::sync::Arc;

use image::RgbImage;
use libtest_mimic::Failed;
use trackweave::device::{Buffer, Gpu};
use trackweave::kernels::Pyramid;
use trackweave::kernels::pyramid_down::{self, PyramidShape};
use trackweave::kernels::scharr::{self, ScharrParams};
use trackweave::picture::GrayImage;

use crate::Outcome;
use crate::comparison::{Cpu, Dev, compare};
use crate::support::gray_from_rgb;

/// As many levels as leave the last with one pixel, at most nine.
fn n_levels(gray: &GrayImage) -> usize {
    let longer = gray.width.max(gray.height);
    (1..9).find(|&level| longer >> level == 0).unwrap_or(9)
}

/// The pyramid on the device, with its levels' pixels one behind the other.
pub fn pyramid_on_device(gpu: &Gpu, gray: &GrayImage) -> Result<(PyramidShape, Buffer<f32>), Failed> {
    let n_levels = n_levels(gray);
    let shape = PyramidShape::new(gray.width, gray.height, n_levels);
    let pyramid = gpu.buffer::<f32>("pyramid", shape.pixels())?;
    gpu.write(&pyramid, 0, &gray.data);
    let kernel = gpu.kernel(&pyramid_down::SHADER, &[])?;
    let mut recording = gpu.record("pyramid_down");
    for (params, groups) in shape.dispatches(n_levels) {
        recording.dispatch(&kernel.bind(&params, &[&pyramid])?, groups);
    }
    recording.submit()?.wait()?;
    Ok((shape, pyramid))
}

fn pyramid_of(gray: GrayImage) -> Pyramid {
    let mut pyramid = Pyramid::default();
    let levels = n_levels(&gray);
    pyramid.rebuild(&Arc::new(gray), levels, &mut Vec::new());
    pyramid
}

pub fn pyramid_down(gpu: &Gpu, picture: &RgbImage) -> Outcome {
    let gray = gray_from_rgb(picture);
    let (_, pyramid) = pyramid_on_device(gpu, &gray)?;
    let expected: Vec<f32> =
        pyramid_of(gray).levels.iter().flat_map(|level| level.gray.data.clone()).collect();
    compare(gpu, "pyramid", Dev(&gpu.download(&pyramid)?), Cpu(&expected), 1e-6)
}

pub fn scharr(gpu: &Gpu, picture: &RgbImage) -> Outcome {
    let gray = gray_from_rgb(picture);
    let expected = pyramid_of(gray);
    let n_levels = expected.levels.len();
    let shape = PyramidShape::new(picture.width() as usize, picture.height() as usize, n_levels);
    let pixels: Vec<f32> = expected.levels.iter().flat_map(|level| level.gray.data.clone()).collect();
    let pyramid = gpu.buffer_with("pyramid", &pixels)?;
    let gradient_x = gpu.buffer::<f32>("gradient_x", pixels.len())?;
    let gradient_y = gpu.buffer::<f32>("gradient_y", pixels.len())?;
    let params = ScharrParams { shape, n_levels: n_levels as u32, n_pixels: pixels.len() as u32 };
    let bound = gpu.kernel(&scharr::SHADER, &[])?.bind(&params, &[&pyramid, &gradient_x, &gradient_y])?;
    let mut recording = gpu.record("scharr");
    recording.dispatch(&bound, scharr::SHADER.flat_groups(pixels.len()));
    recording.submit()?.wait()?;
    let x: Vec<f32> = expected.levels.iter().flat_map(|level| level.gradient_x.clone()).collect();
    let y: Vec<f32> = expected.levels.iter().flat_map(|level| level.gradient_y.clone()).collect();
    compare(gpu, "gradient_x", Dev(&gpu.download(&gradient_x)?), Cpu(&x), 1e-6)?;
    compare(gpu, "gradient_y", Dev(&gpu.download(&gradient_y)?), Cpu(&y), 1e-6)
}
