//! The extraction on a device, in two submissions: scale space, extrema and their refinement; the host puts the points in
//! order and says which stay; then orientations and descriptors of those.

use self::describe::Describer;
use self::detect::Detector;
use self::scale_space::GpuScaleSpace;
use super::octaves::{OctaveSize, octave_sizes};
use super::selection::rank;
use super::{Point, SiftOptions};
use crate::device::{DeviceError, Gpu, PassTime, Recording};
use crate::gray::DeviceGray;
use crate::message::Features;

mod describe;
mod detect;
mod scale_space;

/// Extrema there is room for at first.
const FIRST_ROOM: usize = 1 << 14;

/// Extracts features of pictures of one size as [`extract_features`](super::extract_features) does.
#[derive(Debug)]
pub struct GpuSift {
    gpu: Gpu,
    options: SiftOptions,
    size: (usize, usize),
    octaves: Vec<OctaveSize>,
    scale_space: GpuScaleSpace,
    detector: Detector,
    describer: Describer,
}

/// Makes a recording of the name.
type Record<'a> = &'a dyn Fn(&'static str) -> Result<Recording, DeviceError>;

impl GpuSift {
    /// For pictures of `size`.
    ///
    /// # Errors
    /// The device has no memory for it, or a shader does not compile.
    pub fn new(gpu: &Gpu, options: SiftOptions, size: (usize, usize)) -> Result<GpuSift, DeviceError> {
        GpuSift::with_room(gpu, options, size, FIRST_ROOM)
    }

    /// With room for `room` extrema and a quarter as many features at first. It grows as pictures ask for it; what comes out
    /// is the same.
    ///
    /// # Errors
    /// As `new`.
    pub fn with_room(
        gpu: &Gpu,
        options: SiftOptions,
        size: (usize, usize),
        room: usize,
    ) -> Result<GpuSift, DeviceError> {
        let octaves = octave_sizes(size, &options);
        let scale_space = GpuScaleSpace::new(gpu, &options, size, &octaves)?;
        Ok(GpuSift {
            gpu: gpu.clone(),
            size,
            detector: Detector::new(gpu, &options, &scale_space, room)?,
            describer: Describer::new(gpu, &options, &scale_space, room / 4)?,
            scale_space,
            octaves,
            options,
        })
    }

    /// Width and height of its pictures.
    pub fn size(&self) -> (usize, usize) {
        self.size
    }

    /// The features of a picture.
    ///
    /// # Errors
    /// The device has no memory for so many, or was lost.
    ///
    /// # Panics
    /// The picture is not of the size.
    pub fn extract(&mut self, gray: &DeviceGray) -> Result<Features, DeviceError> {
        let gpu = self.gpu.clone();
        Ok(self.run(&|name| Ok(gpu.record(name)), gray)?.0)
    }

    /// As `extract`, with the device's time of each pass where the adapter tells.
    ///
    /// # Errors
    /// As `extract`.
    ///
    /// # Panics
    /// As `extract`.
    pub fn extract_timed(&mut self, gray: &DeviceGray) -> Result<(Features, Vec<PassTime>), DeviceError> {
        let gpu = self.gpu.clone();
        self.run(&|name| gpu.record_timed(name), gray)
    }

    fn run(&mut self, record: Record, gray: &DeviceGray) -> Result<(Features, Vec<PassTime>), DeviceError> {
        assert_eq!(gray.size(), self.size, "size of a picture");
        if self.octaves.is_empty() {
            return Ok((Features::default(), Vec::new()));
        }
        let mut times = Vec::new();
        let points = self.detect(record, gray, &mut times)?;
        let steps: Vec<f32> = self.octaves.iter().map(|octave| octave.step).collect();
        let rank = rank(&points, &steps, self.size, self.options.max_features as usize);
        let (keypoints, descriptors) =
            self.describer.describe(record, &self.scale_space, &steps, &points, &rank, &mut times)?;
        Ok((Features { keypoints, descriptors }, times))
    }

    /// All extrema that keep the limits, ascending by `Point::order`, each once.
    fn detect(
        &mut self,
        record: Record,
        gray: &DeviceGray,
        times: &mut Vec<PassTime>,
    ) -> Result<Vec<Point>, DeviceError> {
        let mut recording = record("scale space")?;
        self.scale_space.record(&mut recording, gray);
        let refined = self.detector.detect(record, recording, &self.scale_space, times)?;
        let mut points = in_order(refined, &self.octaves, self.options.scales_per_octave as usize);
        points.dedup_by_key(|point| point.order());
        Ok(points)
    }
}

/// Ascending by `Point::order`: by octave, layer and row with a list each, then by column within a list. Most are short.
fn in_order(points: Vec<Point>, octaves: &[OctaveSize], scales: usize) -> Vec<Point> {
    let mut first_lists = Vec::with_capacity(octaves.len());
    let mut n_lists = 0;
    for octave in octaves {
        first_lists.push(n_lists);
        n_lists += scales * octave.height;
    }
    let list_of = |point: &Point| {
        let octave = point.octave as usize;
        let layer = point.layer as usize - 1;
        first_lists[octave] + layer * octaves[octave].height + point.pixel[1] as usize
    };
    let mut ends = vec![0; n_lists + 1];
    for point in &points {
        ends[list_of(point) + 1] += 1;
    }
    for list in 0..n_lists {
        ends[list + 1] += ends[list];
    }
    let mut ordered = points.clone();
    for point in points {
        let end = &mut ends[list_of(&point)];
        ordered[*end] = point;
        *end += 1;
    }
    for list in ordered.chunk_by_mut(|a, b| list_of(a) == list_of(b)) {
        list.sort_unstable_by_key(|point| point.pixel[0]);
    }
    ordered
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numerics::SplitMix64;

    #[test]
    fn points_are_put_in_order() {
        let octaves = octave_sizes((60, 40), &SiftOptions::default());
        let mut rng = SplitMix64::new(4, 0);
        let mut point = || {
            let octave = rng.below(octaves.len() as u32);
            let size = octaves[octave as usize];
            let pixel = [rng.below(size.width as u32), rng.below(size.height as u32)];
            let position = pixel.map(|index| index as f32);
            Point { octave, layer: 1 + rng.below(3), pixel, position, level: 1.0, response: 1.0 }
        };
        let points: Vec<Point> = (0..500).map(|_| point()).collect();
        let mut expected = points.clone();
        expected.sort_by_key(Point::order);
        assert_eq!(in_order(points, &octaves, 3), expected);
        assert_eq!(in_order(Vec::new(), &octaves, 3), []);
    }
}
