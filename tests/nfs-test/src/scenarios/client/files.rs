//! Each command and each level of the library against one server; in the end the server's disk is looked at.

use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::Stdio;

use anyhow::{Context as _, Result, ensure};
use fastrand::Rng;
use nfs_lab::pattern;
use nfs_lab::{Running, output_within};
use serde_json::Value;

use super::{COMMAND_DEADLINE, library, penstock, refused, resume, tree};
use crate::host::{Context, Peer, PeerServer};
use crate::manifest::{self, Entry};

/// Number of bytes that go through a pipe.
const PIPED_BYTES: usize = 5_000_011;

/// Runs all checks of commands on files against one kind of server.
///
/// # Errors
/// What is wrong.
pub(super) fn run(context: &Context, peer: Peer) -> Result<String> {
    let mut server = PeerServer::start(context, peer, |_| Ok(()))?;
    let source = context.lab.dir.join("source");
    tree::make(&source, &mut Rng::with_seed(context.seed)).context("make a tree")?;
    let expected = manifest::of_tree(&source)?;
    let tree = Tree {
        peer,
        expected: &expected,
    };
    copies(&server, context, &source, tree).context("cp")?;
    let piped = pipes(&server, context).context("put, get")?;
    single(&server).context("single commands")?;
    looks(&server, &expected).context("looking")?;
    removal(&server).context("rm")?;
    let resumed = match peer {
        Peer::Penstock => resume::run(&server).context("cp --resume")?,
        Peer::Ganesha | Peer::KernelNfsd | Peer::KernelNfsdAsync => 0,
    };
    let levels = library::run(&server).context("the library")?;
    let rest = server.at_rest().context("at its end")?;
    for name in ["up", "between", "up-again"] {
        tree.is_at(&rest.join(name))
            .with_context(|| format!("{name} on the disk"))?;
        holes(&rest.join(name).join(tree::SPARSE)).context(name)?;
    }
    ensure!(
        fs::read(rest.join("piped"))? == piped,
        "put: wrong on the disk"
    );
    made(rest).context("on the disk")?;
    library::on_disk(rest).context("the library, on the disk")?;
    Ok(format!(
        "{} entries up, down and between; {resumed} copies gone on with; {levels} calls of the library",
        expected.len()
    ))
}

fn copies(server: &PeerServer<'_>, context: &Context, source: &Path, tree: Tree<'_>) -> Result<()> {
    let url = |name: &str| server.url(name).to_string();
    let here = |path: &Path| -> Result<String> { Ok(path.to_str().context("UTF-8")?.to_owned()) };
    let (source, down) = (here(source)?, context.lab.dir.join("down"));
    penstock(server, &["cp", "-aT", &source, &url("up")])?;
    penstock(server, &["cp", "-aT", &url("up"), &here(&down)?])?;
    tree.is_at(&down).context("down")?;
    holes(&down.join(tree::SPARSE)).context("down")?;
    penstock(server, &["cp", "-aT", &url("up"), &url("between")])?;
    let all = [
        "cp",
        "-aT",
        "--verify",
        "--jobs=3",
        "--transfer=64KiB",
        "--window=2",
    ];
    let (again, two) = (url("up-again"), context.lab.dir.join("down-two"));
    penstock(server, &[&all[..], &[&source, &again]].concat())?;
    // All is there: nothing is copied a second time, and nothing is spoilt.
    penstock(server, &[&all[..], &["--resume", &source, &again]].concat())?;
    let connected = format!(
        "{again}{}nconnect=4",
        if again.contains('?') { '&' } else { '?' }
    );
    penstock(server, &[&all[..], &[&connected, &here(&two)?]].concat())?;
    tree.is_at(&two).context("down, many connections")?;
    let dry = url("dry");
    penstock(server, &["cp", "-a", "--dry-run", &source, &dry])?;
    refused(server.penstock().args(["ls", &dry]), 1)?;
    refused(
        server
            .penstock()
            .args(["cp", &url("missing"), &here(&down)?]),
        1,
    )
}

/// The tree that was copied, and the kind of server it was copied to.
#[derive(Clone, Copy)]
struct Tree<'a> {
    peer: Peer,
    expected: &'a [Entry],
}

impl Tree<'_> {
    /// Checks that `dir` holds the tree that was copied, metadata included. Ganesha's VFS sets no times of
    /// symbolic links, so that they are not compared there.
    fn is_at(self, dir: &Path) -> Result<()> {
        let mut found = manifest::of_tree(dir)?;
        if self.peer == Peer::Ganesha {
            for (entry, expected) in found.iter_mut().zip(self.expected) {
                if entry.kind == "symlink" {
                    entry.mtime = expected.mtime;
                }
            }
        }
        let differences = manifest::differences(self.expected, &found);
        let shown = &differences[..differences.len().min(6)];
        ensure!(
            differences.is_empty(),
            "{} differences: {}",
            differences.len(),
            shown.join(" | ")
        );
        Ok(())
    }
}

fn holes(sparse: &Path) -> Result<()> {
    let there = sparse.metadata()?;
    let used = there.blocks() * 512;
    ensure!(
        there.len() == tree::SPARSE_BYTES && used < tree::SPARSE_BYTES / 8,
        "{}: {used} bytes used of {}",
        sparse.display(),
        there.len()
    );
    Ok(())
}

/// Writes data to the server through a pipe with `put`, and reads it back with `get` and `cat`.
fn pipes(server: &PeerServer<'_>, context: &Context) -> Result<Vec<u8>> {
    let data = pattern::bytes(5, 0, PIPED_BYTES);
    let url = server.url("piped").to_string();
    let log = File::create(context.lab.dir.join("put.log"))?;
    let mut command = server.penstock();
    command
        .args(["put", &url])
        .stdin(Stdio::piped())
        .stderr(log);
    let mut put = Running::start(&mut command)?;
    let mut input = put.child().stdin.take().context("its standard input")?;
    for piece in data.chunks(77_777) {
        input.write_all(piece)?;
    }
    drop(input);
    let status = put.wait(COMMAND_DEADLINE)?;
    ensure!(status.success(), "put: {status}");
    let found = penstock(server, &["get", &url])?;
    ensure!(found == data, "get: wrong bytes");
    let found = penstock(server, &["get", "--offset=1000003", &url])?;
    ensure!(found == data[1_000_003..], "get --offset: wrong bytes");
    let found = penstock(server, &["cat", &url, &url])?;
    ensure!(found == [&data[..], &data].concat(), "cat: wrong bytes");
    Ok(data)
}

/// Runs commands that change one thing; [`made`] looks at what is left of them.
fn single(server: &PeerServer<'_>) -> Result<()> {
    let url = |name: &str| server.url(name).to_string();
    let (a, b, dir) = (url("made/a"), url("made/b"), url("made/x/y/z"));
    let commands: &[&[&str]] = &[
        &["mkdir", "-p", &dir],
        &["mkdir", "-p", &dir],
        &["touch", "-d", "2020-02-02T02:02:02", &a],
        &["truncate", "-s", "100000", &a],
        &["chmod", "0640", &a],
        &["chown", "1234:4321", &a],
        &["ln", &a, &url("made/hard")],
        &["ln", "-s", "x/y/z", &url("made/symbolic")],
        &["mv", &a, &b],
        &["mv", &b, &url("made/x/y")],
        &["chmod", "-R", "g+w", &url("made/x")],
        &["rmdir", &dir],
    ];
    for command in commands {
        penstock(server, command)?;
    }
    refused(server.penstock().args(["mkdir", &url("made")]), 1)?;
    refused(server.penstock().args(["rmdir", &url("made")]), 1)?;
    refused(server.penstock().args(["rm", &url("made")]), 1)?;
    refused(server.penstock().args(["mv", &a, &b]), 1)
}

fn made(rest: &Path) -> Result<()> {
    let dir = rest.join("made");
    let file = dir.join("x/y/b").metadata()?;
    let right = file.len() == 100_000
        && file.mode() & 0o7777 == 0o660
        && (file.uid(), file.gid()) == (1234, 4321)
        && file.nlink() == 2
        && dir.join("hard").metadata()?.ino() == file.ino();
    ensure!(right, "b: {file:?}");
    let target = fs::read_link(dir.join("symbolic"))?;
    ensure!(target == Path::new("x/y/z"), "{target:?}");
    ensure!(!dir.join("x/y/z").exists() && !dir.join("a").exists());
    ensure!(!rest.join("between-too").exists(), "rm -r left something");
    Ok(())
}

/// Checks the commands that change nothing.
fn looks(server: &PeerServer<'_>, expected: &[Entry]) -> Result<()> {
    let up = server.url("up").to_string();
    let found = penstock(server, &["find", "--print0", &up])?;
    let count = found.split(|byte| *byte == 0).count() - 1;
    ensure!(count == expected.len() + 1, "find: {count} entries");
    let count_of = |words: &[&str]| -> Result<usize> {
        let found = penstock(server, &[&["find", "-0"], words, &[&up]].concat())?;
        Ok(found.split(|byte| *byte == 0).count() - 1)
    };
    let of_kind = |kind: &str| expected.iter().filter(|entry| entry.kind == kind).count();
    ensure!(
        count_of(&["--type", "f"])? == of_kind("file"),
        "find --type f"
    );
    ensure!(
        count_of(&["--type", "l"])? == of_kind("symlink"),
        "find --type l"
    );
    ensure!(count_of(&["--size", "+60M"])? == 1, "find --size");
    ensure!(count_of(&["--name", "*glob*"])? == 1, "find --name");
    let text = penstock(server, &["du", "-s", "--json", "--apparent-size", &up])?;
    let sum: Value = serde_json::from_slice(&text)?;
    let bytes = sum["bytes"].as_u64().context("du: bytes")?;
    ensure!(bytes >= tree::SPARSE_BYTES, "du: {sum}");
    let text = penstock(
        server,
        &["ls", "--json", &server.url("up/names").to_string()],
    )?;
    let lines = text.split(|byte| *byte == b'\n').count() - 1;
    let names = expected.iter().filter(|entry| {
        let rest = entry.path.strip_prefix(b"names/");
        rest.is_some_and(|rest| !rest.contains(&b'/'))
    });
    ensure!(lines == names.count(), "ls: {lines} entries");
    let text = penstock(server, &["df", "--json", &up])?;
    serde_json::from_slice::<Value>(&text).context("df")?;
    let host = server.url("").to_string();
    penstock(server, &["showmount", "-e", &host])?;
    penstock(server, &["ping", "-c", "3", "-i", "0", &host])?;
    output_within(server.penstock().args(["stat", &up]), COMMAND_DEADLINE)?;
    Ok(())
}

fn removal(server: &PeerServer<'_>) -> Result<()> {
    let (up, copy) = (server.url("up"), server.url("between-too"));
    penstock(server, &["cp", "-rT", &up.to_string(), &copy.to_string()])?;
    penstock(server, &["rm", "-r", &copy.to_string()])?;
    refused(server.penstock().args(["ls", &copy.to_string()]), 1)?;
    penstock(server, &["rm", "-rf", &copy.to_string()])?;
    Ok(())
}
