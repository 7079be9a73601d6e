//! Names under `kill -9`: a server process that is killed again and again in the middle of changes, and clients
//! that send again what they have no reply to. Each change has to be told as what it is: done once.

mod support;

use std::cell::Cell;
use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::rc::Rc;

use nfs_client::{Identity, Nfs3};
use nfs_server::exports::config::{Config, ExportConfig, ServerConfig, SquashKind};
use nfs_server::host::state_dir::StateDir;
use nfs_server::{Server, ServerOptions};
use nfs_wire::nfs3::{CreateHow, FileHandle, Sattr3};
use support::{block_on, connect, mkdir, mode, mount, ok};
use tokio::sync::Notify;
use tokio::task::LocalSet;

/// Names the directory that a server process is to serve.
const SERVE: &str = "NFS_SERVER_KILLS_SERVE";
/// Names the state directory that a server process is to use.
const STATE: &str = "NFS_SERVER_KILLS_STATE";
/// What the server says when it runs.
const READY: &str = "server is ready";
/// Clients at once, each in a directory of its own.
const WORKERS: usize = 8;
const KILLS: usize = 100;
/// Changes that are answered between two kills: another number each time.
const ANSWERS: [usize; 7] = [3, 17, 1, 40, 9, 5, 26];

/// Not a test of its own: what the other starts and kills. Its listener is the standard input, which
/// outlives it.
#[test]
fn be_the_server() {
    let (Ok(files), Ok(state)) = (std::env::var(SERVE), std::env::var(STATE)) else {
        return;
    };
    let listener: OwnedFd = std::io::stdin().as_fd().try_clone_to_owned().unwrap();
    let listener = TcpListener::from(listener);
    listener.set_nonblocking(true).unwrap();
    let server = ServerConfig {
        shards: Some(2),
        rpcbind: false,
        ..ServerConfig::default()
    };
    let mut export = ExportConfig::new(files, "/");
    for client in &mut export.clients {
        client.squash = SquashKind::None;
    }
    let server = Server::start(ServerOptions {
        config: Config::from_flags(server, vec![export]),
        state_dir: StateDir::open(Path::new(&state)).unwrap(),
        listeners: vec![listener],
    });
    println!("{READY}");
    block_on(server.unwrap().run_until(std::future::pending())).unwrap();
}

/// A server process; killed at its end.
struct Process(Child);

impl Process {
    fn kill(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

fn spawn(listener: &TcpListener, files: &Path, state: &Path) -> Process {
    let listener = listener.try_clone().unwrap();
    let mut process = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "be_the_server", "--nocapture"])
        .env(SERVE, files)
        .env(STATE, state)
        .stdin(Stdio::from(OwnedFd::from(listener)))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let output = BufReader::new(process.stdout.take().unwrap());
    let process = Process(process);
    let ready = output
        .lines()
        .map_while(Result::ok)
        .any(|line| line.contains(READY));
    assert!(ready, "the server ended before it was ready");
    process
}

/// How many changes were answered, and whether more are wanted.
#[derive(Default)]
struct Progress {
    answered: Cell<usize>,
    over: Cell<bool>,
    moved: Notify,
}

impl Progress {
    fn answered(&self) {
        self.answered.set(self.answered.get() + 1);
        self.moved.notify_one();
    }

    async fn until(&self, count: usize) {
        while self.answered.get() < count {
            self.moved.notified().await;
        }
    }
}

/// Every change of names in turn, each of which can succeed only once, for as long as kills go on.
async fn work(client: Nfs3, dir: FileHandle, progress: Rc<Progress>) {
    let none = Sattr3::default();
    let mut round = 0_u64;
    while !progress.over.get() {
        round += 1;
        let names = ["d", "s", "p", "e", "f", "g", "h"].map(|kind| format!("{kind}{round}"));
        let [d, s, p, e, f, g, h] = names.each_ref().map(|name| name.as_bytes());
        let verifier = CreateHow::Exclusive(round.to_be_bytes());
        let guarded = CreateHow::Guarded(mode(0o644));
        ok(client.mkdir(&dir, d, &mode(0o2755)).await);
        progress.answered();
        ok(client.symlink(&dir, s, &none, b"target").await);
        progress.answered();
        ok(client.create(&dir, e, &verifier).await);
        progress.answered();
        let file = ok(client.create(&dir, f, &guarded).await).obj.unwrap();
        progress.answered();
        ok(client.link(&file, &dir, g).await);
        progress.answered();
        ok(client.rename(&dir, f, &dir, h).await);
        progress.answered();
        ok(client.rename(&dir, d, &dir, p).await);
        progress.answered();
        for name in [s, e, g, h] {
            ok(client.remove(&dir, name).await);
            progress.answered();
        }
        ok(client.rmdir(&dir, p).await);
        progress.answered();
    }
}

#[test]
fn no_client_is_told_that_its_own_change_is_in_the_way() {
    let (files, state) = (support::scratch(0o755), support::scratch(0o700));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr: SocketAddr = listener.local_addr().unwrap();
    let mut process = spawn(&listener, files.path(), state.path());
    let progress = Rc::new(Progress::default());
    block_on(LocalSet::new().run_until(async {
        let mut workers = Vec::new();
        for number in 0..WORKERS {
            let client = connect(addr, Identity::sys(0, 0, &[])).await;
            let root = mount(&client, b"/").await.unwrap();
            let dir = mkdir(&client, &root, format!("w{number}").as_bytes()).await;
            let work = work(client, dir, Rc::clone(&progress));
            workers.push(tokio::task::spawn_local(work));
        }
        for kill in 0..KILLS {
            let more = ANSWERS[kill % ANSWERS.len()];
            let target = progress.answered.get() + more;
            tokio::select! {
                () = progress.until(target) => {}
                // A worker that failed says why.
                ended = &mut workers[kill % WORKERS] => ended.unwrap(),
            }
            process.kill();
            process = spawn(&listener, files.path(), state.path());
        }
        progress.over.set(true);
        for worker in workers {
            worker.await.unwrap();
        }
    }));
    process.kill();
    for number in 0..WORKERS {
        let left = std::fs::read_dir(files.path().join(format!("w{number}"))).unwrap();
        assert_eq!(left.count(), 0, "what was made was removed");
    }
}
