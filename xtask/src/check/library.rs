//! What a program gets that links the client library: few crates unless it asks for more, and each feature builds.
//!
//! A build of the workspace says nothing about that, since it gives every crate all features that anybody there
//! wants.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::{Finding, Tree};
use crate::run;

/// The crates below nfs-client without features: its own, the event loop, and what reads errors and measures
/// latencies. No io_uring, and nothing of the server.
const LEAN: &[&str] = &[
    "bitflags",
    "byteorder",
    "bytes",
    "cfg-if",
    "errno",
    "futures-core",
    "hdrhistogram",
    "libc",
    "linux-raw-sys",
    "lock_api",
    "mio",
    "nfs-client",
    "nfs-io",
    "nfs-wire",
    "num-traits",
    "parking_lot",
    "parking_lot_core",
    "pin-project-lite",
    "proc-macro2",
    "quote",
    "rustix",
    "scopeguard",
    "smallvec",
    "socket2",
    "syn",
    "thiserror",
    "thiserror-impl",
    "tokio",
    "tokio-macros",
    "unicode-ident",
];

/// The features of nfs-client; each builds alone.
const FEATURES: &[&str] = &["blocking", "doctor", "transfer"];

/// Compares what nfs-client needs without features with what it may.
pub(crate) fn check(tree: &Tree, findings: &mut Vec<Finding>) -> Result<()> {
    let output = Command::new(run::cargo())
        .args(["tree", "--locked", "-p", "nfs-client"])
        .args(["-e", "normal", "--prefix", "none", "--format", "{p}"])
        .current_dir(&tree.root)
        .output()
        .context("cargo tree")?;
    if !output.status.success() {
        bail!(
            "cargo tree failed: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    findings.extend(surplus(&String::from_utf8_lossy(&output.stdout)));
    Ok(())
}

/// The crates of a listing, one in a line, that are not among those that a program gets without features.
fn surplus(listing: &str) -> Vec<Finding> {
    let names = listing.lines().filter_map(|line| line.split(' ').next());
    let names: BTreeSet<&str> = names.filter(|name| !name.is_empty()).collect();
    let new = names.into_iter().filter(|name| !LEAN.contains(name));
    let finding = |name: &str| {
        let rule = "a program that links nfs-client without features gets few crates";
        let cure =
            format!("put {name} behind a feature, or enter it in xtask/src/check/library.rs");
        Finding::new("crates/nfs-client/Cargo.toml", 0, rule, cure)
    };
    new.map(finding).collect()
}

/// Builds nfs-client without features and with each of them alone; false if one does not build or warns.
pub(crate) fn build_features(root: &Path) -> Result<bool> {
    let mut good = true;
    for feature in std::iter::once("").chain(FEATURES.iter().copied()) {
        let mut command = Command::new(run::cargo());
        command
            .current_dir(root)
            .args(["clippy", "--quiet", "-p", "nfs-client", "--lib"])
            .args(["--no-default-features", "--features", feature])
            .args(["--", "-D", "warnings"]);
        good &= run::streams(
            &format!("nfs-client with features [{feature}]"),
            &mut command,
        )?;
    }
    Ok(good)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crate_that_came_unasked_is_caught() {
        let lean = "nfs-client v0.1.0 (/x)\nbytes v1.12.1\n\ntokio v1.54.1 (*)\n";
        assert_eq!(surplus(lean), []);
        let fat = format!("{lean}nfs-io v0.1.0 (/x)\nio-uring v0.7.0\nio-uring v0.7.0 (*)\n");
        let found = surplus(&fat);
        assert_eq!(found.len(), 1);
        assert!(found[0].cure.contains("put io-uring behind"), "{found:?}");
    }
}
