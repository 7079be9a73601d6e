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
    wcc_of_directories(bed, table).await?;
    wcc_of_files(bed, table).await
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
    let (uid, gid) = match bed.only_user {
        Some(user) => (user, user),
        None => (OWNER, GROUP),
    };
    let all = Sattr3 {
        mode: Some(0o2751),
        uid: Some(uid),
        gid: Some(gid),
        size: Some(12_345),
        atime: SetTime::ClientTime(atime),
        mtime: SetTime::ClientTime(mtime),
    };
    let got = status(bed.root.setattr(&file, &all, None).await);
    table.expect("SETATTR of everything", got, &[S::Ok]);
    let now = bed.attributes(&file).await?;
    let right = now.mode == 0o2751
        && (now.uid, now.gid, now.size) == (uid, gid, 12_345)
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
        let is_device = matches!(ftype, Ftype3::Chr | Ftype3::Blk);
        let made = nfs.mknod(top, name.as_bytes(), &what).await;
        if is_device && bed.only_user.is_some() {
            let row = format!("MKNOD of {name} by an unprivileged server");
            table.expect(&row, status(made), &[S::Perm, S::Acces]);
            continue;
        }
        let seen = made
            .as_ref()
            .ok()
            .and_then(|made| made.as_ref().ok()?.obj_attributes);
        table.expect(&format!("MKNOD of {name}"), status(made), &[S::Ok]);
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

/// One object whose wcc_data is looked at: before is what GETATTR said, after is what it says next
/// (RFC 1813 §2.6).
struct Watched<'a> {
    bed: &'a Bed,
    handle: FileHandle,
    before: Fattr3,
}

impl<'a> Watched<'a> {
    async fn new(bed: &'a Bed, handle: FileHandle) -> Result<Self> {
        let before = bed.attributes(&handle).await?;
        Ok(Self {
            bed,
            handle,
            before,
        })
    }

    /// A row about what a call said of this object; the next call is watched from here on.
    async fn told(&mut self, table: &mut Table, call: &str, wcc: Option<WccData>) -> Result<()> {
        let wcc = wcc.with_context(|| format!("{call} does not do what it should"))?;
        let after = self.bed.attributes(&self.handle).await?;
        let right = wcc.before == Some(short(&self.before)) && wcc.after == Some(after);
        let row = format!("wcc_data of {call}");
        table.check(&row, right, (wcc, self.before, after));
        self.before = after;
        Ok(())
    }
}

async fn wcc_of_directories(bed: &Bed, table: &mut Table) -> Result<()> {
    let (nfs, sattr) = (&bed.root, &Sattr3::default());
    let how = CreateHow::Guarded(*sattr);
    let file = bed.new_file("wcc-linked").await?;
    let handle = bed.new_dir("wcc").await?;
    let mut dir = Watched::new(bed, handle).await?;
    let wcc = nfs.create(&handle, b"f", &how).await?;
    dir.told(table, "CREATE", wcc.ok().map(|ok| ok.dir_wcc))
        .await?;
    let wcc = nfs.mkdir(&handle, b"d", sattr).await?;
    dir.told(table, "MKDIR", wcc.ok().map(|ok| ok.dir_wcc))
        .await?;
    let wcc = nfs.symlink(&handle, b"l", sattr, b"t").await?;
    dir.told(table, "SYMLINK", wcc.ok().map(|ok| ok.dir_wcc))
        .await?;
    let wcc = nfs.link(&file, &handle, b"hard").await?;
    dir.told(table, "LINK", wcc.ok().map(|ok| ok.linkdir_wcc))
        .await?;
    let wcc = nfs.create(&handle, b"l", &how).await?;
    dir.told(table, "CREATE that fails", wcc.err().map(|no| no.body))
        .await?;
    let mut top = Watched::new(bed, bed.top).await?;
    let both = nfs
        .rename(&handle, b"f", &bed.top, b"wcc-moved")
        .await?
        .ok();
    let from = both.map(|both| both.fromdir_wcc);
    dir.told(table, "RENAME, the old directory", from).await?;
    let to = both.map(|both| both.todir_wcc);
    top.told(table, "RENAME, the new directory", to).await?;
    let wcc = nfs.remove(&handle, b"hard").await?;
    dir.told(table, "REMOVE", wcc.ok()).await?;
    let wcc = nfs.rmdir(&handle, b"d").await?;
    dir.told(table, "RMDIR", wcc.ok()).await
}

async fn wcc_of_files(bed: &Bed, table: &mut Table) -> Result<()> {
    let nfs = &bed.root;
    let handle = bed.new_file("wcc-file").await?;
    let mut file = Watched::new(bed, handle).await?;
    let size = Sattr3 {
        size: Some(100),
        ..Sattr3::default()
    };
    let wcc = nfs.setattr(&handle, &size, None).await?;
    file.told(table, "SETATTR", wcc.ok()).await?;
    for stable in [
        StableHow::Unstable,
        StableHow::DataSync,
        StableHow::FileSync,
    ] {
        let data = Bytes::from_static(b"seven..");
        let wcc = nfs.write(&handle, file.before.size, stable, data).await?;
        let row = format!("WRITE {stable:?}");
        file.told(table, &row, wcc.ok().map(|ok| ok.file_wcc))
            .await?;
    }
    let wcc = nfs.commit(&handle, 0, 0).await?;
    file.told(table, "COMMIT", wcc.ok().map(|ok| ok.file_wcc))
        .await
}

fn short(attributes: &Fattr3) -> WccAttr {
    WccAttr {
        size: attributes.size,
        mtime: attributes.mtime,
        ctime: attributes.ctime,
    }
}
