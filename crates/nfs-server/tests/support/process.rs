//! A server in a process of its own, which is this test program once more: as another user, or in a
//! namespace.

use std::io::{BufRead as _, BufReader};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};

use nfs_lab::Running;
use nfs_server::exports::config::{Config, ExportConfig, ServerConfig};
use nfs_server::host::state_dir::StateDir;
use nfs_server::{Server, ServerOptions};
use tempfile::TempDir;

use super::{block_on, scratch};

/// In the environment of the process that is the server: the directory to serve.
const SERVE: &str = "PENSTOCK_TEST_SERVE";
/// In the environment of the process that is the server: its state directory.
const STATE: &str = "PENSTOCK_TEST_STATE";
/// What the server says when it listens, with its address behind.
const READY: &str = "server at ";

/// What a test named `be_the_server` is: the server, in a process that was started to be it, and nothing
/// elsewhere. `export` changes the one export, `check` looks at the server before it says that it listens.
pub(crate) fn be_the_server(export: impl FnOnce(&mut ExportConfig), check: impl FnOnce(&Server)) {
    let (Ok(files), Ok(state)) = (std::env::var(SERVE), std::env::var(STATE)) else {
        return;
    };
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let addr = listener.local_addr().unwrap();
    let config = ServerConfig {
        shards: Some(1),
        rpcbind: false,
        ..ServerConfig::default()
    };
    let mut served = ExportConfig::new(files, "/");
    export(&mut served);
    let server = Server::start(ServerOptions {
        config: Config::from_flags(config, vec![served]),
        state_dir: StateDir::open(Path::new(&state)).unwrap(),
        listeners: vec![listener],
    });
    let server = server.unwrap();
    check(&server);
    println!("{READY}{addr}");
    block_on(server.run_until(std::future::pending())).unwrap();
}

/// A copy of this program that every user may run; it goes with its directory.
pub(crate) fn copy_of_this_program() -> (TempDir, PathBuf) {
    let dir = scratch(0o755);
    let program = dir.path().join("server");
    nfs_lab::copy_program(&std::env::current_exe().unwrap(), &program).unwrap();
    (dir, program)
}

/// Gives `command` what makes [`be_the_server`] serve `files`, with its state in `state`.
pub(crate) fn as_server<'a>(
    command: &'a mut Command,
    files: &Path,
    state: &Path,
) -> &'a mut Command {
    command
        .args(["--exact", "be_the_server", "--nocapture"])
        .env(SERVE, files)
        .env(STATE, state)
        .current_dir("/")
        .stdout(Stdio::piped())
}

/// A process that becomes a server; killed when dropped.
pub(crate) struct Starting {
    process: Running,
    lines: Box<dyn Iterator<Item = String>>,
}

impl Starting {
    /// Starts `command`, which [`as_server`] has prepared.
    pub(crate) fn new(command: &mut Command) -> Self {
        let mut process = Running::start(command).unwrap();
        let output = BufReader::new(process.child().stdout.take().unwrap());
        let lines = Box::new(output.lines().map_while(Result::ok));
        Self { process, lines }
    }

    /// The next line that it says.
    pub(crate) fn line(&mut self) -> Option<String> {
        self.lines.next()
    }

    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    pub(crate) fn input(&mut self) -> ChildStdin {
        let child: &mut Child = self.process.child();
        child.stdin.take().unwrap()
    }

    /// Waits until it listens. With its process and address, what it said before.
    pub(crate) fn until_it_listens(mut self) -> (Running, SocketAddr, Vec<String>) {
        let mut said = Vec::new();
        for line in self.lines.by_ref() {
            if let Some((_, addr)) = line.split_once(READY) {
                return (self.process, addr.parse().unwrap(), said);
            }
            said.push(line);
        }
        panic!("the server ended before it listened: {said:?}");
    }
}
