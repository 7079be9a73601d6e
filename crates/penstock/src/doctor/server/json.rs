//! The report on a server as one JSON object. Keys are part of the command's interface: they are added
//! to, not changed. What could not be found out is null; the findings say why.

use std::time::Duration;

use nfs_client::NfsUrl;
use nfs_client::doctor::facts::{
    Answered, Refusal, Services, StableTrial, Times, Trials, WccTrial,
};
use nfs_client::doctor::{Diagnosis, Facts, Verdict};
use nfs_client::mount3::ExportEntry;
use nfs_client::nfs3::{FsinfoOk, PathconfOk};
use serde_json::{Value, json};

use crate::doctor::json::findings;
use crate::results::Failure;
use crate::show::escape;

/// Everything found out and said about a server.
pub(super) fn report(url: &NfsUrl, facts: &Facts, diagnosis: &Diagnosis) -> Value {
    let trials = facts.trials.as_ref().ok();
    json!({
        "url": url.to_string(),
        "server": facts.server,
        "path": escape(&facts.path),
        "version": facts.version,
        "error": facts.directory.as_ref().err().map(error),
        "verdict": match diagnosis.verdict() {
            Verdict::Sound => "sound",
            Verdict::Problem => "problem",
            Verdict::Unexamined => "unexamined",
        },
        "worst": diagnosis.worst().word(),
        "calls": facts.calls,
        "services": services(&facts.services),
        "fsinfo": facts.fsinfo.as_ref().ok().map(fsinfo),
        "pathconf": facts.pathconf.as_ref().ok().map(pathconf),
        "latency": {
            "null": times(&facts.latency.null),
            "getattr": times(&facts.latency.getattr),
            "read": times(&facts.latency.read),
        },
        "stable": trials.and_then(|trials| trials.stable.as_ref().ok()).map(stable),
        "trials": trials.map(tried),
        "own_directory": facts.own.as_ref().map(|own| json!({
            "path": escape(&own.path),
            "removed": own.removed.is_ok(),
            "error": own.removed.as_ref().err().map(|why| Failure::default().value(why)),
        })),
        "findings": findings(&diagnosis.findings, |one| (one.section.word(), one.level.word())),
    })
}

fn services(found: &Services) -> Value {
    let versions = found.nfs.iter().map(|one| {
        let object = json!({
            "answers": one.answer.is_ok(),
            "error": one.answer.as_ref().err().map(error),
        });
        (one.version.to_owned(), object)
    });
    let programs = found.portmap.as_ref().ok().map(|all| {
        let one = all
            .iter()
            .map(|one| json!({ "program": one.program, "version": one.version, "port": one.port }));
        one.collect::<Vec<_>>()
    });
    let exports = found.mount.as_ref().ok().map(|mount| {
        let told = mount.exports.as_ref().ok();
        let one = |export: &ExportEntry| {
            let groups = export.groups.iter().map(|group| escape(group));
            let groups: Vec<String> = groups.collect();
            json!({ "path": escape(&export.directory), "groups": groups })
        };
        told.map(|exports| exports.iter().map(one).collect::<Vec<_>>())
    });
    json!({
        "portmap": programs,
        "nfs": versions.collect::<serde_json::Map<_, _>>(),
        "mount_port": found.mount.as_ref().ok().map(|mount| mount.port),
        "exports": exports,
    })
}

fn fsinfo(info: &FsinfoOk) -> Value {
    let delta = info.time_delta;
    json!({
        "rtmax": info.rtmax, "rtpref": info.rtpref, "rtmult": info.rtmult,
        "wtmax": info.wtmax, "wtpref": info.wtpref, "wtmult": info.wtmult,
        "dtpref": info.dtpref,
        "maxfilesize": info.maxfilesize,
        "time_delta_ns": u64::from(delta.seconds) * 1_000_000_000 + u64::from(delta.nseconds),
        "properties": info.properties,
    })
}

fn pathconf(conf: &PathconfOk) -> Value {
    json!({
        "linkmax": conf.linkmax,
        "name_max": conf.name_max,
        "no_trunc": conf.no_trunc,
        "chown_restricted": conf.chown_restricted,
        "case_insensitive": conf.case_insensitive,
        "case_preserving": conf.case_preserving,
    })
}

/// A distribution, times in nanoseconds; null without any calls.
fn times(times: &Times) -> Value {
    let ns = |time: Option<Duration>| time.and_then(|time| u64::try_from(time.as_nanos()).ok());
    if times.count() == 0 {
        return Value::Null;
    }
    json!({
        "calls": times.count(),
        "p50_ns": ns(times.percentile(50)),
        "p90_ns": ns(times.percentile(90)),
        "p99_ns": ns(times.percentile(99)),
        "max_ns": ns(times.max()),
    })
}

fn stable(trial: &StableTrial) -> Value {
    json!({
        "write_unstable": times(&trial.unstable),
        "commit": times(&trial.commit),
        "commit_idle": times(&trial.commit_idle),
        "write_file_sync": times(&trial.file_sync),
        "write_nothing": times(&trial.nothing),
        "unstable_promised": format!("{:?}", trial.unstable_promised),
        "file_sync_promised": format!("{:?}", trial.file_sync_promised),
    })
}

fn tried(trials: &Trials) -> Value {
    let wcc = trials.wcc.as_ref().ok().map(|trial| match trial {
        WccTrial::V3(seen) => {
            let one = seen.iter().map(|one| {
                let told = one.told;
                let object =
                    json!({ "before": told.before.is_some(), "after": told.after.is_some() });
                (one.procedure.to_owned(), object)
            });
            Value::Object(one.collect())
        }
        WccTrial::V4 { atomic } => json!({ "atomic": atomic }),
    });
    json!({
        "verifier": trials.verifiers.as_ref().ok().map(|seen| json!({
            "replies": seen.replies,
            "changes": seen.changes,
            "same_over_another_connection": seen.same_elsewhere.as_ref().ok(),
        })),
        "handles": trials.handles.as_ref().ok().map(|trial| json!({
            "another_connection": trial.elsewhere.as_ref().map(word),
            "renamed": word(&trial.renamed),
            "moved": word(&trial.moved),
            "directory_renamed": word(&trial.directory_renamed),
            "removed": word(&trial.removed),
        })),
        "clock": trials.clock.as_ref().ok().map(|trial| json!({
            "ahead_ns": i64::try_from(trial.ahead_ns).ok(),
            "uncertain_ns": i64::try_from(trial.uncertain_ns).ok(),
        })),
        "wcc": wcc,
        "listing": trials.cookies.as_ref().ok().map(|trial| json!({
            "entries": trial.lasting,
            "pages": trial.pages,
            "lost": trial.lost,
            "twice": trial.twice,
            "error": trial.failure.as_ref().map(error),
            "wrong_verifier": trial.other_verifier.as_ref().map(word),
            "create": times(&trial.create),
        })),
        "exclusive": trials.exclusive.as_ref().ok().map(|trial| json!({
            "again": trial.same.as_ref().ok(),
            "other": word(&trial.other),
        })),
        "identities": trials.identities.as_ref().ok().map(|trial| json!({
            "nobody": word(&trial.nobody),
            "root_uid": trial.root.as_ref().ok(),
            "stranger_uid": trial.stranger.as_ref().ok(),
        })),
    })
}

/// Why there was no answer, as all errors are told.
fn error(refusal: &Refusal) -> Value {
    Failure::of_refusal(refusal).value(&refusal.to_string())
}

/// `ok`, or why not.
fn word(answer: &Answered<()>) -> String {
    match answer {
        Ok(()) => "ok".to_owned(),
        Err(refusal) => refusal.to_string(),
    }
}
