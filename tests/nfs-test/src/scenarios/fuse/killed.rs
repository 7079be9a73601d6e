//! The server is killed, and the power of its disk cut, while programs use the mount.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use nfs_lab::{FsKind, GuestOutcome, LoopFs, Server, ServerOptions, test_binary};

use super::super::kernel::{compare_fsx, failures, verdicts};
use super::{Mount, run};
use crate::guest::stable::Way;
use crate::host::Context;

/// How often the server is killed while fsx runs; every other time its disk's power is cut as well.
const KILLS: u64 = 20;
/// How often the power is cut after programs were told that what they wrote is on stable storage.
const STABLE_ROUNDS: u64 = 4;

/// What was written is read, whatever happens to the server, and what a program was told is on stable storage
/// is there before the mount could send it again.
///
/// # Errors
/// What is wrong.
pub(in super::super) fn killed(context: &Context) -> Result<String> {
    let mut bench = Bench::new(context)?;
    let mut command = Command::new(&context.lab.program);
    command.args(["mount", &format!("nfs://{}/", bench.listen)]);
    let mount = Mount::new(
        context,
        command,
        "killed",
        ",attr_timeout=0,entry_timeout=0",
    )?;
    let mut lines = bench.fsx(&mount)?;
    let kills = bench.kills;
    lines.extend(bench.stable(&mount)?);
    mount.end()?;
    bench.end()?;
    let outcome = GuestOutcome { lines };
    let mut wrong = failures(&outcome);
    wrong.append(&mut bench.wrong);
    wrong.extend(compare_fsx(&outcome, "fsx", &bench.export.join("fsx"))?);
    ensure!(wrong.is_empty(), "{}", wrong.join(" | "));
    let expected = 1 + bench.rounds as usize;
    ensure!(verdicts(&outcome) == expected && kills > 0, "{kills} kills");
    Ok(format!(
        "{kills} kills while fsx ran, {} power cuts in all",
        bench.cuts
    ))
}

struct Bench<'a> {
    context: &'a Context,
    export: PathBuf,
    gates: PathBuf,
    // Ended before its disk.
    server: Option<Server>,
    disk: LoopFs,
    listen: String,
    rounds: u64,
    kills: u32,
    cuts: u32,
    /// What was found missing on stable storage after a cut.
    wrong: Vec<String>,
}

impl<'a> Bench<'a> {
    fn new(context: &'a Context) -> Result<Self> {
        let (export, gates) = (
            context.lab.dir.join("export"),
            context.lab.dir.join("gates"),
        );
        fs::create_dir(&gates)?;
        let disk = LoopFs::new(FsKind::Xfs, 1024, &export)?;
        let mut bench = Self {
            context,
            export,
            gates,
            server: None,
            disk,
            listen: String::new(),
            rounds: if context.quick { 2 } else { STABLE_ROUNDS },
            kills: 0,
            cuts: 0,
            wrong: Vec::new(),
        };
        bench.start()?;
        Ok(bench)
    }

    /// The server, on the port that it had before.
    fn start(&mut self) -> Result<()> {
        let options = ServerOptions {
            listen: self.listen.clone(),
            ..ServerOptions::default()
        };
        let state = self.context.lab.dir.join("state");
        let server = Server::start(&self.context.lab, &self.export, &state, &options)?;
        self.listen = server.address().to_string();
        self.server = Some(server);
        Ok(())
    }

    fn kill(&mut self) -> Result<()> {
        self.server.take().context("a server that runs")?.kill()?;
        self.kills += 1;
        Ok(())
    }

    /// Cuts the power of the disk and mounts it again. The server was killed before, as an error of the dying
    /// disk is none of the mount's to bear.
    fn cut(&mut self) -> Result<()> {
        self.disk.knife()?.cut()?;
        self.disk.unmount()?;
        self.disk.mount()?;
        self.cuts += 1;
        Ok(())
    }

    fn end(&mut self) -> Result<()> {
        self.server.take().context("a server that runs")?.stop()
    }

    fn fsx(&mut self, mount: &Mount) -> Result<Vec<String>> {
        let operations = if self.context.quick { 500 } else { 4_000 };
        let mut command = Command::new(test_binary(&self.context.lab.dir)?);
        command.args(["guest", "fsx"]).arg(&mount.point);
        command.args(["--name", "fsx", "--seed", &self.context.seed.to_string()]);
        command.args(["--operations", &operations.to_string()]);
        command.args(["--progress", &(operations / KILLS).to_string()]);
        run(self.context, command, |line| {
            if line.starts_with("progress ") {
                self.kill()?;
                if self.kills.is_multiple_of(2) {
                    self.cut()?;
                }
                self.start()?;
            }
            Ok(())
        })
    }

    fn stable(&mut self, mount: &Mount) -> Result<Vec<String>> {
        let mut command = Command::new(test_binary(&self.context.lab.dir)?);
        command
            .args(["guest", "stable"])
            .arg(&mount.point)
            .arg(&self.gates);
        command.args(["--rounds", &self.rounds.to_string()]);
        run(self.context, command, |line| {
            let Some(round) = line.strip_prefix("progress stable ") else {
                return Ok(());
            };
            self.kill()?;
            self.cut()?;
            let there = self.on_disk(round.parse()?);
            // The programs come to their end in any case: without a server they would wait for it.
            self.start()?;
            self.wrong
                .extend(there.err().map(|error| format!("{error:#}")));
            fs::write(self.gates.join(format!("stable-{round}")), "")?;
            Ok(())
        })
    }

    /// The server is down, and the power was cut.
    fn on_disk(&self, round: u64) -> Result<()> {
        for way in Way::ALL {
            if way == Way::Nothing {
                continue;
            }
            let found = fs::read(self.export.join(way.name(round)))?;
            let expected = way.content(round);
            ensure!(
                found == expected,
                "round {round}, {way:?}: it was on stable storage, and after a power cut it is not: {} of {} bytes",
                found.len(),
                expected.len()
            );
        }
        Ok(())
    }
}
