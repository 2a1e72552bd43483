//! The selection of points on a device: the map in one submission, the points in another.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::device::{Bound, Buffer, DeviceError, Gpu, Readback};
use crate::kernels::eigen_at::{self, EigenAtParams};
use crate::kernels::eigen_map::{self, EigenMapParams};
use crate::kernels::eigen_max::{self, EigenMaxParams};
use crate::kernels::klt_compact::{self, KltCompactParams};
use crate::kernels::klt_occupancy::{self, Grid, KltOccupancyParams};
use crate::kernels::klt_select::{self, KltSelectParams, Pick};
use crate::kernels::klt_suppress::{self, KltSuppressParams};
use crate::kernels::scan::{self, ScanParams};
use crate::klt::{KltOptions, SelectedPoint, best_first};

/// The gradients of a frame in a slot of the tracker.
#[derive(Clone, Debug)]
pub struct DeviceStructure {
    finder: Arc<Mutex<CornerFinder>>,
    slot: usize,
    /// Number of the frame among those of the slot.
    frame: u64,
}

/// The eigenvalue map of a frame; there until that of another is made.
#[derive(Debug)]
pub struct DeviceCorners {
    finder: Arc<Mutex<CornerFinder>>,
    /// Number of the map.
    map: u64,
}

impl DeviceStructure {
    pub(super) fn new(finder: &Arc<Mutex<CornerFinder>>, slot: usize) -> DeviceStructure {
        let frame = finder.lock().n_frames[slot];
        DeviceStructure { finder: finder.clone(), slot, frame }
    }

    /// Makes the map. Returns its largest value, its values at `points`, and the map.
    pub(in crate::klt) fn corners(
        &self,
        points: &[[f32; 2]],
    ) -> Result<(f32, Vec<f32>, DeviceCorners), DeviceError> {
        let mut finder = self.finder.lock();
        assert_eq!(finder.n_frames[self.slot], self.frame, "the tracker took the next frame but one");
        let (largest, at_points) = finder.make_map(self.slot, points)?;
        Ok((largest, at_points, DeviceCorners { finder: self.finder.clone(), map: finder.n_maps }))
    }
}

impl DeviceCorners {
    /// As `select_points` does.
    pub(in crate::klt) fn select(
        &self,
        alive: &[[f32; 2]],
        room: usize,
    ) -> Result<Vec<SelectedPoint>, DeviceError> {
        let mut finder = self.finder.lock();
        assert_eq!(finder.n_maps, self.map, "another map was made");
        Ok(best_first(finder.select(alive)?, room))
    }
}

type Dispatch = (Bound, [u32; 3]);

/// All that selection has on a device.
#[derive(Debug)]
pub(super) struct CornerFinder {
    gpu: Gpu,
    grid: Grid,
    eigen: Buffer<f32>,
    /// Of each slot.
    maps: [Dispatch; 2],
    /// Frames that each slot has had.
    n_frames: [u64; 2],
    /// Maps made.
    n_maps: u64,
    /// From the map to its largest value.
    maxima: Vec<Dispatch>,
    largest: Buffer<f32>,
    largest_read: Readback<f32>,
    probe: Probe,
    alive: Buffer<[f32; 2]>,
    occupancy: Bound,
    /// From the occupancy to the selected points.
    selection: [Dispatch; 4],
    sums: Buffer<u32>,
    selected: Buffer<SelectedPoint>,
    n_selected: Readback<u32>,
    selected_read: Readback<SelectedPoint>,
}

/// Reads the map at points.
#[derive(Debug)]
struct Probe {
    points: Buffer<[f32; 2]>,
    values: Buffer<f32>,
    values_read: Readback<f32>,
    bound: Bound,
}

impl CornerFinder {
    /// For pictures of `size` whose d/dx and d/dy lie in `gradients`, from `begins` on, a place a slot.
    pub fn new(
        gpu: &Gpu,
        options: &KltOptions,
        size: (usize, usize),
        [gradient_x, gradient_y]: [&Buffer<f32>; 2],
        begins: [usize; 2],
    ) -> Result<CornerFinder, DeviceError> {
        let (width, height) = size;
        let grid = Grid::new(width, height, options.min_distance_px);
        let (columns, rows, cell_px) = (grid.columns as u32, grid.rows as u32, grid.cell_px as u32);
        let (n_cells, capacity) = (grid.cells(), options.capacity as usize);
        let eigen = gpu.buffer("eigen", width * height)?;
        let map = |begin: usize| -> Result<Dispatch, DeviceError> {
            let (margin, begin) = ((options.window_px / 2).max(1), begin as u32);
            let params = EigenMapParams { width: width as u32, height: height as u32, margin, begin };
            let bound =
                gpu.kernel(&eigen_map::SHADER, &[])?.bind(&params, &[gradient_x, gradient_y, &eigen])?;
            Ok((bound, eigen_map::SHADER.groups([width, height, 1])))
        };
        let (maxima, largest) = maxima_of(gpu, &eigen)?;
        let alive = gpu.buffer("alive", capacity)?;
        let starts = gpu.buffer::<u32>("cell_starts", n_cells + 1)?;
        let [tracks, unordered] = [(); 2].map(|()| gpu.buffer::<u32>("cell_tracks", capacity));
        let (tracks, unordered) = (tracks?, unordered?);
        let params = KltOccupancyParams { cell_px, columns, rows, n_tracks: 0 };
        let occupancy = gpu
            .kernel(&klt_occupancy::SHADER, &[])?
            .bind(&params, &[&alive, &starts, &tracks, &unordered])?;
        let picks = gpu.buffer::<Pick>("picks", n_cells)?;
        let kept = gpu.buffer::<u32>("kept", n_cells)?;
        let sums = gpu.buffer("sums", n_cells + 1)?;
        let selected = gpu.buffer("selected", n_cells)?;
        let params = KltSelectParams {
            width: width as u32,
            height: height as u32,
            cell_px,
            columns,
            quality_level: options.quality_level,
        };
        let select =
            gpu.kernel(&klt_select::SHADER, &[])?.bind(&params, &[&eigen, &largest, &starts, &picks])?;
        let params = KltSuppressParams { columns, rows, min_distance_px: options.min_distance_px };
        let suppress = gpu
            .kernel(&klt_suppress::SHADER, &[])?
            .bind(&params, &[&alive, &starts, &tracks, &picks, &kept])?;
        let params = ScanParams { n_values: n_cells as u32 };
        let scan = gpu.kernel(&scan::SHADER, &[])?.bind(&params, &[&kept, &sums])?;
        let params = KltCompactParams { n_cells: n_cells as u32 };
        let compact =
            gpu.kernel(&klt_compact::SHADER, &[])?.bind(&params, &[&picks, &kept, &sums, &selected])?;
        Ok(CornerFinder {
            grid,
            maps: [map(begins[0])?, map(begins[1])?],
            n_frames: [0; 2],
            n_maps: 0,
            maxima,
            largest_read: gpu.readback("largest", 1)?,
            largest,
            probe: Probe::new(gpu, &eigen, size, 1)?,
            eigen,
            alive,
            occupancy,
            selection: [
                (select, [columns, rows, 1]),
                (suppress, klt_suppress::SHADER.groups([grid.columns, grid.rows, 1])),
                (scan, [1, 1, 1]),
                (compact, klt_compact::SHADER.flat_groups(n_cells)),
            ],
            sums,
            n_selected: gpu.readback("n_selected", 1)?,
            selected_read: gpu.readback("selected", n_cells)?,
            selected,
            gpu: gpu.clone(),
        })
    }

    /// Another frame comes into `slot`.
    pub fn take_frame(&mut self, slot: usize) {
        self.n_frames[slot] += 1;
    }

    /// The largest value of the map of `slot`, and the values at `points`.
    fn make_map(&mut self, slot: usize, points: &[[f32; 2]]) -> Result<(f32, Vec<f32>), DeviceError> {
        self.n_maps += 1;
        let size = (self.grid.width, self.grid.height);
        if points.len() > self.probe.points.len() {
            self.probe = Probe::new(&self.gpu, &self.eigen, size, points.len().next_power_of_two())?;
        }
        let Probe { points: points_on_gpu, values, values_read, bound } = &self.probe;
        self.gpu.write(points_on_gpu, 0, points);
        bound.set(&EigenAtParams::new(size, points.len()));
        let mut recording = self.gpu.record("eigenvalues");
        for (bound, groups) in [&self.maps[slot]].into_iter().chain(&self.maxima) {
            recording.dispatch(bound, *groups);
        }
        recording.dispatch(bound, eigen_at::SHADER.flat_groups(points.len()));
        recording.read(&self.largest, 0..1, &self.largest_read);
        recording.read(values, 0..points.len(), values_read);
        recording.submit()?.wait()?;
        Ok((self.largest_read.take()?[0], values_read.take()?))
    }

    /// The selected points of the map made last, in the order of their cells.
    fn select(&mut self, alive: &[[f32; 2]]) -> Result<Vec<SelectedPoint>, DeviceError> {
        let (n_cells, Grid { cell_px, columns, rows, .. }) = (self.grid.cells(), self.grid);
        self.gpu.write(&self.alive, 0, alive);
        self.occupancy.set(&KltOccupancyParams {
            cell_px: cell_px as u32,
            columns: columns as u32,
            rows: rows as u32,
            n_tracks: alive.len() as u32,
        });
        let mut recording = self.gpu.record("selection");
        recording.dispatch(&self.occupancy, [1, 1, 1]);
        for (bound, groups) in &self.selection {
            recording.dispatch(bound, *groups);
        }
        recording.read(&self.sums, n_cells..n_cells + 1, &self.n_selected);
        recording.read(&self.selected, 0..n_cells, &self.selected_read);
        recording.submit()?.wait()?;
        let mut selected = self.selected_read.take()?;
        selected.truncate(self.n_selected.take()?[0] as usize);
        Ok(selected)
    }
}

/// From a map to its largest value: each dispatch leaves one value a strip.
fn maxima_of(gpu: &Gpu, eigen: &Buffer<f32>) -> Result<(Vec<Dispatch>, Buffer<f32>), DeviceError> {
    let kernel = gpu.kernel(&eigen_max::SHADER, &[])?;
    let (mut maxima, mut left) = (Vec::new(), eigen.clone());
    while maxima.is_empty() || left.len() > 1 {
        let strips = gpu.buffer("strips", left.len().div_ceil(eigen_max::STRIP))?;
        let bound = kernel.bind(&EigenMaxParams::new(left.len()), &[&left, &strips])?;
        maxima.push((bound, [strips.len() as u32, 1, 1]));
        left = strips;
    }
    Ok((maxima, left))
}

impl Probe {
    fn new(gpu: &Gpu, eigen: &Buffer<f32>, size: (usize, usize), room: usize) -> Result<Probe, DeviceError> {
        let points = gpu.buffer("points", room)?;
        let values = gpu.buffer("point_values", room)?;
        let values_read = gpu.readback("point_values", room)?;
        let params = EigenAtParams::new(size, 0);
        let bound = gpu.kernel(&eigen_at::SHADER, &[])?.bind(&params, &[eigen, &points, &values])?;
        Ok(Probe { points, values, values_read, bound })
    }
}
