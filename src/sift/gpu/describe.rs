//! Orientations and descriptors of points: three dispatches and a readback.

use bytemuck::Zeroable;

use super::scale_space::GpuScaleSpace;
use crate::device::{AnyBuffer, Bound, Buffer, DeviceError, Gpu, PassTime, Readback, Recording};
use crate::kernels::descriptor::{self, DescriptorParams, OrientedPoint};
use crate::kernels::orientation::{self, MAX_ORIENTATIONS, OrientationParams};
use crate::kernels::orientation_select::{self, OrientationSelectParams};
use crate::kernels::sift_point::SiftPoint;
use crate::message::Descriptor;
use crate::sift::SiftOptions;

/// Describes points.
#[derive(Debug)]
pub struct Describer {
    gpu: Gpu,
    options: SiftOptions,
    n_oriented: Buffer<u32>,
    n_oriented_on_host: Readback<u32>,
    room: Room,
}

/// What is to be described.
pub struct Wanted<'a> {
    /// Points there are.
    pub n_points: usize,
    /// Each by its number.
    pub point: &'a dyn Fn(u32) -> SiftPoint,
    /// Numbers of those that are wanted, in the order they are to be kept.
    pub rank: &'a [u32],
    /// Most orientations, which cut in that order.
    pub limit: usize,
    /// Most orientations of a point.
    pub max_orientations: usize,
}

/// Orientations of points, numbered as these are, and their descriptors.
#[derive(Debug, Default)]
pub struct Described {
    /// Points and angles.
    pub oriented: Vec<OrientedPoint>,
    /// One each.
    pub descriptors: Vec<Descriptor>,
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
    /// For points on layers in `gaussians`, with room for so many orientations at first.
    pub fn new(
        gpu: &Gpu,
        options: &SiftOptions,
        gaussians: &Buffer<f32>,
        room: usize,
    ) -> Result<Describer, DeviceError> {
        let n_oriented = gpu.buffer("oriented", 1)?;
        let room = room.min(options.max_features as usize);
        Ok(Describer {
            room: Room::new(gpu, gaussians, &n_oriented, room)?,
            n_oriented,
            n_oriented_on_host: gpu.readback("oriented", 1)?,
            options: options.clone(),
            gpu: gpu.clone(),
        })
    }

    /// Orientations of points on the layers of `scale_space`, which `recording` may make, and a descriptor each: in the order
    /// of points, of those first in rank as many as the limit allows.
    pub fn describe(
        &mut self,
        mut recording: Recording,
        scale_space: &GpuScaleSpace,
        wanted: Wanted,
        times: &mut Vec<PassTime>,
    ) -> Result<Described, DeviceError> {
        let Wanted { n_points, point, rank, limit, max_orientations } = wanted;
        let (chosen, ranks) = first_in_rank(n_points, rank);
        if chosen.is_empty() {
            return Ok(Described::default());
        }
        let n_most = limit.min(chosen.len() * max_orientations);
        if n_most > self.room.oriented.len() {
            let room = n_most.next_power_of_two().min(limit);
            self.room = Room::new(&self.gpu, &scale_space.gaussians, &self.n_oriented, room)?;
        }
        let room = &self.room;
        let uploaded = chosen.iter().map(|&index| point(index));
        self.gpu.write(&room.points, 0, &uploaded.collect::<Vec<SiftPoint>>());
        self.gpu.write(&room.ranks, 0, &ranks);
        let (octaves, n_points) = (scale_space.shapes, chosen.len() as u32);
        let max_orientations = max_orientations as u32;
        let orientation = OrientationParams { octaves, n_points, max_orientations };
        let select = OrientationSelectParams { n_points, limit: limit as u32 };
        let descriptor = DescriptorParams::new(octaves, self.options.magnification, n_most);
        room.orientation.set(&orientation);
        room.select.set(&select);
        room.descriptor.set(&descriptor);
        recording.pass("orientations").dispatch(&room.orientation, orientation.groups());
        recording.pass("selection").dispatch(&room.select, [1, 1, 1]);
        recording.pass("descriptors").dispatch(&room.descriptor, descriptor.groups());
        recording.read(&self.n_oriented, 0..1, &self.n_oriented_on_host);
        recording.read(&room.oriented, 0..n_most, &room.oriented_on_host);
        recording.read(&room.descriptors, 0..n_most, &room.descriptors_on_host);
        times.extend(recording.submit()?.wait()?);
        let n = self.n_oriented_on_host.take()?[0] as usize;
        let mut oriented = room.oriented_on_host.take()?;
        let mut descriptors = room.descriptors_on_host.take()?;
        oriented.truncate(n);
        descriptors.truncate(n);
        for OrientedPoint { point, .. } in &mut oriented {
            *point = chosen[*point as usize];
        }
        Ok(Described { oriented, descriptors })
    }
}

impl Room {
    fn new(
        gpu: &Gpu,
        gaussians: &Buffer<f32>,
        n_oriented: &Buffer<u32>,
        room: usize,
    ) -> Result<Room, DeviceError> {
        let points = gpu.buffer::<SiftPoint>("keypoints", room)?;
        let ranks = gpu.buffer::<u32>("keypoints", room)?;
        let angles = gpu.buffer::<f32>("orientations", MAX_ORIENTATIONS * room)?;
        let counts = gpu.buffer::<u32>("orientations", room)?;
        let kept = gpu.buffer::<u32>("orientations", room)?;
        let oriented = gpu.buffer::<OrientedPoint>("oriented", room)?;
        let descriptors = gpu.buffer::<Descriptor>("descriptors", room)?;
        let params = OrientationParams::zeroed();
        let buffers: [&dyn AnyBuffer; 4] = [&points, gaussians, &angles, &counts];
        let orientation = gpu.kernel(&orientation::SHADER, &[])?.bind(&params, &buffers)?;
        let params = OrientationSelectParams::zeroed();
        let buffers: [&dyn AnyBuffer; 6] = [&ranks, &angles, &counts, &kept, &oriented, n_oriented];
        let select = gpu.kernel(&orientation_select::SHADER, &[])?.bind(&params, &buffers)?;
        let params = DescriptorParams::zeroed();
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

/// The `n_points` points' numbers that are in `rank`, ascending, and where each of `rank` is among them.
fn first_in_rank(n_points: usize, rank: &[u32]) -> (Vec<u32>, Vec<u32>) {
    let mut numbers = vec![None; n_points];
    for index in rank {
        numbers[*index as usize] = Some(0);
    }
    let mut chosen = Vec::with_capacity(rank.len());
    for (index, number) in (0..).zip(&mut numbers) {
        if let Some(number) = number {
            *number = chosen.len() as u32;
            chosen.push(index);
        }
    }
    let ranks = rank.iter().filter_map(|index| numbers[*index as usize]);
    (chosen, ranks.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_keep_their_order_and_ranks_their_points() {
        assert_eq!(first_in_rank(6, &[4, 1, 5]), (vec![1, 4, 5], vec![1, 0, 2]));
        assert_eq!(first_in_rank(6, &[]), (Vec::new(), Vec::new()));
    }
}
