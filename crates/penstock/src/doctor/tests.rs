//! What is printed of facts and findings: facts in, words out.

use std::path::PathBuf;

use nfs_io::Errno;
use nfs_io::fs::FsStat;
use nfs_io::mounts::Mount;
use nfs_io::probe::UringFacts;
use nfs_io::probe::directory::{
    DirectTrials, DirectoryFacts, HandleFacts, Meter, NoTrials, Outcome, ProcessFacts, Scratch,
    Trials,
};

use nfs_io::probe::diagnosis::diagnose;

use super::{code, json, page};

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
        capabilities: nfs_io::caps::Capability::ALL.map(|one| (one.name(), true)),
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

#[test]
fn what_could_not_be_tried_ends_with_2() {
    let mut facts = good("xfs");
    facts.trials = Err(NoTrials::ReadOnly);
    facts.scratch = None;
    let diagnosis = diagnose(&facts, &machine((7, 2)));
    assert_eq!((code(&diagnosis), diagnosis.modes.is_none()), (2, true));
    let report = json::report(&facts, &machine((7, 2)), &diagnosis);
    assert!(
        report["error"]["message"]
            .as_str()
            .unwrap()
            .contains("read-only")
    );
    assert!(report["modes"].is_null() && report["trials"].is_null());
}

#[test]
fn the_page_is_as_it_was() {
    let facts = with("ext4", |trials| trials.dontcache_read = UNKNOWN);
    let process = machine((6, 16));
    let diagnosis = diagnose(&facts, &process);
    let mut out = Vec::new();
    let style = page::Style::new(false, 100);
    page::print(&mut out, style, &facts, &process, &diagnosis).unwrap();
    let text = String::from_utf8(out).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "/srv/data  ext4 on Linux 6.16.1");
    assert_eq!(lines[2], "place");
    assert_eq!(
        lines[3],
        "  ok      file system       ext4 of /dev/nvme0n1 at /srv, blocks of 4 KiB"
    );
    let missing = lines
        .iter()
        .position(|line| line.starts_with("  missing"))
        .unwrap();
    let expected = [
        "  missing dontcache READ    RWF_DONTCACHE refused (EOPNOTSUPP)",
        "                            such READs are buffered here: right bytes, and the page cache fills",
        "                            cure: Linux 6.17, where ext4 learnt it",
    ];
    assert_eq!(lines[missing..missing + 3], expected);
    assert!(
        lines.iter().all(|line| line.chars().count() <= 100),
        "{text}"
    );
    assert!(text.contains("  read = \"direct\"\n  write = \"direct\"\n"));
    let mut narrow = Vec::new();
    let style = page::Style::new(false, 80);
    page::print(&mut narrow, style, &facts, &process, &diagnosis).unwrap();
    let narrow = String::from_utf8(narrow).unwrap();
    let fits = |line: &str| line.chars().count() <= 80;
    assert!(narrow.lines().all(fits), "{narrow}");
    let mut coloured = Vec::new();
    page::print(
        &mut coloured,
        page::Style::new(true, 100),
        &facts,
        &process,
        &diagnosis,
    )
    .unwrap();
    let plain = String::from_utf8(coloured).unwrap();
    assert!(plain.contains("\x1b[1m\x1b[31mmissing\x1b[0m"));
}
