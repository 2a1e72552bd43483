//! Sub-pixel position of a DoG extremum (Brown and Lowe 2002; Lowe 2004, section 4): Newton steps on the quadratic
//! through the 3 x 3 x 3 neighbourhood, a neighbour taken as the new centre while it is nearer. Weak ones and those on
//! edges (section 4.1) are dropped. Positions are pixels of the octave, centres at integers.
//! One invocation: one extremum.

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
/// An offset beyond this belongs to the neighbour: more than a half, so that no pair of centres sends it to and fro.
const MOVE_OFFSET: f32 = 0.6;

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
    let mut pixel = start.map(|index| index as usize);
    for _ in 0..=MAX_MOVES {
        let cube = Neighbourhood::new(dogs, width, height, pixel);
        let offset = cube.newton_step()?;
        if offset.iter().all(|component| component.abs() <= MOVE_OFFSET) {
            return cube.extremum(pixel, offset, limits);
        }
        for axis in 0..3 {
            if offset[axis].abs() > MOVE_OFFSET {
                pixel[axis] = pixel[axis].wrapping_add_signed(if offset[axis] > 0.0 { 1 } else { -1 });
            }
            if pixel[axis] < 1 || pixel[axis] > sizes[axis] - 2 {
                return None;
            }
        }
    }
    None
}

/// Value, gradient and Hessian at a pixel, by central differences.
struct Neighbourhood {
    value: f32,
    gradient: [f32; 3],
    /// xx, yy, ss, xy, xs, ys.
    hessian: [f32; 6],
}

impl Neighbourhood {
    #[inline(always)]
    fn new(dogs: &[f32], width: usize, height: usize, [x, y, layer]: [usize; 3]) -> Self {
        let at = |dx: isize, dy: isize, ds: isize| {
            let row = (layer.wrapping_add_signed(ds) * height + y).wrapping_add_signed(dy);
            dogs[(row * width + x).wrapping_add_signed(dx)]
        };
        let value = at(0, 0, 0);
        let slope = |after: f32, before: f32| 0.5 * (after - before);
        let curvature = |after: f32, before: f32| after + before - 2.0 * value;
        let (right, left) = (at(1, 0, 0), at(-1, 0, 0));
        let (down, up) = (at(0, 1, 0), at(0, -1, 0));
        let (coarser, finer) = (at(0, 0, 1), at(0, 0, -1));
        let xy = 0.25 * (at(1, 1, 0) + at(-1, -1, 0) - at(-1, 1, 0) - at(1, -1, 0));
        let xs = 0.25 * (at(1, 0, 1) + at(-1, 0, -1) - at(-1, 0, 1) - at(1, 0, -1));
        let ys = 0.25 * (at(0, 1, 1) + at(0, -1, -1) - at(0, -1, 1) - at(0, 1, -1));
        Neighbourhood {
            value,
            gradient: [slope(right, left), slope(down, up), slope(coarser, finer)],
            hessian: [curvature(right, left), curvature(down, up), curvature(coarser, finer), xy, xs, ys],
        }
    }

    /// The step to the extremum of the quadratic, -H^-1 g by cofactors; none where H is singular.
    #[inline(always)]
    fn newton_step(&self) -> Option<[f32; 3]> {
        let [xx, yy, ss, xy, xs, ys] = self.hessian;
        let (c_xx, c_xy, c_xs) = (yy * ss - ys * ys, xs * ys - xy * ss, xy * ys - yy * xs);
        let (c_yy, c_ys, c_ss) = (xx * ss - xs * xs, xy * xs - xx * ys, xx * yy - xy * xy);
        let determinant = xx * c_xx + xy * c_xy + xs * c_xs;
        if determinant == 0.0 {
            return None;
        }
        let [gx, gy, gs] = self.gradient;
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
