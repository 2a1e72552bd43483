//! What a run measured: firings, busy and waiting times of each stage, the longest its queue became.

use std::time::Duration;

use hdrhistogram::Histogram;

use crate::record::{Quantiles, StageRecord};

/// Collects times at a resolution of 0.1 %, in microseconds.
#[derive(Debug)]
pub(crate) struct Times {
    micros: Histogram<u64>,
    sum: Duration,
}

impl Times {
    pub(crate) fn new() -> Self {
        let micros = Histogram::new(3).expect("three digits are a valid resolution");
        Times { micros, sum: Duration::ZERO }
    }

    pub(crate) fn add(&mut self, time: Duration) {
        self.micros.record(time.as_micros() as u64).expect("the histogram grows");
        self.sum += time;
    }

    /// Of all times.
    pub(crate) fn sum_s(&self) -> f64 {
        self.sum.as_secs_f64()
    }

    pub(crate) fn quantiles(&self) -> Quantiles {
        let ms = |q| self.micros.value_at_quantile(q) as f64 / 1000.0;
        Quantiles { p50: ms(0.5), p90: ms(0.9), p99: ms(0.99), max: self.micros.max() as f64 / 1000.0 }
    }
}

/// The reports as a table for people.
pub fn table(stages: &[StageRecord]) -> String {
    let mut text = format!(
        "{:<18}{:>8}{:>10}{:>10}{:>10}{:>10}{:>12}{:>12}{:>7}\n",
        "stage", "frames", "busy p50", "p90", "p99", "max ms", "wait in p50", "out p50", "queue"
    );
    for s in stages {
        text += &format!(
            "{:<18}{:>8}{:>10.2}{:>10.2}{:>10.2}{:>10.2}{:>12.2}{:>12.2}{:>7}\n",
            s.name,
            s.count,
            s.busy_ms.p50,
            s.busy_ms.p90,
            s.busy_ms.p99,
            s.busy_ms.max,
            s.wait_in_ms.p50,
            s.wait_out_ms.p50,
            s.queue_max
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_times_are_kept_to_a_thousandth() {
        let mut times = Times::new();
        (1..=100).for_each(|i| times.add(Duration::from_millis(100 * i)));
        assert!((times.sum_s() - 505.0).abs() < 1e-9);
        let Quantiles { p50, p90, p99, max } = times.quantiles();
        for (measured, expected) in [(p50, 5000.0), (p90, 9000.0), (p99, 9900.0), (max, 10_000.0)] {
            assert!((measured / expected - 1.0).abs() < 1e-3, "{measured} is not {expected}");
        }
    }
}
