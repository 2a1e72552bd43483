//! COLMAP's camera models.

use serde::{Deserialize, Serialize};

/// The camera as the user gave it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CameraOptions {
    /// COLMAP's model name; none: SIMPLE_RADIAL.
    pub model: Option<String>,
    /// COLMAP's parameters for the exported picture; none: unknown intrinsics.
    pub params: Option<Vec<f64>>,
}
