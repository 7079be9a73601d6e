//! MOUNT: what is exported, what is not, and who mounted it.

use std::os::unix::ffi::OsStrExt as _;

use anyhow::Result;
use nfs_client::mount3::Mountstat3 as M;
use nfs_client::nfs3::Nfsstat3 as S;

use super::bed::Bed;
use super::table::{Table, status};

pub(super) async fn rows(bed: &Bed, table: &mut Table) -> Result<()> {
    let export = bed.export.as_os_str().as_bytes();
    let below = |name: &str| [export, b"/", name.as_bytes()].concat();
    let refused: [(&str, Vec<u8>, &[M]); 7] = [
        (
            "a path that is not exported",
            b"/nonexistent/path".to_vec(),
            &[M::Acces, M::Noent],
        ),
        ("nothing", Vec::new(), &[M::Acces, M::Noent, M::Inval]),
        (
            "a missing directory of an export",
            below("missing"),
            &[M::Noent, M::Acces],
        ),
        ("a file", below("file"), &[M::Notdir, M::Acces, M::Inval]),
        (
            "the directory above",
            below(".."),
            &[M::Acces, M::Noent, M::Inval],
        ),
        (
            "a path around",
            below("dir/../../.."),
            &[M::Acces, M::Noent, M::Inval],
        ),
        (
            "a path of 1024 bytes",
            [b"/", vec![b'p'; 1023].as_slice()].concat(),
            &[M::Acces, M::Noent, M::Nametoolong],
        ),
    ];
    for (what, path, allowed) in refused {
        match bed.mount.mnt(&path).await {
            Ok(Err(got)) => table.check(&format!("MNT of {what}"), allowed.contains(&got), got),
            other => table.check(&format!("MNT of {what}"), false, other),
        }
    }
    // Clients mount directories below an export's root.
    match bed.mount.mnt(&below("dir")).await? {
        Ok(ok) => {
            let inside = bed.handle("dir").await?;
            let (a, b) = (
                bed.attributes(&ok.fhandle).await?,
                bed.attributes(&inside).await?,
            );
            table.check(
                "MNT of a directory of an export",
                a.fileid == b.fileid,
                a.fileid,
            );
            let got = status(bed.root.lookup(&ok.fhandle, b"inner").await);
            table.expect("LOOKUP below it", got, &[S::Ok]);
        }
        Err(got) => table.check("MNT of a directory of an export", false, got),
    }
    let slash = [export, b"/"].concat();
    let got = bed.mount.mnt(&slash).await?;
    table.check("MNT with a slash at the end", got.is_ok(), got);
    match bed.mount.mnt(export).await? {
        Ok(ok) => {
            let sys = ok.auth_flavors.contains(&1);
            table.check("MNT offers AUTH_SYS", sys, ok.auth_flavors);
            table.check(
                "MNT twice gives one handle",
                ok.fhandle == bed.top,
                ok.fhandle,
            );
        }
        Err(got) => table.check("MNT of an export", false, got),
    }
    let list = bed.mount.export().await?;
    let listed = list.iter().any(|entry| entry.directory == export);
    table.check("EXPORT lists the export", listed, list);
    let mounts = async || bed.mount.dump().await;
    let noted = mounts()
        .await?
        .iter()
        .any(|entry| entry.directory == export);
    table.check("DUMP lists the mount", noted, mounts().await?);
    bed.mount.umnt(export).await?;
    let noted = mounts()
        .await?
        .iter()
        .any(|entry| entry.directory == export);
    table.check("DUMP after UMNT", !noted, mounts().await?);
    bed.mount.umntall().await?;
    let left = mounts().await?;
    table.check("DUMP after UMNTALL", left.is_empty(), left);
    let got = status(bed.root.getattr(&bed.top).await);
    table.expect("GETATTR after UMNTALL", got, &[S::Ok]);
    let got = bed.mount.null().await;
    table.check("MOUNT NULL", got.is_ok(), got);
    Ok(())
}
