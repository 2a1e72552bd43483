//! The lens models behind the cameras: what happens between the plane z = 1 and the focal length.

use std::f64::consts::FRAC_PI_2;

const MAX_ITERATIONS: usize = 100;
/// Newton stops at a step below this, in units of the focal length.
const STEP_TOLERANCE: f64 = 1e-13;
/// Distance to the given point that a solution may have, in units of the focal length.
const RESIDUAL_TOLERANCE: f64 = 1e-9;

/// A lens: plane z = 1 to distorted plane, both in units of the focal length.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Lens {
    /// Distortion of the perspective image.
    Perspective(Distortion),
    /// Equidistant projection (radius = angle to the axis), then distortion.
    Fisheye(Distortion),
    /// Devernay and Faugeras 2001: radius = atan(2 r tan(omega / 2)) / omega.
    Fov {
        /// Field of view in radians; 0 is the ideal lens.
        omega: f64,
    },
}

/// Brown's distortion: a rational radial factor in r^2, tangential terms, thin prism terms.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Distortion {
    /// Coefficients of r^2, r^4, r^6, r^8; the constant is 1.
    pub numerator: [f64; 4],
    /// The same below the fraction bar.
    pub denominator: [f64; 4],
    /// p1, p2.
    pub tangential: [f64; 2],
    /// sx1, sy1.
    pub prism: [f64; 2],
}

impl Lens {
    pub(super) fn distort(&self, [x, y]: [f64; 2]) -> Option<[f64; 2]> {
        let point = match self {
            Lens::Perspective(distortion) => distortion.apply([x, y]).0,
            Lens::Fisheye(distortion) => {
                let r = (x * x + y * y).sqrt();
                let scale = if r > f64::EPSILON { libm::atan(r) / r } else { 1.0 };
                distortion.apply([x * scale, y * scale]).0
            }
            Lens::Fov { omega } => {
                let slope = 2.0 * libm::tan(omega / 2.0);
                let r = (x * x + y * y).sqrt();
                let scale = match (*omega > 1e-9, r > 1e-9) {
                    (false, _) => 1.0,
                    (true, false) => slope / omega,
                    (true, true) => libm::atan(r * slope) / (r * omega),
                };
                [x * scale, y * scale]
            }
        };
        finite(point)
    }

    pub(super) fn undistort(&self, [x, y]: [f64; 2]) -> Option<[f64; 2]> {
        let point = match self {
            Lens::Perspective(distortion) => distortion.invert([x, y])?,
            Lens::Fisheye(distortion) => {
                let [u, v] = distortion.invert([x, y])?;
                let theta = (u * u + v * v).sqrt();
                let scale = if theta > 1e-12 { tan_below_90(theta)? / theta } else { 1.0 };
                [u * scale, v * scale]
            }
            Lens::Fov { omega } if *omega <= 1e-9 => [x, y],
            Lens::Fov { omega } => {
                let r = (x * x + y * y).sqrt();
                let slope = 2.0 * libm::tan(omega / 2.0);
                let scale = if r > 1e-12 { tan_below_90(r * omega)? / (r * slope) } else { omega / slope };
                [x * scale, y * scale]
            }
        };
        finite(point)
    }
}

fn tan_below_90(angle: f64) -> Option<f64> {
    (angle < FRAC_PI_2).then(|| libm::tan(angle))
}

fn finite(point: [f64; 2]) -> Option<[f64; 2]> {
    point.iter().all(|c| c.is_finite()).then_some(point)
}

impl Distortion {
    pub(super) fn radial(numerator: &[f64]) -> Distortion {
        let mut distortion = Distortion::default();
        distortion.numerator[..numerator.len()].copy_from_slice(numerator);
        distortion
    }

    /// The distorted point and the Jacobian [dx/dx, dx/dy, dy/dy, dy/dx].
    fn apply(&self, [x, y]: [f64; 2]) -> ([f64; 2], [f64; 4]) {
        let r2 = x * x + y * y;
        let (above, d_above) = one_plus(&self.numerator, r2);
        let (below, d_below) = one_plus(&self.denominator, r2);
        let radial = above / below;
        let d_radial = (d_above - radial * d_below) / below;
        let ([p1, p2], [sx, sy]) = (self.tangential, self.prism);
        let point = [
            x * radial + 2.0 * p1 * x * y + p2 * (r2 + 2.0 * x * x) + sx * r2,
            y * radial + 2.0 * p2 * x * y + p1 * (r2 + 2.0 * y * y) + sy * r2,
        ];
        let jacobian = [
            radial + 2.0 * x * x * d_radial + 2.0 * p1 * y + 6.0 * p2 * x + 2.0 * sx * x,
            2.0 * x * y * d_radial + 2.0 * p1 * x + 2.0 * p2 * y + 2.0 * sx * y,
            radial + 2.0 * y * y * d_radial + 2.0 * p2 * x + 6.0 * p1 * y + 2.0 * sy * y,
            2.0 * x * y * d_radial + 2.0 * p2 * y + 2.0 * p1 * x + 2.0 * sy * x,
        ];
        (point, jacobian)
    }

    /// Newton's method from the distorted point, steps limited to half the distance from the axis (at least 0.1). None
    /// where it does not arrive, or arrives on a branch that mirrors the picture.
    fn invert(&self, target: [f64; 2]) -> Option<[f64; 2]> {
        let [mut x, mut y] = target;
        for _ in 0..MAX_ITERATIONS {
            let ([px, py], [xx, xy, yy, yx]) = self.apply([x, y]);
            let (ex, ey) = (target[0] - px, target[1] - py);
            let determinant = xx * yy - xy * yx;
            let (dx, dy) = ((yy * ex - xy * ey) / determinant, (xx * ey - yx * ex) / determinant);
            let length = (dx * dx + dy * dy).sqrt();
            let bound = (0.5 * (x * x + y * y).sqrt()).max(0.1);
            let damping = if length > bound { bound / length } else { 1.0 };
            x += damping * dx;
            y += damping * dy;
            if length <= STEP_TOLERANCE || length.is_nan() {
                break;
            }
        }
        let ([px, py], [xx, xy, yy, yx]) = self.apply([x, y]);
        let off = ((px - target[0]) * (px - target[0]) + (py - target[1]) * (py - target[1])).sqrt();
        (off <= RESIDUAL_TOLERANCE && xx > 0.0 && xx * yy - xy * yx > 0.0).then_some([x, y])
    }
}

/// 1 + c0 t + c1 t^2 + ... and its derivative.
fn one_plus(coefficients: &[f64; 4], t: f64) -> (f64, f64) {
    let [a, b, c, d] = *coefficients;
    (1.0 + t * (a + t * (b + t * (c + t * d))), a + t * (2.0 * b + t * (3.0 * c + t * 4.0 * d)))
}
