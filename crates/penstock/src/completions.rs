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
        clap_mangen::generate_to(command, &self.directory).with_context(|| shown.clone())?;
        for entry in std::fs::read_dir(&self.directory).with_context(|| shown)? {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "1") {
                let told = || path.display().to_string();
                let page = std::fs::read_to_string(&path).with_context(told)?;
                std::fs::write(&path, ragged(&page)).with_context(told)?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// A page with its lines neither stretched nor its words divided: a command in it can be copied.
fn ragged(page: &str) -> String {
    let mut ragged = String::with_capacity(page.len() + 16);
    for line in page.split_inclusive('\n') {
        ragged.push_str(line);
        if line.starts_with(".TH ") {
            ragged.push_str(".ad l\n.nh\n");
        }
    }
    ragged
}
