//! One file beyond 4 GiB, with holes and with bytes around each border: up, down, between, in the memory that
//! the windows are allowed.

use std::fs::File;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use nfs_client::limits;
use nfs_lab::Running;
use nfs_lab::pattern;

use super::COMMAND_DEADLINE;
use crate::host::{Context, Peer, PeerServer};

const GIB: u64 = 1 << 30;
/// The parts of the file that have data: offset and length in bytes.
const PIECES: &[(u64, u64)] = &[
    (0, 1 << 20),
    (GIB - 5, 300 << 20),
    (2 * GIB - 3000, 6000),
    (4 * GIB - (64 << 20) - 1, (128 << 20) + 2),
    (5 * GIB - 7, 7),
];
const BYTES: u64 = 5 * GIB;
/// Memory of a command beside its windows, in bytes: the program, its stacks, what the allocator keeps.
const PROGRAM_BYTES: u64 = 48 << 20;

/// Copies the large file to Penstock, from it, and within it.
///
/// # Errors
/// What is wrong.
pub(crate) fn run(context: &Context) -> Result<String> {
    let mut server = PeerServer::start(context, Peer::Penstock, |_| Ok(()))?;
    let local = tempfile::Builder::new()
        .prefix("nfs-test-large-")
        .tempdir_in("/dev/shm")?;
    let (source, down) = (local.path().join("source"), local.path().join("down"));
    make(&source)?;
    let text = |path: &Path| -> Result<String> { Ok(path.to_str().context("UTF-8")?.to_owned()) };
    let (up, between) = (
        server.url("up").to_string(),
        server.url("between").to_string(),
    );
    let allowed = limits::MEMORY_BYTES_DEFAULT + limits::LOCAL_MEMORY_BYTES + PROGRAM_BYTES;
    let mut most = 0;
    for words in [
        [text(&source)?, up.clone()],
        [up.clone(), text(&down)?],
        // All of its bytes: the holes are written too.
        [up.clone(), between.clone()],
    ] {
        let used = copy(&server, &words)?;
        ensure!(
            used <= allowed,
            "cp {words:?} took {used} bytes of memory, allowed are {allowed}"
        );
        most = used.max(most);
    }
    check(&down).context("down")?;
    let rest = server.at_rest()?;
    check(&rest.join("up")).context("up")?;
    check(&rest.join("between")).context("between")?;
    Ok(format!(
        "{BYTES} bytes; at most {} MiB of memory",
        most >> 20
    ))
}

fn make(path: &Path) -> Result<()> {
    let file = File::create(path)?;
    for (from, len) in PIECES {
        for at in (*from..from + len).step_by(1 << 20) {
            let len = (from + len - at).min(1 << 20) as usize;
            file.write_all_at(&pattern::bytes(6, at, len), at)?;
        }
    }
    file.set_len(BYTES)?;
    Ok(())
}

/// The whole file: its bytes, and zeros between them.
fn check(path: &Path) -> Result<()> {
    let file = File::open(path)?;
    let used = file.metadata()?.blocks() * 512;
    ensure!(
        file.metadata()?.len() == BYTES && used < GIB,
        "{used} bytes used"
    );
    let mut at = 0;
    let mut found = vec![0; 1 << 20];
    for (from, len) in PIECES.iter().copied().chain([(BYTES, 0)]) {
        while at < from {
            let n = (from - at).min(1 << 20) as usize;
            file.read_exact_at(&mut found[..n], at)?;
            let wrong = found[..n].iter().position(|byte| *byte != 0);
            ensure!(wrong.is_none(), "{wrong:?} after {at} in a hole");
            at += n as u64;
        }
        while at < from + len {
            let n = (from + len - at).min(1 << 20) as usize;
            file.read_exact_at(&mut found[..n], at)?;
            ensure!(found[..n] == pattern::bytes(6, at, n), "wrong after {at}");
            at += n as u64;
        }
    }
    Ok(())
}

/// Makes one copy; returns the command's largest resident set, in bytes.
fn copy(server: &PeerServer<'_>, words: &[String]) -> Result<u64> {
    let log = File::create(server.context.lab.dir.join("cp.log"))?;
    let mut command = server.penstock();
    command.args(["cp", "-p"]).args(words);
    command.stderr(log);
    let mut running = Running::start(&mut command)?;
    let (status, used) = running.wait_measured(COMMAND_DEADLINE)?;
    ensure!(status.success(), "cp {words:?}: {status}");
    Ok(used)
}
