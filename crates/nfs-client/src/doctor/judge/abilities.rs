//! What the server says of its file system: FSINFO and PATHCONF.

use nfs_io::size::in_words as bytes;
use nfs_wire::nfs3::{FSF3_LINK, FSF3_SYMLINK, FsinfoOk, PathconfOk};

use super::{Level, List, Section, untold};
use crate::doctor::facts::Facts;

/// READs and WRITEs below this are too small for fast networks, bytes.
const TRANSFER_SMALL: u32 = 64 << 10;
/// A maximum below this is less than the first NFSv3 servers had, bytes.
const TRANSFER_TINY: u32 = 8 << 10;
/// Names of so many bytes programs take for granted (NAME_MAX of Linux).
const NAME_USUAL: u32 = 255;
/// Files of so many bytes programs take for granted: 1 TiB.
const FILE_USUAL: u64 = 1 << 40;
/// What many programs compare times by, nanoseconds: a millisecond.
const TIME_USUAL_NS: u64 = 1_000_000;

pub(super) fn judge(list: &mut List, facts: &Facts) {
    match &facts.fsinfo {
        Ok(info) => fsinfo(list, info),
        Err(refusal) => untold(list, Section::Abilities, "FSINFO", refusal),
    }
    match &facts.pathconf {
        Ok(conf) => pathconf(list, conf),
        Err(refusal) => untold(list, Section::Abilities, "PATHCONF", refusal),
    }
}

fn fsinfo(list: &mut List, info: &FsinfoOk) {
    transfer(list, "READ size", info.rtmax, info.rtpref);
    transfer(list, "WRITE size", info.wtmax, info.wtpref);
    let fact = format!("dtpref {}", bytes(info.dtpref.into()));
    list.add(Section::Abilities, Level::Ok, "READDIR size", fact);
    times(list, info);
    let fact = format!("at most {}", bytes(info.maxfilesize));
    if info.maxfilesize < FILE_USUAL {
        list.add(Section::Abilities, Level::Warning, "file size", fact)
            .meaning("larger files fail with NFS3ERR_FBIG, most often in the middle of a copy");
    } else {
        list.add(Section::Abilities, Level::Ok, "file size", fact);
    }
    for (bit, what) in [(FSF3_LINK, "hard links"), (FSF3_SYMLINK, "symbolic links")] {
        if info.properties & bit == 0 {
            let fact = format!("no {what}");
            list.add(Section::Abilities, Level::Note, "links", fact)
                .meaning("programs that make them fail here: package managers, some editors");
        }
    }
}

fn transfer(list: &mut List, subject: &'static str, max: u32, preferred: u32) {
    let fact = format!(
        "at most {}, preferred {}",
        bytes(max.into()),
        bytes(preferred.into())
    );
    let section = Section::Abilities;
    if max < TRANSFER_TINY {
        list.add(section, Level::Problem, subject, fact)
            .meaning("the server moves so little with each call that every transfer is slow")
            .cure("raise the largest transfer in the server's configuration");
    } else if max < TRANSFER_SMALL || preferred < TRANSFER_TINY {
        list.add(section, Level::Warning, subject, fact)
            .meaning("small transfers cost a call each: throughput is bounded by the latency")
            .cure(
                "raise the largest transfer in the server's configuration, to 1 MiB where it can",
            );
    } else if preferred > max {
        list.add(section, Level::Note, subject, fact)
            .meaning("it prefers more than it takes; clients use the smaller of the two");
    } else {
        list.add(section, Level::Ok, subject, fact);
    }
}

fn times(list: &mut List, info: &FsinfoOk) {
    let delta = info.time_delta;
    let ns = u64::from(delta.seconds) * 1_000_000_000 + u64::from(delta.nseconds);
    let fact = match ns {
        0 => "time_delta 0: the server does not say".to_owned(),
        ns if ns < 1_000_000_000 => format!("time_delta {ns} ns"),
        ns => format!("time_delta {:.1} s", ns as f64 / 1e9),
    };
    if ns > TIME_USUAL_NS {
        let level = match delta.seconds {
            0 => Level::Note,
            _ => Level::Warning,
        };
        list.add(Section::Abilities, level, "timestamps", fact)
            .meaning(
                "changes within that time have the same timestamp: clients may take old data for \
                 current, make and rsync may miss a change",
            );
    } else {
        list.add(Section::Abilities, Level::Ok, "timestamps", fact);
    }
}

fn pathconf(list: &mut List, conf: &PathconfOk) {
    let section = Section::Abilities;
    let fact = format!("at most {} bytes", conf.name_max);
    if conf.name_max < NAME_USUAL {
        list.add(section, Level::Warning, "names", fact)
            .meaning("programs count on 255; longer names fail");
    } else if conf.no_trunc {
        list.add(section, Level::Ok, "names", fact);
    } else {
        list.add(
            section,
            Level::Warning,
            "names",
            format!("{fact}, longer ones are cut off"),
        )
        .meaning("two long names that begin alike become one file: one overwrites the other");
    }
    let case = match (conf.case_insensitive, conf.case_preserving) {
        (false, true) => {
            list.add(section, Level::Ok, "case", "told apart and kept");
            None
        }
        (true, true) => Some("kept, and not told apart: File and file are one"),
        (false, false) => Some("told apart, and not kept"),
        (true, false) => Some("neither told apart nor kept"),
    };
    if let Some(fact) = case {
        list.add(section, Level::Warning, "case", fact).meaning(
            "archives and source trees with names that differ in case only lose files here",
        );
    }
    let fact = format!("at most {} of a file", conf.linkmax);
    match conf.linkmax {
        0 | 1 => list
            .add(section, Level::Note, "hard links", fact)
            .meaning("backups that link what has not changed need them"),
        _ => list.add(section, Level::Ok, "hard links", fact),
    };
    if !conf.chown_restricted {
        list.add(
            section,
            Level::Note,
            "ownership",
            "every owner may give files away",
        )
        .meaning("quotas can be got round, and set-user-ID programs planted");
    }
}
