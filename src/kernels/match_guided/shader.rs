//! The shader: one way, for many pairs of keyframes in one dispatch.

use std::collections::HashMap;

use crate::device::{Binding, KernelSource, params_layout};

/// The shader. Searches come two a pair, from its first keyframe and from its second, a band a pair.
pub const SHADER: KernelSource = KernelSource {
    name: "match_guided",
    wgsl: concat!(
        include_str!("../../../shaders/shared/flat_index.wgsl"),
        include_str!("../../../shaders/shared/search.wgsl"),
        include_str!("../../../shaders/shared/search_of.wgsl"),
        include_str!("../../../shaders/match_guided.wgsl")
    ),
    workgroup: [64, 1, 1],
    params: params_layout!(MatchGuidedParams: n_searches),
    bindings: &[
        Binding::read("searches"),
        Binding::read("bands"),
        Binding::read("descriptors"),
        Binding::read("spots"),
        Binding::read_write("nearest"),
    ],
};

/// Parameters of the shader.
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct MatchGuidedParams {
    /// Number of searches.
    pub n_searches: u32,
}

/// Where a keypoint lies.
#[derive(Clone, Copy, Debug, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct Spot {
    /// Pixels right of the middle of the keyframe's positions.
    pub x: f32,
    /// Pixels below it.
    pub y: f32,
    /// The first keypoint at the position; `u32::MAX` where the position is not finite.
    pub point: u32,
}

/// Positions as the shader takes them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Spots {
    /// The middle of the finite positions.
    pub middle: [f64; 2],
    /// One a keypoint.
    pub spots: Vec<Spot>,
}

impl Spots {
    /// Of positions in pixels.
    pub fn new(positions: &[[f64; 2]]) -> Spots {
        let is_finite = |at: &[f64; 2]| at.iter().all(|v| v.is_finite());
        let middle = [0, 1].map(|axis| {
            let along = positions.iter().filter(|at| is_finite(at)).map(|at| at[axis]);
            let (low, high) = along.fold((f64::MAX, f64::MIN), |(l, h), v| (l.min(v), h.max(v)));
            if low <= high { 0.5 * (low + high) } else { 0.0 }
        });
        let mut points = HashMap::new();
        let mut spot = |(i, at): (usize, &[f64; 2])| {
            if !is_finite(at) {
                return Spot { x: 0.0, y: 0.0, point: u32::MAX };
            }
            // Zero has two signs.
            let point = *points.entry(at.map(|v| (v + 0.0).to_bits())).or_insert(i as u32);
            let [x, y] = [0, 1].map(|axis| (at[axis] - middle[axis]) as f32);
            Spot { x, y, point }
        };
        Spots { middle, spots: positions.iter().enumerate().map(&mut spot).collect() }
    }
}

/// F for positions about the middles of two keyframes, and the width of the band.
#[derive(Clone, Copy, Debug, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct Band {
    /// Rows of F, its largest value 1; behind the first row the square of half the width in pixels.
    pub rows: [[f32; 4]; 3],
}

impl Band {
    /// For `f`, row-major, x2' F x1 = 0, and positions about `middles` of the first keyframe and of the second. None where
    /// no keypoint has a line.
    pub fn new(f: &[f64; 9], band_px: f64, middles: [[f64; 2]; 2]) -> Option<Band> {
        let f = nalgebra::Matrix3::from_row_slice(f);
        let shift = |[x, y]: [f64; 2]| nalgebra::Matrix3::new(1.0, 0.0, x, 0.0, 1.0, y, 0.0, 0.0, 1.0);
        let centred = shift(middles[1]).transpose() * f * shift(middles[0]);
        let largest = centred.amax();
        if !(largest > 0.0 && largest.is_finite() && centred.iter().all(|v| v.is_finite())) {
            return None;
        }
        let mut rows = [0, 1, 2].map(|r| [0, 1, 2, 0].map(|c| (centred[(r, c)] / largest) as f32));
        rows.iter_mut().for_each(|row| row[3] = 0.0);
        rows[0][3] = (band_px * band_px) as f32;
        Some(Band { rows })
    }
}
