//! Power cuts: the server's file system loses everything that is not on stable storage, at a random
//! moment under load, and what was acknowledged has to be there afterwards.
//!
//! A round: make directories and put them on stable storage; start the server; let sequences of
//! calls run over several connections; cut; see what the server answers now; end it; mount again
//! and compare; start it again and do what a client does (old handles, resend what was not
//! committed). Three kinds of rounds: one row of the durability table at a time with nothing else
//! going on, names only (data that is synced would carry names along), and everything mixed. Then some rounds of
//! clients that write one file by turns.

mod attributes;
mod by_turns;
mod content;
mod data;
mod model;
mod schedule;
mod traffic;
mod worker;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use bytes::Bytes;
use fastrand::Rng;
use nfs_client::Nfs3;
use nfs_wire::nfs3::{CreateHow, FileHandle, Nfsstat3, StableHow};

use crate::host::wire::{connect, mount, ok, walk};
use crate::host::{Context, IoSetting, Mode, wire};
pub(super) use attributes::attributes;
use content::{Content, SIZE_MAX};
use model::{Change, Kind, Model, Object, Place};
use nfs_lab::pattern;
use nfs_lab::{FsKind, IoFigures, Knife, LoopFs, Server, ServerOptions, counter};
use schedule::{Plan, schedule};
use traffic::Traffic;
use worker::{Act, Worker, nothing};

/// Sequences of a round under load, and the connections they share.
const WORKERS: usize = 6;
const CONNECTIONS: usize = 3;
/// A round under load is cut after 5 to this many acknowledged calls.
const CALLS_MAX: u64 = 160;
/// Longest random pause between the last counted reply and the cut, in microseconds.
const PAUSE_MAX_US: u64 = 1500;
/// Number of files that a sequence finds in each of its two directories.
const FILES: u64 = 6;
const OTHERS: u64 = 3;
/// For so many cuts there is one more under clients that write one file by turns.
const CUTS_PER_TURNS: u32 = 8;
/// Number of rounds in the scenario that kills the server.
const KILLS: u32 = 25;

pub(super) fn xfs(context: &Context) -> Result<String> {
    let export = context.lab.dir.join("export");
    let fs = LoopFs::new(FsKind::Xfs, 320, &export)?;
    rounds(context, Bench::new(context, export, Some(fs)), context.cuts)
}

pub(super) fn ext4(context: &Context) -> Result<String> {
    let export = context.lab.dir.join("export");
    let fs = LoopFs::new(FsKind::Ext4, 128, &export)?;
    rounds(context, Bench::new(context, export, Some(fs)), context.cuts)
}

/// `kill -9` under load: the machine goes on, so that nothing is lost but what the server had in
/// its own memory.
pub(super) fn kill(context: &Context) -> Result<String> {
    let export = context.lab.dir.join("export");
    fs::create_dir(&export)?;
    rounds(
        context,
        Bench::new(context, export, None),
        if context.quick { 5 } else { KILLS },
    )
}

/// What ends a round: a power cut or a kill.
enum Blow {
    Power(Knife),
    /// The server is killed with SIGKILL.
    Kill,
}

fn rounds(context: &Context, mut bench: Bench<'_>, count: u32) -> Result<String> {
    // Another sequence for each engine.
    let mut random = Rng::with_seed(context.seed.wrapping_add(context.lab.engine as u64));
    let schedule = schedule(count, bench.fs.is_some(), &mut random);
    let (mut calls, mut resent) = (0, 0);
    let mut staged_writes = 0;
    let mut moved = Moved::default();
    for (round, (plan, io)) in (0..).zip(&schedule) {
        let what = || format!("round {round}, {plan:?}, {io}, seed {}", context.seed);
        let mut server = bench.start(*io).with_context(what)?;
        let (mut workers, done, again) =
            wire::block_on(bench.round(round, *plan, *io, random.fork(), &mut server))
                .with_context(what)?;
        calls += done;
        resent += again;
        if let Some(fs) = &mut bench.fs {
            moved.note(&server.io_figures().with_context(what)?);
            staged_writes += counter(&context.lab, &bench.state, "staged_writes")?;
            if round.is_multiple_of(2) {
                server.kill().with_context(what)?;
            } else {
                server
                    .stop()
                    .context("draining after the cut")
                    .with_context(what)?;
            }
            fs.unmount().with_context(what)?;
            fs.mount().with_context(what)?;
        }
        verify(&bench.export, round, &mut workers).with_context(what)?;
        bench.last = workers;
    }
    let server = bench.start(IoSetting::all(Mode::Buffered))?;
    resent += wire::block_on(bench.aftermath(&server)).context("after the last round")?;
    server.stop()?;
    let turns = if bench.fs.is_some() {
        count / CUTS_PER_TURNS
    } else {
        0
    };
    let (committed, again) = by_turns::rounds(context, &mut bench, turns, &mut random)?;
    resent += again;
    if bench.fs.is_some() {
        moved.check(&schedule)?;
        // Each run has a round for it, which ends when its WRITEs were acknowledged.
        ensure!(count == 0 || staged_writes > 0, "no WRITE was staged");
    }
    let of_mode = |mode| schedule.iter().filter(|(_, io)| io.write == mode).count();
    let modes = Mode::WORDS.map(|mode| format!("{} {}", of_mode(mode), mode.word()));
    Ok(format!(
        "{count} rounds ({}), {calls} acknowledged calls; {turns} of records by turns, {committed} committed; \
         {resent} writes resent",
        modes.join(", ")
    ))
}

/// Bytes of WRITEs by the mode in which they really went, over all rounds.
#[derive(Default)]
struct Moved(BTreeMap<String, u64>);

impl Moved {
    fn note(&mut self, figures: &[IoFigures]) {
        for row in figures.iter().filter(|row| row.operation == "write") {
            for (mode, bytes) in &row.moved_bytes {
                *self.0.entry(mode.clone()).or_default() += bytes;
            }
        }
    }

    /// A mode that fell back each time would prove nothing.
    fn check(&self, schedule: &[(Plan, IoSetting)]) -> Result<()> {
        for mode in Mode::ALL {
            let asked = |(plan, io): &(Plan, IoSetting)| plan.writes() && io.write == mode;
            let asked = schedule.iter().any(asked);
            let bytes = self.0.get(mode.word()).copied().unwrap_or(0);
            ensure!(!asked || bytes > 0, "no WRITE went {}", mode.word());
        }
        Ok(())
    }
}

struct Bench<'a> {
    context: &'a Context,
    export: PathBuf,
    /// The file system of `export` if its power can be cut.
    fs: Option<LoopFs>,
    state: PathBuf,
    /// The sequences of the last round with the round's number, for the server's next start.
    last: Vec<(u32, Worker)>,
}

impl<'a> Bench<'a> {
    fn new(context: &'a Context, export: PathBuf, fs: Option<LoopFs>) -> Self {
        Self {
            context,
            export,
            fs,
            state: context.lab.dir.join("state"),
            last: Vec::new(),
        }
    }

    fn start(&self, io: IoSetting) -> Result<Server> {
        let config = self.context.lab.dir.join("penstock.toml");
        let text = format!(
            "[[export]]\npath = {:?}\npseudo = \"/\"\nsquash = \"none\"\n{}",
            self.export.display(),
            io.toml()
        );
        fs::write(&config, text)?;
        let options = ServerOptions {
            config: Some(config),
            ..ServerOptions::default()
        };
        Server::start(&self.context.lab, &self.export, &self.state, &options)
    }

    /// One round up to and with the cut; returns the sequences, how many calls were acknowledged,
    /// and how many writes of the last round were sent again.
    async fn round(
        &mut self,
        round: u32,
        plan: Plan,
        io: IoSetting,
        mut random: Rng,
        server: &mut Server,
    ) -> Result<(Vec<(u32, Worker)>, u32, u32)> {
        let resent = self.aftermath(server).await.context("after the restart")?;
        for (old, _) in self.last.drain(..).take(1) {
            fs::remove_dir_all(self.export.join(format!("round-{old}")))?;
        }
        let blow = match &self.fs {
            Some(fs) => Blow::Power(fs.knife()?),
            None => Blow::Kill,
        };
        let (acts, count, steps, target) = match &plan {
            Plan::Row(act) => (vec![*act], 1, 1 + random.u64(..3) as u32, u32::MAX),
            Plan::Names => (
                Act::NAMES.to_vec(),
                WORKERS,
                u32::MAX,
                Self::target(&mut random),
            ),
            Plan::Mixed => (
                [Act::DATA, Act::DATA, Act::OTHER].concat(),
                WORKERS,
                u32::MAX,
                Self::target(&mut random),
            ),
        };
        let killed = matches!(blow, Blow::Kill);
        let traffic = Rc::new(Traffic::new(count as u32, target, killed));
        let workers = self
            .prepare((round, count, io), server, &mut random, &traffic)
            .await?;
        let tasks: Vec<_> = workers
            .into_iter()
            .map(|mut worker| {
                let (acts, traffic) = (acts.clone(), Rc::clone(&traffic));
                tokio::task::spawn_local(async move {
                    let outcome = worker.work(&acts, steps).await;
                    traffic.ended(outcome.is_ok());
                    outcome.map(|()| worker)
                })
            })
            .collect();
        traffic.moment().await;
        if target != u32::MAX {
            // SLEEP: not to wait for anything: the moment is to be a random one.
            tokio::time::sleep(Duration::from_micros(random.u64(..PAUSE_MAX_US))).await;
        }
        traffic.begin_cut();
        match blow {
            Blow::Power(knife) => knife.cut()?,
            Blow::Kill => server.kill()?,
        }
        let mut workers = Vec::new();
        for task in tasks {
            workers.push((round, task.await?.context("a call before or at the cut")?));
        }
        if !killed {
            for (_, worker) in workers.iter().take(2) {
                answers_without_power(server, worker)
                    .await
                    .context("after the cut")?;
            }
            server.alive()?;
        }
        Ok((workers, traffic.count(), resent))
    }

    fn target(random: &mut Rng) -> u32 {
        5 + random.u64(..CALLS_MAX) as u32
    }

    /// Directories with some objects for each sequence, on stable storage, and the sequences.
    async fn prepare(
        &self,
        (round, count, io): (u32, usize, IoSetting),
        server: &Server,
        random: &mut Rng,
        traffic: &Rc<Traffic>,
    ) -> Result<Vec<Worker>> {
        let top = self.export.join(format!("round-{round}"));
        let models: Vec<Model> = (0..count)
            .map(|i| {
                let mut model = populate(&top.join(i.to_string()))?;
                model.gives_back = io.reserve;
                Ok(model)
            })
            .collect::<Result<_>>()?;
        rustix::fs::syncfs(fs::File::open(&top)?)?;
        let mut connections = Vec::new();
        for _ in 0..CONNECTIONS.min(count) {
            connections.push(mount(server.address()).await?);
        }
        let mut workers = Vec::new();
        for (i, model) in models.into_iter().enumerate() {
            let (nfs, root) = &connections[i % connections.len()];
            let dirs = [
                walk(nfs, root, &format!("round-{round}/{i}/a")).await?,
                walk(nfs, root, &format!("round-{round}/{i}/b")).await?,
            ];
            let mut handles = BTreeMap::new();
            for ((dir, name), id) in &model.names {
                handles.insert(*id, walk(nfs, &dirs[*dir], name).await?);
            }
            let (nfs, traffic) = (nfs.clone(), Rc::clone(traffic));
            workers.push(Worker::new(
                nfs,
                dirs,
                model,
                handles,
                io.floor,
                random.fork(),
                traffic,
            ));
        }
        Ok(workers)
    }

    /// The server runs again: handles of before live (those of removed objects are stale), the
    /// verifier is another one, and a client that sends its uncommitted writes again has lost
    /// nothing.
    async fn aftermath(&mut self, server: &Server) -> Result<u32> {
        let nfs = connect(server.address()).await?;
        let mut resent = 0;
        for (i, (round, worker)) in self.last.iter_mut().enumerate() {
            old_handles(&nfs, worker).await?;
            resent += worker.resend(&nfs).await?;
            let top = self.export.join(format!("round-{round}/{i}"));
            let dirs = [top.join("a"), top.join("b")];
            let faults = worker
                .model
                .faults(&dirs.each_ref().map(PathBuf::as_path))?;
            ensure!(faults.is_empty(), "after resending: {}", faults.join("; "));
        }
        Ok(resent)
    }
}

async fn old_handles(nfs: &Nfs3, worker: &Worker) -> Result<()> {
    for (id, handle) in &worker.handles {
        let reply = nfs.getattr(handle).await?;
        match (worker.model.objects.get(id), reply) {
            (Some(_), Ok(_)) => {}
            (Some(object), Err(failure)) => {
                bail!("a handle of before: {:?} for {object:?}", failure.status)
            }
            // Never acknowledged, or replaced by a call that was under way.
            (None, _) => {}
        }
    }
    if let Some(removed) = &worker.removed {
        match nfs.getattr(removed).await? {
            Err(failure) if failure.status == Nfsstat3::Stale => {}
            other => bail!("the handle of a removed object: {other:?}, should be STALE"),
        }
    }
    let file = worker.model.objects.iter().find(|(id, object)| {
        matches!(object.kind, Kind::File(_)) && worker.handles.contains_key(id)
    });
    if let (Some(before), Some((id, _))) = (worker.verifier, file) {
        let verifier = ok("COMMIT", nfs.commit(&worker.handles[id], 0, 0))
            .await?
            .verf;
        ensure!(
            verifier != before,
            "the verifier is the one of before the restart"
        );
    }
    Ok(())
}

/// Files, a directory, a symbolic link and a fifo in each of two directories.
fn populate(top: &Path) -> Result<Model> {
    let mut model = Model::default();
    let mut id = 0;
    for (index, name) in ["a", "b"].into_iter().enumerate() {
        let dir = top.join(name);
        fs::create_dir_all(&dir)?;
        let mut add = |name: String, kind: Kind| -> Place {
            id += 1;
            let place = (index, name);
            let object = Object::new(kind, None, None);
            model.apply(&Change::New {
                place: place.clone(),
                id,
                object,
            });
            place
        };
        for i in 0..FILES {
            let (size, filled) = match i % 3 {
                0 => (0, 0..0),
                1 => (50_000 + 33_333 * i, 0..50_000 + 33_333 * i),
                // A hole, a piece of data somewhere in it, and a hole up to a ragged end.
                _ => (SIZE_MAX / 2 + i, 40_001..50_000),
            };
            let content = Content::on_disk(size, filled.clone(), i + 1);
            let (_, name) = add(format!("file-{i}"), Kind::File(content));
            let file = fs::File::create(dir.join(name))?;
            let data = pattern::bytes(i + 1, filled.start, (filled.end - filled.start) as usize);
            file.write_all_at(&data, filled.start)?;
            file.set_len(size)?;
        }
        for i in 0..OTHERS {
            let (_, name) = add(format!("dir-{i}"), Kind::Dir);
            fs::create_dir(dir.join(name))?;
            let (_, name) = add(format!("link-{i}"), Kind::Symlink(b"target".to_vec()));
            std::os::unix::fs::symlink("target", dir.join(name))?;
        }
    }
    Ok(model)
}

/// The server answers every call, and promises nothing any more.
async fn answers_without_power(server: &Server, worker: &Worker) -> Result<()> {
    let (nfs, dir) = (connect(server.address()).await?, &worker.dirs[0]);
    nfs.getattr(dir).await.context("GETATTR")?.ok();
    nfs.readdir(dir, 0, [0; 8], 8192)
        .await
        .context("READDIR")?
        .ok();
    let how = CreateHow::Guarded(nothing());
    refused("CREATE", nfs.create(dir, b"too late", &how).await)?;
    refused("MKDIR", nfs.mkdir(dir, b"too late too", &nothing()).await)?;
    let files = worker
        .model
        .objects
        .iter()
        .filter_map(|(id, object)| match &object.kind {
            Kind::File(content) => Some((*worker.handles.get(id)?, content)),
            _ => None,
        });
    let files: Vec<(FileHandle, &Content)> = files.collect();
    for (file, content) in files.iter().take(3) {
        for data in [&b"too late"[..], &[b'!'; 20_000]] {
            let data = Bytes::from_static(data);
            refused("WRITE", nfs.write(file, 1, StableHow::FileSync, data).await)?;
        }
        nfs.read(file, 0, 4096).await.context("READ")?.ok();
        if content.resend().is_empty() {
            continue;
        }
        // What was not committed is gone: COMMIT may not say otherwise to who knows the verifier.
        match nfs.commit(file, 0, 0).await.context("COMMIT")? {
            Err(_) => {}
            Ok(reply) if Some(reply.verf) != worker.verifier => {}
            Ok(_) => bail!("COMMIT of lost data succeeded with the verifier of the writes"),
        }
    }
    Ok(())
}

fn refused<T, F>(what: &str, reply: nfs_client::nfs3::Outcome<T, F>) -> Result<()> {
    match reply.with_context(|| what.to_owned())? {
        Ok(_) => Err(anyhow!("{what} succeeded on a file system without power")),
        Err(_) => Ok(()),
    }
}

/// Compares the disk with each model; a model becomes the one of its states that was found.
fn verify(point: &Path, round: u32, workers: &mut [(u32, Worker)]) -> Result<()> {
    for (i, (_, worker)) in workers.iter_mut().enumerate() {
        let top = point.join(format!("round-{round}/{i}"));
        let dirs = [top.join("a"), top.join("b")];
        let dirs = dirs.each_ref().map(PathBuf::as_path);
        let mut all = Vec::new();
        let mut found = None;
        for state in worker.model.may_be(&worker.under_way) {
            let faults = state.faults(&dirs)?;
            if faults.is_empty() {
                found = Some(state);
                break;
            }
            all.push(faults[..faults.len().min(6)].join("; "));
        }
        let under_way = &worker.under_way;
        let lost = || {
            anyhow!(
                "under way: {under_way:?}; {}",
                all.join(" OR IF IT WAS DONE: ")
            )
        };
        worker.model = found.ok_or_else(lost)?;
    }
    Ok(())
}
