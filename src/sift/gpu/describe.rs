//! Orientations and descriptors of points: three dispatches and a readback.

use super::Record;
use super::scale_space::GpuScaleSpace;
use crate::device::{AnyBuffer, Bound, Buffer, DeviceError, Gpu, PassTime, Readback};
use crate::kernels::descriptor::{self, DescriptorParams, OrientedPoint};
use crate::kernels::orientation::{self, MAX_ORIENTATIONS, OrientationParams};
use crate::kernels::orientation_select::{self, OrientationSelectParams};
use crate::kernels::sift_point::SiftPoint;
use crate::message::{Descriptor, Keypoint};
use crate::sift::{Point, SiftOptions};

/// Describes points.
#[derive(Debug)]
pub struct Describer {
    gpu: Gpu,
    options: SiftOptions,
    n_oriented: Buffer<u32>,
    n_oriented_on_host: Readback<u32>,
    room: Room,
}

/// Room for so many points and orientations, and what fills it.
#[derive(Debug)]
struct Room {
    points: Buffer<SiftPoint>,
    ranks: Buffer<u32>,
    oriented: Buffer<OrientedPoint>,
    descriptors: Buffer<Descriptor>,
    oriented_on_host: Readback<OrientedPoint>,
    descriptors_on_host: Readback<Descriptor>,
    orientation: Bound,
    select: Bound,
    descriptor: Bound,
}

impl Describer {
    /// For points on the layers of `scale_space`, with room for so many orientations at first.
    pub fn new(
        gpu: &Gpu,
        options: &SiftOptions,
        scale_space: &GpuScaleSpace,
        room: usize,
    ) -> Result<Describer, DeviceError> {
        let n_oriented = gpu.buffer("oriented", 1)?;
        let room = room.min(options.max_features as usize);
        Ok(Describer {
            room: Room::new(gpu, options, scale_space, &n_oriented, room)?,
            n_oriented,
            n_oriented_on_host: gpu.readback("oriented", 1)?,
            options: options.clone(),
            gpu: gpu.clone(),
        })
    }

    /// Keypoints in the order of `points` and their descriptors: those first in `rank`, as many as the limit allows. `steps`
    /// are those of the octaves.
    pub fn describe(
        &mut self,
        record: Record,
        scale_space: &GpuScaleSpace,
        steps: &[f32],
        points: &[Point],
        rank: &[u32],
        times: &mut Vec<PassTime>,
    ) -> Result<(Vec<Keypoint>, Vec<Descriptor>), DeviceError> {
        let limit = self.options.max_features as usize;
        let (points, ranks) = first_in_rank(points, rank);
        if points.is_empty() {
            return Ok((Vec::new(), Vec::new()));
        }
        let n_most = limit.min(points.len() * self.options.max_orientations as usize);
        if n_most > self.room.oriented.len() {
            let room = n_most.next_power_of_two().min(limit);
            self.room = Room::new(&self.gpu, &self.options, scale_space, &self.n_oriented, room)?;
        }
        let room = &self.room;
        let uploaded: Vec<SiftPoint> = points.iter().map(|point| uploaded(point, &self.options)).collect();
        self.gpu.write(&room.points, 0, &uploaded);
        self.gpu.write(&room.ranks, 0, &ranks);
        let orientation = orientation_params(&self.options, scale_space, points.len());
        let select = OrientationSelectParams { n_points: points.len() as u32, limit: limit as u32 };
        let descriptor = DescriptorParams::new(scale_space.shapes, self.options.magnification, n_most);
        room.orientation.set(&orientation);
        room.select.set(&select);
        room.descriptor.set(&descriptor);
        let mut recording = record("features")?;
        recording.pass("orientations").dispatch(&room.orientation, orientation.groups());
        recording.pass("selection").dispatch(&room.select, [1, 1, 1]);
        recording.pass("descriptors").dispatch(&room.descriptor, descriptor.groups());
        recording.read(&self.n_oriented, 0..1, &self.n_oriented_on_host);
        recording.read(&room.oriented, 0..n_most, &room.oriented_on_host);
        recording.read(&room.descriptors, 0..n_most, &room.descriptors_on_host);
        times.extend(recording.submit()?.wait()?);
        let n = self.n_oriented_on_host.take()?[0] as usize;
        let oriented = room.oriented_on_host.take()?;
        let mut descriptors = room.descriptors_on_host.take()?;
        descriptors.truncate(n);
        let keypoint = |&OrientedPoint { point, angle }: &OrientedPoint| {
            let index = point as usize;
            points[index].keypoint(steps, uploaded[index].scale, angle)
        };
        Ok((oriented[..n].iter().map(keypoint).collect(), descriptors))
    }
}

impl Room {
    fn new(
        gpu: &Gpu,
        options: &SiftOptions,
        scale_space: &GpuScaleSpace,
        n_oriented: &Buffer<u32>,
        room: usize,
    ) -> Result<Room, DeviceError> {
        let gaussians = &scale_space.gaussians;
        let points = gpu.buffer::<SiftPoint>("keypoints", room)?;
        let ranks = gpu.buffer::<u32>("keypoints", room)?;
        let angles = gpu.buffer::<f32>("orientations", MAX_ORIENTATIONS * room)?;
        let counts = gpu.buffer::<u32>("orientations", room)?;
        let kept = gpu.buffer::<u32>("orientations", room)?;
        let oriented = gpu.buffer::<OrientedPoint>("oriented", room)?;
        let descriptors = gpu.buffer::<Descriptor>("descriptors", room)?;
        let params = orientation_params(options, scale_space, 0);
        let buffers: [&dyn AnyBuffer; 4] = [&points, gaussians, &angles, &counts];
        let orientation = gpu.kernel(&orientation::SHADER, &[])?.bind(&params, &buffers)?;
        let params = OrientationSelectParams { n_points: 0, limit: 0 };
        let buffers: [&dyn AnyBuffer; 6] = [&ranks, &angles, &counts, &kept, &oriented, n_oriented];
        let select = gpu.kernel(&orientation_select::SHADER, &[])?.bind(&params, &buffers)?;
        let params = DescriptorParams::new(scale_space.shapes, options.magnification, 0);
        let buffers: [&dyn AnyBuffer; 4] = [&points, &oriented, gaussians, &descriptors];
        let descriptor = gpu.kernel(&descriptor::SHADER, &[])?.bind(&params, &buffers)?;
        Ok(Room {
            oriented_on_host: gpu.readback("oriented", room)?,
            descriptors_on_host: gpu.readback("descriptors", room)?,
            points,
            ranks,
            oriented,
            descriptors,
            orientation,
            select,
            descriptor,
        })
    }
}

fn orientation_params(
    options: &SiftOptions,
    scale_space: &GpuScaleSpace,
    n_points: usize,
) -> OrientationParams {
    OrientationParams {
        octaves: scale_space.shapes,
        n_points: n_points as u32,
        max_orientations: options.max_orientations,
    }
}

/// The points of `rank`, in the order of `points`, and their numbers among themselves in the order of `rank`.
fn first_in_rank(points: &[Point], rank: &[u32]) -> (Vec<Point>, Vec<u32>) {
    let mut is_in = vec![false; points.len()];
    for index in rank {
        is_in[*index as usize] = true;
    }
    let mut n_before = 0;
    let number = is_in.iter().map(|is_in| {
        n_before += *is_in as u32;
        n_before.saturating_sub(1)
    });
    let numbers: Vec<u32> = number.collect();
    let kept = points.iter().zip(&is_in).filter(|(_, is_in)| **is_in).map(|(point, _)| *point);
    (kept.collect(), rank.iter().map(|index| numbers[*index as usize]).collect())
}

fn uploaded(point: &Point, options: &SiftOptions) -> SiftPoint {
    let [x, y] = point.position;
    let scale = point.scale(options);
    SiftPoint { octave: point.octave, layer: point.layer, x, y, scale, unused: [0; 3] }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_keep_their_order_and_ranks_their_points() {
        let point = |octave: u32| Point {
            octave,
            layer: 1,
            pixel: [0; 2],
            position: [0.0; 2],
            level: 1.0,
            response: 1.0,
        };
        let all: Vec<Point> = (0..6).map(point).collect();
        let (points, ranks) = first_in_rank(&all, &[4, 1, 5]);
        assert_eq!(points.iter().map(|point| point.octave).collect::<Vec<_>>(), [1, 4, 5]);
        assert_eq!(ranks, [1, 0, 2]);
        assert_eq!(first_in_rank(&all, &[]), (Vec::new(), Vec::new()));
    }
}
