//! A server in a user namespace: root there, and yet it may not set groups, or knows few users. It runs as
//! a process of its own.

mod support;

use std::fs::Permissions;
use std::io::Write as _;
use std::net::SocketAddr;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use bytes::Bytes;
use nfs_client::{Identity, Nfs3};
use nfs_io::identity::run_as;
use nfs_io::{Creds, LocalGid, LocalUid};
use nfs_lab::Running;
use nfs_server::exports::config::SquashKind;
use nfs_wire::mount3::Mountstat3;
use nfs_wire::nfs3::{CreateHow, FileHandle, Nfsstat3, StableHow};
use support::process::{self, Starting, as_server, copy_of_this_program};
use support::{block_on, connect, create, is_root, lookup, mode, mount, ok, skip, status};
use tempfile::TempDir;

/// The user whose namespace it is, outside of it.
const OWNER: u32 = 100_000;
/// In the environment of the process that is the server: who the anonymous user is.
const ANONYMOUS: &str = "PENSTOCK_TEST_ANONYMOUS";
/// What is said inside the namespace before the server is started.
const INSIDE: &str = "inside";

/// Not a test of its own: what the other tests start in a user namespace.
#[test]
fn be_the_server() {
    process::be_the_server(
        |export| {
            let anonymous = std::env::var(ANONYMOUS).unwrap().parse().unwrap();
            for client in &mut export.clients {
                client.squash = SquashKind::None;
                (client.anonuid, client.anongid) = (anonymous, anonymous);
            }
        },
        |server| println!("{}", server.facts().join("\n")),
    );
}

/// A server in a user namespace, over a directory of its owner's; killed with the test.
struct Confined {
    files: TempDir,
    process: Running,
    addr: SocketAddr,
    facts: Vec<String>,
    _program: TempDir,
    _state: TempDir,
}

/// How a namespace comes to its map of users and groups.
#[derive(Clone, Copy)]
enum Map {
    /// The owner makes the map: itself as root, and nobody may set groups.
    Own,
    /// Root makes the map, with so many users and groups from 0 on, who are `OWNER` and those after it
    /// outside.
    Of(u32),
}

impl Confined {
    /// `None` where the kernel lets nobody make user namespaces.
    fn start(map: Map, anonymous: u32) -> Option<Self> {
        let owned = |mode| {
            let dir = support::scratch(mode);
            chown(dir.path(), Some(OWNER), Some(OWNER)).unwrap();
            // Whatever the umask of the test is.
            std::fs::set_permissions(dir.path(), Permissions::from_mode(mode)).unwrap();
            dir
        };
        let (files, state) = (owned(0o777), owned(0o700));
        let (program, server) = copy_of_this_program();
        let mut command = Command::new("unshare");
        match map {
            Map::Own => command.arg("-Ur"),
            Map::Of(_) => command.arg("-U"),
        };
        let wait = format!("echo {INSIDE}; read go; exec \"$0\" \"$@\"");
        command
            .args(["sh", "-c", &wait])
            .arg(&server)
            .uid(OWNER)
            .gid(OWNER)
            .env(ANONYMOUS, anonymous.to_string())
            .stdin(Stdio::piped());
        let mut starting = Starting::new(as_server(&mut command, files.path(), state.path()));
        if starting.line().as_deref() != Some(INSIDE) {
            return None;
        }
        if let Map::Of(count) = map {
            for kind in ["uid_map", "gid_map"] {
                let path = format!("/proc/{}/{kind}", starting.id());
                std::fs::write(path, format!("0 {OWNER} {count}\n")).unwrap();
            }
        }
        writeln!(starting.input(), "go").unwrap();
        let (process, addr, facts) = starting.until_it_listens();
        Some(Self {
            files,
            process,
            addr,
            facts,
            _program: program,
            _state: state,
        })
    }

    fn fact(&self, name: &str) -> Option<&String> {
        self.facts.iter().find(|fact| fact.contains(name))
    }

    /// Who the file belongs to, outside of the namespace.
    fn owner_of(&self, name: &str) -> (u32, u32) {
        let made = self.files.path().join(name).metadata().unwrap();
        (made.uid(), made.gid())
    }

    fn assert_lives(&mut self) {
        assert_eq!(self.process.exited().unwrap(), None, "the server ended");
    }
}

/// Runs `work` with a client whose socket is that user's (outside the namespace).
fn with_client<T>(uid: u32, addr: SocketAddr, work: impl AsyncFnOnce(Nfs3) -> T) -> T {
    let creds = Creds::new(LocalUid(uid), LocalGid(uid), &[]);
    let ran = run_as(&creds, || {
        Ok(block_on(async {
            work(connect(addr, Identity::sys(0, 0, &[])).await).await
        }))
    });
    ran.unwrap()
}

/// LOOKUP, CREATE, WRITE, READ and SETATTR as whom the client claims to be.
async fn use_it(client: &Nfs3, root: &FileHandle, name: &str) {
    let name = name.as_bytes();
    let absent = client.lookup(root, name).await;
    assert_eq!(status(absent), Nfsstat3::Noent);
    let file = create(client, root, name).await;
    assert_eq!(lookup(client, root, name).await, file);
    for stable in [StableHow::Unstable, StableHow::FileSync] {
        let data = Bytes::from_static(b"contents");
        ok(client.write(&file, 0, stable, data).await);
    }
    assert_eq!(&ok(client.read(&file, 0, 9).await).data[..], b"contents");
    ok(client.setattr(&file, &mode(0o600), None).await);
}

#[test]
fn a_server_that_may_not_set_groups_acts_as_itself() {
    if !is_root() {
        skip!("user namespaces of other users need root");
    }
    let Some(mut served) = Confined::start(Map::Own, 65534) else {
        skip!("no user namespaces here");
    };
    assert!(
        served
            .fact("identity: this server cannot act as other users")
            .is_some(),
        "{:?}",
        served.facts
    );
    for claim in [0, 1, 12_345, 65_534] {
        let name = format!("f{claim}");
        with_client(OWNER, served.addr, async |client| {
            let client = client.with_identity(Identity::sys(claim, claim, &[5, 70_000]));
            let root = mount(&client, b"/").await.unwrap();
            use_it(&client, &root, &name).await;
        });
        assert_eq!(served.owner_of(&name), (OWNER, OWNER));
    }
    // Users of the machine that the namespace does not know cannot be told from each other, not even root.
    for stranger in [0, OWNER + 1] {
        with_client(stranger, served.addr, async |client| {
            assert_eq!(mount(&client, b"/").await, Err(Mountstat3::Acces));
        });
    }
    served.assert_lives();
}

#[test]
fn users_that_a_namespace_does_not_know_are_anonymous_or_refused() {
    if !is_root() {
        skip!("user namespaces with several users need root");
    }
    // The anonymous user is one of three users, or none of them.
    for anonymous in [2, 65_534] {
        let Some(mut served) = Confined::start(Map::Of(3), anonymous) else {
            skip!("no user namespaces here");
        };
        assert_eq!(served.fact("identity:"), None, "it acts for its users");
        let addr = served.addr;
        with_client(OWNER, addr, async |client| {
            let root = mount(&client, b"/").await.unwrap();
            let sys = |uid, gid, gids: &[u32]| client.with_identity(Identity::sys(uid, gid, gids));
            use_it(&sys(0, 0, &[]), &root, "roots").await;
            use_it(&sys(1, 1, &[2, 70_000, 9]), &root, "ones").await;
            assert_eq!(served.owner_of("roots"), (OWNER, OWNER));
            assert_eq!(served.owner_of("ones"), (OWNER + 1, OWNER + 1));
            let strangers = [
                ("user", sys(12_345, 1, &[]), (OWNER + 2, OWNER + 2)),
                ("group", sys(1, 12_345, &[]), (OWNER + 1, OWNER + 2)),
                (
                    "nobody",
                    client.with_identity(Identity::none()),
                    (OWNER + 2, OWNER + 2),
                ),
            ];
            for (name, stranger, expected) in strangers {
                if anonymous == 2 {
                    use_it(&stranger, &root, name).await;
                    assert_eq!(served.owner_of(name), expected);
                } else {
                    let found = stranger.lookup(&root, b"roots").await;
                    assert_eq!(status(found), Nfsstat3::Acces, "{name}");
                    let how = CreateHow::Guarded(mode(0o644));
                    let made = stranger.create(&root, b"x", &how).await;
                    assert_eq!(status(made), Nfsstat3::Acces, "{name}");
                    assert_eq!(mount(&stranger, b"/").await, Err(Mountstat3::Acces));
                }
            }
        });
        served.assert_lives();
    }
}
