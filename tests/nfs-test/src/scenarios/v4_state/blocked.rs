//! Two kernel clients take turns at one lock, each waiting for the other: who waits is told when it is free, and asks
//! once. What the server counted shows it, not the time that it took.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, ensure};

use super::{Bed, CLIENTS, Client, PAUSE, make};
use crate::host::Context;

/// Times that each client waits for the other.
const ROUNDS: u64 = 3;
const GUEST_DEADLINE: Duration = Duration::from_secs(300);
/// How long a client may take to come that far: it asks again each 30 s if it is told nothing, so that a scenario in
/// which nobody is told fails by what was counted and not by this.
const STEP_DEADLINE: Duration = Duration::from_secs(120);

pub(in super::super) fn run(context: &Context) -> Result<String> {
    let bed = Bed::new(context)?;
    let server = bed.start()?;
    std::fs::write(bed.export.join("whole"), "")?;
    let turns = Turns { bed: &bed };
    let counted = std::thread::scope(|scope| {
        let turns = &turns;
        let guests = [0, 1].map(|who| scope.spawn(move || turns.guest(who)));
        let counted = turns.watch();
        if counted.is_err() {
            // Nobody waits for what does not come any more.
            turns.let_all_go()?;
        }
        for guest in guests {
            guest.join().map_err(|_| anyhow!("it panicked"))??;
        }
        counted
    })?;
    bed.end(server)?;
    Ok(format!(
        "{} turns, {} calls to clients, {} LOCKs",
        2 * ROUNDS,
        counted.callbacks,
        counted.locks
    ))
}

/// What is told of a turn, in this order: it may begin, one client has the lock, it is to let it go, the other one has
/// it.
const SIGNS: [&str; 4] = ["begin", "held", "go", "got"];

/// What the server counted.
struct Counted {
    locks: u64,
    callbacks: u64,
}

/// In each turn one client has the lock until the host lets it go, and the other one waits for it meanwhile.
struct Turns<'a> {
    bed: &'a Bed<'a>,
}

impl Turns<'_> {
    /// A file on the host by which a client and the host tell each other how far they are.
    fn sign(&self, word: &str, turn: u64) -> PathBuf {
        self.bed.context.lab.dir.join(format!("{word}-{turn}"))
    }

    /// Takes part in every turn: has the lock in those of its own parity, and waits for it in the others.
    fn guest(&self, who: u64) -> Result<()> {
        let mut script = String::new();
        for turn in 0..2 * ROUNDS {
            let [begin, held, go, got] = SIGNS.map(|word| self.sign(word, turn));
            let until =
                |path: &Path| format!("until test -e {}; do sleep 0.05; done", path.display());
            script += &match turn % 2 == who {
                true => format!(
                    "{}; flock /mnt/nfs/whole sh -c 'touch {}; {}'; {}\n",
                    until(&begin),
                    held.display(),
                    until(&go),
                    until(&got)
                ),
                false => format!(
                    "{}; flock /mnt/nfs/whole touch {}\n",
                    until(&held),
                    got.display()
                ),
            };
        }
        let client: &Client = &CLIENTS[usize::try_from(who)?];
        self.bed
            .guest(client, &script, GUEST_DEADLINE, |_| Ok(()))?;
        Ok(())
    }

    /// Lets the lock go in each turn once somebody waits for it, and looks at what that came to.
    fn watch(&self) -> Result<Counted> {
        for turn in 0..2 * ROUNDS {
            // Whoever had it in the turn before asks for nothing until that was counted.
            make(&self.sign("begin", turn))?;
            // The lock, and the one that waits: nobody asked for anything else.
            let asked = 3 * turn + 2;
            self.until("somebody waits", || Ok(self.locks()? >= asked))?;
            make(&self.sign("go", turn))?;
            let got = self.sign("got", turn);
            self.until("it has the lock", || Ok(got.exists()))?;
            let counted = self.counted()?;
            ensure!(
                (counted.locks, counted.callbacks) == (asked + 1, turn + 1),
                "turn {turn}: {} LOCKs and {} calls to clients",
                counted.locks,
                counted.callbacks
            );
        }
        let failed = self.counter("nfs4_callbacks_failed")?;
        ensure!(failed == 0, "{failed} calls to clients failed");
        self.counted()
    }

    fn let_all_go(&self) -> Result<()> {
        for turn in 0..2 * ROUNDS {
            for word in SIGNS {
                make(&self.sign(word, turn))?;
            }
        }
        Ok(())
    }

    fn counted(&self) -> Result<Counted> {
        Ok(Counted {
            locks: self.locks()?,
            callbacks: self.counter("nfs4_callbacks")?,
        })
    }

    fn locks(&self) -> Result<u64> {
        nfs_lab::operations(&self.bed.context.lab, &self.bed.state(), "LOCK")
    }

    fn counter(&self, name: &str) -> Result<u64> {
        nfs_lab::counter(&self.bed.context.lab, &self.bed.state(), name)
    }

    fn until(&self, what: &str, is_so: impl Fn() -> Result<bool>) -> Result<()> {
        let deadline = Instant::now() + STEP_DEADLINE;
        while !is_so()? {
            ensure!(Instant::now() < deadline, "not in time: {what}");
            // SLEEP: between two looks.
            std::thread::sleep(PAUSE);
        }
        Ok(())
    }
}
