//! Difference of two Gaussian layers of an octave: the coarser less the finer.
//! One invocation: any run of pixels.

/// Writes `coarser - finer`; all slices are of one length.
#[inline(always)]
pub fn dog(finer: &[f32], coarser: &[f32], target: &mut [f32]) {
    for ((difference, fine), coarse) in target.iter_mut().zip(finer).zip(coarser) {
        *difference = coarse - fine;
    }
}
