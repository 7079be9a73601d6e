//! Times in words.

use std::time::Duration;

use crate::doctor::facts::Times;

/// A time with three figures or so: `87 us`, `1.25 ms`, `3.1 s`.
pub(super) fn time(time: Duration) -> String {
    let microseconds = time.as_secs_f64() * 1e6;
    match microseconds {
        us if us < 1000.0 => format!("{us:.0} us"),
        us if us < 1e6 => format!("{:.2} ms", us / 1e3),
        us => format!("{:.1} s", us / 1e6),
    }
}

/// How times are distributed, in one line; `None` without any.
pub(super) fn distribution(times: &Times) -> Option<String> {
    let at = |percent| times.percentile(percent).map(time);
    let (p50, p90, p99) = (at(50)?, at(90)?, at(99)?);
    let max = times.max().map(time)?;
    let count = times.count();
    Some(format!(
        "p50 {p50}, p90 {p90}, p99 {p99}, max {max} ({count} calls)"
    ))
}
