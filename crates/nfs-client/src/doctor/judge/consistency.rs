//! Whether clients can rely on what they were told: wcc_data, clocks, handles, cookies, exclusive creation.

use std::time::Duration;

use nfs_wire::nfs3::{Fattr3, Nfsstat3, WccAttr};

use super::words::{distribution, time};
use super::{Level, List, Section, untold};
use crate::doctor::facts::{
    Answered, ClockTrial, CookieTrial, ExclusiveTrial, HandleTrial, Refusal, Trials, WccSeen,
    WccTrial,
};

const SECTION: Section = Section::Consistency;
/// What timestamps of a file may lag behind the server's clock, nanoseconds: a tick of the kernel's timer.
const TICK_NS: i128 = 10_000_000;
/// A difference of clocks that no program minds, nanoseconds.
const SKEW_SMALL_NS: i128 = 100_000_000;
/// A difference of clocks from which on make, rsync and backups go wrong, nanoseconds.
const SKEW_LARGE_NS: i128 = 1_000_000_000;

pub(super) fn judge(list: &mut List, trials: &Trials) {
    match &trials.wcc {
        Ok(trial) => wcc(list, trial),
        Err(refusal) => untold(list, SECTION, "wcc_data", refusal),
    }
    match &trials.clock {
        Ok(trial) => clock(list, *trial),
        Err(refusal) => untold(list, SECTION, "clock", refusal),
    }
    match &trials.handles {
        Ok(trial) => handles(list, trial),
        Err(refusal) => untold(list, SECTION, "handles", refusal),
    }
    match &trials.cookies {
        Ok(trial) => cookies(list, trial),
        Err(refusal) => untold(list, SECTION, "listing", refusal),
    }
    match &trials.exclusive {
        Ok(trial) => exclusive(list, trial),
        Err(refusal) => untold(list, SECTION, "exclusive CREATE", refusal),
    }
}

fn wcc(list: &mut List, trial: &WccTrial) {
    const SUBJECT: &str = "wcc_data";
    const MEANING: &str = "a client cannot tell its own changes from those of others, and throws away what it has \
                           cached of the file or directory after each of them";
    let seen = match trial {
        WccTrial::V4 { atomic: true } => {
            list.add(SECTION, Level::Ok, "change_info4", "atomic");
            return;
        }
        WccTrial::V4 { atomic: false } => {
            list.add(SECTION, Level::Note, "change_info4", "not atomic")
                .meaning(MEANING);
            return;
        }
        WccTrial::V3(seen) => seen,
    };
    let words = |which: &dyn Fn(&WccSeen) -> bool| {
        let of = seen.iter().filter(|one| which(one));
        of.map(|one| one.procedure).collect::<Vec<_>>().join(", ")
    };
    let wrong = words(&|one| {
        one.told
            .before
            .is_some_and(|told| !is_of(&told, &one.known))
    });
    let missing = words(&|one| one.told.before.is_none() || one.told.after.is_none());
    if !wrong.is_empty() {
        let fact = format!("of {wrong}: before is not what GETATTR told just before");
        list.add(SECTION, Level::Problem, SUBJECT, fact).meaning(
            "a client takes what it has cached for current when it is not, or throws it away",
        );
    }
    if !missing.is_empty() {
        let fact = format!("incomplete in the replies to {missing}");
        list.add(SECTION, Level::Warning, SUBJECT, fact)
            .meaning(MEANING);
    }
    if wrong.is_empty() && missing.is_empty() {
        let all = words(&|_| true);
        let fact = format!("before and after in the replies to {all}");
        list.add(SECTION, Level::Ok, SUBJECT, fact);
    }
}

fn is_of(told: &WccAttr, known: &Fattr3) -> bool {
    (told.size, told.mtime, told.ctime) == (known.size, known.mtime, known.ctime)
}

fn clock(list: &mut List, trial: ClockTrial) {
    const SUBJECT: &str = "clock";
    let duration = |ns: i128| {
        let ns = u64::try_from(ns.unsigned_abs()).unwrap_or(u64::MAX);
        time(Duration::from_nanos(ns))
    };
    let side = match trial.ahead_ns {
        0.. => "ahead of",
        _ => "behind",
    };
    let uncertain = trial.uncertain_ns.saturating_add(TICK_NS);
    let fact = format!(
        "the server's is {} {side} ours, within {}",
        duration(trial.ahead_ns),
        duration(uncertain)
    );
    // What is certain of it: the rest may be the round trip.
    let at_least = i128::try_from(trial.ahead_ns.unsigned_abs())
        .unwrap_or(i128::MAX)
        .saturating_sub(uncertain);
    if at_least > SKEW_LARGE_NS {
        list.add(SECTION, Level::Warning, SUBJECT, fact)
            .meaning(
                "make, rsync and backups compare times of both: they do too much, or too little",
            )
            .cure("let both hosts follow the same time servers (chrony, systemd-timesyncd)");
    } else if at_least > SKEW_SMALL_NS {
        list.add(SECTION, Level::Note, SUBJECT, fact)
            .meaning("fine for most; make may complain of files from the future");
    } else {
        list.add(SECTION, Level::Ok, SUBJECT, fact);
    }
}

fn handles(list: &mut List, trial: &HandleTrial) {
    const SUBJECT: &str = "handles";
    const MEANING: &str =
        "programs that have the file open get ESTALE, and lose what they were about to write";
    let mut lost = Vec::new();
    let mut kept = Vec::new();
    let steps = [
        ("another connection", trial.elsewhere.as_ref()),
        ("a rename", Some(&trial.renamed)),
        ("a move to another directory", Some(&trial.moved)),
        ("a rename of the directory", Some(&trial.directory_renamed)),
    ];
    for (what, answer) in steps {
        match answer {
            Some(Ok(())) => kept.push(what.to_owned()),
            Some(Err(refusal)) => lost.push(format!("{what} ({refusal})")),
            None => {}
        }
    }
    if lost.is_empty() {
        let fact = format!("good after {}", kept.join(", "));
        list.add(SECTION, Level::Ok, SUBJECT, fact);
    } else {
        let fact = format!("no longer good after {}", lost.join(", "));
        list.add(SECTION, Level::Problem, SUBJECT, fact)
            .meaning(MEANING)
            .cure(
                "Linux: export with no_subtree_check, and give the file system an fsid; a server over FUSE \
                 or a table of paths may not be able to keep them",
            );
    }
    if trial.same_elsewhere == Some(Ok(false)) {
        list.add(
            SECTION,
            Level::Note,
            SUBJECT,
            "another connection is told another handle",
        )
        .meaning("clients that know files by their handles take one file for two");
    }
    match &trial.removed {
        Err(Refusal::Status(Nfsstat3::Stale | Nfsstat3::Noent | Nfsstat3::Badhandle)) => {
            list.add(
                SECTION,
                Level::Ok,
                SUBJECT,
                "stale once the file is removed",
            );
        }
        Ok(()) => {
            list.add(SECTION, Level::Note, SUBJECT, "still good after the file was removed")
                .meaning(
                    "the server keeps it for a while, open or in a cache; a later file must not get the same \
                     handle",
                );
        }
        Err(refusal) => {
            let fact = format!("of a removed file: {refusal}, where NFS3ERR_STALE is meant for it");
            list.add(SECTION, Level::Note, SUBJECT, fact);
        }
    }
}

fn cookies(list: &mut List, trial: &CookieTrial) {
    const SUBJECT: &str = "listing";
    if let Some(fact) = distribution(&trial.create) {
        list.add(SECTION, Level::Ok, "CREATE", fact);
    }
    let pages = format!("{} entries in {} pages", trial.lasting, trial.pages);
    if let Some(failure) = &trial.failure {
        let level = match failure {
            // Allowed, and clients begin again; but each change of the directory costs that.
            Refusal::Status(Nfsstat3::BadCookie) => Level::Warning,
            _ => Level::Problem,
        };
        let fact = format!("ended by {failure} when the directory changed meanwhile");
        list.add(SECTION, level, SUBJECT, fact)
            .meaning("clients cannot list a directory to its end while somebody works in it");
    } else if trial.lost > 0 || trial.twice > 0 {
        let fact = format!(
            "{pages}: {} lost and {} twice when the directory changed meanwhile",
            trial.lost, trial.twice
        );
        list.add(SECTION, Level::Problem, SUBJECT, fact)
            .meaning("rm -r leaves files, backups miss them or have them twice")
            .cure("a file system with stable directory offsets below the export");
    } else {
        let fact = format!("{pages}: complete though the directory changed meanwhile");
        list.add(SECTION, Level::Ok, SUBJECT, fact);
    }
    match &trial.other_verifier {
        None => {}
        Some(Err(Refusal::Status(Nfsstat3::BadCookie))) => {
            list.add(
                SECTION,
                Level::Ok,
                "cookie verifier",
                "a wrong one is refused",
            );
        }
        Some(Ok(())) => {
            list.add(
                SECTION,
                Level::Note,
                "cookie verifier",
                "a wrong one is taken",
            )
            .meaning("then cookies have to stay good for ever, as on most file systems they do");
        }
        Some(Err(refusal)) => {
            let fact = format!(
                "a wrong one is answered {refusal}, where NFS3ERR_BAD_COOKIE is meant for it"
            );
            list.add(SECTION, Level::Note, "cookie verifier", fact);
        }
    }
}

fn exclusive(list: &mut List, trial: &ExclusiveTrial) {
    const SUBJECT: &str = "exclusive CREATE";
    let again = |answer: &Answered<bool>| match answer {
        Ok(true) => None,
        Ok(false) => Some("gives another file".to_owned()),
        Err(refusal) => Some(format!("fails: {refusal}")),
    };
    if let Some(how) = again(&trial.same) {
        let fact = format!("the same one again {how}");
        list.add(SECTION, Level::Problem, SUBJECT, fact).meaning(
            "a client whose first reply was lost is told that somebody else made its file: programs that make \
             lock files fail for no reason",
        );
    }
    match &trial.other {
        Ok(()) => {
            list.add(
                SECTION,
                Level::Problem,
                SUBJECT,
                "another one of the same name succeeds",
            )
            .meaning("two programs each believe that they made the file: lock files do not lock");
        }
        Err(Refusal::Status(Nfsstat3::Exist)) if trial.same == Ok(true) => {
            let fact = "the same one again finds its file, another one is refused";
            list.add(SECTION, Level::Ok, SUBJECT, fact);
        }
        Err(Refusal::Status(Nfsstat3::Exist)) => {}
        Err(refusal) => {
            let fact = format!(
                "another one of the same name: {refusal}, where NFS3ERR_EXIST is meant for it"
            );
            list.add(SECTION, Level::Note, SUBJECT, fact);
        }
    }
}
