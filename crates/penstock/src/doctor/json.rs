//! The report as one JSON object. Keys are part of the command's interface: they are added to,
//! not changed.

use std::path::Path;

use nfs_io::finding::Finding;
use nfs_io::probe::directory::{
    Device, DeviceKind, DirectTrials, DirectoryFacts, Outcome, ProbeError, ProcessFacts, Scratch,
    Trials,
};
use serde_json::{Value, json};

use crate::results::Failure;
use nfs_io::probe::diagnosis::words;
use nfs_io::probe::diagnosis::{Diagnosis, fs_name};

/// A directory that could not be looked at.
pub(super) fn failure(path: &Path, error: &ProbeError) -> Value {
    Failure::here(path).object(&error.to_string())
}

/// Everything found out and said about a directory.
pub(super) fn report(
    facts: &DirectoryFacts,
    process: &ProcessFacts,
    diagnosis: &Diagnosis,
) -> Value {
    let findings = findings(&diagnosis.findings, |one| {
        (one.section.word(), one.level.word())
    });
    let (modes, recommendation) = match &diagnosis.modes {
        None => (Value::Null, Value::Null),
        Some(modes) => {
            let rows = modes.rows.iter().map(|row| {
                let cells = json!({ "read": row.read, "write": row.write, "commit": row.commit });
                (row.mode.word().to_owned(), cells)
            });
            let chosen = &modes.recommendation;
            let chosen = json!({
                "read": chosen.read.word(),
                "write": chosen.write.word(),
                "why": chosen.why,
            });
            (Value::Object(rows.collect()), chosen)
        }
    };
    json!({
        "path": facts.path.to_string_lossy(),
        "error": facts.trials.as_ref().err().map(|error| {
            Failure::here(&facts.path).value(&error.to_string())
        }),
        "file_system": file_system(facts),
        "device": facts.device.as_ref().map(device),
        "process": of_process(process),
        "handles": {
            "made": refusal(facts.handles.made),
            "opened": refusal(facts.handles.opened),
        },
        "trials": facts.trials.as_ref().ok().map(|trials| tried(trials, facts.scratch)),
        "findings": findings,
        "modes": modes,
        "recommendation": recommendation,
    })
}

/// The findings as objects; `words` gives the words of a finding's section and level.
pub(super) fn findings<S, L>(
    findings: &[Finding<S, L>],
    words: impl Fn(&Finding<S, L>) -> (&'static str, &'static str),
) -> Vec<Value> {
    let object = |finding: &Finding<S, L>| {
        let (section, level) = words(finding);
        json!({
            "section": section,
            "level": level,
            "subject": finding.subject,
            "fact": finding.fact,
            "meaning": finding.meaning,
            "cure": finding.cure,
        })
    };
    findings.iter().map(object).collect()
}

fn file_system(facts: &DirectoryFacts) -> Value {
    let mount = facts.mount.as_ref();
    json!({
        "type": fs_name(facts),
        "magic": facts.fs.fs_type,
        "source": mount.map(|mount| &mount.source),
        "mount_point": mount.map(|mount| mount.mount_point.to_string_lossy()),
        "options": mount.map(|mount| &mount.options),
        "super_options": mount.map(|mount| &mount.super_options),
        "block_bytes": facts.fs.bsize,
        "size_bytes": facts.fs.blocks.saturating_mul(facts.fs.frsize),
        "free_bytes": facts.fs.bavail.saturating_mul(facts.fs.frsize),
        "free_inodes": facts.fs.ffree,
        "read_only": facts.fs.read_only(),
    })
}

fn device(device: &Device) -> Value {
    let (kind, backing, direct) = match &device.kind {
        DeviceKind::Disk => ("disk", None, None),
        DeviceKind::Loop { backing, direct } => ("loop", backing.as_ref(), *direct),
        DeviceKind::Zram => ("zram", None, None),
        DeviceKind::Ramdisk => ("ramdisk", None, None),
        DeviceKind::Network => ("network", None, None),
        DeviceKind::Stacked => ("stacked", None, None),
    };
    json!({
        "name": device.name,
        "number": [device.number.0, device.number.1],
        "kind": kind,
        "loop_file": backing.map(|file| file.to_string_lossy()),
        "loop_direct": direct,
        "logical_block_bytes": device.logical_block_bytes,
        "physical_block_bytes": device.physical_block_bytes,
        "rotational": device.rotational,
        "write_back_cache": device.write_back_cache,
    })
}

fn of_process(process: &ProcessFacts) -> Value {
    let held = process.capabilities.iter().filter(|(_, held)| *held);
    let held: Vec<&str> = held.map(|(name, _)| *name).collect();
    json!({
        "kernel": process.kernel,
        "uid": process.uid,
        "memory_bytes": process.memory_bytes,
        "capabilities": held,
        "io_uring": process.uring.is_ok(),
        "io_uring_refusal": process.uring.as_ref().err(),
        "descriptors": process.descriptors,
    })
}

fn tried(trials: &Trials, scratch: Option<Scratch>) -> Value {
    json!({
        "file": scratch.map(|scratch| match scratch {
            Scratch::Nameless => "nameless",
            Scratch::Unlinked => "unlinked",
        }),
        "counted_by": trials.meter.map(nfs_io::probe::directory::Meter::name),
        "alignment": {
            "memory": trials.memory_align,
            "offset": trials.offset_align,
            "read_offset": trials.read_offset_align,
        },
        "open_direct": refusal(trials.open_direct),
        "direct_read": trials.direct_read.map(direct),
        "direct_write": trials.direct_write.map(direct),
        "dontcache_read": outcome(trials.dontcache_read),
        "dontcache_append": outcome(trials.dontcache_append),
        "dontcache_overwrite": outcome(trials.dontcache_overwrite),
        "write_dsync": outcome(trials.write_dsync),
        "write_sync": outcome(trials.write_sync),
        "read_nowait": outcome(trials.read_nowait),
    })
}

fn direct(trials: DirectTrials) -> Value {
    json!({
        "aligned": outcome(trials.aligned),
        "smallest": trials.smallest.map(outcome),
        "odd_offset": outcome(trials.odd_offset),
        "odd_length": outcome(trials.odd_length),
        "odd_memory": outcome(trials.odd_memory),
    })
}

/// The word of an outcome, with what belongs to it.
fn outcome(outcome: Outcome) -> Value {
    let word = words::outcome(outcome);
    match outcome {
        Outcome::Refused(errno) => json!({ "is": word, "errno": words::errno(errno) }),
        Outcome::Cached { pages } => json!({ "is": word, "pages": pages }),
        _ => json!({ "is": word }),
    }
}

/// `null` for what worked, else an error as all have it.
fn refusal(result: Result<(), nfs_io::Errno>) -> Option<Value> {
    let object =
        |errno: nfs_io::Errno| Failure::of_errno(errno.raw_os_error()).value(&words::errno(errno));
    result.err().map(object)
}
