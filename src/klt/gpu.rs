//! The tracker on a device: two frames that take turns, and one submission a push; more only where the device is so slow
//! that all tracks at once would take longer than the budget of a chunk.

use std::sync::Arc;

use parking_lot::Mutex;

pub use self::corners::{DeviceCorners, DeviceStructure};

use self::anchor::{GpuAnchors, Tracked};
use self::corners::CornerFinder;
use crate::device::{Bound, Buffer, ChunkBudget, DeviceError, Gpu, PassTime, Readback, Recording};
use crate::gray::DeviceGray;
use crate::kernels::klt_track::{self, KltTrackParams, TrackRecord};
use crate::kernels::pyramid_down::{self, PyramidShape};
use crate::kernels::scharr::{self, ScharrParams};
use crate::klt::KltOptions;

mod anchor;
mod corners;

/// Tracks points from each frame to the next as [`push_tracks`](super::push_tracks) does.
#[derive(Debug)]
pub struct GpuTracker {
    gpu: Gpu,
    options: Arc<KltOptions>,
    size: [usize; 2],
    /// Both frames, all levels one behind the other.
    pyramid: Buffer<f32>,
    /// What makes the pyramid and the gradients of either frame of its level 0.
    slots: [Slot; 2],
    track: Bound,
    starts: Buffer<TrackRecord>,
    records: Buffer<TrackRecord>,
    checked: Readback<TrackRecord>,
    /// Slot of the next frame.
    next: usize,
    has_previous: bool,
    chunks: ChunkBudget,
    anchors: Option<GpuAnchors>,
    corners: Arc<Mutex<CornerFinder>>,
}

#[derive(Debug)]
struct Slot {
    /// Where it begins in the planes.
    begin: usize,
    coarser: Vec<(Bound, [u32; 3])>,
    gradients: (Bound, [u32; 3]),
}

impl GpuTracker {
    /// A tracker that has seen no frame, for pictures of `size`.
    ///
    /// # Errors
    /// The device has no memory for it, the window needs more workgroup memory than the adapter has, or a shader does not
    /// compile.
    pub fn new(gpu: &Gpu, options: Arc<KltOptions>, size: (usize, usize)) -> Result<GpuTracker, DeviceError> {
        let capacity = options.capacity as usize;
        let shape = PyramidShape::new(size.0, size.1, options.levels as usize);
        let n_pixels = shape.pixels();
        let starts = gpu.buffer("starts", capacity)?;
        let records = gpu.buffer("records", 3 * capacity)?;
        let weights = klt_track::weights_on_device(gpu, options.window_px as usize)?;
        let pyramid = gpu.buffer::<f32>("pyramid", 2 * n_pixels)?;
        let gradient_x = gpu.buffer::<f32>("gradient_x", 2 * n_pixels)?;
        let gradient_y = gpu.buffer::<f32>("gradient_y", 2 * n_pixels)?;
        let scharr = gpu.kernel(&scharr::SHADER, &[])?;
        let down = gpu.kernel(&pyramid_down::SHADER, &[])?;
        let slot = |begin: usize| -> Result<Slot, DeviceError> {
            let shape = shape.behind(begin);
            let params = ScharrParams { shape, n_levels: options.levels, n_pixels: n_pixels as u32 };
            let gradients = scharr.bind(&params, &[&pyramid, &gradient_x, &gradient_y])?;
            let coarser = shape.dispatches(options.levels as usize).into_iter();
            let coarser = coarser.map(|(params, groups)| Ok((down.bind(&params, &[&pyramid])?, groups)));
            Ok(Slot {
                begin,
                coarser: coarser.collect::<Result<_, DeviceError>>()?,
                gradients: (gradients, scharr::SHADER.flat_groups(n_pixels)),
            })
        };
        let params = KltTrackParams::new(&options, size.into(), 0, 0, 1, capacity);
        let track = klt_track::kernel(gpu, options.window_px as usize)?
            .bind(&params, &[&weights, &pyramid, &gradient_x, &gradient_y, &starts, &records])?;
        let anchors = || {
            let (pyramid, starts, records) = (&pyramid, &starts, &records);
            let (gradient_x, gradient_y) = (&gradient_x, &gradient_y);
            let tracked = Tracked { pyramid, gradient_x, gradient_y, starts, records };
            GpuAnchors::new(gpu, &options, size.into(), tracked)
        };
        let anchors = options.anchor.then(anchors).transpose()?;
        let corners = CornerFinder::new(gpu, &options, size, [&gradient_x, &gradient_y], [0, n_pixels])?;
        Ok(GpuTracker {
            slots: [slot(0)?, slot(n_pixels)?],
            gpu: gpu.clone(),
            size: size.into(),
            pyramid,
            track,
            starts,
            records,
            checked: gpu.readback("checked", capacity)?,
            next: 0,
            has_previous: false,
            chunks: ChunkBudget::default(),
            anchors,
            corners: Arc::new(Mutex::new(corners)),
            options,
        })
    }

    /// The same tracker with another budget. The records are the same bits, wherever chunks begin.
    pub fn with_chunks(self, chunks: ChunkBudget) -> GpuTracker {
        GpuTracker { chunks, ..self }
    }

    /// Takes the next frame and tracks `starts` of the tracks `ids`, which lie in the frame before, to it. The first frame
    /// takes no starts.
    ///
    /// # Errors
    /// The device was lost.
    ///
    /// # Panics
    /// The picture is not of the size, there is not an id for each start, there are more starts than the capacity, or any at
    /// the first frame.
    pub fn push(
        &mut self,
        gray: &DeviceGray,
        ids: &[u32],
        starts: &[TrackRecord],
    ) -> Result<Vec<TrackRecord>, DeviceError> {
        let record = |gpu: &Gpu| Ok(gpu.record("push"));
        Ok(self.run(record, gray, ids, starts)?.0)
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
        gray: &DeviceGray,
        ids: &[u32],
        starts: &[TrackRecord],
    ) -> Result<(Vec<TrackRecord>, Vec<PassTime>), DeviceError> {
        self.run(|gpu| gpu.record_timed("push"), gray, ids, starts)
    }

    /// What selection reads of the last frame.
    pub(super) fn structure(&self) -> DeviceStructure {
        assert!(self.has_previous, "a frame was pushed");
        DeviceStructure::new(&self.corners, 1 - self.next)
    }

    fn run(
        &mut self,
        record: impl Fn(&Gpu) -> Result<Recording, DeviceError>,
        gray: &DeviceGray,
        ids: &[u32],
        starts: &[TrackRecord],
    ) -> Result<(Vec<TrackRecord>, Vec<PassTime>), DeviceError> {
        assert!(starts.is_empty() || self.has_previous, "the first frame has no tracks");
        assert_eq!(<[usize; 2]>::from(gray.size()), self.size, "size of a picture");
        assert_eq!(ids.len(), starts.len(), "an id a start");
        let capacity = self.starts.len();
        assert!(starts.len() <= capacity, "{} tracks, room for {capacity}", starts.len());
        let (slot, previous) = (&self.slots[self.next], 1 - self.next);
        self.corners.lock().take_frame(self.next);
        self.gpu.write(&self.starts, 0, starts);
        if let Some(anchors) = &mut self.anchors {
            anchors.assign(ids);
        }
        let mut times = Vec::new();
        // The first chunk brings the frame, the last one the records.
        self.chunks.in_chunks(klt_track::SHADER.name, starts.len(), |tracks| {
            let mut recording = record(&self.gpu)?;
            if tracks.start == 0 {
                let values = gray.values();
                recording.copy(values, 0..values.len(), &self.pyramid, slot.begin).pass("pyramid");
                for (bound, groups) in &slot.coarser {
                    recording.dispatch(bound, *groups);
                }
                recording.pass("gradients").dispatch(&slot.gradients.0, slot.gradients.1);
            }
            if !tracks.is_empty() {
                let (first, n_tracks) = (tracks.start, tracks.len());
                let params =
                    KltTrackParams::new(&self.options, self.size, previous, first, n_tracks, capacity);
                self.track.set(&params);
                recording.pass("tracks").dispatch(&self.track, params.groups());
                if let Some(anchors) = &self.anchors {
                    anchors.record(&mut recording, tracks.clone(), [self.slots[previous].begin, slot.begin]);
                }
            }
            if tracks.end == starts.len() {
                recording.read(&self.records, 0..starts.len(), &self.checked);
            }
            times.extend(recording.submit()?.wait()?);
            Ok(())
        })?;
        (self.next, self.has_previous) = (1 - self.next, true);
        Ok((self.checked.take()?, times))
    }
}
