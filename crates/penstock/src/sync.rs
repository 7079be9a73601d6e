//! `penstock sync`: a tree made like another, to, from and between NFS servers.

use std::ffi::OsString;
use std::io::{IsTerminal as _, Read as _};
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use nfs_client::limits::{JOBS_DEFAULT, JOBS_MAX};
use nfs_client::transfer::{
    self, Compare, Delete, Filter, Follow, Mirror, Options, Pattern, Preserve,
};
use nfs_io::Mode;

use crate::cp::{Doing, Run, local_mode};
use crate::exit::UsageError;
use crate::interrupt::quoted;
use crate::limits::FILES_FROM_BYTES_MAX;
use crate::progress::ProgressArgs;
use crate::session::Common;
use crate::windows;

/// What the help text says at its end.
const AFTER_HELP: &str = "\
SOURCE and DESTINATION are paths of this host, or
nfs://HOST[:PORT]/EXPORT/PATH[?OPTION=VALUE&...], as penstock cp has them.
What the directory SOURCE holds comes to be in the directory DESTINATION, with
or without a / at the end; DESTINATION is made if it is not there.

A file whose size and time are the source's is left alone. The content of any
other is written under a name of its own (.NAME.penstock-...) in the same
directory, brought to stable storage on a server, given its mode, times and
owner, and renamed: who reads DESTINATION meanwhile sees the old file or the
new one. The same command goes on after an interruption of whatever kind.

What the source does not have is removed with --delete only: when all else is
done, and only if nothing failed. What --exclude leaves out stays on both
sides. With --files-from, only what the list names is copied, compared or
removed.

Exit codes: 0 all done, 1 something failed and the rest is done, or --check
found a difference, 2 wrong usage, 130 interrupted.";

/// Make a tree like another, to, from and between NFS servers
///
/// Copies what is new or differs, and with --delete removes what the source does
/// not have. Modes, times, owners, links, fifos and devices are kept as with
/// `penstock cp -a`.
///
/// Examples:
///
///   penstock sync photos nfs://server/export/photos
///
///   penstock sync --delete --max-delete 100 -n nfs://one/data nfs://two/data
///
///   penstock sync --check --compare checksum nfs://server/export/photos photos
///
///   find . -newer stamp | penstock sync --files-from - . nfs://server/export/src
#[derive(clap::Args, Debug)]
#[command(verbatim_doc_comment, after_long_help = AFTER_HELP)]
pub(crate) struct Args {
    /// Remove what the source does not have
    #[arg(long)]
    delete: bool,

    /// Remove nothing if more than N files and directories would go
    #[arg(long, value_name = "N", requires = "delete")]
    max_delete: Option<u64>,

    /// Say what would be done, and change nothing
    #[arg(short = 'n', long)]
    dry_run: bool,

    /// Compare only: say what differs, is missing, or is at the destination alone, and end with 1 if anything is
    #[arg(long, conflicts_with_all = ["dry_run", "delete"])]
    check: bool,

    /// What tells that a file is there already as it is to be
    #[arg(long, value_name = "HOW", default_value = "time")]
    compare: How,

    /// Copy only the paths below SOURCE that FILE lists, one a line, with all that lies below them; - reads
    /// standard input
    #[arg(long, value_name = "FILE")]
    files_from: Option<PathBuf>,

    /// The paths of --files-from end in NUL bytes, not in line ends
    #[arg(short = '0', long, requires = "files_from")]
    null: bool,

    /// Leave out what matches, on both sides: see penstock cp
    #[arg(long, value_name = "PATTERN", allow_hyphen_values = true)]
    exclude: Vec<Pattern>,

    /// Take what matches, whatever --exclude says
    #[arg(
        long,
        value_name = "PATTERN",
        allow_hyphen_values = true,
        requires = "exclude"
    )]
    include: Vec<Pattern>,

    /// Try a file that failed so often again, after pauses of 1, 2, 4 seconds and so on
    #[arg(long, value_name = "N", default_value_t = 2)]
    retries: u32,

    /// Read both sides again after each file and compare their checksums (BLAKE3)
    #[arg(long)]
    verify: bool,

    /// Move at most so many bytes per second, all files together, such as 20MiB
    #[arg(long, value_name = "SIZE", value_parser = windows::rate)]
    limit: Option<NonZeroU64>,

    /// Files copied at once
    #[arg(short, long, value_name = "N", default_value_t = JOBS_DEFAULT,
          value_parser = clap::value_parser!(u32).range(1..=i64::from(JOBS_MAX)))]
    jobs: u32,

    /// How files of this host are read and written
    #[arg(long, value_name = "HOW", default_value_t = Mode::Buffered, value_parser = local_mode())]
    local: Mode,

    /// Bring files of this host to stable storage before they get their names
    #[arg(long)]
    fsync: bool,

    #[command(flatten)]
    windows: windows::WindowArgs,

    #[command(flatten)]
    common: Common,

    /// Print what is done with each file
    #[arg(short, long)]
    verbose: bool,

    #[command(flatten)]
    progress: ProgressArgs,

    /// What is to be mirrored
    #[arg(value_name = "SOURCE")]
    source: OsString,

    /// What is to become like it
    #[arg(value_name = "DESTINATION")]
    destination: OsString,
}

/// A word that `--compare` takes.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    /// Size and time of change
    Time,
    /// Size alone
    Size,
    /// Content: both sides are read
    Checksum,
}

impl Args {
    /// Mirrors, or compares, as the arguments say.
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        let options = self.options()?;
        let tells = self.verbose || self.dry_run || self.check || self.progress.is_asked();
        let run = Run {
            common: &self.common,
            progress: &self.progress,
            windows: &self.windows,
            limit: self.limit,
            standard_streams: false,
            one_source: true,
            asks: false,
            shows_progress: !self.common.json,
            verbose: self.verbose,
            tells_totals: !self.common.quiet && (tells || std::io::stderr().is_terminal()),
            doing: match (self.check, self.dry_run) {
                (true, _) => Doing::Check,
                (false, true) => Doing::DryRun,
                (false, false) => Doing::Really,
            },
            again: Some(command_line()),
        };
        let places = [self.source.clone(), self.destination.clone()];
        run.run(&places, async |places, watch| match places.as_slice() {
            [source, destination] => transfer::mirror(source, destination, &options, watch).await,
            _ => Ok(watch.figures()),
        })
    }

    fn options(&self) -> anyhow::Result<Options> {
        let only = match &self.files_from {
            Some(list) => listed(list, self.null)?,
            None => Vec::new(),
        };
        Ok(Options {
            recursive: true,
            preserve: Preserve::ALL,
            follow: Follow::Never,
            verify: self.verify,
            dry_run: self.dry_run || self.check,
            jobs: self.jobs,
            local: self.local,
            fsync: self.fsync,
            filter: Filter {
                exclude: self.exclude.clone(),
                include: self.include.clone(),
            },
            rate: self.limit,
            retries: self.retries,
            only,
            mirror: Some(Mirror {
                compare: match self.compare {
                    How::Time => Compare::TimeAndSize,
                    How::Size => Compare::Size,
                    How::Checksum => Compare::Checksum,
                },
                delete: (self.delete || self.check).then_some(Delete {
                    max: self.max_delete,
                }),
            }),
            ..Options::default()
        })
    }
}

/// The command as it was given, for a shell.
fn command_line() -> String {
    let words = std::env::args_os().skip(1);
    let words = words.map(|word| quoted(&word));
    let words: Vec<String> = std::iter::once("penstock".to_owned())
        .chain(words)
        .collect();
    words.join(" ")
}

/// The paths that `list` names, without empty ones.
fn listed(list: &Path, null: bool) -> anyhow::Result<Vec<Vec<u8>>> {
    let place = || format!("--files-from {}", list.display());
    let mut text = Vec::new();
    let read = match list.as_os_str() == "-" {
        true => std::io::stdin()
            .lock()
            .take(FILES_FROM_BYTES_MAX + 1)
            .read_to_end(&mut text),
        false => std::fs::File::open(list)
            .and_then(|file| file.take(FILES_FROM_BYTES_MAX + 1).read_to_end(&mut text)),
    };
    let len = read.with_context(place)?;
    if u64::try_from(len).is_ok_and(|len| len > FILES_FROM_BYTES_MAX) {
        let text = format!("{} is longer than {FILES_FROM_BYTES_MAX} bytes", place());
        return Err(UsageError(text).into());
    }
    let end = if null { 0 } else { b'\n' };
    let paths = text.split(|&byte| byte == end);
    let paths: Vec<Vec<u8>> = paths
        .filter(|path| !path.is_empty())
        .map(<[u8]>::to_vec)
        .collect();
    let leads_out = |path: &Vec<u8>| path.split(|&byte| byte == b'/').any(|name| name == b"..");
    match paths.iter().find(|path| leads_out(path)) {
        Some(path) => {
            let path = crate::show::escape(path);
            Err(UsageError(format!("{}: {path} leads out of the source", place())).into())
        }
        None if paths.is_empty() => Err(UsageError(format!("{} lists nothing", place())).into()),
        None => Ok(paths),
    }
}
