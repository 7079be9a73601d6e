//! What one measurement gives.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// One measurement: a workload at one depth against one server, once.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Sample {
    /// Number of calls that were answered with success.
    pub calls: u64,
    /// Seconds from the first call sent to the last reply.
    pub seconds: f64,
    /// Median time from a call's sending to its reply, in microseconds.
    pub p50_us: f64,
    /// 99th percentile of the time from a call's sending to its reply, in microseconds.
    pub p99_us: f64,
}

impl Sample {
    /// Sums up `calls` whose latencies in nanoseconds are in `latencies`.
    pub fn new(latencies: &Histogram<u64>, seconds: f64) -> Self {
        let us = |quantile| latencies.value_at_quantile(quantile) as f64 / 1000.0;
        Self {
            calls: latencies.len(),
            seconds,
            p50_us: us(0.5),
            p99_us: us(0.99),
        }
    }

    /// Successful calls per second of the measurement.
    pub fn rate(&self) -> f64 {
        self.calls as f64 / self.seconds
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_counts_what_the_histogram_holds() {
        let mut latencies = Histogram::new(3).unwrap();
        for ns in [1_000, 2_000, 3_000, 100_000] {
            latencies.record(ns).unwrap();
        }
        let sample = Sample::new(&latencies, 2.0);
        assert_eq!(sample.calls, 4);
        assert!((sample.rate() - 2.0).abs() < f64::EPSILON);
        assert!(sample.p50_us < sample.p99_us);
    }
}
