//! Gray pictures at analysis size.

use image::RgbImage;
use libtest_mimic::Failed;
use trackweave::device::{Gpu, KernelSource};
use trackweave::kernels::gray_luma::{self, GrayLumaParams};
use trackweave::kernels::gray_rgb::{self, GrayRgbParams};
use trackweave::picture::area::AreaTaps;

use crate::Outcome;
use crate::comparison::{Cpu, Dev, compare};
use crate::pictures;

pub fn gray_luma(gpu: &Gpu, picture: &RgbImage) -> Outcome {
    for full_range in [true, false] {
        let luma = pictures::luma(picture, full_range);
        for (width, height) in pictures::smaller(picture) {
            let (columns, rows) = AreaTaps::of_picture(&luma, width as u32, height as u32);
            let plane = &luma.planes[0];
            let (mut scratch, mut expected) = (vec![0.0; columns.n_in], vec![0.0; width * height]);
            gray_luma::gray_luma(
                &plane.data,
                plane.stride,
                full_range,
                &columns,
                &rows,
                &mut scratch,
                &mut expected,
            );
            let (black, white) = if full_range { (0.0, 255.0) } else { (16.0, 235.0) };
            let params = GrayLumaParams {
                stride: plane.stride as u32,
                columns_per_pixel: columns.n_taps as u32,
                rows_per_pixel: rows.n_taps as u32,
                width: width as u32,
                height: height as u32,
                black,
                white,
            };
            let out = area_averaged(gpu, &gray_luma::SHADER, &params, &plane.data, &columns, &rows)?;
            compare(gpu, "gray", Dev(&out), Cpu(&expected), 1e-6)?;
        }
    }
    Ok(())
}

pub fn gray_rgb(gpu: &Gpu, picture: &RgbImage) -> Outcome {
    let rgb = pictures::rgb(picture);
    for (width, height) in pictures::smaller(picture) {
        let (columns, rows) = AreaTaps::of_picture(&rgb, width as u32, height as u32);
        let plane = &rgb.planes[0];
        let (mut scratch, mut expected) = (vec![0.0; columns.n_in], vec![0.0; width * height]);
        gray_rgb::gray_rgb(&plane.data, plane.stride, &columns, &rows, &mut scratch, &mut expected);
        let params = GrayRgbParams {
            stride: plane.stride as u32,
            columns_per_pixel: columns.n_taps as u32,
            rows_per_pixel: rows.n_taps as u32,
            width: width as u32,
            height: height as u32,
            white: 255.0,
        };
        let out = area_averaged(gpu, &gray_rgb::SHADER, &params, &plane.data, &columns, &rows)?;
        compare(gpu, "gray", Dev(&out), Cpu(&expected), 1e-6)?;
    }
    Ok(())
}

fn area_averaged<P: bytemuck::Pod>(
    gpu: &Gpu,
    shader: &'static KernelSource,
    params: &P,
    samples: &[u8],
    columns: &AreaTaps,
    rows: &AreaTaps,
) -> Result<Vec<f32>, Failed> {
    let samples = gpu.buffer_with("samples", samples)?;
    let columns_first = gpu.buffer_with("taps", &columns.first)?;
    let columns_weights = gpu.buffer_with("taps", &columns.weights)?;
    let rows_first = gpu.buffer_with("taps", &rows.first)?;
    let rows_weights = gpu.buffer_with("taps", &rows.weights)?;
    let gray = gpu.buffer::<f32>("gray", columns.n_out() * rows.n_out())?;
    let kernel = gpu.kernel(shader, &[])?;
    let bound = kernel
        .bind(params, &[&samples, &columns_first, &columns_weights, &rows_first, &rows_weights, &gray])?;
    let mut recording = gpu.record(shader.name);
    recording.dispatch(&bound, shader.groups([columns.n_out(), rows.n_out(), 1]));
    recording.submit()?.wait()?;
    Ok(gpu.download(&gray)?)
}
