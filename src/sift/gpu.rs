//! The extraction on a device, section by section, in two submissions each: scale space, extrema and their refinement; the
//! host puts the points in order and says which stay; then orientations and descriptors of those. Most pictures are one
//! section.

use self::describe::{Described, Describer, Wanted};
use self::detect::Detector;
use self::scale_space::GpuScaleSpace;
use self::section::Section;
use super::octaves::{OctaveSize, octave_sizes};
use super::selection::rank;
use super::{DescribedPlace, Place, Point, SiftOptions, keypoint};
use crate::device::{Buffer, DeviceError, Gpu, PassTime, Recording};
use crate::gray::DeviceGray;
use crate::kernels::descriptor::OrientedPoint;
use crate::kernels::sift_point::SiftPoint;
use crate::message::{Descriptor, Features};

mod describe;
mod detect;
mod scale_space;
mod section;

/// Extracts features of pictures of one size as [`extract_features`](super::extract_features) does.
#[derive(Debug)]
pub struct GpuSift {
    gpu: Gpu,
    options: SiftOptions,
    size: (usize, usize),
    octaves: Vec<OctaveSize>,
    /// In one buffer, one after another.
    sections: Vec<GpuScaleSpace>,
    detector: Detector,
    describer: Describer,
}

/// Room on the device. What comes out is the same for any.
#[derive(Clone, Copy, Debug)]
pub struct SiftRoom {
    /// Extrema there is room for at first, and four times the features. It grows as pictures ask for it.
    pub extrema: usize,
    /// Bytes that the layers of a picture may take at once. A strip's two rows and all that is read around them take more in
    /// a very wide picture, and then more is taken.
    pub layer_bytes: u64,
}

impl Default for SiftRoom {
    fn default() -> Self {
        SiftRoom { extrema: 1 << 14, layer_bytes: 512 << 20 }
    }
}

/// Makes a recording of the name.
type Record<'a> = &'a dyn Fn(&'static str) -> Result<Recording, DeviceError>;

impl GpuSift {
    /// For pictures of `size`.
    ///
    /// # Errors
    /// The device has no memory for it, or a shader does not compile.
    pub fn new(gpu: &Gpu, options: SiftOptions, size: (usize, usize)) -> Result<GpuSift, DeviceError> {
        GpuSift::with_room(gpu, options, size, SiftRoom::default())
    }

    /// The same with other room, which ends where the adapter binds no more at once.
    ///
    /// # Errors
    /// As `new`; also where a strip of two rows, with those around them, is more than the adapter binds.
    pub fn with_room(
        gpu: &Gpu,
        options: SiftOptions,
        size: (usize, usize),
        room: SiftRoom,
    ) -> Result<GpuSift, DeviceError> {
        let octaves = octave_sizes(size, &options);
        let layer_bytes = room.layer_bytes.min(gpu.largest_binding_bytes());
        let sections = Section::cut(&octaves, &options, layer_bytes as usize / size_of::<f32>());
        let values = sections.iter().map(|section| GpuScaleSpace::values(&options, &octaves, section));
        let gaussians = gpu.buffer::<f32>("gaussians", values.max().unwrap_or(0))?;
        let layers = layers_between(gpu, &sections, &octaves)?;
        let sections = sections.iter().map(|section| {
            let ends = [section.octaves.start, section.octaves.end].map(|octave| layers[octave].as_ref());
            GpuScaleSpace::new(gpu, &options, &octaves, section, &gaussians, ends)
        });
        Ok(GpuSift {
            gpu: gpu.clone(),
            size,
            sections: sections.collect::<Result<_, _>>()?,
            detector: Detector::new(gpu, &options, size, &gaussians, room.extrema)?,
            describer: Describer::new(gpu, &options, &gaussians, room.extrema / 4)?,
            octaves,
            options,
        })
    }

    /// Width and height of its pictures.
    pub fn size(&self) -> (usize, usize) {
        self.size
    }

    /// How many sections a picture is cut into.
    pub fn n_sections(&self) -> usize {
        self.sections.len()
    }

    /// The features of a picture.
    ///
    /// # Errors
    /// The device has no memory for so many, or was lost.
    ///
    /// # Panics
    /// The picture is not of the size.
    pub fn extract(&mut self, gray: &DeviceGray) -> Result<Features, DeviceError> {
        Ok(self.extract_with(gray, &[])?.0)
    }

    /// The same with the `places` that have an orientation as keypoints, in their order.
    ///
    /// # Errors
    /// As `extract`.
    ///
    /// # Panics
    /// As `extract`.
    pub fn extract_with(
        &mut self,
        gray: &DeviceGray,
        places: &[Place],
    ) -> Result<(Features, Vec<DescribedPlace>), DeviceError> {
        let gpu = self.gpu.clone();
        self.run(&|name| Ok(gpu.record(name)), gray, places, &mut Vec::new())
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
        let mut times = Vec::new();
        let (features, _) = self.run(&|name| gpu.record_timed(name), gray, &[], &mut times)?;
        Ok((features, times))
    }

    fn run(
        &mut self,
        record: Record,
        gray: &DeviceGray,
        places: &[Place],
        times: &mut Vec<PassTime>,
    ) -> Result<(Features, Vec<DescribedPlace>), DeviceError> {
        assert_eq!(gray.size(), self.size, "size of a picture");
        let points = self.detect(record, gray, times)?;
        let steps: Vec<f32> = self.octaves.iter().map(|octave| octave.step).collect();
        let (limit, max_orientations) =
            (self.options.max_features as usize, self.options.max_orientations as usize);
        let rank = rank(&points, &steps, self.size, limit);
        let placed = places.iter().filter_map(|place| place.sift_point(&steps, &self.options));
        let placed: Vec<SiftPoint> = placed.collect();
        let (mut described, mut described_places) = (Vec::new(), Vec::new());
        let options = &self.options;
        for (index, section) in self.sections.iter().enumerate().rev() {
            let is_own = |index: &&u32| {
                let point = &points[**index as usize];
                section.section.owns(point.octave, point.pixel[1])
            };
            let own_rank: Vec<u32> = rank.iter().filter(is_own).copied().collect();
            let own_places = self.places_of(&section.section, &placed);
            let features = Wanted {
                n_points: points.len(),
                point: &|index| points[index as usize].sift_point(options),
                rank: &own_rank,
                limit,
                max_orientations,
            };
            let in_section = Wanted {
                n_points: placed.len(),
                point: &|index| placed[index as usize],
                rank: &own_places,
                limit: placed.len(),
                max_orientations: 1,
            };
            // The layers of the last section are still there.
            let mut is_made = index + 1 == self.sections.len();
            let asked =
                [("features", features, &mut described), ("places", in_section, &mut described_places)];
            for (name, wanted, described) in
                asked.into_iter().filter(|(_, wanted, _)| !wanted.rank.is_empty())
            {
                let mut recording = record(name)?;
                if !std::mem::replace(&mut is_made, true) {
                    section.record(&mut recording, gray.values());
                }
                described.push(self.describer.describe(recording, section, wanted, times)?);
            }
        }
        let Described { oriented, descriptors } = merged(described, points.len(), &rank, limit);
        let keypoint_of = |&OrientedPoint { point, angle }: &OrientedPoint| {
            let point = &points[point as usize];
            keypoint(&point.sift_point(&self.options), &steps, angle, point.response)
        };
        let features = Features { keypoints: oriented.iter().map(keypoint_of).collect(), descriptors };
        let all: Vec<u32> = (0..placed.len() as u32).collect();
        let Described { oriented, descriptors } = merged(described_places, placed.len(), &all, placed.len());
        let places = oriented.iter().zip(descriptors).map(|(oriented, descriptor)| DescribedPlace {
            place: oriented.point,
            keypoint: keypoint(&placed[oriented.point as usize], &steps, oriented.angle, 0.0),
            descriptor,
        });
        Ok((features, places.collect()))
    }

    /// Numbers of the places that a section describes.
    fn places_of(&self, section: &Section, placed: &[SiftPoint]) -> Vec<u32> {
        let is_own = |point: &SiftPoint| {
            let last_row = self.octaves[point.octave as usize].height - 1;
            section.owns(point.octave, ((point.y + 0.5) as u32).min(last_row as u32))
        };
        (0..).zip(placed).filter(|(_, point)| is_own(point)).map(|(index, _)| index).collect()
    }

    /// The extrema that keep the limits and that `rank` chooses among, ascending by `Point::order`, each once.
    fn detect(
        &mut self,
        record: Record,
        gray: &DeviceGray,
        times: &mut Vec<PassTime>,
    ) -> Result<Vec<Point>, DeviceError> {
        let mut points = Vec::new();
        for section in &self.sections {
            let mut recording = record("scale space")?;
            self.detector.begin(&mut recording);
            section.record(&mut recording, gray.values());
            points.extend(self.detector.detect(record, recording, section, times)?);
        }
        let mut points = in_order(&points, &self.octaves, self.options.scales_per_octave as usize);
        points.dedup_by_key(|point| point.order());
        Ok(points)
    }
}

/// The first layers of octaves that a section begins with and another ends before.
fn layers_between(
    gpu: &Gpu,
    sections: &[Section],
    octaves: &[OctaveSize],
) -> Result<Vec<Option<Buffer<f32>>>, DeviceError> {
    let mut layers = vec![None; octaves.len() + 1];
    for section in sections {
        let (first, layer) = (section.octaves.start, &mut layers[section.octaves.start]);
        if first > 0 && layer.is_none() {
            *layer = Some(gpu.buffer("octave", octaves[first].pixels())?);
        }
    }
    Ok(layers)
}

/// What was described of all sections in the order of `n_points` points: of those first in `rank` as many as the limit allows,
/// which each section has kept for itself.
fn merged(mut described: Vec<Described>, n_points: usize, rank: &[u32], limit: usize) -> Described {
    if described.len() < 2 {
        return described.pop().unwrap_or_default();
    }
    let all = described.into_iter().flat_map(|one| one.oriented.into_iter().zip(one.descriptors));
    let mut all: Vec<(OrientedPoint, Descriptor)> = all.collect();
    all.sort_by_key(|(oriented, _)| oriented.point);
    let mut n_oriented = vec![0; n_points];
    for (OrientedPoint { point, .. }, _) in &all {
        n_oriented[*point as usize] += 1;
    }
    let (mut n, mut is_kept) = (0, vec![false; n_points]);
    for &index in rank {
        n += n_oriented[index as usize];
        is_kept[index as usize] = n <= limit;
    }
    all.retain(|(oriented, _)| is_kept[oriented.point as usize]);
    let (oriented, descriptors) = all.into_iter().unzip();
    Described { oriented, descriptors }
}

/// Ascending by `Point::order`: by octave, layer and row with a list each, then by column within a list. Most are short.
fn in_order(points: &[Point], octaves: &[OctaveSize], scales: usize) -> Vec<Point> {
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
    let mut ends = vec![0_u32; n_lists];
    for point in points {
        ends[list_of(point)] += 1;
    }
    let mut sum = 0;
    for end in &mut ends {
        sum += std::mem::replace(end, sum);
    }
    // The column, then the index.
    let mut keys = vec![0_u64; points.len()];
    for (index, point) in points.iter().enumerate() {
        let end = &mut ends[list_of(point)];
        keys[*end as usize] = (point.pixel[0] as u64) << 32 | index as u64;
        *end += 1;
    }
    let mut start = 0;
    for end in ends {
        keys[start..end as usize].sort_unstable();
        start = end as usize;
    }
    keys.iter().map(|key| points[*key as u32 as usize]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numerics::SplitMix64;

    #[test]
    fn sections_are_merged_in_the_order_of_points_within_the_limit() {
        let described = |points: &[u32]| Described {
            oriented: points.iter().map(|&point| OrientedPoint { point, angle: 0.0 }).collect(),
            descriptors: points.iter().map(|&point| [point as u8; 128]).collect(),
        };
        let merged = |limit| {
            let merged =
                merged(vec![described(&[1, 3, 3]), described(&[0, 2, 2])], 5, &[3, 0, 4, 2, 1], limit);
            assert!(merged.oriented.iter().zip(&merged.descriptors).all(|(o, d)| o.point == d[9] as u32));
            merged.oriented.iter().map(|oriented| oriented.point).collect::<Vec<_>>()
        };
        assert_eq!(merged(6), [0, 1, 2, 2, 3, 3]);
        assert_eq!(merged(5), [0, 2, 2, 3, 3]);
        // Point 1 would have room, but does not come before point 2.
        assert_eq!(merged(4), [0, 3, 3]);
        assert_eq!(merged(2), [3, 3]);
    }

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
        assert_eq!(in_order(&points, &octaves, 3), expected);
        assert_eq!(in_order(&[], &octaves, 3), []);
    }
}
