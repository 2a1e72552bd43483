//! sift_extract: keypoints and descriptors of a keyframe.

mod scale_space;
mod selection;
#[cfg(test)]
mod tests;

use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use self::scale_space::{BLOCK_ROWS, Octave, ScaleSpace};
use self::selection::rank;
use crate::device::DeviceError;
use crate::kernels::descriptor::{DescriptorGrid, descriptor};
use crate::kernels::extrema::extrema;
use crate::kernels::orientation::{MAX_ORIENTATIONS, orientation};
use crate::kernels::refine::{Extremum, RefineLimits, refine};
use crate::message::{FeaturedFrame, FeaturedKeyframe, Features, GatedFrame, GatedKeyframe, Keypoint};
use crate::numerics::vectorized;
use crate::picture::GrayImage;
use crate::stages::{RunContext, Stage, StageError};

/// Options of sift_extract. The defaults are COLMAP's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SiftOptions {
    /// -1 doubles the picture first, 0 does not: about 0.3 of the keypoints in a quarter of the time.
    pub first_octave: i32,
    /// Octaves at most, 1..=16. More finds larger keypoints, which repeat less.
    pub octaves: u32,
    /// Scales an octave is searched at, 2..=8. More finds more keypoints, at a higher cost.
    pub scales_per_octave: u32,
    /// Gaussian sigma of the first scale in pixels of its octave, 1.0..=2.4.
    pub base_sigma_px: f32,
    /// Least |DoG| of a keypoint, gray in [0, 1], 0..=1. Larger finds fewer keypoints.
    pub min_contrast: f32,
    /// Largest ratio of the principal curvatures of the DoG, 1..=1e6. Larger keeps keypoints along edges.
    pub edge_ratio: f32,
    /// Orientations a position may have, 1..=4.
    pub max_orientations: u32,
    /// Keypoints a picture may have, orientations counted, 1..=1e6. The strongest stay, a quarter of them spread.
    pub max_features: u32,
    /// Width of a descriptor's cell in units of the keypoint's scale, 1..=6. Larger sees more around it.
    pub magnification: f32,
}

impl Default for SiftOptions {
    fn default() -> Self {
        SiftOptions {
            first_octave: -1,
            octaves: 4,
            scales_per_octave: 3,
            base_sigma_px: 1.6,
            min_contrast: 0.02 / 3.0,
            edge_ratio: 10.0,
            max_orientations: 2,
            max_features: 4096,
            magnification: 3.0,
        }
    }
}

impl SiftOptions {
    /// The first option outside its range, if any.
    pub fn check(&self) -> Result<(), SiftOptionError> {
        let whole = |value: u32| value as f64;
        let checks = [
            ("first_octave", self.first_octave as f64, -1.0..=0.0, "-1 or 0"),
            ("octaves", whole(self.octaves), 1.0..=16.0, "1..=16"),
            ("scales_per_octave", whole(self.scales_per_octave), 2.0..=8.0, "2..=8"),
            ("base_sigma_px", self.base_sigma_px as f64, 1.0..=2.4, "1..=2.4"),
            ("min_contrast", self.min_contrast as f64, 0.0..=1.0, "0..=1"),
            ("edge_ratio", self.edge_ratio as f64, 1.0..=1e6, "1..=1e6"),
            ("max_orientations", whole(self.max_orientations), 1.0..=4.0, "1..=4"),
            ("max_features", whole(self.max_features), 1.0..=1e6, "1..=1e6"),
            ("magnification", self.magnification as f64, 1.0..=6.0, "1..=6"),
        ];
        for (option, value, allowed, range) in checks {
            if !allowed.contains(&value) {
                return Err(SiftOptionError { option, value, range });
            }
        }
        Ok(())
    }
}

/// An option outside its range.
#[derive(Clone, Debug, PartialEq, Error)]
#[error("sift_extract.{option} is {value}, its range is {range}")]
pub struct SiftOptionError {
    /// Name of the option.
    pub option: &'static str,
    /// What it was set to.
    pub value: f64,
    /// What it may be.
    pub range: &'static str,
}

/// Buffers that are reused from picture to picture.
#[derive(Debug, Default)]
pub struct SiftScratch {
    scale_space: ScaleSpace,
    blocks: Vec<Vec<[u32; 3]>>,
    starts: Vec<[u32; 3]>,
    grid: DescriptorGrid,
}

/// The stage.
#[derive(Debug)]
pub struct SiftExtract {
    options: SiftOptions,
    scratch: SiftScratch,
}

impl SiftExtract {
    /// Checks the ranges of `options`.
    pub fn new(options: SiftOptions, _context: &RunContext) -> Result<Self, SiftOptionError> {
        options.check()?;
        Ok(SiftExtract { options, scratch: SiftScratch::default() })
    }
}

impl Stage for SiftExtract {
    type Takes = GatedFrame;
    type Gives = FeaturedFrame;

    fn fire(&mut self, frame: GatedFrame) -> Result<FeaturedFrame, StageError> {
        let GatedFrame { info, sizes, gate, tracks, ends, keyframe } = frame;
        let featured = |kept: GatedKeyframe| -> Result<FeaturedKeyframe, DeviceError> {
            Ok(FeaturedKeyframe {
                keyframe: kept.keyframe,
                features: extract_features(&*kept.gray.host()?, &self.options, &mut self.scratch).into(),
                picture: kept.picture,
                tracker: kept.tracker,
            })
        };
        let keyframe = keyframe.map(featured).transpose()?;
        Ok(FeaturedFrame { info, sizes, gate, tracks, ends, keyframe })
    }
}

/// SIFT keypoints and descriptors (Lowe 2004) of a gray picture, ascending by octave, layer, row and column of the
/// extremum; of one position the strongest orientation first. A picture too small for an octave has none.
pub fn extract_features(gray: &GrayImage, options: &SiftOptions, scratch: &mut SiftScratch) -> Features {
    scratch.scale_space.build(gray, options);
    let points = detect(options, scratch);
    let octaves = scratch.scale_space.octaves();
    let rank = rank(&points, octaves, gray, options.max_features as usize);
    let oriented = orient(octaves, &points, &rank, options);
    let descriptors = oriented.par_iter().map(|(point, orientation)| {
        let octave = &octaves[point.octave as usize];
        let layer = octave.gaussian(point.layer as usize);
        let cell = options.magnification * point.scale;
        let (width, height) = (octave.width, octave.height);
        vectorized(
            #[inline(always)]
            || descriptor(layer, width, height, point.position, cell, *orientation, &scratch.grid),
        )
    });
    Features {
        descriptors: descriptors.collect(),
        keypoints: oriented
            .iter()
            .map(|(point, orientation)| point.keypoint(octaves, *orientation))
            .collect(),
    }
}

/// A refined extremum. Positions and scale are pixels of its octave.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Point {
    octave: u32,
    layer: u32,
    pixel: [u32; 2],
    position: [f32; 2],
    scale: f32,
    response: f32,
}

impl Point {
    fn order(&self) -> [u32; 4] {
        [self.octave, self.layer, self.pixel[1], self.pixel[0]]
    }

    fn keypoint(&self, octaves: &[Octave], orientation: f32) -> Keypoint {
        let step = octaves[self.octave as usize].step;
        let [x, y] = self.position;
        Keypoint { x: step * x, y: step * y, scale: step * self.scale, orientation, response: self.response }
    }
}

/// All extrema that keep the limits, ascending by `Point::order`, each once.
fn detect(options: &SiftOptions, scratch: &mut SiftScratch) -> Vec<Point> {
    let SiftScratch { scale_space, blocks, starts, .. } = scratch;
    let limits = RefineLimits { min_contrast: options.min_contrast, edge_ratio: options.edge_ratio };
    let n_layers = options.scales_per_octave as usize + 2;
    let mut points = Vec::new();
    for (index, octave) in scale_space.octaves().iter().enumerate() {
        find_extrema(octave, 0.8 * options.min_contrast, n_layers, blocks);
        starts.clear();
        starts.extend(blocks.iter().flatten());
        let refined = starts.par_iter().filter_map(|start| {
            let extremum = refine(&octave.dogs, octave.width, octave.height, n_layers, *start, limits)?;
            Some(point_from_extremum(&extremum, index as u32, options))
        });
        let mut refined: Vec<Point> = refined.collect();
        refined.sort_by_key(Point::order);
        refined.dedup_by_key(|point| point.order());
        points.append(&mut refined);
    }
    points
}

/// The extrema of an octave's inner DoG layers, one list a block of rows.
fn find_extrema(octave: &Octave, threshold: f32, n_layers: usize, blocks: &mut Vec<Vec<[u32; 3]>>) {
    let blocks_a_layer = octave.height.div_ceil(BLOCK_ROWS);
    blocks.resize_with((n_layers - 2) * blocks_a_layer, Vec::new);
    blocks.par_iter_mut().enumerate().for_each(|(index, found)| {
        found.clear();
        let (layer, first_row) = (1 + index / blocks_a_layer, index % blocks_a_layer * BLOCK_ROWS);
        let rows = first_row..first_row + BLOCK_ROWS;
        vectorized(
            #[inline(always)]
            || extrema(&octave.dogs, octave.width, octave.height, layer, rows, threshold, found),
        );
    });
}

fn point_from_extremum(extremum: &Extremum, octave: u32, options: &SiftOptions) -> Point {
    let [x, y, layer] = extremum.position;
    Point {
        octave,
        layer: extremum.pixel[2],
        pixel: [extremum.pixel[0], extremum.pixel[1]],
        position: [x, y],
        scale: options.base_sigma_px * libm::exp2f(layer / options.scales_per_octave as f32),
        response: extremum.value.abs(),
    }
}

/// Points in their fixed order with an orientation each: those first in `rank`, as many as the limit allows.
fn orient(octaves: &[Octave], points: &[Point], rank: &[u32], options: &SiftOptions) -> Vec<(Point, f32)> {
    let limit = options.max_features as usize;
    let oriented = rank[..rank.len().min(limit)].par_iter().map(|index| {
        let point = &points[*index as usize];
        let octave = &octaves[point.octave as usize];
        let layer = octave.gaussian(point.layer as usize);
        let mut angles = [0.0; MAX_ORIENTATIONS];
        let (width, height) = (octave.width, octave.height);
        let n = vectorized(
            #[inline(always)]
            || orientation(layer, width, height, point.position, point.scale, &mut angles),
        );
        (*index, angles, n.min(options.max_orientations as usize))
    });
    let mut oriented: Vec<(u32, [f32; MAX_ORIENTATIONS], usize)> = oriented.collect();
    let mut n_features = 0;
    oriented.retain(|(_, _, n)| {
        n_features += n;
        n_features <= limit
    });
    oriented.sort_unstable_by_key(|(index, ..)| *index);
    let flat = oriented
        .iter()
        .flat_map(|(index, angles, n)| angles[..*n].iter().map(|angle| (points[*index as usize], *angle)));
    flat.collect()
}
