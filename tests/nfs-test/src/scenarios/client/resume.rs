//! `cp --resume` onto what a crash may leave: of a file that was sent in order, any of the last bytes may be
//! missing although the file is as long as it should be.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use nfs_client::limits::TRANSFER_UNCOMMITTED_BYTES_MAX;
use nfs_lab::pattern;

use super::penstock;
use crate::host::PeerServer;

/// The file's length, in bytes: some that may be trusted, all that may not be, and a ragged end.
const BYTES: usize = TRANSFER_UNCOMMITTED_BYTES_MAX as usize + (9 << 20) + 12_345;
/// Name of the copy in the destination.
const NAME: &str = "resumed";

/// The state in which an interrupted copy was left.
#[derive(Debug, Clone, Copy)]
enum Left {
    /// As long as the source, with holes where nothing was committed.
    Holes,
    /// Shorter than the source, with a hole before its end.
    Short,
    /// Another file of the same length, newer than the source.
    Other,
    /// Whole, but without the source's modification time.
    NoTime,
}

/// Onto a server whose disk is at hand, and onto this host.
///
/// # Errors
/// What is wrong.
pub(super) fn run(server: &PeerServer<'_>) -> Result<u32> {
    let context = server.context;
    let (source, down) = (context.lab.dir.join("whole"), context.lab.dir.join("half"));
    fs::write(&source, pattern::bytes(8, 0, BYTES))?;
    let text = |path: &Path| -> Result<String> { Ok(path.to_str().context("UTF-8")?.to_owned()) };
    let (url, original) = (
        server.url(NAME).to_string(),
        server.url("whole").to_string(),
    );
    penstock(server, &["cp", "-p", &text(&source)?, &original])?;
    let all = [Left::Holes, Left::Short, Left::Other, Left::NoTime];
    for left in all {
        for (from, to, there) in [
            (
                text(&source)?,
                url.clone(),
                context.lab.dir.join("export").join(NAME),
            ),
            (original.clone(), text(&down)?, down.clone()),
        ] {
            leave(left, &source, &there)?;
            penstock(server, &["cp", "-p", "--resume", &from, &to])?;
            check(&source, &there).with_context(|| format!("{left:?}, to {to}"))?;
        }
    }
    for path in [&source, &down] {
        fs::remove_file(path)?;
    }
    penstock(server, &["rm", &url, &original])?;
    Ok(2 * all.len() as u32)
}

fn leave(left: Left, source: &Path, there: &Path) -> Result<()> {
    let mut data = fs::read(source)?;
    let unsafe_from = BYTES - TRANSFER_UNCOMMITTED_BYTES_MAX as usize;
    match left {
        Left::Holes => {
            // Right behind what may be trusted, in the middle, and at the end.
            for at in [unsafe_from, BYTES / 2, BYTES - 1] {
                let end = BYTES.min(at + 100_000);
                data[at..end].fill(0);
            }
        }
        Left::Short => {
            data.truncate(BYTES - 5_000_000);
            let end = data.len();
            data[end - (60 << 20)..end - (50 << 20)].fill(0);
        }
        Left::Other => data = pattern::bytes(9, 0, BYTES),
        Left::NoTime => {}
    }
    // In place: the server has it open, maybe.
    let file = OpenOptions::new()
        .create(true)
        .write(true)
        .truncate(true)
        .open(there)?;
    file.write_all_at(&data, 0)?;
    Ok(())
}

fn check(source: &Path, there: &Path) -> Result<()> {
    let time = |path: &Path| {
        path.metadata()
            .map(|meta| (meta.mtime(), meta.mtime_nsec()))
    };
    ensure!(
        File::open(there)?.metadata()?.len() == BYTES as u64,
        "its length"
    );
    let (ours, theirs) = (fs::read(source)?, fs::read(there)?);
    let wrong = ours.iter().zip(&theirs).position(|(a, b)| a != b);
    ensure!(wrong.is_none(), "byte {wrong:?} of {BYTES} is wrong");
    ensure!(time(source)? == time(there)?, "its time");
    Ok(())
}
