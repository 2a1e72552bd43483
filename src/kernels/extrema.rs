//! Extrema of the DoG: pixels whose magnitude reaches a threshold and whose value is strictly above (or strictly
//! below) all 26 neighbours in x, y and scale. The outermost pixels of a layer are no candidates.
//! One invocation: a block of rows of one layer.

use std::ops::Range;

/// Pixels that are compared at once.
const SPAN: usize = 16;

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
    let last_row = height.saturating_sub(1);
    for y in rows.start.max(1)..rows.end.min(last_row) {
        let start = (layer * height + y) * width;
        let mut append = |x: usize, mask: &[u32]| {
            let extreme = mask.iter().enumerate().filter(|(_, is)| **is != 0);
            found.extend(extreme.map(|(i, _)| [(x + i) as u32, y as u32, layer as u32]));
        };
        let mut x = 1;
        while x + SPAN < width {
            append(x, &span_mask::<SPAN>(dogs, width, width * height, start + x, threshold));
            x += SPAN;
        }
        while x + 1 < width {
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
    if any(&mask) {
        for row in [start - width, start + width] {
            keep_above(here, dogs, row, [0, 1, 2], &mut mask);
        }
        keep_above(here, dogs, start, [0, 2, 2], &mut mask);
    }
    for layer in [start - layer_size, start + layer_size] {
        if any(&mask) {
            for row in [layer - width, layer, layer + width] {
                keep_above(here, dogs, row, [0, 1, 2], &mut mask);
            }
        }
    }
    mask
}

#[inline(always)]
fn any(mask: &[u32]) -> bool {
    mask.iter().fold(0, |any, is| any | is) != 0
}

/// Clears the mask where a neighbour, `shifts` less one pixel along `row`, is as far out as the pixel itself.
#[inline(always)]
fn keep_above<const N: usize>(
    here: &[f32],
    dogs: &[f32],
    row: usize,
    shifts: [usize; 3],
    mask: &mut [u32; N],
) {
    for shift in shifts {
        let neighbour = &dogs[row + shift - 1..][..N];
        for i in 0..N {
            mask[i] &= (here[i].abs() > 1_f32.copysign(here[i]) * neighbour[i]) as u32;
        }
    }
}
