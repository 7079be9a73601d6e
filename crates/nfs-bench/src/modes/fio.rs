//! Local I/O of the same pattern, by fio: what the file system gives without a server in between.

use std::path::Path;
use std::process::Stdio;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::stream::Outcome;
use super::work::{Direction, Work};
use crate::content::Data;
use crate::counters;
use crate::servers::on_core;

/// A run of fio on a local file.
#[derive(Debug)]
pub struct Fio<'a> {
    /// The workload whose pattern fio follows.
    pub work: Work,
    /// Number of calls in flight.
    pub depth: usize,
    /// Whether fio opens the file with `O_DIRECT`, past the page cache.
    pub direct: bool,
    /// The kind of contents that is written.
    pub data: Data,
    /// The file; to write it, a new one.
    pub file: &'a Path,
    /// Number of bytes to move, rounded down to whole calls of the workload.
    pub bytes: u64,
    /// Seconds after which fio stops, even if it has not moved everything.
    pub at_most: Option<f64>,
    /// Number of the core that fio is bound to.
    pub cpu: usize,
    /// Words before fio's command, which start it in a cgroup.
    pub wrapper: &'a [String],
}

impl Fio<'_> {
    /// Runs fio; returns what it moved, and the CPU seconds it took in its own code and in the kernel.
    ///
    /// # Errors
    /// fio is missing or fails.
    pub fn run(&self) -> Result<(Outcome, f64, f64)> {
        let before = counters::children_times()?;
        let output = on_core(self.cpu)
            .args(self.wrapper)
            .arg("fio")
            .args(self.arguments())
            .stdin(Stdio::null())
            .output()
            .context("starting fio")?;
        let after = counters::children_times()?;
        if !output.status.success() {
            bail!("fio: {}", String::from_utf8_lossy(&output.stderr).trim());
        }
        let outcome = outcome(self.work, &String::from_utf8_lossy(&output.stdout))?;
        Ok((outcome, after.0 - before.0, after.1 - before.1))
    }

    fn arguments(&self) -> Vec<String> {
        let rw = match (self.work.direction(), self.work.is_random()) {
            (Direction::Read, false) => "read",
            (Direction::Read, true) => "randread",
            (Direction::Write, _) => "write",
        };
        let whole =
            self.bytes / u64::from(self.work.call_bytes()) * u64::from(self.work.call_bytes());
        let mut arguments: Vec<String> = vec![
            "--name=local".to_owned(),
            format!("--filename={}", self.file.display()),
            format!("--rw={rw}"),
            format!("--bs={}", self.work.call_bytes()),
            format!("--size={whole}"),
            format!("--iodepth={}", self.depth),
            format!("--direct={}", u8::from(self.direct)),
            "--ioengine=io_uring".to_owned(),
            "--thread".to_owned(),
            "--output-format=json".to_owned(),
            // Whatever a READ comes from, it is not what fio has left in the cache itself: the caller drops that.
            "--invalidate=0".to_owned(),
            "--percentile_list=50:99:99.9".to_owned(),
        ];
        if self.work.direction() == Direction::Write {
            // Its time counts, as COMMIT's does.
            arguments.extend(["--end_fsync=1".to_owned(), "--fallocate=none".to_owned()]);
            if self.data == Data::Filled {
                // One word again and again, which costs such a device the same as ours.
                arguments.push("--buffer_pattern=0x9e3779b9".to_owned());
            }
        }
        if let Some(seconds) = self.at_most {
            arguments.push(format!("--runtime={seconds}"));
            if self.work.is_random() {
                arguments.push("--time_based".to_owned());
            }
        }
        arguments
    }
}

fn outcome(work: Work, text: &str) -> Result<Outcome> {
    // Notes may stand before the JSON.
    let json = text
        .find('{')
        .map(|at| &text[at..])
        .context("fio printed no JSON")?;
    let report: Value = serde_json::from_str(json).context("fio's JSON")?;
    let job = &report["jobs"][0];
    let side = match work.direction() {
        Direction::Read => &job["read"],
        Direction::Write => &job["write"],
    };
    let number = |value: &Value| value.as_f64().context("a number is missing in fio's JSON");
    let percentile = |name: &str| number(&side["clat_ns"]["percentile"][name]);
    Ok(Outcome {
        bytes: side["io_bytes"].as_u64().context("io_bytes")?,
        calls: side["total_ios"].as_u64().context("total_ios")?,
        seconds: number(&side["runtime"])? / 1000.0,
        commit_seconds: 0.0,
        p50_us: percentile("50.000000")? / 1000.0,
        p99_us: percentile("99.000000")? / 1000.0,
        p999_us: percentile("99.900000")? / 1000.0,
        max_us: number(&side["clat_ns"]["max"])? / 1000.0,
        checked_bytes: 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_read() {
        let text = r#"fio: a note
        {"jobs": [{"write": {"io_bytes": 2097152, "total_ios": 2, "runtime": 500, "clat_ns": {"max": 9000,
          "percentile": {"50.000000": 1000, "99.000000": 2000, "99.900000": 3000}}}}]}"#;
        let outcome = outcome(Work::SeqWrite1m, text).unwrap();
        assert_eq!((outcome.bytes, outcome.calls), (2 << 20, 2));
        assert!((outcome.mib_per_second() - 4.0).abs() < 1e-9);
        assert!((outcome.p999_us - 3.0).abs() < 1e-9 && (outcome.max_us - 9.0).abs() < 1e-9);
    }

    #[test]
    fn a_report_without_figures_is_refused() {
        assert!(outcome(Work::SeqRead1m, "nothing").is_err());
        assert!(outcome(Work::SeqRead1m, r#"{"jobs": []}"#).is_err());
    }
}
