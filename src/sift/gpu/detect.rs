//! Extrema of all octaves, their refinement, and those that may stay: three dispatches and a readback.

use bytemuck::Zeroable;

use super::Record;
use super::scale_space::GpuScaleSpace;
use crate::device::{AnyBuffer, Bound, Buffer, DeviceError, Gpu, PassTime, Readback, Recording};
use crate::kernels::extrema::{self, Candidate, ExtremaParams};
use crate::kernels::refine::{self, Extremum, RefineLimits, RefineParams, RefinedPoint};
use crate::kernels::strength::{BINS, CELLS, StrengthGrid};
use crate::kernels::strongest::{self, StrongestParams};
use crate::sift::octaves::doubling;
use crate::sift::selection::share_of_cell;
use crate::sift::{Point, SiftOptions};

const N_COUNTS: usize = 3;
const N_STRENGTHS: usize = CELLS * CELLS * BINS;

/// Finds refined extrema.
#[derive(Debug)]
pub struct Detector {
    gpu: Gpu,
    options: SiftOptions,
    grid: StrengthGrid,
    counters: Counters,
    counts_on_host: Readback<u32>,
    room: Room,
    /// Points that come with the counts: a few more than the picture before had.
    n_expected: usize,
}

/// What is counted on the device, each time from zero.
#[derive(Debug)]
struct Counters {
    /// Number of candidates, of points, of the strongest.
    counts: Buffer<u32>,
    strengths: Buffer<u32>,
}

/// Room for so many candidates, and what fills it.
#[derive(Debug)]
struct Room {
    extrema: Bound,
    refine: Bound,
    select: Bound,
    strongest: Buffer<RefinedPoint>,
    strongest_on_host: Readback<RefinedPoint>,
}

impl Detector {
    /// For layers in `gaussians`, of pictures of `size`, with room for so many candidates at first.
    pub fn new(
        gpu: &Gpu,
        options: &SiftOptions,
        size: (usize, usize),
        gaussians: &Buffer<f32>,
        room: usize,
    ) -> Result<Detector, DeviceError> {
        let counters = Counters {
            counts: gpu.buffer("counts", N_COUNTS)?,
            strengths: gpu.buffer("strengths", N_STRENGTHS)?,
        };
        Ok(Detector {
            room: Room::new(gpu, gaussians, &counters, room)?,
            grid: StrengthGrid::new(size, 1.0 / doubling(options) as f32, options.min_contrast),
            counters,
            counts_on_host: gpu.readback("counts", N_COUNTS)?,
            n_expected: room / 4,
            options: options.clone(),
            gpu: gpu.clone(),
        })
    }

    /// Begins a recording that is to find extrema.
    pub fn begin(&self, recording: &mut Recording) {
        recording.clear(&self.counters.counts).clear(&self.counters.strengths);
    }

    /// The refined extrema that `rank` chooses among, in any order, some twice. `recording` was begun and makes the layers.
    pub fn detect(
        &mut self,
        record: Record,
        mut recording: Recording,
        scale_space: &GpuScaleSpace,
        times: &mut Vec<PassTime>,
    ) -> Result<Vec<Point>, DeviceError> {
        loop {
            let Room { strongest, strongest_on_host, .. } = &self.room;
            let n_read = self.n_expected.min(strongest.len());
            self.record(&mut recording, scale_space);
            recording.read(&self.counters.counts, 0..N_COUNTS, &self.counts_on_host);
            recording.read(strongest, 0..n_read, strongest_on_host);
            times.extend(recording.submit()?.wait()?);
            let counts = self.counts_on_host.take()?;
            let [n_candidates, n_points] = [counts[0] as usize, counts[2] as usize];
            if n_candidates > strongest.len() {
                let room = n_candidates.next_power_of_two();
                self.room = Room::new(&self.gpu, &scale_space.gaussians, &self.counters, room)?;
                recording = record("extrema")?;
                self.begin(&mut recording);
                continue;
            }
            let mut points = strongest_on_host.take()?;
            if n_points > n_read {
                let mut rest = self.gpu.record("points");
                rest.read(strongest, 0..n_points, strongest_on_host);
                rest.submit()?.wait()?;
                points = strongest_on_host.take()?;
            }
            self.n_expected = n_points + n_points / 4 + 64;
            return Ok(points[..n_points].iter().map(point_of).collect());
        }
    }

    fn record(&self, recording: &mut Recording, scale_space: &GpuScaleSpace) {
        let Room { extrema, refine, select, strongest, .. } = &self.room;
        let GpuScaleSpace { shapes, section, .. } = scale_space;
        let SiftOptions { min_contrast, edge_ratio, .. } = self.options;
        let (n_dogs, room) = (self.options.scales_per_octave as usize + 2, strongest.len());
        let rows = section.own_within();
        let params = ExtremaParams::new(*shapes, section.octaves.end, n_dogs, 0.8 * min_contrast, room, rows);
        extrema.set(&params);
        recording.pass("extrema").dispatch(extrema, params.groups());
        let limits = RefineLimits { min_contrast, edge_ratio };
        let params = RefineParams::new(*shapes, self.grid, n_dogs, limits, room);
        refine.set(&params);
        recording.pass("refinement").dispatch(refine, params.groups());
        let most = self.options.max_features as usize;
        let params = StrongestParams::new(self.grid, most, share_of_cell(most), room);
        select.set(&params);
        recording.pass("strongest").dispatch(select, params.groups());
    }
}

impl Room {
    fn new(
        gpu: &Gpu,
        gaussians: &Buffer<f32>,
        Counters { counts, strengths }: &Counters,
        room: usize,
    ) -> Result<Room, DeviceError> {
        let candidates = gpu.buffer::<Candidate>("candidates", room)?;
        let points = gpu.buffer::<RefinedPoint>("points", room)?;
        let strongest = gpu.buffer::<RefinedPoint>("strongest", room)?;
        let params = ExtremaParams::zeroed();
        let extrema = gpu.kernel(&extrema::SHADER, &[])?.bind(&params, &[gaussians, &candidates, counts])?;
        let params = RefineParams::zeroed();
        let buffers: [&dyn AnyBuffer; 5] = [gaussians, &candidates, counts, &points, strengths];
        let refine = gpu.kernel(&refine::SHADER, &[])?.bind(&params, &buffers)?;
        let params = StrongestParams::zeroed();
        let buffers: [&dyn AnyBuffer; 4] = [&points, strengths, counts, &strongest];
        let select = gpu.kernel(&strongest::SHADER, &[])?.bind(&params, &buffers)?;
        let strongest_on_host = gpu.readback("strongest", room)?;
        Ok(Room { extrema, refine, select, strongest, strongest_on_host })
    }
}

fn point_of(refined: &RefinedPoint) -> Point {
    let RefinedPoint { octave, layer, x, y, level, value, column, row } = *refined;
    let extremum = Extremum { pixel: [column, row, layer], position: [x, y, level], value };
    Point::from_extremum(&extremum, octave)
}
