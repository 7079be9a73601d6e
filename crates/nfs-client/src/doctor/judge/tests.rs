//! Each judgement from measurements that were made up: facts in, level and words out.

use std::time::Duration;

use nfs_wire::nfs3::{
    Fattr3, FsinfoOk, Ftype3, Nfsstat3, Nfstime3, PathconfOk, Specdata3, StableHow, WccAttr,
    WccData,
};

use super::{Diagnosis, Level, Verdict, diagnose};
use crate::doctor::facts::*;
use crate::mount3::ExportEntry;

fn times(microseconds: u64) -> Times {
    let around = (0..100).map(|number| Duration::from_micros(microseconds + number % 5));
    Times::from(around.collect::<Vec<_>>())
}

fn attributes() -> Fattr3 {
    let time = Nfstime3 {
        seconds: 7,
        nseconds: 8,
    };
    Fattr3 {
        ftype: Ftype3::Reg,
        mode: 0o600,
        nlink: 1,
        uid: 0,
        gid: 0,
        size: 10,
        used: 4096,
        rdev: Specdata3 { major: 0, minor: 0 },
        fsid: 1,
        fileid: 2,
        atime: time,
        mtime: time,
        ctime: time,
    }
}

fn wcc(procedure: &'static str) -> WccSeen {
    let known = attributes();
    let before = WccAttr {
        size: known.size,
        mtime: known.mtime,
        ctime: known.ctime,
    };
    WccSeen {
        procedure,
        known,
        told: WccData {
            before: Some(before),
            after: Some(known),
        },
    }
}

fn trials() -> Trials {
    let stale = || Err(Refusal::Status(Nfsstat3::Stale));
    Trials {
        stable: Ok(StableTrial {
            unstable: times(200),
            commit: times(1500),
            commit_idle: times(110),
            nothing: times(120),
            file_sync: times(1800),
            getattr: times(100),
            unstable_promised: StableHow::Unstable,
            file_sync_promised: StableHow::FileSync,
        }),
        verifiers: Ok(Verifiers {
            replies: 192,
            changes: 0,
            same_elsewhere: Ok(true),
        }),
        handles: Ok(HandleTrial {
            elsewhere: Some(Ok(())),
            same_elsewhere: Some(Ok(true)),
            renamed: Ok(()),
            moved: Ok(()),
            directory_renamed: Ok(()),
            removed: stale(),
        }),
        clock: Ok(ClockTrial {
            ahead_ns: -300_000,
            uncertain_ns: 200_000,
        }),
        wcc: Ok(WccTrial::V3(vec![wcc("WRITE"), wcc("CREATE")])),
        cookies: Ok(CookieTrial {
            lasting: 62,
            pages: 8,
            lost: 0,
            twice: 0,
            failure: None,
            other_verifier: Some(Err(Refusal::Status(Nfsstat3::BadCookie))),
            create: times(2000),
        }),
        exclusive: Ok(ExclusiveTrial {
            same: Ok(true),
            other: Err(Refusal::Status(Nfsstat3::Exist)),
        }),
        identities: Ok(IdentityTrial {
            nobody: Err(Refusal::Call("too weak".to_owned())),
            root: Ok(65534),
            stranger: Ok(IdentityTrial::STRANGER),
        }),
    }
}

fn export(directory: &str, groups: &[&str]) -> ExportEntry {
    ExportEntry {
        directory: directory.into(),
        groups: groups.iter().map(|&group| group.into()).collect(),
    }
}

/// A server that does everything right.
fn sound() -> Facts {
    let version = |version| VersionFound {
        version,
        answer: Ok(()),
    };
    Facts {
        server: "server:2049".to_owned(),
        path: b"/export".to_vec(),
        version: "3",
        calls: 1000,
        services: Services {
            portmap: Ok(vec![
                Registered {
                    program: 100_003,
                    version: 3,
                    port: 2049,
                },
                Registered {
                    program: 100_021,
                    version: 4,
                    port: 4045,
                },
            ]),
            nfs: ["3", "4.1", "4.2"].map(version).to_vec(),
            mount: Ok(MountFound {
                port: 2049,
                exports: Ok(vec![export("/export", &["10.0.0.0/8"])]),
            }),
        },
        directory: Ok(()),
        fsinfo: Ok(FsinfoOk {
            obj_attributes: None,
            rtmax: 1 << 20,
            rtpref: 1 << 20,
            rtmult: 4096,
            wtmax: 1 << 20,
            wtpref: 1 << 20,
            wtmult: 4096,
            dtpref: 65536,
            maxfilesize: 1 << 44,
            time_delta: Nfstime3 {
                seconds: 0,
                nseconds: 1,
            },
            properties: 0x1b,
        }),
        pathconf: Ok(PathconfOk {
            obj_attributes: None,
            linkmax: 65000,
            name_max: 255,
            no_trunc: true,
            chown_restricted: true,
            case_insensitive: false,
            case_preserving: true,
        }),
        latency: Latency {
            null: times(80),
            getattr: times(100),
            read: times(120),
        },
        trials: Ok(trials()),
        own: Some(OwnDirectory {
            path: b"/export/.penstock-doctor-1".to_vec(),
            removed: Ok(()),
        }),
        ended: None,
    }
}

/// The diagnosis of the sound server with a change.
fn with(change: impl FnOnce(&mut Facts)) -> Diagnosis {
    let mut facts = sound();
    change(&mut facts);
    diagnose(&facts)
}

/// As [`with`], for a change of the trials.
fn tried(change: impl FnOnce(&mut Trials)) -> Diagnosis {
    with(|facts| change(facts.trials.as_mut().unwrap()))
}

/// The worst that was said about a subject, and all of its words.
fn about(diagnosis: &Diagnosis, subject: &str) -> (Level, String) {
    let of = diagnosis
        .findings
        .iter()
        .filter(|one| one.subject == subject);
    let level = of.clone().map(|one| one.level).max();
    let level = level.unwrap_or_else(|| panic!("nothing about {subject}: {diagnosis:#?}"));
    let words = of.map(|one| format!("{}: {} {:?}", one.fact, one.meaning, one.cure));
    (level, words.collect::<Vec<_>>().join("\n"))
}

#[track_caller]
fn expect(diagnosis: &Diagnosis, subject: &str, level: Level, words: &str) {
    let (found, text) = about(diagnosis, subject);
    assert_eq!(found, level, "{subject}: {text}");
    assert!(text.contains(words), "{subject}: {text}");
}

#[test]
fn a_sound_server_has_no_warning() {
    let diagnosis = diagnose(&sound());
    let bad: Vec<_> = diagnosis.findings.iter().collect();
    let bad: Vec<_> = bad.iter().filter(|one| one.level > Level::Note).collect();
    assert!(bad.is_empty(), "{bad:#?}");
    assert_eq!(diagnosis.verdict(), Verdict::Sound);
    expect(&diagnosis, "stable storage", Level::Ok, "1.60 ms more");
}

#[test]
fn stable_storage_that_costs_nothing_is_a_warning_with_its_evidence() {
    let diagnosis = tried(|trials| {
        let stable = trials.stable.as_mut().unwrap();
        stable.file_sync = times(205);
        stable.commit = times(110);
    });
    let subject = "stable storage";
    expect(
        &diagnosis,
        subject,
        Level::Warning,
        "FILE_SYNC against UNSTABLE: 5 us more",
    );
    expect(
        &diagnosis,
        subject,
        Level::Warning,
        "COMMIT against one of nothing: 0 us more",
    );
    expect(
        &diagnosis,
        subject,
        Level::Warning,
        "up to 25 us says nothing",
    );
    expect(&diagnosis, subject, Level::Warning, "the two look the same");
    // A warning is no accusation: the exit status stays 0.
    assert_eq!(diagnosis.verdict(), Verdict::Sound);
}

#[test]
fn one_promise_that_costs_nothing_beside_one_that_does_is_named() {
    let file_sync = tried(|trials| trials.stable.as_mut().unwrap().file_sync = times(205));
    expect(
        &file_sync,
        "stable storage",
        Level::Warning,
        "FILE_SYNC may",
    );
    let commit = tried(|trials| trials.stable.as_mut().unwrap().commit = times(110));
    expect(&commit, "stable storage", Level::Warning, "COMMIT may");
}

#[test]
fn a_slow_way_to_a_commit_that_does_nothing_is_no_cost_of_stable_storage() {
    // A server that answers before anything is stable, on a machine where a COMMIT takes longer than a GETATTR.
    let lying = tried(|trials| {
        let stable = trials.stable.as_mut().unwrap();
        (stable.getattr, stable.unstable) = (times(300), times(500));
        (stable.commit, stable.commit_idle) = (times(420), times(415));
        stable.file_sync = times(510);
    });
    let subject = "stable storage";
    expect(&lying, subject, Level::Warning, "no cost of stable storage");
    // One that makes each WRITE stable, it says, has a longer way to do it than to look at attributes.
    let always = tried(|trials| {
        let stable = trials.stable.as_mut().unwrap();
        stable.unstable_promised = StableHow::FileSync;
        (stable.nothing, stable.file_sync) = (times(400), times(510));
    });
    expect(&always, subject, Level::Note, "cannot be told");
    // And one that refuses a WRITE of nothing is compared with GETATTR, in a wider measure.
    let refuses = |file_sync| {
        tried(|trials| {
            let stable = trials.stable.as_mut().unwrap();
            stable.unstable_promised = StableHow::FileSync;
            stable.nothing = Times::default();
            (stable.getattr, stable.file_sync) = (times(100), times(file_sync));
        })
    };
    expect(
        &refuses(270),
        subject,
        Level::Note,
        "against GETATTR: 170 us more",
    );
    expect(&refuses(2000), subject, Level::Ok, "against GETATTR");
}

#[test]
fn what_is_hidden_in_the_noise_is_neither_well_nor_a_warning() {
    let diagnosis = tried(|trials| {
        let noisy = [[100; 50], [900; 50]].concat();
        let noisy = noisy.into_iter().map(Duration::from_micros);
        let stable = trials.stable.as_mut().unwrap();
        stable.unstable = Times::from(noisy.collect::<Vec<_>>());
        stable.file_sync = times(1000);
    });
    expect(&diagnosis, "stable storage", Level::Note, "cannot be told");
}

#[test]
fn what_is_always_stable_is_measured_against_calls_that_write_nothing() {
    let always = |microseconds| {
        tried(|trials| {
            let stable = trials.stable.as_mut().unwrap();
            stable.unstable_promised = StableHow::FileSync;
            stable.unstable = times(microseconds);
            stable.file_sync = times(microseconds);
            stable.commit = times(100);
        })
    };
    expect(
        &always(2000),
        "stable storage",
        Level::Ok,
        "against a WRITE of nothing",
    );
    expect(
        &always(130),
        "stable storage",
        Level::Warning,
        "against a WRITE of nothing",
    );
}

#[test]
fn a_promise_below_what_was_asked_for_is_a_problem() {
    let diagnosis = tried(|trials| {
        trials.stable.as_mut().unwrap().file_sync_promised = StableHow::Unstable;
    });
    expect(&diagnosis, "promises", Level::Problem, "answered with less");
    assert_eq!(diagnosis.verdict(), Verdict::Problem);
}

#[test]
fn a_verifier_that_changes_is_a_problem() {
    let subject = "write verifier";
    let changes = tried(|trials| trials.verifiers.as_mut().unwrap().changes = 3);
    expect(&changes, subject, Level::Problem, "3 changes in 192");
    let elsewhere =
        |answer| tried(|trials| trials.verifiers.as_mut().unwrap().same_elsewhere = answer);
    expect(
        &elsewhere(Ok(false)),
        subject,
        Level::Problem,
        "another connection",
    );
    let untold = elsewhere(Err(Refusal::Call("no route".to_owned())));
    expect(&untold, subject, Level::Ok, "no route");
}

#[test]
fn handles_that_do_not_survive_are_a_problem() {
    let stale = || Err(Refusal::Status(Nfsstat3::Stale));
    let handles = |change: fn(&mut HandleTrial, Answered<()>)| {
        tried(|trials| change(trials.handles.as_mut().unwrap(), stale()))
    };
    for diagnosis in [
        handles(|trial, stale| trial.elsewhere = Some(stale)),
        handles(|trial, stale| trial.renamed = stale),
        handles(|trial, stale| trial.moved = stale),
        handles(|trial, stale| trial.directory_renamed = stale),
    ] {
        expect(&diagnosis, "handles", Level::Problem, "NFS3ERR_STALE");
    }
    let removed = handles(|trial, _| trial.removed = Ok(()));
    expect(&removed, "handles", Level::Note, "still good");
    let other = handles(|trial, _| trial.same_elsewhere = Some(Ok(false)));
    expect(&other, "handles", Level::Note, "another handle");
    let untold = handles(|trial, _| (trial.elsewhere, trial.same_elsewhere) = (None, None));
    expect(&untold, "handles", Level::Ok, "good after a rename");
}

#[test]
fn clocks_are_judged_by_what_is_certain() {
    let clock = |ahead_ms: i128, uncertain_ms: i128| {
        let (ahead_ns, uncertain_ns) = (ahead_ms * 1_000_000, uncertain_ms * 1_000_000);
        tried(|trials| {
            trials.clock = Ok(ClockTrial {
                ahead_ns,
                uncertain_ns,
            });
        })
    };
    expect(&clock(90, 1), "clock", Level::Ok, "90.00 ms ahead of");
    expect(&clock(-500, 1), "clock", Level::Note, "500.00 ms behind");
    expect(&clock(1100, 1), "clock", Level::Warning, "chrony");
    // Three seconds of round trip may be all of it.
    expect(&clock(1500, 1500), "clock", Level::Ok, "within 1.5 s");
}

#[test]
fn wcc_data_is_to_be_there_and_true() {
    let missing = tried(|trials| {
        let mut seen = wcc("WRITE");
        seen.told.before = None;
        trials.wcc = Ok(WccTrial::V3(vec![seen, wcc("CREATE")]));
    });
    expect(
        &missing,
        "wcc_data",
        Level::Warning,
        "incomplete in the replies to WRITE:",
    );
    let wrong = tried(|trials| {
        let mut seen = wcc("CREATE");
        seen.known.ctime.nseconds += 1;
        trials.wcc = Ok(WccTrial::V3(vec![seen, wcc("WRITE")]));
    });
    expect(&wrong, "wcc_data", Level::Problem, "of CREATE:");
    let v4 = |atomic| tried(|trials| trials.wcc = Ok(WccTrial::V4 { atomic }));
    expect(&v4(true), "change_info4", Level::Ok, "atomic");
    expect(&v4(false), "change_info4", Level::Note, "not atomic");
}

#[test]
fn listings_are_to_be_whole_while_the_directory_changes() {
    let cookies =
        |change: fn(&mut CookieTrial)| tried(|trials| change(trials.cookies.as_mut().unwrap()));
    let lost = cookies(|trial| trial.lost = 2);
    expect(&lost, "listing", Level::Problem, "2 lost and 0 twice");
    let twice = cookies(|trial| trial.twice = 1);
    expect(&twice, "listing", Level::Problem, "0 lost and 1 twice");
    let again = cookies(|trial| trial.failure = Some(Refusal::Status(Nfsstat3::BadCookie)));
    expect(&again, "listing", Level::Warning, "NFS3ERR_BAD_COOKIE");
    let endless = cookies(|trial| trial.failure = Some(Refusal::Call("no end".to_owned())));
    expect(&endless, "listing", Level::Problem, "no end");
    let taken = cookies(|trial| trial.other_verifier = Some(Ok(())));
    expect(&taken, "cookie verifier", Level::Note, "is taken");
}

#[test]
fn exclusive_creation_is_to_be_repeatable_and_exclusive() {
    let subject = "exclusive CREATE";
    let exclusive =
        |same, other| tried(|trials| trials.exclusive = Ok(ExclusiveTrial { same, other }));
    let exist = || Refusal::Status(Nfsstat3::Exist);
    expect(
        &exclusive(Err(exist()), Err(exist())),
        subject,
        Level::Problem,
        "lost",
    );
    expect(
        &exclusive(Ok(false), Err(exist())),
        subject,
        Level::Problem,
        "another file",
    );
    expect(
        &exclusive(Ok(true), Ok(())),
        subject,
        Level::Problem,
        "do not lock",
    );
}

#[test]
fn abilities_are_judged() {
    let fsinfo = |change: fn(&mut FsinfoOk)| with(|facts| change(facts.fsinfo.as_mut().unwrap()));
    let tiny = fsinfo(|info| info.rtmax = 4096);
    expect(&tiny, "READ size", Level::Problem, "4 KiB");
    let small = fsinfo(|info| info.wtmax = 32768);
    expect(&small, "WRITE size", Level::Warning, "32 KiB");
    let greedy = fsinfo(|info| info.rtpref = 2 << 20);
    expect(&greedy, "READ size", Level::Note, "smaller");
    let short = fsinfo(|info| info.maxfilesize = 0x7fff_ffff);
    expect(&short, "file size", Level::Warning, "NFS3ERR_FBIG");
    let coarse = fsinfo(|info| info.time_delta.seconds = 2);
    expect(&coarse, "timestamps", Level::Warning, "2.0 s");
    let coarse = fsinfo(|info| info.time_delta.nseconds = 10_000_000);
    expect(&coarse, "timestamps", Level::Note, "10000000 ns");
    let no_links = fsinfo(|info| info.properties = 0x18);
    expect(&no_links, "links", Level::Note, "no hard links");
    let conf = |change: fn(&mut PathconfOk)| with(|facts| change(facts.pathconf.as_mut().unwrap()));
    expect(
        &conf(|conf| conf.name_max = 143),
        "names",
        Level::Warning,
        "143",
    );
    expect(
        &conf(|conf| conf.no_trunc = false),
        "names",
        Level::Warning,
        "cut off",
    );
    expect(
        &conf(|conf| conf.case_insensitive = true),
        "case",
        Level::Warning,
        "are one",
    );
    expect(
        &conf(|conf| conf.case_preserving = false),
        "case",
        Level::Warning,
        "not kept",
    );
    expect(
        &conf(|conf| conf.linkmax = 1),
        "hard links",
        Level::Note,
        "at most 1",
    );
    expect(
        &conf(|conf| conf.chown_restricted = false),
        "ownership",
        Level::Note,
        "quotas",
    );
}

#[test]
fn long_and_uneven_latencies_are_told() {
    let far = with(|facts| facts.latency.null = times(8000));
    expect(&far, "NULL", Level::Warning, "crawl");
    let stuck = with(|facts| {
        let mut all = vec![Duration::from_micros(100); 98];
        all.extend([Duration::from_millis(200); 2]);
        facts.latency.getattr = Times::from(all);
    });
    expect(&stuck, "GETATTR", Level::Warning, "gets stuck");
}

#[test]
fn identities_are_told() {
    let identities = |change: fn(&mut IdentityTrial)| {
        tried(|trials| change(trials.identities.as_mut().unwrap()))
    };
    expect(&identities(|_| {}), "root", Level::Ok, "squashed");
    expect(
        &identities(|trial| trial.root = Ok(0)),
        "root",
        Level::Note,
        "root_squash",
    );
    let all = identities(|trial| trial.stranger = Ok(65534));
    expect(&all, "unknown users", Level::Note, "all_squash");
    let nobody = identities(|trial| trial.nobody = Ok(()));
    expect(&nobody, "no credentials", Level::Note, "AUTH_NONE");
}

#[test]
fn services_are_told() {
    let refused = || Refusal::Call("refused".to_owned());
    let away = with(|facts| {
        for version in &mut facts.services.nfs {
            version.answer = Err(refused());
        }
        facts.directory = Err(refused());
    });
    expect(&away, "NFS", Level::Problem, "firewall");
    assert_eq!(away.verdict(), Verdict::Unexamined);
    let old = with(|facts| {
        facts.services.nfs[1].answer = Err(Refusal::Versions { low: 3, high: 3 });
    });
    expect(
        &old,
        "NFS",
        Level::Note,
        "NFSv4.1 does not answer: the server has versions 3 to 3",
    );
    let no_mount = |version| {
        with(|facts| {
            facts.services.mount = Err(refused());
            facts.version = version;
        })
    };
    expect(&no_mount("3"), "MOUNT", Level::Warning, "first handle");
    expect(&no_mount("4.2"), "MOUNT", Level::Note, "does without");
    let no_locks = with(|facts| {
        facts.services.portmap.as_mut().unwrap().pop();
    });
    expect(&no_locks, "locks", Level::Note, "nolock");
    let open = with(|facts| {
        let mount = facts.services.mount.as_mut().unwrap();
        mount.exports = Ok(vec![export("/", &[])]);
    });
    expect(&open, "exports", Level::Note, "1 of 1");
}

#[test]
fn what_the_examination_left_is_told() {
    let left = with(|facts| {
        facts.own.as_mut().unwrap().removed = Err("no answer".to_owned());
    });
    expect(&left, "own directory", Level::Problem, "penstock rm -r");
    let reading = with(|facts| (facts.trials, facts.own) = (Err(NoTrials::ReadOnly), None));
    expect(&reading, "writing", Level::Note, "as asked for");
    assert_eq!(reading.verdict(), Verdict::Sound);
    let refused = with(|facts| {
        facts.trials = Err(NoTrials::Refused(Refusal::Status(Nfsstat3::Acces)));
        facts.own = None;
    });
    expect(&refused, "writing", Level::Warning, "NFS3ERR_ACCES");
    let late = with(|facts| {
        facts.ended = Some(Ended::Late);
        facts.trials = Ok(Trials::default());
    });
    expect(&late, "extent", Level::Warning, "time was over");
    // What was not asked is told once, not for each trial.
    assert!(
        !late
            .findings
            .iter()
            .any(|one| one.fact.contains("not asked"))
    );
}
