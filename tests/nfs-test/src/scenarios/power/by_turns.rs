//! Power cuts under the load of IOR's "hard" pattern: clients write one file by turns, in records that are aligned to
//! nothing, UNSTABLE and all at once, and commit now and then; the server holds the ends of the records.
//!
//! What a COMMIT covered that was answered before the cut is there; of what else was sent each byte is there or a
//! hole is; the file has no byte beyond the last record that was sent; and clients that send again what was not
//! committed have lost nothing.

use std::cell::{Cell, RefCell};
use std::fs;
use std::ops::Range;
use std::path::Path;
use std::rc::Rc;

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use bytes::Bytes;
use fastrand::Rng;
use nfs_client::Nfs3;
use nfs_lab::pattern;
use nfs_wire::nfs3::{FileHandle, StableHow};

use super::Bench;
use super::traffic::Traffic;
use crate::host::wire::{self, mount, ok, walk};
use crate::host::{Context, IoSetting};

const CLIENTS: u64 = 4;
/// WRITEs that each client has on their way at once.
const IN_FLIGHT: u64 = 4;
/// Size of a record in bytes.
const RECORD: u64 = 47_008;
/// Number of records of a whole file.
const RECORDS: u64 = 160;
/// After one in so many WRITEs comes a COMMIT.
const WRITES_PER_COMMIT: u64 = 10;
/// The tag of the file's bytes.
const TAG: u64 = 77;
const NAME: &str = "by-turns";

/// Cuts the power this often; returns how many records were committed by then, and how many were sent again.
pub(super) fn rounds(
    context: &Context,
    bench: &mut Bench<'_>,
    count: u32,
    random: &mut Rng,
) -> Result<(u64, u32)> {
    let (mut committed, mut resent, mut completed) = (0, 0, 0);
    for round in 0..count {
        // Each kind of setting, and each way to end.
        let io = IoSetting {
            reserve: round % 4 >= 2,
            order: round % 8 >= 4,
            ..IoSetting::staged()
        };
        let what = || {
            format!(
                "records by turns, round {round}, {io}, seed {}",
                context.seed
            )
        };
        let is_killed = round % 2 == 0;
        let done = one(context, bench, io, is_killed, random).with_context(what)?;
        committed += done.committed;
        resent += done.resent;
        completed += done.completed;
    }
    ensure!(
        completed > 0 || count == 0,
        "no block was completed by a neighbour"
    );
    Ok((committed, resent))
}

struct Done {
    committed: u64,
    resent: u32,
    /// Blocks that went out whole, with bytes of two records.
    completed: u64,
}

fn one(
    context: &Context,
    bench: &mut Bench<'_>,
    io: IoSetting,
    is_killed: bool,
    random: &mut Rng,
) -> Result<Done> {
    let path = bench.export.join(NAME);
    fs::write(&path, [])?;
    rustix::fs::syncfs(fs::File::open(&path)?)?;
    let mut server = bench.start(io)?;
    let disk = bench
        .fs
        .as_mut()
        .context("a file system whose power can be cut")?;
    let knife = disk.knife()?;
    let lanes = CLIENTS * IN_FLIGHT;
    let traffic = Traffic::new(lanes as u32, 5 + random.u64(..RECORDS) as u32, false);
    let load = Rc::new(Load::new(traffic));
    wire::block_on(async {
        let mut tasks = Vec::new();
        for client in 0..CLIENTS {
            let (nfs, root) = mount(server.address()).await?;
            let file = walk(&nfs, &root, NAME).await?;
            for lane in 0..IN_FLIGHT {
                let (load, nfs, random) = (Rc::clone(&load), nfs.clone(), random.fork());
                let first = client + CLIENTS * lane;
                tasks.push(tokio::task::spawn_local(async move {
                    let outcome = load.write(&nfs, &file, first, random).await;
                    load.traffic.ended(outcome.is_ok());
                    outcome
                }));
            }
        }
        load.traffic.moment().await;
        // What is answered from now on promises nothing.
        load.traffic.begin_cut();
        knife.cut()?;
        for task in tasks {
            task.await??;
        }
        anyhow::Ok(())
    })?;
    let completed = nfs_lab::counter(&context.lab, &bench.state, "staged_blocks_completed")?;
    if is_killed {
        server.kill()?;
    } else {
        server.stop().context("draining after the cut")?;
    }
    disk.unmount()?;
    disk.mount()?;
    load.check_disk(&path).context("after the cut")?;
    let resent = resend(bench, &load, io).context("sending again")?;
    Ok(Done {
        committed: load.count(State::Committed),
        resent,
        completed,
    })
}

/// The server runs again: its verifier is another one, and clients send what was not committed.
fn resend(bench: &Bench<'_>, load: &Load, io: IoSetting) -> Result<u32> {
    let server = bench.start(io)?;
    let again: Vec<u64> = load.in_state(|state| matches!(state, State::Sent | State::Acknowledged));
    wire::block_on(async {
        let (nfs, root) = mount(server.address()).await?;
        let file = walk(&nfs, &root, NAME).await?;
        let verifier = ok("COMMIT", nfs.commit(&file, 0, 0)).await?.verf;
        ensure!(
            load.verifier.get() != Some(verifier),
            "the verifier is that of before"
        );
        for record in &again {
            let write = nfs.write(&file, record * RECORD, StableHow::Unstable, data(*record));
            ok("WRITE", write).await?;
        }
        let after = ok("COMMIT", nfs.commit(&file, 0, 0)).await?.verf;
        ensure!(after == verifier, "another verifier without a restart");
        Ok(())
    })?;
    server.stop()?;
    for record in &again {
        load.set(*record, State::Committed);
    }
    load.check_disk(&bench.export.join(NAME))?;
    Ok(again.len() as u32)
}

/// How far a record has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Unsent,
    /// On its way, or its reply came too late to count.
    Sent,
    Acknowledged,
    /// A COMMIT of it was answered that was sent after it was acknowledged.
    Committed,
}

/// What the clients share: how far each record has come.
struct Load {
    traffic: Traffic,
    records: RefCell<Vec<State>>,
    verifier: Cell<Option<[u8; 8]>>,
}

impl Load {
    fn new(traffic: Traffic) -> Self {
        Self {
            traffic,
            records: RefCell::new(vec![State::Unsent; RECORDS as usize]),
            verifier: Cell::new(None),
        }
    }

    fn set(&self, record: u64, state: State) {
        self.records.borrow_mut()[record as usize] = state;
    }

    fn in_state(&self, wanted: impl Fn(State) -> bool) -> Vec<u64> {
        let records = self.records.borrow();
        let numbered = (0..).zip(records.iter());
        let wanted = numbered.filter(|(_, state)| wanted(**state));
        wanted.map(|(record, _)| record).collect()
    }

    fn count(&self, wanted: State) -> u64 {
        self.in_state(|state| state == wanted).len() as u64
    }

    /// Every so manieth record from `first` on, one after the other, until the power is cut.
    async fn write(
        &self,
        nfs: &Nfs3,
        file: &FileHandle,
        first: u64,
        mut random: Rng,
    ) -> Result<()> {
        for record in (first..RECORDS).step_by((CLIENTS * IN_FLIGHT) as usize) {
            self.set(record, State::Sent);
            let write = nfs.write(file, record * RECORD, StableHow::Unstable, data(record));
            let Some(reply) = self.traffic.counted(write.await)? else {
                break;
            };
            let reply = reply.map_err(|failure| anyhow!("WRITE: {:?}", failure.status))?;
            ensure!(u64::from(reply.count) == RECORD, "{} written", reply.count);
            self.same_verifier(reply.verf)?;
            self.set(record, State::Acknowledged);
            if random.u64(..WRITES_PER_COMMIT) == 0 {
                self.commit(nfs, file, record, &mut random).await?;
            }
        }
        Ok(())
    }

    /// COMMIT of the record, of all from there on, or of the whole file.
    async fn commit(
        &self,
        nfs: &Nfs3,
        file: &FileHandle,
        record: u64,
        random: &mut Rng,
    ) -> Result<()> {
        let (offset, count) = match random.u64(..3) {
            0 => (record * RECORD, RECORD as u32),
            1 => (record * RECORD, 0),
            _ => (0, 0),
        };
        let covered: Range<u64> = match count {
            0 => offset / RECORD..RECORDS,
            _ => record..record + 1,
        };
        let covered = self
            .in_state(|state| state == State::Acknowledged)
            .into_iter()
            .filter(|record| covered.contains(record));
        let covered: Vec<u64> = covered.collect();
        let reply = self
            .traffic
            .counted(nfs.commit(file, offset, count).await)?;
        if let Some(reply) = reply {
            let reply = reply.map_err(|failure| anyhow!("COMMIT: {:?}", failure.status))?;
            self.same_verifier(reply.verf)?;
            for record in covered {
                self.set(record, State::Committed);
            }
        }
        Ok(())
    }

    fn same_verifier(&self, verifier: [u8; 8]) -> Result<()> {
        let first = self.verifier.get().unwrap_or(verifier);
        self.verifier.set(Some(first));
        ensure!(first == verifier, "another verifier before the cut");
        Ok(())
    }

    /// Compares the file on the server's disk with what it may be.
    fn check_disk(&self, path: &Path) -> Result<()> {
        let found = fs::read(path)?;
        let sent = self.in_state(|state| state != State::Unsent);
        let end = sent.last().map_or(0, |last| (last + 1) * RECORD);
        ensure!(
            found.len() as u64 <= end,
            "{} bytes, {end} were sent",
            found.len()
        );
        for (record, state) in (0..).zip(self.records.borrow().iter()) {
            let start = found.len().min((record * RECORD) as usize);
            let bytes = &found[start..found.len().min(((record + 1) * RECORD) as usize)];
            let expected = data(record);
            if *state == State::Committed && bytes != expected {
                bail!(
                    "record {record} was committed, and is not there: {} bytes",
                    bytes.len()
                );
            }
            // Of one that was not sent no byte can be there.
            let may_be = |(byte, expected): (&u8, &u8)| {
                *byte == 0 || (*state != State::Unsent && byte == expected)
            };
            let strays = bytes.iter().zip(&expected).position(|pair| !may_be(pair));
            if let Some(at) = strays {
                bail!("record {record} ({state:?}): byte {at} is nobody's");
            }
        }
        Ok(())
    }
}

/// The bytes of a record, none of which is 0.
fn data(record: u64) -> Bytes {
    Bytes::from(pattern::bytes(TAG, record * RECORD, RECORD as usize))
}
