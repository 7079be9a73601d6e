//! A responder that answers NFSv3 calls, rightly or as the test wants.
#![allow(dead_code, reason = "each test file uses its part")]

use std::time::Duration;

use nfs_client::mount3::Mount3;
use nfs_client::nfs3::{
    CommitOk, CreateOk, Fattr3, FileHandle, FsinfoOk, FsstatOk, Ftype3, GetattrOk, LinkBody,
    LookupOk, Nfsstat3, Nfstime3, PathconfOk, PostOpAttr, RenameBody, Specdata3, StableHow,
    WccAttr, WccData, WriteOk,
};
use nfs_client::{Client, ConnectOptions, Connection, Identity, Nfs3, RawConnection};
use nfs_wire::nfs3::{
    AccessOk, Call, Entry3, EntryPlus3, Filename, Nfspath3, Procedure, ReadOk, ReaddirOk,
    ReaddirplusOk, ReadlinkOk,
};
use nfs_wire::rpc::CallHeader;
use nfs_wire::{Decoder, Encode, encode_to_vec};
use tokio::net::TcpListener;

/// Long enough for a busy machine; reached only when something hangs.
pub(crate) const HANG: Duration = Duration::from_secs(300);

/// A client of a responder that answers each call with what `answer` makes of it.
pub(crate) async fn client_of(
    answer: impl FnMut(Call<'_>) -> Vec<u8> + Send + 'static,
) -> (Nfs3, Mount3) {
    client_with(ConnectOptions::default(), answer).await
}

/// The procedures over a connection made with `options` to a server that answers each call by `answer`.
pub(crate) async fn client_with(
    options: ConnectOptions,
    mut answer: impl FnMut(Call<'_>) -> Vec<u8> + Send + 'static,
) -> (Nfs3, Mount3) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let target = listener.local_addr().unwrap().into();
    tokio::spawn(async move {
        let mut peer = RawConnection::from_stream(listener.accept().await.unwrap().0);
        while let Ok(Some(record)) = peer.receive_record().await {
            let (_, reply) = reply_to(&record, &mut answer);
            if peer.send_record(&reply).await.is_err() {
                return;
            }
        }
    });
    let connection = Connection::connect(target, options).await.unwrap();
    let nfs = Nfs3::new(connection.clone(), Identity::none());
    (nfs, Mount3::new(connection, Identity::none()))
}

/// A client of a responder that takes the first call of `lost` and hangs up. That call goes out again;
/// it and all others are answered.
pub(crate) async fn client_losing(
    lost: Procedure,
    mut answer: impl FnMut(Call<'_>) -> Vec<u8> + Send + 'static,
) -> Client {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let target = listener.local_addr().unwrap().into();
    tokio::spawn(async move {
        let mut lost = Some(lost);
        loop {
            let mut peer = RawConnection::from_stream(listener.accept().await.unwrap().0);
            while let Ok(Some(record)) = peer.receive_record().await {
                let (procedure, reply) = reply_to(&record, &mut answer);
                if Some(procedure) == lost {
                    lost = None;
                    break;
                }
                if peer.send_record(&reply).await.is_err() {
                    break;
                }
            }
        }
    });
    let connection = Connection::connect(target, ConnectOptions::default())
        .await
        .unwrap();
    let nfs = Nfs3::new(connection.clone(), Identity::none());
    let mount = Mount3::new(connection, Identity::none());
    let root = handle(b"root");
    Client::from_root(nfs, mount, root).await.unwrap()
}

/// A call's procedure, and the reply to it.
fn reply_to(record: &[u8], answer: &mut impl FnMut(Call<'_>) -> Vec<u8>) -> (Procedure, Vec<u8>) {
    let mut d = Decoder::new(record);
    let header = CallHeader::decode(&mut d).unwrap();
    let procedure = Procedure::try_from(header.procedure).unwrap();
    let results = answer(Call::decode(procedure, &mut d).unwrap());
    let head = [header.xid, 1, 0, 0, 0, 0].map(u32::to_be_bytes).concat();
    (procedure, [head, results].concat())
}

pub(crate) async fn mounted(
    mut answer: impl FnMut(Call<'_>) -> Vec<u8> + Send + 'static,
) -> (Client, FileHandle) {
    let (nfs, mount) = client_of(move |call| match call {
        Call::Fsinfo(_) => ok(&FsinfoOk {
            rtpref: 100,
            wtpref: 100,
            ..fsinfo()
        }),
        call => answer(call),
    })
    .await;
    let root = handle(b"root");
    (Client::from_root(nfs, mount, root).await.unwrap(), root)
}

pub(crate) fn handle(bytes: &[u8]) -> FileHandle {
    FileHandle::new(bytes).unwrap()
}

pub(crate) fn time(seconds: u32) -> Nfstime3 {
    Nfstime3 {
        seconds,
        nseconds: 5,
    }
}

pub(crate) fn attributes(ftype: Ftype3) -> Fattr3 {
    Fattr3 {
        ftype,
        mode: 0o644,
        nlink: 1,
        uid: 2,
        gid: 3,
        size: 1000,
        used: 4096,
        rdev: Specdata3 { major: 0, minor: 0 },
        fsid: 6,
        fileid: 7,
        atime: time(8),
        mtime: time(9),
        ctime: time(10),
    }
}

pub(crate) fn post() -> PostOpAttr {
    Some(attributes(Ftype3::Reg))
}

pub(crate) fn wcc() -> WccData {
    let before = WccAttr {
        size: 1,
        mtime: time(1),
        ctime: time(2),
    };
    WccData {
        before: Some(before),
        after: post(),
    }
}

pub(crate) fn fsinfo() -> FsinfoOk {
    FsinfoOk {
        obj_attributes: post(),
        rtmax: 1 << 20,
        rtpref: 1 << 20,
        rtmult: 1,
        wtmax: 1 << 20,
        wtpref: 1 << 20,
        wtmult: 1,
        dtpref: 4096,
        maxfilesize: u64::MAX,
        time_delta: time(0),
        properties: 0x1b,
    }
}

/// Results of a procedure that worked.
pub(crate) fn ok(value: &impl Encode) -> Vec<u8> {
    [vec![0; 4], encode_to_vec(value)].concat()
}

/// Results of a procedure that did not.
pub(crate) fn fail(status: Nfsstat3, body: &impl Encode) -> Vec<u8> {
    [encode_to_vec(&status), encode_to_vec(body)].concat()
}

pub(crate) fn create_ok() -> CreateOk {
    CreateOk {
        obj: Some(handle(b"new")),
        obj_attributes: post(),
        dir_wcc: wcc(),
    }
}

/// The right results of every procedure.
pub(crate) fn good(procedure: Procedure) -> Vec<u8> {
    match procedure {
        Procedure::Null => Vec::new(),
        Procedure::Getattr => ok(&GetattrOk {
            obj_attributes: attributes(Ftype3::Dir),
        }),
        Procedure::Setattr | Procedure::Remove | Procedure::Rmdir => ok(&wcc()),
        Procedure::Lookup => ok(&LookupOk {
            object: handle(b"found"),
            obj_attributes: post(),
            dir_attributes: post(),
        }),
        Procedure::Access => ok(&AccessOk {
            obj_attributes: post(),
            access: 0x3f,
        }),
        Procedure::Readlink => ok(&ReadlinkOk {
            symlink_attributes: post(),
            data: Nfspath3(b"target"),
        }),
        Procedure::Read => ok(&ReadOk {
            file_attributes: post(),
            count: 5,
            eof: true,
            data: b"bytes",
        }),
        Procedure::Write => {
            let committed = StableHow::FileSync;
            ok(&WriteOk {
                file_wcc: wcc(),
                count: 5,
                committed,
                verf: [7; 8],
            })
        }
        Procedure::Create | Procedure::Mkdir | Procedure::Symlink | Procedure::Mknod => {
            ok(&create_ok())
        }
        Procedure::Rename => ok(&RenameBody {
            fromdir_wcc: wcc(),
            todir_wcc: wcc(),
        }),
        Procedure::Link => ok(&LinkBody {
            file_attributes: post(),
            linkdir_wcc: wcc(),
        }),
        Procedure::Readdir => ok(&ReaddirOk {
            dir_attributes: post(),
            cookieverf: [1; 8],
            entries: vec![entry(1, b"a"), entry(2, b"bcd")],
            eof: true,
        }),
        Procedure::Readdirplus => ok(&ReaddirplusOk {
            dir_attributes: post(),
            cookieverf: [1; 8],
            entries: vec![plus(1, b"a", post()), plus(2, b"bcd", None)],
            eof: true,
        }),
        Procedure::Fsstat => ok(&FsstatOk {
            obj_attributes: post(),
            tbytes: 1,
            fbytes: 2,
            abytes: 3,
            tfiles: 4,
            ffiles: 5,
            afiles: 6,
            invarsec: 7,
        }),
        Procedure::Fsinfo => ok(&fsinfo()),
        Procedure::Pathconf => ok(&PathconfOk {
            obj_attributes: post(),
            linkmax: 100,
            name_max: 255,
            no_trunc: true,
            chown_restricted: true,
            case_insensitive: false,
            case_preserving: true,
        }),
        Procedure::Commit => ok(&CommitOk {
            file_wcc: wcc(),
            verf: [7; 8],
        }),
    }
}

pub(crate) fn entry(cookie: u64, name: &[u8]) -> Entry3<'_> {
    Entry3 {
        fileid: cookie,
        name: Filename(name),
        cookie,
    }
}

pub(crate) fn plus(cookie: u64, name: &[u8], attributes: PostOpAttr) -> EntryPlus3<'_> {
    let name_handle = attributes.map(|_| handle(name));
    EntryPlus3 {
        entry: entry(cookie, name),
        name_attributes: attributes,
        name_handle,
    }
}
