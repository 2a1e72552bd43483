//! Extraction on this machine's processor: the twins.

use rayon::prelude::*;

use super::scale_space::{BLOCK_ROWS, Octave, ScaleSpace};
use super::selection::rank;
use super::{DescribedPlace, Place, Point, SiftOptions, keypoint};
use crate::kernels::descriptor::{DescriptorGrid, descriptor};
use crate::kernels::extrema::extrema;
use crate::kernels::orientation::{MAX_ORIENTATIONS, orientation};
use crate::kernels::refine::{RefineLimits, refine};
use crate::kernels::sift_point::SiftPoint;
use crate::message::{Descriptor, Features};
use crate::numerics::vectorized;
use crate::picture::GrayImage;

/// Buffers that are reused from picture to picture.
#[derive(Debug, Default)]
pub struct SiftScratch {
    scale_space: ScaleSpace,
    blocks: Vec<Vec<[u32; 3]>>,
    starts: Vec<[u32; 3]>,
    grid: DescriptorGrid,
}

/// SIFT keypoints and descriptors (Lowe 2004) of a gray picture, ascending by octave, layer, row and column of the
/// extremum; of one position the strongest orientation first. A picture too small for an octave has none.
pub fn extract_features(gray: &GrayImage, options: &SiftOptions, scratch: &mut SiftScratch) -> Features {
    scratch.scale_space.build(gray, options);
    let points = detect(options, scratch);
    let octaves = scratch.scale_space.octaves();
    let steps: Vec<f32> = octaves.iter().map(|octave| octave.size.step).collect();
    let rank = rank(&points, &steps, (gray.width, gray.height), options.max_features as usize);
    let oriented = orient(octaves, &points, &rank, options);
    let described = oriented.par_iter().map(|(point, orientation)| {
        let at = point.sift_point(options);
        let descriptor = describe(octaves, &at, *orientation, options, &scratch.grid);
        (keypoint(&at, &steps, *orientation, point.response), descriptor)
    });
    let (keypoints, descriptors) = described.unzip();
    Features { keypoints, descriptors }
}

/// The `places` that have an orientation as keypoints of the picture that `scratch` last had features extracted of, in
/// their order.
pub fn describe_places(
    places: &[Place],
    options: &SiftOptions,
    scratch: &SiftScratch,
) -> Vec<DescribedPlace> {
    let octaves = scratch.scale_space.octaves();
    let steps: Vec<f32> = octaves.iter().map(|octave| octave.size.step).collect();
    let described = places.par_iter().enumerate().filter_map(|(index, place)| {
        let at = place.sift_point(&steps, options)?;
        let (angles, n) = orientations(octaves, &at);
        (n > 0).then(|| DescribedPlace {
            place: index as u32,
            keypoint: keypoint(&at, &steps, angles[0], 0.0),
            descriptor: describe(octaves, &at, angles[0], options, &scratch.grid),
        })
    });
    described.collect()
}

fn describe(
    octaves: &[Octave],
    at: &SiftPoint,
    orientation: f32,
    options: &SiftOptions,
    grid: &DescriptorGrid,
) -> Descriptor {
    let octave = &octaves[at.octave as usize];
    let layer = octave.gaussian(at.layer as usize);
    let cell = options.magnification * at.scale;
    let (width, height) = (octave.size.width, octave.size.height);
    vectorized(
        #[inline(always)]
        || descriptor(layer, width, height, [at.x, at.y], cell, orientation, grid),
    )
}

/// Orientations at a point, the strongest first, and their count.
fn orientations(octaves: &[Octave], at: &SiftPoint) -> ([f32; MAX_ORIENTATIONS], usize) {
    let octave = &octaves[at.octave as usize];
    let layer = octave.gaussian(at.layer as usize);
    let mut angles = [0.0; MAX_ORIENTATIONS];
    let (width, height) = (octave.size.width, octave.size.height);
    let n = vectorized(
        #[inline(always)]
        || orientation(layer, width, height, [at.x, at.y], at.scale, &mut angles),
    );
    (angles, n)
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
            let extremum =
                refine(&octave.dogs, octave.size.width, octave.size.height, n_layers, *start, limits)?;
            Some(Point::from_extremum(&extremum, index as u32))
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
    let blocks_a_layer = octave.size.height.div_ceil(BLOCK_ROWS);
    blocks.resize_with((n_layers - 2) * blocks_a_layer, Vec::new);
    blocks.par_iter_mut().enumerate().for_each(|(index, found)| {
        found.clear();
        let (layer, first_row) = (1 + index / blocks_a_layer, index % blocks_a_layer * BLOCK_ROWS);
        let rows = first_row..first_row + BLOCK_ROWS;
        vectorized(
            #[inline(always)]
            || extrema(&octave.dogs, octave.size.width, octave.size.height, layer, rows, threshold, found),
        );
    });
}

/// Points in their fixed order with an orientation each: those first in `rank`, as many as the limit allows.
fn orient(octaves: &[Octave], points: &[Point], rank: &[u32], options: &SiftOptions) -> Vec<(Point, f32)> {
    let limit = options.max_features as usize;
    let oriented = rank.par_iter().map(|index| {
        let (angles, n) = orientations(octaves, &points[*index as usize].sift_point(options));
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
