//! The COLMAP database: ids, rows, and the writer.
//!
//! A database written here is of COLMAP 3.8's layout, which every version from 3.8 on opens and migrates by itself.

use crate::message::{Keypoint, Sizes};

pub mod database;

/// COLMAP's ids are 1..=2147483646; this is the base of its pair ids.
pub const MAX_IMAGES: u64 = 2_147_483_647;

/// A row of keypoints: x, y, then the affine shape a11, a12, a21, a22, in exported pixels.
pub type KeypointRow = [f32; 6];

/// The image id of a keyframe ordinal.
pub fn image_id_from_keyframe(keyframe: u32) -> u32 {
    keyframe + 1
}

/// The id of a pair of images, whichever stands first.
pub fn pair_id(a: u32, b: u32) -> i64 {
    (MAX_IMAGES * u64::from(a.min(b)) + u64::from(a.max(b))) as i64
}

/// The two images of a pair id, the smaller first.
pub fn images_from_pair_id(pair_id: i64) -> (u32, u32) {
    let second = pair_id as u64 % MAX_IMAGES;
    (((pair_id as u64 - second) / MAX_IMAGES) as u32, second as u32)
}

/// The database row of a keypoint: moved by half a pixel, scaled to the exported picture, its shape the similarity
/// that maps the unit circle to a circle of its scale with the x axis along its orientation.
pub fn keypoint_row(keypoint: &Keypoint, sizes: &Sizes) -> KeypointRow {
    let [x, y] = sizes.exported_from_analysis(keypoint.x, keypoint.y);
    let scale = f64::from(keypoint.scale) * sizes.scale;
    let orientation = f64::from(keypoint.orientation);
    let (sin, cos) = (libm::sin(orientation), libm::cos(orientation));
    [x, y, scale * cos, -scale * sin, scale * sin, scale * cos].map(|value| value as f32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn pair_ids_are_colmaps() {
        assert_eq!(pair_id(1, 2), 2_147_483_649);
        assert_eq!(pair_id(2, 1), 2_147_483_649);
        assert_eq!(pair_id(3, 1_000_000), 6_442_450_941 + 1_000_000);
        let last = (MAX_IMAGES - 1) as u32;
        assert_eq!(images_from_pair_id(pair_id(last - 1, last)), (last - 1, last));
    }

    proptest! {
        #[test]
        fn pair_ids_lead_back(a in 1u32..2_147_483_646, b in 1u32..2_147_483_646) {
            prop_assert_eq!(images_from_pair_id(pair_id(a, b)), (a.min(b), a.max(b)));
        }
    }

    #[test]
    fn a_keypoint_moves_half_a_pixel_before_it_is_scaled() {
        let sizes = Sizes { analysis: (640, 360), exported: (1920, 1080), scale: 3.0 };
        let keypoint = Keypoint { x: 0.0, y: 10.5, scale: 2.0, orientation: 0.0, response: 0.1 };
        assert_eq!(keypoint_row(&keypoint, &sizes), [1.5, 33.0, 6.0, 0.0, 0.0, 6.0]);
        // A quarter turn from x towards y: the shape's x axis (first column) points along y.
        let turned = Keypoint { orientation: std::f32::consts::FRAC_PI_2, ..keypoint };
        let [_, _, a11, a12, a21, a22] = keypoint_row(&turned, &sizes);
        assert!(a11.abs() < 1e-6 && a22.abs() < 1e-6);
        assert_eq!((a21, a12), (6.0, -6.0));
    }
}
