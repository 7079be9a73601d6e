//! Small WRITEs, stable and unstable, and the write verifier.

use bytes::Bytes;
use nfs_wire::nfs3::{FileHandle, StableHow};
use tokio::time::Instant;

use super::own::Own;
use super::{Ground, flat, timed};
use crate::doctor::facts::{Answered, Refusal, StableTrial, Times, Verifiers};
use crate::limits::{DOCTOR_MEASURE_MAX, DOCTOR_READ_BYTES, DOCTOR_STABLE_SAMPLES};
use crate::nfs::Nfs;

/// What the WRITEs of the trial came to, and where they went.
pub(super) struct Wrote {
    pub(super) trial: StableTrial,
    /// A file of some KiB.
    pub(super) file: FileHandle,
    verifiers: Seen,
}

/// The verifiers of replies in a row.
#[derive(Default)]
struct Seen {
    last: Option<[u8; 8]>,
    replies: u64,
    changes: u64,
}

impl Seen {
    fn note(&mut self, verifier: [u8; 8]) {
        let before = self.last.replace(verifier);
        self.changes += u64::from(before.is_some_and(|before| before != verifier));
        self.replies += 1;
    }
}

impl Ground<'_> {
    /// WRITEs of 4 KiB by turns: UNSTABLE with its COMMIT, and one more COMMIT, into one file, FILE_SYNC into another.
    /// What else the machine does at the time meets all alike.
    pub(super) async fn stable(&self, own: &Own) -> Answered<Wrote> {
        let file = self.new_file(&own.handle, b"unstable").await?;
        let synced = self.new_file(&own.handle, b"file-sync").await?;
        let (mut unstable, mut commit, mut file_sync) = (Vec::new(), Vec::new(), Vec::new());
        let (mut commit_idle, mut nothing, mut getattr) = (Vec::new(), Vec::new(), Vec::new());
        let mut promised = (StableHow::FileSync, StableHow::FileSync);
        let mut verifiers = Seen::default();
        let begun = Instant::now();
        let mut round = 0;
        while round < DOCTOR_STABLE_SAMPLES && begun.elapsed() < DOCTOR_MEASURE_MAX {
            let offset = u64::from(DOCTOR_READ_BYTES) * u64::from(round);
            round += 1;
            let write = async || write(self.nfs, &file, offset, StableHow::Unstable).await;
            let (wrote, took) = timed(write).await;
            let (committed, verifier) = wrote?;
            unstable.push(took);
            promised.0 = promised.0.min(committed);
            if committed == StableHow::FileSync {
                let write = async || write_nothing(self.nfs, &synced, offset).await;
                let (wrote, took) = timed(write).await;
                nothing.extend(wrote.map(|()| took));
            }
            verifiers.note(verifier);
            let commit_it = async || flat(self.nfs.commit(&file, 0, 0).await);
            for times in [&mut commit, &mut commit_idle] {
                let (done, took) = timed(commit_it).await;
                verifiers.note(done?.verf);
                times.push(took);
            }
            let (looked, took) = timed(async || self.stat(&file).await).await;
            looked?;
            getattr.push(took);
            let write = async || write_synced(self.nfs, &synced, offset).await;
            let (wrote, took) = timed(write).await;
            let (committed, verifier) = wrote?;
            file_sync.push(took);
            promised.1 = promised.1.min(committed);
            verifiers.note(verifier);
        }
        Ok(Wrote {
            trial: StableTrial {
                unstable: Times::from(unstable),
                commit: Times::from(commit),
                commit_idle: Times::from(commit_idle),
                file_sync: Times::from(file_sync),
                nothing: Times::from(nothing),
                getattr: Times::from(getattr),
                unstable_promised: promised.0,
                file_sync_promised: promised.1,
            },
            file,
            verifiers,
        })
    }

    /// Whether another connection is told the verifier that this one was told.
    pub(super) async fn verifiers(&self, wrote: &Wrote) -> Answered<Verifiers> {
        let seen = &wrote.verifiers;
        let same_elsewhere = async {
            let client = self.elsewhere().await?;
            let file = match self.nfs.is_stand_in(&wrote.file) {
                true => return Err(Refusal::NotAsked),
                false => wrote.file,
            };
            let done = flat(client.nfs().commit(&file, 0, 0).await);
            super::leave(client).await;
            Ok(Some(done?.verf) == seen.last)
        };
        Ok(Verifiers {
            replies: seen.replies,
            changes: seen.changes,
            same_elsewhere: same_elsewhere.await,
        })
    }
}

async fn write_synced(nfs: &Nfs, file: &FileHandle, offset: u64) -> Answered<(StableHow, [u8; 8])> {
    write(nfs, file, offset, StableHow::FileSync).await
}

/// One WRITE without a byte: the way of a stable one, with nothing to bring to stable storage.
async fn write_nothing(nfs: &Nfs, file: &FileHandle, offset: u64) -> Answered<()> {
    let how = StableHow::FileSync;
    flat(nfs.write(file, offset, how, Bytes::new()).await).map(drop)
}

/// One WRITE of 4 KiB: what was promised, and the verifier.
async fn write(
    nfs: &Nfs,
    file: &FileHandle,
    offset: u64,
    stable: StableHow,
) -> Answered<(StableHow, [u8; 8])> {
    static DATA: [u8; DOCTOR_READ_BYTES as usize] = [0x5a; DOCTOR_READ_BYTES as usize];
    let wrote = flat(
        nfs.write(file, offset, stable, Bytes::from_static(&DATA))
            .await,
    )?;
    if wrote.count == 0 {
        return Err(Refusal::Call("a WRITE took no byte".to_owned()));
    }
    Ok((wrote.committed, wrote.verf))
}
