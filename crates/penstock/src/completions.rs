//! `penstock completions` and the hidden `penstock man`, both from the one definition of the
//! command line.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;

/// Print a completion script for a shell
///
/// In bash, zsh and fish, addresses are completed, too: exports, and names in
/// directories, of the server that the word names. It is given a second to
/// answer.
///
/// Examples:
///
///   penstock completions bash > /etc/bash_completion.d/penstock
///
///   penstock completions zsh > /usr/local/share/zsh/site-functions/_penstock
///
///   penstock completions fish > ~/.config/fish/completions/penstock.fish
#[derive(clap::Args, Debug)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// The shell
    shell: clap_complete::Shell,
}

impl Args {
    pub(crate) fn run(self, mut command: clap::Command) -> anyhow::Result<ExitCode> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut command, "penstock", &mut script);
        let script = String::from_utf8(script).context("the script is no text")?;
        let script = with_addresses(script, self.shell);
        std::io::stdout().lock().write_all(script.as_bytes())?;
        Ok(ExitCode::SUCCESS)
    }
}

/// The script with what completes addresses. `clap_complete` knows what stands in this program's command line; its
/// engine that asks the program for more ("unstable-dynamic") gets from bash what is left of an address behind its
/// last colon, and cannot complete it.
fn with_addresses(mut script: String, shell: clap_complete::Shell) -> String {
    use clap_complete::Shell;
    match shell {
        Shell::Bash => script.push_str(include_str!("completions/addresses.bash")),
        Shell::Fish => script.push_str(include_str!("completions/addresses.fish")),
        Shell::Zsh => {
            // Its end hands the script's function to the shell: ours takes that place.
            if let Some(end) = script.rfind("if [ \"$funcstack[1]\"") {
                script.truncate(end);
            }
            script.push_str(include_str!("completions/addresses.zsh"));
        }
        _ => {}
    }
    script
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
