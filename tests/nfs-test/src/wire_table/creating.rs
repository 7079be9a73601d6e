//! CREATE in its three ways, SETATTR with guard and with everything, MKNOD, SYMLINK, LINK, and the
//! attributes before and after that go with each change.

use anyhow::{Context as _, Result};
use bytes::Bytes;
use nfs_client::nfs3::{
    CreateHow, DeviceData, Fattr3, FileHandle, Ftype3, Mknoddata, Nfsstat3 as S, Nfstime3,
    PipeData, Sattr3, SetTime, Specdata3, StableHow, WccAttr, WccData,
};

use super::bed::{Bed, GROUP, OWNER};
use super::table::{Table, status};

pub(super) async fn rows(bed: &Bed, table: &mut Table) -> Result<()> {
    exclusive(bed, table).await?;
    unchecked(bed, table).await?;
    guards(bed, table).await?;
    every_attribute(bed, table).await?;
    other_kinds(bed, table).await?;
    weak_cache_consistency(bed, table).await
}

/// RFC 1813 §3.3.8: the verifier tells a repeat from somebody else's file.
async fn exclusive(bed: &Bed, table: &mut Table) -> Result<()> {
    let create = async |verifier: u64| {
        let how = CreateHow::Exclusive(verifier.to_be_bytes());
        bed.root.create(&bed.top, b"exclusive", &how).await
    };
    // High bits in both halves: a server that keeps the verifier in timestamps must not lose them.
    let verifier = 0xfedc_ba98_8765_4321;
    let first = create(verifier).await;
    let made = first.as_ref().ok().and_then(|r| r.as_ref().ok()?.obj);
    table.expect("CREATE exclusive", status(first), &[S::Ok]);
    let again = create(verifier).await;
    let same = again.as_ref().ok().and_then(|r| r.as_ref().ok()?.obj);
    table.expect(
        "CREATE exclusive again, same verifier",
        status(again),
        &[S::Ok],
    );
    table.check(
        "CREATE exclusive again is the same file",
        made == same,
        (made, same),
    );
    for other in [
        0x1234,
        verifier ^ (1 << 63),
        verifier ^ (1 << 31),
        verifier ^ 1,
    ] {
        let row = format!("CREATE exclusive with verifier {other:#x} instead");
        table.expect(&row, status(create(other).await), &[S::Exist]);
    }
    // The client sets the attributes after it (RFC 1813 §3.3.8); then the verifier is used up.
    let made = made.context("the exclusive file's handle")?;
    let attributes = Sattr3 {
        mode: Some(0o600),
        atime: SetTime::ServerTime,
        mtime: SetTime::ServerTime,
        ..Sattr3::default()
    };
    let got = status(bed.root.setattr(&made, &attributes, None).await);
    table.expect("SETATTR after CREATE exclusive", got, &[S::Ok]);
    let mode = bed.attributes(&made).await?.mode;
    table.check("the mode after it", mode == 0o600, format!("{mode:o}"));
    Ok(())
}

async fn unchecked(bed: &Bed, table: &mut Table) -> Result<()> {
    let file = bed.new_file("unchecked").await?;
    let data = Bytes::from_static(b"data");
    let got = status(bed.root.write(&file, 0, StableHow::FileSync, data).await);
    table.expect("WRITE", got, &[S::Ok]);
    let create = async |size| {
        let attributes = Sattr3 {
            size,
            ..Sattr3::default()
        };
        let how = CreateHow::Unchecked(attributes);
        bed.root.create(&bed.top, b"unchecked", &how).await
    };
    let same = create(None).await?.ok().and_then(|ok| ok.obj);
    table.check(
        "CREATE unchecked of a file there is that file",
        same == Some(file),
        same,
    );
    let size = bed.attributes(&file).await?.size;
    table.check("CREATE unchecked without a size keeps it", size == 4, size);
    table.expect(
        "CREATE unchecked with size 0",
        status(create(Some(0)).await),
        &[S::Ok],
    );
    let size = bed.attributes(&file).await?.size;
    table.check(
        "CREATE unchecked with size 0 empties the file",
        size == 0,
        size,
    );
    Ok(())
}

async fn guards(bed: &Bed, table: &mut Table) -> Result<()> {
    let file = bed.new_file("guarded").await?;
    let now = bed.attributes(&file).await?.ctime;
    let change = Sattr3 {
        mode: Some(0o640),
        ..Sattr3::default()
    };
    let stale = Nfstime3 {
        seconds: now.seconds.wrapping_sub(1),
        nseconds: now.nseconds,
    };
    let off = Nfstime3 {
        seconds: now.seconds,
        nseconds: now.nseconds ^ 1,
    };
    for guard in [stale, off] {
        let got = status(bed.root.setattr(&file, &change, Some(guard)).await);
        table.expect("SETATTR with a stale guard", got, &[S::NotSync]);
    }
    let mode = bed.attributes(&file).await?.mode;
    table.check(
        "a stale guard changes nothing",
        mode == 0o644,
        format!("{mode:o}"),
    );
    let got = status(bed.root.setattr(&file, &change, Some(now)).await);
    table.expect("SETATTR with the right guard", got, &[S::Ok]);
    let got = status(bed.root.setattr(&file, &change, Some(now)).await);
    table.expect("SETATTR with a guard used up", got, &[S::NotSync]);
    Ok(())
}

async fn every_attribute(bed: &Bed, table: &mut Table) -> Result<()> {
    let file = bed.new_file("attributes").await?;
    let time = |seconds, nseconds| Nfstime3 { seconds, nseconds };
    let (atime, mtime) = (time(86_400, 123_000_000), time(u32::MAX / 2, 456_000_000));
    let all = Sattr3 {
        mode: Some(0o2751),
        uid: Some(OWNER),
        gid: Some(GROUP),
        size: Some(12_345),
        atime: SetTime::ClientTime(atime),
        mtime: SetTime::ClientTime(mtime),
    };
    let got = status(bed.root.setattr(&file, &all, None).await);
    table.expect("SETATTR of everything", got, &[S::Ok]);
    let now = bed.attributes(&file).await?;
    let right = now.mode == 0o2751
        && (now.uid, now.gid, now.size) == (OWNER, GROUP, 12_345)
        && (now.atime, now.mtime) == (atime, mtime);
    table.check("SETATTR of everything, seen again", right, now);
    let got = status(bed.root.setattr(&file, &Sattr3::default(), None).await);
    table.expect("SETATTR of nothing", got, &[S::Ok]);
    let same = bed.attributes(&file).await?;
    table.check(
        "SETATTR of nothing changes nothing",
        same.mtime == now.mtime,
        same,
    );
    // RFC 1813 §3.3.2: a time that is none.
    let wrong = Sattr3 {
        mtime: SetTime::ClientTime(time(1, 1_000_000_000)),
        ..Sattr3::default()
    };
    let got = status(bed.root.setattr(&file, &wrong, None).await);
    table.expect("SETATTR of a time with 10^9 nanoseconds", got, &[S::Inval]);
    let large = Sattr3 {
        size: Some(u64::MAX),
        ..Sattr3::default()
    };
    let got = status(bed.root.setattr(&file, &large, None).await);
    table.expect("SETATTR of size 2^64-1", got, &[S::Fbig, S::Inval]);
    Ok(())
}

async fn other_kinds(bed: &Bed, table: &mut Table) -> Result<()> {
    let (nfs, top) = (&bed.root, &bed.top);
    let sattr = Sattr3 {
        mode: Some(0o620),
        ..Sattr3::default()
    };
    let pipe = PipeData {
        pipe_attributes: sattr,
    };
    let spec = Specdata3 {
        major: 5,
        minor: 0x1234,
    };
    let device = DeviceData {
        dev_attributes: sattr,
        spec,
    };
    for (name, what, ftype) in [
        ("a-fifo", Mknoddata::Fifo(pipe), Ftype3::Fifo),
        ("a-socket", Mknoddata::Socket(pipe), Ftype3::Sock),
        ("a-chr", Mknoddata::CharacterDevice(device), Ftype3::Chr),
        ("a-blk", Mknoddata::BlockDevice(device), Ftype3::Blk),
    ] {
        let made = nfs.mknod(top, name.as_bytes(), &what).await;
        let seen = made
            .as_ref()
            .ok()
            .and_then(|made| made.as_ref().ok()?.obj_attributes);
        table.expect(&format!("MKNOD of {name}"), status(made), &[S::Ok]);
        let is_device = matches!(ftype, Ftype3::Chr | Ftype3::Blk);
        let right = seen.is_some_and(|seen: Fattr3| {
            seen.ftype == ftype
                && seen.mode == 0o620
                && (!is_device || (seen.rdev.major, seen.rdev.minor) == (5, 0x1234))
        });
        table.check(&format!("MKNOD of {name}, its attributes"), right, seen);
    }
    for len in [1, 255, 1023, 4095] {
        let target = vec![b't'; len];
        let name = format!("link-{len}");
        let got = status(nfs.symlink(top, name.as_bytes(), &sattr, &target).await);
        // XFS keeps links of up to 1024 bytes, ext4 up to a block.
        let allowed: &[S] = if len > 1023 {
            &[S::Ok, S::Nametoolong]
        } else {
            &[S::Ok]
        };
        let made = matches!(got, Ok(S::Ok));
        table.expect(&format!("SYMLINK to {len} bytes"), got, allowed);
        if made {
            let back = nfs.readlink(&bed.handle(&name).await?).await?;
            let same = back.as_ref().is_ok_and(|ok| ok.data == target);
            table.check(&format!("READLINK of {len} bytes"), same, status(Ok(back)));
        }
    }
    let got = status(nfs.symlink(top, b"link-empty", &sattr, b"").await);
    table.expect("SYMLINK to nothing", got, &[S::Inval, S::Noent]);
    let got = status(nfs.symlink(top, b"link-long", &sattr, &[b'/'; 5000]).await);
    table.expect("SYMLINK to 5000 bytes", got, &[S::Nametoolong]);
    let got = status(nfs.symlink(top, b"link-nul", &sattr, b"a\0b").await);
    table.expect("SYMLINK to a path with a NUL", got, &[S::Inval, S::Acces]);
    Ok(())
}

/// wcc_data: before is what GETATTR said, after is what it says next (RFC 1813 §2.6).
async fn weak_cache_consistency(bed: &Bed, table: &mut Table) -> Result<()> {
    let (nfs, top, sattr) = (&bed.root, &bed.top, &Sattr3::default());
    let how = CreateHow::Guarded(*sattr);
    let dir = bed.new_dir("wcc").await?;
    let file = bed.new_file("wcc-file").await?;
    let size = Sattr3 {
        size: Some(100),
        ..Sattr3::default()
    };
    let data = Bytes::from_static(b"seven..");
    let mut of = async |row: &str, of: &FileHandle, wcc: WccData, before: Fattr3| -> Result<()> {
        let after = bed.attributes(of).await?;
        let right = wcc.before == Some(short(&before)) && wcc.after == Some(after);
        table.check(&format!("wcc_data of {row}"), right, (wcc, before, after));
        Ok(())
    };
    let made = |what| format!("{what} in a directory without entries of that name");
    let before = bed.attributes(&dir).await?;
    let wcc = nfs
        .create(&dir, b"f", &how)
        .await?
        .ok()
        .context(made("CREATE"))?
        .dir_wcc;
    of("CREATE", &dir, wcc, before).await?;
    let before = bed.attributes(&dir).await?;
    let wcc = nfs
        .mkdir(&dir, b"d", sattr)
        .await?
        .ok()
        .context(made("MKDIR"))?
        .dir_wcc;
    of("MKDIR", &dir, wcc, before).await?;
    let before = bed.attributes(&dir).await?;
    let made_link = nfs.symlink(&dir, b"l", sattr, b"t").await?;
    of(
        "SYMLINK",
        &dir,
        made_link.ok().context(made("SYMLINK"))?.dir_wcc,
        before,
    )
    .await?;
    let before = bed.attributes(&dir).await?;
    let linked = nfs
        .link(&file, &dir, b"hard")
        .await?
        .ok()
        .context(made("LINK"))?;
    of("LINK", &dir, linked.linkdir_wcc, before).await?;
    let before = bed.attributes(&dir).await?;
    let top_before = bed.attributes(top).await?;
    let renamed = nfs.rename(&dir, b"f", top, b"wcc-moved").await?;
    let renamed = renamed.ok().context("RENAME to a new name")?;
    of(
        "RENAME, the old directory",
        &dir,
        renamed.fromdir_wcc,
        before,
    )
    .await?;
    of(
        "RENAME, the new directory",
        top,
        renamed.todir_wcc,
        top_before,
    )
    .await?;
    let before = bed.attributes(&dir).await?;
    let removed = nfs
        .remove(&dir, b"hard")
        .await?
        .ok()
        .context("REMOVE of a link")?;
    of("REMOVE", &dir, removed, before).await?;
    let before = bed.attributes(&dir).await?;
    let removed = nfs
        .rmdir(&dir, b"d")
        .await?
        .ok()
        .context("RMDIR of an empty directory")?;
    of("RMDIR", &dir, removed, before).await?;
    let before = bed.attributes(&dir).await?;
    if let Err(failure) = nfs.create(&dir, b"l", &how).await? {
        of("CREATE that fails", &dir, failure.body, before).await?;
    }
    let before = bed.attributes(&file).await?;
    let changed = nfs
        .setattr(&file, &size, None)
        .await?
        .ok()
        .context("SETATTR of a size")?;
    of("SETATTR", &file, changed, before).await?;
    for stable in [
        StableHow::Unstable,
        StableHow::DataSync,
        StableHow::FileSync,
    ] {
        let before = bed.attributes(&file).await?;
        let written = nfs.write(&file, before.size, stable, data.clone()).await?;
        let written = written.ok().context("WRITE at the end")?;
        of(
            &format!("WRITE {stable:?}"),
            &file,
            written.file_wcc,
            before,
        )
        .await?;
    }
    let before = bed.attributes(&file).await?;
    let committed = nfs.commit(&file, 0, 0).await?.ok().context("COMMIT")?;
    of("COMMIT", &file, committed.file_wcc, before).await
}

fn short(attributes: &Fattr3) -> WccAttr {
    WccAttr {
        size: attributes.size,
        mtime: attributes.mtime,
        ctime: attributes.ctime,
    }
}
