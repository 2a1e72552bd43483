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
    gray: Buffer<f32>,
    /// Both frames, all levels one behind the other.
    pyramid: Buffer<f32>,
    to_gray: (Bound, [u32; 3]),
    /// What makes the pyramid and the gradients of either frame of its level 0.
    slots: [Slot; 2],
    track: Bound,
    starts: Buffer<TrackRecord>,
    records: Buffer<TrackRecord>,
    checked: Readback<TrackRecord>,
    /// Slot of the next frame.
    next: usize,
    has_previous: bool,
}

#[derive(Debug)]
struct Slot {
    /// Where it begins in the planes.
    begin: usize,
    coarser: Vec<(Bound, [u32; 3])>,
    gradients: (Bound, [u32; 3]),
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
        let gray = gpu.buffer("gray", size[0] * size[1])?;
        let planes = 2 * shape.pixels();
        let pyramid = gpu.buffer::<f32>("pyramid", planes)?;
        let gradient_x = gpu.buffer::<f32>("gradient_x", planes)?;
        let gradient_y = gpu.buffer::<f32>("gradient_y", planes)?;
        let slot = |slot: usize| -> Result<Slot, DeviceError> {
            let begin = slot * shape.pixels();
            let shape = shape.behind(begin);
            let params = ScharrParams { shape, n_levels: options.levels, n_pixels: shape.pixels() as u32 };
            let scharr = gpu.kernel(&scharr::SHADER, &[])?;
            let gradients = scharr.bind(&params, &[&pyramid, &gradient_x, &gradient_y])?;
            let down = gpu.kernel(&pyramid_down::SHADER, &[])?;
            let coarser = shape.dispatches(options.levels as usize).into_iter();
            let coarser = coarser.map(|(params, groups)| Ok((down.bind(&params, &[&pyramid])?, groups)));
            Ok(Slot {
                begin,
                coarser: coarser.collect::<Result<_, DeviceError>>()?,
                gradients: (gradients, scharr::SHADER.flat_groups(shape.pixels())),
            })
        };
        let params = KltTrackParams::new(options, size, 0, 0, 1, capacity);
        let track = klt_track::kernel(gpu, options.window_px as usize)?
            .bind(&params, &[&weights, &pyramid, &gradient_x, &gradient_y, &starts, &records])?;
        Ok(GpuTracker {
            to_gray: gray_of_luma(gpu, layout, &luma, &gray)?,
            slots: [slot(0)?, slot(1)?],
            gpu: gpu.clone(),
            options: options.clone(),
            size,
            luma,
            gray,
            pyramid,
            track,
            starts,
            records,
            checked,
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
        recording.pass("gray").dispatch(&self.to_gray.0, self.to_gray.1);
        recording.copy(&self.gray, 0..self.gray.len(), &self.pyramid, slot.begin);
        recording.pass("pyramid");
        for (bound, groups) in &slot.coarser {
            recording.dispatch(bound, *groups);
        }
        recording.pass("gradients").dispatch(&slot.gradients.0, slot.gradients.1);
        if !starts.is_empty() {
            self.gpu.write(&self.starts, 0, starts);
            let previous = 1 - self.next;
            let params = KltTrackParams::new(&self.options, self.size, previous, 0, starts.len(), capacity);
            self.track.set(&params);
            recording.pass("tracks").dispatch(&self.track, params.groups());
        }
        recording.read(&self.records, 0..starts.len(), &self.checked);
        let times = recording.submit()?.wait()?;
        (self.next, self.has_previous) = (1 - self.next, true);
        Ok((self.checked.take()?, times))
    }
}

/// The dispatch from a luma plane to gray.
fn gray_of_luma(
    gpu: &Gpu,
    layout: LumaLayout,
    luma: &Buffer<u8>,
    gray: &Buffer<f32>,
) -> Result<(Bound, [u32; 3]), DeviceError> {
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
    let columns_first = gpu.buffer_with("taps", &columns.first)?;
    let columns_weights = gpu.buffer_with("taps", &columns.weights)?;
    let rows_first = gpu.buffer_with("taps", &rows.first)?;
    let rows_weights = gpu.buffer_with("taps", &rows.weights)?;
    let bound = gpu
        .kernel(&gray_luma::SHADER, &[])?
        .bind(&params, &[luma, &columns_first, &columns_weights, &rows_first, &rows_weights, gray])?;
    Ok((bound, gray_luma::SHADER.groups([columns.n_out(), rows.n_out(), 1])))
}
