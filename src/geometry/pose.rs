//! Relative poses: cheirality and quaternions.

use nalgebra::{Matrix3, Quaternion, UnitQuaternion, Vector3};

use super::essential::{EssentialChart, decompose};

/// Rays closer together than this sine do not tell front from back.
const MIN_SINE: f64 = 1e-6;

/// The motion of an essential matrix that puts most of the pairs in front of both cameras; of equals the first.
pub fn motion_in_front(
    essential: &Matrix3<f64>,
    pairs: impl Iterator<Item = [f64; 4]> + Clone,
) -> Option<EssentialChart> {
    let motions = decompose(essential)?;
    let in_front =
        motions.each_ref().map(|motion| pairs.clone().filter(|pair| is_in_front(motion, pair)).count());
    let best = (0..4).reduce(|a, b| if in_front[b] > in_front[a] { b } else { a })?;
    Some(motions[best].clone())
}

/// Whether the rays meet in front of both cameras.
fn is_in_front(motion: &EssentialChart, &[x1, y1, x2, y2]: &[f64; 4]) -> bool {
    let first = motion.rotation * Vector3::new(x1, y1, 1.0);
    let second = Vector3::new(x2, y2, 1.0);
    let across = first.cross(&second);
    // From depth1 first + t = depth2 second, multiplied by either ray.
    let depth1 = -motion.translation.cross(&second).dot(&across);
    let depth2 = -motion.translation.cross(&first).dot(&across);
    let bound = MIN_SINE * MIN_SINE * first.norm_squared() * second.norm_squared();
    across.norm_squared() > bound && depth1 > 0.0 && depth2 > 0.0
}

/// The unit quaternion (w, x, y, z) of a rotation, w not negative (Shepperd 1978).
pub fn quaternion(rotation: &Matrix3<f64>) -> [f64; 4] {
    let r = rotation;
    let trace = r.trace();
    let diagonal = [trace, r[(0, 0)], r[(1, 1)], r[(2, 2)]];
    let largest = (0..4).fold(0, |a, b| if diagonal[b] > diagonal[a] { b } else { a });
    // Four times the products of the largest component with all.
    let (xy, xz, yz) = (r[(1, 0)] + r[(0, 1)], r[(0, 2)] + r[(2, 0)], r[(2, 1)] + r[(1, 2)]);
    let (wx, wy, wz) = (r[(2, 1)] - r[(1, 2)], r[(0, 2)] - r[(2, 0)], r[(1, 0)] - r[(0, 1)]);
    let square = 1.0 + 2.0 * diagonal[largest] - trace;
    let q = match largest {
        0 => [1.0 + trace, wx, wy, wz],
        1 => [wx, square, xy, xz],
        2 => [wy, xy, square, yz],
        _ => [wz, xz, yz, square],
    };
    let norm = q.iter().map(|c| c * c).sum::<f64>().sqrt().copysign(q[0]);
    q.map(|c| c / norm)
}

/// The rotation of a unit quaternion (w, x, y, z).
pub fn rotation_of([w, x, y, z]: [f64; 4]) -> Matrix3<f64> {
    let q = Quaternion::new(w, x, y, z);
    UnitQuaternion::from_quaternion(q).to_rotation_matrix().into_inner()
}

/// `motion` as the message carries it: (w, x, y, z) and the unit translation.
pub fn pose_of(motion: &EssentialChart) -> ([f64; 4], [f64; 3]) {
    (quaternion(&motion.rotation), motion.translation.into())
}
