//! Features of one picture against another's of the same, as sets.

use libtest_mimic::Failed;
use trackweave::message::{Descriptor, Features, Keypoint};

/// Share of features that must agree.
const SHARE: f64 = 0.99;
/// Most a bin of a descriptor may differ, in 512ths.
const BIN: u8 = 2;

/// What agrees.
#[derive(Debug)]
pub struct Agreement {
    /// Features of the larger set.
    pub n: usize,
    /// Keypoints that have one of the other set within 0.05 px, 1 % of scale and 0.02 rad.
    pub keypoints: usize,
    /// Those among them whose descriptors have every bin within 2/512.
    pub descriptors: usize,
    /// Those among them that come behind their neighbour in the other set.
    pub swapped: usize,
    /// Features that are the same bits.
    pub equal: usize,
}

impl Agreement {
    /// Of `found` with `expected`.
    pub fn new(found: &Features, expected: &Features) -> Agreement {
        let n = found.keypoints.len().max(expected.keypoints.len());
        let mut agreement = Agreement { n, keypoints: 0, descriptors: 0, swapped: 0, equal: 0 };
        let mut before = 0;
        for (keypoint, descriptor) in expected.keypoints.iter().zip(&expected.descriptors) {
            let Some(index) = twin(keypoint, &found.keypoints) else { continue };
            agreement.keypoints += 1;
            agreement.descriptors += is_close(descriptor, &found.descriptors[index]) as usize;
            agreement.swapped += (index < before) as usize;
            let is_equal = *keypoint == found.keypoints[index] && *descriptor == found.descriptors[index];
            agreement.equal += is_equal as usize;
            before = index;
        }
        agreement
    }

    /// Fails where less than 99 in a hundred agree.
    pub fn check(&self) -> Result<(), Failed> {
        let enough = |part: usize, of: usize| part as f64 >= SHARE * of as f64;
        let in_order = self.keypoints - self.swapped;
        let holds = enough(self.keypoints, self.n)
            && enough(self.descriptors, self.keypoints)
            && enough(in_order, self.keypoints);
        if holds { Ok(()) } else { Err(format!("{self:?}").into()) }
    }
}

/// The nearest keypoint that is as good as the same.
fn twin(keypoint: &Keypoint, others: &[Keypoint]) -> Option<usize> {
    let distance = |other: &Keypoint| (other.x - keypoint.x).hypot(other.y - keypoint.y);
    let turn = |other: &Keypoint| {
        libm::remainderf(other.orientation - keypoint.orientation, std::f32::consts::TAU).abs()
    };
    let is_same = |other: &Keypoint| {
        distance(other) <= 0.05 && (other.scale / keypoint.scale - 1.0).abs() <= 0.01 && turn(other) <= 0.02
    };
    let same = others.iter().enumerate().filter(|(_, other)| is_same(other));
    same.min_by(|a, b| distance(a.1).total_cmp(&distance(b.1))).map(|(index, _)| index)
}

fn is_close(a: &Descriptor, b: &Descriptor) -> bool {
    a.iter().zip(b).all(|(a, b)| a.abs_diff(*b) <= BIN)
}
