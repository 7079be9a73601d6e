//! What runs inside the guest, on a file system that the kernel's NFS client has mounted.
//!
//! Each suite writes its verdicts as lines to a result file that the host reads: `ok NAME`,
//! `FAIL NAME: why`, `note NAME: text`, and `manifest NAME JSON` with what the client shows at the
//! end of a test, for the host to compare with its own disk.

pub(crate) mod acls;
mod calls;
mod check;
mod dd;
mod duel;
mod fsx;
pub(crate) mod hold;
mod locks;
mod names;
pub(crate) mod own;
mod posix;
pub(crate) mod ranges;
mod sharing;
pub(crate) mod stable;
mod tree;
pub(crate) mod xattrs;

use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, Result};
use clap::{Args, Subcommand};

pub(crate) use calls::TESTS as CALLS;
pub(crate) use calls::content_tests as content_calls;
pub(crate) use dd::TESTS as COPIES;
pub(crate) use locks::TESTS as LOCKS;
pub(crate) use posix::ROWS as POSIX;
pub(crate) use sharing::{BESIDE, BESIDE_CACHED, TESTS as SHARING};

/// What `nfs-test guest` is told.
#[derive(Args)]
pub(crate) struct GuestArgs {
    /// Where the verdicts go; standard output if not given.
    #[arg(long)]
    results: Option<PathBuf>,
    #[command(subcommand)]
    suite: Suite,
}

#[derive(Subcommand)]
enum Suite {
    /// Every call a program makes.
    Calls {
        dir: PathBuf,
        /// What the verdicts' names begin with.
        #[arg(long, default_value = "calls")]
        name: String,
        /// Only the tests of files' bytes.
        #[arg(long)]
        content: bool,
    },
    /// Copies with dd, past the client's cache.
    Dd {
        dir: PathBuf,
        /// A directory that is not on NFS.
        scratch: PathBuf,
        /// What the verdicts' names begin with.
        #[arg(long)]
        name: String,
    },
    /// Two mounts and a program of the host write one file.
    Duel {
        mount: PathBuf,
        other: PathBuf,
        #[arg(long)]
        rounds: u64,
        #[arg(long)]
        seed: u64,
    },
    /// The table of what calls on names and attributes answer, as whoever this process is.
    Posix {
        /// Root makes it; another user finds there what root has left.
        dir: PathBuf,
        #[arg(long)]
        name: String,
    },
    /// Lock a file of a server that keeps no locks.
    Locks {
        dir: PathBuf,
        /// What the verdicts' names begin with.
        #[arg(long)]
        name: String,
    },
    /// Hold opens and locks while the host kills the server.
    Hold {
        dir: PathBuf,
        /// What the host makes when they are to be let go.
        #[arg(long)]
        release: PathBuf,
    },
    /// Lock random ranges of a file beside other programs, here and elsewhere.
    Ranges {
        file: PathBuf,
        /// The verdict's name.
        #[arg(long)]
        name: String,
        /// Number that tells its marks from those of others.
        #[arg(long)]
        owner: u64,
        #[arg(long, value_enum)]
        kind: ranges::Kind,
        /// Read and write past the cache.
        #[arg(long)]
        past_cache: bool,
        /// A file: while somebody has it locked, nothing new is.
        #[arg(long)]
        gate: Option<PathBuf>,
        /// What the host makes when it is enough.
        #[arg(long)]
        enough: PathBuf,
        #[arg(long)]
        seed: u64,
    },
    /// Read what was written here, while the host counts READs.
    Own {
        dir: PathBuf,
        /// Where the host's answers come.
        gates: PathBuf,
        #[arg(long)]
        name: String,
    },
    /// Unpack a tar archive, compare it with the manifest of its tree, compile a program.
    Tree {
        dir: PathBuf,
        archive: PathBuf,
        manifest: PathBuf,
    },
    /// Random operations against a model in memory.
    Fsx {
        dir: PathBuf,
        #[arg(long)]
        seed: u64,
        #[arg(long)]
        operations: u64,
        /// The verdict's name.
        #[arg(long, default_value = "fsx")]
        name: String,
        /// Tell of progress every so many operations.
        #[arg(long)]
        progress: Option<u64>,
        /// How many of a hundred operations go past the client's cache.
        #[arg(long, default_value_t = 3)]
        direct: u64,
    },
    /// Random changes of names while the host kills the server, compared with a file system of the guest's own.
    Names {
        dir: PathBuf,
        /// A directory that is not on NFS.
        reference: PathBuf,
        /// What the verdict and the directory are called.
        #[arg(long)]
        name: String,
        #[arg(long)]
        seed: u64,
        #[arg(long)]
        workers: u64,
        /// What the host makes when it is enough.
        #[arg(long)]
        enough: PathBuf,
    },
    /// Two mounts of one export see each other's changes.
    Sharing {
        uncached: PathBuf,
        uncached_too: PathBuf,
        cached: PathBuf,
        cached_too: PathBuf,
    },
    /// A mount and a program of the server's host see each other's changes.
    Beside {
        /// The directory on the server's disk.
        host: PathBuf,
        mount: PathBuf,
        /// Only from open to close, as a mount with caches shows them.
        #[arg(long)]
        cached: bool,
        /// What the verdicts' names begin with.
        #[arg(long)]
        name: String,
    },
    /// Write in each way that promises something while the host cuts the power.
    Stable {
        dir: PathBuf,
        /// Where the host's answers come.
        gates: PathBuf,
        #[arg(long)]
        rounds: u64,
    },
    /// Set and read ACLs, and make files where they pass on.
    Acls { dir: PathBuf },
    /// Set, read, list and remove extended attributes.
    Xattrs { dir: PathBuf },
    /// One call as whatever user this process is; prints `ok` or the error's name.
    Attempt { operation: String, path: PathBuf },
}

/// Runs a suite. The verdict is in the result file; the exit code tells only of a broken run.
///
/// # Errors
/// When the result file cannot be written.
pub(crate) fn main(args: &GuestArgs) -> Result<ExitCode> {
    let mut report = Report::open(args.results.as_deref())?;
    match &args.suite {
        Suite::Calls { dir, name, content } => calls::run(dir, name, *content, &mut report)?,
        Suite::Dd { dir, scratch, name } => dd::run(dir, scratch, name, &mut report)?,
        Suite::Duel {
            mount,
            other,
            rounds,
            seed,
        } => duel::run([mount, other], *rounds, *seed, &mut report)?,
        Suite::Posix { dir, name } => posix::run(dir, name, &mut report)?,
        Suite::Locks { dir, name } => locks::run(dir, name, &mut report)?,
        Suite::Hold { dir, release } => hold::run(dir, release, &mut report)?,
        Suite::Ranges {
            file,
            name,
            owner,
            kind,
            past_cache,
            gate,
            enough,
            seed,
        } => {
            let plan = ranges::Plan {
                name,
                owner: *owner,
                kind: *kind,
                past_cache: *past_cache,
                gate: gate.as_deref(),
                enough,
                seed: *seed,
            };
            ranges::run(file, &plan, &mut report)?;
        }
        Suite::Own { dir, gates, name } => own::run(dir, gates, name, &mut report)?,
        Suite::Tree {
            dir,
            archive,
            manifest,
        } => tree::run(dir, archive, manifest, &mut report)?,
        Suite::Fsx {
            dir,
            seed,
            operations,
            name,
            progress,
            direct,
        } => {
            let plan = fsx::Plan {
                name,
                seed: *seed,
                operations: *operations,
                progress: *progress,
                direct: *direct,
            };
            fsx::run(dir, &plan, &mut report)?;
        }
        Suite::Names {
            dir,
            reference,
            name,
            seed,
            workers,
            enough,
        } => {
            let plan = names::Plan {
                name,
                seed: *seed,
                workers: *workers,
                enough,
            };
            names::run(dir, reference, &plan, &mut report)?;
        }
        Suite::Sharing {
            uncached,
            uncached_too,
            cached,
            cached_too,
        } => {
            sharing::run([uncached, uncached_too], [cached, cached_too], &mut report)?;
        }
        Suite::Beside {
            host,
            mount,
            cached,
            name,
        } => sharing::beside([host, mount], *cached, name, &mut report)?,
        Suite::Stable { dir, gates, rounds } => stable::run(dir, gates, *rounds, &mut report)?,
        Suite::Acls { dir } => acls::run(dir, &mut report)?,
        Suite::Xattrs { dir } => xattrs::run(dir, &mut report)?,
        Suite::Attempt { operation, path } => calls::attempt(operation, path),
    }
    Ok(ExitCode::SUCCESS)
}

/// The file, or standard output, to which verdicts are written.
pub(crate) struct Report {
    out: Box<dyn Write>,
    /// When the last verdict was written, or the suite began.
    last: Instant,
}

impl Report {
    fn open(path: Option<&Path>) -> Result<Self> {
        let out: Box<dyn Write> = match path {
            None => Box::new(std::io::stdout()),
            Some(path) => Box::new(
                OpenOptions::new()
                    .append(true)
                    .open(path)
                    .context("the result file")?,
            ),
        };
        Ok(Self {
            out,
            last: Instant::now(),
        })
    }

    /// The verdict on one test.
    ///
    /// # Errors
    /// When the result file cannot be written.
    pub(crate) fn verdict(&mut self, name: &str, outcome: &Result<()>) -> Result<()> {
        match outcome {
            Ok(()) => {
                let seconds = self.last.elapsed().as_secs_f64();
                self.last = Instant::now();
                self.line(&format!("ok {name} ({seconds:.1} s)"))
            }
            Err(error) => self.line(&format!("FAIL {name}: {error:#}")),
        }
    }

    /// Writes one line, whatever its kind, to the results.
    ///
    /// # Errors
    /// When the result file cannot be written.
    pub(crate) fn line(&mut self, line: &str) -> Result<()> {
        // One write for a line: the next writer of the file may be another process.
        self.out
            .write_all(format!("{}\n", line.replace('\n', " ")).as_bytes())?;
        self.out.flush()?;
        Ok(())
    }
}
