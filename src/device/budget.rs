//! Chunks under a time budget, so that no submission holds the device for long.
//!
//! The clock decides the size of a chunk and nothing else: a kernel's results do not depend on where chunks begin.

use std::collections::HashMap;
use std::ops::Range;
use std::time::{Duration, Instant};

/// Units in the first chunk of a kernel; all chunks but the last are a multiple of it.
const STEP: usize = 64;

/// How many units (tracks) of a kernel fit into the budget, learned from the chunks before.
#[derive(Clone, Debug)]
pub struct ChunkBudget {
    budget_s: f64,
    fixed: Option<usize>,
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
        ChunkBudget { budget_s: budget.as_secs_f64(), fixed: None, seconds_per_unit: HashMap::new() }
    }

    /// Chunks of `n_units`, whatever they take.
    ///
    /// # Panics
    /// `n_units` is 0.
    pub fn fixed(n_units: usize) -> ChunkBudget {
        assert!(n_units > 0, "chunks of nothing");
        ChunkBudget { fixed: Some(n_units), ..ChunkBudget::default() }
    }

    /// Calls `run` with ranges that cover `0..n_units` in order, each as long as the budget allows, and learns from the
    /// time of each; with one empty range where there are no units. `run` returns when the device is done.
    ///
    /// # Errors
    /// The first of `run`; nothing is run after it.
    pub fn in_chunks<E>(
        &mut self,
        kernel: &'static str,
        n_units: usize,
        mut run: impl FnMut(Range<usize>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut first = 0;
        loop {
            let n = self.next(kernel, n_units - first);
            let begin = Instant::now();
            run(first..first + n)?;
            self.learn(kernel, n, begin.elapsed());
            first += n;
            if first == n_units {
                return Ok(());
            }
        }
    }

    /// Units of the next chunk of `kernel`, at most `remaining`: 64 where nothing is known, else as many sixty-fours as
    /// the budget holds, at least one.
    pub fn next(&self, kernel: &'static str, remaining: usize) -> usize {
        if let Some(n_units) = self.fixed {
            return n_units.min(remaining);
        }
        let steps = match self.seconds_per_unit.get(kernel) {
            Some(&rate) if rate > 0.0 => (self.budget_s / rate / STEP as f64) as usize,
            Some(_) => usize::MAX,
            None => 1,
        };
        steps.max(1).saturating_mul(STEP).min(remaining)
    }

    /// What a chunk of `n_units` took. A slower rate counts at once, a faster one by half; chunks of less than 64 tell
    /// nothing, because what every submission takes outweighs them.
    pub fn learn(&mut self, kernel: &'static str, n_units: usize, took: Duration) {
        if n_units < STEP {
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
        budget.learn("c", 63, MS(9));
        assert_eq!(budget.next("c", 8192), 8192, "too few to tell");
    }

    #[test]
    fn chunks_cover_all_units_in_order_and_stop_at_an_error() {
        let ranges = |budget: &mut ChunkBudget, n_units, last| {
            let mut ranges = Vec::new();
            let ran = budget.in_chunks("a", n_units, |range| {
                ranges.push([range.start, range.end]);
                if ranges.len() < last { Ok(()) } else { Err("enough") }
            });
            (ranges, ran)
        };
        assert_eq!(ranges(&mut ChunkBudget::fixed(5), 12, 9), (vec![[0, 5], [5, 10], [10, 12]], Ok(())));
        assert_eq!(ranges(&mut ChunkBudget::fixed(5), 12, 2), (vec![[0, 5], [5, 10]], Err("enough")));
        assert_eq!(ranges(&mut ChunkBudget::fixed(64), 0, 9), (vec![[0, 0]], Ok(())));
        let mut budget = ChunkBudget::new(Duration::from_secs(3600));
        assert_eq!(ranges(&mut budget, 8192, 9), (vec![[0, 64], [64, 8192]], Ok(())), "the first is a probe");
        assert_eq!(ranges(&mut budget, 8192, 9), (vec![[0, 8192]], Ok(())));
        assert_eq!(
            ranges(&mut ChunkBudget::new(MS(0)), 150, 9),
            (vec![[0, 64], [64, 128], [128, 150]], Ok(()))
        );
    }
}
