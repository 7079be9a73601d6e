//! The command line of `penstock cp`.

use std::ffi::{OsStr, OsString};
use std::io::IsTerminal as _;
use std::num::NonZeroU64;
use std::os::unix::ffi::OsStrExt as _;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use nfs_client::limits::{JOBS_DEFAULT, JOBS_MAX};
use nfs_client::transfer::{Existing, Filter, Follow, Options, Pattern, Preserve, Sparse};
use nfs_io::Mode;

use crate::exit::UsageError;
use crate::interrupt::quoted;
use crate::progress::ProgressArgs;
use crate::session::Common;
use crate::values::mode::umask;
use crate::windows;

/// What the help text says at its end.
const AFTER_HELP: &str = "\
A place is a path of this host, or
nfs://HOST[:PORT]/EXPORT/PATH[?OPTION=VALUE&...]. %XX in it is a byte of the
path. Options: nfsport, mountport, uid, gid, nconnect, rsize, wsize,
readdir-buffer, hint, timeout, timeo, retrans=0, autoreconnect=0, readonly,
if, version (3, 4, 4.1, 4.2). A source may have patterns for names, in quotes:
'nfs://HOST/EXPORT/*.log'; %2A is a * itself.

- is standard input as a source and standard output as the destination. Fifos
and devices of this host are read to their end, and written to, unless -r
makes others like them; neither --verify nor --resume is for them. A file of
this host that is called - is ./-.

A file on a server that is reported as done is on stable storage. A file of
this host is handed to its file system, as cp(1) does; with --fsync it is on
stable storage, too.

Ctrl-C ends what is on its way, says what is there, and prints the command
that goes on; a second one ends at once. A copy that was cut off in any other
way goes on with the same command and --resume: a file that is there with the
source's size and time is done (without times kept: one that went in a single
WRITE and is not older); one that is shorter and not older goes on 64 MiB
before its end, after a comparison of its first and last blocks; any other is
copied anew.

In trees, a symbolic link at a file's place is replaced, never written
through.

Exit codes: 0 all done, 1 something failed and the rest is done, 2 wrong
usage, 130 interrupted.";

/// Copy files and trees to, from and between NFS servers, without mounting them
///
/// Each place is a path of this host or an nfs:// address. As with cp(1), a
/// destination that is a directory is copied into, under the sources' names. Many
/// files are copied at once; errors are printed as they come, and everything else
/// is done.
///
/// Examples:
///
///   penstock cp -a photos nfs://server/export/
///
///   penstock cp -r --jobs 64 nfs://server/export/src .
///
///   penstock cp 'nfs://server/export/logs/2026-0[1-3]-*' archive/
///
///   penstock cp --verify disk.img nfs://one/export/disk.img
///
///   penstock cp -r nfs://one/export/data nfs://two/backup/
///
///   penstock cp nfs://server/export/backup.tar.zst - | zstd -d | tar x
///
///   penstock cp -a --limit 50MiB --exclude '*.tmp' data nfs://server/export/
#[derive(clap::Args, Debug)]
#[command(verbatim_doc_comment, after_long_help = AFTER_HELP,
          override_usage = "penstock cp [OPTIONS] <SOURCE>... <DESTINATION>")]
pub(crate) struct Args {
    /// Copy directories with all that they hold; fifos, sockets and devices are made anew
    #[arg(short, long, visible_short_alias = 'R')]
    pub(super) recursive: bool,

    /// As -r --preserve=mode,times,owner,links, with symbolic links kept as such
    #[arg(short, long)]
    pub(super) archive: bool,

    /// As --preserve=mode,times,owner
    #[arg(short = 'p')]
    pub(super) keep: bool,

    /// Keep more of the source than its bytes
    ///
    /// An owner that the caller may not set is left out, and counted at the end. Without it, a new file
    /// gets the source's permission bits less the umask.
    #[arg(long, value_name = "WHAT", value_delimiter = ',')]
    pub(super) preserve: Vec<What>,

    /// Follow all symbolic links of the sources
    #[arg(short = 'L', long)]
    pub(super) dereference: bool,

    /// Follow no symbolic link; the default with -r
    #[arg(short = 'P', long, conflicts_with = "dereference")]
    pub(super) no_dereference: bool,

    /// Remove a file that is there and cannot be written to, and make it anew
    #[arg(short, long)]
    pub(super) force: bool,

    /// Ask before a file that is there is written over; no answer but y or Y is a yes
    #[arg(short, long, conflicts_with_all = ["no_clobber", "update", "resume"])]
    pub(super) interactive: bool,

    /// Leave files alone that are there already
    #[arg(short, long)]
    pub(super) no_clobber: bool,

    /// Leave files alone that are there already and not older than the source
    #[arg(short, long, conflicts_with = "no_clobber")]
    pub(super) update: bool,

    /// Go on with a copy that was cut off; what is complete is left alone
    #[arg(long, conflicts_with_all = ["no_clobber", "update"])]
    pub(super) resume: bool,

    /// Never copy into the destination: it is the name to copy to
    #[arg(short = 'T', long)]
    pub(super) no_target_directory: bool,

    /// Copy all PLACEs into this directory
    #[arg(
        short,
        long,
        value_name = "DIRECTORY",
        conflicts_with = "no_target_directory"
    )]
    pub(super) target_directory: Option<OsString>,

    /// Which blocks become holes
    ///
    /// `auto`: the source's holes; a server cannot tell them, so there it is the blocks of zeros of files
    /// that use less than their size. `always`: all blocks of zeros. `never`: none.
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    pub(super) sparse: When,

    /// Read both sides again after each file and compare their checksums (BLAKE3)
    #[arg(long)]
    pub(super) verify: bool,

    /// Say what would be done, and change nothing
    #[arg(long)]
    pub(super) dry_run: bool,

    /// Leave out what matches, in trees: *.o by its name, /top/*.log by its path below the source
    ///
    /// A pattern without / is for the last name; with one, for as many names at the end of the path; with
    /// / at its beginning, for the path below the source; with / at its end, for directories only. * and ?
    /// stay within a name, ** is any names. A directory that is left out is not looked into. May be given
    /// several times.
    #[arg(long, value_name = "PATTERN", allow_hyphen_values = true)]
    pub(super) exclude: Vec<Pattern>,

    /// Copy what matches, whatever --exclude says: --exclude '*' --include '*/' --include '*.c'
    #[arg(
        long,
        value_name = "PATTERN",
        allow_hyphen_values = true,
        requires = "exclude"
    )]
    pub(super) include: Vec<Pattern>,

    /// Move at most so many bytes per second, all files together, such as 20MiB
    #[arg(long, value_name = "SIZE", value_parser = windows::rate)]
    pub(super) limit: Option<NonZeroU64>,

    /// Files copied at once
    #[arg(short, long, value_name = "N", default_value_t = JOBS_DEFAULT,
          value_parser = clap::value_parser!(u32).range(1..=i64::from(JOBS_MAX)))]
    pub(super) jobs: u32,

    /// How files of this host are read and written
    ///
    /// What the file system or the alignment does not allow goes through the page cache; files whose file
    /// system refuses are counted at the end.
    #[arg(long, value_name = "HOW", default_value_t = Mode::Buffered, value_parser = local_mode())]
    pub(super) local: Mode,

    /// Bring files of this host to stable storage before they count as done
    #[arg(long)]
    pub(super) fsync: bool,

    #[command(flatten)]
    pub(super) windows: windows::WindowArgs,

    #[command(flatten)]
    pub(super) common: Common,

    /// Print what is done with each file
    #[arg(short, long)]
    pub(super) verbose: bool,

    #[command(flatten)]
    pub(super) progress: ProgressArgs,

    /// The sources, and at last the destination unless -t names it
    #[arg(required = true, value_name = "PLACE")]
    pub(super) places: Vec<OsString>,
}

/// A word that `--preserve` takes.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// Permission bits
    Mode,
    /// Times of access and change
    #[value(alias = "timestamps")]
    Times,
    /// Owner and group
    #[value(alias = "ownership")]
    Owner,
    /// Names of one file
    Links,
    /// All of these
    All,
}

/// A word that `--sparse` takes.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum When {
    Auto,
    Always,
    Never,
}

/// The parser of `--local`: the words of the three modes, each with its help.
pub(crate) fn local_mode() -> impl TypedValueParser<Value = Mode> {
    let words = Mode::ALL.map(|mode| {
        PossibleValue::new(mode.word()).help(match mode {
            Mode::Buffered => "Through the page cache",
            Mode::DontCache => "Through it, and dropped behind (Linux 6.14)",
            Mode::Direct => "Past it: O_DIRECT",
        })
    });
    PossibleValuesParser::new(words).try_map(|word| word.parse::<Mode>())
}

impl Args {
    /// What the copy is to do.
    pub(super) fn options(&self) -> Options {
        let keeps =
            |what| self.archive || self.preserve.iter().any(|&w| w == what || w == What::All);
        let preserve = Preserve {
            mode: self.keep || keeps(What::Mode),
            times: self.keep || keeps(What::Times),
            owner: self.keep || keeps(What::Owner),
            links: keeps(What::Links),
        };
        let follow = if self.dereference {
            Follow::Always
        } else if self.no_dereference || self.archive {
            Follow::Never
        } else {
            Follow::Auto
        };
        let existing = if self.no_clobber {
            Existing::Keep
        } else if self.interactive {
            Existing::Ask
        } else if self.update {
            Existing::ReplaceOlder
        } else if self.resume {
            Existing::Resume
        } else {
            Existing::Replace
        };
        Options {
            recursive: self.recursive || self.archive,
            preserve,
            follow,
            existing,
            sparse: match self.sparse {
                When::Auto => Sparse::Auto,
                When::Always => Sparse::Always,
                When::Never => Sparse::Never,
            },
            verify: self.verify,
            dry_run: self.dry_run,
            onto: self.no_target_directory,
            into: self.target_directory.is_some(),
            force: self.force,
            jobs: self.jobs,
            local: self.local,
            fsync: self.fsync,
            umask: umask(),
            filter: Filter {
                exclude: self.exclude.clone(),
                include: self.include.clone(),
            },
            rate: self.limit,
            retries: 0,
            only: Vec::new(),
            mirror: None,
        }
    }

    /// The sources, and at last the destination.
    ///
    /// # Errors
    /// There are too few, or what standard input or output is to be used for twice.
    pub(super) fn all_places(&self) -> Result<Vec<OsString>, UsageError> {
        let target = self.target_directory.clone();
        let places: Vec<OsString> = self.places.iter().cloned().chain(target).collect();
        let refused = |text: &str| Err(UsageError(text.to_owned()));
        let Some((destination, sources @ [_, ..])) = places.split_last() else {
            return refused("give a source and a destination");
        };
        if is_standard(destination, 1) && (self.common.json || self.verbose) {
            return refused("the copy goes to standard output: leave out --json and --verbose");
        }
        if sources.iter().any(|source| is_standard(source, 0)) && self.interactive {
            return refused("standard input is copied, and cannot answer: leave out --interactive");
        }
        Ok(places)
    }

    /// Whether a line on the terminal would come between what is written there anyway.
    pub(super) fn has_terminal_to_itself(&self) -> bool {
        let writes = self.places.last().is_some_and(|last| is_standard(last, 1));
        let comes_between = writes && std::io::stdout().is_terminal();
        !(self.common.json || self.interactive || comes_between)
    }

    /// Whether the totals are told at the end: where somebody looks on, or asked for more than errors.
    pub(super) fn tells_totals(&self) -> bool {
        let asked = self.verbose || self.dry_run || self.progress.is_asked();
        !self.common.quiet && (asked || std::io::stderr().is_terminal())
    }

    /// The command that goes on with this one, for a shell. `None` where a partial file cannot be told
    /// from one that is to be left alone.
    pub(super) fn again(&self) -> Option<String> {
        let has_stream = |place: &OsString| is_standard(place, 0) || is_standard(place, 1);
        let cannot = self.no_clobber || self.update || self.interactive;
        if cannot || self.places.iter().any(has_stream) {
            return None;
        }
        let mut words: Vec<String> = ["penstock", "cp", "--resume"].map(str::to_owned).to_vec();
        let flags = [
            (self.recursive, "-r"),
            (self.archive, "-a"),
            (self.keep, "-p"),
            (self.dereference, "-L"),
            (self.no_dereference, "-P"),
            (self.no_target_directory, "-T"),
            (self.force, "-f"),
            (self.verify, "--verify"),
            (self.dry_run, "--dry-run"),
            (self.fsync, "--fsync"),
            (self.verbose, "-v"),
            (self.sparse == When::Always, "--sparse=always"),
            (self.sparse == When::Never, "--sparse=never"),
            (self.local == Mode::DontCache, "--local=dontcache"),
            (self.local == Mode::Direct, "--local=direct"),
        ];
        words.extend(
            flags
                .into_iter()
                .filter(|(set, _)| *set)
                .map(|(_, flag)| flag.to_owned()),
        );
        if !self.preserve.is_empty() {
            use clap::ValueEnum as _;
            let names: Vec<String> = self
                .preserve
                .iter()
                .filter_map(|what| what.to_possible_value())
                .map(|value| value.get_name().to_owned())
                .collect();
            words.push(format!("--preserve={}", names.join(",")));
        }
        for (name, patterns) in [("exclude", &self.exclude), ("include", &self.include)] {
            let word = |pattern| quoted(format!("--{name}={pattern}").as_ref());
            words.extend(patterns.iter().map(word));
        }
        words.extend(self.limit.map(|limit| format!("--limit={limit}")));
        if self.jobs != JOBS_DEFAULT {
            words.push(format!("--jobs={}", self.jobs));
        }
        words.extend(self.windows.words());
        words.extend(self.progress.words());
        words.extend(self.common.words());
        if let Some(target) = &self.target_directory {
            words.extend(["-t".to_owned(), quoted(target)]);
        }
        words.push("--".to_owned());
        words.extend(self.places.iter().map(|place| quoted(place)));
        Some(words.join(" "))
    }
}

/// Whether a place is standard input (0) or standard output (1).
pub(super) fn is_standard(place: &OsStr, number: u8) -> bool {
    let text = place.as_bytes();
    let name: &[u8] = if number == 0 {
        b"/dev/stdin"
    } else {
        b"/dev/stdout"
    };
    let by_number = text.strip_prefix(b"/dev/fd/".as_slice());
    text == b"-" || text == name || by_number == Some(number.to_string().as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        args: Args,
    }

    fn parse(words: &[&str]) -> Args {
        Command::parse_from([&["cp"], words].concat()).args
    }

    #[test]
    fn the_command_that_goes_on() {
        let table: [(&[&str], &str); 4] = [
            (
                &[
                    "-r",
                    "--exclude",
                    "*.o",
                    "--exclude=-x",
                    "--include",
                    "k p",
                    "--limit",
                    "1MiB",
                    "a",
                    "b",
                ],
                "penstock cp --resume -r '--exclude=*.o' --exclude=-x '--include=k p' \
                 --limit=1048576 -- a b",
            ),
            (&["a", "b"], "penstock cp --resume -- a b"),
            (
                &[
                    "-ra",
                    "--preserve=times,links",
                    "-j",
                    "3",
                    "--window",
                    "2",
                    "it's",
                    "nfs://h/x y",
                ],
                "penstock cp --resume -r -a --preserve=times,links --jobs=3 --window=2 -- \
                 'it'\\''s' 'nfs://h/x y'",
            ),
            (
                &[
                    "-pT",
                    "--resume",
                    "--sparse",
                    "never",
                    "--transfer",
                    "64KiB",
                    "--",
                    "-a",
                    "b",
                ],
                "penstock cp --resume -p -T --sparse=never --transfer=65536 -- -a b",
            ),
        ];
        for (words, expected) in table {
            assert_eq!(parse(words).again().as_deref(), Some(expected));
        }
        let into = parse(&["-ft", "d", "a", "b"]);
        assert_eq!(into.all_places().unwrap(), ["a", "b", "d"]);
        let again = into.again();
        assert_eq!(
            again.as_deref(),
            Some("penstock cp --resume -f -t d -- a b")
        );
        for words in [&["a"][..], &["-v", "a", "-"], &["-i", "/dev/stdin", "b"]] {
            assert!(parse(words).all_places().is_err(), "{words:?}");
        }
        for words in [&["-i", "a", "b"], &["-f", "-", "b"], &["-f", "a", "-"]] {
            assert_eq!(parse(words).again(), None, "{words:?}");
        }
        assert_eq!(parse(&["-n", "a", "b"]).again(), None);
        assert_eq!(parse(&["-u", "a", "b"]).again(), None);
    }

    #[test]
    fn options_of_the_command_line() {
        let options = |words: &[&str]| parse(words).options();
        let archive = options(&["-a", "x", "y"]);
        assert_eq!(archive.preserve, Preserve::ALL);
        assert!(archive.recursive);
        assert_eq!(archive.follow, Follow::Never);
        let kept = options(&["-p", "x", "y"]).preserve;
        assert!(kept.mode && kept.times && kept.owner && !kept.links);
        assert_eq!(options(&["-u", "x", "y"]).existing, Existing::ReplaceOlder);
        assert_eq!(options(&["-L", "x", "y"]).follow, Follow::Always);
    }
}
