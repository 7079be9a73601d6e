//! How these tests run the binary.

#![allow(dead_code, reason = "each test file uses its part")]

pub(crate) mod copy;
pub(crate) mod server;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

pub(crate) fn penstock() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_penstock"));
    // Nothing of the caller's environment may show in the output or the exit code.
    for name in [
        "NO_COLOR",
        "CLICOLOR",
        "CLICOLOR_FORCE",
        "NOTIFY_SOCKET",
        "LISTEN_FDS",
    ] {
        command.env_remove(name);
    }
    // Times are shown in the local zone.
    command.env("TZ", "UTC");
    command
}

/// A copy of the program in `directory` that every user may run: the one under test may lie where only root comes.
pub(crate) fn program_for_all(directory: &Path) -> PathBuf {
    let program = directory.join("penstock");
    nfs_lab::copy_program(Path::new(env!("CARGO_BIN_EXE_penstock")), &program).unwrap();
    program
}

pub(crate) fn run(arguments: &[&str]) -> Output {
    penstock().args(arguments).output().unwrap()
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}
