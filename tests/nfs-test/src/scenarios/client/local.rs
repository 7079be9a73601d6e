//! The three ways of `penstock cp --local`, on the file systems of a disk and of memory: the same bytes and
//! the same holes, however files of this host are read and written.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use nfs_lab::pattern;
use nfs_lab::{FsKind, LoopFs};

use super::penstock;
use crate::host::{Context, Peer, PeerServer};

const MIB: u64 = 1 << 20;
/// Size of the file systems in MiB; what is never written takes no space.
const DISK_MIB: u32 = 512;
const WAYS: [&str; 3] = ["buffered", "dontcache", "direct"];

/// A file to copy: its length, and where its bytes are: from, how many.
struct Shape {
    name: &'static str,
    len: u64,
    pieces: &'static [(u64, u64)],
}

const SHAPES: [Shape; 7] = [
    full("nothing", 0, &[]),
    full("byte", 1, &[(0, 1)]),
    full("block", 4096, &[(0, 4096)]),
    full("small-odd", 300_001, &[(0, 300_001)]),
    full("piece-and-byte", MIB + 1, &[(0, MIB + 1)]),
    full("large-odd", 21 * MIB + 4099, &[(0, 21 * MIB + 4099)]),
    Shape {
        name: "holes",
        len: 40 * MIB + 7,
        pieces: &[(12_288, 5000), (5 * MIB + 100, 3 * MIB), (30 * MIB - 1, 2)],
    },
];

const fn full(name: &'static str, len: u64, pieces: &'static [(u64, u64)]) -> Shape {
    Shape { name, len, pieces }
}

/// Copies files between Penstock and each local file system, in each way.
///
/// # Errors
/// What is wrong.
pub(crate) fn run(context: &Context) -> Result<String> {
    let server = PeerServer::start(context, Peer::Penstock, |_| Ok(()))?;
    let mut told = Vec::new();
    for (name, kind) in [
        ("xfs", Some((FsKind::Xfs, 512))),
        ("xfs-4096", Some((FsKind::Xfs, 4096))),
        ("ext4", Some((FsKind::Ext4, 512))),
        ("memory", None),
    ] {
        let memory = tempfile::Builder::new()
            .prefix("nfs-test-local-")
            .tempdir_in("/dev/shm")?;
        let point = context.lab.dir.join(name);
        let _disk = match kind {
            Some((kind, sector)) => Some(LoopFs::with_sectors(kind, sector, DISK_MIB, &point)?),
            None => None,
        };
        let local = if kind.is_some() {
            &point
        } else {
            memory.path()
        };
        let refused = WAYS.map(|way| copies(&server, local, name, way));
        for (way, refused) in WAYS.iter().zip(refused) {
            let refused = refused.with_context(|| format!("{name}, {way}"))?;
            if refused > 0 {
                told.push(format!("{way} refused on {name}"));
            }
            // These are what the ways are for: nothing may be refused here.
            let able = *way == "buffered" || (*way == "direct" && kind.is_some());
            ensure!(
                !able || refused == 0,
                "{name}: {refused} files went another way than {way}"
            );
        }
    }
    let files = SHAPES.len() * WAYS.len() * 4;
    Ok(format!("{files} files up and down; {}", told.join(", ")))
}

/// All shapes up from `local` and down again; how many were refused the way.
fn copies(server: &PeerServer<'_>, local: &Path, name: &str, way: &str) -> Result<u64> {
    let (source, down) = (local.join("source"), local.join("down"));
    fs::create_dir(&source)?;
    for shape in &SHAPES {
        make(&source.join(shape.name), shape)?;
    }
    let text = |path: &Path| -> Result<String> { Ok(path.to_str().context("UTF-8")?.to_owned()) };
    let on_server = format!("{name}-{way}");
    let (url, how) = (server.url(&on_server).to_string(), format!("--local={way}"));
    let cp = |from: &str, to: &str| -> Result<u64> {
        let told = penstock(server, &["cp", "-a", "--json", "--fsync", &how, from, to])?;
        let told = String::from_utf8(told)?;
        let last = told.lines().last().context("cp said nothing")?;
        let last: serde_json::Value = serde_json::from_str(last)?;
        let refused = &last["summary"]["local_refused"];
        refused
            .as_u64()
            .with_context(|| format!("no figure in {last}"))
    };
    let mut refused = cp(&text(&source)?, &url)?;
    refused += cp(&url, &text(&down)?)?;
    for shape in &SHAPES {
        check(&down.join(shape.name), shape).context(shape.name)?;
    }
    // Over what is there, and shorter than it: nothing of the longer file may stay.
    let (short, long) = (down.join("small-odd"), down.join("large-odd"));
    refused += cp(&format!("{url}/small-odd"), &text(&long)?)?;
    refused += cp(&text(&short)?, &format!("{url}/large-odd"))?;
    refused += cp(&format!("{url}/large-odd"), &text(&short)?)?;
    let [small] = ["small-odd"].map(|name| SHAPES.iter().find(|shape| shape.name == name));
    let small = small.context("no such shape")?;
    check(&long, small).context("over a longer file")?;
    check(&short, small).context("over a longer file of the server")?;
    fs::remove_dir_all(&source)?;
    fs::remove_dir_all(&down)?;
    Ok(refused)
}

fn make(path: &Path, shape: &Shape) -> Result<()> {
    let file = File::create(path)?;
    for &(from, len) in shape.pieces {
        file.write_all_at(&pattern::bytes(9, from, usize::try_from(len)?), from)?;
    }
    file.set_len(shape.len)?;
    Ok(file.sync_all()?)
}

fn check(path: &Path, shape: &Shape) -> Result<()> {
    let mut expected = vec![0; usize::try_from(shape.len)?];
    for &(from, len) in shape.pieces {
        let (from, len) = (usize::try_from(from)?, usize::try_from(len)?);
        expected[from..from + len].copy_from_slice(&pattern::bytes(9, from as u64, len));
    }
    let found = fs::read(path)?;
    ensure!(found.len() == expected.len(), "{} bytes came", found.len());
    let wrong = found.iter().zip(&expected).position(|(a, b)| a != b);
    ensure!(wrong.is_none(), "the first wrong byte is {wrong:?}");
    let (used, bytes) = (
        fs::metadata(path)?.blocks() * 512,
        shape.pieces.iter().map(|piece| piece.1).sum::<u64>(),
    );
    // Extents beside its own that a file system keeps for a while are not holes that were filled.
    ensure!(
        bytes == shape.len || used < shape.len / 2,
        "{used} bytes used for {bytes}: the holes are gone"
    );
    Ok(())
}
