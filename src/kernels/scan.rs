//! Sums of all values before each, and of all behind the last.
//!
//! In: integers. Out: one more. The places of what a flag keeps, and how many they are.
//! One workgroup: all of them.

use crate::device::{Binding, KernelSource, params_layout};

/// The shader.
pub const SHADER: KernelSource = KernelSource {
    name: "scan",
    wgsl: include_str!("../../shaders/scan.wgsl"),
    workgroup: [256, 1, 1],
    params: params_layout!(ScanParams: n_values),
    bindings: &[Binding::read("values"), Binding::read_write("sums")],
};

/// Parameters of the shader.
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct ScanParams {
    /// Number of values.
    pub n_values: u32,
}

/// Fills `sums`, which holds one more than `values`.
pub fn scan(values: &[u32], sums: &mut [u32]) {
    let mut sum = 0;
    for (out, value) in sums.iter_mut().zip(values.iter().chain(&[0])) {
        *out = sum;
        sum += value;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_place_is_the_sum_of_what_is_before() {
        let mut sums = [9; 5];
        scan(&[1, 0, 2, 1], &mut sums);
        assert_eq!(sums, [0, 1, 1, 3, 4]);
        scan(&[], &mut sums[..1]);
        assert_eq!(sums[0], 0);
    }
}
