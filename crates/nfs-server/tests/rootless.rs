//! A server without any right beyond its user's: handles from the persistent table, everybody's
//! calls as the server's own user. It runs as a process of its own, so that it can be killed.

mod support;

use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use nfs_client::{Identity, Nfs3};
use nfs_io::identity::run_as;
use nfs_io::{Creds, LocalGid, LocalUid};
use nfs_lab::Running;
use nfs_wire::mount3::Mountstat3;
use nfs_wire::nfs3::{CreateHow, FileHandle, Nfsstat3, Sattr3, StableHow};
use rustix::process::Signal;
use support::links::{check_links, plant_links};
use support::moved::check_moved;
use support::process::{self, Starting, as_server, copy_of_this_program};
use support::{block_on, connect, create, lookup, mkdir, mode, mount, ok, skip, status};
use tempfile::TempDir;

const NOBODY: u32 = 65534;
/// How long a killed server may take to be gone.
const KILL_DEADLINE: Duration = Duration::from_secs(60);

/// Not a test of its own: what the other tests start as another user.
#[test]
fn be_the_server() {
    process::be_the_server(
        |_export| {},
        |server| {
            assert!(!nfs_io::identity::can_switch());
            assert_eq!(server.status().handles, "table");
        },
    );
}

/// A server process over a directory of its own user; killed with the test.
struct Rootless {
    /// This very program, where the server's user may run it.
    program: Arc<(TempDir, PathBuf)>,
    files: Arc<TempDir>,
    state: TempDir,
    process: Running,
    addr: SocketAddr,
}

impl Rootless {
    fn start() -> Self {
        let owned = |mode| {
            let dir = support::scratch(mode);
            if support::is_root() {
                std::os::unix::fs::chown(dir.path(), Some(NOBODY), Some(NOBODY)).unwrap();
            }
            dir
        };
        let (files, state) = (owned(0o755), owned(0o700));
        let program = copy_of_this_program();
        let (process, addr) = spawn(&program.1, &files, &state);
        Self {
            program: Arc::new(program),
            files: Arc::new(files),
            state,
            process,
            addr,
        }
    }

    /// A second server of the same files, on a copy of the state directory of one that does not run.
    fn over_copies_of(first: &Self) -> Self {
        let state = support::scratch(0o700);
        for name in ["handle.key", "handles.redb"] {
            let copy = state.path().join(name);
            std::fs::copy(first.state.path().join(name), &copy).unwrap();
            first.give(&copy);
        }
        first.give(state.path());
        let (program, files) = (Arc::clone(&first.program), Arc::clone(&first.files));
        let (process, addr) = spawn(&program.1, &files, &state);
        Self {
            program,
            files,
            state,
            process,
            addr,
        }
    }

    fn kill(&mut self) {
        self.process.signal(Signal::KILL);
        self.process.wait(KILL_DEADLINE).unwrap();
    }

    fn start_again(&mut self) {
        (self.process, self.addr) = spawn(&self.program.1, &self.files, &self.state);
    }

    fn path(&self) -> &Path {
        self.files.path()
    }

    fn table(&self) -> std::path::PathBuf {
        self.state.path().join("handles.redb")
    }

    /// Makes a file on the server's own host whose contents are its name.
    fn plant(&self, name: &str) {
        let path = self.path().join(name);
        std::fs::write(&path, name).unwrap();
        self.give(&path);
    }

    /// Gives a file to the server's user.
    fn give(&self, path: &Path) {
        if support::is_root() {
            std::os::unix::fs::chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
        }
    }

    async fn client(&self) -> Nfs3 {
        // Whoever one says to be, one is the server's user.
        connect(self.addr, Identity::sys(1234, 1234, &[1, 2])).await
    }
}

fn spawn(program: &Path, files: &TempDir, state: &TempDir) -> (Running, SocketAddr) {
    let mut command = Command::new(program);
    if support::is_root() {
        // Leaving uid 0 leaves all capabilities behind.
        command.uid(NOBODY).gid(NOBODY);
    }
    let command = as_server(&mut command, files.path(), state.path());
    let (process, addr, _) = Starting::new(command).until_it_listens();
    (process, addr)
}

async fn root(client: &Nfs3) -> FileHandle {
    mount(client, b"/").await.unwrap()
}

async fn write(client: &Nfs3, file: &FileHandle, data: &'static [u8]) -> Nfsstat3 {
    status(
        client
            .write(file, 0, StableHow::FileSync, Bytes::from_static(data))
            .await,
    )
}

async fn contents(client: &Nfs3, file: &FileHandle) -> Vec<u8> {
    ok(client.read(file, 0, 1000).await).data.to_vec()
}

#[test]
fn all_that_its_user_may_do_works() {
    let served = Rootless::start();
    block_on(async {
        let client = served.client().await;
        let root = root(&client).await;
        let f = create(&client, &root, b"f").await;
        assert_eq!(write(&client, &f, b"data").await, Nfsstat3::Ok);
        ok(client.commit(&f, 0, 0).await);
        let d = mkdir(&client, &root, b"d").await;
        ok(client.symlink(&d, b"l", &Sattr3::default(), b"../f").await);
        let l = lookup(&client, &d, b"l").await;
        assert_eq!(ok(client.readlink(&l).await).data, b"../f");
        ok(client.link(&f, &d, b"g").await);
        assert_eq!(lookup(&client, &d, b"g").await, f);
        assert_eq!(lookup(&client, &d, b"..").await, root);
        assert_eq!(lookup(&client, &root, b"..").await, root);
        ok(client.rename(&root, b"f", &d, b"h").await);
        assert_eq!(contents(&client, &f).await, b"data");
        let whole = ok(client.readdirplus(&d, 0, [0; 8], 8192, 8192).await);
        for entry in whole
            .entries
            .iter()
            .filter(|entry| entry.name.len() == 1 && entry.name != b".")
        {
            assert_eq!(
                entry.name_handle,
                Some(lookup(&client, &d, &entry.name).await)
            );
        }
        ok(client.setattr(&f, &mode(0o600), None).await);
        ok(client.remove(&d, b"g").await);
        assert_eq!(contents(&client, &f).await, b"data");
        ok(client.remove(&d, b"h").await);
        assert_eq!(status(client.getattr(&f).await), Nfsstat3::Stale);
        ok(client.remove(&d, b"l").await);
        ok(client.rmdir(&root, b"d").await);
        assert_eq!(status(client.getattr(&d).await), Nfsstat3::Stale);
        assert_eq!(status(client.lookup(&d, b"x").await), Nfsstat3::Stale);
        // An owner that the server cannot give is no reason not to make the file.
        let set = Sattr3 {
            mode: Some(0o640),
            uid: Some(1234),
            gid: Some(1234),
            ..Sattr3::default()
        };
        ok(client
            .create(&root, b"owned", &CreateHow::Guarded(set))
            .await);
        let made = served.path().join("owned").metadata().unwrap();
        if support::is_root() {
            assert_eq!((made.uid(), made.gid()), (NOBODY, NOBODY));
        }
        assert_eq!(made.mode() & 0o7777, 0o640);
    });
}

#[test]
fn a_file_made_read_only_can_still_be_filled() {
    // What git does: objects are made with mode 0444 and then written.
    let served = Rootless::start();
    block_on(async {
        let client = served.client().await;
        let root = root(&client).await;
        let how = CreateHow::Exclusive(*b"verifier");
        let f = ok(client.create(&root, b"f", &how).await).obj.unwrap();
        ok(client.setattr(&f, &mode(0o444), None).await);
        assert_eq!(write(&client, &f, b"data").await, Nfsstat3::Ok);
        ok(client.commit(&f, 0, 0).await);
        assert_eq!(contents(&client, &f).await, b"data");
        let how = CreateHow::Unchecked(mode(0o400));
        let g = ok(client.create(&root, b"g", &how).await).obj.unwrap();
        assert_eq!(write(&client, &g, b"more").await, Nfsstat3::Ok);
        // And after a COMMIT, which closes what could be opened again.
        for (file, data) in [(&f, b"DATA"), (&g, b"MORE")] {
            ok(client.commit(file, 0, 0).await);
            assert_eq!(write(&client, file, data).await, Nfsstat3::Ok);
            assert_eq!(contents(&client, file).await, data);
        }
    });
}

#[test]
fn handles_survive_kill_and_restart_wherever_the_file_went() {
    let mut served = Rootless::start();
    let (all, gone) = block_on(async {
        let client = served.client().await;
        let root = root(&client).await;
        let a = mkdir(&client, &root, b"a").await;
        let b = mkdir(&client, &a, b"b").await;
        let stays = create(&client, &b, b"stays").await;
        let moved = create(&client, &root, b"moved").await;
        let linked = create(&client, &root, b"linked").await;
        let gone = create(&client, &root, b"gone").await;
        for (file, data) in [
            (stays, &b"stays"[..]),
            (moved, b"moved"),
            (linked, b"linked"),
        ] {
            assert_eq!(write(&client, &file, data).await, Nfsstat3::Ok);
        }
        ok(client.rename(&root, b"moved", &b, b"elsewhere").await);
        ok(client.link(&linked, &a, b"other-name").await);
        ok(client.remove(&root, b"linked").await);
        // A directory moves with all that is in it.
        ok(client.rename(&root, b"a", &root, b"c").await);
        ok(client.remove(&root, b"gone").await);
        ([root, a, b, stays, moved, linked], gone)
    });
    for _ in 0..3 {
        served.kill();
        served.start_again();
        block_on(async {
            let client = served.client().await;
            let [root, a, b, stays, moved, linked] = all;
            assert_eq!(self::root(&client).await, root);
            assert_eq!(contents(&client, &stays).await, b"stays");
            assert_eq!(contents(&client, &moved).await, b"moved");
            assert_eq!(contents(&client, &linked).await, b"linked");
            assert_eq!(lookup(&client, &root, b"c").await, a);
            assert_eq!(lookup(&client, &b, b"..").await, a);
            assert_eq!(lookup(&client, &a, b"other-name").await, linked);
            assert_eq!(lookup(&client, &b, b"elsewhere").await, moved);
            assert_eq!(status(client.getattr(&gone).await), Nfsstat3::Stale);
        });
    }
}

#[test]
fn names_that_come_and_go_at_once_keep_their_handles() {
    let served = Rootless::start();
    block_on(async {
        let client = served.client().await;
        let root = root(&client).await;
        let local = tokio::task::LocalSet::new();
        local
            .run_until(async {
                let worker = |number: usize| {
                    let client = client.clone();
                    tokio::task::spawn_local(async move {
                        let name = format!("name-{}", number % 3).into_bytes();
                        for _ in 0..10 {
                            let how = CreateHow::Guarded(mode(0o600));
                            match client.create(&root, &name, &how).await.unwrap() {
                                Ok(made) => {
                                    // Ours alone to remove: whoever removes before us breaks this.
                                    ok(client.getattr(&made.obj.unwrap()).await);
                                    ok(client.remove(&root, &name).await);
                                }
                                Err(failure) => assert_eq!(failure.status, Nfsstat3::Exist),
                            }
                        }
                    })
                };
                let workers: Vec<_> = (0..12).map(worker).collect();
                for worker in workers {
                    worker.await.unwrap();
                }
            })
            .await;
    });
}

/// How many files each side of the next tests has: enough that ids given again meet.
const FILES: usize = 50;

/// Names `FILES` files, made on the server's own host with their name as contents, and their handles.
async fn found(served: &Rootless, client: &Nfs3, prefix: &str) -> Vec<(String, FileHandle)> {
    let root = root(client).await;
    let mut handles = Vec::new();
    for number in 0..FILES {
        let name = format!("{prefix}{number}");
        served.plant(&name);
        handles.push((name.clone(), lookup(client, &root, name.as_bytes()).await));
    }
    handles
}

/// Every handle is stale, or is that of the file it was given for; nothing is written elsewhere.
async fn name_nobody_else(served: &Rootless, client: &Nfs3, handles: &[(String, FileHandle)]) {
    for (name, handle) in handles {
        let read = client.read(handle, 0, 1000).await.unwrap();
        match read {
            Ok(read) => assert_eq!(read.data, name.as_bytes(), "another file was read"),
            Err(failure) => {
                assert_eq!(failure.status, Nfsstat3::Stale, "{name}");
                assert_eq!(write(client, handle, b"overwritten").await, Nfsstat3::Stale);
            }
        }
    }
    for entry in std::fs::read_dir(served.path()).unwrap() {
        let entry = entry.unwrap();
        let contents = std::fs::read(entry.path()).unwrap();
        assert_eq!(contents, entry.file_name().as_encoded_bytes());
    }
}

async fn are_stale(client: &Nfs3, handles: &[(String, FileHandle)]) {
    for (name, handle) in handles {
        let answer = status(client.getattr(handle).await);
        assert_eq!(answer, Nfsstat3::Stale, "{name}");
    }
}

#[test]
fn handles_of_a_lost_table_are_stale_and_name_nobody_elses_file() {
    let mut served = Rootless::start();
    let old = block_on(async { found(&served, &served.client().await, "old").await });
    served.kill();
    std::fs::remove_file(served.table()).unwrap();
    served.start_again();
    block_on(async {
        let client = served.client().await;
        let strangers = found(&served, &client, "stranger").await;
        name_nobody_else(&served, &client, &old).await;
        are_stale(&client, &old).await;
        name_nobody_else(&served, &client, &strangers).await;
        // Who looks again gets a handle that works.
        let root = root(&client).await;
        let again = lookup(&client, &root, b"old7").await;
        assert_eq!(contents(&client, &again).await, b"old7");
    });
}

#[test]
fn handles_given_after_a_copy_that_is_restored_are_stale_and_name_nobody_elses_file() {
    let mut served = Rootless::start();
    let known = block_on(async { found(&served, &served.client().await, "known").await });
    served.kill();
    let copy = served.state.path().join("copy");
    std::fs::copy(served.table(), &copy).unwrap();
    served.start_again();
    let after = block_on(async { found(&served, &served.client().await, "after").await });
    served.kill();
    std::fs::rename(&copy, served.table()).unwrap();
    if support::is_root() {
        std::os::unix::fs::chown(served.table(), Some(NOBODY), Some(NOBODY)).unwrap();
    }
    served.start_again();
    block_on(async {
        let client = served.client().await;
        let strangers = found(&served, &client, "stranger").await;
        name_nobody_else(&served, &client, &after).await;
        are_stale(&client, &after).await;
        // What the copy knows goes on.
        for (name, handle) in known.iter().chain(&strangers) {
            assert_eq!(contents(&client, handle).await, name.as_bytes());
        }
    });
}

#[test]
fn two_servers_on_copies_of_one_state_directory_name_no_wrong_file() {
    let mut served = Rootless::start();
    let known = block_on(async { found(&served, &served.client().await, "known").await });
    served.kill();
    let other = Rootless::over_copies_of(&served);
    served.start_again();
    block_on(async {
        let (here, there) = (served.client().await, other.client().await);
        let mine = found(&served, &here, "here").await;
        let theirs = found(&other, &there, "there").await;
        name_nobody_else(&other, &there, &mine).await;
        name_nobody_else(&served, &here, &theirs).await;
        name_nobody_else(&other, &there, &known).await;
    });
}

#[test]
fn handles_of_a_lost_key_are_stale() {
    let mut served = Rootless::start();
    let old = block_on(async { found(&served, &served.client().await, "old").await });
    served.kill();
    std::fs::remove_file(served.state.path().join("handle.key")).unwrap();
    served.start_again();
    block_on(async {
        let client = served.client().await;
        are_stale(&client, &old).await;
        let root = root(&client).await;
        lookup(&client, &root, b"old7").await;
    });
}

#[test]
fn a_path_is_mounted_through_links_inside_the_export_only() {
    let served = Rootless::start();
    plant_links(served.path());
    block_on(async { check_links(&served.client().await).await });
}

/// Everybody's calls run as the server's own user, so other users of this machine would have that one's
/// rights: they are refused, with a handle in hand too.
#[test]
fn other_local_users_are_not_let_in() {
    if !support::is_root() {
        skip!("connecting as other users needs root");
    }
    let server = Rootless::start();
    let path = server.path().join("secret");
    std::fs::write(&path, b"contents").unwrap();
    std::os::unix::fs::chown(&path, Some(NOBODY), Some(NOBODY)).unwrap();
    let (root, file) = block_on(async {
        let client = server.client().await;
        let root = root(&client).await;
        (root, lookup(&client, &root, b"secret").await)
    });
    let as_user = |uid, work: &dyn Fn()| {
        let creds = Creds::new(LocalUid(uid), LocalGid(uid), &[]);
        let ran = run_as(&creds, || {
            work();
            Ok(())
        });
        ran.unwrap();
    };
    for claim in [0, NOBODY, 4711] {
        let identity = || Identity::sys(claim, claim, &[]);
        as_user(4711, &|| {
            block_on(async {
                let client = connect(server.addr, identity()).await;
                assert_eq!(mount(&client, b"/").await, Err(Mountstat3::Acces));
                let nobody = client.with_identity(Identity::none());
                assert_eq!(mount(&nobody, b"/").await, Err(Mountstat3::Acces));
                for client in [client, nobody] {
                    let read = client.read(&file, 0, 9).await;
                    assert_eq!(status(read), Nfsstat3::Acces);
                    let found = client.lookup(&root, b"secret").await;
                    assert_eq!(status(found), Nfsstat3::Acces);
                    let how = CreateHow::Guarded(mode(0o644));
                    let made = client.create(&root, b"f", &how).await;
                    assert_eq!(status(made), Nfsstat3::Acces);
                }
            });
        });
        // The server's own user is itself, whatever it claims.
        as_user(NOBODY, &|| {
            block_on(async {
                let client = connect(server.addr, identity()).await;
                let root = mount(&client, b"/").await.unwrap();
                ok(client.read(&file, 0, 9).await);
                create(&client, &root, format!("f{claim}").as_bytes()).await;
            });
        });
    }
}

#[test]
fn a_directory_moved_out_is_stale_soon_even_while_it_is_used() {
    let outside = support::scratch(0o755);
    let served = Rootless::start();
    block_on(async {
        let client = served.client().await;
        let root = root(&client).await;
        check_moved(&client, &root, [served.path(), outside.path()]).await;
    });
}
