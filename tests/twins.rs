//! Every shader against its twin, on the adapter that TRACKWEAVE_ADAPTER names: bit for bit on software adapters, which
//! round every operation, within a kernel's tolerance on GPUs, which fuse multiplications and additions.

#[path = "twins/comparison.rs"]
mod comparison;
#[path = "twins/pictures.rs"]
mod pictures;
#[allow(dead_code)]
mod support;

use std::env;
use std::sync::Arc;

use comparison::{Cpu, Dev, compare, compare_bits};
use image::RgbImage;
use libtest_mimic::{Arguments, Failed, Trial};
use support::gray_from_rgb;
use trackweave::device::{Buffer, Gpu};
use trackweave::kernels::gray_luma::{self, GrayLumaParams};
use trackweave::kernels::gray_rgb::{self, GrayRgbParams};
use trackweave::kernels::pyramid_down::{self, PyramidShape};
use trackweave::kernels::scharr::{self, ScharrParams};
use trackweave::kernels::{KERNELS, Pyramid, eigen_map, eigen_max};
use trackweave::picture::GrayImage;
use trackweave::picture::area::AreaTaps;

type Outcome = Result<(), Failed>;
type Check = fn(&Gpu, &RgbImage) -> Outcome;

/// A comparison for each kernel.
const CHECKS: [(&str, Check); 6] = [
    ("gray_luma", gray_luma),
    ("gray_rgb", gray_rgb),
    ("pyramid_down", pyramid_down),
    ("scharr", scharr),
    ("eigen_map", eigen_map),
    ("eigen_max", eigen_max),
];

const SIZES: [(u32, u32); 5] = [(1, 1), (5, 9), (17, 30), (640, 360), (641, 363)];

fn main() {
    let adapter = env::var("TRACKWEAVE_ADAPTER").ok();
    let gpu = adapter.as_deref().map(|name| Gpu::open(Some(name)).unwrap_or_else(|error| panic!("{error}")));
    let reason = if gpu.is_some() { "" } else { " (TRACKWEAVE_ADAPTER is not set)" };
    let picture = Arc::new(pictures::render(641, 363));
    let mut trials = vec![Trial::test("every_kernel_is_compared", every_kernel_is_compared)];
    let mut add = |name: String, check: Box<dyn FnOnce(&Gpu) -> Outcome + Send>| {
        let gpu = gpu.clone();
        let run = move || gpu.map_or(Ok(()), |gpu| check(&gpu));
        trials.push(Trial::test(name + reason, run).with_ignored_flag(!reason.is_empty()));
    };
    for (name, check) in CHECKS {
        for (width, height) in SIZES {
            let picture = picture.clone();
            let crop = move |gpu: &Gpu| check(gpu, &pictures::crop(&picture, width, height));
            add(format!("{name}_{width}x{height}"), Box::new(crop));
        }
    }
    let whole = picture.clone();
    add("a_flipped_bit_is_named".into(), Box::new(move |gpu| a_flipped_bit_is_named(gpu, &whole)));
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}

fn every_kernel_is_compared() -> Outcome {
    assert_eq!(CHECKS.map(|(name, _)| name), KERNELS.map(|kernel| kernel.name));
    Ok(())
}

fn gray_luma(gpu: &Gpu, picture: &RgbImage) -> Outcome {
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

fn gray_rgb(gpu: &Gpu, picture: &RgbImage) -> Outcome {
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
        };
        let out = area_averaged(gpu, &gray_rgb::SHADER, &params, &plane.data, &columns, &rows)?;
        compare(gpu, "gray", Dev(&out), Cpu(&expected), 1e-6)?;
    }
    Ok(())
}

fn area_averaged<P: bytemuck::Pod>(
    gpu: &Gpu,
    shader: &'static trackweave::device::KernelSource,
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

/// As many levels as leave the last with one pixel, at most nine.
fn n_levels(gray: &GrayImage) -> usize {
    let longer = gray.width.max(gray.height);
    (1..9).find(|&level| longer >> level == 0).unwrap_or(9)
}

/// The pyramid on the device, with its levels' pixels one behind the other.
fn pyramid_on_device(gpu: &Gpu, gray: &GrayImage) -> Result<(PyramidShape, Buffer<f32>), Failed> {
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

fn pyramid_down(gpu: &Gpu, picture: &RgbImage) -> Outcome {
    let gray = gray_from_rgb(picture);
    let (_, pyramid) = pyramid_on_device(gpu, &gray)?;
    let expected: Vec<f32> =
        pyramid_of(gray).levels.iter().flat_map(|level| level.gray.data.clone()).collect();
    compare(gpu, "pyramid", Dev(&gpu.download(&pyramid)?), Cpu(&expected), 1e-6)
}

fn scharr(gpu: &Gpu, picture: &RgbImage) -> Outcome {
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

/// Gradients of level 0.
fn gradients(picture: &RgbImage) -> [Vec<f32>; 2] {
    let gray = gray_from_rgb(picture);
    let mut gradients = [vec![0.0; gray.data.len()], vec![0.0; gray.data.len()]];
    let [x, y] = &mut gradients;
    scharr::scharr(&gray.data, gray.width, x, y);
    gradients
}

fn eigen_map(gpu: &Gpu, picture: &RgbImage) -> Outcome {
    let (width, height) = (picture.width() as usize, picture.height() as usize);
    let [x, y] = gradients(picture);
    for margin in [1, 7] {
        let mut expected = vec![f32::NAN; x.len()];
        eigen_map::eigen_map(&x, &y, width, margin, &mut expected);
        let eigen = gpu.buffer::<f32>("eigen", x.len())?;
        let params =
            eigen_map::EigenMapParams { width: width as u32, height: height as u32, margin: margin as u32 };
        let (x, y) = (gpu.buffer_with("gradient_x", &x)?, gpu.buffer_with("gradient_y", &y)?);
        let bound = gpu.kernel(&eigen_map::SHADER, &[])?.bind(&params, &[&x, &y, &eigen])?;
        let mut recording = gpu.record("eigen_map");
        recording.dispatch(&bound, eigen_map::SHADER.groups([width, height, 1]));
        recording.submit()?.wait()?;
        compare(gpu, "eigen", Dev(&gpu.download(&eigen)?), Cpu(&expected), 1e-6)?;
    }
    Ok(())
}

fn eigen_max(gpu: &Gpu, picture: &RgbImage) -> Outcome {
    let values = gray_from_rgb(picture).data;
    let kernel = gpu.kernel(&eigen_max::SHADER, &[])?;
    let mut left = gpu.buffer_with("values", &values)?;
    let mut recording = gpu.record("eigen_max");
    loop {
        let n_strips = left.len().div_ceil(eigen_max::STRIP);
        let strips = gpu.buffer::<f32>("strips", n_strips)?;
        let params = eigen_max::EigenMaxParams::new(left.len());
        recording.dispatch(&kernel.bind(&params, &[&left, &strips])?, [n_strips as u32, 1, 1]);
        left = strips;
        if n_strips == 1 {
            break;
        }
    }
    recording.submit()?.wait()?;
    compare_bits("strips", Dev(&gpu.download(&left)?), Cpu(&[eigen_max::eigen_max(&values)]))
}

/// The comparison itself: one bit of one element of a real download, and it must fail there.
fn a_flipped_bit_is_named(gpu: &Gpu, picture: &RgbImage) -> Outcome {
    let gray = gray_from_rgb(picture);
    let (_, pyramid) = pyramid_on_device(gpu, &gray)?;
    let mut found = gpu.download(&pyramid)?;
    let expected = found.clone();
    compare_bits("pyramid", Dev(&found), Cpu(&expected))?;
    let index = found.len() - 7;
    found[index] = f32::from_bits(found[index].to_bits() ^ 1);
    let failure = compare_bits("pyramid", Dev(&found), Cpu(&expected)).expect_err("a flipped bit passes");
    let message = failure.message().unwrap_or_default();
    assert!(message.contains(&format!("pyramid[{index}]")) && message.contains("1 of"), "{message}");
    found[index] = expected[index] + 1e-3;
    compare(gpu, "pyramid", Dev(&found), Cpu(&expected), 1e-6).expect_err("a wrong value passes");
    Ok(())
}
