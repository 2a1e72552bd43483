//! The shader: one way, for many pairs of keyframes in one dispatch.

use std::collections::HashMap;

use super::tiles::{TILE, Tiles};
use crate::device::{Binding, KernelSource, params_layout};

/// The shader. Searches come two a pair, from its first keyframe and from its second, a band a pair. Descriptors of a keyframe
/// are in its own order and begin at a multiple of [`TILE`], its spots are at the same places, its tiles at places / `TILE`.
pub const SHADER: KernelSource = KernelSource {
    name: "match_guided",
    wgsl: concat!(
        include_str!("../../../shaders/shared/flat_index.wgsl"),
        include_str!("../../../shaders/shared/search.wgsl"),
        include_str!("../../../shaders/shared/search_of.wgsl"),
        include_str!("../../../shaders/match_guided.wgsl")
    ),
    workgroup: [32, 1, 1],
    params: params_layout!(MatchGuidedParams: n_searches),
    bindings: &[
        Binding::read("searches"),
        Binding::read("bands"),
        Binding::read("descriptors"),
        Binding::read("spots"),
        Binding::read("tiles"),
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
    /// The keypoint.
    pub index: u32,
}

/// What holds the spots of a tile.
#[derive(Clone, Copy, Debug, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct SpotBounds {
    /// Middle, in pixels from that of the keyframe's positions.
    pub middle: [f32; 2],
    /// Half of its sides.
    pub half: [f32; 2],
}

/// Positions as the shader takes them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Spots {
    /// The middle of the finite positions.
    pub middle: [f64; 2],
    /// One a keypoint, tile by tile; keypoints without a finite position come last.
    pub spots: Vec<Spot>,
    /// One a tile.
    pub bounds: Vec<SpotBounds>,
}

impl Spots {
    /// Of positions in pixels.
    pub fn new(positions: &[[f64; 2]]) -> Spots {
        let tiles = Tiles::new(positions);
        let middle = tiles.middle();
        let mut points = HashMap::new();
        for (at, i) in positions.iter().zip(0..) {
            points.entry(bits(at)).or_insert(i);
        }
        let in_tiles = || tiles.tiles.iter().flat_map(|tile| tile.index).filter(|&index| index != u32::MAX);
        let spot = |index: u32| {
            let at = &positions[index as usize];
            let [x, y] = [0, 1].map(|axis| (at[axis] - middle[axis]) as f32);
            Spot { x, y, point: points[&bits(at)], index }
        };
        let mut spots: Vec<Spot> = in_tiles().map(spot).collect();
        let nowhere = |(_, at): &(u32, &[f64; 2])| at.iter().any(|v| !v.is_finite());
        let others = (0..).zip(positions).filter(nowhere);
        spots.extend(others.map(|(index, _)| Spot { x: 0.0, y: 0.0, point: u32::MAX, index }));
        let bounds = spots.chunks(TILE).map(SpotBounds::of).collect();
        Spots { middle, spots, bounds }
    }
}

/// Equal for equal positions: zero has two signs.
fn bits(at: &[f64; 2]) -> [u64; 2] {
    at.map(|v| (v + 0.0).to_bits())
}

impl SpotBounds {
    fn of(spots: &[Spot]) -> SpotBounds {
        let along = |of: fn(&Spot) -> f32| {
            let values = spots.iter().filter(|spot| spot.point != u32::MAX).map(of);
            let (low, high) = values.fold((f32::MAX, f32::MIN), |(l, h), v| (l.min(v), h.max(v)));
            if low <= high { (0.5 * low + 0.5 * high, 0.5 * high - 0.5 * low) } else { (0.0, 0.0) }
        };
        let (x, y) = (along(|spot| spot.x), along(|spot| spot.y));
        SpotBounds { middle: [x.0, y.0], half: [x.1, y.1] }
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
