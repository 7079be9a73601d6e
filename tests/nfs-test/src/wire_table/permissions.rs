//! Who may do what: by owner, group, mode, sticky bit and squash.

use anyhow::Result;
use bytes::Bytes;
use nfs_client::Identity;
use nfs_client::nfs3::{
    ACCESS3_DELETE, ACCESS3_EXECUTE, ACCESS3_EXTEND, ACCESS3_LOOKUP, ACCESS3_MODIFY, ACCESS3_READ,
    CreateHow, DeviceData, FileHandle, Mknoddata, Nfs3, Nfsstat3 as S, Nfstime3, Sattr3, SetTime,
    Specdata3, StableHow,
};

use super::bed::{Bed, GROUP, OTHER, OWNER};
use super::table::{Got, Table, status};

pub(super) async fn rows(bed: &Bed, table: &mut Table) -> Result<()> {
    contents(bed, table).await?;
    attributes(bed, table).await?;
    directories(bed, table).await?;
    granted_bits(bed, table).await?;
    squashed(bed, table).await
}

async fn read(nfs: &Nfs3, file: &FileHandle) -> Got {
    status(nfs.read(file, 0, 10).await)
}

async fn write(nfs: &Nfs3, file: &FileHandle) -> Got {
    let data = Bytes::from_static(b"The");
    status(nfs.write(file, 0, StableHow::FileSync, data).await)
}

async fn contents(bed: &Bed, table: &mut Table) -> Result<()> {
    let private = &bed.handle("private").await?;
    let owned = &bed.handle("owned").await?;
    let grouped = &bed.handle("grouped").await?;
    let member = bed
        .root
        .with_identity(Identity::sys(OTHER, OTHER, &[5, 6, GROUP]));
    let nobody = bed.root.with_identity(Identity::none());
    for (row, got, allowed) in [
        (
            "READ of another's 0600",
            read(&bed.other, private).await,
            &[S::Acces][..],
        ),
        (
            "WRITE to another's 0600",
            write(&bed.other, private).await,
            &[S::Acces],
        ),
        (
            "READ of 0600 by user 0",
            read(&bed.root, private).await,
            &[S::Ok],
        ),
        (
            "READ of another's 0644",
            read(&bed.other, owned).await,
            &[S::Ok],
        ),
        (
            "WRITE to another's 0644",
            write(&bed.other, owned).await,
            &[S::Acces],
        ),
        (
            "WRITE to one's own 0644",
            write(&bed.owner, owned).await,
            &[S::Ok],
        ),
        (
            "READ of a group's 0660",
            read(&bed.other, grouped).await,
            &[S::Acces],
        ),
        ("READ as a member", read(&member, grouped).await, &[S::Ok]),
        ("WRITE as a member", write(&member, grouped).await, &[S::Ok]),
        (
            "READ of 0600 with AUTH_NONE",
            read(&nobody, private).await,
            &[S::Acces],
        ),
        (
            "READ of 0644 with AUTH_NONE",
            read(&nobody, owned).await,
            &[S::Ok],
        ),
        (
            "COMMIT of another's 0600",
            status(bed.other.commit(private, 0, 0).await),
            &[S::Acces],
        ),
        (
            "GETATTR of another's 0600",
            status(bed.other.getattr(private).await),
            &[S::Ok],
        ),
    ] {
        table.expect(row, got, allowed);
    }
    // A file that was opened before its mode was taken away stays usable for its owner: NFS has no
    // open, so the server must let the owner through.
    let none = Sattr3 {
        mode: Some(0),
        ..Sattr3::default()
    };
    let got = status(bed.owner.setattr(owned, &none, None).await);
    table.expect("SETATTR of one's own mode to 0", got, &[S::Ok]);
    let got = read(&bed.owner, owned).await;
    table.expect("READ of one's own 0000", got, &[S::Ok]);
    let got = write(&bed.owner, owned).await;
    table.expect("WRITE to one's own 0000", got, &[S::Ok]);
    let got = read(&bed.other, owned).await;
    table.expect("READ of another's 0000", got, &[S::Acces]);
    let back = Sattr3 {
        mode: Some(0o644),
        ..Sattr3::default()
    };
    let got = status(bed.owner.setattr(owned, &back, None).await);
    table.expect("SETATTR of one's own mode back", got, &[S::Ok]);
    Ok(())
}

async fn attributes(bed: &Bed, table: &mut Table) -> Result<()> {
    let owned = &bed.handle("owned").await?;
    let grouped = &bed.handle("grouped").await?;
    let member = bed
        .root
        .with_identity(Identity::sys(OTHER, OTHER, &[GROUP]));
    let none = Sattr3::default();
    let then = Nfstime3 {
        seconds: 1_000_000_000,
        nseconds: 7,
    };
    let mode = Sattr3 {
        mode: Some(0o666),
        ..none
    };
    let uid = Sattr3 {
        uid: Some(OTHER),
        ..none
    };
    let gid = Sattr3 {
        gid: Some(GROUP),
        ..none
    };
    let size = Sattr3 {
        size: Some(5),
        ..none
    };
    let client_time = Sattr3 {
        mtime: SetTime::ClientTime(then),
        ..none
    };
    let server_time = Sattr3 {
        atime: SetTime::ServerTime,
        mtime: SetTime::ServerTime,
        ..none
    };
    let not_mine = [S::Perm, S::Acces];
    let rows: [(&str, &Nfs3, &FileHandle, Sattr3, &[S]); 9] = [
        ("another's mode", &bed.other, owned, mode, &[S::Perm]),
        ("another's owner", &bed.other, owned, uid, &[S::Perm]),
        ("another's group", &bed.other, owned, gid, &[S::Perm]),
        ("another's size", &bed.other, owned, size, &[S::Acces]),
        (
            "another's time to a client's",
            &bed.other,
            owned,
            client_time,
            &not_mine,
        ),
        (
            "another's time to the server's",
            &bed.other,
            owned,
            server_time,
            &not_mine,
        ),
        (
            "a writable file's time to the server's",
            &member,
            grouped,
            server_time,
            &[S::Ok],
        ),
        (
            "a writable file's time to a client's",
            &member,
            grouped,
            client_time,
            &[S::Perm],
        ),
        ("one's own file's owner", &bed.owner, owned, uid, &[S::Perm]),
    ];
    for (what, nfs, file, change, allowed) in rows {
        let got = status(nfs.setattr(file, &change, None).await);
        table.expect(&format!("SETATTR of {what}"), got, allowed);
    }
    let got = status(bed.owner.setattr(owned, &gid, None).await);
    table.expect(
        "SETATTR of one's own file to a group one is not in",
        got,
        &[S::Perm],
    );
    // Giving a set-user-ID file away takes the bit off, and so does writing to it as another user.
    let file = &bed.new_file("set-uid").await?;
    let special = Sattr3 {
        mode: Some(0o4777),
        ..none
    };
    let got = status(bed.root.setattr(file, &special, None).await);
    table.expect("SETATTR of mode 4777", got, &[S::Ok]);
    let got = write(&bed.other, file).await;
    table.expect("WRITE to a set-user-ID file", got, &[S::Ok]);
    let mode = bed.attributes(file).await?.mode;
    table.check(
        "WRITE by another takes set-user-ID off",
        mode & 0o4000 == 0,
        mode,
    );
    Ok(())
}

async fn directories(bed: &Bed, table: &mut Table) -> Result<()> {
    let closed = &bed.handle("closed").await?;
    let dir = &bed.handle("dir").await?;
    let sticky = &bed.handle("sticky").await?;
    let shared = &bed.handle("shared").await?;
    let owned = &bed.handle("owned").await?;
    let (other, sattr) = (&bed.other, &Sattr3::default());
    let how = CreateHow::Guarded(*sattr);
    for (row, got) in [
        (
            "LOOKUP in another's 0700",
            status(other.lookup(closed, b"inner").await),
        ),
        (
            "READDIR of another's 0700",
            status(other.readdir(closed, 0, [0; 8], 4096).await),
        ),
        (
            "READDIRPLUS of another's 0700",
            status(other.readdirplus(closed, 0, [0; 8], 1024, 4096).await),
        ),
        (
            "CREATE in another's 0755",
            status(other.create(dir, b"x", &how).await),
        ),
        (
            "MKDIR in another's 0755",
            status(other.mkdir(dir, b"x", sattr).await),
        ),
        (
            "SYMLINK in another's 0755",
            status(other.symlink(dir, b"x", sattr, b"t").await),
        ),
        (
            "REMOVE in another's 0755",
            status(other.remove(dir, b"inner").await),
        ),
        (
            "RMDIR in another's 0755",
            status(other.rmdir(dir, b"inner").await),
        ),
        (
            "RENAME in another's 0755",
            status(other.rename(dir, b"inner", dir, b"x").await),
        ),
        (
            "RENAME into another's 0755",
            status(other.rename(shared, b"inner", dir, b"x").await),
        ),
        (
            "LINK into another's 0755",
            status(other.link(owned, dir, b"x").await),
        ),
    ] {
        // Which of two errors comes first is the server's matter.
        table.expect(row, got, &[S::Acces, S::Notdir, S::Isdir, S::Perm]);
    }
    let sticky_errors = [S::Acces, S::Perm];
    let got = status(other.remove(sticky, b"inner").await);
    table.expect(
        "REMOVE of another's file in a sticky directory",
        got,
        &sticky_errors,
    );
    let got = status(other.rename(sticky, b"inner", shared, b"x").await);
    table.expect(
        "RENAME of another's file in a sticky directory",
        got,
        &sticky_errors,
    );
    let device = Mknoddata::CharacterDevice(DeviceData {
        dev_attributes: *sattr,
        spec: Specdata3 { major: 1, minor: 3 },
    });
    let got = status(other.mknod(shared, b"device", &device).await);
    table.expect("MKNOD of a device by a user", got, &[S::Perm, S::Acces]);
    // What a user makes is the user's.
    match other.create(shared, b"mine", &how).await? {
        Ok(ok) => {
            let of = ok.obj_attributes.map(|a| (a.uid, a.gid));
            table.check(
                "CREATE makes the caller's file",
                of == Some((OTHER, OTHER)),
                of,
            );
        }
        Err(failure) => table.expect("CREATE in 0777", Ok(failure.status), &[S::Ok]),
    }
    Ok(())
}

async fn granted_bits(bed: &Bed, table: &mut Table) -> Result<()> {
    const ALL: u32 = 0x3f;
    let (r, l, m, e, d, x) = (
        ACCESS3_READ,
        ACCESS3_LOOKUP,
        ACCESS3_MODIFY,
        ACCESS3_EXTEND,
        ACCESS3_DELETE,
        ACCESS3_EXECUTE,
    );
    // EXECUTE of a directory and LOOKUP or DELETE of a file mean nothing: either answer will do.
    let cases = [
        ("file", &bed.other, r | m | e | x, r),
        ("file", &bed.root, r | m | e | x, r | m | e),
        ("private", &bed.other, r | m | e | x, 0),
        ("owned", &bed.owner, r | m | e | x, r | m | e),
        ("dir", &bed.other, r | l | m | e | d, r | l),
        ("dir", &bed.root, r | l | m | e | d, r | l | m | e | d),
        ("shared", &bed.other, r | l | m | e | d, r | l | m | e | d),
        ("closed", &bed.other, r | l | m | e | d, 0),
    ];
    for (what, nfs, looked_at, expected) in cases {
        let h = bed.handle(what).await?;
        let who = if std::ptr::eq(nfs, &bed.root) {
            "user 0"
        } else {
            "a user"
        };
        let row = format!("ACCESS to {what} by {who}");
        match nfs.access(&h, ALL).await? {
            Ok(ok) => {
                let granted = ok.access & looked_at;
                table.check(&row, granted == expected, format!("{granted:#x}"));
            }
            Err(failure) => table.expect(&row, Ok(failure.status), &[S::Ok]),
        }
        match nfs.access(&h, r).await? {
            Ok(ok) => table.check(
                &format!("{row}, READ alone"),
                ok.access & !r == 0,
                ok.access,
            ),
            Err(failure) => table.expect(&row, Ok(failure.status), &[S::Ok]),
        }
    }
    Ok(())
}

/// User 0 is nobody in an export with root squash; others are themselves.
async fn squashed(bed: &Bed, table: &mut Table) -> Result<()> {
    let Some(top) = bed.squashed else {
        return Ok(());
    };
    let private = &bed.handle_in(top, "private").await?;
    let shared = &bed.handle_in(top, "shared").await?;
    let owned = &bed.handle_in(top, "owned").await?;
    let got = read(&bed.root, private).await;
    table.expect("READ of 0600 by user 0, squashed", got, &[S::Acces]);
    let got = write(&bed.owner, owned).await;
    table.expect(
        "WRITE to one's own file in a squashing export",
        got,
        &[S::Ok],
    );
    let give = Sattr3 {
        uid: Some(OWNER),
        ..Sattr3::default()
    };
    let got = status(bed.root.setattr(private, &give, None).await);
    table.expect(
        "SETATTR of an owner by user 0, squashed",
        got,
        &[S::Perm, S::Acces],
    );
    let how = CreateHow::Guarded(Sattr3::default());
    match bed.root.create(shared, b"squashed", &how).await? {
        Ok(ok) => {
            let uid = ok.obj_attributes.map(|a| a.uid);
            let anonymous = uid.is_some_and(|uid| uid != 0);
            table.check(
                "CREATE by user 0, squashed, is not user 0's",
                anonymous,
                uid,
            );
        }
        Err(failure) => table.expect("CREATE by user 0, squashed", Ok(failure.status), &[S::Ok]),
    }
    Ok(())
}
