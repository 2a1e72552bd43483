//! Doubles a gray image by linear interpolation: pixel (2x, 2y) of the target is pixel (x, y) of the source, so
//! position p of the source lies at 2p of the target: centres stay at integers. Border clamped.
//! One invocation: a block of target rows; on the device four pixels of the target.

use crate::device::{Binding, KernelSource, params_layout};

/// The shader.
pub const SHADER: KernelSource = KernelSource {
    name: "upsample",
    wgsl: include_str!("../../shaders/upsample.wgsl"),
    workgroup: [32, 8, 1],
    params: params_layout!(UpsampleParams: source, doubled, width, height),
    bindings: &[Binding::read_write("layers")],
};

/// Parameters of the shader.
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct UpsampleParams {
    /// First value of the image among the layers.
    pub source: u32,
    /// First value of the doubled image.
    pub doubled: u32,
    /// Width of the image in pixels.
    pub width: u32,
    /// Height of the image in pixels.
    pub height: u32,
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ramp_keeps_its_place() {
        let (width, height) = (7, 5);
        let source: Vec<f32> =
            (0..width * height).map(|i| (i % width) as f32 + 10.0 * (i / width) as f32).collect();
        let mut target = vec![0.0; 4 * width * height];
        for (block, rows) in target.chunks_mut(2 * 2 * width).enumerate() {
            upsample(&source, width, height, 2 * block, rows);
        }
        for y in 0..2 * height {
            for x in 0..2 * width {
                // The last pixel has no neighbour to lean to.
                let at = |p: usize, size: usize| (0.5 * p as f32).min(size as f32 - 1.0);
                assert_eq!(target[y * 2 * width + x], at(x, width) + 10.0 * at(y, height));
            }
        }
    }
}
