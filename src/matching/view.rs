//! What matching takes of a keyframe.

use std::sync::{Arc, OnceLock};

use crate::kernels::match_guided::Spots;
use crate::message::Features;

/// A keyframe's features, and where its keypoints lie for guided matching. A clone is another handle of the same.
#[derive(Clone, Debug)]
pub struct View {
    pub(super) features: Arc<Features>,
    pub(super) positions: Arc<[[f64; 2]]>,
    spots: Arc<OnceLock<Spots>>,
}

impl View {
    /// For matching by descriptors alone.
    pub fn new(features: &Arc<Features>) -> View {
        View { features: features.clone(), positions: Arc::new([]), spots: Arc::default() }
    }

    /// For guided matching too: one position a keypoint, in pixels of the picture that F speaks of.
    ///
    /// # Panics
    /// There are more or fewer.
    pub fn with_positions(features: &Arc<Features>, positions: Vec<[f64; 2]>) -> View {
        assert_eq!(positions.len(), features.descriptors.len(), "positions of keypoints");
        View { features: features.clone(), positions: positions.into(), spots: Arc::default() }
    }

    /// The keyframe's features.
    pub fn features(&self) -> &Arc<Features> {
        &self.features
    }

    /// Number of descriptors.
    pub fn len(&self) -> usize {
        self.features.descriptors.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether it is known where the keypoints lie.
    pub(super) fn has_positions(&self) -> bool {
        !self.positions.is_empty()
    }

    /// Positions as a device takes them.
    pub(super) fn spots(&self) -> &Spots {
        self.spots.get_or_init(|| Spots::new(&self.positions))
    }

    /// Whether it is of the same features, and of the same positions where `other` has any.
    pub(super) fn serves(&self, other: &View) -> bool {
        let has_positions = !other.has_positions() || Arc::ptr_eq(&self.positions, &other.positions);
        Arc::ptr_eq(&self.features, &other.features) && has_positions
    }

    /// Whether it has none of the positions of `other`, but its features.
    pub(super) fn lacks_only_positions_of(&self, other: &View) -> bool {
        Arc::ptr_eq(&self.features, &other.features) && !self.has_positions()
    }
}
