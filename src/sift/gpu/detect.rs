//! Extrema of all octaves and their refinement: two dispatches and a readback.

use bytemuck::Zeroable;

use super::Record;
use super::scale_space::GpuScaleSpace;
use crate::device::{AnyBuffer, Bound, Buffer, DeviceError, Gpu, PassTime, Readback, Recording};
use crate::kernels::extrema::{self, Candidate, ExtremaParams};
use crate::kernels::refine::{self, Extremum, RefineLimits, RefineParams, RefinedPoint};
use crate::sift::{Point, SiftOptions};

/// Finds refined extrema.
#[derive(Debug)]
pub struct Detector {
    gpu: Gpu,
    options: SiftOptions,
    /// Number of candidates, number of points.
    counts: Buffer<u32>,
    counts_on_host: Readback<u32>,
    room: Room,
    /// Points that come with the counts: a few more than the picture before had.
    n_expected: usize,
}

/// Room for so many candidates, and what fills it.
#[derive(Debug)]
struct Room {
    extrema: Bound,
    refine: Bound,
    points: Buffer<RefinedPoint>,
    points_on_host: Readback<RefinedPoint>,
}

impl Detector {
    /// For layers in `gaussians`, with room for so many candidates at first.
    pub fn new(
        gpu: &Gpu,
        options: &SiftOptions,
        gaussians: &Buffer<f32>,
        room: usize,
    ) -> Result<Detector, DeviceError> {
        let counts = gpu.buffer("counts", 2)?;
        Ok(Detector {
            room: Room::new(gpu, gaussians, &counts, room)?,
            counts,
            counts_on_host: gpu.readback("counts", 2)?,
            n_expected: room / 4,
            options: options.clone(),
            gpu: gpu.clone(),
        })
    }

    /// Refined extrema in any order, some twice. `recording` makes the layers.
    pub fn detect(
        &mut self,
        record: Record,
        mut recording: Recording,
        scale_space: &GpuScaleSpace,
        times: &mut Vec<PassTime>,
    ) -> Result<Vec<Point>, DeviceError> {
        loop {
            let n_read = self.n_expected.min(self.room.points.len());
            self.gpu.write(&self.counts, 0, &[0, 0]);
            let (extrema, refine) = self.params(scale_space);
            self.room.extrema.set(&extrema);
            self.room.refine.set(&refine);
            recording.pass("extrema").dispatch(&self.room.extrema, extrema.groups());
            recording.pass("refinement").dispatch(&self.room.refine, refine.groups());
            recording.read(&self.counts, 0..2, &self.counts_on_host);
            recording.read(&self.room.points, 0..n_read, &self.room.points_on_host);
            times.extend(recording.submit()?.wait()?);
            let counts = self.counts_on_host.take()?;
            let [n_candidates, n_points] = [counts[0] as usize, counts[1] as usize];
            if n_candidates > self.room.points.len() {
                let room = n_candidates.next_power_of_two();
                self.room = Room::new(&self.gpu, &scale_space.gaussians, &self.counts, room)?;
                recording = record("extrema")?;
                continue;
            }
            let mut points = self.room.points_on_host.take()?;
            if n_points > n_read {
                let mut rest = self.gpu.record("points");
                rest.read(&self.room.points, 0..n_points, &self.room.points_on_host);
                rest.submit()?.wait()?;
                points = self.room.points_on_host.take()?;
            }
            self.n_expected = n_points + n_points / 4 + 64;
            return Ok(points[..n_points].iter().map(point_of).collect());
        }
    }

    fn params(&self, scale_space: &GpuScaleSpace) -> (ExtremaParams, RefineParams) {
        let GpuScaleSpace { shapes, section, .. } = scale_space;
        let n_dogs = self.options.scales_per_octave as usize + 2;
        let (min_contrast, edge_ratio) = (self.options.min_contrast, self.options.edge_ratio);
        let (room, rows) = (self.room.points.len(), section.own_within());
        let extrema =
            ExtremaParams::new(*shapes, section.octaves.end, n_dogs, 0.8 * min_contrast, room, rows);
        let refine = RefineParams::new(*shapes, n_dogs, RefineLimits { min_contrast, edge_ratio }, room);
        (extrema, refine)
    }
}

impl Room {
    fn new(
        gpu: &Gpu,
        gaussians: &Buffer<f32>,
        counts: &Buffer<u32>,
        room: usize,
    ) -> Result<Room, DeviceError> {
        let candidates = gpu.buffer::<Candidate>("candidates", room)?;
        let points = gpu.buffer::<RefinedPoint>("points", room)?;
        let params = ExtremaParams::zeroed();
        let extrema = gpu.kernel(&extrema::SHADER, &[])?.bind(&params, &[gaussians, &candidates, counts])?;
        let params = RefineParams::zeroed();
        let buffers: [&dyn AnyBuffer; 4] = [gaussians, &candidates, counts, &points];
        let refine = gpu.kernel(&refine::SHADER, &[])?.bind(&params, &buffers)?;
        Ok(Room { extrema, refine, points_on_host: gpu.readback("points", room)?, points })
    }
}

fn point_of(refined: &RefinedPoint) -> Point {
    let RefinedPoint { octave, layer, x, y, level, value, column, row } = *refined;
    let extremum = Extremum { pixel: [column, row, layer], position: [x, y, level], value };
    Point::from_extremum(&extremum, octave)
}
