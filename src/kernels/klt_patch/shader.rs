//! The shader: the patches of new tracks by slot.

use super::super::klt_track::window::weights;
use super::{MAX_CHUNKS, PatchParams, chunks, offsets};
use crate::device::{Binding, Buffer, DeviceError, Gpu, Kernel, KernelSource, params_layout};
use crate::klt::KltOptions;

/// Bit of a track's slot on the device: the track is new.
pub const IS_NEW: u32 = 1 << 31;

/// Lanes of a track, a workgroup, with sums over subgroups.
const SUBGROUP_LANES: usize = 32;

const FOLD_WORKGROUP: &str = include_str!("../../../shaders/shared/fold_twelve_workgroup.wgsl");
const FOLD_SUBGROUP: &str = include_str!("../../../shaders/shared/fold_twelve_subgroup.wgsl");

/// The shader for any adapter. `slots` holds the slot of each track; `starts` of those with `IS_NEW` are seeds.
pub const SHADER: KernelSource = KernelSource {
    name: "klt_patch",
    wgsl: concat!(
        include_str!("../../../shaders/shared/track_record.wgsl"),
        include_str!("../../../shaders/shared/taps.wgsl"),
        include_str!("../../../shaders/shared/anchor.wgsl"),
        include_str!("../../../shaders/shared/fold_twelve_workgroup.wgsl"),
        include_str!("../../../shaders/klt_patch.wgsl")
    ),
    workgroup: [16, 1, 1],
    params: params_layout!(KltPatchParams: begin, first, width, height, window_px, min_eigen),
    bindings: &[
        Binding::read("window"),
        Binding::read("pyramid"),
        Binding::read("gradient_x"),
        Binding::read("gradient_y"),
        Binding::read("starts"),
        Binding::read("slots"),
        Binding::read_write("sums"),
        Binding::read_write("samples"),
        Binding::read_write("anchors"),
    ],
};

/// Parameters of the shader.
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct KltPatchParams {
    /// Where level 0 of the seeds' frame begins in the planes.
    pub begin: u32,
    /// First track; a workgroup each from there on.
    pub first: u32,
    /// Width of the frame.
    pub width: u32,
    /// Its height.
    pub height: u32,
    /// As in `PatchParams`.
    pub window_px: u32,
    /// As in `PatchParams`.
    pub min_eigen: f32,
}

impl KltPatchParams {
    /// For tracks from `first` on and frames of `width` x `height` that begin at `begin`.
    pub fn new(
        options: &KltOptions,
        [width, height]: [usize; 2],
        begin: usize,
        first: usize,
    ) -> KltPatchParams {
        let PatchParams { window_px, min_eigen } = options.patch_params();
        KltPatchParams {
            begin: begin as u32,
            first: first as u32,
            width: width as u32,
            height: height as u32,
            window_px: window_px as u32,
            min_eigen,
        }
    }
}

/// Of each sample of a window of `window_px`: its weight, u and v, and 0.
///
/// # Errors
/// The device has no memory for it.
pub fn window_on_device(gpu: &Gpu, window_px: usize) -> Result<Buffer<[f32; 4]>, DeviceError> {
    let (weights, [u, v]) = (weights::<MAX_CHUNKS>(window_px), offsets(window_px));
    let [weights, u, v] = [weights.as_flattened(), u.as_flattened(), v.as_flattened()];
    let samples = weights.iter().zip(u).zip(v).map(|((&weight, &u), &v)| [weight, u, v, 0.0]);
    let samples: Vec<[f32; 4]> = samples.take(16 * chunks(window_px)).collect();
    gpu.buffer_with("window", &samples)
}

/// The kernel: with sums over subgroups where those of the adapter hold a track's lanes, else through workgroup memory.
///
/// # Errors
/// The shader does not compile.
pub fn kernel(gpu: &Gpu) -> Result<Kernel, DeviceError> {
    folding(gpu, &SHADER)
}

/// The kernel of a source whose text folds twelve sums.
pub fn folding(gpu: &Gpu, source: &'static KernelSource) -> Result<Kernel, DeviceError> {
    if gpu.smallest_subgroup().is_some_and(|size| size >= SUBGROUP_LANES) {
        gpu.kernel_of_text(source, &text_by_subgroups(source))
    } else {
        gpu.kernel(source, &[])
    }
}

fn text_by_subgroups(source: &KernelSource) -> String {
    source.wgsl.replacen(FOLD_WORKGROUP, FOLD_SUBGROUP, 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::validate;
    use crate::kernels::klt_anchor;

    #[test]
    fn both_forms_of_both_shaders_are_valid() {
        for source in [&SHADER, &klt_anchor::SHADER] {
            let text = text_by_subgroups(source);
            assert_ne!(text, source.wgsl, "{}", source.name);
            for text in [source.wgsl, &text] {
                validate(text).unwrap_or_else(|error| panic!("{}: {error}", source.name));
            }
        }
    }
}
