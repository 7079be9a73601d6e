//! Procedures on objects of the wrong kind, names that are there or are not, and trees that would not
//! be trees any more.

use anyhow::Result;
use bytes::Bytes;
use nfs_client::nfs3::{
    CreateHow, DeviceData, FileHandle, Ftype3, Mknoddata, Nfsstat3 as S, PipeData, Sattr3,
    Specdata3, StableHow,
};

use super::bed::Bed;
use super::table::{Table, status};

pub(super) async fn rows(bed: &Bed, table: &mut Table) -> Result<()> {
    not_directories(bed, table).await?;
    not_files(bed, table).await?;
    missing_and_present(bed, table).await?;
    renames(bed, table).await?;
    across_exports(bed, table).await
}

/// What works on directories only, on everything else.
async fn not_directories(bed: &Bed, table: &mut Table) -> Result<()> {
    let sattr = &Sattr3::default();
    let fifo = Mknoddata::Fifo(PipeData {
        pipe_attributes: *sattr,
    });
    let file = bed.handle("file").await?;
    for what in ["file", "link", "fifo"] {
        let h = &bed.handle(what).await?;
        let nfs = &bed.root;
        let how = CreateHow::Guarded(*sattr);
        for (procedure, got) in [
            ("LOOKUP", status(nfs.lookup(h, b"x").await)),
            ("CREATE", status(nfs.create(h, b"x", &how).await)),
            ("MKDIR", status(nfs.mkdir(h, b"x", sattr).await)),
            ("SYMLINK", status(nfs.symlink(h, b"x", sattr, b"t").await)),
            ("MKNOD", status(nfs.mknod(h, b"x", &fifo).await)),
            ("REMOVE", status(nfs.remove(h, b"x").await)),
            ("RMDIR", status(nfs.rmdir(h, b"x").await)),
            (
                "RENAME from",
                status(nfs.rename(h, b"x", &bed.top, b"y").await),
            ),
            (
                "RENAME to",
                status(nfs.rename(&bed.top, b"plain", h, b"y").await),
            ),
            ("LINK", status(nfs.link(&file, h, b"x").await)),
            ("READDIR", status(nfs.readdir(h, 0, [0; 8], 4096).await)),
            (
                "READDIRPLUS",
                status(nfs.readdirplus(h, 0, [0; 8], 1024, 4096).await),
            ),
        ] {
            table.expect(&format!("{procedure} in a {what}"), got, &[S::Notdir]);
        }
    }
    Ok(())
}

/// What works on regular files only, on everything else.
async fn not_files(bed: &Bed, table: &mut Table) -> Result<()> {
    let (nfs, data) = (&bed.root, Bytes::from_static(b"data"));
    for what in ["dir", "link", "fifo"] {
        let h = &bed.handle(what).await?;
        let wrong: &[S] = if what == "dir" {
            &[S::Isdir, S::Inval]
        } else {
            &[S::Inval]
        };
        let got = status(nfs.read(h, 0, 10).await);
        table.expect(&format!("READ of a {what}"), got, wrong);
        let got = status(nfs.write(h, 0, StableHow::FileSync, data.clone()).await);
        table.expect(&format!("WRITE to a {what}"), got, wrong);
        let size = Sattr3 {
            size: Some(0),
            ..Sattr3::default()
        };
        let got = status(nfs.setattr(h, &size, None).await);
        table.expect(&format!("SETATTR of a {what}'s size"), got, wrong);
        let got = status(nfs.commit(h, 0, 0).await);
        // RFC 1813 §3.3.21 names no such error; some servers find nothing to do.
        let allowed = [S::Isdir, S::Inval, S::Badtype, S::Ok];
        table.expect(&format!("COMMIT of a {what}"), got, &allowed);
    }
    for what in ["file", "dir", "fifo"] {
        let got = status(nfs.readlink(&bed.handle(what).await?).await);
        table.expect(&format!("READLINK of a {what}"), got, &[S::Inval]);
    }
    let got = status(nfs.readlink(&bed.handle("link").await?).await);
    table.expect("READLINK of a link", got, &[S::Ok]);
    for ftype in [Ftype3::Reg, Ftype3::Dir, Ftype3::Lnk] {
        let got = status(nfs.mknod(&bed.top, b"node", &Mknoddata::Other(ftype)).await);
        table.expect(&format!("MKNOD of type {ftype:?}"), got, &[S::Badtype]);
    }
    Ok(())
}

async fn missing_and_present(bed: &Bed, table: &mut Table) -> Result<()> {
    let (nfs, top, sattr) = (&bed.root, &bed.top, &Sattr3::default());
    let file = bed.handle("file").await?;
    let dir = bed.handle("dir").await?;
    for (procedure, got) in [
        ("LOOKUP", status(nfs.lookup(top, b"missing").await)),
        ("REMOVE", status(nfs.remove(top, b"missing").await)),
        ("RMDIR", status(nfs.rmdir(top, b"missing").await)),
        (
            "RENAME",
            status(nfs.rename(top, b"missing", top, b"new").await),
        ),
    ] {
        table.expect(&format!("{procedure} of a missing name"), got, &[S::Noent]);
    }
    let spec = Specdata3 { major: 1, minor: 3 };
    let device = Mknoddata::CharacterDevice(DeviceData {
        dev_attributes: *sattr,
        spec,
    });
    let how = CreateHow::Guarded(*sattr);
    for name in ["file", "dir", "link"] {
        let n = name.as_bytes();
        for (procedure, got) in [
            ("CREATE guarded", status(nfs.create(top, n, &how).await)),
            ("MKDIR", status(nfs.mkdir(top, n, sattr).await)),
            ("SYMLINK", status(nfs.symlink(top, n, sattr, b"t").await)),
            ("MKNOD", status(nfs.mknod(top, n, &device).await)),
            ("LINK", status(nfs.link(&file, top, n).await)),
            (
                "CREATE exclusive",
                status(nfs.create(top, n, &CreateHow::Exclusive([0x5a; 8])).await),
            ),
        ] {
            table.expect(&format!("{procedure} of a {name} there"), got, &[S::Exist]);
        }
    }
    let unchecked = CreateHow::Unchecked(*sattr);
    let got = status(nfs.create(top, b"dir", &unchecked).await);
    table.expect(
        "CREATE unchecked of a directory there",
        got,
        &[S::Exist, S::Isdir],
    );
    // A symbolic link there is never followed: a server that did would write elsewhere.
    let got = status(nfs.create(top, b"link", &unchecked).await);
    table.expect(
        "CREATE unchecked of a link there",
        got,
        &[S::Exist, S::Inval, S::Ok],
    );
    for (row, got, allowed) in [
        (
            "REMOVE of a directory",
            status(nfs.remove(top, b"dir").await),
            &[S::Isdir, S::Perm][..],
        ),
        (
            "RMDIR of a file",
            status(nfs.rmdir(top, b"file").await),
            &[S::Notdir],
        ),
        (
            "RMDIR of a link",
            status(nfs.rmdir(top, b"link").await),
            &[S::Notdir],
        ),
        (
            "RMDIR of a directory with entries",
            status(nfs.rmdir(top, b"dir").await),
            &[S::Notempty, S::Exist],
        ),
        (
            "LINK to a directory",
            status(nfs.link(&dir, top, b"hard").await),
            &[S::Perm, S::Isdir, S::Inval],
        ),
    ] {
        table.expect(row, got, allowed);
    }
    Ok(())
}

async fn renames(bed: &Bed, table: &mut Table) -> Result<()> {
    let (nfs, top) = (&bed.root, &bed.top);
    let dir = bed.handle("dir").await?;
    let rename = async |from: &FileHandle, name: &str, to: &FileHandle, new: &str| {
        status(nfs.rename(from, name.as_bytes(), to, new.as_bytes()).await)
    };
    let got = rename(top, "file", top, "dir").await;
    table.expect(
        "RENAME of a file onto a directory",
        got,
        &[S::Isdir, S::Exist],
    );
    let got = rename(top, "plain", top, "file").await;
    table.expect(
        "RENAME of a directory onto a file",
        got,
        &[S::Notdir, S::Exist],
    );
    let got = rename(top, "plain", top, "dir").await;
    let allowed = [S::Notempty, S::Exist];
    table.expect("RENAME onto a directory with entries", got, &allowed);
    let got = rename(top, "dir", &dir, "self").await;
    table.expect("RENAME of a directory into itself", got, &[S::Inval]);
    let got = rename(top, "file", top, "file").await;
    table.expect("RENAME of a name to itself", got, &[S::Ok]);
    bed.new_dir("to-replace").await?;
    bed.new_dir("replaces").await?;
    let got = rename(top, "replaces", top, "to-replace").await;
    table.expect("RENAME onto an empty directory", got, &[S::Ok]);
    // Two names of one file: nothing happens, both stay (RFC 1813 §3.3.14).
    let one = bed.new_file("one-name").await?;
    let got = status(nfs.link(&one, top, b"two-names").await);
    table.expect("LINK", got, &[S::Ok]);
    let got = rename(top, "one-name", top, "two-names").await;
    table.expect("RENAME onto another name of the file", got, &[S::Ok]);
    for name in ["one-name", "two-names"] {
        let got = status(nfs.lookup(top, name.as_bytes()).await);
        let row = format!("LOOKUP of {name} after RENAME onto another name of the file");
        table.expect(&row, got, &[S::Ok]);
    }
    // The replaced file is gone, its handle with it.
    let replaced = bed.new_file("replaced").await?;
    let kept = bed.new_file("moves").await?;
    let got = rename(top, "moves", &dir, "moved").await;
    table.expect("RENAME to another directory", got, &[S::Ok]);
    let got = rename(&dir, "moved", top, "replaced").await;
    table.expect("RENAME onto a file", got, &[S::Ok]);
    let got = status(nfs.getattr(&replaced).await);
    table.expect("GETATTR of a file that was renamed over", got, &[S::Stale]);
    let got = status(nfs.getattr(&kept).await);
    table.expect("GETATTR of a file that was renamed", got, &[S::Ok]);
    Ok(())
}

/// The exports are directories of one file system, but each handle belongs to its own.
async fn across_exports(bed: &Bed, table: &mut Table) -> Result<()> {
    let Some(elsewhere) = bed.squashed else {
        return Ok(());
    };
    let shared = bed.handle_in(elsewhere, "shared").await?;
    let file = bed.handle("file").await?;
    let got = status(bed.root.rename(&bed.top, b"file", &shared, b"moved").await);
    table.expect("RENAME into another export", got, &[S::Xdev]);
    let got = status(bed.root.link(&file, &shared, b"linked").await);
    table.expect("LINK into another export", got, &[S::Xdev]);
    let got = status(bed.root.lookup(&shared, b"..").await);
    table.expect("LOOKUP of .. below another export's root", got, &[S::Ok]);
    Ok(())
}
