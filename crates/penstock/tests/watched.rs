//! The real binary, watched over HTTP and the status socket: by crowds, confined, and by who may only look.

mod support;

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use nfs_client::{ConnectOptions, Connection, Identity, Nfs3, Target, mount3::Mount3};
use nfs_server::limits::{HTTP_CONNECTIONS_MAX, HTTP_SECONDS_MAX};
use support::{penstock, program_for_all, text};
use tempfile::TempDir;

const NOBODY: u32 = 65534;
/// A group that no file and no other process of the machine has.
const WATCHERS: u32 = 61_234;

/// Longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(6 * HTTP_SECONDS_MAX);

/// A server with `/metrics` and the web page on free ports; killed if the test ends before it.
struct Server {
    child: Child,
    scratch: TempDir,
    nfs: SocketAddr,
    metrics: SocketAddr,
    web: SocketAddr,
}

impl Server {
    /// A server of an empty directory.
    fn start(more: &[&str]) -> Self {
        let scratch = scratch();
        let data = scratch.path().join("data");
        let served = [data.to_str().unwrap(), "--squash", "none"];
        Self::of(scratch, &[&served[..], more].concat())
    }

    /// A server that is started with these arguments, and keeps its state in `scratch`.
    fn of(scratch: TempDir, arguments: &[&str]) -> Self {
        let mut child = penstock()
            .arg("serve")
            .args(arguments)
            .args(["--listen", "127.0.0.1:0", "--no-rpcbind"])
            .args(["--metrics", "127.0.0.1:0", "--web", "127.0.0.1:0"])
            .arg("--state-dir")
            .arg(scratch.path().join("state"))
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let said = BufReader::new(child.stdout.take().unwrap()).lines();
        let said: Vec<String> = said.take(4).map(Result::unwrap).collect();
        let address = |word: &str| {
            let line = said.iter().find_map(|line| line.strip_prefix(word));
            let line = line.unwrap_or_else(|| panic!("{word} in {said:?}"));
            let line = line.trim().trim_start_matches("http://");
            line.split('/').next().unwrap().parse().unwrap()
        };
        Self {
            nfs: address("listening "),
            metrics: address("metrics "),
            web: address("web "),
            child,
            scratch,
        }
    }

    fn state(&self) -> PathBuf {
        self.scratch.path().join("state")
    }

    fn ctl(&self, arguments: &[&str]) -> String {
        let mut command = penstock();
        command.arg("ctl").arg("--state-dir").arg(self.state());
        let output = command.args(arguments).output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout)
    }

    /// How many sockets its process has.
    fn sockets(&self) -> usize {
        let descriptors = fs::read_dir(format!("/proc/{}/fd", self.child.id())).unwrap();
        let targets = descriptors.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
        targets
            .filter(|target| target.to_str().unwrap().starts_with("socket:"))
            .count()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A directory that every user may pass through.
fn scratch() -> TempDir {
    let scratch = tempfile::tempdir().unwrap();
    fs::set_permissions(scratch.path(), fs::Permissions::from_mode(0o755)).unwrap();
    scratch
}

/// A connection from this address, which the server takes for a host of its own.
fn connected(from: Ipv4Addr, to: SocketAddr) -> TcpStream {
    use rustix::net::{AddressFamily, SocketType};
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    rustix::net::bind(&socket, &SocketAddr::from((from, 0))).unwrap();
    rustix::net::connect(&socket, &to).unwrap();
    TcpStream::from(socket)
}

/// What is answered to a GET.
fn get(from: Ipv4Addr, to: SocketAddr, path: &str) -> String {
    try_get(from, to, path).unwrap()
}

fn try_get(from: Ipv4Addr, to: SocketAddr, path: &str) -> std::io::Result<String> {
    let mut stream = connected(from, to);
    stream.set_read_timeout(Some(PATIENCE))?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: {to}\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

/// Asks once more while there is no place, as a scraper does: those who came a moment ago keep theirs for a little.
fn get_at_last(from: Ipv4Addr, to: SocketAddr, path: &str) -> String {
    let deadline = Instant::now() + PATIENCE;
    loop {
        // Who is sent away is reset, or finds the end at once where that came before what was asked.
        match try_get(from, to, path) {
            Ok(answer) if !answer.is_empty() => return answer,
            sent_away => assert!(Instant::now() < deadline, "{sent_away:?}"),
        }
        // SLEEP: between two tries.
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn block_on<F: Future>(future: F) -> F::Output {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all().build().unwrap().block_on(future)
}

async fn mounted(server: &Server) -> (Nfs3, nfs_client::nfs_wire::nfs3::FileHandle) {
    let target = Target::new("127.0.0.1".to_owned(), server.nfs.port());
    let connection = Connection::connect(target, ConnectOptions::default());
    let client = Nfs3::new(connection.await.unwrap(), Identity::current());
    let mount = Mount3::new(client.connection().clone(), client.identity().clone());
    let root = mount.mnt(b"/").await.unwrap().unwrap().fhandle;
    (client, root)
}

#[test]
fn a_thousand_connections_to_the_metrics_hold_nobody_up() {
    const CROWD: u32 = 1000;
    const CALLS: u32 = 200;
    nfs_io::fs::raise_nofile(4 * u64::from(CROWD));
    let server = Server::start(&[]);
    // The server asks the kernel whose a local connection is over sockets that it keeps.
    for _ in 0..8 {
        block_on(async { drop(mounted(&server).await) });
    }
    let settled = || {
        let status = server.ctl(&["status", "--json"]);
        let status: serde_json::Value = serde_json::from_str(&status).unwrap();
        status["connections"] == 0
    };
    let deadline = Instant::now() + PATIENCE;
    while !settled() {
        assert!(Instant::now() < deadline, "connections stay open");
        // SLEEP: between two looks.
        std::thread::sleep(Duration::from_millis(50));
    }
    let before = server.sockets();
    let of_one = |_| Ipv4Addr::LOCALHOST;
    let of_many = |number| Ipv4Addr::from_bits(Ipv4Addr::new(127, 1, 0, 1).to_bits() + number);
    let crowds: [&dyn Fn(u32) -> Ipv4Addr; 2] = [&of_one, &of_many];
    for (round, from) in crowds.into_iter().enumerate() {
        let crowd: Vec<TcpStream> = (0..CROWD)
            .map(|number| {
                let mut stream = connected(from(number), server.metrics);
                // All of a request, or a part, or nothing.
                let request = format!("GET /metrics HTTP/1.1\r\nHost: {}\r\n\r\n", server.metrics);
                let sent = [request.len(), 20, 0][number as usize % 3];
                // One that was sent away is reset.
                let _sent_or_not = stream.write_all(&request.as_bytes()[..sent]);
                stream
            })
            .collect();
        block_on(async {
            let (client, root) = mounted(&server).await;
            for _ in 0..CALLS {
                client.getattr(&root).await.unwrap().unwrap();
            }
        });
        assert!(
            server.sockets() <= before + HTTP_CONNECTIONS_MAX + 2,
            "{} of {before} before",
            server.sockets()
        );
        let answer = get_at_last(Ipv4Addr::new(127, 0, 0, 2), server.metrics, "/metrics");
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 200 OK"), "{head}");
        let of_getattr = |line: &&str| {
            line.starts_with("penstock_operations_total{") && line.contains("\"GETATTR\"")
        };
        let counted = body.lines().find(of_getattr);
        let counted = counted.and_then(|line| line.rsplit(' ').next());
        let expected = (round as u32 + 1) * CALLS;
        assert_eq!(
            counted,
            Some(expected.to_string().as_str()),
            "whole, and exact"
        );
        drop(crowd);
    }
    // Of those who are gone nothing stays.
    let deadline = Instant::now() + PATIENCE;
    while server.sockets() > before {
        assert!(
            Instant::now() < deadline,
            "{} of {before}",
            server.sockets()
        );
        // SLEEP: between two looks.
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(get(Ipv4Addr::LOCALHOST, server.metrics, "/metrics").contains("200 OK"));
}

/// The names of the metrics in a text of Prometheus's form.
fn names(answer: &str) -> Vec<String> {
    let lines = answer
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE "));
    lines
        .map(|line| line.split(' ').next().unwrap().to_owned())
        .collect()
}

#[test]
fn a_confined_server_tells_over_http_what_a_free_one_does() {
    let told = |confine: &str| {
        let server = Server::start(&["--confine", confine]);
        block_on(async {
            let (client, root) = mounted(&server).await;
            client.getattr(&root).await.unwrap().unwrap();
        });
        let look = |path| get(Ipv4Addr::LOCALHOST, server.web, path);
        assert!(look("/").contains("<title>"), "{}", look("/"));
        assert!(
            look("/live.json").contains("\"moments\""),
            "{}",
            look("/live.json")
        );
        let first = get(Ipv4Addr::LOCALHOST, server.metrics, "/metrics");
        assert!(first.starts_with("HTTP/1.1 200 OK"), "{first}");
        // The page cache is found out after somebody asked.
        let deadline = Instant::now() + PATIENCE;
        let has_cachestat = {
            use std::os::fd::AsFd as _;
            let directory = fs::File::open(server.scratch.path()).unwrap();
            nfs_io::fs::cachestat(directory.as_fd(), 0, 0).is_ok()
        };
        let last = loop {
            let answer = get(Ipv4Addr::LOCALHOST, server.metrics, "/metrics");
            if !has_cachestat || answer.contains("penstock_page_cache_bytes{") {
                break answer;
            }
            assert!(Instant::now() < deadline, "{answer}");
            // SLEEP: between two looks.
            std::thread::sleep(Duration::from_millis(100));
        };
        let status = server.ctl(&["status"]);
        let refused = status
            .lines()
            .find(|line| line.contains("system_calls_refused"));
        assert!(refused.unwrap().ends_with(" 0"), "{refused:?}");
        let is_confined = status.contains("confinement: system-calls in force");
        assert_eq!(is_confined, confine != "off", "{status}");
        names(&last)
    };
    let free = told("off");
    assert!(
        free.iter()
            .any(|name| name == "penstock_process_resident_bytes")
    );
    assert_eq!(told("auto"), free);
}

#[test]
fn the_group_may_look_and_others_may_not() {
    if !rustix::process::geteuid().is_root() {
        nfs_lab::skipped("running a command as another user needs root");
        return;
    }
    let scratch = scratch();
    let (file, data) = (
        scratch.path().join("penstock.toml"),
        scratch.path().join("data"),
    );
    fs::create_dir(&data).unwrap();
    let lines = format!(
        "[server]\nstatus_group = \"{WATCHERS}\"\n[[export]]\npath = {data:?}\npseudo = \"/a\"\n"
    );
    fs::write(&file, lines).unwrap();
    let server = Server::of(scratch, &["--config", file.to_str().unwrap()]);
    let program = program_for_all(server.scratch.path());
    let run = |group: u32, arguments: &[&str]| -> Output {
        let (command, rest) = arguments.split_first().unwrap();
        let mut program = Command::new(&program);
        program.uid(NOBODY).gid(group).arg(command);
        program.arg("--state-dir").arg(server.state()).args(rest);
        program.output().unwrap()
    };
    for looks in [
        &["status", "--json"][..],
        &["top", "--json", "--interval", "0.1"],
    ] {
        let told = run(WATCHERS, looks);
        assert!(told.status.success(), "{looks:?}: {}", text(&told.stderr));
        let told: serde_json::Value = serde_json::from_slice(&told.stdout).unwrap();
        let known = told["status"]["exports"] == 1 || told["exports"][0]["export"] == "/a";
        assert!(known, "{told}");
        let refused = run(NOBODY, looks);
        assert_eq!(refused.status.code(), Some(1), "{looks:?}");
        let told: serde_json::Value = serde_json::from_slice(&refused.stdout).unwrap();
        assert_eq!(told["error"]["status"], "EACCES", "{told}");
        assert_eq!(
            told.as_object().map(serde_json::Map::len),
            Some(1),
            "{told}"
        );
        let why = text(&refused.stderr);
        assert!(
            why.contains("user") && !why.contains("panicked"),
            "{looks:?}: {why}"
        );
    }
    // The control socket stays its owner's, also for the group.
    for changes in [
        &["ctl", "drain"][..],
        &["ctl", "cache", "list"],
        &["ctl", "verifier"],
    ] {
        let refused = run(WATCHERS, changes);
        assert_eq!(
            refused.status.code(),
            Some(1),
            "{changes:?}: {}",
            text(&refused.stdout)
        );
    }
    assert!(
        server.ctl(&["status"]).contains("serving for"),
        "nothing was drained"
    );
    // Nothing else of the state directory is open to the group.
    let mut list = Command::new("ls");
    let listed = list
        .uid(NOBODY)
        .gid(WATCHERS)
        .arg(server.state())
        .output()
        .unwrap();
    assert!(!listed.status.success(), "{}", text(&listed.stdout));
}

#[test]
fn the_open_file_cache_is_listed_and_a_file_dropped_from_it() {
    let server = Server::start(&[]);
    let file = server.scratch.path().join("data/f");
    fs::write(&file, [7; 5000]).unwrap();
    let url = format!("nfs://{}/f", server.nfs);
    let read = penstock().args(["cat", &url]).output().unwrap();
    assert_eq!(read.stdout.len(), 5000, "{}", text(&read.stderr));
    let row = |listed: &str| {
        let row = listed.lines().find(|line| line.ends_with("  /f"));
        row.map(|row| {
            row.split_whitespace()
                .map(str::to_owned)
                .collect::<Vec<_>>()
        })
    };
    let listed = server.ctl(&["cache", "list"]);
    let shown = row(&listed).unwrap_or_else(|| panic!("{listed}"));
    assert_eq!(shown[..3], ["file", "read", "0"], "{listed}");
    let part = server.ctl(&["cache", "list", "--export", "/", "--limit", "1"]);
    assert!(part.contains("1 of 2 rows; go on with --skip 1"), "{part}");
    let listed: serde_json::Value =
        serde_json::from_str(&server.ctl(&["cache", "list", "--json"])).unwrap();
    assert_eq!(listed["total"], 2);
    let dropped = server.ctl(&["cache", "drop", file.to_str().unwrap(), "--pages"]);
    assert!(
        dropped.contains("has left the open-file cache"),
        "{dropped}"
    );
    assert!(dropped.contains("the page cache"), "{dropped}");
    assert_eq!(row(&server.ctl(&["cache", "list"])), None);
    let refused = |arguments: &[&str]| {
        let mut command = penstock();
        command.arg("ctl").arg("--state-dir").arg(server.state());
        let output = command.args(arguments).output().unwrap();
        (output.status.code(), text(&output.stderr))
    };
    let (code, why) = refused(&["cache", "drop", "/f"]);
    assert!(
        code == Some(1) && why.contains("is not in the open-file cache"),
        "{why}"
    );
    for wrong in [
        &["cache"][..],
        &["cache", "drop"],
        &["cache", "drop", "/f", "--handle", "00"],
    ] {
        let (code, why) = refused(wrong);
        assert_eq!(code, Some(2), "{wrong:?}: {why}");
    }
}
