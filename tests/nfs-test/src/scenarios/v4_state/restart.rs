//! A kernel client holds opens and locks while the server is killed: it goes on with them, and an intruder who
//! asks for them all the time gets none before they are let go. A server that nobody held anything of has
//! no grace period. For the first half of the kills somebody holds the server's socket, as systemd does.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use nfs_client::nfs4::{FileHandle, Nfs4, Nfs4Error, OpenFile4, OpenHow};
use nfs_client::{ConnectOptions, Connection, Identity, Target};
use nfs_lab::{Netns, Server};
use nfs_wire::nfs4::ops::{LockArgs, LockFailure, Locker4, LockuArgs, OpenToLockOwner4, PutfhArgs};
use nfs_wire::nfs4::{
    ArgOp, Clientid4, LockType4, MinorVersion, Opaque4, ResOp, StateOwner4, Stateid4,
};

use super::{Bed, CLIENTS, PORT, make};
use crate::guest::hold::{LOCKED, RANGES, WHOLE};
use crate::host::Context;

/// The pause between two tries of the intruder.
const TRY_EACH: Duration = Duration::from_millis(100);
/// How long a call of the intruder may take; one that waits for the server asks again by itself meanwhile.
const CALL_DEADLINE: Duration = Duration::from_millis(500);
/// Times that the holder uses what it holds, and the intruder is refused, after each restart.
const USES_MIN: u64 = 5;
const GUEST_DEADLINE: Duration = Duration::from_secs(300);
const STEP_DEADLINE: Duration = Duration::from_secs(120);
/// The pause between two looks at the counts.
const PAUSE: Duration = Duration::from_millis(10);

pub(in super::super) fn run(context: &Context) -> Result<String> {
    let kills = match (context.quick, context.full) {
        (true, _) => 2,
        (_, true) => 20,
        _ => 4,
    };
    let bed = Bed::new(context)?;
    bed.hold_socket()?;
    let from = bed.log_length().unwrap_or(0);
    let mut server = bed.start()?;
    bed.hear(from, &["there is no grace period"])?;
    let release = context.lab.dir.join("release");
    let play = Play::default();
    std::thread::scope(|scope| {
        let guest = scope.spawn(|| {
            let _over = Over(&play.over);
            hold(&bed, &release, &play)
        });
        let intruder = scope.spawn(|| {
            let _over = Over(&play.over);
            bed.netns.within(|| play.intrude())
        });
        let outcome = play.blow(&bed, &mut server, kills, &release);
        if outcome.is_err() {
            play.over.store(true, Ordering::Release);
            make(&release)?;
        }
        let intruder = intruder.join().map_err(|_| anyhow!("it panicked"))?;
        let guest = guest.join().map_err(|_| anyhow!("it panicked"))?;
        intruder.context("the intruder")?;
        guest?;
        outcome
    })?;
    // Everybody has said goodbye.
    server.kill()?;
    let from = bed.log_length()?;
    server = bed.start()?;
    bed.hear(from, &["there is no grace period"])?;
    bed.end(server)?;
    let (uses, refused) = (play.uses.into_inner(), play.refused.into_inner());
    let [held, refusing] = play.stall_ms.map(AtomicU64::into_inner);
    Ok(format!(
        "{kills} kills, {uses} uses of what is held, the longest stall of a started server {held} ms where its socket \
         was held and {refusing} ms where it was not, the intruder refused {refused} times"
    ))
}

/// The guest that holds.
fn hold(bed: &Bed<'_>, release: &Path, play: &Play) -> Result<()> {
    let script = format!(
        "$T guest --results $R hold /mnt/nfs --release {}\n",
        release.display()
    );
    let [_, client] = &CLIENTS;
    bed.guest(client, &script, GUEST_DEADLINE, |line| {
        if let Some(uses) = line.strip_prefix("progress hold ") {
            play.uses.store(uses.parse()?, Ordering::Release);
        }
        Ok(())
    })?;
    Ok(())
}

/// What the holder and the intruder have done so far.
#[derive(Default)]
struct Play {
    uses: AtomicU64,
    /// How often the intruder was refused something because somebody has it.
    refused: AtomicU64,
    /// The longest time from the start of a server to the next use of what is held, milliseconds: where its socket was
    /// held meanwhile, and where it was not. Figures to look at: nothing fails by them.
    stall_ms: [AtomicU64; 2],
    /// What is held is about to be let go.
    released: AtomicBool,
    over: AtomicBool,
}

/// Says that it is over, when it is dropped.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

impl Play {
    /// Kills the server again and again, then has everything let go.
    fn blow(&self, bed: &Bed<'_>, server: &mut Server, kills: u32, release: &Path) -> Result<()> {
        self.both_get_on().context("before the first kill")?;
        for kill in 1..=kills {
            let is_held = kill <= kills / 2;
            if !is_held {
                bed.let_go_of_socket();
            }
            let before = self.uses.load(Ordering::Acquire);
            // Both have a record: also the intruder has files open.
            let restarted = bed.restart(server, 2);
            let started = restarted.with_context(|| format!("kill {kill}"))?;
            self.until(|| self.uses.load(Ordering::Acquire) > before + 1)?;
            let stall = u64::try_from(started.elapsed().as_millis())?;
            self.stall_ms[usize::from(!is_held)].fetch_max(stall, Ordering::AcqRel);
            let both = self.both_get_on();
            both.with_context(|| format!("after kill {kill}"))?;
        }
        self.released.store(true, Ordering::Release);
        make(release)
    }

    fn both_get_on(&self) -> Result<()> {
        let counts = || [&self.uses, &self.refused].map(|count| count.load(Ordering::Acquire));
        let before = counts();
        let enough = || {
            let mut pairs = before.iter().zip(counts());
            pairs.all(|(before, now)| now >= before + USES_MIN)
        };
        self.until(enough).with_context(|| {
            let now = counts();
            format!("uses by the holder and refusals of the intruder: {before:?}, then {now:?}")
        })
    }

    fn until(&self, come: impl Fn() -> bool) -> Result<()> {
        let deadline = Instant::now() + STEP_DEADLINE;
        while !come() {
            ensure!(!self.over.load(Ordering::Acquire), "one of them has ended");
            ensure!(Instant::now() < deadline, "it does not come");
            // SLEEP: between two looks.
            std::thread::sleep(PAUSE);
        }
        Ok(())
    }

    /// Asks for each lock that is held until all of them have been let go, and then gets them.
    fn intrude(&self) -> Result<()> {
        // Before, it would be in the holder's way.
        self.until(|| self.uses.load(Ordering::Acquire) > 0)?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        runtime.block_on(async {
            let intruder = Intruder::begin().await?;
            let deadline = Instant::now() + GUEST_DEADLINE;
            let ranges = LOCKED.map(|(start, end)| (RANGES, start, end - start));
            let mut held: Vec<Asked> = ranges.to_vec();
            held.push((WHOLE, 0, u64::MAX));
            while !held.is_empty() {
                ensure!(Instant::now() < deadline, "never got: {held:?}");
                held = self.ask_for(&intruder, held).await?;
                // SLEEP: between two tries; how often it asks is part of what is tested.
                tokio::time::sleep(TRY_EACH).await;
            }
            intruder.nfs.end().await.context("say goodbye")
        })
    }

    /// Asks once for each of these; returns what it did not get.
    async fn ask_for(&self, intruder: &Intruder, held: Vec<Asked>) -> Result<Vec<Asked>> {
        let mut left = Vec::new();
        for (file, offset, length) in held {
            let answer = intruder.ask(file, offset, length).await?;
            // What was let go only after the answer was held when it came; whoever is told late hears less.
            let is_held = !self.released.load(Ordering::Acquire);
            match answer {
                Answer::Granted if is_held => {
                    bail!("got {length} bytes at {offset} of {file}, which are held");
                }
                Answer::Granted => continue,
                Answer::Denied => {
                    self.refused.fetch_add(1, Ordering::AcqRel);
                }
                Answer::None => {}
            }
            left.push((file, offset, length));
        }
        Ok(left)
    }
}

/// A range that somebody holds: of which file, from where on, how many bytes.
type Asked = (&'static str, u64, u64);

/// A client that asks for what somebody else holds.
struct Intruder {
    nfs: Nfs4,
}

/// What it is told.
enum Answer {
    Granted,
    /// Somebody has it.
    Denied,
    /// Nothing, or that the server is not there yet.
    None,
}

impl Intruder {
    async fn begin() -> Result<Self> {
        let address = format!("{}:{PORT}", Netns::HOST).parse::<std::net::SocketAddr>()?;
        let options = ConnectOptions {
            call_timeout: CALL_DEADLINE,
            ..ConnectOptions::default()
        };
        let connection = Connection::connect(Target::from(address), options).await?;
        let identity = Identity::sys(0, 0, &[]);
        let nfs = Nfs4::begin(connection, identity, MinorVersion::V1).await?;
        Ok(Self { nfs })
    }

    /// Opens the file, asks for a lock, and lets go of what it got.
    async fn ask(&self, file: &str, offset: u64, length: u64) -> Result<Answer> {
        let Some(file) = heard(self.open(file).await)? else {
            return Ok(Answer::None);
        };
        let answer = heard(self.lock(&file, offset, length).await)?;
        // An open that is left over would keep the server from forgetting this client. One that a restart
        // took has no stateid any more.
        heard(self.nfs.close(file).await)?;
        Ok(answer.unwrap_or(Answer::None))
    }

    async fn open(&self, name: &str) -> Result<OpenFile4, Nfs4Error> {
        let root = self.nfs.root().await?;
        let dir = self.nfs.walk(&root, super::EXPORT.as_bytes()).await?;
        let how = OpenHow::Write {
            mode: 0o666,
            truncate: false,
        };
        self.nfs.open(&dir.handle, name.as_bytes(), how).await
    }

    async fn lock(&self, file: &OpenFile4, offset: u64, length: u64) -> Result<Answer, Nfs4Error> {
        let lock = ArgOp::Lock(LockArgs {
            locktype: LockType4::Write,
            reclaim: false,
            offset,
            length,
            locker: Locker4::New(OpenToLockOwner4 {
                open_seqid: 0,
                open_stateid: file.stateid,
                lock_seqid: 0,
                lock_owner: StateOwner4 {
                    clientid: Clientid4::default(),
                    owner: Opaque4(b"intruder"),
                },
            }),
        });
        let results = self.nfs.compound(&[putfh(&file.node.handle), lock]).await?;
        let res = results.decode()?;
        match res.resarray.last() {
            Some(ResOp::Lock(Ok(stateid))) => {
                self.unlock(file, *stateid, offset, length).await?;
                Ok(Answer::Granted)
            }
            Some(ResOp::Lock(Err(LockFailure::Denied(_)))) => Ok(Answer::Denied),
            _ => Ok(Answer::None),
        }
    }

    async fn unlock(
        &self,
        file: &OpenFile4,
        lock_stateid: Stateid4,
        offset: u64,
        length: u64,
    ) -> Result<(), Nfs4Error> {
        let unlock = ArgOp::Locku(LockuArgs {
            locktype: LockType4::Write,
            seqid: 0,
            lock_stateid,
            offset,
            length,
        });
        let ops = [putfh(&file.node.handle), unlock];
        self.nfs.compound(&ops).await.map(drop)
    }
}

fn putfh(handle: &FileHandle) -> ArgOp<'static> {
    ArgOp::Putfh(PutfhArgs { object: *handle })
}

/// What was answered; nothing where the server is away, or has just come back.
fn heard<T>(outcome: Result<T, Nfs4Error>) -> Result<Option<T>> {
    match outcome {
        Ok(value) => Ok(Some(value)),
        Err(Nfs4Error::Rpc(_) | Nfs4Error::Status { .. }) => Ok(None),
        Err(error) => Err(error).context("a call of NFSv4"),
    }
}
