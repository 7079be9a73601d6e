//! What the server says of its own work: the counters of `penstock ctl status`, and the other
//! `ctl` commands of the I/O modes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use nfs_lab::output;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::bed::Mode;

/// One line of the counters: an export, an operation, the mode that was decided.
#[derive(Debug, Deserialize)]
pub(super) struct Line {
    export: String,
    operation: String,
    mode: String,
    calls: u64,
    bytes: u64,
    moved_bytes: BTreeMap<String, u64>,
    fallbacks: BTreeMap<String, u64>,
    copied_bytes: u64,
    ahead: Option<Ahead>,
}

/// What was read ahead of direct READs.
#[derive(Debug, Default, Clone, Deserialize)]
pub(super) struct Ahead {
    pub(super) pieces: u64,
    /// READs that were answered from pieces.
    pub(super) answered: u64,
    /// Bytes that no READ was answered with, by the word for why they were dropped.
    pub(super) dropped_bytes: BTreeMap<String, u64>,
}

/// The counters of some of the lines, added up.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Sum {
    pub(super) calls: u64,
    /// Bytes that READs brought or WRITEs wrote.
    pub(super) bytes: u64,
    /// Bytes between memory and file, by the way they went.
    pub(super) moved: BTreeMap<String, u64>,
    /// Calls that did not go the way decided for them, by the reason.
    pub(super) fallbacks: BTreeMap<String, u64>,
    /// Payload bytes that were copied in user space.
    pub(super) copied: u64,
}

impl Sum {
    pub(super) fn moved_as(&self, mode: Mode) -> u64 {
        self.moved.get(mode.word()).copied().unwrap_or(0)
    }
}

/// Asks one server by `penstock ctl`.
pub(super) struct Control {
    program: PathBuf,
    state: PathBuf,
}

impl Control {
    /// Asks the server that was started from `program` with its state in `state`.
    pub(super) fn new(program: &Path, state: &Path) -> Self {
        Self {
            program: program.to_path_buf(),
            state: state.to_path_buf(),
        }
    }

    /// Runs `penstock ctl --json` with `words` and decodes its answer.
    pub(super) fn ask<T: DeserializeOwned>(&self, words: &[&str]) -> Result<T> {
        let mut command = Command::new(&self.program);
        command
            .args(["ctl", "--json", "--state-dir"])
            .arg(&self.state);
        let answer = output(command.args(words))?;
        serde_json::from_slice(&answer).with_context(|| {
            let text = String::from_utf8_lossy(&answer);
            format!("ctl {words:?}: an answer of another shape: {text}")
        })
    }

    /// Runs a command whose answer does not matter.
    pub(super) fn tell(&self, words: &[&str]) -> Result<()> {
        let _answer: serde_json::Value = self.ask(words)?;
        Ok(())
    }

    pub(super) fn figures(&self) -> Result<Figures> {
        self.ask(&["status"])
    }
}

/// All counters at a moment: this part of the server's status.
#[derive(Deserialize)]
pub(super) struct Figures {
    io: Vec<Line>,
}

impl Figures {
    /// Adds up the lines of one export and operation (`read` or `write`): of the calls for which `mode` was
    /// decided, or of all.
    pub(super) fn sum(&self, export: &str, operation: &str, mode: Option<Mode>) -> Sum {
        let mut sum = Sum::default();
        let lines = self.io.iter().filter(|line| {
            line.export == export
                && line.operation == operation
                && mode.is_none_or(|mode| line.mode == mode.word())
        });
        for line in lines {
            sum.calls += line.calls;
            sum.bytes += line.bytes;
            sum.copied += line.copied_bytes;
            for (kind, bytes) in &line.moved_bytes {
                *sum.moved.entry(kind.clone()).or_default() += bytes;
            }
            for (reason, count) in &line.fallbacks {
                *sum.fallbacks.entry(reason.clone()).or_default() += count;
            }
        }
        sum
    }

    /// What was read ahead in an export.
    pub(super) fn ahead(&self, export: &str) -> Ahead {
        let mut lines = self.io.iter().filter(|line| line.export == export);
        let ahead = lines.find_map(|line| line.ahead.clone());
        ahead.unwrap_or_default()
    }

    /// Checks that the export of `mode` has moved bytes in that mode and no call in another, or that the
    /// server says why not.
    pub(super) fn went_as_decided(&self, mode: Mode) -> Result<()> {
        for operation in ["read", "write"] {
            let all = self.sum(&mode.export(), operation, None);
            let sum = self.sum(&mode.export(), operation, Some(mode));
            ensure!(sum.calls > 0, "no {operation} was counted");
            ensure!(sum == all, "{operation}: another mode was decided: {all:?}");
            ensure!(
                sum.moved_as(mode) > 0 || !sum.fallbacks.is_empty(),
                "{operation}: not moved as {}, and no reason counted: {sum:?}",
                mode.word()
            );
        }
        Ok(())
    }
}
