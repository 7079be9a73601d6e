//! Every change on a read-only export.

use anyhow::Result;
use nfs_client::nfs3::{ACCESS3_DELETE, ACCESS3_EXTEND, ACCESS3_MODIFY, Nfsstat3 as S, Sattr3};
use nfs_wire::nfs3::Procedure;

use super::bed::Bed;
use super::handles::call_on;
use super::table::{Table, status};

pub(super) async fn rows(bed: &Bed, table: &mut Table) -> Result<()> {
    let Some(top) = bed.read_only else {
        return Ok(());
    };
    let file = bed.handle_in(top, "file").await?;
    let dir = bed.handle_in(top, "dir").await?;
    for &procedure in Procedure::ALL {
        let (on, allowed): (_, &[S]) = match procedure {
            Procedure::Setattr | Procedure::Write => (&file, &[S::Rofs]),
            Procedure::Create
            | Procedure::Mkdir
            | Procedure::Symlink
            | Procedure::Mknod
            | Procedure::Remove
            | Procedure::Rmdir
            | Procedure::Rename => (&dir, &[S::Rofs]),
            // The names come from the arguments of `call_on`, which fit directories or files.
            Procedure::Link => (&file, &[S::Rofs, S::Notdir]),
            Procedure::Commit => (&file, &[S::Ok, S::Rofs]),
            Procedure::Readlink => continue,
            Procedure::Lookup | Procedure::Readdir | Procedure::Readdirplus => (&dir, &[S::Ok]),
            Procedure::Null
            | Procedure::Getattr
            | Procedure::Access
            | Procedure::Read
            | Procedure::Fsstat
            | Procedure::Fsinfo
            | Procedure::Pathconf => (&file, &[S::Ok]),
        };
        let got = call_on(&bed.root, procedure, on).await;
        let row = format!("{} on a read-only export", procedure.name());
        table.expect(&row, got, allowed);
    }
    let got = status(bed.root.link(&file, &dir, b"linked").await);
    table.expect("LINK on a read-only export, right kinds", got, &[S::Rofs]);
    let size = Sattr3 {
        size: Some(0),
        ..Sattr3::default()
    };
    let got = status(bed.root.setattr(&file, &size, None).await);
    table.expect("SETATTR of a size on a read-only export", got, &[S::Rofs]);
    let change = ACCESS3_MODIFY | ACCESS3_EXTEND | ACCESS3_DELETE;
    for handle in [&file, &dir] {
        match bed.root.access(handle, 0x3f).await? {
            Ok(ok) => table.check(
                "ACCESS on a read-only export grants no change",
                ok.access & change == 0,
                ok.access,
            ),
            Err(failure) => table.expect("ACCESS", Ok(failure.status), &[S::Ok]),
        }
    }
    Ok(())
}
