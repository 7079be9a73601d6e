//! A disk that fails (the shutdown of XFS and ext4) while split WRITEs in one mode are under way:
//! every call is answered, nothing that is lost is acknowledged, and a client that does what the
//! verifier asks for loses nothing.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use bytes::Bytes;
use fastrand::Rng;
use nfs_client::nfs3::{Failure, FileHandle, Nfsstat3, StableHow, WccData, WriteOk};
use tokio::sync::Notify;

use super::bed::{BESIDE, Bed, Client, Ground, Mode, Source, local_is, pipelined};
use super::figures::Control;
use super::records::RECORD;
use crate::host::Context;
use crate::host::wire::{block_on, ok};

const RECORDS: u64 = 120;
const NAME: &str = "records";

pub(super) fn run(
    context: &Context,
    ground: Ground,
    mode: Mode,
    staged: bool,
    random: &mut Rng,
) -> Result<String> {
    let mut bed = Bed::new(context, ground, 128)?;
    if staged {
        let control = Control::new(&context.lab.program, bed.state());
        control.tell(&["io", &mode.export(), "--staging", "on"])?;
    }
    std::fs::write(bed.path(NAME), [])?;
    std::fs::write(context.lab.dir.join("beside").join(NAME), [])?;
    rustix::fs::syncfs(std::fs::File::open(&bed.export)?)?;
    let source = Source::new(random.fork(), 1 << 20);
    let cut = Cut {
        after: 5 + random.u64(..RECORDS / 2),
        loses: random.u64(..2) == 0,
    };
    let mut work = Work {
        sent: Rc::default(),
        verifier: None,
        file: None,
    };
    let failed = block_on(work.until_cut(&bed, mode, &source, cut))?;
    block_on(work.without_power(&bed, mode, cut)).context("after the failure")?;
    bed.server()?.alive()?;
    if staged {
        let count = nfs_lab::counter(&context.lab, bed.state(), "staged_writes")?;
        ensure!(count > 0, "no WRITE was staged");
    }
    bed.stop().context("draining after the failure")?;
    let disk = bed.disk.under.as_mut().context("a disk to fail")?;
    disk.unmount()?;
    disk.mount()?;
    bed.start(context, &[])?;
    let again = block_on(work.resend(&bed, mode, &source)).context("sending again")?;
    bed.stop()?;
    Ok(format!(
        "{} {}{}: {failed} refused, {again} sent again",
        ground.name(),
        mode.word(),
        if staged { " staged" } else { "" }
    ))
}

/// Lets the disk fail with nothing under way: after the failure not even the file's attributes can be had.
/// Who asks first is told, and the verifier tells the others.
pub(super) fn at_rest(context: &Context, ground: Ground, mode: Mode) -> Result<()> {
    let mut bed = Bed::new(context, ground, 128)?;
    std::fs::write(bed.path(NAME), [])?;
    std::fs::write(context.lab.dir.join("beside").join(NAME), [])?;
    rustix::fs::syncfs(std::fs::File::open(&bed.export)?)?;
    block_on(async {
        let client = Client::new(bed.address, mode).await?;
        let file = client.find(NAME).await?;
        let data = Bytes::from(vec![7; RECORD]);
        let before = client.write(&file, 0, StableHow::Unstable, data).await?;
        let disk = bed.disk.under.as_ref().context("a disk to fail")?;
        disk.knife()?
            .cut()
            .map_err(|error| anyhow!("cut: {error:#}"))?;
        match client.nfs.commit(&file, 0, 0).await? {
            Err(failure) if refused(failure.status) => {}
            other => bail!("COMMIT: {other:?}, should be NFS3ERR_IO"),
        }
        other_verifier(&bed, Some(before)).await
    })?;
    bed.stop().context("draining after the failure")
}

/// Checks with a COMMIT on a sound disk that the verifier has changed: there is one for all exports.
async fn other_verifier(bed: &Bed, before: Option<[u8; 8]>) -> Result<()> {
    let beside = Client::from(None, bed.address, BESIDE).await?;
    let file = beside.find(NAME).await?;
    let now = ok("COMMIT", beside.nfs.commit(&file, 0, 0)).await?.verf;
    ensure!(
        Some(now) != before,
        "data was lost, and the verifier is the one of before"
    );
    Ok(())
}

/// When the disk fails, and what is to be lost then.
#[derive(Debug, Clone, Copy)]
struct Cut {
    /// Number of acknowledged WRITEs after which the disk fails.
    after: u64,
    /// Whether one more WRITE is to be lost. It is UNSTABLE, with no stable one under way or to come: the
    /// sync of a stable one takes along what was written before it, and then nothing may be lost. Without
    /// this the stable ones are struck too.
    loses: bool,
}

/// One record, and how sure the client is of it.
struct Sent {
    data: Bytes,
    /// Whether a stable WRITE of this record was acknowledged before the disk failed.
    stable: bool,
}

struct Work {
    sent: Rc<RefCell<BTreeMap<u64, Sent>>>,
    verifier: Option<[u8; 8]>,
    file: Option<FileHandle>,
}

impl Work {
    /// WRITEs records, many at once; the disk fails after some. Returns how many were refused.
    async fn until_cut(&mut self, bed: &Bed, mode: Mode, source: &Source, cut: Cut) -> Result<u64> {
        let client = Client::new(bed.address, mode).await?;
        let file = client.find(NAME).await?;
        self.file = Some(file);
        let knife = bed.disk.under.as_ref().context("a disk to fail")?.knife()?;
        let state = Rc::new(State {
            client,
            file,
            source: source.clone(),
            knife: RefCell::new(Some(knife)),
            acknowledged: Cell::new(0),
            refused: Cell::new(0),
            verifier: Cell::new(None),
            sent: Rc::clone(&self.sent),
            stable: Cell::default(),
            no_stable: Notify::new(),
            cut,
        });
        let shared = Rc::clone(&state);
        pipelined(24, 0..RECORDS, move |record| {
            let state = Rc::clone(&shared);
            async move { state.write(record * RECORD as u64).await }
        })
        .await?;
        ensure!(
            state.knife.borrow().is_none(),
            "the disk has not failed in time"
        );
        self.verifier = state.verifier.get();
        Ok(state.refused.get())
    }

    /// The server answers, and promises nothing any more.
    async fn without_power(&self, bed: &Bed, mode: Mode, cut: Cut) -> Result<()> {
        let client = Client::new(bed.address, mode).await?;
        let file = self.file.context("no file")?;
        for stable in [StableHow::DataSync, StableHow::FileSync] {
            let data = Bytes::from(vec![1; RECORD]);
            match client.nfs.write(&file, 100, stable, data).await? {
                Err(failure) if refused(failure.status) => {}
                other => bail!("WRITE {stable:?}: {other:?}, should be NFS3ERR_IO"),
            }
        }
        match client.nfs.commit(&file, 0, 0).await? {
            Err(_) => {}
            Ok(reply) if Some(reply.verf) != self.verifier => {}
            Ok(_) => bail!("COMMIT of lost data succeeded with the verifier of the WRITEs"),
        }
        match cut.loses {
            true => other_verifier(bed, self.verifier).await,
            false => Ok(()),
        }
    }

    /// The machine is back: what was stable is there, and the rest is sent again.
    async fn resend(&self, bed: &Bed, mode: Mode, source: &Source) -> Result<u64> {
        let client = Client::new(bed.address, mode).await?;
        let file = client.find(NAME).await?;
        let mut again = 0;
        let mut model = vec![0; RECORDS as usize * RECORD];
        for record in 0..RECORDS {
            let offset = record * RECORD as u64;
            let sent = self.sent.borrow_mut().remove(&offset);
            let data = match sent {
                Some(Sent { data, stable: true }) => {
                    let (found, _) = client.read(&file, offset, RECORD as u32).await?;
                    super::bed::same(&data, &found)
                        .with_context(|| format!("the stable WRITE at {offset}"))?;
                    data
                }
                sent => {
                    let data = sent.map_or_else(|| source.take(RECORD), |sent| sent.data);
                    let stable = StableHow::Unstable;
                    let verifier = client.write(&file, offset, stable, data.clone()).await?;
                    ensure!(
                        Some(verifier) != self.verifier,
                        "the verifier is the one of before"
                    );
                    again += 1;
                    data
                }
            };
            let start = offset as usize;
            model[start..start + RECORD].copy_from_slice(&data);
        }
        ok("COMMIT", client.nfs.commit(&file, 0, 0)).await?;
        local_is(&bed.path(NAME), 0, &model, model.len() as u64)?;
        Ok(again)
    }
}

/// EIO, or EROFS: ext4 says that, too, once it has seen its disk fail.
const fn refused(status: Nfsstat3) -> bool {
    matches!(status, Nfsstat3::Io | Nfsstat3::Rofs)
}

struct State {
    client: Client,
    file: FileHandle,
    source: Source,
    knife: RefCell<Option<nfs_lab::Knife>>,
    acknowledged: Cell<u64>,
    refused: Cell<u64>,
    verifier: Cell<Option<[u8; 8]>>,
    sent: Rc<RefCell<BTreeMap<u64, Sent>>>,
    /// Stable WRITEs under way, and who waits for the last of them.
    stable: Cell<u32>,
    no_stable: Notify,
    cut: Cut,
}

impl State {
    async fn send(
        &self,
        offset: u64,
        stable: StableHow,
        data: Bytes,
    ) -> Result<Result<WriteOk, Failure<WccData>>> {
        let waits = u32::from(stable != StableHow::Unstable);
        self.stable.set(self.stable.get() + waits);
        let reply = self.client.nfs.write(&self.file, offset, stable, data);
        let reply = reply.await.with_context(|| format!("WRITE at {offset}"))?;
        self.stable.set(self.stable.get() - waits);
        if self.stable.get() == 0 {
            self.no_stable.notify_waiters();
        }
        Ok(reply)
    }

    async fn write(&self, offset: u64) -> Result<()> {
        let is_lost = self.cut.loses && self.acknowledged.get() >= self.cut.after;
        let stable = match self.source.below(4) {
            _ if is_lost => StableHow::Unstable,
            0 => StableHow::FileSync,
            1 => StableHow::DataSync,
            _ => StableHow::Unstable,
        };
        while is_lost && self.stable.get() > 0 {
            self.no_stable.notified().await;
        }
        let data = self.source.take(RECORD);
        let reply = self.send(offset, stable, data.clone()).await?;
        // A reply that is read after the failure may have been sent before it.
        let ok = match reply {
            Ok(ok) => ok,
            Err(failure) => {
                ensure!(
                    self.knife.borrow().is_none(),
                    "WRITE at {offset}: {:?} on a sound disk",
                    failure.status
                );
                ensure!(
                    refused(failure.status),
                    "WRITE at {offset}: {:?} on a failed disk",
                    failure.status
                );
                self.refused.set(self.refused.get() + 1);
                return Ok(());
            }
        };
        if ok.count as usize == RECORD {
            // A kernel without power may still say yes; only what was read before is a promise.
            let stable = stable != StableHow::Unstable && self.knife.borrow().is_some();
            self.sent.borrow_mut().insert(offset, Sent { data, stable });
        }
        if self.knife.borrow().is_some() {
            let first = self.verifier.get().unwrap_or(ok.verf);
            self.verifier.set(Some(first));
            ensure!(first == ok.verf, "another verifier on a sound disk");
        }
        self.acknowledged.set(self.acknowledged.get() + 1);
        if self.acknowledged.get() >= self.cut.after
            && (is_lost || !self.cut.loses)
            && let Some(knife) = self.knife.borrow_mut().take()
        {
            knife.cut().map_err(|error| anyhow!("cut: {error:#}"))?;
        }
        Ok(())
    }
}
