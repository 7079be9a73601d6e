//! `penstock completions` and the hidden `penstock man`, both from the one definition of the
//! command line.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;

/// Print a completion script for a shell
///
/// For example: penstock completions bash > /etc/bash_completion.d/penstock
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// The shell
    shell: clap_complete::Shell,
}

impl Args {
    pub(crate) fn run(self, mut command: clap::Command) -> anyhow::Result<ExitCode> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut command, "penstock", &mut script);
        std::io::stdout().lock().write_all(&script)?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Write the manual pages into a directory
#[derive(clap::Args, Debug)]
pub(crate) struct ManArgs {
    /// The directory; docs/man in the source tree
    directory: PathBuf,
}

impl ManArgs {
    pub(crate) fn run(self, command: clap::Command) -> anyhow::Result<ExitCode> {
        let shown = self.directory.display().to_string();
        std::fs::create_dir_all(&self.directory).with_context(|| shown.clone())?;
        // Without `help`, whose pages would say the same again.
        let command = command.disable_help_subcommand(true);
        clap_mangen::generate_to(command, &self.directory).with_context(|| shown)?;
        Ok(ExitCode::SUCCESS)
    }
}
