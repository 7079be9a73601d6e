//! Programs of this machine: whom the server believes over loopback. The clients are this process's
//! under another file-system identity, which is what the kernel takes a socket's owner from.

mod support;

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, SocketAddrV4, TcpStream};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;
use std::time::{Duration, Instant};

use bytes::Bytes;
use nfs_client::{Identity, Nfs3, RawConnection};
use nfs_io::identity::run_as;
use nfs_io::{Creds, LocalGid, LocalUid};
use nfs_server::exports::config::SquashKind;
use nfs_wire::nfs3::{
    CreateArgs, CreateHow, DirOpArgs, FileHandle, Filename, Nfsstat3, Procedure, Sattr3, StableHow,
};
use nfs_wire::rpc::ReplyHeader;
use nfs_wire::{Decode as _, Decoder};
use rustix::net::{AddressFamily, SocketType, sockopt};
use support::wire::record;
use support::{Served, block_on, connect, create, is_root, lookup, mode, mount, ok, skip, status};

const ALICE: u32 = 4711;
const BOB: u32 = 4712;
const STAFF: u32 = 4800;
const NOBODY: u32 = 65534;

/// Runs `work` as a program of this user's would run: what it connects is that user's.
fn as_user<T>(uid: u32, work: impl FnOnce() -> T) -> T {
    let creds = Creds::new(LocalUid(uid), LocalGid(uid), &[]);
    run_as(&creds, || Ok(work())).unwrap()
}

/// A client of this user's that says it is `claim`, and the root's handle, which `/` gives to all.
async fn client(served: &Served, claim: Identity) -> (Nfs3, FileHandle) {
    let client = connect(served.addr, claim).await;
    let root = mount(&client, b"/").await.unwrap();
    (client, root)
}

fn open_to_all(path: &Path) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o777)).unwrap();
}

fn file(path: &Path, owner: u32, group: u32, mode: u32) {
    std::fs::write(path, b"contents").unwrap();
    chown(path, Some(owner), Some(group)).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

fn owner_of(path: &Path) -> (u32, u32) {
    let made = path.symlink_metadata().unwrap();
    (made.uid(), made.gid())
}

#[test]
fn a_local_user_who_claims_to_be_another_is_itself() {
    if !is_root() {
        skip!("connecting as other users needs root");
    }
    let served = Served::start();
    open_to_all(served.path());
    file(&served.path().join("roots"), 0, 0, 0o700);
    file(&served.path().join("bobs"), BOB, STAFF, 0o640);
    for (claimed, gids) in [(0, &[0][..]), (BOB, &[STAFF]), (ALICE, &[0, STAFF])] {
        let claim = Identity::sys(claimed, claimed, gids);
        as_user(ALICE, || {
            block_on(async {
                let (client, root) = client(&served, claim).await;
                let roots = lookup(&client, &root, b"roots").await;
                let bobs = lookup(&client, &root, b"bobs").await;
                let setuid = client.setattr(&roots, &mode(0o4755), None).await;
                assert_eq!(status(setuid), Nfsstat3::Perm);
                let mine = Sattr3 {
                    uid: Some(ALICE),
                    ..Sattr3::default()
                };
                let given = client.setattr(&roots, &mine, None).await;
                assert_eq!(status(given), Nfsstat3::Perm);
                for secret in [&roots, &bobs] {
                    let read = client.read(secret, 0, 9).await;
                    assert_eq!(status(read), Nfsstat3::Acces);
                    let data = Bytes::from_static(b"C");
                    let written = client.write(secret, 0, StableHow::Unstable, data).await;
                    assert_eq!(status(written), Nfsstat3::Acces);
                }
                let setuid = CreateHow::Guarded(mode(0o4755));
                ok(client.create(&root, b"f", &setuid).await);
                ok(client.mkdir(&root, b"d", &mode(0o755)).await);
            });
        });
        // This machine has no user of that number, so no group of its own either.
        for name in ["f", "d"] {
            let path = served.path().join(name);
            assert_eq!(owner_of(&path), (ALICE, NOBODY), "{claimed}");
        }
        std::fs::remove_file(served.path().join("f")).unwrap();
        std::fs::remove_dir(served.path().join("d")).unwrap();
    }
    let roots = served.path().join("roots").metadata().unwrap();
    assert_eq!((roots.mode() & 0o7777, roots.uid()), (0o700, 0));
}

#[test]
fn roots_socket_may_claim_anybody() {
    if !is_root() {
        skip!("acting as other users needs root");
    }
    let served = Served::start();
    open_to_all(served.path());
    block_on(async {
        let (client, root) = client(&served, Identity::sys(ALICE, STAFF, &[])).await;
        create(&client, &root, b"f").await;
    });
    assert_eq!(owner_of(&served.path().join("f")), (ALICE, STAFF));
}

#[test]
fn groups_are_those_of_this_machines_user_database() {
    if !is_root() {
        skip!("connecting as other users needs root");
    }
    // Who is neither root nor in the claim, and in a group.
    let known = (1..100).find_map(|uid| {
        let gids = nfs_io::accounts::group_list(uid).unwrap()?;
        Some((uid, *gids.first()?)).filter(|(_, gid)| *gid != 0)
    });
    let Some((uid, gid)) = known else {
        skip!("this machine's user database has no user below 100");
    };
    let served = Served::start();
    open_to_all(served.path());
    file(&served.path().join("ours"), BOB, gid, 0o640);
    file(&served.path().join("theirs"), BOB, STAFF, 0o640);
    as_user(uid, || {
        block_on(async {
            let (client, root) = client(&served, Identity::sys(uid, STAFF, &[STAFF])).await;
            let ours = lookup(&client, &root, b"ours").await;
            let theirs = lookup(&client, &root, b"theirs").await;
            assert_eq!(status(client.read(&ours, 0, 9).await), Nfsstat3::Ok);
            assert_eq!(status(client.read(&theirs, 0, 9).await), Nfsstat3::Acces);
            create(&client, &root, b"f").await;
        });
    });
    assert_eq!(owner_of(&served.path().join("f")), (uid, gid));
}

#[test]
fn the_exports_rule_holds_for_local_users_too() {
    if !is_root() {
        skip!("connecting as other users needs root");
    }
    for (kind, expected) in [
        (SquashKind::Root, (ALICE, STAFF)),
        (SquashKind::All, (BOB, STAFF)),
    ] {
        let served = Served::with(|config| {
            for client in &mut config.exports[0].clients {
                client.squash = kind;
                client.anonuid = BOB;
                client.anongid = STAFF;
                // Tells nothing that the kernel has not told.
                client.privileged_port = true;
            }
        });
        open_to_all(served.path());
        as_user(ALICE, || {
            block_on(async {
                let (client, root) = client(&served, Identity::sys(0, 0, &[])).await;
                create(&client, &root, b"f").await;
                let nobody = client.with_identity(Identity::none());
                create(&nobody, &root, b"g").await;
            });
        });
        assert_eq!(owner_of(&served.path().join("f")), expected, "{kind:?}");
        assert_eq!(owner_of(&served.path().join("g")), (BOB, STAFF), "{kind:?}");
    }
}

#[test]
fn who_trusts_loopback_believes_as_before() {
    if !is_root() {
        skip!("connecting as other users needs root");
    }
    let served = Served::with(|config| config.server.trust_loopback = true);
    open_to_all(served.path());
    as_user(ALICE, || {
        block_on(async {
            let (client, root) = client(&served, Identity::sys(0, STAFF, &[])).await;
            create(&client, &root, b"f").await;
        });
    });
    assert_eq!(owner_of(&served.path().join("f")), (0, STAFF));
}

#[test]
fn who_is_connected_is_told_with_its_user() {
    if !is_root() {
        skip!("connecting as other users needs root");
    }
    let served = Served::start();
    let users = || {
        let clients = served.server.clients();
        let users: Vec<_> = clients.into_iter().map(|client| client.user).collect();
        users
    };
    as_user(ALICE, || {
        block_on(async {
            let _alice = client(&served, Identity::sys(0, 0, &[])).await;
            assert_eq!(users(), [Some(ALICE.to_string())]);
        });
    });
}

/// The record by which somebody who says they are root makes the file `name`.
fn create_as_root(xid: u32, dir: &FileHandle, name: &str) -> Vec<u8> {
    let args = CreateArgs {
        where_: DirOpArgs {
            dir: *dir,
            name: Filename(name.as_bytes()),
        },
        how: CreateHow::Guarded(mode(0o4755)),
    };
    record(xid, Procedure::Create, &args)
}

/// The reply cache knows calls by their bytes, and those can be copied.
#[test]
fn another_users_call_sent_word_for_word_is_ones_own() {
    if !is_root() {
        skip!("connecting as other users needs root");
    }
    let served = Served::start();
    let root = block_on(async { client(&served, Identity::sys(0, 0, &[])).await.1 });
    // The connections stay: after an end in order a repetition is a newcomer's in any case.
    let connect = |uid| as_user(uid, || TcpStream::connect(served.addr).unwrap());
    let raw = |stream: TcpStream| {
        stream.set_nonblocking(true).unwrap();
        RawConnection::from_stream(tokio::net::TcpStream::from_std(stream).unwrap())
    };
    block_on(async {
        let (mut roots, mut alices) = (raw(connect(0)), raw(connect(ALICE)));
        // Neither is she handed what root was told, nor does she take root's turn away.
        assert_eq!(send(&mut roots, &root, 1).await, Nfsstat3::Ok);
        assert_ne!(send(&mut alices, &root, 1).await, Nfsstat3::Ok);
        assert_eq!(send(&mut alices, &root, 2).await, Nfsstat3::Acces);
        assert_eq!(send(&mut roots, &root, 2).await, Nfsstat3::Ok);
    });
}

/// The status of a call that makes a file as root, with always the same bytes for the same number.
async fn send(raw: &mut RawConnection, dir: &FileHandle, xid: u32) -> Nfsstat3 {
    let record = create_as_root(xid, dir, &format!("f{xid}"));
    let reply = raw.exchange(&record[4..]).await.unwrap().unwrap();
    let mut decoder = Decoder::new(&reply);
    ReplyHeader::decode(&mut decoder).unwrap();
    Nfsstat3::decode(&mut decoder).unwrap()
}

/// Until every call of connections that are gone has ended, so that all files are there which they make.
fn until_all_is_done(served: &Served) {
    let deadline = Instant::now() + Duration::from_secs(60);
    let busy = || {
        let status = served.server.status();
        let jobs = ["helper_jobs_running", "helper_jobs_queued"].map(|job| status.counters[job]);
        status.connections > 0 || jobs.iter().any(|jobs| *jobs > 0)
    };
    while busy() {
        assert!(Instant::now() < deadline, "connections do not end");
        // SLEEP: between two looks.
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// How many files there are. Asserts that none is root's, whatever the calls that made them said.
#[track_caller]
fn files_of_no_superuser(served: &Served) -> usize {
    let entries = std::fs::read_dir(served.path()).unwrap();
    let mut made = 0;
    for entry in entries {
        let (uid, _) = owner_of(&entry.unwrap().path());
        assert!([ALICE, NOBODY].contains(&uid), "a file of user {uid}");
        made += 1;
    }
    made
}

fn root_handle(served: &Served) -> FileHandle {
    open_to_all(served.path());
    block_on(async { client(served, Identity::sys(0, 0, &[])).await.1 })
}

fn connect_from(port: u16, to: SocketAddr) -> std::io::Result<TcpStream> {
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    rustix::net::bind(&socket, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, port))?;
    rustix::net::connect(&socket, &to)?;
    Ok(TcpStream::from(socket))
}

/// The socket of a program that is gone has no owner any more when the server asks, and the kernel says 0 for
/// some of them.
#[test]
fn who_sends_a_call_and_is_gone_at_once_is_not_root() {
    if !is_root() {
        skip!("connecting as other users needs root");
    }
    for address in ["127.0.0.1:0", "[::1]:0"] {
        let served = Served::on(address);
        let root = root_handle(&served);
        as_user(ALICE, || {
            for turn in 0..400 {
                let Ok(mut stream) = TcpStream::connect(served.addr) else {
                    continue;
                };
                let record = create_as_root(turn, &root, &format!("f{turn}"));
                stream.write_all(&record).unwrap();
                match turn % 4 {
                    0 => {}
                    1 => stream.shutdown(Shutdown::Write).unwrap(),
                    2 => stream.shutdown(Shutdown::Both).unwrap(),
                    // It goes with a reset.
                    _ => sockopt::set_socket_linger(&stream, Some(Duration::ZERO)).unwrap(),
                }
            }
        });
        until_all_is_done(&served);
        assert!(files_of_no_superuser(&served) > 0, "no call arrived");
    }
}

#[test]
fn who_leaves_the_port_to_root_is_not_root() {
    if !is_root() {
        skip!("connecting as other users needs root");
    }
    let served = Served::start();
    let root = root_handle(&served);
    let mut taken_over = 0;
    for turn in 0..400 {
        let port = as_user(ALICE, || {
            let mut stream = connect_from(0, served.addr).unwrap();
            let record = create_as_root(turn, &root, &format!("f{turn}"));
            stream.write_all(&record).unwrap();
            sockopt::set_socket_linger(&stream, Some(Duration::ZERO)).unwrap();
            stream.local_addr().unwrap().port()
        });
        // Held until the server has looked at both.
        if let Ok(mut stream) = connect_from(port, served.addr) {
            taken_over += 1;
            stream.shutdown(Shutdown::Write).unwrap();
            let mut nothing = Vec::new();
            stream.read_to_end(&mut nothing).unwrap();
        }
    }
    until_all_is_done(&served);
    files_of_no_superuser(&served);
    assert!(taken_over > 0, "root never got the port");
}
