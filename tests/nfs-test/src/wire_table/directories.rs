//! READDIR and READDIRPLUS: cookies, verifiers, room, and every entry once.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::chown;

use anyhow::{Result, ensure};
use nfs_client::nfs3::{FileHandle, Nfsstat3 as S};
use nfs_wire::nfs3::{Procedure, ReaddirArgs, ReaddirplusArgs};

use super::bed::Bed;
use super::table::{Table, status};

pub(super) async fn rows(bed: &Bed, table: &mut Table) -> Result<()> {
    let path = bed.export.join("listing");
    fs::create_dir(&path)?;
    chown(&path, bed.only_user, bed.only_user)?;
    let mut names: Vec<Vec<u8>> = (0..700).map(|i| format!("name-{i}").into_bytes()).collect();
    names.push(vec![b'x'; 255]);
    names.push(b"\xff\x80\xfe".to_vec());
    names.push(b" ".to_vec());
    for name in &names {
        fs::write(path.join(std::ffi::OsStr::from_bytes(name)), "")?;
    }
    let dir = bed.handle("listing").await?;
    names.extend([b".".to_vec(), b"..".to_vec()]);
    names.sort();
    for room in [600, 1024, 4096, 65_536, 1 << 20] {
        let listed = sorted(list(bed, &dir, room).await?);
        let row = format!("READDIR in {room} bytes lists every name once");
        table.check(&row, listed == names, listed.len());
        let listed = sorted(list_plus(bed, &dir, room, table).await?);
        let row = format!("READDIRPLUS in {room} bytes lists every name once");
        table.check(&row, listed == names, listed.len());
    }
    refused(bed, table, &dir).await?;
    room_is_kept(bed, table, &dir).await?;
    changes(bed, table, &dir).await
}

fn sorted(mut names: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    names.sort();
    names
}

async fn list(bed: &Bed, dir: &FileHandle, room: u32) -> Result<Vec<Vec<u8>>> {
    let (mut cookie, mut cookieverf, mut names) = (0, [0; 8], Vec::new());
    loop {
        let part = match bed.root.readdir(dir, cookie, cookieverf, room).await? {
            Ok(ok) => ok,
            Err(failure) => anyhow::bail!("READDIR in {room}: {}", failure.status.word()),
        };
        ensure!(
            part.eof || !part.entries.is_empty(),
            "READDIR in {room}: no entry and no end"
        );
        cookie = part.entries.last().map_or(cookie, |last| last.cookie);
        cookieverf = part.cookieverf;
        names.extend(part.entries.into_iter().map(|entry| entry.name));
        if part.eof {
            return Ok(names);
        }
    }
}

/// Lists a directory with READDIRPLUS, and compares what comes with each name with what GETATTR and LOOKUP
/// say.
async fn list_plus(
    bed: &Bed,
    dir: &FileHandle,
    room: u32,
    table: &mut Table,
) -> Result<Vec<Vec<u8>>> {
    let (mut cookie, mut cookieverf, mut names) = (0, [0; 8], Vec::new());
    let mut odd = Vec::new();
    loop {
        let answer = bed
            .root
            .readdirplus(dir, cookie, cookieverf, room, room)
            .await?;
        let part = match answer {
            Ok(ok) => ok,
            Err(failure) => anyhow::bail!("READDIRPLUS in {room}: {}", failure.status.word()),
        };
        ensure!(
            part.eof || !part.entries.is_empty(),
            "READDIRPLUS in {room}: no entry and no end"
        );
        cookie = part.entries.last().map_or(cookie, |last| last.cookie);
        cookieverf = part.cookieverf;
        for entry in &part.entries {
            if entry.name == b"." || entry.name == b".." {
                continue;
            }
            let (Some(handle), Some(given)) = (entry.name_handle, entry.name_attributes) else {
                odd.push(entry.clone());
                continue;
            };
            let now = bed.attributes(&handle).await?;
            if (now.fileid, now.mtime, now.size) != (entry.fileid, given.mtime, given.size) {
                odd.push(entry.clone());
            }
        }
        names.extend(part.entries.into_iter().map(|entry| entry.name));
        if part.eof {
            let row = format!("READDIRPLUS in {room} bytes gives right attributes and handles");
            table.check(&row, odd.is_empty(), (odd.len(), odd.first()));
            return Ok(names);
        }
    }
}

async fn refused(bed: &Bed, table: &mut Table, dir: &FileHandle) -> Result<()> {
    let nfs = &bed.root;
    let first = nfs.readdir(dir, 0, [0; 8], 1024).await?;
    let Ok(first) = first else { return Ok(()) };
    let Some(cookie) = first.entries.last().map(|entry| entry.cookie) else {
        return Ok(());
    };
    let mut wrong = first.cookieverf;
    wrong[3] ^= 0x40;
    let got = status(nfs.readdir(dir, cookie, wrong, 1024).await);
    table.expect("READDIR with a wrong cookie verifier", got, &[S::BadCookie]);
    let got = status(nfs.readdirplus(dir, cookie, wrong, 512, 4096).await);
    table.expect(
        "READDIRPLUS with a wrong cookie verifier",
        got,
        &[S::BadCookie],
    );
    let got = status(nfs.readdir(dir, cookie, first.cookieverf, 1024).await);
    table.expect("READDIR with the right cookie verifier", got, &[S::Ok]);
    // A cookie that was never given: refused, or read as a place; never a crash.
    let got = status(nfs.readdir(dir, u64::MAX, first.cookieverf, 1024).await);
    table.expect(
        "READDIR from cookie 2^64-1",
        got,
        &[S::BadCookie, S::Ok, S::Inval],
    );
    for room in [0, 1, 100] {
        let got = status(nfs.readdir(dir, 0, [0; 8], room).await);
        table.expect(&format!("READDIR in {room} bytes"), got, &[S::Toosmall]);
        let got = status(nfs.readdirplus(dir, 0, [0; 8], room, room).await);
        table.expect(&format!("READDIRPLUS in {room} bytes"), got, &[S::Toosmall]);
    }
    Ok(())
}

/// The results, status left out, fit into what was asked for (RFC 1813 §3.3.16, §3.3.17).
async fn room_is_kept(bed: &Bed, table: &mut Table, dir: &FileHandle) -> Result<()> {
    for room in [600_u32, 1000, 1111, 4096, 8192, 32_768] {
        let args = ReaddirArgs {
            dir: *dir,
            cookie: 0,
            cookieverf: [0; 8],
            count: room,
        };
        let results = bed.root.call(Procedure::Readdir, &args).await?;
        let len = results.len() - 4;
        table.check(
            &format!("READDIR keeps to {room} bytes"),
            len <= room as usize,
            len,
        );
        let args = ReaddirplusArgs {
            dir: *dir,
            cookie: 0,
            cookieverf: [0; 8],
            dircount: room,
            maxcount: room,
        };
        let results = bed.root.call(Procedure::Readdirplus, &args).await?;
        let len = results.len() - 4;
        table.check(
            &format!("READDIRPLUS keeps to {room} bytes"),
            len <= room as usize,
            len,
        );
    }
    Ok(())
}

/// Entries come and go while the directory is read: what stays is listed exactly once.
async fn changes(bed: &Bed, table: &mut Table, dir: &FileHandle) -> Result<()> {
    let path = bed.export.join("listing");
    let mut seen: BTreeMap<Vec<u8>, u32> = BTreeMap::new();
    let (mut cookie, mut cookieverf, mut round) = (0, [0; 8], 0);
    loop {
        let part = match bed.root.readdir(dir, cookie, cookieverf, 2048).await? {
            Ok(ok) => ok,
            Err(failure) => {
                table.expect(
                    "READDIR of a changing directory",
                    Ok(failure.status),
                    &[S::Ok],
                );
                return Ok(());
            }
        };
        cookie = part.entries.last().map_or(cookie, |last| last.cookie);
        cookieverf = part.cookieverf;
        for entry in part.entries {
            *seen.entry(entry.name).or_default() += 1;
        }
        if part.eof {
            break;
        }
        // Names of every tenth go away, others come.
        let gone = path.join(format!("name-{}", round * 10));
        if gone.exists() {
            let name = format!("name-{}", round * 10);
            let got = status(bed.root.remove(dir, name.as_bytes()).await);
            table.expect("REMOVE while the directory is read", got, &[S::Ok]);
        }
        fs::write(path.join(format!("late-{round}")), "")?;
        round += 1;
    }
    let stayed = fs::read_dir(&path)?
        .map(|entry| Ok(entry?.file_name().into_vec()))
        .collect::<Result<Vec<_>>>()?;
    let wrong: Vec<_> = stayed
        .iter()
        .filter(|name| !name.starts_with(b"late-"))
        .filter(|name| seen.get(*name) != Some(&1))
        .map(|name| name.escape_ascii().to_string())
        .collect();
    let row = "READDIR of a changing directory lists what stays once";
    table.check(row, wrong.is_empty(), wrong);
    let twice: Vec<_> = seen.iter().filter(|(_, count)| **count > 1).collect();
    table.check(
        "READDIR of a changing directory repeats nothing",
        twice.is_empty(),
        twice,
    );
    Ok(())
}
