//! The tracker on a device: two frames that take turns, and one submission a push.

use crate::device::{Bound, Buffer, DeviceError, Gpu, PassTime, Readback, Recording};
use crate::kernels::gray_luma::{self, GrayLumaParams};
use crate::kernels::klt_track::{self, KltTrackParams, TrackRecord};
use crate::kernels::pyramid_down::{self, PyramidShape};
use crate::kernels::scharr::{self, ScharrParams};
use crate::klt::KltOptions;
use crate::picture::area::AreaTaps;

/// Tracks points from each frame to the next as [`track_points`](super::track_points) does.
#[derive(Debug)]
pub struct GpuTracker {
    gpu: Gpu,
    options: KltOptions,
    size: [usize; 2],
    luma: Buffer<u8>,
    starts: Buffer<TrackRecord>,
    records: Buffer<TrackRecord>,
    checked: Readback<TrackRecord>,
    /// Each with what makes its pyramid and gradients, and what tracks to it from the other.
    slots: [Slot; 2],
    /// Slot of the next frame.
    next: usize,
    has_previous: bool,
}

#[derive(Debug)]
struct Slot {
    pyramid: Vec<(Bound, [u32; 3])>,
    gradients: (Bound, [u32; 3]),
    track: Bound,
}

/// A frame's pyramid and gradients, all levels one behind the other.
struct Planes {
    pyramid: Buffer<f32>,
    gradient_x: Buffer<f32>,
    gradient_y: Buffer<f32>,
}

/// How luma planes become gray at analysis size.
#[derive(Clone, Copy, Debug)]
pub struct LumaLayout<'a> {
    /// Taps along a row.
    pub columns: &'a AreaTaps,
    /// Taps down a column.
    pub rows: &'a AreaTaps,
    /// Bytes from one row to the next.
    pub stride: usize,
    /// Whether samples span 0..=255, else 16..=235.
    pub full_range: bool,
}

impl GpuTracker {
    /// A tracker that has seen no frame, for planes of one layout and up to `capacity` tracks a push.
    ///
    /// # Errors
    /// The device has no memory for it, the window needs more workgroup memory than the adapter has, or a shader does not
    /// compile.
    pub fn new(
        gpu: &Gpu,
        options: &KltOptions,
        layout: LumaLayout,
        capacity: usize,
    ) -> Result<GpuTracker, DeviceError> {
        let size = [layout.columns.n_out(), layout.rows.n_out()];
        let shape = PyramidShape::new(size[0], size[1], options.levels as usize);
        let luma = gpu.buffer("luma", layout.stride * layout.rows.n_in)?;
        let starts = gpu.buffer("starts", capacity)?;
        let records = gpu.buffer("records", 3 * capacity)?;
        let checked = gpu.readback("checked", capacity)?;
        let weights = klt_track::weights_on_device(gpu, options.window_px as usize)?;
        let taps = Taps::new(gpu, layout)?;
        let planes = [Planes::new(gpu, shape.pixels())?, Planes::new(gpu, shape.pixels())?];
        let kernel = klt_track::kernel(gpu, options.window_px as usize)?;
        let slot = |now: usize| -> Result<Slot, DeviceError> {
            let ([pyramid, gradient_x, gradient_y], before) = (planes[now].all(), planes[1 - now].all());
            let params = KltTrackParams::new(options, size, 0, 1, capacity);
            let track = kernel.bind(
                &params,
                &[
                    &weights, before[0], before[1], before[2], pyramid, gradient_x, gradient_y, &starts,
                    &records,
                ],
            )?;
            let params = ScharrParams { shape, n_levels: options.levels, n_pixels: shape.pixels() as u32 };
            let gradients =
                gpu.kernel(&scharr::SHADER, &[])?.bind(&params, &[pyramid, gradient_x, gradient_y])?;
            Ok(Slot {
                pyramid: pyramid_of_luma(
                    gpu,
                    layout,
                    &luma,
                    &taps,
                    &shape,
                    options.levels as usize,
                    pyramid,
                )?,
                gradients: (gradients, scharr::SHADER.flat_groups(shape.pixels())),
                track,
            })
        };
        let slots = [slot(0)?, slot(1)?];
        let gpu = gpu.clone();
        let options = options.clone();
        Ok(GpuTracker {
            gpu,
            options,
            size,
            luma,
            starts,
            records,
            checked,
            slots,
            next: 0,
            has_previous: false,
        })
    }

    /// Takes the next frame and tracks `starts`, which lie in the frame before, to it. The first frame takes no starts.
    ///
    /// # Errors
    /// The device was lost.
    ///
    /// # Panics
    /// The plane is not of the layout, or there are more starts than the capacity.
    pub fn push(&mut self, luma: &[u8], starts: &[TrackRecord]) -> Result<Vec<TrackRecord>, DeviceError> {
        let recording = self.gpu.record("push");
        Ok(self.run(recording, luma, starts)?.0)
    }

    /// As `push`, with the device's time of each pass where the adapter tells.
    ///
    /// # Errors
    /// As `push`.
    ///
    /// # Panics
    /// As `push`.
    pub fn push_timed(
        &mut self,
        luma: &[u8],
        starts: &[TrackRecord],
    ) -> Result<(Vec<TrackRecord>, Vec<PassTime>), DeviceError> {
        let recording = self.gpu.record_timed("push")?;
        self.run(recording, luma, starts)
    }

    fn run(
        &mut self,
        mut recording: Recording,
        luma: &[u8],
        starts: &[TrackRecord],
    ) -> Result<(Vec<TrackRecord>, Vec<PassTime>), DeviceError> {
        assert_eq!(luma.len(), self.luma.len(), "bytes of a luma plane");
        assert!(starts.is_empty() || self.has_previous, "the first frame has no tracks");
        let capacity = self.starts.len();
        assert!(starts.len() <= capacity, "{} tracks, room for {capacity}", starts.len());
        let slot = &self.slots[self.next];
        self.gpu.write(&self.luma, 0, luma);
        recording.pass("pyramid");
        for (bound, groups) in &slot.pyramid {
            recording.dispatch(bound, *groups);
        }
        recording.pass("gradients").dispatch(&slot.gradients.0, slot.gradients.1);
        if !starts.is_empty() {
            self.gpu.write(&self.starts, 0, starts);
            let params = KltTrackParams::new(&self.options, self.size, 0, starts.len(), capacity);
            slot.track.set(&params);
            recording.pass("tracks").dispatch(&slot.track, params.groups());
        }
        recording.read(&self.records, 0..starts.len(), &self.checked);
        let times = recording.submit()?.wait()?;
        (self.next, self.has_previous) = (1 - self.next, true);
        Ok((self.checked.take()?, times))
    }
}

impl Planes {
    fn new(gpu: &Gpu, n_pixels: usize) -> Result<Planes, DeviceError> {
        Ok(Planes {
            pyramid: gpu.buffer("pyramid", n_pixels)?,
            gradient_x: gpu.buffer("gradient_x", n_pixels)?,
            gradient_y: gpu.buffer("gradient_y", n_pixels)?,
        })
    }

    fn all(&self) -> [&Buffer<f32>; 3] {
        [&self.pyramid, &self.gradient_x, &self.gradient_y]
    }
}

/// `AreaTaps` of both axes on the device.
struct Taps {
    columns_first: Buffer<u32>,
    columns_weights: Buffer<f32>,
    rows_first: Buffer<u32>,
    rows_weights: Buffer<f32>,
}

impl Taps {
    fn new(gpu: &Gpu, LumaLayout { columns, rows, .. }: LumaLayout) -> Result<Taps, DeviceError> {
        Ok(Taps {
            columns_first: gpu.buffer_with("taps", &columns.first)?,
            columns_weights: gpu.buffer_with("taps", &columns.weights)?,
            rows_first: gpu.buffer_with("taps", &rows.first)?,
            rows_weights: gpu.buffer_with("taps", &rows.weights)?,
        })
    }
}

/// The dispatches from a luma plane to all levels of `pyramid`.
fn pyramid_of_luma(
    gpu: &Gpu,
    layout: LumaLayout,
    luma: &Buffer<u8>,
    taps: &Taps,
    shape: &PyramidShape,
    levels: usize,
    pyramid: &Buffer<f32>,
) -> Result<Vec<(Bound, [u32; 3])>, DeviceError> {
    let LumaLayout { columns, rows, stride, full_range } = layout;
    let (black, white) = if full_range { (0.0, 255.0) } else { (16.0, 235.0) };
    let params = GrayLumaParams {
        stride: stride as u32,
        columns_per_pixel: columns.n_taps as u32,
        rows_per_pixel: rows.n_taps as u32,
        width: columns.n_out() as u32,
        height: rows.n_out() as u32,
        black,
        white,
    };
    let Taps { columns_first, columns_weights, rows_first, rows_weights } = taps;
    let gray = gpu
        .kernel(&gray_luma::SHADER, &[])?
        .bind(&params, &[luma, columns_first, columns_weights, rows_first, rows_weights, pyramid])?;
    let groups = gray_luma::SHADER.groups([columns.n_out(), rows.n_out(), 1]);
    let down = gpu.kernel(&pyramid_down::SHADER, &[])?;
    let coarser = shape.dispatches(levels).into_iter();
    let coarser = coarser.map(|(params, groups)| Ok((down.bind(&params, &[pyramid])?, groups)));
    [Ok((gray, groups))].into_iter().chain(coarser).collect()
}
