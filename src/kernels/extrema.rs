//! Extrema of the DoG: pixels whose magnitude reaches a threshold and that are farther out than all 26 neighbours in x,
//! y and scale. Of equal pixels the last in the order layer, row, column counts as the extremum, so that a peak half
//! way between two pixels is found once. The two outermost pixels of a layer are no candidates.
//! One invocation: a block of rows of one layer.

use std::ops::Range;

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
        let mut append = |x: usize, mask: &[u32]| {
            let extreme = mask.iter().enumerate().filter(|(_, is)| **is != 0);
            found.extend(extreme.map(|(i, _)| [(x + i) as u32, y as u32, layer as u32]));
        };
        let mut x = MARGIN;
        while x + SPAN + MARGIN <= width {
            append(x, &span_mask::<SPAN>(dogs, width, width * height, start + x, threshold));
            x += SPAN;
        }
        while x + MARGIN < width {
            append(x, &span_mask::<1>(dogs, width, width * height, start + x, threshold));
            x += 1;
        }
    }
}

/// 1 for each of the `N` pixels from `start` on that is an extremum. Most spans end after their own layer.
#[inline(always)]
fn span_mask<const N: usize>(
    dogs: &[f32],
    width: usize,
    layer_size: usize,
    start: usize,
    threshold: f32,
) -> [u32; N] {
    let here = &dogs[start..][..N];
    let mut mask = [0; N];
    for i in 0..N {
        mask[i] = (here[i].abs() >= threshold) as u32;
    }
    let (before, after) = (start - layer_size, start + layer_size);
    keep_above(
        here,
        dogs,
        [start - width - 1, start - width, start - width + 1, start - 1],
        at_least,
        &mut mask,
    );
    keep_above(
        here,
        dogs,
        [start + 1, start + width - 1, start + width, start + width + 1],
        above,
        &mut mask,
    );
    for row in [before - width, before, before + width] {
        keep_above(here, dogs, [row - 1, row, row + 1], at_least, &mut mask);
    }
    for row in [after - width, after, after + width] {
        keep_above(here, dogs, [row - 1, row, row + 1], above, &mut mask);
    }
    mask
}

#[inline(always)]
fn any(mask: &[u32]) -> bool {
    mask.iter().fold(0, |any, is| any | is) != 0
}

#[inline(always)]
fn above(value: f32, neighbour: f32) -> bool {
    value > neighbour
}

#[inline(always)]
fn at_least(value: f32, neighbour: f32) -> bool {
    value >= neighbour
}

/// Clears the mask where a pixel is not farther out than its neighbour; `starts` are the neighbours of the first pixel.
#[inline(always)]
fn keep_above<const N: usize, const M: usize>(
    here: &[f32],
    dogs: &[f32],
    starts: [usize; M],
    farther: impl Fn(f32, f32) -> bool,
    mask: &mut [u32; N],
) {
    if !any(mask) {
        return;
    }
    for start in starts {
        let neighbours = &dogs[start..][..N];
        for i in 0..N {
            let sign = 1_f32.copysign(here[i]);
            mask[i] &= farther(here[i].abs(), sign * neighbours[i]) as u32;
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
