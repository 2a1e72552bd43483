//! Gray at analysis size: on the host or on a device, and how it is made of a decoded picture.

use std::sync::Arc;

pub use self::gpu::DeviceGray;

use self::gpu::GpuConversion;
use crate::device::{Device, DeviceError};
use crate::kernels::gray_luma::gray_luma;
use crate::kernels::gray_rgb::gray_rgb;
use crate::picture::area::AreaTaps;
use crate::picture::{GrayImage, Picture, PixelLayout};

mod gpu;

/// A gray picture where the kernels run.
#[derive(Clone, Debug)]
pub enum Gray {
    /// In the host's memory.
    Host(Arc<GrayImage>),
    /// In a device's memory.
    Device(Arc<DeviceGray>),
}

impl Gray {
    /// Width and height in pixels.
    pub fn size(&self) -> (usize, usize) {
        match self {
            Gray::Host(gray) => (gray.width, gray.height),
            Gray::Device(gray) => gray.size(),
        }
    }

    /// The picture in the host's memory: from a device it comes once, when it is first asked for.
    ///
    /// # Errors
    /// The device was lost.
    pub fn host(&self) -> Result<Arc<GrayImage>, DeviceError> {
        match self {
            Gray::Host(gray) => Ok(gray.clone()),
            Gray::Device(gray) => gray.host(),
        }
    }
}

/// What pictures must have in common to be converted alike.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shape {
    width: u32,
    height: u32,
    pixel_aspect: (u32, u32),
    is_rgb: bool,
    full_range: bool,
    stride: usize,
}

impl Shape {
    /// The shape of a picture that was checked.
    pub fn of(picture: &Picture) -> Shape {
        Shape {
            width: picture.width,
            height: picture.height,
            pixel_aspect: picture.pixel_aspect,
            is_rgb: picture.layout == PixelLayout::Rgb,
            full_range: picture.full_range,
            stride: picture.planes[0].stride,
        }
    }
}

/// From pictures of one shape to gray of one size. The first plane is all that is read.
#[derive(Debug)]
pub struct Conversion {
    shape: Shape,
    columns: AreaTaps,
    rows: AreaTaps,
    backend: Backend,
}

#[derive(Debug)]
enum Backend {
    Cpu { scratch: Vec<f32> },
    Gpu(GpuConversion),
}

impl Conversion {
    /// For pictures like `picture`, to `width` x `height` pixels.
    ///
    /// # Errors
    /// The device has no memory for it, or was lost.
    pub fn new(device: &Device, picture: &Picture, size: (u32, u32)) -> Result<Conversion, DeviceError> {
        let shape = Shape::of(picture);
        let (columns, rows) = AreaTaps::of_picture(picture, size.0, size.1);
        let backend = match device {
            Device::Cpu => Backend::Cpu { scratch: vec![0.0; columns.n_in * rayon::current_num_threads()] },
            Device::Gpu(gpu) => Backend::Gpu(GpuConversion::new(gpu, shape, &columns, &rows)?),
        };
        Ok(Conversion { shape, columns, rows, backend })
    }

    /// What its pictures have in common.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// The gray of a picture of the shape.
    ///
    /// # Errors
    /// The device has no memory for it, or was lost.
    pub fn run(&mut self, picture: &Picture) -> Result<Gray, DeviceError> {
        let samples = &picture.planes[0].data;
        let Conversion { shape: Shape { stride, full_range, is_rgb, .. }, columns, rows, backend } = self;
        let scratch = match backend {
            Backend::Gpu(conversion) => return Ok(Gray::Device(conversion.run(samples)?)),
            Backend::Cpu { scratch } => scratch,
        };
        let mut gray = GrayImage::new(columns.n_out(), rows.n_out());
        if *is_rgb {
            gray_rgb(samples, *stride, columns, rows, scratch, &mut gray.data);
        } else {
            gray_luma(samples, *stride, *full_range, columns, rows, scratch, &mut gray.data);
        }
        Ok(Gray::Host(Arc::new(gray)))
    }
}
