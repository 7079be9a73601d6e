//! What the rows came to.

use std::fmt::Debug;

use nfs_client::RpcError;
use nfs_client::nfs3::{Nfsstat3, Outcome};

/// What a call came to: a status, `Ok` among them, or no results.
pub(super) type Got = Result<Nfsstat3, RpcError>;

/// The rows that have been checked so far.
#[derive(Default)]
pub(super) struct Table {
    pub(super) passed: usize,
    /// One line for each row that was not right.
    pub(super) failures: Vec<String>,
}

impl Table {
    /// A row about a status: right if it is one of `allowed`.
    pub(super) fn expect(&mut self, row: &str, got: Got, allowed: &[Nfsstat3]) {
        match got {
            Ok(status) if allowed.contains(&status) => self.passed += 1,
            Ok(status) => {
                let allowed: Vec<_> = allowed.iter().map(|status| status.word()).collect();
                let line = format!("{row}: {}, not {}", status.word(), allowed.join(" or "));
                self.failures.push(line);
            }
            Err(error) => self.failures.push(format!("{row}: {error}")),
        }
    }

    /// The end of a group of rows: right if it came as far as that.
    pub(super) fn end_of(&mut self, group: &str, end: anyhow::Result<()>) {
        if let Err(error) = end {
            self.failures
                .push(format!("{group}, broken off: {error:#}"));
        }
    }

    /// A row about anything else: right if `right`, else `got` is told.
    pub(super) fn check(&mut self, row: &str, right: bool, got: impl Debug) {
        if right {
            self.passed += 1;
        } else {
            self.failures.push(format!("{row}: {got:?}"));
        }
    }
}

/// The status of an outcome, whatever comes with it.
pub(super) fn status<O, F>(outcome: Outcome<O, F>) -> Got {
    outcome.map(|results| match results {
        Ok(_) => Nfsstat3::Ok,
        Err(failure) => failure.status,
    })
}
