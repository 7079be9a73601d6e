//! The state directory is full while a server without privileges serves: what needs a new handle fails and changes nothing, all else goes on, and it ends by itself.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use bytes::Bytes;
use nfs_client::Nfs3;
use nfs_client::nfs3::Outcome;
use nfs_lab::Mounted;
use nfs_wire::nfs3::{CreateHow, FileHandle, Mknoddata, Nfsstat3, PipeData, Sattr3, StableHow};

use super::{for_nobody, own_dir, start};
use crate::host::Context;
use crate::host::wire::{block_on, mount, ok, walk};

/// How long the server may take to find that it can write again: it tries once a second.
const RECOVERY_DEADLINE: Duration = Duration::from_secs(30);
/// The pause between two looks whether the server can write again.
const RECOVERY_PAUSE: Duration = Duration::from_millis(50);
/// Calls made while nothing can be written: far more than lines of the log may come of them.
const CALLS: usize = 300;

pub(in crate::scenarios) fn run(context: &Context) -> Result<String> {
    let context = &for_nobody(context)?;
    // In memory: the server tries once a second whether it can write again, and may then find room for a handle or two.
    // No call may take that long, as one might on a disk that others use.
    let export = context.lab.dir.join("export");
    let files = Mounted::tmpfs(8, &export)?;
    own_dir(&export)?;
    let state = context.lab.dir.join("state");
    let memory = Mounted::tmpfs(8, &state)?;
    own_dir(&state)?;
    let filler = state.join("filler");
    let server = start(context, &export, &state, true)?;
    let refused = block_on(async {
        let (nfs, root) = mount(server.address()).await?;
        let bed = Bed::new(nfs, root, export.clone()).await?;
        fill(&filler)?;
        bed.use_up().await?;
        let refused = bed.refused().await?;
        bed.goes_on().await?;
        std::fs::remove_file(&filler)?;
        bed.recovers().await?;
        anyhow::Ok(refused)
    })?;
    server.stop()?;
    let log = std::fs::read_to_string(context.lab.dir.join("server.log"))?;
    let lines = log.lines().filter(|line| line.contains("handle table"));
    // One when it begins and one when it ends.
    let lines = lines.count();
    ensure!(
        lines == 2,
        "{lines} lines of the log tell of the handle table"
    );
    drop((memory, files));
    Ok(format!("{refused} calls refused"))
}

/// Takes all room of the file system with the new file `filler`.
fn fill(filler: &Path) -> Result<()> {
    use std::io::Write as _;
    let mut file = std::fs::File::create(filler)?;
    while file.write_all(&[0; 4096]).is_ok() {}
    Ok(())
}

struct Bed {
    nfs: Nfs3,
    root: FileHandle,
    export: PathBuf,
    dir: FileHandle,
    file: FileHandle,
}

fn status<T, F>(answer: Outcome<T, F>) -> Result<Nfsstat3> {
    Ok(answer?.map_or_else(|failure| failure.status, |_| Nfsstat3::Ok))
}

impl Bed {
    async fn new(nfs: Nfs3, root: FileHandle, export: PathBuf) -> Result<Self> {
        let set = Sattr3::default();
        let how = CreateHow::Guarded(set);
        ok("MKDIR", nfs.mkdir(&root, b"dir", &set)).await?;
        for name in ["file", "gone", "old"] {
            ok(name, nfs.create(&root, name.as_bytes(), &how)).await?;
        }
        let dir = walk(&nfs, &root, "dir").await?;
        let file = walk(&nfs, &root, "file").await?;
        Ok(Self {
            nfs,
            root,
            export,
            dir,
            file,
        })
    }

    /// What room the table's file has in itself.
    async fn use_up(&self) -> Result<()> {
        for number in 0..100_000 {
            let name = format!("filling-{number}");
            let how = CreateHow::Guarded(Sattr3::default());
            let made = self.nfs.create(&self.dir, name.as_bytes(), &how).await;
            match status(made)? {
                Nfsstat3::Ok => {}
                other => {
                    ensure!(other == Nfsstat3::Nospc, "CREATE: {other:?}");
                    ensure!(!self.export.join("dir").join(name).exists(), "it was made");
                    return Ok(());
                }
            }
        }
        anyhow::bail!("the state directory is not full")
    }

    fn names(&self) -> Result<BTreeSet<std::ffi::OsString>> {
        let entries = std::fs::read_dir(&self.export)?;
        entries.map(|entry| Ok(entry?.file_name())).collect()
    }

    /// Every call that needs a new handle, or a new place of one.
    async fn refused(&self) -> Result<usize> {
        std::fs::write(self.export.join("stranger"), "stranger")?;
        let before = self.names()?;
        let (nfs, root, set) = (&self.nfs, &self.root, Sattr3::default());
        for number in 0..CALLS {
            let name = format!("new-{number}");
            let name = name.as_bytes();
            let (what, got) = match number % 8 {
                0 => (
                    "CREATE",
                    status(nfs.create(root, name, &CreateHow::Guarded(set)).await)?,
                ),
                1 => {
                    let how = CreateHow::Exclusive(*b"verifier");
                    (
                        "exclusive CREATE",
                        status(nfs.create(root, name, &how).await)?,
                    )
                }
                2 => ("MKDIR", status(nfs.mkdir(root, name, &set).await)?),
                3 => (
                    "SYMLINK",
                    status(nfs.symlink(root, name, &set, b"target").await)?,
                ),
                4 => {
                    let fifo = Mknoddata::Fifo(PipeData {
                        pipe_attributes: set,
                    });
                    ("MKNOD", status(nfs.mknod(root, name, &fifo).await)?)
                }
                5 => ("LINK", status(nfs.link(&self.file, root, name).await)?),
                6 => (
                    "RENAME",
                    status(nfs.rename(root, b"file", root, name).await)?,
                ),
                _ => ("LOOKUP", status(nfs.lookup(root, b"stranger").await)?),
            };
            ensure!(got == Nfsstat3::Nospc, "{what}: {got:?}");
        }
        ensure!(self.names()? == before, "something was changed");
        Ok(CALLS)
    }

    /// What clients know already, and what needs no handle.
    async fn goes_on(&self) -> Result<()> {
        let (nfs, root) = (&self.nfs, &self.root);
        let data = Bytes::from_static(b"data");
        ok("WRITE", nfs.write(&self.file, 0, StableHow::FileSync, data)).await?;
        ok("READ", nfs.read(&self.file, 0, 10)).await?;
        let found = ok("LOOKUP", nfs.lookup(root, b"file")).await?;
        ensure!(found.object == self.file, "another handle");
        ok("REMOVE", nfs.remove(root, b"gone")).await?;
        let listed = ok("READDIRPLUS", nfs.readdirplus(root, 0, [0; 8], 8192, 32768)).await?;
        for entry in &listed.entries {
            let name = String::from_utf8_lossy(&entry.name);
            let has_handle = entry.name_handle.is_some();
            match &*name {
                "file" | "old" | "dir" => ensure!(has_handle, "{name} has no handle"),
                "stranger" => ensure!(!has_handle, "a handle that is not recorded"),
                _ => {}
            }
        }
        ensure!(
            listed.entries.iter().all(|entry| entry.name != b"gone"),
            "it is still there"
        );
        Ok(())
    }

    async fn recovers(&self) -> Result<()> {
        let deadline = Instant::now() + RECOVERY_DEADLINE;
        loop {
            let found = self.nfs.lookup(&self.root, b"stranger").await?;
            if let Ok(found) = found {
                let read = ok("READ", self.nfs.read(&found.object, 0, 100)).await?;
                ensure!(read.data == b"stranger"[..], "another file");
                break;
            }
            ensure!(Instant::now() < deadline, "it does not recover");
            // SLEEP: between two looks.
            tokio::time::sleep(RECOVERY_PAUSE).await;
        }
        let how = CreateHow::Guarded(Sattr3::default());
        let made = ok("CREATE", self.nfs.create(&self.root, b"gone", &how)).await?;
        let made = made.obj.context("a handle")?;
        ok(
            "RENAME",
            self.nfs.rename(&self.root, b"old", &self.dir, b"new"),
        )
        .await?;
        ok("GETATTR", self.nfs.getattr(&made)).await?;
        Ok(())
    }
}
