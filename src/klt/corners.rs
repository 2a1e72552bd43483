//! Where a frame has corners, over both backends.

use std::sync::Arc;

use super::gpu::{DeviceCorners, DeviceStructure};
use super::{EigenMap, KltOptions, SelectScratch, SelectedPoint, eigen_map_of, select_points};
use crate::device::DeviceError;
use crate::kernels::Pyramid;
use crate::kernels::eigen_at::eigen_at;

/// What the corners of a frame are found in: its gradients.
#[derive(Clone, Debug)]
pub enum Structure {
    /// In the host's memory.
    Host(Arc<Pyramid>),
    /// In a device's memory, until the tracker takes the next frame but one.
    Device(DeviceStructure),
}

impl Structure {
    /// Makes the eigenvalue map, and reads it at `points`.
    ///
    /// # Errors
    /// The device was lost, or has no memory for the points.
    ///
    /// # Panics
    /// It is in a device's memory and the tracker took the next frame but one.
    pub fn corners(&self, options: &KltOptions, points: &[[f32; 2]]) -> Result<Corners, DeviceError> {
        let pyramid = match self {
            Structure::Device(structure) => {
                let (largest, at_points, map) = structure.corners(points)?;
                return Ok(Corners { largest, at_points, map: Map::Device(map) });
            }
            Structure::Host(pyramid) => pyramid,
        };
        let map = eigen_map_of(&pyramid.levels[0], options.window_px);
        let mut at_points = vec![0.0; points.len()];
        eigen_at(&map.data, map.width, points, &mut at_points);
        Ok(Corners { largest: map.max, at_points, map: Map::Host(map) })
    }
}

/// The eigenvalue map of a frame.
#[derive(Debug)]
pub struct Corners {
    /// The largest value.
    pub largest: f32,
    /// The values at the pixels nearest to the points asked for, zero outside.
    pub at_points: Vec<f32>,
    map: Map,
}

#[derive(Debug)]
enum Map {
    Host(EigenMap),
    Device(DeviceCorners),
}

impl Corners {
    /// Selects up to `room` points to track: see [`select_points`].
    ///
    /// # Errors
    /// The device was lost.
    ///
    /// # Panics
    /// On a device there are more live tracks than its tracker's capacity, or another map was made since.
    pub fn select(
        &self,
        alive: &[[f32; 2]],
        options: &KltOptions,
        room: usize,
    ) -> Result<Vec<SelectedPoint>, DeviceError> {
        match &self.map {
            Map::Host(map) => Ok(select_points(map, alive, options, room, &mut SelectScratch::default())),
            Map::Device(map) => map.select(alive, room),
        }
    }
}
