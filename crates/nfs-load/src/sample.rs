//! What one measurement gives.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// One measurement of one load.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Calls of the application that were answered.
    pub calls: u64,
    /// Bytes of files that were moved.
    pub bytes: u64,
    /// Seconds from the first call to the last reply, that of COMMIT included.
    pub seconds: f64,
    /// Seconds of these from the last reply to a WRITE to the end, which is COMMIT.
    pub commit_seconds: f64,
    /// How long the calls took.
    pub latency: Latency,
    /// With calls that begin by the clock: how late the generator itself was for 99 of 100 of them at most, in
    /// microseconds. It is part of their latency.
    pub late_p99_us: Option<f64>,
    /// With calls that begin by the clock: how many were due in time and did not begin before the end, because
    /// those before them were not answered. They are in no other figure.
    #[serde(default)]
    pub calls_left: u64,
    /// Seconds of processor time that the server used meanwhile, where that is known.
    pub cpu_seconds: Option<f64>,
}

/// How long calls took, in microseconds: from when they were to begin to their answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// The mean.
    pub mean_us: f64,
    /// What half of them took at most.
    pub p50_us: f64,
    /// What 90 of 100 took at most.
    pub p90_us: f64,
    /// What 99 of 100 took at most.
    pub p99_us: f64,
    /// What 999 of 1000 took at most.
    pub p999_us: f64,
    /// The longest.
    pub max_us: f64,
}

impl Latency {
    /// Sums up times in nanoseconds.
    #[must_use]
    pub fn of(times: &Histogram<u64>) -> Self {
        let us = |quantile| times.value_at_quantile(quantile) as f64 / 1000.0;
        Self {
            mean_us: times.mean() / 1000.0,
            p50_us: us(0.5),
            p90_us: us(0.9),
            p99_us: us(0.99),
            p999_us: us(0.999),
            max_us: times.max() as f64 / 1000.0,
        }
    }
}

impl Sample {
    /// Calls per second.
    #[must_use]
    pub fn rate(&self) -> f64 {
        self.calls as f64 / self.seconds
    }

    /// Throughput in MiB/s.
    #[must_use]
    pub fn mib_per_second(&self) -> f64 {
        self.bytes as f64 / f64::from(1 << 20) / self.seconds
    }

    /// Share (0 to 1) of the calls that were due and did not begin.
    #[must_use]
    pub fn share_left(&self) -> f64 {
        self.calls_left as f64 / (self.calls + self.calls_left).max(1) as f64
    }

    /// Processor time of the server for a GiB, in seconds.
    #[must_use]
    pub fn cpu_per_gib(&self) -> Option<f64> {
        let gib = self.bytes as f64 / f64::from(1 << 30);
        self.cpu_seconds
            .filter(|_| self.bytes > 0)
            .map(|seconds| seconds / gib)
    }

    /// Processor time of the server for a call, in microseconds.
    #[must_use]
    pub fn cpu_us_per_call(&self) -> Option<f64> {
        self.cpu_seconds
            .filter(|_| self.calls > 0)
            .map(|seconds| seconds * 1e6 / self.calls as f64)
    }
}
