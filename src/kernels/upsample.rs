//! Doubles a gray image by linear interpolation: pixel (2x, 2y) of the target is pixel (x, y) of the source, so
//! position p of the source lies at 2p of the target: centres stay at integers. Border clamped.
//! One invocation: a block of target rows.

/// Writes the rows from `first_row` on of the doubled image (2 `width` pixels a row) to `target`.
#[inline(always)]
pub fn upsample(source: &[f32], width: usize, height: usize, first_row: usize, target: &mut [f32]) {
    for (block_row, target_row) in target.chunks_exact_mut(2 * width).enumerate() {
        let y = first_row + block_row;
        let upper = &source[y / 2 * width..][..width];
        let lower = &source[y.div_ceil(2).min(height - 1) * width..][..width];
        for x in 0..width {
            let next = (x + 1).min(width - 1);
            let here = 0.5 * (upper[x] + lower[x]);
            target_row[2 * x] = here;
            target_row[2 * x + 1] = 0.5 * (here + 0.5 * (upper[next] + lower[next]));
        }
    }
}
