//! Limits of the commands: how much they keep on its way, and how long they wait.

use std::time::Duration;

/// READLINKs that `ls -l` keeps on their way.
pub(crate) const READLINKS_MAX: usize = 32;

/// Largest window that `--window` takes, transfers.
pub(crate) const WINDOW_MAX: u32 = 1024;

/// Pieces of a file's contents that wait for the thread that writes standard output.
pub(crate) const PIECES_WAITING_MAX: usize = 1;

/// The longest time of an answer that `ping` tells apart, nanoseconds: what `--timeout` takes at most.
pub(crate) const PING_NANOSECONDS_MAX: u64 = 1_000_000_000_000_000;

/// How long the server is given to take a mount that has ended off its list, or to end a session.
pub(crate) const GOODBYE_MAX: Duration = Duration::from_secs(1);

/// How long an unmounted file system may go on before somebody is told that others still have it.
pub(crate) const COPIES_UNTOLD: Duration = Duration::from_secs(2);

/// Bytes of a line that `penstock audit` reads at once; none that a server writes is as long.
pub(crate) const AUDIT_LINE_BYTES_MAX: u64 = 64 << 10;

/// Smallest size, in bytes, that `penstock trace record` may be told to end at: its beginning and some calls.
pub(crate) const RECORDING_BYTES_MIN: u64 = 4096;

/// How often `penstock audit` opens the files of an audit that is begun anew between the two.
pub(crate) const AUDIT_OPENS_MAX: usize = 8;

/// How long a server says nothing before whoever waits is told.
pub(crate) const SILENCE_TOLD_FIRST: Duration = Duration::from_secs(3);

/// The longest time between two messages that a server does not answer.
pub(crate) const SILENCE_TOLD_EVERY_MAX: Duration = Duration::from_secs(60);

/// Looks at how far a copy is that its rate is computed from, at ten a second: what it was in the last ten
/// seconds.
pub(crate) const PACE_SAMPLES_MAX: usize = 100;

/// Time between two lines of progress where there is no terminal, unless `--progress` says.
pub(crate) const PROGRESS_EVERY_DEFAULT: Duration = Duration::from_secs(10);

/// How long completion in a shell waits for a server: longer, and whoever types would wait for it.
pub(crate) const COMPLETE_WITHIN: Duration = Duration::from_secs(1);

/// Names that completion in a shell offers.
pub(crate) const COMPLETIONS_MAX: usize = 1000;

/// Entries of a directory that completion in a shell looks at.
pub(crate) const COMPLETE_ENTRIES_MAX: usize = 100_000;

/// Bytes of a list that `--files-from` reads: some ten million paths.
pub(crate) const FILES_FROM_BYTES_MAX: u64 = 1 << 30;
/// Clients that `penstock status` shows, those with most calls.
pub(crate) const STATUS_CLIENTS_SHOWN_MAX: usize = 10;

/// Characters that a filter of `penstock top` may have.
pub(crate) const TOP_FILTER_CHARS_MAX: usize = 200;

/// Keys, figures and signals that wait for `penstock top` to look at them; then those who tell of them wait.
pub(crate) const TOP_EVENTS_MAX: usize = 64;

/// How long `penstock top` rests, at most, before it asks a server again that did not answer.
pub(crate) const TOP_RETRY_MAX: Duration = Duration::from_secs(2);

/// Readers of a mount's statistics that are told at once; others wait their turn.
pub(crate) const STATISTICS_READERS_MAX: usize = 4;

/// How long a mount's process takes to tell its statistics, and a reader to read them, at most.
pub(crate) const STATISTICS_TIME_MAX: Duration = Duration::from_secs(5);

/// Bytes of a mount's statistics that are read: all kinds of calls with full histograms are less than a mebibyte.
pub(crate) const STATISTICS_BYTES_MAX: u64 = 4 << 20;

/// How long is looked at a mount that does not tell its statistics, to see whether it is served.
pub(crate) const MOUNT_LOOK_MAX: Duration = Duration::from_secs(2);

/// Columns of the doctor's page on a wide terminal: longer lines are hard to read.
pub(crate) const PAGE_COLUMNS_MAX: usize = 120;
