//! Gray on a device: one plane up, one dispatch, buffers that go round.

use std::sync::Arc;

use parking_lot::Mutex;

use super::Shape;
use crate::device::{AnyBuffer, Bound, Buffer, DeviceError, Gpu};
use crate::kernels::gray_luma::{self, GrayLumaParams};
use crate::kernels::gray_rgb::{self, GrayRgbParams};
use crate::picture::GrayImage;
use crate::picture::area::AreaTaps;

/// A gray picture in a device's memory. The buffer is used again once no one holds the picture.
#[derive(Debug)]
pub struct DeviceGray {
    gpu: Gpu,
    size: (usize, usize),
    values: Arc<Buffer<f32>>,
    host: Mutex<Option<Arc<GrayImage>>>,
}

impl DeviceGray {
    /// Width and height in pixels.
    pub fn size(&self) -> (usize, usize) {
        self.size
    }

    /// The values, row by row.
    pub fn values(&self) -> &Buffer<f32> {
        &self.values
    }

    /// See `Gray::host`.
    pub(super) fn host(&self) -> Result<Arc<GrayImage>, DeviceError> {
        let mut host = self.host.lock();
        if let Some(gray) = &*host {
            return Ok(gray.clone());
        }
        let (width, height) = self.size;
        let gray = Arc::new(GrayImage { width, height, data: self.gpu.download(&self.values)? });
        *host = Some(gray.clone());
        Ok(gray)
    }
}

/// The conversion of one shape, and the buffers it has given away so far.
#[derive(Debug)]
pub(super) struct GpuConversion {
    gpu: Gpu,
    shape: Shape,
    size: (usize, usize),
    plane: Buffer<u8>,
    taps: [Buffer<u32>; 2],
    weights: [Buffer<f32>; 2],
    per_pixel: [usize; 2],
    given: Vec<(Arc<Buffer<f32>>, Bound)>,
}

impl GpuConversion {
    pub fn new(
        gpu: &Gpu,
        shape: Shape,
        columns: &AreaTaps,
        rows: &AreaTaps,
    ) -> Result<GpuConversion, DeviceError> {
        Ok(GpuConversion {
            gpu: gpu.clone(),
            shape,
            size: (columns.n_out(), rows.n_out()),
            plane: gpu.buffer("plane", shape.stride * rows.n_in)?,
            taps: [gpu.buffer_with("taps", &columns.first)?, gpu.buffer_with("taps", &rows.first)?],
            weights: [gpu.buffer_with("taps", &columns.weights)?, gpu.buffer_with("taps", &rows.weights)?],
            per_pixel: [columns.n_taps, rows.n_taps],
            given: Vec::new(),
        })
    }

    /// The gray of the first plane of a picture; it is not waited for.
    pub fn run(&mut self, samples: &[u8]) -> Result<Arc<DeviceGray>, DeviceError> {
        let free = self.given.iter_mut().position(|(values, _)| Arc::get_mut(values).is_some());
        let free = match free {
            Some(index) => index,
            None => {
                self.given.push(self.bind()?);
                self.given.len() - 1
            }
        };
        let (values, conversion) = &self.given[free];
        let n_bytes = samples.len().min(self.plane.len());
        self.gpu.write(&self.plane, 0, &samples[..n_bytes]);
        let mut recording = self.gpu.record("gray");
        recording.dispatch(conversion, conversion.source().groups([self.size.0, self.size.1, 1]));
        recording.submit()?.leave();
        Ok(Arc::new(DeviceGray {
            gpu: self.gpu.clone(),
            size: self.size,
            values: values.clone(),
            host: Mutex::default(),
        }))
    }

    /// A buffer more, and the conversion into it.
    fn bind(&self) -> Result<(Arc<Buffer<f32>>, Bound), DeviceError> {
        let (width, height) = (self.size.0 as u32, self.size.1 as u32);
        let [columns_per_pixel, rows_per_pixel] = self.per_pixel.map(|n_taps| n_taps as u32);
        let stride = self.shape.stride as u32;
        let gray = self.gpu.buffer("gray", self.size.0 * self.size.1)?;
        let [columns_first, rows_first] = &self.taps;
        let [columns_weights, rows_weights] = &self.weights;
        let buffers: [&dyn AnyBuffer; 6] =
            [&self.plane, columns_first, columns_weights, rows_first, rows_weights, &gray];
        let bound = if self.shape.is_rgb {
            let params =
                GrayRgbParams { stride, columns_per_pixel, rows_per_pixel, width, height, white: 255.0 };
            self.gpu.kernel(&gray_rgb::SHADER, &[])?.bind(&params, &buffers)?
        } else {
            let (black, white) = if self.shape.full_range { (0.0, 255.0) } else { (16.0, 235.0) };
            let params =
                GrayLumaParams { stride, columns_per_pixel, rows_per_pixel, width, height, black, white };
            self.gpu.kernel(&gray_luma::SHADER, &[])?.bind(&params, &buffers)?
        };
        Ok((Arc::new(gray), bound))
    }
}
