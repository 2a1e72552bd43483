//! Chunks under a time budget, so that no submission holds the device for long.
//!
//! The clock decides the size of a chunk and nothing else: a kernel's results do not depend on where chunks begin.

use std::collections::HashMap;
use std::time::Duration;

/// Units in the first chunk of a kernel; all chunks but the last are a multiple of it.
const STEP: usize = 64;

/// How many units (tracks) of a kernel fit into the budget, learned from the chunks before.
#[derive(Clone, Debug)]
pub struct ChunkBudget {
    budget_s: f64,
    seconds_per_unit: HashMap<&'static str, f64>,
}

impl Default for ChunkBudget {
    /// 250 ms a chunk: far below the seconds after which drivers reset a device.
    fn default() -> Self {
        ChunkBudget::new(Duration::from_millis(250))
    }
}

impl ChunkBudget {
    /// A budget a chunk; nothing is known about any kernel.
    pub fn new(budget: Duration) -> ChunkBudget {
        ChunkBudget { budget_s: budget.as_secs_f64(), seconds_per_unit: HashMap::new() }
    }

    /// Units of the next chunk of `kernel`, at most `remaining`: 64 where nothing is known, else as many sixty-fours as
    /// the budget holds, at least one.
    pub fn next(&self, kernel: &'static str, remaining: usize) -> usize {
        let steps = match self.seconds_per_unit.get(kernel) {
            Some(&rate) if rate > 0.0 => (self.budget_s / rate / STEP as f64) as usize,
            Some(_) => usize::MAX,
            None => 1,
        };
        steps.max(1).saturating_mul(STEP).min(remaining)
    }

    /// What a chunk of `n_units` took. A slower rate counts at once, a faster one by half.
    pub fn learn(&mut self, kernel: &'static str, n_units: usize, took: Duration) {
        if n_units == 0 {
            return;
        }
        let measured = took.as_secs_f64() / n_units as f64;
        let rate = self.seconds_per_unit.entry(kernel).or_insert(measured);
        *rate = measured.max(0.5 * (*rate + measured));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    #[test]
    fn chunks_grow_to_the_budget_and_shrink_when_it_is_slow() {
        let mut budget = ChunkBudget::new(MS(250));
        assert_eq!(budget.next("a", 8192), 64);
        assert_eq!(budget.next("a", 10), 10);
        budget.learn("a", 64, MS(64));
        assert_eq!(budget.next("a", 8192), 192, "1 ms each: 250 is 3 sixty-fours");
        assert_eq!(budget.next("a", 100), 100);
        assert_eq!(budget.next("b", 8192), 64, "kernels are known one by one");
        budget.learn("a", 64, MS(640));
        assert_eq!(budget.next("a", 8192), 64, "never less than one step");
        budget.learn("a", 64, MS(0));
        assert_eq!(budget.next("a", 8192), 64, "5 ms each after one fast chunk");
        budget.learn("c", 64, MS(0));
        assert_eq!(budget.next("c", 8192), 8192);
        budget.learn("c", 0, MS(9));
        assert_eq!(budget.next("c", 8192), 8192);
    }
}
