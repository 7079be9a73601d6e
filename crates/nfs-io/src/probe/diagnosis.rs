//! From the facts of a directory to findings: what is well, what is worth knowing, what is missing, with
//! its cure, and what each I/O mode comes to there. Pure: the same facts give the same findings.

mod kinds;
mod modes;
#[cfg(test)]
mod tests;
pub mod words;

use super::directory::{
    Device, DeviceKind, DirectTrials, DirectoryFacts, HandleFacts, Outcome, ProcessFacts, Scratch,
    Trials,
};

use crate::Errno;
use crate::size::in_words;

pub use self::kinds::fs_name;
use self::kinds::{is_memory, is_remote};
pub use self::modes::{Modes, Recommendation, Row};

/// How much a finding matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// All is as it should be.
    Ok,
    /// It works, with something about it that is worth knowing.
    Warn,
    /// A mode does not do here what its name says.
    Missing,
}

impl Level {
    /// One word for it. Part of the JSON of `penstock doctor`: it does not change.
    pub fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warn => "warn",
            Self::Missing => "missing",
        }
    }
}

/// Which part of the report a finding belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Section {
    /// The file system and what it is on.
    Place,
    /// The I/O modes. Only here something can be missing.
    Modes,
    /// What a server uses besides: io_uring, privileges, descriptors and the kernel's file handles.
    Server,
}

impl Section {
    /// All sections, in the order they are shown in.
    pub const ALL: [Self; 3] = [Self::Place, Self::Modes, Self::Server];

    /// One word for it. Part of the JSON of `penstock doctor`: it does not change.
    pub fn word(self) -> &'static str {
        match self {
            Self::Place => "place",
            Self::Modes => "modes",
            Self::Server => "server",
        }
    }
}

/// One thing that was found out about a directory, with what it means and how to cure it.
pub type Finding = crate::finding::Finding<Section, Level>;

/// All that there is to say of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnosis {
    /// All findings, in the order they are shown in: each section's stand together.
    pub findings: Vec<Finding>,
    /// What each mode does here; `None` where nothing could be tried.
    pub modes: Option<Modes>,
}

/// What all findings together come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Every mode does here what it says.
    Sound,
    /// Something is missing that a mode needs.
    Missing,
    /// Nothing could be tried here.
    Untried,
}

impl Diagnosis {
    /// What the findings come to.
    pub fn verdict(&self) -> Verdict {
        let missing = |finding: &Finding| finding.level == Level::Missing;
        if self.modes.is_none() {
            Verdict::Untried
        } else if self.findings.iter().any(missing) {
            Verdict::Missing
        } else {
            Verdict::Sound
        }
    }
}

/// Judges the facts of a directory, for a server that runs as this process.
pub fn diagnose(facts: &DirectoryFacts, process: &ProcessFacts) -> Diagnosis {
    let mut list = List::default();
    place(&mut list, facts, process);
    let modes = match &facts.trials {
        Ok(trials) => {
            tried(&mut list, facts, trials, process);
            Some(modes::of(facts, trials, process))
        }
        Err(reason) => {
            list.add(
                Section::Modes,
                Level::Warn,
                "trials",
                "nothing could be tried",
            )
            .meaning(reason.to_string());
            None
        }
    };
    server(&mut list, facts.handles, process);
    Diagnosis {
        findings: list.into_vec(),
        modes,
    }
}

/// The findings so far, in the order in which they were made.
type List = crate::finding::Findings<Section, Level>;

fn place(list: &mut List, facts: &DirectoryFacts, process: &ProcessFacts) {
    use Level::{Ok, Warn};
    let name = fs_name(facts);
    let mut fact = format!("{name}, blocks of {}", in_words(facts.fs.bsize));
    if let Some(mount) = &facts.mount {
        let at = mount.mount_point.display();
        fact = format!(
            "{name} of {} at {at}, blocks of {}",
            mount.source,
            in_words(facts.fs.bsize)
        );
    }
    if is_memory(&name) {
        list.add(Section::Place, Warn, "file system", fact).meaning(
            "its files are in memory and in the page cache only: no mode keeps them out of it, \
             and nothing on it survives a reboot, whatever COMMIT answers",
        );
    } else if is_remote(&name) {
        list.add(Section::Place, Warn, "file system", fact).meaning(
            "another machine or process holds the files: a mode decides what this kernel caches, \
             and says nothing about the other side",
        );
    } else {
        list.add(Section::Place, Ok, "file system", fact);
    }
    if let Some(device) = &facts.device {
        device_finding(list, device);
    }
    let free = facts.fs.bavail.saturating_mul(facts.fs.frsize);
    let size = facts.fs.blocks.saturating_mul(facts.fs.frsize);
    let space = format!("{} free of {}", in_words(free), in_words(size));
    let inodes_short = facts.fs.files > 0 && facts.fs.ffree < 1000;
    if facts.fs.read_only() {
        list.add(
            Section::Place,
            Warn,
            "space",
            format!("{space}, mounted read-only"),
        )
        .meaning("every change by a client is answered NFS3ERR_ROFS");
    } else if (size > 0 && free < size / 50) || inodes_short {
        let inodes = facts.fs.ffree;
        let space = format!("{space}, {inodes} inodes free");
        list.add(Section::Place, Warn, "space", space).meaning(
            "an UNSTABLE WRITE that the page cache took can fail for space later, at COMMIT",
        );
    } else {
        list.add(Section::Place, Ok, "space", space);
    }
    kernel(list, process);
    let how = match facts.scratch {
        Some(Scratch::Nameless) => "a file without a name (O_TMPFILE)",
        Some(Scratch::Unlinked) => "a file whose name was removed at once",
        None => return,
    };
    let seen = facts.trials.as_ref().ok().and_then(|trials| trials.meter);
    match seen {
        Some(meter) => list.add(
            Section::Place,
            Ok,
            "probe",
            format!("{how}; cached pages counted by {}", meter.name()),
        ),
        None => list
            .add(Section::Place, Warn, "probe", how)
            .meaning("cached pages cannot be counted here: what follows is what was answered"),
    };
}

fn kernel(list: &mut List, process: &ProcessFacts) {
    let release = match process.kernel.as_str() {
        "" => "unknown (no /proc)",
        release => release,
    };
    let fact = format!("Linux {release}");
    match process.kernel_version {
        Some(version) if version < (6, 1) => list
            .add(Section::Place, Level::Warn, "kernel", fact)
            .meaning("before 6.1 it does not tell what direct I/O asks for")
            .cure("6.1 for direct, 6.14 for dontcache, 7.2 for dontcache WRITEs without stalls"),
        Some(version) if version < (6, 14) => list
            .add(Section::Place, Level::Warn, "kernel", fact)
            .meaning("before 6.14 there is no RWF_DONTCACHE")
            .cure("6.14 (XFS 6.15, ext4 6.17); 7.2 for dontcache WRITEs without stalls"),
        _ => list.add(Section::Place, Level::Ok, "kernel", fact),
    };
}

fn device_finding(list: &mut List, device: &Device) {
    let (major, minor) = device.number;
    let mut fact = format!("{} ({major}:{minor})", device.name);
    if let (Some(logical), Some(physical)) =
        (device.logical_block_bytes, device.physical_block_bytes)
    {
        fact = format!("{fact}, sectors of {logical} (physical {physical}) bytes");
    }
    if let Some(cache) = device.write_back_cache {
        let word = if cache {
            "write-back cache"
        } else {
            "no volatile cache"
        };
        fact = format!("{fact}, {word}");
    }
    if device.rotational == Some(true) {
        fact.push_str(", rotational");
    }
    let level = match device.kind {
        DeviceKind::Disk | DeviceKind::Stacked => Level::Ok,
        DeviceKind::Loop {
            direct: Some(true), ..
        } => Level::Ok,
        _ => Level::Warn,
    };
    if let DeviceKind::Loop {
        backing: Some(file),
        ..
    } = &device.kind
    {
        fact = format!("{fact}, backed by {}", file.display());
    }
    let entry = list.add(Section::Place, level, "device", fact);
    match device.kind {
        DeviceKind::Disk | DeviceKind::Stacked => entry,
        DeviceKind::Loop {
            direct: Some(true), ..
        } => entry.meaning("the loop device reads and writes its file past the page cache"),
        DeviceKind::Loop { .. } => entry
            .meaning(
                "the loop device moves its file through the page cache: direct I/O here keeps out \
                 of one cache and fills another; measure nothing on it",
            )
            .cure("losetup --direct-io=on (the file's own file system must allow it)"),
        DeviceKind::Zram | DeviceKind::Ramdisk => {
            entry.meaning("this is memory: fine for comparing, nothing on it survives a reboot")
        }
        DeviceKind::Network => {
            entry.meaning("another machine's disk: a flush goes over the network")
        }
    };
}

/// Adds the findings from the trials, of reads and writes in each mode.
fn tried(list: &mut List, facts: &DirectoryFacts, trials: &Trials, process: &ProcessFacts) {
    dontcache_read(list, trials, &fs_name(facts));
    dontcache_write(list, trials, process, &fs_name(facts));
    let direct = [
        ("direct READ", trials.direct_read),
        ("direct WRITE", trials.direct_write),
    ];
    alignment(list, facts, trials);
    for (subject, trials) in direct {
        if let Some(trials) = trials {
            direct_finding(list, subject, &trials, &fs_name(facts));
        }
    }
    stable(list, trials);
    let fact = format!("RWF_NOWAIT {}", taken(trials.read_nowait));
    if trials.read_nowait.works() {
        list.add(Section::Modes, Level::Ok, "cached READ", fact);
    } else {
        list.add(Section::Modes, Level::Warn, "cached READ", fact)
            .meaning("a READ of cached bytes goes the long way of one that waits for the disk");
    }
}

fn dontcache_read(list: &mut List, trials: &Trials, name: &str) {
    let read = trials.dontcache_read;
    let fact = format!("RWF_DONTCACHE {}", dropped(read));
    let level = match read {
        Outcome::Uncached | Outcome::PassedThrough => Level::Ok,
        Outcome::NotMeasured => Level::Warn,
        Outcome::Cached { .. } | Outcome::Refused(_) | Outcome::Short | Outcome::WrongBytes => {
            Level::Missing
        }
    };
    let entry = list.add(Section::Modes, level, "dontcache READ", fact);
    if level == Level::Missing {
        entry
            .meaning("such READs are buffered here: right bytes, and the page cache fills")
            .cure(dontcache_cure(read, name));
    }
}

fn dontcache_write(list: &mut List, trials: &Trials, process: &ProcessFacts, name: &str) {
    let (append, overwrite) = (trials.dontcache_append, trials.dontcache_overwrite);
    let fact = if dropped(append) == dropped(overwrite) {
        format!("RWF_DONTCACHE {}", dropped(append))
    } else {
        format!(
            "RWF_DONTCACHE: new blocks {}, overwritten ones {}",
            dropped(append),
            dropped(overwrite)
        )
    };
    let stays = |outcome| matches!(outcome, Outcome::Cached { .. });
    let subject = "dontcache WRITE";
    if !append.works() || !overwrite.works() || stays(append) {
        let worse = if append.works() { overwrite } else { append };
        list.add(Section::Modes, Level::Missing, subject, fact)
            .meaning("such WRITEs are buffered here: right bytes, and the page cache fills")
            .cure(dontcache_cure(worse, name));
    } else if stays(overwrite) {
        list.add(Section::Modes, Level::Warn, subject, fact)
            .meaning(
                "pages of blocks that are written again stay in the page cache, clean, until \
                 memory is short",
            )
            .cure("direct, where files are overwritten in place");
    } else if process.kernel_version.is_some_and(|at| at < (7, 2)) {
        list.add(Section::Modes, Level::Warn, subject, fact)
            .meaning(
                "before Linux 7.2 the write-back behind such WRITEs can hold them up for seconds \
                 under load",
            )
            .cure("Linux 7.2, or direct or buffered for WRITE");
    } else {
        list.add(Section::Modes, Level::Ok, subject, fact);
    }
}

fn dontcache_cure(outcome: Outcome, name: &str) -> String {
    match (outcome, name) {
        (Outcome::Refused(_), "xfs") => "Linux 6.15, where XFS learnt it".to_owned(),
        (Outcome::Refused(_), "ext4") => "Linux 6.17, where ext4 learnt it".to_owned(),
        (Outcome::Refused(_), "overlay") => {
            "export a directory of the layers' own file system; overlayfs does not pass it on"
                .to_owned()
        }
        (Outcome::Refused(_), name) if is_memory(name) => {
            "none: pages are all there is of these files; use buffered".to_owned()
        }
        (Outcome::Refused(_), name) => {
            format!(
                "XFS (Linux 6.15) or ext4 (6.17); {name} has no RWF_DONTCACHE: use another mode"
            )
        }
        _ => "another mode".to_owned(),
    }
}

fn alignment(list: &mut List, facts: &DirectoryFacts, trials: &Trials) {
    let subject = "alignment";
    if let Err(error) = trials.open_direct {
        let fact = format!("O_DIRECT refused at open ({})", words::errno(error));
        let cure = if error == Errno::NOENT {
            "mount /proc: a file is opened a second time through /proc/self/fd"
        } else {
            "a file system with direct I/O, as XFS and ext4; else another mode"
        };
        list.add(Section::Modes, Level::Missing, "direct", fact)
            .meaning("direct READs and WRITEs are buffered here (open-refused)")
            .cure(cure);
        return;
    }
    if trials.offset_align == 0 || trials.memory_align == 0 {
        let name = fs_name(facts);
        let cure = if is_memory(&name) {
            "none: use buffered".to_owned()
        } else {
            format!("another mode; or a kernel whose {name} tells it (XFS and ext4: Linux 6.1)")
        };
        list.add(Section::Modes, Level::Missing, subject, "statx names none")
            .meaning(
                "direct READs and WRITEs are buffered here (alignment-unknown): a direct I/O would \
                 be a guess",
            )
            .cure(cure);
        return;
    }
    let read = match trials.read_offset_align {
        0 => trials.offset_align,
        align => align,
    };
    let fact = format!(
        "offset and length {} for WRITE, {read} for READ; memory {} bytes",
        trials.offset_align, trials.memory_align
    );
    let unit = modes::write_unit(facts, trials);
    list.add(Section::Modes, Level::Ok, subject, fact)
        .meaning(format!(
            "READs are rounded out to {read}; of a WRITE the middle in multiples of {unit} goes \
             direct, the edges buffered"
        ));
}

fn direct_finding(list: &mut List, subject: &'static str, trials: &DirectTrials, name: &str) {
    let is_write = subject.ends_with("WRITE");
    let mut fact = format!("aligned {}", words::went(trials.aligned));
    if let Some(smallest) = trials.smallest.filter(|outcome| !outcome.works()) {
        fact = format!("{fact}, smallest {}", words::went(smallest));
    }
    match trials.aligned {
        Outcome::Uncached => {
            let refused_alone = trials.smallest.is_none_or(Outcome::works);
            let level = if refused_alone {
                Level::Ok
            } else {
                Level::Warn
            };
            list.add(Section::Modes, level, subject, fact)
        }
        Outcome::NotMeasured => list.add(Section::Modes, Level::Warn, subject, fact),
        Outcome::PassedThrough if is_write && name == "btrfs" => list
            .add(Section::Modes, Level::Missing, subject, fact)
            .meaning(
                "btrfs copies a direct WRITE of a file with checksums into the page cache, writes \
                 it back and drops it before it answers: safe, and slower than buffered",
            )
            .cure("buffered for WRITE; files without checksums (chattr +C) are written past it"),
        Outcome::Cached { .. } | Outcome::PassedThrough => list
            .add(Section::Modes, Level::Missing, subject, fact)
            .meaning("O_DIRECT is accepted and means nothing here")
            .cure("buffered: it says what happens"),
        Outcome::Refused(_) | Outcome::Short => list
            .add(Section::Modes, Level::Missing, subject, fact)
            .meaning("the server finds out at the first try and goes on buffered")
            .cure("another mode, or another file system"),
        Outcome::WrongBytes => list
            .add(Section::Modes, Level::Missing, subject, fact)
            .meaning(
                "what was read is not what was written: do not use direct here, and tell the \
                      makers of this file system",
            ),
    };
    odd(list, trials, is_write);
}

fn odd(list: &mut List, trials: &DirectTrials, is_write: bool) {
    let subject = if is_write {
        "odd direct WRITE"
    } else {
        "odd direct READ"
    };
    let all = [trials.odd_offset, trials.odd_length, trials.odd_memory];
    let same = |outcome: &Outcome| words::outcome(*outcome) == words::outcome(all[0]);
    let fact = if all.iter().all(same) {
        format!("offset, length, memory: {}", words::went(all[0]))
    } else {
        format!(
            "offset {}; length {}; memory {}",
            words::went(all[0]),
            words::went(all[1]),
            words::went(all[2])
        )
    };
    if all.contains(&Outcome::WrongBytes) {
        list.add(Section::Modes, Level::Missing, subject, fact)
            .meaning("do not use direct here, and tell the makers of this file system");
        return;
    }
    let silent =
        |outcome: &Outcome| matches!(outcome, Outcome::Cached { .. } | Outcome::PassedThrough);
    let level = if all.iter().any(silent) {
        Level::Warn
    } else {
        Level::Ok
    };
    list.add(Section::Modes, level, subject, fact)
        .meaning("never asked for by the server: it aligns first");
}

fn stable(list: &mut List, trials: &Trials) {
    let fact = format!(
        "RWF_DSYNC {}, RWF_SYNC {}",
        taken(trials.write_dsync),
        taken(trials.write_sync)
    );
    if trials.write_dsync.works() && trials.write_sync.works() {
        list.add(Section::Modes, Level::Ok, "stable WRITE", fact);
    } else {
        list.add(Section::Modes, Level::Missing, "stable WRITE", fact)
            .meaning("a WRITE that asks for stable storage cannot be answered in any mode")
            .cure("another file system");
    }
}

fn taken(outcome: Outcome) -> String {
    match outcome {
        Outcome::Refused(error) => format!("refused ({})", words::errno(error)),
        Outcome::Short => "cut short".to_owned(),
        Outcome::WrongBytes => "WRONG BYTES".to_owned(),
        _ => "taken".to_owned(),
    }
}

fn dropped(outcome: Outcome) -> String {
    match outcome {
        Outcome::Uncached | Outcome::PassedThrough => "taken, pages dropped".to_owned(),
        Outcome::Cached { .. } => "taken, pages stay".to_owned(),
        Outcome::NotMeasured => "taken, effect not seen".to_owned(),
        other => taken(other),
    }
}

/// What a server uses besides the modes: nothing here is missing for a mode.
fn server(list: &mut List, handles: HandleFacts, process: &ProcessFacts) {
    match &process.uring {
        Ok(facts) => {
            list.add(Section::Server, Level::Ok, "io_uring", facts.to_string());
        }
        Err(reason) => {
            list.add(Section::Server, Level::Warn, "io_uring", reason.clone())
                .meaning(
                    "the thread engine is used: the same in every mode, for more CPU per call",
                );
        }
    }
    let held = |name: &str| {
        process
            .capabilities
            .iter()
            .any(|&(one, held)| one == name && held)
    };
    file_handles(list, handles);
    let wanted = [
        "CAP_DAC_READ_SEARCH",
        "CAP_SETUID",
        "CAP_SETGID",
        "CAP_CHOWN",
        "CAP_FOWNER",
    ];
    let lacking: Vec<&str> = wanted.into_iter().filter(|name| !held(name)).collect();
    let user = match process.uid {
        0 => "root".to_owned(),
        uid => format!("user {uid}"),
    };
    if lacking.is_empty() {
        let fact = format!("{user} with all that a server uses");
        list.add(Section::Server, Level::Ok, "capabilities", fact);
    } else {
        let fact = format!("{user} without {}", lacking.join(" "));
        list.add(Section::Server, Level::Warn, "capabilities", fact)
            .meaning("without CAP_SETUID and CAP_SETGID every client acts as the server's user")
            .cure("run as root, or give these (systemd: AmbientCapabilities=)");
    }
    if process.descriptors < 1024 {
        let fact = format!("{} allowed", process.descriptors);
        list.add(Section::Server, Level::Warn, "descriptors", fact)
            .meaning("a file that is served direct takes two")
            .cure("ulimit -n, or LimitNOFILE= in the unit");
    }
}

/// Whether the server may use the kernel's handles of files, or needs a table of its own.
fn file_handles(list: &mut List, handles: HandleFacts) {
    match (handles.made, handles.opened) {
        (Ok(()), Ok(())) => {
            list.add(
                Section::Server,
                Level::Ok,
                "file handles",
                "the kernel's own",
            );
        }
        (made, opened) => {
            let (call, error) = match made {
                Err(error) => ("name_to_handle_at", error),
                Ok(()) => ("open_by_handle_at", opened.err().unwrap_or(Errno::IO)),
            };
            let fact = format!("{call}: {}", words::errno(error));
            let entry = list
                .add(Section::Server, Level::Warn, "file handles", fact)
                .meaning(
                    "handles are ids of a table in the state directory: they survive a restart \
                          as well, and a file moved behind the server's back can lose its own",
                );
            if error == Errno::PERM {
                entry.cure("CAP_DAC_READ_SEARCH, outside of any user namespace");
            } else if error == Errno::NOENT {
                entry.cure("mount /proc");
            }
        }
    }
}
