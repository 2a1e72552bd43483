//! The shader: the alignment of live records with the patches of their slots.

use super::super::klt_patch::folding;
use super::AnchorParams;
use crate::device::{Binding, DeviceError, Gpu, Kernel, KernelSource, params_layout};
use crate::klt::KltOptions;

/// The shader for any adapter. Records that are taken are written in place.
pub const SHADER: KernelSource = KernelSource {
    name: "klt_anchor",
    wgsl: concat!(
        include_str!("../../../shaders/shared/track_record.wgsl"),
        include_str!("../../../shaders/shared/taps.wgsl"),
        include_str!("../../../shaders/shared/anchor.wgsl"),
        include_str!("../../../shaders/shared/fold_twelve_workgroup.wgsl"),
        include_str!("../../../shaders/klt_anchor.wgsl")
    ),
    workgroup: [16, 1, 1],
    params: params_layout!(
        KltAnchorParams: begin, first, width, height, window_px, max_iterations, epsilon_px, min_ncc, seen_ncc
    ),
    bindings: &[
        Binding::read("window"),
        Binding::read("pyramid"),
        Binding::read("sums"),
        Binding::read("samples"),
        Binding::read("slots"),
        Binding::read_write("anchors"),
        Binding::read_write("records"),
    ],
};

/// Parameters of the shader.
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct KltAnchorParams {
    /// Where level 0 of the frame begins in the pyramid.
    pub begin: u32,
    /// First track; a workgroup each from there on.
    pub first: u32,
    /// Width of the frame.
    pub width: u32,
    /// Its height.
    pub height: u32,
    /// As in `AnchorParams`.
    pub window_px: u32,
    /// As in `AnchorParams`.
    pub max_iterations: u32,
    /// As in `AnchorParams`.
    pub epsilon_px: f32,
    /// As in `AnchorParams`.
    pub min_ncc: f32,
    /// As in `AnchorParams`.
    pub seen_ncc: f32,
}

impl KltAnchorParams {
    /// For tracks from `first` on and frames of `width` x `height` that begin at `begin`.
    pub fn new(
        options: &KltOptions,
        [width, height]: [usize; 2],
        begin: usize,
        first: usize,
    ) -> KltAnchorParams {
        let AnchorParams { window_px, max_iterations, epsilon_px, min_ncc, seen_ncc } =
            options.anchor_params();
        KltAnchorParams {
            begin: begin as u32,
            first: first as u32,
            width: width as u32,
            height: height as u32,
            window_px: window_px as u32,
            max_iterations,
            epsilon_px,
            min_ncc,
            seen_ncc,
        }
    }
}

/// The kernel: with sums over subgroups where those of the adapter hold a track's lanes, else through workgroup memory.
///
/// # Errors
/// The shader does not compile.
pub fn kernel(gpu: &Gpu) -> Result<Kernel, DeviceError> {
    folding(gpu, &SHADER)
}
