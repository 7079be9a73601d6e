//! MOUNT version 3 (RFC 1813 appendix I): from a path to the first handle.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nfs_io::Errno;
use nfs_wire::auth::AUTH_SYS;
use nfs_wire::mount3::{
    Call, Dirpath, ExportEntry, ExportList, MountEntry, MountList as WireMountList, MountOk,
    Mountstat3, Name,
};
use nfs_wire::{Encode, Encoder};
use parking_lot::Mutex;

use crate::exports::{Export, PRIVILEGED_PORT, Refused};
use crate::front::context::Context;
use crate::front::nfs3::convert::file_handle;
use crate::limits;
use crate::vfs::{Error, Target};

/// Who mounted what, as far as clients said: MOUNT has no way to know better (RFC 1813 §5.2.2).
/// The oldest entries go first when the list is full.
#[derive(Default)]
pub(crate) struct MountList {
    entries: Mutex<VecDeque<(IpAddr, Vec<u8>)>>,
}

impl MountList {
    fn add(&self, client: IpAddr, path: &[u8]) {
        let mut entries = self.entries.lock();
        if entries
            .iter()
            .any(|(addr, mounted)| *addr == client && mounted == path)
        {
            return;
        }
        entries.push_back((client, path.to_vec()));
        let mut bytes: usize = entries.iter().map(|(_, mounted)| mounted.len()).sum();
        while (entries.len() > limits::MOUNT_LIST_ENTRIES_MAX
            || bytes > limits::MOUNT_LIST_BYTES_MAX)
            && let Some((_, oldest)) = entries.pop_front()
        {
            bytes -= oldest.len();
        }
    }

    fn remove(&self, client: IpAddr, path: Option<&[u8]>) {
        self.entries
            .lock()
            .retain(|(addr, mounted)| *addr != client || path.is_some_and(|path| mounted != path));
    }

    /// What this client said that it mounted.
    pub(crate) fn of(&self, client: IpAddr) -> Vec<Vec<u8>> {
        let entries = self.entries.lock();
        let own = entries.iter().filter(|(addr, _)| *addr == client);
        own.map(|(_, path)| path.clone()).collect()
    }
}

/// Runs a call and appends its results to `out`.
pub(crate) async fn run(cx: &Context, call: Call<'_>, out: &mut Vec<u8>) {
    let addr = cx.caller.addr;
    match call {
        Call::Null(()) => {}
        Call::Mnt(path) => {
            let mounted = match mnt(cx, path.0).await {
                Ok((ok, export)) => {
                    cx.service.mounts.add(addr, path.0);
                    cx.service.note_mounted(&cx.caller, path.0, &export);
                    Ok(ok)
                }
                Err(why) => {
                    cx.service.note_not_mounted(&cx.caller, path.0, &why);
                    Err(why.status())
                }
            };
            mounted.encode(&mut Encoder::new(out));
        }
        Call::Dump(()) => dump(cx, out),
        Call::Umnt(path) => cx.service.mounts.remove(addr, Some(path.0)),
        Call::Umntall(()) => cx.service.mounts.remove(addr, None),
        Call::Export(()) => exports(cx, out),
    }
}

/// MOUNT has no word for "come again": where too much waits for the file system, the call waits.
async fn mnt(cx: &Context, path: &[u8]) -> Result<(MountOk, Arc<Export>), NotMounted> {
    let patience = Duration::from_secs(limits::MOUNT_WAITS_SECONDS_MAX);
    let began = Instant::now();
    let mut pause = Duration::from_millis(20);
    loop {
        let done = find_root(cx, path).await;
        let busy = matches!(
            done,
            Err(NotMounted::Failed {
                error: Error::Busy,
                ..
            })
        );
        if !busy || began.elapsed() > patience {
            return done;
        }
        tokio::time::sleep(pause).await;
        pause = (2 * pause).min(Duration::from_secs(1));
    }
}

async fn find_root(cx: &Context, path: &[u8]) -> Result<(MountOk, Arc<Export>), NotMounted> {
    // Some clients (libnfs for nfs://host/file) send nothing for the root.
    let path = if path.is_empty() { b"/" } else { path };
    let trees = cx.vfs().trees.load_full();
    if !trees.table.admits(cx.caller.addr) {
        return Err(NotMounted::Stranger);
    }
    let found = trees.table.find_by_pseudo(path);
    let (export, below) = found.ok_or(NotMounted::NoExport)?;
    let tree = trees.by_id(export.id).ok_or(NotMounted::NoExport)?;
    let failed = |error: Error| match error {
        Error::Refused(why) => NotMounted::Refused {
            export: export.pseudo.clone(),
            why,
        },
        error => NotMounted::Failed {
            export: export.pseudo.clone(),
            error,
        },
    };
    // Before anything is looked at on the client's behalf.
    let actor = cx
        .service
        .admit(&cx.caller, &export)
        .await
        .map_err(failed)?;
    let root = {
        let (vfs, tree) = (Arc::clone(cx.vfs()), Arc::clone(tree));
        let queue = cx.caller.queue(tree.root_mount().lane());
        cx.vfs().blocking(queue, move || vfs.root(&tree)).await
    };
    let target = Target {
        tree: Arc::clone(tree),
        object: root.and_then(|root| root).map_err(failed)?,
        actor,
    };
    let object = cx.vfs().walk(target, &below).await.map_err(failed)?;
    let ok = MountOk {
        fhandle: file_handle(&object.handle).map_err(failed)?,
        auth_flavors: vec![AUTH_SYS],
    };
    Ok((ok, export))
}

/// Why a MNT brought no handle, in words for the log: the protocol has fewer.
#[derive(Debug, thiserror::Error)]
pub(super) enum NotMounted {
    #[error("no export lists its address; add a network with it to the export's clients")]
    Stranger,
    #[error("no export has this path; `penstock ctl exports` lists them")]
    NoExport,
    #[error("of export {export}: {why}")]
    Refused { export: String, why: Refused },
    #[error("in export {export}: {error}")]
    Failed { export: String, error: Error },
}

impl NotMounted {
    /// What the client is told. A stranger is told the same of every path: it does not learn which are
    /// exported. A host that is in some export's clients learns whether a path is exported, to others, or not.
    fn status(&self) -> Mountstat3 {
        match self {
            Self::Stranger | Self::Refused { .. } => Mountstat3::Acces,
            Self::NoExport => Mountstat3::Noent,
            Self::Failed { error, .. } => mountstat(*error),
        }
    }
}

fn mountstat(error: Error) -> Mountstat3 {
    match error {
        Error::Errno(Errno::NOENT) | Error::Stale => Mountstat3::Noent,
        Error::Errno(Errno::NOTDIR | Errno::LOOP) | Error::WrongType => Mountstat3::Notdir,
        Error::Errno(Errno::PERM) => Mountstat3::Perm,
        Error::Errno(Errno::ACCESS) | Error::NotExported | Error::Refused(_) | Error::ReadOnly => {
            Mountstat3::Acces
        }
        Error::NameTooLong | Error::Errno(Errno::NAMETOOLONG) => Mountstat3::Nametoolong,
        Error::BadName | Error::Invalid => Mountstat3::Inval,
        Error::Errno(_) => Mountstat3::Io,
        Error::BadHandle
        | Error::Exists
        | Error::Changed
        | Error::BadCookie
        | Error::TooSmall
        | Error::BadType
        | Error::CrossDevice
        | Error::Busy
        | Error::NoHandle => Mountstat3::Serverfault,
    }
}

/// The asker's own entries: who else mounts what is nobody's business but the administrator's. A stranger,
/// which may have mounted before it became one, gets none.
fn dump(cx: &Context, out: &mut Vec<u8>) {
    let host = cx.caller.addr;
    let mounts = if cx.service.admits(host) {
        cx.service.mounts.of(host)
    } else {
        Vec::new()
    };
    let name = host.to_string();
    let entries = mounts.iter().map(|path| MountEntry {
        hostname: Name(name.as_bytes()),
        directory: Dirpath(path),
    });
    WireMountList(entries.collect()).encode(&mut Encoder::new(out));
}

/// The exports that list the asker's address, each with the network or name by which it does. A stranger gets an empty
/// list, and nobody learns who else is let in: paths and networks tell an attacker where to look next.
fn exports(cx: &Context, out: &mut Vec<u8>) {
    let trees = cx.vfs().trees.load_full();
    let rule = |export: &Arc<Export>| {
        let rule = export.rule_for(cx.caller.addr, PRIVILEGED_PORT, cx.caller.version);
        rule.map(|rule| rule.clients.to_string())
    };
    let listed = trees.table.exports().iter();
    let listed = listed.filter_map(|export| Some((export, rule(export).ok()?)));
    let listed: Vec<(&Arc<Export>, String)> = listed.collect();
    let entries = listed.iter().map(|(export, net)| ExportEntry {
        directory: Dirpath(export.pseudo.as_bytes()),
        groups: vec![Name(net.as_bytes())],
    });
    ExportList(entries.collect()).encode(&mut Encoder::new(out));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_of_mounts_is_bounded_and_the_oldest_goes_first() {
        let client = IpAddr::from([192, 0, 2, 1]);
        let mounts = MountList::default();
        let most = limits::MOUNT_LIST_ENTRIES_MAX;
        for number in 0..most + 10 {
            mounts.add(client, format!("/{number}").as_bytes());
        }
        let kept = mounts.of(client);
        assert_eq!((kept.len(), &*kept[0]), (most, &b"/10"[..]));
        // Few long paths are as much as many short ones.
        let long = |number: usize| vec![b'a' + (number % 26) as u8; 4096 + number];
        for number in 0..100 {
            mounts.add(client, &long(number));
        }
        let kept = mounts.of(client);
        let bytes: usize = kept.iter().map(Vec::len).sum();
        assert!(bytes <= limits::MOUNT_LIST_BYTES_MAX, "{bytes} bytes");
        assert!(kept.len() > 10 && kept.last() == Some(&long(99)));
    }
}
