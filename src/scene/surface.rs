//! Textured rectangles and the light on them.

use nalgebra::{Matrix3, Vector3};

use super::Pose;

/// How often a texture repeats across a rectangle (mirrored at every repeat), and where it begins.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Layer {
    /// Index into the scene's textures.
    pub texture: usize,
    /// Repeats across the rectangle's two sides.
    pub repeats: [f32; 2],
    /// Position in the texture of the rectangle's first corner.
    pub offset: [f32; 2],
}

/// What a rectangle looks like.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Material {
    /// The photograph.
    pub base: Layer,
    /// Factors on red, green and blue.
    pub tint: [f32; 3],
    /// A second photograph that darkens and brightens the first by up to this share, so that repeats differ.
    pub stain: Option<(Layer, f32)>,
}

/// A rectangle: `corner` + a `side_u` + b `side_v` for a, b in [0, 1]. Seen from both sides.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Surface {
    /// First corner.
    pub corner: Vector3<f64>,
    /// From the first corner along the first side.
    pub side_u: Vector3<f64>,
    /// From the first corner along the second side.
    pub side_v: Vector3<f64>,
    /// What it looks like.
    pub material: Material,
}

/// A small lamp and even light from everywhere.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Lamp {
    /// Position.
    pub position: Vector3<f64>,
    /// Brightness straight below the lamp at one metre.
    pub strength: f64,
    /// Brightness of the even light.
    pub ambient: f64,
}

impl Lamp {
    /// Lambertian brightness of a point with unit normal `normal` (either way); distance dims it softly.
    #[inline(always)]
    pub fn on(&self, point: &Vector3<f64>, normal: &Vector3<f64>) -> f32 {
        let to_lamp = self.position - point;
        let distance2 = to_lamp.norm_squared();
        let cosine = normal.dot(&to_lamp).abs() / distance2.sqrt();
        (self.ambient + self.strength * cosine / (1.0 + 0.15 * distance2)) as f32
    }
}

impl Surface {
    /// Unit normal.
    pub fn normal(&self) -> Vector3<f64> {
        self.side_u.cross(&self.side_v).normalize()
    }

    /// The point at (a, b).
    #[inline(always)]
    pub fn point(&self, a: f64, b: f64) -> Vector3<f64> {
        self.corner + self.side_u * a + self.side_v * b
    }

    /// The rectangle as a camera sees it; none where it is seen edge on.
    pub fn seen_from(&self, pose: &Pose) -> Option<SeenSurface> {
        let rotation = &pose.cam_from_world_rotation;
        let corner = rotation * (self.corner - pose.center);
        let plane = Matrix3::from_columns(&[rotation * self.side_u, rotation * self.side_v, corner]);
        Some(SeenSurface { plane_from_ray: plane.try_inverse()? })
    }
}

/// A rectangle before a camera. A ray r with r.z = 1 meets the plane at depth t where t r = a U + b V + corner, so
/// `plane_from_ray` r = (a, b, 1) / t: the rectangle is where 0 <= a, b <= 1, and nearer means a larger third component.
#[derive(Clone, Copy, Debug)]
pub struct SeenSurface {
    /// Camera rays to (a, b, 1) / depth.
    pub plane_from_ray: Matrix3<f64>,
}

impl SeenSurface {
    /// Inverse depth at which a ray (z = 1) meets the rectangle.
    #[inline]
    pub fn hit(&self, ray: &Vector3<f64>) -> Option<f64> {
        let q = self.plane_from_ray * ray;
        let inside = q.z > 0.0 && q.x >= 0.0 && q.y >= 0.0 && q.x <= q.z && q.y <= q.z;
        inside.then_some(q.z)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn square() -> Surface {
        let base = Layer { texture: 0, repeats: [1.0; 2], offset: [0.0; 2] };
        Surface {
            corner: Vector3::new(-1.0, -1.0, 4.0),
            side_u: Vector3::new(2.0, 0.0, 1.0),
            side_v: Vector3::new(0.0, 2.0, 0.0),
            material: Material { base, tint: [1.0; 3], stain: None },
        }
    }

    #[test]
    fn hits_are_on_the_rectangle_at_their_depth() {
        let pose = Pose::looking_at(Vector3::new(0.2, 0.1, -1.0), Vector3::new(0.0, 0.0, 4.0));
        let seen = square().seen_from(&pose).unwrap();
        for (a, b, inside) in [(0.5, 0.5, true), (0.01, 0.99, true), (1.02, 0.5, false), (0.5, -0.02, false)]
        {
            let point = pose.cam_from_world(&square().point(a, b));
            let hit = seen.hit(&(point / point.z));
            assert_eq!(hit.is_some(), inside, "({a}, {b})");
            assert!(hit.is_none_or(|inverse| (inverse * point.z - 1.0).abs() < 1e-12));
        }
    }

    #[test]
    fn what_lies_behind_is_not_seen() {
        let pose = Pose::looking_at(Vector3::new(0.0, 0.0, 8.0), Vector3::new(0.0, 0.0, 12.0));
        assert_eq!(square().seen_from(&pose).unwrap().hit(&Vector3::z()), None);
    }

    #[test]
    fn light_fades_with_distance_and_slant() {
        let lamp = Lamp { position: Vector3::zeros(), strength: 1.0, ambient: 0.1 };
        let near = lamp.on(&Vector3::new(0.0, 0.0, 1.0), &Vector3::z());
        assert!(near > lamp.on(&Vector3::new(0.0, 0.0, 2.0), &Vector3::z()));
        assert!(near > lamp.on(&Vector3::new(0.0, 0.0, 1.0), &Vector3::new(0.6, 0.0, 0.8)));
        assert_eq!(lamp.on(&Vector3::new(0.0, 0.0, 1.0), &Vector3::x()), 0.1);
    }
}
