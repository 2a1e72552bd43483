//! Scharr gradients of a pyramid level: (3, 10, 3) / 32 across, central difference along.
//!
//! In: gray, row by row. Out: d/dx and d/dy a pixel of that level (a ramp of slope 1 gives 1). Reads clamp to the
//! border.
//! One invocation: one pixel.

use rayon::prelude::*;

use crate::numerics::vectorized;

const ROWS: usize = 16;
const SIDE: f32 = 3.0 / 32.0;
const CENTRE: f32 = 10.0 / 32.0;

/// Fills both gradients of `gray`, which has `width` values a row.
pub fn scharr(gray: &[f32], width: usize, gradient_x: &mut [f32], gradient_y: &mut [f32]) {
    if width == 0 || gray.is_empty() {
        return;
    }
    let last = gray.len() / width - 1;
    let row = |y: usize| &gray[y * width..(y + 1) * width];
    gradient_x
        .par_chunks_mut(width * ROWS)
        .zip(gradient_y.par_chunks_mut(width * ROWS))
        .enumerate()
        .for_each(|(chunk, (rows_x, rows_y))| {
            vectorized(
                #[inline(always)]
                || {
                    let rows = rows_x.chunks_exact_mut(width).zip(rows_y.chunks_exact_mut(width));
                    for (i, (out_x, out_y)) in rows.enumerate() {
                        let y = chunk * ROWS + i;
                        scharr_row([row(y.saturating_sub(1)), row(y), row((y + 1).min(last))], out_x, out_y);
                    }
                },
            )
        });
}

#[inline(always)]
fn scharr_row([above, row, below]: [&[f32]; 3], out_x: &mut [f32], out_y: &mut [f32]) {
    let n = row.len();
    let at = |left: [f32; 3], centre: [f32; 2], right: [f32; 3]| {
        let x = SIDE * ((right[0] - left[0]) + (right[2] - left[2])) + CENTRE * (right[1] - left[1]);
        let y = SIDE * ((left[2] - left[0]) + (right[2] - right[0])) + CENTRE * (centre[1] - centre[0]);
        (x, y)
    };
    let column = |x: usize| [above[x], row[x], below[x]];
    for x in [0, n - 1] {
        (out_x[x], out_y[x]) =
            at(column(x.saturating_sub(1)), [above[x], below[x]], column((x + 1).min(n - 1)));
    }
    if n > 2 {
        let (above, row, below) = (&above[..n], &row[..n], &below[..n]);
        let (out_x, out_y) = (&mut out_x[..n], &mut out_y[..n]);
        for x in 1..n - 1 {
            let left = [above[x - 1], row[x - 1], below[x - 1]];
            let right = [above[x + 1], row[x + 1], below[x + 1]];
            (out_x[x], out_y[x]) = at(left, [above[x], below[x]], right);
        }
    }
}
