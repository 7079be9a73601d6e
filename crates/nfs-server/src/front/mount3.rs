//! MOUNT version 3 (RFC 1813 appendix I): from a path to the first handle.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::Arc;

use nfs_wire::auth::AUTH_SYS;
use nfs_wire::mount3::{
    Call, Dirpath, ExportEntry, ExportList, MountEntry, MountList as WireMountList, MountOk,
    Mountstat3, Name,
};
use nfs_wire::{Encode, Encoder};
use parking_lot::Mutex;

use crate::front::nfs3::Context;
use crate::front::nfs3::convert::file_handle;
use crate::front::service::Service;
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

    /// The clients that said they mounted something, with what.
    pub(crate) fn list(&self) -> Vec<(IpAddr, Vec<u8>)> {
        self.entries.lock().iter().cloned().collect()
    }
}

/// Runs a call and appends its results to `out`.
pub(crate) async fn run(cx: &Context, call: Call<'_>, out: &mut Vec<u8>) {
    let addr = cx.caller.addr;
    match call {
        Call::Null(()) => {}
        Call::Mnt(path) => {
            let mounted = mnt(cx, path.0).await;
            if mounted.is_ok() {
                cx.service.mounts.add(addr, path.0);
            }
            mounted.encode(&mut Encoder::new(out));
        }
        Call::Dump(()) => dump(&cx.service, out),
        Call::Umnt(path) => cx.service.mounts.remove(addr, Some(path.0)),
        Call::Umntall(()) => cx.service.mounts.remove(addr, None),
        Call::Export(()) => exports(cx, out),
    }
}

async fn mnt(cx: &Context, path: &[u8]) -> Result<MountOk, Mountstat3> {
    // Some clients (libnfs for nfs://host/file) send nothing for the root.
    let path = if path.is_empty() { b"/" } else { path };
    let trees = cx.vfs().trees.load_full();
    let (export, below) = trees.table.find_by_pseudo(path).ok_or(Mountstat3::Noent)?;
    let tree = trees.by_id(export.id).ok_or(Mountstat3::Noent)?;
    let root = {
        let (vfs, tree) = (Arc::clone(cx.vfs()), Arc::clone(tree));
        let lane = tree.root_mount().lane();
        cx.vfs().blocking(lane, move || vfs.root(&tree)).await
    };
    let root = root.and_then(|root| root).map_err(mountstat)?;
    let actor = cx.service.admit(&cx.caller, &tree.export);
    let target = Target {
        tree: Arc::clone(tree),
        object: root,
        actor: actor.await.map_err(mountstat)?,
    };
    let object = cx.vfs().walk(target, &below).await.map_err(mountstat)?;
    Ok(MountOk {
        fhandle: file_handle(&object.handle).map_err(mountstat)?,
        auth_flavors: vec![AUTH_SYS],
    })
}

fn mountstat(error: Error) -> Mountstat3 {
    use nfs_io::Errno;
    match error {
        Error::Errno(Errno::NOENT) | Error::Stale => Mountstat3::Noent,
        Error::Errno(Errno::NOTDIR | Errno::LOOP) | Error::WrongType => Mountstat3::Notdir,
        Error::Errno(Errno::PERM) => Mountstat3::Perm,
        Error::Errno(Errno::ACCESS) | Error::NotExported | Error::ReadOnly => Mountstat3::Acces,
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

fn dump(service: &Service, out: &mut Vec<u8>) {
    let mounts = service.mounts.list();
    let names: Vec<String> = mounts.iter().map(|(addr, _)| addr.to_string()).collect();
    let entries = mounts
        .iter()
        .zip(&names)
        .map(|((_, path), name)| MountEntry {
            hostname: Name(name.as_bytes()),
            directory: Dirpath(path),
        });
    WireMountList(entries.collect()).encode(&mut Encoder::new(out));
}

fn exports(cx: &Context, out: &mut Vec<u8>) {
    let trees = cx.vfs().trees.load_full();
    let groups: Vec<Vec<String>> = trees
        .table
        .exports()
        .iter()
        .map(|export| {
            export
                .rules()
                .iter()
                .map(|rule| rule.net.to_string())
                .collect()
        })
        .collect();
    let entries = trees
        .table
        .exports()
        .iter()
        .zip(&groups)
        .map(|(export, nets)| ExportEntry {
            directory: Dirpath(export.pseudo.as_bytes()),
            groups: nets.iter().map(|net| Name(net.as_bytes())).collect(),
        });
    ExportList(entries.collect()).encode(&mut Encoder::new(out));
}
