//! Errors of the disk, for tests: the n-th read, write or flush of a file fails, moves fewer
//! bytes than it was asked to, or waits until the test lets it go. Only with the feature `faults` (and in this crate's own tests);
//! without it nothing of this is in the program.
//!
//! In a test of one process:
//!
//! ```
//! use nfs_io::faults::{Call, Fault, Rule};
//! use nfs_io::{Errno, Mode};
//!
//! let file = std::fs::File::open("/dev/null").unwrap();
//! let refused = Rule::new(Call::Write, Fault::Fail(Errno::INVAL))
//!     .in_mode(Mode::Direct)
//!     .of_file(&file)
//!     .inject();
//! // ... every direct write of that inode, through any descriptor, now fails ...
//! assert_eq!(refused.hits(), 0);
//! drop(refused); // ... and from here on none does.
//! ```
//!
//! A rule for all files meets the other tests of the process too: name the file.
//!
//! In a process that is tested from outside: build it with `--features faults`, and set
//! [`FAULTS_VARIABLE`] to the path of a file with one rule a line. The file may be missing, and
//! written or changed at any time (best by renaming another into its place); when its text
//! changes, all its rules begin anew. A line that is not understood ends the process: a test must
//! not run without its fault.
//!
//! ```text
//! # call=  read, write, fsync, close or open-direct (opening with O_DIRECT)
//! # fail=  an errno by name or number, or: shorten=BYTES, or: hold=FIFO
//! # mode=  buffered, dontcache or direct; any if not given. An fsync has none.
//! # file=  the last part of the file's path (see `Rule::of_name`); any if not given
//! # nth=   the first call that is met, 1 if not given;  times= how many are, all if not given
//! call=write mode=direct file=log.0 fail=EINVAL
//! call=fsync nth=3 times=1 fail=EIO
//! call=fsync hold=/tmp/test/flush
//! ```
//!
//! A read that a rule is for is not answered from the page cache on the way
//! ([`crate::fs::pread_nowait`]), so that it meets the rule. What is counted are calls of the kernel. A `Shorten` moves as many bytes as it says (of a
//! direct transfer, up to a page more reach their place: nothing smaller can be asked for) and
//! tells of no more; what asked goes on from there, with a call that counts as the next.
//!
//! A call that is held opens the named pipe for reading and reads it to its end, then goes on as if
//! there were no rule. So a test that could open the pipe for writing knows that a call has come so
//! far, and lets it go by closing it. The thread that would ask the kernel waits: with the ring,
//! for a transfer or a COMMIT, the whole shard.

use std::ffi::OsStr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use parking_lot::Mutex;

use crate::limits::BUFFER_ALIGN_BYTES;
use crate::mode::Mode;
use crate::{Errno, Result};

/// Names the file with the rules of a process that is tested from outside.
pub const FAULTS_VARIABLE: &str = "PENSTOCK_FAULTS";

/// The kind of call that a rule is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Call {
    /// A read through an engine.
    Read,
    /// A write through an engine.
    Write,
    /// Flushing one file, through an engine or not.
    Fsync,
    /// Opening a file again with `O_DIRECT`, by [`crate::fs::reopen`].
    OpenDirect,
    /// Taking space ahead of data, by [`crate::fs::allocate_ahead`].
    Allocate,
    /// [`crate::fs::close`]; the descriptor is closed all the same.
    Close,
}

/// What is done to a call that a rule applies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fault {
    /// The kernel is not asked; this is the answer.
    Fail(Errno),
    /// A transfer moves at most this many bytes, at least one. Says nothing to other calls.
    Shorten(usize),
}

impl Fault {
    /// The answer, where the kernel is not to be asked.
    pub(crate) fn errno(self) -> Option<Errno> {
        match self {
            Self::Fail(errno) => Some(errno),
            Self::Shorten(_) => None,
        }
    }

    /// How many of `len` bytes the kernel is to be asked for. A direct transfer that is shortened stays a
    /// multiple of [`BUFFER_ALIGN_BYTES`], so that the kernel takes it.
    pub(crate) fn asked(self, len: usize, mode: Mode) -> usize {
        match (self, mode) {
            (Self::Fail(_), _) => len,
            (Self::Shorten(bytes), Mode::Direct) => {
                bytes.max(1).next_multiple_of(BUFFER_ALIGN_BYTES).min(len)
            }
            (Self::Shorten(bytes), Mode::Buffered | Mode::DontCache) => bytes.max(1).min(len),
        }
    }

    /// What to make of the kernel's answer.
    pub(crate) fn told(self, answer: Result<usize>) -> Result<usize> {
        match self {
            Self::Fail(errno) => Err(errno),
            Self::Shorten(bytes) => answer.map(|moved| moved.min(bytes.max(1))),
        }
    }
}

/// What the rules have in store for a call: a fault, or a wait.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Met {
    Fault(Fault),
    /// The call waits at the named pipe of this path; the module says how a test lets it go on.
    Hold(PathBuf),
}

/// Which calls meet which fault.
#[derive(Clone, Debug)]
#[must_use = "does nothing until it is injected"]
pub struct Rule {
    call: Call,
    met: Met,
    mode: Option<Mode>,
    file: Files,
    nth: u64,
    times: u64,
}

#[derive(Clone, Debug)]
enum Files {
    Any,
    Inode { dev: u64, ino: u64 },
    Named(Vec<u8>),
}

impl Rule {
    /// Every such call, from the next one on, of any file in any mode.
    pub fn new(call: Call, fault: Fault) -> Self {
        Self::meeting(call, Met::Fault(fault))
    }

    /// Every such call waits at this named pipe; see the module.
    pub fn holding(call: Call, fifo: PathBuf) -> Self {
        Self::meeting(call, Met::Hold(fifo))
    }

    fn meeting(call: Call, met: Met) -> Self {
        Self {
            call,
            met,
            mode: None,
            file: Files::Any,
            nth: 1,
            times: u64::MAX,
        }
    }

    /// Lets the rule apply to transfers in this mode only.
    pub fn in_mode(self, mode: Mode) -> Self {
        Self {
            mode: Some(mode),
            ..self
        }
    }

    /// Only calls on the inode that `file` is open on, through whatever descriptor.
    ///
    /// # Panics
    /// For what cannot be asked for its attributes.
    pub fn of_file(self, file: impl AsFd) -> Self {
        let stat = rustix::fs::fstat(file.as_fd()).expect("an open file has attributes");
        let (dev, ino) = (stat.st_dev, stat.st_ino);
        Self {
            file: Files::Inode { dev, ino },
            ..self
        }
    }

    /// Only calls on files whose path ends in this component, as `/proc/self/fd` tells it: not on
    /// one that was renamed or removed, nor on one that was opened by its handle while nobody had
    /// looked up its name.
    pub fn of_name(self, name: &[u8]) -> Self {
        Self {
            file: Files::Named(name.to_vec()),
            ..self
        }
    }

    /// Spares the calls before the `nth`, which is 1 for the next.
    pub fn from(self, nth: u64) -> Self {
        Self { nth, ..self }
    }

    /// Lets the rule apply to so many calls, and spares those after them.
    pub fn times(self, times: u64) -> Self {
        Self { times, ..self }
    }

    /// Applies it from now on in this whole process, until what is returned is dropped. Where
    /// several rules are for one call, the oldest that applies does.
    pub fn inject(self) -> Injected {
        let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        let mut active = ACTIVE.lock();
        active.push(Active::new(id, self));
        INJECTED.store(active.len(), Ordering::SeqCst);
        Injected { id }
    }
}

/// A rule that applies until this is dropped.
#[derive(Debug)]
#[must_use = "dropping it ends the fault"]
pub struct Injected {
    id: u64,
}

impl Injected {
    /// How many calls met the fault.
    #[must_use]
    pub fn hits(&self) -> u64 {
        let active = ACTIVE.lock();
        active
            .iter()
            .find(|one| one.id == self.id)
            .map_or(0, |one| one.hits)
    }
}

impl Drop for Injected {
    fn drop(&mut self) {
        let mut active = ACTIVE.lock();
        active.retain(|one| one.id != self.id);
        INJECTED.store(active.len(), Ordering::SeqCst);
    }
}

/// What is to happen to this call, once it has waited where it is to wait; asked once for each.
///
/// # Panics
/// When a named pipe that it is to wait at cannot be read.
pub(crate) fn next(call: Call, mode: Mode, file: BorrowedFd<'_>) -> Option<Fault> {
    let from_outside = outside();
    if INJECTED.load(Ordering::SeqCst) == 0 && from_outside.is_none() {
        return None;
    }
    let met = first(&mut ACTIVE.lock(), call, mode, file);
    let met = met.or_else(|| {
        let mut rules = from_outside?.lock();
        rules.refresh();
        first(&mut rules.active, call, mode, file)
    });
    match met? {
        Met::Fault(fault) => Some(fault),
        Met::Hold(fifo) => {
            // Nothing is locked here: other calls go on, and meet their rules.
            if let Err(error) = std::fs::read(&fifo) {
                panic!("{}: {error}", fifo.display());
            }
            None
        }
    }
}

/// The answer to a call that moves nothing, if it is not the kernel's to give.
pub(crate) fn refuse(call: Call, file: BorrowedFd<'_>) -> Result<()> {
    match next(call, Mode::Buffered, file).and_then(Fault::errno) {
        Some(errno) => Err(errno),
        None => Ok(()),
    }
}

/// Whether there is a rule for such calls, to be met now or later: what could be had without one
/// is then not to be.
pub(crate) fn expected(call: Call, file: BorrowedFd<'_>) -> bool {
    let among = |active: &[Active]| {
        let fits = |one: &Active| Mode::ALL.iter().any(|mode| one.matches(call, *mode, file));
        active.iter().any(fits)
    };
    let inside = INJECTED.load(Ordering::SeqCst) > 0 && among(&ACTIVE.lock());
    inside
        || outside().is_some_and(|rules| {
            let mut rules = rules.lock();
            rules.refresh();
            among(&rules.active)
        })
}

/// Counts the call with every rule it matches.
fn first(active: &mut [Active], call: Call, mode: Mode, file: BorrowedFd<'_>) -> Option<Met> {
    let mut met = None;
    for one in active {
        let applies = one.matches(call, mode, file) && one.count();
        if applies && met.is_none() {
            one.hits += 1;
            met = Some(one.rule.met.clone());
        }
    }
    met
}

/// A rule and what it has seen.
#[derive(Debug)]
struct Active {
    id: u64,
    rule: Rule,
    seen: u64,
    hits: u64,
}

impl Active {
    fn new(id: u64, rule: Rule) -> Self {
        Self {
            id,
            rule,
            seen: 0,
            hits: 0,
        }
    }

    fn matches(&self, call: Call, mode: Mode, file: BorrowedFd<'_>) -> bool {
        let moves = matches!(call, Call::Read | Call::Write);
        let mode_fits = !moves || self.rule.mode.is_none_or(|wanted| wanted == mode);
        call == self.rule.call
            && mode_fits
            && match &self.rule.file {
                Files::Any => true,
                Files::Inode { dev, ino } => rustix::fs::fstat(file)
                    .is_ok_and(|stat| (stat.st_dev, stat.st_ino) == (*dev, *ino)),
                Files::Named(name) => {
                    std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).is_ok_and(
                        |path| path.file_name().map(OsStr::as_encoded_bytes) == Some(name),
                    )
                }
            }
    }

    /// Counts a call; whether its turn has come.
    fn count(&mut self) -> bool {
        self.seen += 1;
        self.seen >= self.rule.nth && self.seen - self.rule.nth < self.rule.times
    }
}

static ACTIVE: Mutex<Vec<Active>> = Mutex::new(Vec::new());
/// Length of [`ACTIVE`], to be looked at without the lock.
static INJECTED: AtomicUsize = AtomicUsize::new(0);
static NEXT_ID: AtomicU64 = AtomicU64::new(0);

mod outside;

use outside::Outside;

/// The rules from outside, where there are any.
fn outside() -> Option<&'static Mutex<Outside>> {
    static OUTSIDE: OnceLock<Option<Mutex<Outside>>> = OnceLock::new();
    OUTSIDE
        .get_or_init(|| {
            let path = std::env::var_os(FAULTS_VARIABLE)?;
            Some(Mutex::new(Outside::new(PathBuf::from(path))))
        })
        .as_ref()
}

#[cfg(test)]
mod tests;
