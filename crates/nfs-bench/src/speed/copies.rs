//! Copies between a server and a disk of the client's, by [`crate::client`]: ours past the page cache, and libnfs's.

use std::path::Path;

use anyhow::Result;
use nfs_load::spread::median;
use serde::{Deserialize, Serialize};

use super::list::Figure;
use super::{by_this_program, is};
use crate::client::serve::Server;
use crate::client::tool::{Tool, Tuning, Work};

/// The name of this run in `--only`.
pub(super) const NAME: &str = "copies";
/// Our command, as the table names it.
pub(super) const OURS: &str = "penstock cp --local=direct";
/// What it is held against.
pub(super) const THEIRS: &str = "nfs-cp";

/// What `nfs-bench client` writes as JSON, as far as it is looked at.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Copies {
    rows: Vec<Row>,
    /// What could not be measured, and why.
    pub(super) missing: Vec<String>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Row {
    server: serde_json::Value,
    work: serde_json::Value,
    tool: serde_json::Value,
    rounds: Vec<Round>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Round {
    bytes: u64,
    client: Spent,
}

#[derive(Debug, Serialize, Deserialize)]
struct Spent {
    seconds: f64,
}

/// The words behind `nfs-bench` of the run: the rows of a local file on a disk.
pub(super) fn words(rounds: usize) -> Vec<String> {
    let words = ["client", "--quick", "--filter=disk:"].map(str::to_owned);
    let rounds = format!("--rounds={rounds}");
    words.into_iter().chain([rounds]).collect()
}

/// Measures, by this program as anybody would start it.
///
/// # Errors
/// The run fails, or does not leave its figures.
pub(super) fn measure(directory: &Path, rounds: usize) -> Result<Copies> {
    eprintln!("{NAME}: client");
    let mut words = words(rounds);
    words.push(format!("--directory={}", directory.display()));
    by_this_program(&words, &directory.join("copies.json"))
}

impl Copies {
    /// A figure of [`OURS`] or [`THEIRS`], at the median of the rounds.
    pub(super) fn figure(
        &self,
        (server, work): (Server, Work),
        figure: Figure,
        target: &str,
    ) -> Option<f64> {
        let direct = Tuning {
            local: Some("direct"),
            ..Tuning::default()
        };
        let tool = match target {
            OURS => Tool::Penstock(direct),
            THEIRS => Tool::Libnfs,
            _ => return None,
        };
        let is_it =
            |row: &&Row| is(&row.server, server) && is(&row.work, work) && is(&row.tool, tool);
        let row = self.rows.iter().find(is_it)?;
        let rate = |round: &Round| round.bytes as f64 / f64::from(1 << 20) / round.client.seconds;
        (figure == Figure::Throughput).then(|| median(row.rounds.iter().map(rate)))?
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_those_of_the_tool_on_the_server() {
        let row = |server: &str, tool: &str, seconds: [f64; 3]| {
            let rounds = seconds.map(|seconds| {
                format!(r#"{{"bytes": 104857600, "files": 1, "client": {{"seconds": {seconds}}}}}"#)
            });
            let rounds = rounds.join(",");
            format!(
                r#"{{"server": "{server}", "work": "copy-down", "tool": {tool}, "rounds": [{rounds}]}}"#
            )
        };
        let ours = |way: &str| {
            format!(
                r#"{{"penstock": {{"window": null, "transfer_kib": null, "nconnect": null, "local": "{way}"}}}}"#
            )
        };
        let rows = [
            row("penstock", &ours("buffered"), [9.0; 3]),
            row("penstock", &ours("direct"), [0.5, 9.0, 0.25]),
            row("ganesha", r#""libnfs""#, [1.0; 3]),
        ];
        let json = format!(r#"{{"rows": [{}], "missing": []}}"#, rows.join(","));
        let copies: Copies = serde_json::from_str(&json).unwrap();
        let figure =
            |server, target| copies.figure((server, Work::CopyDown), Figure::Throughput, target);
        assert_eq!(figure(Server::Penstock, OURS), Some(200.0));
        assert_eq!(figure(Server::Ganesha, THEIRS), Some(100.0));
        assert_eq!(figure(Server::Penstock, THEIRS), None);
        assert_eq!(figure(Server::Ganesha, "ganesha"), None);
    }
}
