//! How every command ends: the one place that decides exit codes and prints errors.

use std::io;
use std::process::ExitCode;

use nfs_server::exports::config::ConfigErrors;

use crate::results::{self, Failure};

/// Wrong usage or configuration. The command line parser exits with the same.
pub(crate) const USAGE: u8 = 2;

/// Ended by SIGINT or SIGTERM, as a shell says it.
pub(crate) const INTERRUPTED: u8 = 130;

/// A mistake in how the command was called, beyond what the parser can see.
#[derive(Debug)]
pub(crate) struct UsageError(pub(crate) String);

impl std::fmt::Display for UsageError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for UsageError {}

/// The exit code of a command's result; an error is printed to standard error.
///
/// 0 done, also when the reader of our output closed it early (`| head`); 1 failed; 2 wrong usage
/// or configuration.
pub(crate) fn code(result: anyhow::Result<ExitCode>) -> ExitCode {
    let error = match result {
        Ok(code) => return code,
        Err(error) => error,
    };
    let is_broken_pipe = |cause: &(dyn std::error::Error + 'static)| {
        let cause = cause.downcast_ref::<io::Error>();
        cause.is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
    };
    if error.chain().any(is_broken_pipe) {
        return ExitCode::SUCCESS;
    }
    let is_usage = error
        .chain()
        .any(|cause| cause.is::<ConfigErrors>() || cause.is::<UsageError>());
    // Each problem of a configuration is a line of its own that begins with its file.
    if error.is::<ConfigErrors>() {
        eprintln!("{error}");
        if results::is_json() {
            results::line(&Failure::default().object(&error.to_string()));
        }
    } else {
        results::failed(&format!("{error:#}"), Failure::of_chain(&error));
    }
    if is_usage {
        ExitCode::from(USAGE)
    } else {
        ExitCode::FAILURE
    }
}
