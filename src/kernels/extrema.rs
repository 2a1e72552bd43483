//! Extrema of the DoG: pixels whose magnitude reaches a threshold and that are farther out than all 26 neighbours in x,
//! y and scale. Of equal pixels the last in the order layer, row, column counts as the extremum, so that a peak half
//! way between two pixels is found once. The two outermost pixels of a layer are no candidates.
//! One invocation: a block of rows of one layer. On the device one dispatch looks through all octaves.

use std::ops::Range;

use super::sift_point::{MAX_OCTAVES, OctaveShape};
use crate::device::{Binding, KernelSource, params_layout};

/// The shader.
pub const SHADER: KernelSource = KernelSource {
    name: "extrema",
    wgsl: concat!(
        include_str!("../../shaders/shared/flat_index.wgsl"),
        include_str!("../../shaders/shared/sift_point.wgsl"),
        include_str!("../../shaders/shared/candidate.wgsl"),
        include_str!("../../shaders/extrema.wgsl")
    ),
    workgroup: [256, 1, 1],
    params: params_layout!(ExtremaParams: octaves, first_tiles, n_octaves, n_dogs, capacity, threshold,
        first_row, end_row, unused),
    bindings: &[Binding::read("gaussians"), Binding::read_write("candidates"), Binding::read_write("counts")],
};

/// Pixels along a side of what a workgroup of the shader looks through.
const TILE: u32 = 30;

/// Parameters of the shader.
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct ExtremaParams {
    octaves: [OctaveShape; MAX_OCTAVES],
    /// Tiles of the octaves before each.
    first_tiles: [u32; MAX_OCTAVES],
    n_octaves: u32,
    n_dogs: u32,
    capacity: u32,
    threshold: f32,
    first_row: u32,
    end_row: u32,
    unused: [u32; 2],
}

impl ExtremaParams {
    /// For the first `n_octaves` of `octaves`, of `n_dogs` DoG layers, 4 to 10, and room for `capacity` candidates in `rows`,
    /// counted from each shape's first.
    pub fn new(
        octaves: [OctaveShape; MAX_OCTAVES],
        n_octaves: usize,
        n_dogs: usize,
        threshold: f32,
        capacity: usize,
        rows: Range<usize>,
    ) -> ExtremaParams {
        let mut first_tiles = [0; MAX_OCTAVES];
        for o in 1..MAX_OCTAVES {
            first_tiles[o] = first_tiles[o - 1] + n_tiles(&octaves[o - 1]);
        }
        let [n_octaves, n_dogs, capacity] = [n_octaves, n_dogs, capacity].map(|n| n as u32);
        let [first_row, end_row] = [rows.start, rows.end].map(|row| row as u32);
        let unused = [0; 2];
        ExtremaParams {
            octaves,
            first_tiles,
            n_octaves,
            n_dogs,
            capacity,
            threshold,
            first_row,
            end_row,
            unused,
        }
    }

    /// Workgroups of the dispatch.
    pub fn groups(&self) -> [u32; 3] {
        let n_tiles: u32 = self.octaves[..self.n_octaves as usize].iter().map(n_tiles).sum();
        SHADER.flat_groups(n_tiles as usize * SHADER.workgroup[0] as usize)
    }
}

fn n_tiles(octave: &OctaveShape) -> u32 {
    octave.width.div_ceil(TILE) * octave.height.div_ceil(TILE)
}

/// An extremum as the shader leaves it for `refine`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct Candidate {
    /// Index of the octave.
    pub octave: u32,
    /// Column.
    pub x: u32,
    /// Row.
    pub y: u32,
    /// DoG layer.
    pub layer: u32,
}

/// Pixels that are compared at once.
const SPAN: usize = 16;
/// Pixels at the border that are no candidates: `refine` looks two pixels around.
pub const MARGIN: usize = 2;

/// Appends the extrema (x, y, layer) of a layer in `rows`, row by row. The DoG layers lie one after another in `dogs`;
/// `layer` has a neighbour on both sides.
#[inline(always)]
pub fn extrema(
    dogs: &[f32],
    width: usize,
    height: usize,
    layer: usize,
    rows: Range<usize>,
    threshold: f32,
    found: &mut Vec<[u32; 3]>,
) {
    let end_row = height.saturating_sub(MARGIN);
    for y in rows.start.max(MARGIN)..rows.end.min(end_row) {
        let start = (layer * height + y) * width;
        let mut x = MARGIN;
        while x + SPAN + MARGIN <= width {
            append_span::<SPAN>(dogs, width, width * height, start + x, [x, y, layer], threshold, found);
            x += SPAN;
        }
        while x + MARGIN < width {
            append_span::<1>(dogs, width, width * height, start + x, [x, y, layer], threshold, found);
            x += 1;
        }
    }
}

/// Appends the extrema among the `N` pixels from `start`, which is `place`, on. Most spans end early.
#[inline(always)]
fn append_span<const N: usize>(
    dogs: &[f32],
    width: usize,
    layer_size: usize,
    start: usize,
    place: [usize; 3],
    threshold: f32,
    found: &mut Vec<[u32; 3]>,
) {
    let mut span = Span::<N>::new(&dogs[start..start + N], threshold);
    if !span.any() {
        return;
    }
    let beside = |row: usize| [row - 1, row, row + 1];
    span.keep::<true, 3>(dogs, beside(start - width));
    span.keep::<true, 1>(dogs, [start - 1]);
    span.keep::<false, 1>(dogs, [start + 1]);
    span.keep::<false, 3>(dogs, beside(start + width));
    if !span.any() {
        return;
    }
    for row in [start - width, start, start + width] {
        span.keep::<true, 3>(dogs, beside(row - layer_size));
        span.keep::<false, 3>(dogs, beside(row + layer_size));
    }
    let [x, y, layer] = place.map(|index| index as u32);
    for (i, is) in (0..).zip(span.mask) {
        if is != 0 {
            found.push([x + i, y, layer]);
        }
    }
}

/// Pixels that are compared at once: 1 in the mask while no neighbour is farther out.
struct Span<const N: usize> {
    magnitude: [f32; N],
    sign: [f32; N],
    mask: [u32; N],
}

impl<const N: usize> Span<N> {
    #[inline(always)]
    fn new(here: &[f32], threshold: f32) -> Self {
        let mut span = Span { magnitude: [0.0; N], sign: [0.0; N], mask: [0; N] };
        for i in 0..N {
            span.magnitude[i] = here[i].abs();
            span.sign[i] = 1_f32.copysign(here[i]);
            span.mask[i] = (span.magnitude[i] >= threshold) as u32;
        }
        span
    }

    #[inline(always)]
    fn any(&self) -> bool {
        self.mask.iter().fold(0, |any, is| any | is) != 0
    }

    /// Keeps the pixels that are farther out than their neighbours (with `TIES` also as far); `starts` are the
    /// neighbours of the first pixel.
    #[inline(always)]
    fn keep<const TIES: bool, const M: usize>(&mut self, dogs: &[f32], starts: [usize; M]) {
        for start in starts {
            let neighbours = &dogs[start..start + N];
            for i in 0..N {
                let (own, other) = (self.magnitude[i], self.sign[i] * neighbours[i]);
                self.mask[i] &= if TIES { own >= other } else { own > other } as u32;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numerics::SplitMix64;

    /// The definition, pixel by pixel; `dogs` are three layers.
    fn is_extremum(dogs: &[f32], width: usize, height: usize, x: usize, y: usize, threshold: f32) -> bool {
        let at = |x: usize, y: usize, layer: usize| dogs[(layer * height + y) * width + x];
        let here = at(x, y, 1);
        let farther = |layer: usize, row: usize, column: usize| {
            let neighbour = at(column, row, layer) * here.signum();
            match (layer, row, column).cmp(&(1, y, x)) {
                std::cmp::Ordering::Less => here.abs() >= neighbour,
                std::cmp::Ordering::Equal => true,
                std::cmp::Ordering::Greater => here.abs() > neighbour,
            }
        };
        let around = (0..3).flat_map(|layer| (y - 1..=y + 1).map(move |row| (layer, row)));
        here.abs() >= threshold
            && around
                .into_iter()
                .all(|(layer, row)| (x - 1..=x + 1).all(|column| farther(layer, row, column)))
    }

    #[test]
    fn noise_with_ties_has_the_extrema_of_the_definition() {
        for (width, height) in [(70, 20), (9, 7), (4, 9)] {
            let mut rng = SplitMix64::new(7, width as u64);
            let noise = (0..3 * width * height).map(|_| (rng.below(9) as f32 - 4.0) / 4.0);
            let dogs: Vec<f32> = noise.collect();
            let mut found = Vec::new();
            extrema(&dogs, width, height, 1, 0..height, 0.7, &mut found);
            let mut expected = Vec::new();
            for y in MARGIN..height - MARGIN {
                for x in MARGIN..width.saturating_sub(MARGIN) {
                    if is_extremum(&dogs, width, height, x, y, 0.7) {
                        expected.push([x as u32, y as u32, 1]);
                    }
                }
            }
            assert_eq!(found, expected);
            assert!(width < 70 || found.len() > 5);
        }
    }
}
