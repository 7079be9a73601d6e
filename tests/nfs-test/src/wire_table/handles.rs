//! Every procedure on handles that name nothing: forged, cut, too long, of files that are gone.

use anyhow::Result;
use bytes::Bytes;
use nfs_client::RpcError;
use nfs_client::nfs3::{
    self, CreateHow, FileHandle, Mknoddata, Nfs3, Nfsstat3 as S, PipeData, Sattr3, StableHow,
};
use nfs_wire::nfs3::Procedure;

use super::bed::Bed;
use super::table::{Got, Table, status};

pub(super) async fn rows(bed: &Bed, table: &mut Table) -> Result<()> {
    let file = bed.handle("file").await?;
    let dir = bed.handle("dir").await?;
    let gone_file = bed.new_file("gone-file").await?;
    let gone_dir = bed.new_dir("gone-dir").await?;
    let removed = status(bed.root.remove(&bed.top, b"gone-file").await);
    table.expect("REMOVE of a file", removed, &[S::Ok]);
    let removed = status(bed.root.rmdir(&bed.top, b"gone-dir").await);
    table.expect("RMDIR of a directory", removed, &[S::Ok]);
    for &procedure in Procedure::ALL {
        if procedure == Procedure::Null {
            continue;
        }
        let name = procedure.name();
        let (valid, gone) = if is_for_directories(procedure) {
            (dir, gone_dir)
        } else {
            (file, gone_file)
        };
        let got = call_on(&bed.root, procedure, &gone).await;
        table.expect(
            &format!("{name} on a removed object's handle"),
            got,
            &[S::Stale],
        );
        for (what, forged) in forgeries(&valid) {
            let got = call_on(&bed.root, procedure, &forged).await;
            let allowed = [S::Badhandle, S::Stale];
            table.expect(&format!("{name} on a handle that is {what}"), got, &allowed);
        }
        let got = call_on_raw_handle(bed, procedure, &[7; 65]).await;
        let garbage = matches!(got, Err(RpcError::GarbageArgs) | Ok(S::Badhandle));
        table.check(&format!("{name} on a handle of 65 bytes"), garbage, &got);
    }
    second_handles(bed, table, &dir, &file, &gone_dir).await
}

/// Checks the second handle of RENAME and LINK.
async fn second_handles(
    bed: &Bed,
    table: &mut Table,
    dir: &FileHandle,
    file: &FileHandle,
    gone: &FileHandle,
) -> Result<()> {
    let bad = FileHandle::new(&[9; 20])?;
    for (what, second, allowed) in [
        ("removed", gone, &[S::Stale][..]),
        ("forged", &bad, &[S::Badhandle, S::Stale]),
    ] {
        let got = status(bed.root.rename(dir, b"inner", second, b"x").await);
        table.expect(&format!("RENAME to a {what} directory"), got, allowed);
        let got = status(bed.root.link(file, second, b"x").await);
        table.expect(&format!("LINK into a {what} directory"), got, allowed);
    }
    Ok(())
}

/// The handle with bits flipped, cut, lengthened, empty, or made of nothing.
fn forgeries(valid: &FileHandle) -> Vec<(String, FileHandle)> {
    let bytes = valid.as_ref();
    let mut forged = vec![
        ("empty".to_owned(), Vec::new()),
        ("one byte".to_owned(), vec![1]),
        ("64 zeros".to_owned(), vec![0; 64]),
        ("64 times 0xff".to_owned(), vec![0xff; 64]),
        (
            "cut by one byte".to_owned(),
            bytes[..bytes.len() - 1].to_vec(),
        ),
        ("cut in half".to_owned(), bytes[..bytes.len() / 2].to_vec()),
    ];
    if bytes.len() < 64 {
        forged.push(("one byte longer".to_owned(), [bytes, &[0]].concat()));
    }
    for at in [0, 1, bytes.len() / 3, bytes.len() / 2, bytes.len() - 1] {
        let mut flipped = bytes.to_vec();
        flipped[at] ^= 0x10;
        forged.push((format!("flipped at byte {at}"), flipped));
    }
    forged
        .into_iter()
        .filter_map(|(what, bytes)| Some((what, FileHandle::new(&bytes).ok()?)))
        .collect()
}

fn is_for_directories(procedure: Procedure) -> bool {
    matches!(
        procedure,
        Procedure::Lookup
            | Procedure::Create
            | Procedure::Mkdir
            | Procedure::Symlink
            | Procedure::Mknod
            | Procedure::Remove
            | Procedure::Rmdir
            | Procedure::Rename
            | Procedure::Readdir
            | Procedure::Readdirplus
    )
}

/// Calls `procedure` with arguments that are right but for the handle.
pub(super) async fn call_on(nfs: &Nfs3, procedure: Procedure, handle: &FileHandle) -> Got {
    let (h, sattr) = (handle, &Sattr3::default());
    let pipe_attributes = *sattr;
    let fifo = Mknoddata::Fifo(PipeData { pipe_attributes });
    let data = Bytes::from_static(b"data");
    match procedure {
        Procedure::Null => nfs.null().await.map(|()| S::Ok),
        Procedure::Getattr => status(nfs.getattr(h).await),
        Procedure::Setattr => status(nfs.setattr(h, sattr, None).await),
        Procedure::Lookup => status(nfs.lookup(h, b"inner").await),
        Procedure::Access => status(nfs.access(h, 0x3f).await),
        Procedure::Readlink => status(nfs.readlink(h).await),
        Procedure::Read => status(nfs.read(h, 0, 10).await),
        Procedure::Write => status(nfs.write(h, 0, StableHow::FileSync, data).await),
        Procedure::Create => status(nfs.create(h, b"new", &CreateHow::Guarded(*sattr)).await),
        Procedure::Mkdir => status(nfs.mkdir(h, b"new", sattr).await),
        Procedure::Symlink => status(nfs.symlink(h, b"new", sattr, b"target").await),
        Procedure::Mknod => status(nfs.mknod(h, b"new", &fifo).await),
        Procedure::Remove => status(nfs.remove(h, b"inner").await),
        Procedure::Rmdir => status(nfs.rmdir(h, b"inner").await),
        Procedure::Rename => status(nfs.rename(h, b"inner", h, b"new").await),
        Procedure::Link => status(nfs.link(h, h, b"new").await),
        Procedure::Readdir => status(nfs.readdir(h, 0, [0; 8], 4096).await),
        Procedure::Readdirplus => status(nfs.readdirplus(h, 0, [0; 8], 1024, 8192).await),
        Procedure::Fsstat => status(nfs.fsstat(h).await),
        Procedure::Fsinfo => status(nfs.fsinfo(h).await),
        Procedure::Pathconf => status(nfs.pathconf(h).await),
        Procedure::Commit => status(nfs.commit(h, 0, 0).await),
    }
}

/// Calls `procedure` with a handle that may be longer than the protocol allows, and zeros after it:
/// the server must not get as far as to look at those.
async fn call_on_raw_handle(bed: &Bed, procedure: Procedure, handle: &[u8]) -> Result<S, RpcError> {
    let mut args = Vec::new();
    nfs_wire::Encoder::new(&mut args).opaque(handle);
    args.resize(args.len() + 64, 0);
    let root = &bed.root;
    let results = root
        .connection()
        .call_raw(nfs3::number(procedure), root.identity(), &args)
        .await?;
    let first = results.first_chunk().map(|word| u32::from_be_bytes(*word));
    Ok(first
        .and_then(|value| S::try_from(value).ok())
        .unwrap_or(S::Serverfault))
}
