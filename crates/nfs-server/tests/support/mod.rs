//! A real server in this process, over a directory of its own, and clients for it.
#![allow(dead_code, reason = "each test binary uses its own part of this")]

pub(crate) mod called;
pub(crate) mod links;
pub(crate) mod moved;
pub(crate) mod page_cache;
pub(crate) mod process;
pub(crate) mod trees;
pub(crate) mod v4;
pub(crate) mod wire;

use std::fs::Permissions;
use std::future::Future;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;

use nfs_client::{ConnectOptions, Connection, Identity, Nfs3, RpcError, Target};
use nfs_server::exports::config::{Config, EngineChoice, ExportConfig, ServerConfig, SquashKind};
use nfs_server::host::state_dir::StateDir;
use nfs_server::{Server, ServerOptions};
use nfs_wire::nfs3::{CreateHow, Failure, FileHandle, Nfsstat3, Sattr3};
use tempfile::TempDir;
use tokio::sync::oneshot;

/// Ends a test that this machine or user cannot run, aloud; with `PENSTOCK_STRICT=1` in the
/// environment that is a failure.
#[allow(unused_macros, reason = "not every test binary has something to skip")]
macro_rules! skip {
    ($($reason:tt)+) => {{
        nfs_lab::skipped(&format!($($reason)+));
        return;
    }};
}
#[allow(unused_imports, reason = "not every test binary has something to skip")]
pub(crate) use skip;

/// A server of its own, ended when dropped.
pub(crate) struct Served {
    pub(crate) files: TempDir,
    pub(crate) server: Arc<Server>,
    pub(crate) addr: SocketAddr,
    pub(crate) config: Config,
    state: Option<TempDir>,
    running: Option<(oneshot::Sender<()>, JoinHandle<()>)>,
}

impl Served {
    /// Serves an empty directory as `/` to this machine, nobody squashed.
    pub(crate) fn start() -> Self {
        Self::with(|_config| {})
    }

    /// Serves an empty directory as [`Served::start`] does, after a change of the configuration.
    pub(crate) fn with(change: impl FnOnce(&mut Config)) -> Self {
        Self::over(scratch(0o755), None, change)
    }

    /// Serves a directory that is there, with the state of an earlier server if there is one.
    pub(crate) fn over(
        files: TempDir,
        state: Option<TempDir>,
        change: impl FnOnce(&mut Config),
    ) -> Self {
        Self::within(nfs_io::fs::raise_nofile(u64::MAX), files, state, change)
    }

    /// Serves an empty directory as [`Served::start`] does, on this address instead of 127.0.0.1.
    pub(crate) fn on(address: &str) -> Self {
        let fds = nfs_io::fs::raise_nofile(u64::MAX);
        Self::listening(address, fds, scratch(0o755), None, |_config| {})
    }

    /// Serves a directory as [`Served::over`] does, with this many descriptors.
    pub(crate) fn within(
        fds: u64,
        files: TempDir,
        state: Option<TempDir>,
        change: impl FnOnce(&mut Config),
    ) -> Self {
        Self::listening("127.0.0.1:0", fds, files, state, change)
    }

    fn listening(
        address: &str,
        fds: u64,
        files: TempDir,
        state: Option<TempDir>,
        change: impl FnOnce(&mut Config),
    ) -> Self {
        let state = state.unwrap_or_else(|| scratch(0o700));
        let mut export = ExportConfig::new(files.path(), "/");
        for client in &mut export.clients {
            client.squash = SquashKind::None;
        }
        let server = ServerConfig {
            shards: Some(1),
            rpcbind: false,
            ..ServerConfig::default()
        };
        let mut config = Config::from_flags(server, vec![export]);
        change(&mut config);
        if std::env::var("PENSTOCK_ENGINE").is_ok_and(|engine| engine == "threads") {
            config.server.engine = EngineChoice::Threads;
        }
        let listener = TcpListener::bind(address).unwrap();
        listener.set_nonblocking(true).unwrap();
        let addr = listener.local_addr().unwrap();
        let options = ServerOptions {
            config: config.clone(),
            state_dir: StateDir::open(state.path()).unwrap(),
            listeners: vec![listener],
        };
        let server = Server::start_within(options, fds);
        let server = Arc::new(server.unwrap());
        let (stop, stopped) = oneshot::channel();
        let runs = Arc::clone(&server);
        let thread = std::thread::spawn(move || {
            block_on(runs.run_until(async { drop(stopped.await) })).unwrap();
        });
        Self {
            files,
            server,
            addr,
            config,
            state: Some(state),
            running: Some((stop, thread)),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        self.files.path()
    }

    /// A client with its own connection, as the superuser.
    pub(crate) async fn client(&self) -> Nfs3 {
        connect(self.addr, Identity::sys(0, 0, &[])).await
    }

    /// The handle of the export that clients mount as `/`.
    pub(crate) async fn root(&self, client: &Nfs3) -> FileHandle {
        mount(client, b"/").await.unwrap()
    }

    pub(crate) fn counter(&self, name: &str) -> u64 {
        self.server.status().counters[name]
    }

    /// Ends the server and hands back what outlives it.
    pub(crate) fn stop(mut self) -> (TempDir, TempDir) {
        self.end();
        let files = std::mem::replace(&mut self.files, scratch(0o700));
        (files, self.state.take().unwrap())
    }

    fn end(&mut self) {
        if let Some((stop, thread)) = self.running.take() {
            drop(stop);
            let ended = thread.join();
            if !std::thread::panicking() {
                ended.unwrap();
            }
        }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.end();
    }
}

/// A directory with this mode, whatever the umask (a server in this process sets it to 0).
pub(crate) fn scratch(mode: u32) -> TempDir {
    tempfile::Builder::new()
        .prefix("nfs-server-")
        .permissions(Permissions::from_mode(mode))
        .tempdir()
        .unwrap()
}

/// Runs a future on this thread.
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
        .block_on(future)
}

pub(crate) async fn connect(addr: SocketAddr, identity: Identity) -> Nfs3 {
    let target = Target::new(addr.ip().to_string(), addr.port());
    let connection = Connection::connect(target, ConnectOptions::default()).await;
    Nfs3::new(connection.unwrap(), identity)
}

pub(crate) async fn mount(
    client: &Nfs3,
    path: &[u8],
) -> Result<FileHandle, nfs_wire::mount3::Mountstat3> {
    let mount =
        nfs_client::mount3::Mount3::new(client.connection().clone(), client.identity().clone());
    mount.mnt(path).await.unwrap().map(|ok| ok.fhandle)
}

pub(crate) type Outcome<O, F> = Result<Result<O, Failure<F>>, RpcError>;

/// What a call that must succeed answered.
#[track_caller]
pub(crate) fn ok<O, F: std::fmt::Debug>(outcome: Outcome<O, F>) -> O {
    match outcome {
        Ok(Ok(ok)) => ok,
        Ok(Err(failure)) => panic!("{failure:?}"),
        Err(error) => panic!("{error}"),
    }
}

/// The status of a call that the server answered.
#[track_caller]
pub(crate) fn status<O, F>(outcome: Outcome<O, F>) -> Nfsstat3 {
    match outcome {
        Ok(Ok(_)) => Nfsstat3::Ok,
        Ok(Err(failure)) => failure.status,
        Err(error) => panic!("{error}"),
    }
}

pub(crate) fn mode(mode: u32) -> Sattr3 {
    Sattr3 {
        mode: Some(mode),
        ..Sattr3::default()
    }
}

/// Makes an empty file of that name and mode 644, and gives its handle; a name that is taken fails the test.
pub(crate) async fn create(client: &Nfs3, dir: &FileHandle, name: &[u8]) -> FileHandle {
    let made = ok(client
        .create(dir, name, &CreateHow::Guarded(mode(0o644)))
        .await);
    made.obj.unwrap()
}

pub(crate) async fn mkdir(client: &Nfs3, dir: &FileHandle, name: &[u8]) -> FileHandle {
    ok(client.mkdir(dir, name, &mode(0o755)).await).obj.unwrap()
}

pub(crate) async fn lookup(client: &Nfs3, dir: &FileHandle, name: &[u8]) -> FileHandle {
    ok(client.lookup(dir, name).await).object
}

/// May this process do what only root may: take identities, mount?
pub(crate) fn is_root() -> bool {
    nfs_io::identity::can_switch() && nfs_io::caps::has(nfs_io::caps::Capability::SysAdmin)
}
