//! What answers on the host.

use super::{Level, List, Section, untold};
use crate::doctor::facts::{Facts, MountFound, Registered};
use crate::error::printable;
use crate::mount3::ExportEntry;

/// Exports that are told by name.
const EXPORTS_TOLD: usize = 8;

pub(super) fn judge(list: &mut List, facts: &Facts) {
    nfs(list, facts);
    portmap(list, facts);
    match &facts.services.mount {
        Ok(mount) => exports(list, mount),
        Err(refusal) if facts.version == "3" => {
            let fact = format!("MOUNT does not answer: {refusal}");
            list.add(Section::Services, Level::Warning, "MOUNT", fact)
                .meaning("clients of NFSv3 get their first handle from it");
        }
        Err(refusal) => {
            let fact = format!("MOUNT does not answer: {refusal}");
            list.add(Section::Services, Level::Note, "MOUNT", fact)
                .meaning("NFSv4 does without it; clients of NFSv3 need it");
        }
    }
    if let Err(refusal) = &facts.directory {
        list.add(
            Section::Services,
            Level::Problem,
            "directory",
            refusal.to_string(),
        )
        .meaning("nothing more could be asked");
    }
}

fn nfs(list: &mut List, facts: &Facts) {
    let versions = &facts.services.nfs;
    let there = versions.iter().filter(|one| one.answer.is_ok());
    let there: Vec<&str> = there.map(|one| one.version).collect();
    if there.is_empty() {
        let why = versions.iter().find_map(|one| one.answer.as_ref().err());
        let why = why.map_or_else(String::new, ToString::to_string);
        list.add(Section::Services, Level::Problem, "NFS", why)
            .meaning("no version of NFS answers at this host and port")
            .cure(
                "is the server running, is this its port, does a firewall let this host through?",
            );
        return;
    }
    let fact = format!("{} at {}", there.join(", "), facts.server);
    let examined = format!("what follows was examined over {}", facts.version);
    list.add(Section::Services, Level::Ok, "NFS", fact)
        .meaning(examined);
    for version in versions {
        if let Err(refusal) = &version.answer {
            let fact = format!("NFSv{} does not answer: {refusal}", version.version);
            list.add(Section::Services, Level::Note, "NFS", fact);
        }
    }
}

fn portmap(list: &mut List, facts: &Facts) {
    const SUBJECT: &str = "portmapper";
    let registered = match &facts.services.portmap {
        Ok(registered) => registered,
        Err(refusal) => {
            list.add(Section::Services, Level::Note, SUBJECT, refusal.to_string())
                .meaning(
                    "clients have to be told the ports (port=, mountport=); NFSv4 and a server that \
                     has MOUNT at port 2049 need no portmapper",
                );
            return;
        }
    };
    let told: Vec<String> = registered.iter().filter_map(known).collect();
    list.add(Section::Services, Level::Ok, SUBJECT, told.join(", "));
    let is_lock = |one: &Registered| one.program == NLM;
    let is_nfs3 = |one: &Registered| (one.program, one.version) == (NFS, 3);
    if registered.iter().any(is_nfs3) && !registered.iter().any(is_lock) {
        list.add(
            Section::Services,
            Level::Note,
            "locks",
            "no lock manager (NLM) is registered",
        )
        .meaning("programs that lock files over NFSv3 fail")
        .cure("mount with nolock where no two clients share files, or use NFSv4");
    }
}

/// The number of the NFS program.
const NFS: u32 = 100_003;
/// The number of the lock manager's program.
const NLM: u32 = 100_021;

fn known(one: &Registered) -> Option<String> {
    let name = match one.program {
        100_000 => return None,
        NFS => "NFS",
        100_005 => "MOUNT",
        100_011 => "RQUOTA",
        NLM => "NLM",
        100_024 => "NSM",
        100_227 => "NFS_ACL",
        _ => return None,
    };
    Some(format!("{name} v{} at {}", one.version, one.port))
}

fn exports(list: &mut List, mount: &MountFound) {
    list.add(
        Section::Services,
        Level::Ok,
        "MOUNT",
        format!("version 3 at port {}", mount.port),
    );
    match &mount.exports {
        Ok(exports) if exports.is_empty() => {
            list.add(
                Section::Services,
                Level::Note,
                "exports",
                "the list is empty",
            )
            .meaning("a server may keep it to itself; a path may be mounted all the same");
        }
        Ok(exports) => {
            let path = |export: &ExportEntry| match export.groups.len() {
                0 => printable(&export.directory),
                _ => format!(
                    "{} ({})",
                    printable(&export.directory),
                    printable(&export.groups.join(&b' '))
                ),
            };
            let mut told: Vec<String> = exports.iter().take(EXPORTS_TOLD).map(path).collect();
            if exports.len() > EXPORTS_TOLD {
                told.push(format!("and {} more", exports.len() - EXPORTS_TOLD));
            }
            list.add(Section::Services, Level::Ok, "exports", told.join(", "));
            let open = exports.iter().filter(|export| export.groups.is_empty());
            let open = open.count();
            if open > 0 {
                let fact = format!("{open} of {} exports are for every host", exports.len());
                list.add(Section::Services, Level::Note, "exports", fact)
                    .meaning(
                        "as far as the list tells: who may really mount is the server's affair",
                    );
            }
        }
        Err(refusal) => untold(list, Section::Services, "exports", refusal),
    }
}
