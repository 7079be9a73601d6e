//! `penstock doctor`: what the I/O modes come to in a directory, tried there.

mod json;
mod page;
#[cfg(test)]
mod tests;

use std::io::{IsTerminal as _, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

use nfs_io::probe::diagnosis::{Diagnosis, Verdict, diagnose};
use nfs_io::probe::directory;

use crate::exit;

/// Try what the I/O modes do in a directory, and say what is missing for them
///
/// Reads and writes a file of 4 MiB that has no name (O_TMPFILE, or a name that is removed before
/// anything is written) in every way a server would: through the page cache, dropped behind
/// (RWF_DONTCACHE), past it (O_DIRECT), aligned and not, stable and not. Where the bytes really
/// went is looked up (cachestat, mincore), not believed. Nothing else is touched,
/// and nothing is left behind. About 100 MiB are written in all.
///
/// Run it as the user the server runs as. Exit status: 0 every mode does here what it says, 1
/// something is missing that a mode needs, 2 a directory could not be probed (or wrong usage).
///
/// Examples:
///
///   penstock doctor /srv
///
///   penstock doctor --json /srv /var/tmp | jq '{path, recommendation}'
#[derive(clap::Args, Debug)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// Print one JSON object for each directory, on a line of its own
    #[arg(long)]
    json: bool,
    /// The directories
    #[arg(required = true, value_name = "DIR")]
    dirs: Vec<PathBuf>,
}

impl Args {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        let process = directory::process();
        let style = page::Style::new(coloured());
        let mut out = std::io::stdout().lock();
        let mut worst = 0;
        for (index, dir) in self.dirs.iter().enumerate() {
            let facts = match directory::probe(dir) {
                Ok(facts) => facts,
                Err(error) => {
                    worst = worst.max(exit::USAGE);
                    if self.json {
                        writeln!(out, "{}", json::failure(dir, &error))?;
                    } else {
                        eprintln!("penstock: {error}");
                    }
                    continue;
                }
            };
            let diagnosis = diagnose(&facts, &process);
            worst = worst.max(code(&diagnosis));
            if self.json {
                writeln!(out, "{}", json::report(&facts, &process, &diagnosis))?;
            } else {
                if index > 0 {
                    writeln!(out)?;
                }
                page::print(&mut out, style, &facts, &process, &diagnosis)?;
            }
        }
        Ok(ExitCode::from(worst))
    }
}

/// The exit status that one directory asks for.
fn code(diagnosis: &Diagnosis) -> u8 {
    match diagnosis.verdict() {
        Verdict::Sound => 0,
        Verdict::Missing => 1,
        Verdict::Untried => exit::USAGE,
    }
}

/// Colours are for terminals, unless the environment says otherwise (no-color.org,
/// bixense.com/clicolors).
fn coloured() -> bool {
    let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let forced = set("CLICOLOR_FORCE") && std::env::var_os("CLICOLOR_FORCE") != Some("0".into());
    !set("NO_COLOR") && (forced || std::io::stdout().is_terminal())
}
