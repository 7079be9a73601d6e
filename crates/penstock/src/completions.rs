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
                std::fs::write(&path, as_it_stands(&page)).with_context(told)?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// A page as it can be read and copied from: lines are not stretched nor words divided, and lines that begin with
/// spaces (examples, lists) stand as they are, each on its own, from the left edge on so that they have room.
fn as_it_stands(page: &str) -> String {
    let mut out = String::with_capacity(page.len() + 1024);
    let mut lines = page.lines().peekable();
    let mut is_verbatim = false;
    while let Some(line) = lines.next() {
        let begins_so = |line: &&str| line.starts_with(' ');
        // Between two such lines a paragraph is an empty line, or nothing at all.
        let goes_on = line == ".PP" && is_verbatim && lines.peek().is_some_and(begins_so);
        let verbatim = goes_on || begins_so(&line);
        if verbatim != is_verbatim {
            out.push_str(if verbatim {
                ".nf\n.in 4n\n"
            } else {
                ".in\n.fi\n"
            });
            is_verbatim = verbatim;
        }
        match line.strip_prefix(".TH ") {
            Some(title) => out.push_str(&head(title)),
            None if goes_on => {}
            None if line == ".SH EXTRA" => out.push_str(".SH NOTES\n"),
            None => {
                out.push_str(line.strip_prefix("  ").filter(|_| verbatim).unwrap_or(line));
                out.push('\n');
            }
        }
    }
    out
}

/// The head of a page whose name and section the title begins with.
fn head(title: &str) -> String {
    let name = title.split(' ').next().unwrap_or_default();
    let version = env!("CARGO_PKG_VERSION");
    format!(".TH {name} 1 \"\" \"penstock {version}\" \"Penstock\"\n.ad l\n.nh\n")
}
