//! `penstock doctor`: what the I/O modes come to in a directory, tried there; what an NFS server is like,
//! asked from outside.

mod json;
mod page;
mod server;
#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::builder::TypedValueParser as _;
use nfs_client::NfsUrl;
use nfs_io::probe::diagnosis::{Diagnosis, Verdict, diagnose};
use nfs_io::probe::directory;

use crate::exit;
use crate::session::Common;
use crate::show::When;

/// Examine a directory to serve, or any NFS server, and say what is missing
///
/// A directory (DIR): what the I/O modes do there. Reads and writes a file of 4
/// MiB that has no name (O_TMPFILE, or a name that is removed before anything is
/// written) in every way a server would: through the page cache, dropped behind
/// (RWF_DONTCACHE), past it (O_DIRECT), aligned and not, stable and not. Where the
/// bytes really went is looked up (cachestat, mincore), not believed. Nothing else
/// is touched, and nothing is left behind. About 100 MiB are written in all. Run
/// it as the user the server runs as.
///
/// A server (URL, nfs://HOST[:PORT]/PATH): which programs and versions answer,
/// what the server says of its file system, how long calls take, what stable
/// storage costs, whether handles, write verifiers and listings can be relied on,
/// whose files are whose. About 1,000 calls, one at a time, within a minute. It
/// writes less than 1 MiB, into a directory .penstock-doctor-NUMBER of its own in
/// PATH, and removes that, at Ctrl-C too; --read-only writes nothing. The URL's
/// version= says which version of NFS is examined: 3 without it.
///
/// Exit status: 0 nothing is missing (there may be warnings), 1 something is
/// missing that a mode needs, or a problem of the server, 2 it could not be
/// examined (or wrong usage), 130 interrupted.
///
/// Examples:
///
///   penstock doctor /srv
///
///   penstock doctor --json /srv /var/tmp | jq '{path, recommendation}'
///
///   penstock doctor 'nfs://server/export/scratch?version=4.2'
///
///   penstock doctor --read-only --json nfs://server/export | jq .findings
#[derive(clap::Args, Debug)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// Write nothing on a server: what takes a file to find out is left out
    #[arg(long)]
    read_only: bool,
    #[command(flatten)]
    common: Common,
    /// The directories, and URLs of directories on servers
    #[arg(required = true, value_name = "DIR|URL", value_parser = place())]
    places: Vec<Place>,
}

/// What is examined.
#[derive(Clone, Debug)]
enum Place {
    Dir(PathBuf),
    Server(NfsUrl),
}

fn place() -> impl clap::builder::TypedValueParser<Value = Place> {
    clap::builder::OsStringValueParser::new().try_map(|word: OsString| match word.to_str() {
        Some(url) if url.starts_with("nfs://") => url.parse().map(Place::Server),
        _ => Ok(Place::Dir(word.into())),
    })
}

impl Args {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        let style = page::Style::of_output(When::Auto.is_now());
        let mut worst = 0;
        for (index, place) in self.places.iter().enumerate() {
            if index > 0 && !self.common.json {
                writeln!(std::io::stdout())?;
            }
            let code = match place {
                Place::Dir(dir) => self.directory(dir, style)?,
                Place::Server(url) => self.server(url, style)?,
            };
            worst = worst.max(code);
            if code == exit::INTERRUPTED {
                break;
            }
        }
        Ok(ExitCode::from(worst))
    }

    /// Tries the modes in a directory; the exit status that it asks for.
    fn directory(&self, dir: &Path, style: page::Style) -> anyhow::Result<u8> {
        let process = directory::process();
        let mut out = std::io::stdout().lock();
        let facts = match directory::probe(dir) {
            Ok(facts) => facts,
            Err(error) => {
                if self.common.json {
                    writeln!(out, "{}", json::failure(dir, &error))?;
                } else {
                    eprintln!("penstock: {error}");
                }
                return Ok(exit::USAGE);
            }
        };
        let diagnosis = diagnose(&facts, &process);
        if self.common.json {
            writeln!(out, "{}", json::report(&facts, &process, &diagnosis))?;
        } else {
            page::print(&mut out, style, &facts, &process, &diagnosis)?;
        }
        Ok(code(&diagnosis))
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
