//! Arithmetic both backends share: the one order of window sums, the run-time choice of vector width, seeded
//! random numbers.

/// Runs `op` compiled for the widest vectors of this machine. `op` must be inlined to gain from it: write
/// `vectorized(#[inline(always)] || ...)` and mark the functions it calls `#[inline(always)]` too. Results do not depend
/// on the width: nothing here contracts or reorders.
#[inline(always)]
pub fn vectorized<R>(op: impl FnOnce() -> R) -> R {
    pulp::Arch::new().dispatch(op)
}

/// Folds the 16 partial sums of a window: 8, 4, 2, 1. Sample `i` of a window belongs to partial sum `i % 16`, added in
/// ascending order.
#[inline(always)]
pub fn fold16(mut partial: [f32; 16]) -> f32 {
    for width in [8, 4, 2, 1] {
        for lane in 0..width {
            partial[lane] += partial[lane + width];
        }
    }
    partial[0]
}

/// Folds several sums. (A closure handed to `map` would not be compiled for this machine's vectors.)
#[inline(always)]
pub fn fold_all<const N: usize>(partial: &[[f32; 16]; N]) -> [f32; N] {
    let mut sums = [0.0; N];
    for i in 0..N {
        sums[i] = fold16(partial[i]);
    }
    sums
}

/// The angle of (x, y) in (-pi, pi], within 5e-7 rad: an odd minimax polynomial on [0, 1], mirrored into the octants.
/// Branch-free, so that it vectorises, and of basic operations only, so that its bits are the same everywhere.
#[inline(always)]
pub fn atan2_poly(y: f32, x: f32) -> f32 {
    use std::f32::consts::{FRAC_PI_2, PI};
    let (across, along) = (x.abs(), y.abs());
    let (least, most) = if along > across { (across, along) } else { (along, across) };
    let t = least / if most > 0.0 { most } else { 1.0 };
    let s = t * t;
    let mut sum = 0.006_811_678;
    for factor in [-0.033_603_85, 0.079_623_22, -0.132_333_15, 0.198_078_08, -0.333_173_67, 0.999_996_1] {
        sum = sum * s + factor;
    }
    let octant = sum * t;
    let quadrant = if along > across { FRAC_PI_2 - octant } else { octant };
    let half = if x < 0.0 { PI - quadrant } else { quadrant };
    if y < 0.0 { -half } else { half }
}

/// SplitMix64 (Steele, Lea and Flood 2014): a seeded generator whose sequence is part of the results.
#[derive(Clone, Debug)]
pub struct SplitMix64(u64);

impl SplitMix64 {
    /// A generator for one task of a run, for example (run seed, pair id).
    pub fn new(seed: u64, task: u64) -> Self {
        let mut mixer = SplitMix64(seed);
        let start = mixer.next_u64() ^ task.wrapping_mul(0xD6E8_FEB8_6659_FD93);
        SplitMix64(start)
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// An integer in `0..bound`; `bound` must not be 0.
    pub fn below(&mut self, bound: u32) -> u32 {
        (((self.next_u64() >> 32) * bound as u64) >> 32) as u32
    }

    /// A number in [0, 1).
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fold16_adds_halves() {
        let mut partial = [0.0; 16];
        for (i, p) in partial.iter_mut().enumerate() {
            *p = i as f32;
        }
        assert_eq!(fold16(partial), 120.0);
        // The order is visible where f32 rounds: 1e8 cancels only when lanes 0 and 8 meet first.
        let mut order = [0.0; 16];
        (order[0], order[8], order[1]) = (1e8, -1e8, 1.0);
        assert_eq!(fold16(order), 1.0);
    }

    #[test]
    fn atan2_poly_is_close_in_every_octant() {
        for i in 0..4096 {
            let angle = (i as f64 / 4096.0 - 0.5) * std::f64::consts::TAU + 1e-4;
            let (y, x) = (3.0 * libm::sin(angle) as f32, 3.0 * libm::cos(angle) as f32);
            let error = atan2_poly(y, x) as f64 - libm::atan2(y as f64, x as f64);
            assert!(error.abs() < 5e-7, "{angle}: {error}");
        }
        assert_eq!(atan2_poly(0.0, 0.0), 0.0);
        assert_eq!(atan2_poly(0.0, -1.0), std::f32::consts::PI);
        assert_eq!(atan2_poly(1.0, 0.0), std::f32::consts::FRAC_PI_2);
    }

    #[test]
    fn splitmix_is_frozen() {
        let mut rng = SplitMix64::new(1, 2);
        let first = rng.next_u64();
        assert_eq!(first, SplitMix64::new(1, 2).next_u64());
        assert_ne!(first, SplitMix64::new(1, 3).next_u64());
        assert!((0..1000).all(|_| rng.below(7) < 7));
    }
}
