//! What the scenarios of this module stand on: a disk, a server with an export for each mode, a
//! source of bytes, and a way to keep many calls under way.

use std::cell::{Cell, RefCell};
use std::fs::File;
use std::future::Future;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use bytes::Bytes;
use fastrand::Rng;
use nfs_client::Nfs3;
use nfs_client::nfs3::{FileHandle, Sattr3, SetTime, StableHow};
use nfs_lab::{FsKind, LoopFs, Mounted, Server, ServerOptions};
use nfs_wire::nfs3::{Failure, PostOpAttr, Procedure, ReadArgs, ReadOk};
use nfs_wire::xdr::padding;
use nfs_wire::{Decode, Decoder};

use crate::host::Context;
use crate::host::wire::{connect_from, mount_path, ok};

/// How long one call may take. A loaded machine syncs slowly; a hang lasts longer than this.
const CALL_DEADLINE: Duration = Duration::from_secs(60);
/// Calls under way at once where nothing else is said.
pub(super) const DEPTH: usize = 48;

/// A way for bytes between the wire and the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    Buffered,
    DontCache,
    Direct,
}

impl Mode {
    pub(super) const ALL: [Self; 3] = [Self::Buffered, Self::DontCache, Self::Direct];

    /// The mode's name in the server's configuration.
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Buffered => "buffered",
            Self::DontCache => "dontcache",
            Self::Direct => "direct",
        }
    }

    /// Path of the export that has READ and WRITE in this mode.
    pub(super) fn export(self) -> String {
        format!("/{}", self.word())
    }
}

/// The file system that lies under the exports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ground {
    /// XFS on a disk with sectors of 512 bytes.
    Xfs,
    /// XFS on a disk with sectors of 4096 bytes.
    XfsOn4096,
    Ext4,
    Btrfs,
    Tmpfs,
    /// An overlay whose layers lie on XFS.
    Overlay,
}

/// A mounted [`Ground`]; the mount over another comes first, so that it goes first.
pub(super) struct Disk {
    _over: Option<Mounted>,
    pub(super) under: Option<LoopFs>,
}

impl Ground {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Xfs => "xfs",
            Self::XfsOn4096 => "xfs-4096",
            Self::Ext4 => "ext4",
            Self::Btrfs => "btrfs",
            Self::Tmpfs => "tmpfs",
            Self::Overlay => "overlay",
        }
    }

    /// Makes the file system, mounted on `point`, with at least `size_mib` MiB.
    pub(super) fn make(self, size_mib: u32, point: &Path) -> Result<Disk> {
        let disk = |kind, sector, least: u32| {
            LoopFs::with_sectors(kind, sector, size_mib.max(least), point).map(Some)
        };
        let (over, under) = match self {
            Self::Xfs => (None, disk(FsKind::Xfs, 512, 320)?),
            Self::XfsOn4096 => (None, disk(FsKind::Xfs, 4096, 320)?),
            Self::Ext4 => (None, disk(FsKind::Ext4, 512, 64)?),
            Self::Btrfs => (None, disk(FsKind::Btrfs, 512, 256)?),
            Self::Tmpfs => (Some(Mounted::tmpfs(size_mib, point)?), None),
            Self::Overlay => {
                let base = point.with_extension("base");
                let fs = LoopFs::new(FsKind::Xfs, size_mib.max(320), &base)?;
                (Some(Mounted::overlay(&base, point)?), Some(fs))
            }
        };
        Ok(Disk { _over: over, under })
    }
}

/// A server with an export for each mode, all of one directory.
pub(super) struct Bed {
    // Before the disk: it is stopped first.
    server: Option<Server>,
    pub(super) address: SocketAddr,
    pub(super) export: PathBuf,
    pub(super) disk: Disk,
    config: PathBuf,
    state: PathBuf,
}

impl Bed {
    /// Makes the disk and starts the server.
    pub(super) fn new(context: &Context, ground: Ground, size_mib: u32) -> Result<Self> {
        let export = context.lab.dir.join(ground.name());
        let disk = ground
            .make(size_mib, &export)
            .with_context(|| format!("make {}", ground.name()))?;
        let config = context.lab.dir.join(format!("{}.toml", ground.name()));
        let beside = context.lab.dir.join("beside");
        std::fs::create_dir_all(&beside)?;
        std::fs::write(&config, configuration(&export, &beside))?;
        let state = context.lab.dir.join(format!("state-{}", ground.name()));
        let mut bed = Self {
            server: None,
            address: SocketAddr::from(([127, 0, 0, 1], 0)),
            export,
            disk,
            config,
            state,
        };
        bed.start(context, &[])?;
        Ok(bed)
    }

    /// Starts the server (again), with further words on its command line.
    pub(super) fn start(&mut self, context: &Context, more: &[&str]) -> Result<()> {
        let options = ServerOptions {
            config: Some(self.config.clone()),
            more,
            ..ServerOptions::default()
        };
        let server = Server::start(&context.lab, &self.export, &self.state, &options)?;
        self.address = server.address();
        self.server = Some(server);
        Ok(())
    }

    pub(super) fn server(&mut self) -> Result<&mut Server> {
        self.server.as_mut().context("the server is stopped")
    }

    /// The directory in which the server keeps its control socket.
    pub(super) fn state(&self) -> &Path {
        &self.state
    }

    /// Stops the server as an operator does; a panic in its log is an error.
    pub(super) fn stop(&mut self) -> Result<()> {
        self.server.take().map_or(Ok(()), Server::stop)
    }

    /// The path of a file on the server's own disk.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.export.join(name)
    }
}

/// Path of an export of the same server that is on another disk.
pub(super) const BESIDE: &str = "/beside";

fn configuration(export: &Path, beside: &Path) -> String {
    let mut text = format!(
        "[[export]]\npath = {:?}\npseudo = {BESIDE:?}\nsquash = \"none\"\n\n",
        beside.display().to_string()
    );
    for mode in Mode::ALL {
        text += &format!(
            "[[export]]\npath = {:?}\npseudo = {:?}\nsquash = \"none\"\nread = {word:?}\nwrite = {word:?}\n\n",
            export.display().to_string(),
            mode.export(),
            word = mode.word(),
        );
    }
    text
}

/// A client's view of one export.
#[derive(Clone)]
pub(super) struct Client {
    pub(super) nfs: Nfs3,
    pub(super) root: FileHandle,
}

impl Client {
    /// Connects as root and mounts the export of `mode`.
    pub(super) async fn new(address: SocketAddr, mode: Mode) -> Result<Self> {
        Self::from(None, address, &mode.export()).await
    }

    /// Connects as root from the address `source`, if one is given, and mounts `path`.
    pub(super) async fn from(
        source: Option<IpAddr>,
        address: SocketAddr,
        path: &str,
    ) -> Result<Self> {
        let nfs = connect_from(source, address, CALL_DEADLINE).await?;
        let root = mount_path(&nfs, path).await?;
        Ok(Self { nfs, root })
    }

    /// The handle of a file in the export's root.
    pub(super) async fn find(&self, name: &str) -> Result<FileHandle> {
        let found = ok("LOOKUP", self.nfs.lookup(&self.root, name.as_bytes())).await?;
        Ok(found.object)
    }

    /// READ, with the reply's padding looked at too: whatever is sent must not be other memory.
    /// Returns the data and `eof`.
    pub(super) async fn read(
        &self,
        file: &FileHandle,
        offset: u64,
        count: u32,
    ) -> Result<(Bytes, bool)> {
        let args = ReadArgs {
            file: *file,
            offset,
            count,
        };
        let what = || format!("READ of {count} at {offset}");
        let results = self
            .nfs
            .call(Procedure::Read, &args)
            .await
            .with_context(what)?;
        let answer: Result<ReadOk<'_>, Failure<PostOpAttr>> =
            Decode::decode(&mut Decoder::new(&results)).with_context(what)?;
        let reply = answer.map_err(|failure| anyhow!("{}: {:?}", what(), failure.status))?;
        let len = reply.data.len();
        ensure!(
            reply.count as usize == len,
            "{}: count {} with {len} bytes",
            what(),
            reply.count
        );
        let after = &results[results.len() - padding(len)..];
        ensure!(
            after.iter().all(|byte| *byte == 0),
            "{}: padded with {after:x?}",
            what()
        );
        Ok((results.slice_ref(reply.data), reply.eof))
    }

    /// WRITE of all of `data`; returns the verifier.
    pub(super) async fn write(
        &self,
        file: &FileHandle,
        offset: u64,
        stable: StableHow,
        data: Bytes,
    ) -> Result<[u8; 8]> {
        let len = data.len();
        let what = format!("WRITE of {len} at {offset}, {stable:?}");
        let reply = ok(&what, self.nfs.write(file, offset, stable, data)).await?;
        ensure!(
            reply.count as usize == len,
            "{what}: {} written",
            reply.count
        );
        ensure!(
            reply.committed as u32 >= stable as u32,
            "{what}: {:?}",
            reply.committed
        );
        Ok(reply.verf)
    }

    /// Sets the size of a file with SETATTR.
    pub(super) async fn resize(&self, file: &FileHandle, size: u64) -> Result<()> {
        let attributes = Sattr3 {
            mode: None,
            uid: None,
            gid: None,
            size: Some(size),
            atime: SetTime::DontChange,
            mtime: SetTime::DontChange,
        };
        let what = format!("SETATTR of size {size}");
        ok(&what, self.nfs.setattr(file, &attributes, None)).await?;
        Ok(())
    }
}

/// Bytes to write: a pool of random ones, of which pieces are taken without copying. None is 0, so
/// that a hole is never mistaken for data.
#[derive(Clone)]
pub(super) struct Source {
    pool: Bytes,
    random: Rc<RefCell<Rng>>,
}

impl Source {
    /// Makes a pool for pieces of up to `longest` bytes.
    pub(super) fn new(mut random: Rng, longest: usize) -> Self {
        let words = (longest * 2).div_ceil(8);
        let pool: Vec<u8> = (0..words)
            .flat_map(|_| random.u64(..).to_ne_bytes())
            .map(|byte| byte | 1)
            .collect();
        let random = Rc::new(RefCell::new(random));
        Self {
            pool: Bytes::from(pool),
            random,
        }
    }

    pub(super) fn take(&self, len: usize) -> Bytes {
        let start = self.random.borrow_mut().usize(..self.pool.len() - len + 1);
        self.pool.slice(start..start + len)
    }

    /// The whole pool, at least twice as long as the longest piece.
    pub(super) fn whole(&self) -> Bytes {
        self.pool.clone()
    }

    pub(super) fn below(&self, bound: u64) -> u64 {
        self.random.borrow_mut().u64(..bound)
    }

    /// Chooses how stable a WRITE is: mostly UNSTABLE, now and then the others.
    pub(super) fn stable(&self) -> StableHow {
        match self.below(24) {
            0 => StableHow::FileSync,
            1 => StableHow::DataSync,
            _ => StableHow::Unstable,
        }
    }
}

/// Does `work` for each of `items`, `depth` at a time; the first failure ends it. Returns how many.
pub(super) async fn pipelined<T, F, W>(
    depth: usize,
    items: impl IntoIterator<Item = T, IntoIter: 'static>,
    work: F,
) -> Result<u64>
where
    F: Fn(T) -> W + 'static,
    W: Future<Output = Result<()>> + 'static,
    T: 'static,
{
    let items = Rc::new(RefCell::new(items.into_iter().fuse()));
    let (work, done, failed) = (
        Rc::new(work),
        Rc::new(Cell::new(0)),
        Rc::new(Cell::new(false)),
    );
    let tasks: Vec<_> = (0..depth)
        .map(|_| {
            let (items, work) = (Rc::clone(&items), Rc::clone(&work));
            let (done, failed) = (Rc::clone(&done), Rc::clone(&failed));
            tokio::task::spawn_local(async move {
                while !failed.get() {
                    let Some(item) = items.borrow_mut().next() else {
                        break;
                    };
                    let outcome = work(item).await;
                    failed.set(failed.get() || outcome.is_err());
                    outcome?;
                    done.set(done.get() + 1);
                }
                anyhow::Ok(())
            })
        })
        .collect();
    let mut outcome = Ok(());
    for task in tasks {
        outcome = outcome.and(task.await?);
    }
    outcome.map(|()| done.get())
}

/// Checks that `found` is `expected`; the error says where it first is not.
pub(super) fn same(expected: &[u8], found: &[u8]) -> Result<()> {
    if expected == found {
        return Ok(());
    }
    let shared = expected.iter().zip(found);
    let at = shared.take_while(|(a, b)| a == b).count();
    let show = |bytes: &[u8]| format!("{:02x?}", &bytes[at..bytes.len().min(at + 8)]);
    let differing = expected.iter().zip(found).filter(|(a, b)| a != b).count();
    bail!(
        "{} bytes, should be {}; {differing} differ, from byte {at} on: {}, should be {}",
        found.len(),
        expected.len(),
        show(found),
        show(expected),
    )
}

/// Checks that a file on the server's own disk holds `expected` from `offset` on, and is `size` bytes long.
pub(super) fn local_is(path: &Path, offset: u64, expected: &[u8], size: u64) -> Result<()> {
    let file = File::open(path)?;
    let mut found = vec![0; expected.len()];
    let mut read = 0;
    while read < found.len() {
        match file.read_at(&mut found[read..], offset + read as u64)? {
            0 => break,
            n => read += n,
        }
    }
    let there = size.saturating_sub(offset).min(expected.len() as u64) as usize;
    same(&expected[..there], &found[..read])
        .with_context(|| format!("on the server's own disk, from {offset} on"))?;
    let length = file.metadata()?.len();
    ensure!(
        length == size,
        "{length} bytes on the server's disk, should be {size}"
    );
    Ok(())
}

/// Writes the file back and drops its pages: the next read comes from the disk.
pub(super) fn drop_cache(path: &Path) -> Result<()> {
    let file = File::open(path)?;
    rustix::fs::fsync(&file)?;
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed)?;
    Ok(())
}
