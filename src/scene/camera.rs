//! Pinhole cameras and their poses.

use nalgebra::{Matrix3, Vector3};

/// A pinhole camera without distortion. Pixel centres at integers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Intrinsics {
    /// Focal length in pixels.
    pub f: f64,
    /// Principal point.
    pub cx: f64,
    /// See `cx`.
    pub cy: f64,
    /// Picture size in pixels.
    pub width: u32,
    /// See `width`.
    pub height: u32,
}

impl Intrinsics {
    /// A camera with its principal point in the middle and a field of view of about 61 degrees across.
    pub fn centered(width: u32, height: u32) -> Intrinsics {
        let (cx, cy) = ((width as f64 - 1.0) / 2.0, (height as f64 - 1.0) / 2.0);
        Intrinsics { f: 0.85 * width as f64, cx, cy, width, height }
    }

    /// f, cx, cy of COLMAP's SIMPLE_PINHOLE, whose first pixel centre is at 0.5.
    pub fn colmap_params(&self) -> [f64; 3] {
        [self.f, self.cx + 0.5, self.cy + 0.5]
    }

    /// The ray of a pixel in the camera frame, z = 1.
    pub fn ray(&self, x: f64, y: f64) -> Vector3<f64> {
        Vector3::new((x - self.cx) / self.f, (y - self.cy) / self.f, 1.0)
    }

    /// Where a point of the camera frame is seen; none behind the camera.
    pub fn project(&self, point: &Vector3<f64>) -> Option<[f64; 2]> {
        let x = self.f * point.x / point.z + self.cx;
        let y = self.f * point.y / point.z + self.cy;
        (point.z > 0.0).then_some([x, y])
    }

    /// Whether a position is on the picture, borders of the outermost pixels included.
    pub fn contains(&self, x: f64, y: f64) -> bool {
        (-0.5..=self.width as f64 - 0.5).contains(&x) && (-0.5..=self.height as f64 - 0.5).contains(&y)
    }

    /// Maps rays to pixels.
    pub fn matrix(&self) -> Matrix3<f64> {
        Matrix3::new(self.f, 0.0, self.cx, 0.0, self.f, self.cy, 0.0, 0.0, 1.0)
    }
}

/// Where a camera is and looks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pose {
    /// Turns world directions into camera directions: its rows are the camera's axes.
    pub cam_from_world_rotation: Matrix3<f64>,
    /// The camera's centre in the world, in metres.
    pub center: Vector3<f64>,
}

impl Pose {
    /// A level camera at `center` that looks at `target`, which must not lie straight above or below.
    pub fn looking_at(center: Vector3<f64>, target: Vector3<f64>) -> Pose {
        let z = (target - center).normalize();
        let x = Vector3::y().cross(&z).normalize();
        let y = z.cross(&x);
        Pose {
            cam_from_world_rotation: Matrix3::from_rows(&[x.transpose(), y.transpose(), z.transpose()]),
            center,
        }
    }

    /// The same camera turned about its own axes by small angles in radians: pitch (x), yaw (y), roll (z).
    pub fn turned(&self, pitch: f64, yaw: f64, roll: f64) -> Pose {
        let (sx, cx) = (libm::sin(pitch), libm::cos(pitch));
        let (sy, cy) = (libm::sin(yaw), libm::cos(yaw));
        let (sz, cz) = (libm::sin(roll), libm::cos(roll));
        let about_x = Matrix3::new(1.0, 0.0, 0.0, 0.0, cx, -sx, 0.0, sx, cx);
        let about_y = Matrix3::new(cy, 0.0, sy, 0.0, 1.0, 0.0, -sy, 0.0, cy);
        let about_z = Matrix3::new(cz, -sz, 0.0, sz, cz, 0.0, 0.0, 0.0, 1.0);
        let turn = (about_x * about_y * about_z).transpose();
        Pose { cam_from_world_rotation: turn * self.cam_from_world_rotation, center: self.center }
    }

    /// A world point in the camera frame.
    pub fn cam_from_world(&self, point: &Vector3<f64>) -> Vector3<f64> {
        self.cam_from_world_rotation * (point - self.center)
    }

    /// A point of the camera frame in the world.
    pub fn world_from_cam(&self, point: &Vector3<f64>) -> Vector3<f64> {
        self.cam_from_world_rotation.transpose() * point + self.center
    }

    /// world_from_cam rotation as a unit quaternion (x, y, z, w), w >= 0.
    pub fn world_from_cam_xyzw(&self) -> [f64; 4] {
        let m = self.cam_from_world_rotation.transpose();
        // Shepperd 1978: solve from the largest component.
        let squares = [
            1.0 + m[(0, 0)] - m[(1, 1)] - m[(2, 2)],
            1.0 - m[(0, 0)] + m[(1, 1)] - m[(2, 2)],
            1.0 - m[(0, 0)] - m[(1, 1)] + m[(2, 2)],
            1.0 + m[(0, 0)] + m[(1, 1)] + m[(2, 2)],
        ];
        let sums = [m[(1, 0)] + m[(0, 1)], m[(2, 0)] + m[(0, 2)], m[(2, 1)] + m[(1, 2)]];
        let differences = [m[(2, 1)] - m[(1, 2)], m[(0, 2)] - m[(2, 0)], m[(1, 0)] - m[(0, 1)]];
        let largest = (0..4).fold(0, |best, i| if squares[i] > squares[best] { i } else { best });
        let products = match largest {
            0 => [squares[0], sums[0], sums[1], differences[0]],
            1 => [sums[0], squares[1], sums[2], differences[1]],
            2 => [sums[1], sums[2], squares[2], differences[2]],
            _ => [differences[0], differences[1], differences[2], squares[3]],
        };
        let norm = 2.0 * squares[largest].sqrt();
        let sign = if products[3] < 0.0 { -1.0 } else { 1.0 };
        products.map(|p| sign * p / norm)
    }
}

/// E of two cameras: ray2' E ray1 = 0, translation in metres. The null matrix where the centres coincide.
pub fn true_essential(pose1: &Pose, pose2: &Pose) -> Matrix3<f64> {
    let rotation = pose2.cam_from_world_rotation * pose1.cam_from_world_rotation.transpose();
    let translation = pose2.cam_from_world(&pose1.center);
    translation.cross_matrix() * rotation
}

/// F of two cameras: x2' F x1 = 0 in pixels with centres at integers.
pub fn true_fundamental(intrinsics: &Intrinsics, pose1: &Pose, pose2: &Pose) -> Matrix3<f64> {
    let Intrinsics { f, cx, cy, .. } = *intrinsics;
    let ray_from_pixel = Matrix3::new(1.0 / f, 0.0, -cx / f, 0.0, 1.0 / f, -cy / f, 0.0, 0.0, 1.0);
    ray_from_pixel.transpose() * true_essential(pose1, pose2) * ray_from_pixel
}

#[cfg(test)]
mod tests {
    use super::*;

    fn oblique() -> Pose {
        Pose::looking_at(Vector3::new(0.3, -0.2, 0.1), Vector3::new(-1.0, 0.5, 4.0)).turned(0.02, -0.03, 0.4)
    }

    #[test]
    fn looking_at_puts_the_target_in_the_middle() {
        let (center, target) = (Vector3::new(1.0, -0.5, 0.2), Vector3::new(-0.3, 0.7, 5.0));
        let pose = Pose::looking_at(center, target);
        let seen = pose.cam_from_world(&target);
        assert!(seen.x.abs() < 1e-12 && seen.y.abs() < 1e-12 && seen.z > 0.0);
        let below = pose.cam_from_world(&(center + Vector3::y()));
        assert!(below.y > 0.0 && below.x.abs() < 1e-12, "level, y down");
    }

    #[test]
    fn quaternion_is_the_rotation() {
        for (pitch, yaw, roll) in [(0.0, 0.0, 0.0), (3.0, 0.1, 0.0), (0.1, 3.0, -0.2), (0.2, -0.1, 3.0)] {
            let pose = oblique().turned(pitch, yaw, roll);
            let [x, y, z, w] = pose.world_from_cam_xyzw();
            let quaternion = nalgebra::UnitQuaternion::from_quaternion(nalgebra::Quaternion::new(w, x, y, z));
            let difference =
                quaternion.to_rotation_matrix().matrix() - pose.cam_from_world_rotation.transpose();
            assert!(difference.norm() < 1e-12, "{difference}");
        }
    }

    #[test]
    fn fundamental_annihilates_projections_only_in_its_own_pixels() {
        let intrinsics = Intrinsics::centered(320, 240);
        let (pose1, pose2) = (Pose::looking_at(Vector3::zeros(), Vector3::z()), oblique());
        let fundamental = true_fundamental(&intrinsics, &pose1, &pose2);
        let distance = |shift: f64| {
            let point = Vector3::new(0.4, -0.3, 3.0);
            let [x1, y1] = intrinsics.project(&pose1.cam_from_world(&point)).unwrap();
            let [x2, y2] = intrinsics.project(&pose2.cam_from_world(&point)).unwrap();
            let line = fundamental * Vector3::new(x1, y1, 1.0);
            (line.x * (x2 + shift) + line.y * (y2 + shift) + line.z) / line.xy().norm()
        };
        assert!(distance(0.0).abs() < 1e-9);
        assert!(distance(0.5).abs() > 0.05, "half a pixel must show");
    }
}
