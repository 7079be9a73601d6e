//! What each mode does to READ, WRITE and COMMIT in a directory, and which to choose.

use super::kinds::{fs_name, is_memory, is_remote};
use crate::mode::Mode;
use crate::probe::directory::{DirectTrials, DirectoryFacts, Outcome, ProcessFacts, Trials};
use crate::size::in_words;

/// What the I/O modes do in a directory, and which to choose there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Modes {
    /// One row for each mode, in this order: `buffered`, `dontcache`, `direct`.
    pub rows: [Row; 3],
    /// Which of the modes to choose for the directory, for READs and for WRITEs.
    pub recommendation: Recommendation,
}

/// What one mode does in a directory, in the operator's words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The mode that is described.
    pub mode: Mode,
    /// What a READ in this mode does here, in words.
    pub read: String,
    /// What a WRITE in this mode does here, in words.
    pub write: String,
    /// What a COMMIT after such WRITEs does here, in words.
    pub commit: String,
}

/// Which modes to choose in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recommendation {
    /// The mode that READs should have.
    pub read: Mode,
    /// The mode that WRITEs should have.
    pub write: Mode,
    /// The facts that the choice rests on, in words.
    pub why: String,
}

/// Describes the modes and chooses among them, from the facts.
pub(super) fn of(facts: &DirectoryFacts, trials: &Trials, process: &ProcessFacts) -> Modes {
    let abilities = Abilities::new(facts, trials);
    let memory = is_memory(&fs_name(facts));
    Modes {
        rows: [
            buffered(memory),
            dontcache(trials, &abilities, memory),
            direct(facts, trials, &abilities, memory),
        ],
        recommendation: recommend(facts, process, &abilities),
    }
}

/// The unit of the direct middle of a WRITE, in bytes: a page or a block is never written both
/// through the page cache and past it by one WRITE.
pub(super) fn write_unit(facts: &DirectoryFacts, trials: &Trials) -> u64 {
    let page = 4096;
    u64::from(trials.offset_align).max(facts.fs.bsize).max(page)
}

/// What really works past, or without staying in, the page cache.
struct Abilities {
    direct_read: bool,
    direct_write: bool,
    dontcache_read: bool,
    dontcache_write: bool,
}

impl Abilities {
    fn new(facts: &DirectoryFacts, trials: &Trials) -> Self {
        // Where nothing can be measured, what was accepted counts, but not on memory.
        let blind = !is_memory(&fs_name(facts));
        let past = |outcome| match outcome {
            Outcome::Uncached => true,
            Outcome::NotMeasured => blind,
            _ => false,
        };
        let leaves = |outcome| outcome == Outcome::PassedThrough || past(outcome);
        let aligned = trials.offset_align > 0 && trials.memory_align > 0;
        let direct = |of: Option<DirectTrials>| aligned && of.is_some_and(|of| past(of.aligned));
        Self {
            direct_read: direct(trials.direct_read),
            direct_write: direct(trials.direct_write),
            dontcache_read: leaves(trials.dontcache_read),
            dontcache_write: leaves(trials.dontcache_append) && trials.dontcache_overwrite.works(),
        }
    }
}

fn commit_of_memory() -> String {
    "nothing to flush: memory".to_owned()
}

fn buffered(memory: bool) -> Row {
    Row {
        mode: Mode::Buffered,
        read: "through the page cache, kept".to_owned(),
        write: "into the page cache, kept".to_owned(),
        commit: if memory {
            commit_of_memory()
        } else {
            "writes back all of it, flushes the disk".to_owned()
        },
    }
}

fn dontcache(trials: &Trials, abilities: &Abilities, memory: bool) -> Row {
    let stays = matches!(trials.dontcache_overwrite, Outcome::Cached { .. });
    let write = match (abilities.dontcache_write, stays) {
        (true, false) => "into it, written back at once, dropped",
        (true, true) => "into it, written back at once; new blocks dropped, overwritten ones stay",
        (false, _) => "as buffered",
    };
    let commit = match (memory, abilities.dontcache_write) {
        (true, _) => commit_of_memory(),
        (false, true) => "waits for the rest, flushes the disk".to_owned(),
        (false, false) => "as buffered".to_owned(),
    };
    let read = if abilities.dontcache_read {
        "through the page cache, dropped"
    } else {
        "as buffered"
    };
    Row {
        mode: Mode::DontCache,
        read: read.to_owned(),
        write: write.to_owned(),
        commit,
    }
}

fn direct(facts: &DirectoryFacts, trials: &Trials, abilities: &Abilities, memory: bool) -> Row {
    let unit = match trials.read_offset_align {
        0 => trials.offset_align,
        align => align,
    };
    let read = if abilities.direct_read {
        format!("past the page cache, rounded out to {unit}")
    } else {
        "as buffered".to_owned()
    };
    let middle = write_unit(facts, trials);
    let passes = trials
        .direct_write
        .is_some_and(|write| write.aligned == Outcome::PassedThrough)
        && trials.offset_align > 0;
    let write = if abilities.direct_write {
        format!("middle past it in units of {middle}, edges buffered; shorter ones buffered")
    } else if passes {
        "into it, written back and dropped before the reply".to_owned()
    } else {
        "as buffered".to_owned()
    };
    let commit = match (memory, abilities.direct_write || passes) {
        (true, _) => commit_of_memory(),
        (false, true) => "writes back the edges, flushes the disk".to_owned(),
        (false, false) => "as buffered".to_owned(),
    };
    Row {
        mode: Mode::Direct,
        read,
        write,
        commit,
    }
}

fn recommend(
    facts: &DirectoryFacts,
    process: &ProcessFacts,
    abilities: &Abilities,
) -> Recommendation {
    let name = fs_name(facts);
    let choose = |read, write, why: String| Recommendation { read, write, why };
    if is_memory(&name) {
        let why = format!("a {name} is its page cache: no other mode can do better");
        return choose(Mode::Buffered, Mode::Buffered, why);
    }
    if is_remote(&name) {
        let why = format!(
            "{name} has its files elsewhere, and what that side does with them is not to be seen \
             from here; measure before choosing another"
        );
        return choose(Mode::Buffered, Mode::Buffered, why);
    }
    // What is there, not what there is room for.
    let used = facts.fs.blocks.saturating_sub(facts.fs.bfree);
    let size = used.saturating_mul(facts.fs.frsize);
    let memory = process.memory_bytes.unwrap_or(0);
    let sizes = match process.memory_bytes {
        Some(memory) => format!(
            "{} of files, {} of memory",
            in_words(size),
            in_words(memory)
        ),
        None => format!("{} of files", in_words(size)),
    };
    if size < memory / 2 {
        let why = format!(
            "everything on it now fits into memory ({sizes}): READs are answered from the page \
             cache. direct takes less CPU where nothing is read twice, and keeps clear of reclaim \
             once more is on it"
        );
        return choose(Mode::Buffered, Mode::Buffered, why);
    }
    match (abilities.direct_read, abilities.direct_write) {
        (true, true) => choose(
            Mode::Direct,
            Mode::Direct,
            format!(
                "what is on it need not fit into memory ({sizes}), and direct keeps clear of \
                 reclaim; small READs that are repeated do better buffered, by a rule on their size"
            ),
        ),
        (true, false) => choose(
            Mode::Direct,
            Mode::Buffered,
            format!(
                "direct READs keep clear of reclaim ({sizes}), direct WRITEs are not possible \
                 here; buffered for both where files are read while they are written"
            ),
        ),
        _ if abilities.dontcache_read && abilities.dontcache_write => choose(
            Mode::DontCache,
            Mode::DontCache,
            format!("direct is not possible here, and dontcache keeps memory free ({sizes})"),
        ),
        _ => choose(
            Mode::Buffered,
            Mode::Buffered,
            "neither direct nor dontcache does here what it says".to_owned(),
        ),
    }
}
