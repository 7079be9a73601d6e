//! `penstock ls`, `cat` and `stat` as a user runs them: on our server, and on one that we did not
//! write; on ours, Ctrl-C in the middle of what changes whole trees, too.

mod interrupted;

use std::ffi::OsStr;
use std::fs;
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use nfs_client::NfsUrl;
use nfs_lab::pattern;
use nfs_lab::{Running, Server, ServerOptions, output};
use serde_json::Value;

use crate::host::{Context, Peer, PeerServer};

/// How long a command may take to notice that nobody reads its output.
const END_DEADLINE: Duration = Duration::from_secs(30);
/// Size of a file that takes several READs, in bytes.
const BIG_BYTES: usize = 9_000_001;

/// The server and the directory that the checks run against.
struct Ground<'a> {
    /// Runs `penstock` where the server can be reached.
    penstock: &'a dyn Fn() -> Command,
    /// The exported directory, or one with the same in it.
    dir: &'a Path,
    /// Attributes of some paths, as the server's disk has them.
    known: Vec<Known>,
    /// URL of the exported directory.
    url: NfsUrl,
}

/// What `stat` has to say of a path.
struct Known {
    path: &'static str,
    follow: bool,
    there: fs::Metadata,
}

pub(super) fn ours(context: &Context) -> Result<String> {
    let export = context.lab.dir.join("export");
    fill(&export)?;
    let state = context.lab.dir.join("state");
    let server = Server::start(&context.lab, &export, &state, &ServerOptions::default())?;
    let ground = Ground {
        penstock: &|| Command::new(&context.lab.program),
        dir: &export,
        known: look(&export)?,
        url: format!("nfs://{}/", server.address()).parse()?,
    };
    let looked = checks(&ground)?;
    server.stop()?;
    let interrupted = interrupts(context)?;
    Ok(format!("{looked} checks, {interrupted} interrupts"))
}

/// On a server of files in memory: a command that is told to stop gives its calls five seconds, and a disk that others
/// use may take longer for one.
fn interrupts(context: &Context) -> Result<u32> {
    let shm = Path::new("/dev/shm");
    let place = if shm.is_dir() { shm } else { &context.lab.dir };
    let place = tempfile::Builder::new()
        .prefix("nfs-test-interrupts-")
        .tempdir_in(place)?;
    let export = place.path().join("export");
    fs::create_dir(&export)?;
    let state = context.lab.dir.join("state");
    let server = Server::start(&context.lab, &export, &state, &ServerOptions::default())?;
    let ground = Ground {
        penstock: &|| Command::new(&context.lab.program),
        dir: &export,
        known: Vec::new(),
        url: format!("nfs://{}/", server.address()).parse()?,
    };
    let interrupts = interrupted::checks(&ground, place.path())?;
    server.stop()?;
    Ok(interrupts)
}

/// NFS-Ganesha keeps MOUNT on a port of its own, which the portmapper tells.
pub(super) fn ganesha(context: &Context) -> Result<String> {
    foreign(context, Peer::Ganesha)
}

/// The Linux kernel's server keeps MOUNT on a port of its own, too, which the portmapper tells.
pub(super) fn nfsd(context: &Context) -> Result<String> {
    foreign(context, Peer::KernelNfsd)
}

fn foreign(context: &Context, peer: Peer) -> Result<String> {
    // The names and bytes are looked up in a copy: a guest's disk is out of the host's reach.
    let copy = context.lab.dir.join("copy");
    fill(&copy)?;
    let mut known = Vec::new();
    let server = PeerServer::start(context, peer, |export| {
        fill(export)?;
        known = look(export)?;
        Ok(())
    })?;
    let ground = Ground {
        penstock: &|| server.penstock(),
        dir: &copy,
        known,
        url: server.url(""),
    };
    let checks = checks(&ground)?;
    Ok(format!("{checks} checks"))
}

/// The attributes on the server's disk of what `stat` is asked for.
fn look(export: &Path) -> Result<Vec<Known>> {
    let asked = [
        ("sub/two words", false),
        ("sub/link", false),
        ("sub/link", true),
        ("", false),
    ];
    let one = |(path, follow)| {
        let local = export.join(path);
        let there = if follow {
            local.metadata()?
        } else {
            local.symlink_metadata()?
        };
        Ok(Known {
            path,
            follow,
            there,
        })
    };
    asked.into_iter().map(one).collect()
}

fn fill(dir: &Path) -> Result<()> {
    fs::create_dir_all(dir.join("sub/deeper"))?;
    fs::write(dir.join("hello"), "hello\n")?;
    fs::write(dir.join("sub/two words"), "two words\n")?;
    fs::write(dir.join("sub/empty"), "")?;
    fs::write(dir.join(OsStr::from_bytes(b"sub/\xff\xfe")), "not UTF-8\n")?;
    fs::write(dir.join("sub/new\nline"), "")?;
    fs::write(dir.join("sub/50%#?&"), "percent\n")?;
    fs::write(dir.join("big"), pattern::bytes(9, 0, BIG_BYTES))?;
    symlink("two words", dir.join("sub/link"))?;
    symlink("../sub/link", dir.join("sub/link-to-link"))?;
    fs::set_permissions(dir.join("sub/two words"), fs::Permissions::from_mode(0o640))?;
    Ok(())
}

fn checks(ground: &Ground<'_>) -> Result<u32> {
    Ok(ls(ground)? + cat(ground)? + stat(ground)? + failures(ground)?)
}

impl Ground<'_> {
    fn url(&self, path: &[u8]) -> String {
        let path = [&self.url.path, b"/".as_slice(), path].concat();
        self.url.with_path(path).to_string()
    }

    fn run(&self, args: &[&str]) -> Result<Vec<u8>> {
        output((self.penstock)().args(args))
    }
}

fn ls(ground: &Ground<'_>) -> Result<u32> {
    let mut names = fs::read_dir(ground.dir.join("sub"))?
        .map(|entry| Ok(entry?.file_name().as_bytes().to_vec()))
        .collect::<Result<Vec<_>>>()?;
    names.sort();
    let expected: Vec<u8> = names
        .iter()
        .flat_map(|name| [name, b"\n".as_slice()].concat())
        .collect();
    let url = ground.url(b"sub");
    let listed = ground.run(&["ls", &url])?;
    ensure!(listed == expected, "ls: {}", listed.escape_ascii());
    let long = ground.run(&["ls", "-l", &url])?;
    let long = String::from_utf8_lossy(&long);
    for (mode, size, end) in [
        ("-rw-r-----", " 10 ", " two words"),
        ("drwx", "", " deeper"),
        ("lrwx", "", " link -> two words"),
    ] {
        let shown = long
            .lines()
            .any(|line| line.starts_with(mode) && line.contains(size) && line.ends_with(end));
        ensure!(shown, "ls -l shows no {mode}...{end}: {long}");
    }
    let json = String::from_utf8(ground.run(&["ls", "--json", &url])?)?;
    let objects = json
        .lines()
        .map(|line| Ok(serde_json::from_str(line)?))
        .collect::<Result<Vec<Value>>>()?;
    ensure!(objects.len() == names.len(), "ls --json: {json}");
    let odd = objects.iter().find(|object| object["name_hex"] == "fffe");
    ensure!(
        odd.is_some_and(|odd| odd["size"] == 10),
        "ls --json: {json}"
    );
    let link = objects.iter().find(|object| object["name"] == "link");
    ensure!(
        link.is_some_and(|link| link["target"] == "two words" && link["type"] == "symbolic link"),
        "ls --json: {json}"
    );
    let one = ground.run(&["ls", &ground.url(b"sub/50%#?&")])?;
    ensure!(one == b"50%#?&\n", "ls of a file: {}", one.escape_ascii());
    Ok(8)
}

fn cat(ground: &Ground<'_>) -> Result<u32> {
    let urls = [
        &b"sub/two words"[..],
        b"sub/empty",
        b"sub/\xff\xfe",
        b"sub/link-to-link",
    ]
    .map(|path| ground.url(path));
    let mut args = vec!["cat"];
    args.extend(urls.iter().map(String::as_str));
    let text = ground.run(&args)?;
    let expected = b"two words\nnot UTF-8\ntwo words\n";
    ensure!(text == expected, "cat: {}", text.escape_ascii());
    let big = ground.run(&["cat", &ground.url(b"big")])?;
    ensure!(
        big == fs::read(ground.dir.join("big"))?,
        "cat: a big file is wrong"
    );
    // A reader that has seen enough is no error.
    let mut command = (ground.penstock)();
    command.arg("cat").arg(ground.url(b"big"));
    let mut running = Running::start(command.stdout(Stdio::piped()))?;
    let mut reader = running.child().stdout.take().context("its output")?;
    reader.read_exact(&mut [0; 10])?;
    drop(reader);
    let status = running.wait(END_DEADLINE)?;
    ensure!(status.success(), "cat to a closed pipe: {status}");
    Ok(3)
}

fn stat(ground: &Ground<'_>) -> Result<u32> {
    for known in &ground.known {
        let Known {
            path,
            follow,
            there: local,
        } = known;
        let url = ground.url(path.as_bytes());
        let mut args = vec!["stat", "--json", &url];
        if *follow {
            args.push("--follow");
        }
        let shown: Value = serde_json::from_slice(&ground.run(&args)?)?;
        let mtime = shown["mtime"].as_str().unwrap_or_default();
        let fileid = local.ino().to_string();
        let right = shown["fileid"] == fileid.as_str()
            && shown["size"] == local.len()
            && shown["nlink"] == local.nlink()
            && shown["mode"] == format!("{:04o}", local.mode() & 0o7777)
            && (shown["uid"] == local.uid() && shown["gid"] == local.gid())
            && is_time(mtime, local);
        ensure!(right, "stat --json {path}: {shown}, here {local:?}");
    }
    let text = String::from_utf8(ground.run(&["stat", &ground.url(b"sub/link")])?)?;
    ensure!(
        text.contains("sub/link -> two words") && text.contains("symbolic link"),
        "stat: {text}"
    );
    Ok(5)
}

/// Whether a text of RFC 3339 is the time at which the file's content changed: its seconds as date(1) reads them.
fn is_time(text: &str, local: &std::fs::Metadata) -> bool {
    let read = std::process::Command::new("date")
        .args(["-d", text, "+%s.%N"])
        .output();
    let expected = format!("{}.{:09}\n", local.mtime(), local.mtime_nsec());
    read.is_ok_and(|read| read.stdout == expected.as_bytes())
}

/// Checks exit codes, and that messages name what is wrong.
fn failures(ground: &Ground<'_>) -> Result<u32> {
    let missing = ground.url(b"sub/missing");
    let directory = ground.url(b"sub");
    let cases: [(&[&str], i32, &str); 8] = [
        (&["cat", &missing], 1, "no such file"),
        (&["ls", &missing], 1, "no such file"),
        (&["stat", &missing], 1, "no such file"),
        (&["cat", &directory], 1, "is a directory"),
        (&["stat", "nfs://127.0.0.1:1/"], 1, "is the server running"),
        (&["stat", "http://127.0.0.1/"], 2, "nfs://HOST"),
        (&["ls", "nfs://127.0.0.1/?colour=red"], 2, "unknown option"),
        (&["cat"], 2, "Usage"),
    ];
    for (args, code, text) in cases {
        let done = (ground.penstock)().args(args).output()?;
        let said = String::from_utf8_lossy(&done.stderr);
        if done.status.code() != Some(code) || !said.contains(text) || !done.stdout.is_empty() {
            bail!("penstock {args:?}: {}, {said}", done.status);
        }
    }
    Ok(8)
}
