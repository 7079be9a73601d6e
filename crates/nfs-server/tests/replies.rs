//! What a call gets that comes again: over the same connection, over another, by a newcomer, after others
//! have filled the reply cache, after the server was started anew.

mod support;

use std::fs::Permissions;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use nfs_client::{Identity, RawConnection};
use nfs_server::exports::ExportTable;
use nfs_wire::nfs3::{
    CreateArgs, CreateHow, DirOpArgs, FileHandle, Filename, LinkArgs, MkdirArgs, MknodArgs,
    Mknoddata, Nfspath3, Nfsstat3, PipeData, Procedure, RemoveArgs, RenameArgs, RmdirArgs, Sattr3,
    SetattrArgs, StableHow, SymlinkArgs, SymlinkData, WriteArgs,
};
use nfs_wire::rpc::ReplyHeader;
use nfs_wire::{Decode, Decoder, Encode};
use support::wire::{self, call};
use support::{Served, block_on, create, mode};
use tokio::io::Interest;

fn call_as(uid: u32, xid: u32, procedure: Procedure, args: &impl Encode) -> Vec<u8> {
    wire::call_as(&Identity::sys(uid, uid, &[]), xid, procedure, args)
}

fn write(xid: u32, file: FileHandle, data: &[u8], stable: StableHow) -> Vec<u8> {
    let args = WriteArgs {
        file,
        offset: 0,
        count: data.len() as u32,
        stable,
        data,
    };
    call(xid, Procedure::Write, &args)
}

fn place<'a>(dir: &FileHandle, name: &'a [u8]) -> DirOpArgs<'a> {
    DirOpArgs {
        dir: *dir,
        name: Filename(name),
    }
}

fn mkdir(xid: u32, dir: &FileHandle, name: &[u8]) -> Vec<u8> {
    let args = MkdirArgs {
        where_: place(dir, name),
        attributes: mode(0o755),
    };
    call(xid, Procedure::Mkdir, &args)
}

fn status_of(reply: &[u8]) -> Nfsstat3 {
    let mut decoder = Decoder::new(reply);
    ReplyHeader::decode(&mut decoder).unwrap();
    Nfsstat3::decode(&mut decoder).unwrap()
}

async fn exchange(connection: &mut RawConnection, body: &[u8]) -> Vec<u8> {
    connection.exchange(body).await.unwrap().unwrap()
}

/// A connection from another address of this host.
async fn connect_from(source: [u8; 4], to: SocketAddr) -> RawConnection {
    RawConnection::from_stream(wire::connect_from(source.into(), to).await.unwrap())
}

/// Waits until the server has seen the end of all connections but `left`.
async fn until_connections(served: &Served, left: u64) {
    while served.server.status().connections > left {
        // SLEEP: a poll of the server's own figure; nothing announces its change.
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    }
}

#[test]
fn a_write_that_comes_again_late_does_not_stand_over_a_later_one() {
    let served = Served::start();
    block_on(async {
        let client = served.client().await;
        let root = served.root(&client).await;
        let mut first = RawConnection::connect(served.addr).await.unwrap();
        let mut second = RawConnection::connect(served.addr).await.unwrap();
        let lens = [1, 1000, 8192, 50_000, 1 << 20];
        for (number, len) in (1_u32..).zip(lens) {
            for stable in [StableHow::Unstable, StableHow::FileSync] {
                let name = format!("f{number}{stable:?}");
                let file = create(&client, &root, name.as_bytes()).await;
                let old = write(number * 2, file, &vec![b'a'; len], stable);
                let new = write(number * 2 + 1, file, &vec![b'b'; len], stable);
                let reply = exchange(&mut first, &old).await;
                assert_eq!(status_of(&reply), Nfsstat3::Ok);
                exchange(&mut first, &new).await;
                assert!(exchange(&mut first, &old).await == reply);
                assert!(exchange(&mut second, &old).await == reply);
                let found = std::fs::read(served.path().join(name)).unwrap();
                assert!(found == vec![b'b'; len], "{len} bytes, {stable:?}");
            }
        }
    });
}

/// A client may have changed a page since it sent it first.
#[test]
fn a_write_is_known_by_its_head() {
    let served = Served::start();
    block_on(async {
        let client = served.client().await;
        let root = served.root(&client).await;
        let file = create(&client, &root, b"f").await;
        let mut raw = RawConnection::connect(served.addr).await.unwrap();
        for len in [100, 50_000] {
            let call = |data: u8| write(5, file, &vec![data; len], StableHow::FileSync);
            let reply = exchange(&mut raw, &call(1)).await;
            assert!(exchange(&mut raw, &call(2)).await == reply);
            let found = std::fs::read(served.path().join("f")).unwrap();
            assert_eq!(&found[..len], vec![1; len]);
        }
        // Another xid, or another length, is another call.
        for (xid, len) in [(6, 100), (5, 101)] {
            exchange(
                &mut raw,
                &write(xid, file, &vec![3; len], StableHow::Unstable),
            )
            .await;
            let found = std::fs::read(served.path().join("f")).unwrap();
            assert_eq!(&found[..len], vec![3; len]);
        }
    });
}

#[test]
fn a_newcomer_gets_no_reply_of_a_client_that_went_away_in_order() {
    let served = Served::start();
    block_on(async {
        let client = served.client().await;
        let root = served.root(&client).await;
        let make = mkdir(1, &root, b"d");
        for _ in 0..3 {
            let mut raw = RawConnection::connect(served.addr).await.unwrap();
            let reply = exchange(&mut raw, &make).await;
            assert_eq!(status_of(&reply), Nfsstat3::Ok);
            // Fails where no directory was made.
            std::fs::remove_dir(served.path().join("d")).unwrap();
            drop(raw);
            until_connections(&served, 1).await;
        }
    });
    assert_eq!(served.counter("replayed_replies"), 0);
}

#[test]
fn who_comes_again_from_another_port_after_a_broken_connection_is_known() {
    let served = Served::start();
    block_on(async {
        let client = served.client().await;
        let root = served.root(&client).await;
        let make = mkdir(1, &root, b"d");
        let mut raw = RawConnection::connect(served.addr).await.unwrap();
        raw.send_record(&make).await.unwrap();
        // The reply is here and is not read: closing the socket resets the connection.
        raw.stream().ready(Interest::READABLE).await.unwrap();
        drop(raw);
        until_connections(&served, 1).await;
        let mut raw = RawConnection::connect(served.addr).await.unwrap();
        let reply = exchange(&mut raw, &make).await;
        assert_eq!(status_of(&reply), Nfsstat3::Ok, "not NFS3ERR_EXIST");
        assert!(exchange(&mut raw, &make).await == reply);
    });
    assert_eq!(served.counter("replayed_replies"), 2);
}

#[test]
fn a_strangers_flood_leaves_the_replies_of_others() {
    const FLOOD: u32 = 20_000;
    let served = Served::start();
    block_on(async {
        let client = served.client().await;
        let root = served.root(&client).await;
        create(&client, &root, b"f").await;
        let object = place(&root, b"f");
        let remove = call(1, Procedure::Remove, &RemoveArgs { object });
        let mut raw = RawConnection::connect(served.addr).await.unwrap();
        let reply = exchange(&mut raw, &remove).await;
        assert_eq!(status_of(&reply), Nfsstat3::Ok);
        let stranger = connect_from([127, 0, 0, 2], served.addr).await;
        flood(stranger, &root, FLOOD).await;
        assert!(exchange(&mut raw, &remove).await == reply);
    });
}

/// This many SETATTRs that change nothing, a hundred at a time.
async fn flood(mut raw: RawConnection, object: &FileHandle, count: u32) {
    for first in (0..count).step_by(100) {
        for xid in first..first + 100 {
            let args = SetattrArgs {
                object: *object,
                new_attributes: Sattr3::default(),
                guard: None,
            };
            let body = call(xid, Procedure::Setattr, &args);
            raw.send_record(&body).await.unwrap();
        }
        for _ in 0..100 {
            let reply = raw.receive_record().await.unwrap().unwrap();
            assert_eq!(status_of(&reply), Nfsstat3::Ok);
        }
    }
}

#[test]
fn a_call_that_was_refused_is_not_remembered() {
    let served = Served::start();
    block_on(async {
        let client = served.client().await;
        let root = served.root(&client).await;
        let mut raw = RawConnection::connect(served.addr).await.unwrap();
        let make = mkdir(1, &root, b"d");
        let mut config = served.config.clone();
        for export in &mut config.exports {
            export.clients.clear();
        }
        let refuse = ExportTable::new(&config).unwrap();
        served.server.apply(refuse).unwrap();
        let reply = exchange(&mut raw, &make).await;
        assert_eq!(status_of(&reply), Nfsstat3::Acces);
        let admit = ExportTable::new(&served.config).unwrap();
        served.server.apply(admit).unwrap();
        let reply = exchange(&mut raw, &make).await;
        assert_eq!(status_of(&reply), Nfsstat3::Ok);
        assert!(served.path().join("d").is_dir());
    });
}

/// One call of each procedure that changes names, each with names of its own in this directory.
fn changes(uid: u32, dir: &FileHandle, file: &FileHandle) -> Vec<Vec<u8>> {
    let at = |name| place(dir, name);
    let create = |name, how| CreateArgs {
        where_: at(name),
        how,
    };
    let mkdir = MkdirArgs {
        where_: at(b"directory"),
        attributes: mode(0o2755),
    };
    let symlink = SymlinkArgs {
        where_: at(b"symlink"),
        symlink: SymlinkData {
            symlink_attributes: Sattr3::default(),
            symlink_data: Nfspath3(b"target"),
        },
    };
    let mknod = MknodArgs {
        where_: at(b"fifo"),
        what: Mknoddata::Fifo(PipeData {
            pipe_attributes: mode(0o600),
        }),
    };
    let link = LinkArgs {
        file: *file,
        link: at(b"link"),
    };
    let rename = RenameArgs {
        from: at(b"old"),
        to: at(b"new"),
    };
    let guarded = create(b"guarded", CreateHow::Guarded(mode(0o644)));
    let exclusive = create(b"exclusive", CreateHow::Exclusive([0xa5; 8]));
    let remove = RemoveArgs {
        object: at(b"removed"),
    };
    let rmdir = RmdirArgs {
        object: at(b"removed.d"),
    };
    vec![
        call_as(uid, 1, Procedure::Create, &guarded),
        call_as(uid, 2, Procedure::Create, &exclusive),
        call_as(uid, 3, Procedure::Mkdir, &mkdir),
        call_as(uid, 4, Procedure::Symlink, &symlink),
        call_as(uid, 5, Procedure::Mknod, &mknod),
        call_as(uid, 6, Procedure::Link, &link),
        call_as(uid, 7, Procedure::Rename, &rename),
        call_as(uid, 8, Procedure::Remove, &remove),
        call_as(uid, 9, Procedure::Rmdir, &rmdir),
    ]
}

/// What the calls need to be there.
fn prepare(directory: &Path) {
    for name in ["file", "old", "removed"] {
        std::fs::write(directory.join(name), name).unwrap();
    }
    std::fs::create_dir(directory.join("removed.d")).unwrap();
}

const CHANGED: [&str; 8] = [
    "directory",
    "exclusive",
    "fifo",
    "file",
    "guarded",
    "link",
    "new",
    "symlink",
];

fn names(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<_> = names.collect();
    names.sort();
    names
}

async fn file_of(served: &Served) -> (FileHandle, FileHandle) {
    let client = served.client().await;
    let root = served.root(&client).await;
    let file = support::lookup(&client, &root, b"file").await;
    (root, file)
}

/// The server's next life. What a kill leaves of the server's own files, an end in order leaves too.
fn restarted(served: Served) -> Served {
    let (files, state) = served.stop();
    Served::over(files, Some(state), |_config| {})
}

#[test]
fn a_call_that_was_carried_out_before_a_restart_is_not_run_twice() {
    let served = Served::start();
    prepare(served.path());
    block_on(async {
        let (root, file) = file_of(&served).await;
        let calls = changes(0, &root, &file);
        let mut raw = RawConnection::connect(served.addr).await.unwrap();
        for call in &calls {
            let reply = exchange(&mut raw, call).await;
            assert_eq!(status_of(&reply), Nfsstat3::Ok, "{call:?}");
        }
        assert_eq!(names(served.path()), CHANGED);
        let mut served = served;
        for life in 0..2 {
            served = restarted(served);
            let mut raw = RawConnection::connect(served.addr).await.unwrap();
            for (number, call) in (1..).zip(&calls) {
                let reply = exchange(&mut raw, call).await;
                let case = format!("call {number} in life {life}");
                assert_eq!(status_of(&reply), Nfsstat3::Ok, "{case}");
                assert!(exchange(&mut raw, call).await == reply, "{case}");
            }
            assert_eq!(names(served.path()), CHANGED);
        }
        // Somebody else's objects under the same names are not touched.
        let removed = [
            ("removed", calls[7].clone()),
            ("removed.d", calls[8].clone()),
        ];
        let served = restarted(served);
        let mut raw = RawConnection::connect(served.addr).await.unwrap();
        std::fs::write(served.path().join("removed"), "another's").unwrap();
        std::fs::create_dir(served.path().join("removed.d")).unwrap();
        for (name, call) in removed {
            assert_eq!(status_of(&exchange(&mut raw, &call).await), Nfsstat3::Ok);
            assert!(served.path().join(name).exists(), "{name}");
        }
    });
}

fn give_to(user: u32, directory: &Path, names: &[&str]) {
    for name in names {
        std::os::unix::fs::lchown(directory.join(name), Some(user), Some(user)).unwrap();
    }
}

/// A call that was refused has noted what it found, and nothing of what it did: as one has that was killed
/// in the middle, once the change is made by hand.
#[test]
fn a_call_that_was_cut_off_by_a_kill_is_finished() {
    const USER: u32 = 1000;
    if !support::is_root() {
        support::skip!("only root can act as another user");
    }
    let served = Served::start();
    prepare(served.path());
    give_to(
        USER,
        served.path(),
        &["file", "old", "removed", "removed.d"],
    );
    block_on(async {
        let (root, file) = file_of(&served).await;
        let calls = changes(USER, &root, &file);
        let mut raw = RawConnection::connect(served.addr).await.unwrap();
        for (number, call) in (1..).zip(&calls) {
            let reply = exchange(&mut raw, call).await;
            assert_eq!(status_of(&reply), Nfsstat3::Acces, "call {number}");
        }
        let path = |name: &str| served.path().join(name);
        std::fs::write(path("guarded"), "").unwrap();
        std::fs::write(path("exclusive"), "").unwrap();
        std::fs::create_dir(path("directory")).unwrap();
        std::os::unix::fs::symlink("target", path("symlink")).unwrap();
        let fifo = rustix::fs::FileType::Fifo;
        let private = rustix::fs::Mode::from(0o600);
        rustix::fs::mknodat(rustix::fs::CWD, path("fifo"), fifo, private, 0).unwrap();
        std::fs::hard_link(path("file"), path("link")).unwrap();
        std::fs::rename(path("old"), path("new")).unwrap();
        std::fs::remove_file(path("removed")).unwrap();
        std::fs::remove_dir(path("removed.d")).unwrap();
        let made = ["guarded", "exclusive", "directory", "symlink", "fifo"];
        give_to(USER, served.path(), &made);
        std::fs::set_permissions(served.path(), Permissions::from_mode(0o777)).unwrap();
        let served = restarted(served);
        let mut raw = RawConnection::connect(served.addr).await.unwrap();
        for (number, call) in (1..).zip(&calls) {
            let reply = exchange(&mut raw, call).await;
            assert_eq!(status_of(&reply), Nfsstat3::Ok, "call {number}");
        }
        assert_eq!(names(served.path()), CHANGED);
        let made = std::fs::metadata(served.path().join("directory")).unwrap();
        assert_eq!(made.permissions().mode() & 0o7777, 0o2755, "finished");
        // The exclusive CREATE has its verifier now: another xid is known by it.
        let exclusive = CreateArgs {
            where_: place(&root, b"exclusive"),
            how: CreateHow::Exclusive([0xa5; 8]),
        };
        let again = call_as(USER, 20, Procedure::Create, &exclusive);
        assert_eq!(status_of(&exchange(&mut raw, &again).await), Nfsstat3::Ok);
    });
}

/// The state is as after a cut of the power: what was not flushed is gone, and the server's own file is not.
#[test]
fn a_change_that_was_lost_is_made_again() {
    let served = Served::start();
    prepare(served.path());
    block_on(async {
        let (root, file) = file_of(&served).await;
        let calls = changes(0, &root, &file);
        let mut raw = RawConnection::connect(served.addr).await.unwrap();
        for call in &calls {
            exchange(&mut raw, call).await;
        }
        let path = |name: &str| served.path().join(name);
        for name in ["guarded", "exclusive", "symlink", "fifo", "link"] {
            std::fs::remove_file(path(name)).unwrap();
        }
        std::fs::remove_dir(path("directory")).unwrap();
        std::fs::rename(path("new"), path("old")).unwrap();
        let served = restarted(served);
        let mut raw = RawConnection::connect(served.addr).await.unwrap();
        for (number, call) in (1..).zip(&calls) {
            let reply = exchange(&mut raw, call).await;
            assert_eq!(status_of(&reply), Nfsstat3::Ok, "call {number}");
        }
        assert_eq!(names(served.path()), CHANGED);
    });
}

#[test]
fn what_another_call_made_before_a_restart_is_not_taken_for_ones_own() {
    const USER: u32 = 1000;
    if !support::is_root() {
        support::skip!("only root can act as another user");
    }
    let served = Served::start();
    block_on(async {
        let client = served.client().await;
        let root = served.root(&client).await;
        let args = MkdirArgs {
            where_: place(&root, b"d"),
            attributes: mode(0o755),
        };
        let mut raw = RawConnection::connect(served.addr).await.unwrap();
        let cut_off = call_as(USER, 1, Procedure::Mkdir, &args);
        assert_eq!(
            status_of(&exchange(&mut raw, &cut_off).await),
            Nfsstat3::Acces
        );
        let made = mkdir(2, &root, b"d");
        assert_eq!(status_of(&exchange(&mut raw, &made).await), Nfsstat3::Ok);
        std::fs::set_permissions(served.path(), Permissions::from_mode(0o777)).unwrap();
        let served = restarted(served);
        let mut raw = RawConnection::connect(served.addr).await.unwrap();
        assert_eq!(
            status_of(&exchange(&mut raw, &cut_off).await),
            Nfsstat3::Exist
        );
        assert_eq!(status_of(&exchange(&mut raw, &made).await), Nfsstat3::Ok);
    });
}

#[test]
fn a_newcomer_after_a_restart_is_one_too() {
    let served = Served::start();
    block_on(async {
        let client = served.client().await;
        let root = served.root(&client).await;
        let make = mkdir(1, &root, b"d");
        let mut raw = RawConnection::connect(served.addr).await.unwrap();
        exchange(&mut raw, &make).await;
        drop(raw);
        until_connections(&served, 1).await;
        let served = restarted(served);
        let mut raw = RawConnection::connect(served.addr).await.unwrap();
        assert_eq!(status_of(&exchange(&mut raw, &make).await), Nfsstat3::Exist);
    });
}

/// A state directory without room for the notes.
#[test]
fn without_notes_calls_are_carried_out_all_the_same() {
    let state = support::scratch(0o700);
    std::fs::create_dir(state.path().join("calls.notes")).unwrap();
    let served = Served::over(support::scratch(0o755), Some(state), |_config| {});
    prepare(served.path());
    block_on(async {
        let (root, file) = file_of(&served).await;
        let mut raw = RawConnection::connect(served.addr).await.unwrap();
        for call in &changes(0, &root, &file) {
            let reply = exchange(&mut raw, call).await;
            assert_eq!(status_of(&reply), Nfsstat3::Ok);
            assert!(exchange(&mut raw, call).await == reply);
        }
        assert_eq!(names(served.path()), CHANGED);
    });
}
