//! The largest value of an eigenvalue map; 0 for an empty one.
//!
//! In: values of 0 or more, no NaN, so that the order of comparisons does not matter. Out: one value.
//! One workgroup: one strip of values; the strips' values in turn until one is left.

use crate::device::{Binding, KernelSource, params_layout};
use crate::numerics::vectorized;

/// Values a workgroup takes.
pub const STRIP: usize = 4096;

/// The shader. Its output holds one value a strip.
pub const SHADER: KernelSource = KernelSource {
    name: "eigen_max",
    wgsl: include_str!("../../shaders/eigen_max.wgsl"),
    workgroup: [256, 1, 1],
    params: params_layout!(EigenMaxParams: n_values),
    bindings: &[Binding::read("values"), Binding::read_write("strips")],
};

/// Parameters of the shader.
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct EigenMaxParams {
    /// Number of values.
    pub n_values: u32,
}

impl EigenMaxParams {
    /// Parameters for `n_values`.
    pub fn new(n_values: usize) -> EigenMaxParams {
        EigenMaxParams { n_values: n_values as u32 }
    }
}

/// The largest of `values`, at least 0.
pub fn eigen_max(values: &[f32]) -> f32 {
    vectorized(
        #[inline(always)]
        || {
            let mut lanes = [0.0f32; 16];
            let (chunks, rest) = values.as_chunks::<16>();
            for chunk in chunks {
                for lane in 0..16 {
                    lanes[lane] = if chunk[lane] > lanes[lane] { chunk[lane] } else { lanes[lane] };
                }
            }
            lanes.iter().chain(rest).fold(0.0, |max, &value| if value > max { value } else { max })
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_is_found_wherever_it_is() {
        assert_eq!(eigen_max(&[]), 0.0);
        for i in 0..37 {
            let mut values = vec![0.5; 37];
            values[i] = 2.0;
            assert_eq!(eigen_max(&values), 2.0, "at {i}");
        }
    }
}
