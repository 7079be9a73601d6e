//! What the tests of copies share: runs of `penstock cp`, and bytes to copy.

use std::ffi::OsStr;
use std::process::Output;

use super::{penstock, text};

pub(crate) fn cp(arguments: &[&dyn AsRef<OsStr>]) -> Output {
    let mut command = penstock();
    command.arg("cp");
    for argument in arguments {
        command.arg(argument);
    }
    command.output().unwrap()
}

#[track_caller]
pub(crate) fn succeeds(arguments: &[&dyn AsRef<OsStr>]) -> String {
    let output = cp(arguments);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    text(&output.stdout)
}

/// The exit code and standard error of a copy that fails.
#[track_caller]
pub(crate) fn fails(arguments: &[&dyn AsRef<OsStr>], expected: &str) {
    let output = cp(arguments);
    let errors = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{errors}");
    assert!(errors.contains(expected), "no {expected:?} in {errors}");
}

/// Bytes that repeat nowhere soon, the same for the same seed.
pub(crate) fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    fastrand::Rng::with_seed(seed).fill(&mut bytes);
    bytes
}
