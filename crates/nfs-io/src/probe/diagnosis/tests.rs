//! Tests of the diagnosis: facts are made up, and the findings from them compared.

use std::path::PathBuf;

use crate::Errno;
use crate::fs::FsStat;
use crate::mode::Mode;
use crate::mounts::Mount;
use crate::probe::UringFacts;
use crate::probe::directory::{
    DirectTrials, DirectoryFacts, HandleFacts, Meter, NoTrials, Outcome, ProcessFacts, Scratch,
    Trials,
};

use super::{Diagnosis, Level, Section, Verdict, diagnose};

const REFUSED: Outcome = Outcome::Refused(Errno::INVAL);
const UNKNOWN: Outcome = Outcome::Refused(Errno::OPNOTSUPP);
const STAYS: Outcome = Outcome::Cached { pages: 9 };

fn direct(aligned: Outcome, odd: Outcome) -> DirectTrials {
    DirectTrials {
        aligned,
        smallest: Some(aligned),
        odd_offset: odd,
        odd_length: odd,
        odd_memory: odd,
    }
}

/// An XFS where everything is as it should be, larger than memory.
fn good(fs_type: &str) -> DirectoryFacts {
    DirectoryFacts {
        path: PathBuf::from("/srv/data"),
        fs: FsStat {
            fs_type: 0x5846_5342,
            fsid: 1,
            bsize: 4096,
            frsize: 4096,
            blocks: 1 << 30,
            bfree: 1 << 29,
            bavail: 1 << 29,
            files: 1 << 30,
            ffree: 1 << 29,
            favail: 1 << 29,
            namelen: 255,
            flags: 0,
        },
        mount: Some(Mount {
            id: 30,
            parent: 1,
            dev: (259, 0),
            root: "/".into(),
            mount_point: "/srv".into(),
            fs_type: fs_type.to_owned(),
            source: "/dev/nvme0n1".to_owned(),
            options: "rw".to_owned(),
            super_options: "rw".to_owned(),
        }),
        device: None,
        handles: HandleFacts {
            made: Ok(()),
            opened: Ok(()),
        },
        trials: Ok(Trials {
            meter: Some(Meter::Cachestat),
            memory_align: 512,
            offset_align: 512,
            read_offset_align: 0,
            block_bytes: 4096,
            open_direct: Ok(()),
            direct_read: Some(direct(Outcome::Uncached, REFUSED)),
            direct_write: Some(direct(Outcome::Uncached, REFUSED)),
            dontcache_read: Outcome::Uncached,
            dontcache_append: Outcome::PassedThrough,
            dontcache_overwrite: Outcome::PassedThrough,
            write_dsync: STAYS,
            write_sync: STAYS,
            read_nowait: STAYS,
        }),
        scratch: Some(Scratch::Nameless),
    }
}

fn machine(kernel: (u32, u32)) -> ProcessFacts {
    ProcessFacts {
        kernel: format!("{}.{}.1", kernel.0, kernel.1),
        kernel_version: Some(kernel),
        memory_bytes: Some(64 << 30),
        uid: 0,
        capabilities: crate::caps::Capability::ALL.map(|one| (one.name(), true)),
        uring: Ok(UringFacts {
            cooperative: true,
            fast_poll: true,
        }),
        descriptors: 1 << 20,
    }
}

fn with(fs_type: &str, change: impl FnOnce(&mut Trials)) -> DirectoryFacts {
    let mut facts = good(fs_type);
    if let Ok(trials) = &mut facts.trials {
        change(trials);
    }
    facts
}

fn levels(diagnosis: &Diagnosis, wanted: Level) -> Vec<&'static str> {
    let findings = diagnosis.findings.iter();
    findings
        .filter(|finding| finding.level == wanted)
        .map(|finding| finding.subject)
        .collect()
}

fn chosen(diagnosis: &Diagnosis) -> (Mode, Mode) {
    let modes = diagnosis.modes.as_ref().unwrap();
    (modes.recommendation.read, modes.recommendation.write)
}

#[test]
fn where_all_is_well_nothing_is_missing() {
    let diagnosis = diagnose(&good("xfs"), &machine((7, 2)));
    assert_eq!(levels(&diagnosis, Level::Warn), [""; 0]);
    assert_eq!(levels(&diagnosis, Level::Missing), [""; 0]);
    assert_eq!(diagnosis.verdict(), Verdict::Sound);
    assert_eq!(chosen(&diagnosis), (Mode::Direct, Mode::Direct));
    // The same on a kernel whose write-back is not yet mended: worth knowing, not missing.
    let diagnosis = diagnose(&good("xfs"), &machine((6, 18)));
    assert_eq!(levels(&diagnosis, Level::Warn), ["dontcache WRITE"]);
    assert_eq!(diagnosis.verdict(), Verdict::Sound);
}

#[test]
fn what_fits_into_memory_is_served_buffered() {
    let mut facts = good("xfs");
    facts.fs.blocks = 1 << 20;
    let diagnosis = diagnose(&facts, &machine((7, 2)));
    assert_eq!(chosen(&diagnosis), (Mode::Buffered, Mode::Buffered));
}

#[test]
fn btrfs_with_checksums_writes_through_the_cache() {
    let facts = with("btrfs", |trials| {
        trials.direct_write = Some(direct(Outcome::PassedThrough, Outcome::PassedThrough));
        trials.direct_read = Some(direct(Outcome::Uncached, STAYS));
        trials.dontcache_read = UNKNOWN;
        trials.dontcache_append = UNKNOWN;
        trials.dontcache_overwrite = UNKNOWN;
    });
    let diagnosis = diagnose(&facts, &machine((6, 18)));
    let missing = levels(&diagnosis, Level::Missing);
    assert_eq!(
        missing,
        ["dontcache READ", "dontcache WRITE", "direct WRITE"]
    );
    let warned = levels(&diagnosis, Level::Warn);
    assert_eq!(warned, ["odd direct READ", "odd direct WRITE"]);
    assert_eq!(chosen(&diagnosis), (Mode::Direct, Mode::Buffered));
    assert_eq!(diagnosis.verdict(), Verdict::Missing);
}

#[test]
fn without_an_alignment_direct_is_not_possible() {
    let facts = with("btrfs", |trials| trials.offset_align = 0);
    let diagnosis = diagnose(&facts, &machine((7, 2)));
    assert_eq!(levels(&diagnosis, Level::Missing), ["alignment"]);
    assert_eq!(chosen(&diagnosis), (Mode::DontCache, Mode::DontCache));
    let direct = &diagnosis.modes.as_ref().unwrap().rows[2];
    assert_eq!(
        (direct.read.as_str(), direct.commit.as_str()),
        ("as buffered", "as buffered")
    );
}

#[test]
fn a_tmpfs_is_for_buffered_only() {
    let facts = with("tmpfs", |trials| {
        trials.direct_read = Some(direct(STAYS, STAYS));
        trials.direct_write = Some(direct(STAYS, STAYS));
        trials.dontcache_read = UNKNOWN;
        trials.dontcache_append = UNKNOWN;
        trials.dontcache_overwrite = UNKNOWN;
    });
    let diagnosis = diagnose(&facts, &machine((6, 18)));
    assert_eq!(chosen(&diagnosis), (Mode::Buffered, Mode::Buffered));
    assert!(levels(&diagnosis, Level::Missing).contains(&"direct READ"));
    let rows = &diagnosis.modes.as_ref().unwrap().rows;
    assert!(rows.iter().all(|row| row.commit.contains("memory")));
}

#[test]
fn wrong_bytes_are_never_recommended() {
    let facts = with("odd", |trials| {
        trials.direct_read = Some(direct(Outcome::WrongBytes, REFUSED));
        trials.direct_write = Some(direct(Outcome::Uncached, Outcome::WrongBytes));
    });
    let diagnosis = diagnose(&facts, &machine((7, 2)));
    let missing = levels(&diagnosis, Level::Missing);
    assert_eq!(missing, ["direct READ", "odd direct WRITE"]);
    assert_ne!(chosen(&diagnosis).0, Mode::Direct);
}

#[test]
fn overwritten_pages_that_stay_are_told() {
    let facts = with("ext4", |trials| trials.dontcache_overwrite = STAYS);
    let diagnosis = diagnose(&facts, &machine((7, 2)));
    assert_eq!(levels(&diagnosis, Level::Warn), ["dontcache WRITE"]);
    assert!(
        diagnosis.modes.unwrap().rows[1]
            .write
            .contains("overwritten")
    );
}

#[test]
fn what_could_not_be_tried_has_no_modes() {
    let mut facts = good("xfs");
    facts.trials = Err(NoTrials::ReadOnly);
    facts.scratch = None;
    let diagnosis = diagnose(&facts, &machine((7, 2)));
    assert_eq!(diagnosis.verdict(), Verdict::Untried);
    assert!(diagnosis.modes.is_none());
}

#[test]
fn what_a_server_lacks_is_no_mode_missing() {
    let mut facts = good("overlay");
    facts.handles = HandleFacts {
        made: Err(Errno::OPNOTSUPP),
        opened: Err(Errno::OPNOTSUPP),
    };
    let mut process = machine((7, 2));
    process.uring = Err("a system call filter forbids io_uring".to_owned());
    process.uid = 1000;
    process.descriptors = 256;
    for held in &mut process.capabilities {
        held.1 = false;
    }
    let diagnosis = diagnose(&facts, &process);
    let warned = levels(&diagnosis, Level::Warn);
    assert_eq!(
        warned,
        ["io_uring", "file handles", "capabilities", "descriptors"]
    );
    assert_eq!(diagnosis.verdict(), Verdict::Sound);
}

#[test]
fn every_warning_says_what_it_means_and_what_is_missing_has_a_cure() {
    let worst = with("tmpfs", |trials| {
        trials.open_direct = Err(Errno::INVAL);
        trials.direct_read = None;
        trials.direct_write = None;
        trials.dontcache_read = UNKNOWN;
        trials.dontcache_append = UNKNOWN;
        trials.dontcache_overwrite = UNKNOWN;
        trials.write_dsync = UNKNOWN;
        trials.read_nowait = UNKNOWN;
        trials.meter = None;
    });
    let diagnosis = diagnose(&worst, &machine((5, 10)));
    for finding in &diagnosis.findings {
        let told = finding.level == Level::Ok || !finding.meaning.is_empty();
        let cured = finding.level != Level::Missing || finding.cure.is_some();
        assert!(told && cured, "{finding:?}");
        let place = finding.section == Section::Modes || finding.level != Level::Missing;
        assert!(place, "only a mode can miss something: {finding:?}");
    }
}
