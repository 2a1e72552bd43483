//! Gathers the kept picks in cell order.
//!
//! In: one pick and one flag a cell. Out: the kept picks, cells row by row, as positions in pixels.
//! One invocation: one cell, at the place that the scan of the flags gives it.

use super::klt_select::Pick;
use crate::device::{Binding, KernelSource, params_layout};
use crate::klt::SelectedPoint;

/// The shader. `sums` is the scan of `kept`.
pub const SHADER: KernelSource = KernelSource {
    name: "klt_compact",
    wgsl: concat!(
        include_str!("../../shaders/shared/flat_index.wgsl"),
        include_str!("../../shaders/shared/pick.wgsl"),
        include_str!("../../shaders/klt_compact.wgsl")
    ),
    workgroup: [256, 1, 1],
    params: params_layout!(KltCompactParams: n_cells),
    bindings: &[
        Binding::read("picks"),
        Binding::read("kept"),
        Binding::read("sums"),
        Binding::read_write("points"),
    ],
};

/// Parameters of the shader.
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct KltCompactParams {
    /// Number of cells.
    pub n_cells: u32,
}

/// Appends the kept picks to `out`.
pub fn klt_compact(picks: &[Pick], kept: &[bool], out: &mut Vec<SelectedPoint>) {
    let points = picks.iter().zip(kept).filter(|&(_, &kept)| kept);
    out.extend(points.map(|(p, _)| SelectedPoint { x: p.x as f32, y: p.y as f32, strength: p.strength }));
}
