//! What one measurement gives, and what several rounds of it come to.

use std::fmt;

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

/// Median and range of one figure over the rounds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Spread {
    /// The value in the middle; for an even number of values, the mean of the two in the middle.
    pub median: f64,
    /// The smallest of the values.
    pub min: f64,
    /// The largest of the values.
    pub max: f64,
}

impl Spread {
    /// The median and the range of `values`, or `None` if there are none.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut sorted: Vec<f64> = values.into_iter().collect();
        sorted.sort_by(f64::total_cmp);
        let (min, max) = (*sorted.first()?, *sorted.last()?);
        let middle = sorted.len() / 2;
        let upper = *sorted.get(middle)?;
        let even = sorted.len().is_multiple_of(2);
        let lower = if even {
            *sorted.get(middle - 1)?
        } else {
            upper
        };
        Some(Self {
            median: f64::midpoint(lower, upper),
            min,
            max,
        })
    }
}

impl Spread {
    /// The spread of `values` with `digits` digits behind the point, for a table; `-` if there are none.
    pub fn cell(values: impl IntoIterator<Item = f64>, digits: usize) -> String {
        Self::of(values).map_or("-".to_owned(), |spread| format!("{spread:.digits$}"))
    }
}

/// `median (min..max)`, with as many digits as are asked for.
impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = f.precision().unwrap_or(3);
        let Self { median, min, max } = self;
        write!(f, "{median:.digits$} ({min:.digits$}..{max:.digits$})")
    }
}

/// The middle of the values; `None` for none.
pub fn median(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    Spread::of(values).map(|spread| spread.median)
}

/// One figure as a multiple of another, for a table; `-` where one of them was not measured.
pub fn ratio(own: Option<f64>, other: Option<f64>) -> String {
    match own.zip(other) {
        Some((own, other)) if other > 0.0 => format!("{:.2}", own / other),
        _ => "-".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spread_of_odd_and_even_rounds() {
        assert_eq!(
            Spread::of([3.0, 1.0, 2.0]),
            Some(Spread {
                median: 2.0,
                min: 1.0,
                max: 3.0
            })
        );
        assert_eq!(
            Spread::of([4.0, 1.0]),
            Some(Spread {
                median: 2.5,
                min: 1.0,
                max: 4.0
            })
        );
        assert_eq!(Spread::of([]), None);
        assert_eq!(Spread::cell([4.0, 1.0], 1), "2.5 (1.0..4.0)");
        assert_eq!(Spread::cell([], 1), "-");
    }

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
