//! Sub-pixel position of a DoG extremum (Brown and Lowe 2002; Lowe 2004, section 4): Newton steps, a neighbour taken as
//! the new centre while it is nearer. Beyond the quadratic, whose peak is off by up to 0.03 pixels: third and fourth
//! derivatives along x and y, and the change of curvature with scale. Weak extrema and those on edges (section 4.1) are
//! dropped. Positions are pixels of the octave, centres at integers.
//! One invocation: one extremum.

use super::extrema::MARGIN;
use super::sift_point::{MAX_OCTAVES, OctaveShape};
use super::strength::StrengthGrid;
use crate::device::{Binding, KernelSource, params_layout};

/// The shader.
pub const SHADER: KernelSource = KernelSource {
    name: "refine",
    wgsl: concat!(
        include_str!("../../shaders/shared/flat_index.wgsl"),
        include_str!("../../shaders/shared/sift_point.wgsl"),
        include_str!("../../shaders/shared/candidate.wgsl"),
        include_str!("../../shaders/shared/refined_point.wgsl"),
        include_str!("../../shaders/shared/strength.wgsl"),
        include_str!("../../shaders/refine.wgsl")
    ),
    workgroup: [64, 1, 1],
    params: params_layout!(
        RefineParams: octaves, grid, n_dogs, capacity, min_contrast, edge_ratio, six, twelve, unused
    ),
    bindings: &[
        Binding::read("gaussians"),
        Binding::read("candidates"),
        Binding::read_write("counts"),
        Binding::read_write("points"),
        Binding::read_write("strengths"),
    ],
};

/// Parameters of the shader.
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct RefineParams {
    octaves: [OctaveShape; MAX_OCTAVES],
    grid: StrengthGrid,
    n_dogs: u32,
    capacity: u32,
    min_contrast: f32,
    edge_ratio: f32,
    six: f32,
    twelve: f32,
    unused: [u32; 2],
}

impl RefineParams {
    /// For `octaves` of `n_dogs` DoG layers and up to `capacity` candidates. The shader counts strengths by `grid`.
    pub fn new(
        octaves: [OctaveShape; MAX_OCTAVES],
        grid: StrengthGrid,
        n_dogs: usize,
        RefineLimits { min_contrast, edge_ratio }: RefineLimits,
        capacity: usize,
    ) -> RefineParams {
        let [n_dogs, capacity] = [n_dogs, capacity].map(|n| n as u32);
        let (six, twelve, unused) = (6.0, 12.0, [0; 2]);
        RefineParams { octaves, grid, n_dogs, capacity, min_contrast, edge_ratio, six, twelve, unused }
    }

    /// Workgroups of the dispatch.
    pub fn groups(&self) -> [u32; 3] {
        SHADER.flat_groups(self.capacity as usize)
    }
}

/// A refined extremum as the shader leaves it: position in pixels of its octave.
#[derive(Clone, Copy, Debug, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct RefinedPoint {
    /// Index of the octave.
    pub octave: u32,
    /// Nearest DoG layer.
    pub layer: u32,
    /// Refined column.
    pub x: f32,
    /// Refined row.
    pub y: f32,
    /// Refined layer.
    pub level: f32,
    /// DoG there.
    pub value: f32,
    /// Nearest column.
    pub column: u32,
    /// Nearest row.
    pub row: u32,
}

/// The limits a refined extremum has to keep.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RefineLimits {
    /// Least |DoG| at the refined position.
    pub min_contrast: f32,
    /// Largest ratio of the principal curvatures in x, y.
    pub edge_ratio: f32,
}

/// A refined extremum.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Extremum {
    /// The nearest pixel and DoG layer: x, y, layer.
    pub pixel: [u32; 3],
    /// Refined x, y and layer.
    pub position: [f32; 3],
    /// DoG there.
    pub value: f32,
}

/// Moves to another centre.
const MAX_MOVES: usize = 5;
/// Pixels around an extremum that its refinement looks at: moves, and two for derivatives.
pub const REACH: usize = MAX_MOVES + 2;
/// An offset beyond this belongs to the neighbour: more than a half, so that no pair of centres sends it to and fro.
pub const MOVE_OFFSET: f32 = 0.6;
/// Newton steps after the first, with the gradient's higher terms.
const CORRECTIONS: usize = 3;

/// Refines the extremum at `start` (x, y, layer) of `n_layers` DoG layers that lie one after another in `dogs`.
#[inline(always)]
pub fn refine(
    dogs: &[f32],
    width: usize,
    height: usize,
    n_layers: usize,
    start: [u32; 3],
    limits: RefineLimits,
) -> Option<Extremum> {
    let sizes = [width, height, n_layers];
    let margins = [MARGIN, MARGIN, 1];
    let mut pixel = start.map(|index| index as usize);
    for _ in 0..=MAX_MOVES {
        let cube = Neighbourhood::new(dogs, width, height, pixel);
        let offset = cube.offset()?;
        if offset.iter().all(|component| component.abs() <= MOVE_OFFSET) {
            return cube.extremum(pixel, offset, limits);
        }
        for axis in 0..3 {
            if offset[axis].abs() > MOVE_OFFSET {
                pixel[axis] = pixel[axis].wrapping_add_signed(if offset[axis] > 0.0 { 1 } else { -1 });
            }
            if pixel[axis] < margins[axis] || pixel[axis] + margins[axis] >= sizes[axis] {
                return None;
            }
        }
    }
    None
}

/// Value and derivatives at a pixel.
struct Neighbourhood {
    value: f32,
    gradient: [f32; 3],
    /// xx, yy, ss, xy, xs, ys.
    hessian: [f32; 6],
    /// Third and fourth derivative along x and y, and the second's change with scale.
    higher: [[f32; 3]; 2],
}

impl Neighbourhood {
    #[inline(always)]
    fn new(dogs: &[f32], width: usize, height: usize, [x, y, layer]: [usize; 3]) -> Self {
        let at = |dx: isize, dy: isize, ds: isize| {
            let row = (layer.wrapping_add_signed(ds) * height + y).wrapping_add_signed(dy);
            dogs[(row * width + x).wrapping_add_signed(dx)]
        };
        let value = at(0, 0, 0);
        let [gx, xx, xxx, xxxx] = derivatives([at(-2, 0, 0), at(-1, 0, 0), value, at(1, 0, 0), at(2, 0, 0)]);
        let [gy, yy, yyy, yyyy] = derivatives([at(0, -2, 0), at(0, -1, 0), value, at(0, 1, 0), at(0, 2, 0)]);
        let (coarser, finer) = (at(0, 0, 1), at(0, 0, -1));
        let (gs, ss) = (0.5 * (coarser - finer), coarser + finer - 2.0 * value);
        let xy = 0.25 * (at(1, 1, 0) + at(-1, -1, 0) - at(-1, 1, 0) - at(1, -1, 0));
        let xs = 0.25 * (at(1, 0, 1) + at(-1, 0, -1) - at(-1, 0, 1) - at(1, 0, -1));
        let ys = 0.25 * (at(0, 1, 1) + at(0, -1, -1) - at(0, -1, 1) - at(0, 1, -1));
        let curvature = |before: f32, here: f32, after: f32| before + after - 2.0 * here;
        let xxs = 0.5
            * (curvature(at(-1, 0, 1), coarser, at(1, 0, 1)) - curvature(at(-1, 0, -1), finer, at(1, 0, -1)));
        let yys = 0.5
            * (curvature(at(0, -1, 1), coarser, at(0, 1, 1)) - curvature(at(0, -1, -1), finer, at(0, 1, -1)));
        Neighbourhood {
            value,
            gradient: [gx, gy, gs],
            hessian: [xx, yy, ss, xy, xs, ys],
            higher: [[xxx, xxxx, xxs], [yyy, yyyy, yys]],
        }
    }

    /// Newton step to the extremum: of the quadratic first, then with the gradient's higher terms at the last step.
    #[inline(always)]
    fn offset(&self) -> Option<[f32; 3]> {
        let mut step = self.newton_step(self.gradient)?;
        for _ in 0..CORRECTIONS {
            let mut gradient = self.gradient;
            for axis in 0..2 {
                let ([third, fourth, scale], along) = (self.higher[axis], step[axis].clamp(-1.0, 1.0));
                gradient[axis] += along * along * (third / 2.0 + along * fourth / 6.0);
                gradient[axis] += along * scale * step[2].clamp(-1.0, 1.0);
                gradient[2] += 0.5 * along * along * scale;
            }
            step = self.newton_step(gradient)?;
        }
        Some(step)
    }

    /// -H^-1 g by cofactors; none where H is singular.
    #[inline(always)]
    fn newton_step(&self, [gx, gy, gs]: [f32; 3]) -> Option<[f32; 3]> {
        let [xx, yy, ss, xy, xs, ys] = self.hessian;
        let (c_xx, c_xy, c_xs) = (yy * ss - ys * ys, xs * ys - xy * ss, xy * ys - yy * xs);
        let (c_yy, c_ys, c_ss) = (xx * ss - xs * xs, xy * xs - xx * ys, xx * yy - xy * xy);
        let determinant = xx * c_xx + xy * c_xy + xs * c_xs;
        if determinant == 0.0 {
            return None;
        }
        let scale = -1.0 / determinant;
        let step = [
            scale * (c_xx * gx + c_xy * gy + c_xs * gs),
            scale * (c_xy * gx + c_yy * gy + c_ys * gs),
            scale * (c_xs * gx + c_ys * gy + c_ss * gs),
        ];
        step.iter().all(|component| component.is_finite()).then_some(step)
    }

    #[inline(always)]
    fn extremum(&self, pixel: [usize; 3], offset: [f32; 3], limits: RefineLimits) -> Option<Extremum> {
        let [gx, gy, gs] = self.gradient;
        let value = self.value + 0.5 * (gx * offset[0] + gy * offset[1] + gs * offset[2]);
        let [xx, yy, _, xy, ..] = self.hessian;
        let (trace, determinant) = (xx + yy, xx * yy - xy * xy);
        let edge_limit = (limits.edge_ratio + 1.0) * (limits.edge_ratio + 1.0);
        if value.abs() < limits.min_contrast
            || determinant <= 0.0
            || trace * trace * limits.edge_ratio >= edge_limit * determinant
        {
            return None;
        }
        let position = [0, 1, 2].map(|axis| pixel[axis] as f32 + offset[axis]);
        Some(Extremum { pixel: pixel.map(|index| index as u32), position, value })
    }
}

/// First to fourth derivative in the middle of five samples a pixel apart, the first two exact to the fourth order.
#[inline(always)]
fn derivatives([far_before, before, here, after, far_after]: [f32; 5]) -> [f32; 4] {
    let (near_odd, far_odd) = (after - before, far_after - far_before);
    let (near_even, far_even) = (after + before - 2.0 * here, far_after + far_before - 2.0 * here);
    [
        (8.0 * near_odd - far_odd) / 12.0,
        (16.0 * near_even - far_even) / 12.0,
        (far_odd - 2.0 * near_odd) / 2.0,
        far_even - 4.0 * near_even,
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: RefineLimits = RefineLimits { min_contrast: 0.01, edge_ratio: 10.0 };

    /// Three layers of 15 x 15 pixels of a peak of unit height at `at`.
    fn peak(at: [f32; 3], sigmas: [f32; 3]) -> Vec<f32> {
        let value = |i: usize| {
            let pixel = [i % 15, i / 15 % 15, i / 225];
            let ratio = |axis: usize| (pixel[axis] as f32 - at[axis]) / sigmas[axis];
            libm::expf(-0.5 * (ratio(0) * ratio(0) + ratio(1) * ratio(1) + ratio(2) * ratio(2)))
        };
        (0..3 * 225).map(value).collect()
    }

    #[test]
    fn a_gaussian_peak_is_found_from_the_pixel_beside_it() {
        let at = [7.4, 6.7, 1.2];
        for start in [[7, 7, 1], [8, 6, 1]] {
            let extremum = refine(&peak(at, [2.2, 2.6, 2.0]), 15, 15, 3, start, LIMITS).unwrap();
            assert_eq!(extremum.pixel, [7, 7, 1]);
            for axis in 0..2 {
                assert!((extremum.position[axis] - at[axis]).abs() < 0.01, "{:?}", extremum.position);
            }
            assert!((extremum.position[2] - at[2]).abs() < 0.05 && (extremum.value - 1.0).abs() < 0.01);
        }
    }

    #[test]
    fn edges_weak_and_outlying_extrema_are_dropped() {
        let round = peak([7.2, 7.1, 1.0], [2.0, 2.0, 2.0]);
        let refined = |dogs: &[f32], limits| refine(dogs, 15, 15, 3, [7, 7, 1], limits);
        assert!(refined(&round, LIMITS).is_some());
        assert_eq!(refined(&round, RefineLimits { min_contrast: 1.1, ..LIMITS }), None);
        // Curvatures 1 / 4 and 1 / 49 have a ratio of 12.
        let edge = peak([7.2, 7.1, 1.0], [2.0, 7.0, 2.0]);
        assert_eq!(refined(&edge, LIMITS), None);
        assert!(refined(&edge, RefineLimits { edge_ratio: 15.0, ..LIMITS }).is_some());
        assert_eq!(refined(&peak([7.2, 7.1, 2.4], [2.0, 2.0, 2.0]), LIMITS), None);
        assert_eq!(refined(&vec![0.5; 675], LIMITS), None);
    }
}
