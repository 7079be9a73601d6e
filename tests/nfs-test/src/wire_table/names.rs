//! Every procedure that takes a name, with names that are none.

use anyhow::Result;
use nfs_client::nfs3::{CreateHow, Mknoddata, Nfsstat3 as S, PipeData, Sattr3};

use super::bed::Bed;
use super::table::{Got, Table, status};

/// The procedures with a name, and RENAME once for each of its two.
const TAKERS: [&str; 10] = [
    "LOOKUP",
    "CREATE",
    "MKDIR",
    "SYMLINK",
    "MKNOD",
    "REMOVE",
    "RMDIR",
    "RENAME from",
    "RENAME to",
    "LINK",
];

pub(super) async fn rows(bed: &Bed, table: &mut Table) -> Result<()> {
    let longest = vec![b'n'; 255];
    let long = vec![b'n'; 256];
    let very_long = vec![b'n'; 4000];
    for taker in TAKERS {
        for (what, name) in [("256", &long), ("4000", &very_long)] {
            let got = call_with(bed, taker, name).await;
            table.expect(
                &format!("{taker} of a name of {what} bytes"),
                got,
                &[S::Nametoolong],
            );
        }
        // RFC 1813 names no error for these; nothing may come of them.
        let got = call_with(bed, taker, b"").await;
        let allowed = [S::Inval, S::Acces, S::Noent, S::Exist];
        table.expect(&format!("{taker} of an empty name"), got, &allowed);
        let got = call_with(bed, taker, b"dir/inner").await;
        table.expect(
            &format!("{taker} of a name with a slash"),
            got,
            &[S::Inval, S::Acces, S::Noent],
        );
        let got = call_with(bed, taker, b"nul\0byte").await;
        table.expect(
            &format!("{taker} of a name with a NUL"),
            got,
            &[S::Inval, S::Acces, S::Noent],
        );
        for name in [".", ".."] {
            let got = call_with(bed, taker, name.as_bytes()).await;
            table.expect(&format!("{taker} of '{name}'"), got, dots(taker));
        }
    }
    good_names(bed, table, &longest).await
}

/// What `.` and `..` are answered with: RFC 1813 §3.3.8 to §3.3.15 and what POSIX systems say.
fn dots(taker: &str) -> &'static [S] {
    match taker {
        "LOOKUP" => &[S::Ok],
        "CREATE" => &[S::Exist, S::Inval, S::Isdir],
        "MKDIR" | "SYMLINK" | "MKNOD" | "LINK" => &[S::Exist, S::Inval],
        "REMOVE" => &[S::Inval, S::Isdir, S::Perm, S::Acces],
        "RMDIR" => &[S::Inval, S::Exist, S::Notempty, S::Acces],
        _ => &[S::Inval, S::Exist, S::Notempty],
    }
}

/// Checks names that look odd but have to be accepted.
async fn good_names(bed: &Bed, table: &mut Table, longest: &[u8]) -> Result<()> {
    let names: [&[u8]; 7] = [
        longest,
        b"\xff\xfe not UTF-8 \x80",
        b"new\nline\ttab",
        b"...",
        b" ",
        b"-rf",
        b"back\\slash",
    ];
    for name in names {
        let shown = name.escape_ascii().to_string();
        let shown = &shown[..shown.len().min(30)];
        let how = CreateHow::Guarded(Sattr3::default());
        let got = status(bed.root.create(&bed.top, name, &how).await);
        table.expect(&format!("CREATE of {shown}"), got, &[S::Ok]);
        let got = status(bed.root.lookup(&bed.top, name).await);
        table.expect(&format!("LOOKUP of {shown}"), got, &[S::Ok]);
        let got = status(bed.root.remove(&bed.top, name).await);
        table.expect(&format!("REMOVE of {shown}"), got, &[S::Ok]);
    }
    // `.` is the directory; `..` of the export's root stays inside.
    for name in [&b"."[..], b".."] {
        let found = bed.root.lookup(&bed.top, name).await?;
        let top = bed.attributes(&bed.top).await?;
        let inside = match &found {
            Ok(ok) => bed.attributes(&ok.object).await?.fileid == top.fileid,
            Err(_) => false,
        };
        let row = format!(
            "LOOKUP of {} in the export's root is the root",
            name.escape_ascii()
        );
        table.check(&row, inside, &found);
    }
    let dir = bed.handle("dir").await?;
    let found = bed.root.lookup(&dir, b"..").await?;
    let top = bed.attributes(&bed.top).await?;
    let right = match &found {
        Ok(ok) => bed.attributes(&ok.object).await?.fileid == top.fileid,
        Err(_) => false,
    };
    table.check("LOOKUP of .. is the directory above", right, &found);
    Ok(())
}

/// Calls as user 0 in the export's root.
async fn call_with(bed: &Bed, taker: &str, name: &[u8]) -> Got {
    let (nfs, top, sattr) = (&bed.root, &bed.top, &Sattr3::default());
    let pipe_attributes = *sattr;
    let fifo = Mknoddata::Fifo(PipeData { pipe_attributes });
    match taker {
        "LOOKUP" => status(nfs.lookup(top, name).await),
        "CREATE" => status(nfs.create(top, name, &CreateHow::Guarded(*sattr)).await),
        "MKDIR" => status(nfs.mkdir(top, name, sattr).await),
        "SYMLINK" => status(nfs.symlink(top, name, sattr, b"target").await),
        "MKNOD" => status(nfs.mknod(top, name, &fifo).await),
        "REMOVE" => status(nfs.remove(top, name).await),
        "RMDIR" => status(nfs.rmdir(top, name).await),
        "RENAME from" => status(nfs.rename(top, name, top, b"renamed").await),
        "RENAME to" => status(nfs.rename(top, b"plain", top, name).await),
        _ => match nfs.lookup(top, b"file").await? {
            Ok(ok) => status(nfs.link(&ok.object, top, name).await),
            Err(failure) => Ok(failure.status),
        },
    }
}
