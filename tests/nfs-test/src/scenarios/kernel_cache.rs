//! The Linux kernel's client keeps what it wrote itself: after write, close, open, read the server has
//! counted no READ, in each I/O mode, and where every WRITE is stable. What somebody else changed, it reads.
//!
//! The client decides by the attributes before and after each change that a WRITE's reply carries
//! (wcc_data): a reply without them, or with those of another moment, costs it its cache.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use nfs_lab::pattern;
use nfs_lab::{FsKind, Guest, Kernel, LoopFs, Mount, Netns, Server, ServerOptions};
use nfs_wire::nfs3::StableHow;

use super::kernel::{failures, verdicts};
use crate::guest::own;
use crate::host::{Context, IoSetting, Mode};

/// How long the guest may run in all.
const GUEST_DEADLINE: Duration = Duration::from_secs(300);
/// How long a file's time may stand still while it is written.
const CLOCK_DEADLINE: Duration = Duration::from_secs(10);

/// A mount for each mode.
///
/// A client whose attributes grow old while its WRITEs are on their way asks for them, and sees a moment
/// that no reply to a WRITE tells of. Here they do not grow old; opening a file asks in any case.
const MOUNTS: &[Mount<'_>] = &[
    Mount::new("buffered", "/buffered", "actimeo=600"),
    Mount::new("dontcache", "/dontcache", "actimeo=600"),
    Mount::new("direct", "/direct", "actimeo=600"),
    Mount::new("stable", "/stable", "actimeo=600"),
];

/// The exports. Of many stable WRITEs that are on their way the last one tells the attributes of all.
const EXPORTS: [(&str, IoSetting); 4] = [
    ("buffered", IoSetting::all(Mode::Buffered)),
    ("dontcache", IoSetting::all(Mode::DontCache)),
    ("direct", IoSetting::all(Mode::Direct)),
    (
        "stable",
        IoSetting {
            floor: StableHow::FileSync,
            ..IoSetting::all(Mode::Buffered)
        },
    ),
];

pub(super) fn run(context: &Context) -> Result<String> {
    let export = context.lab.dir.join("export");
    let mut disk = LoopFs::new(FsKind::Xfs, 1024, &export)?;
    let gates = context.lab.dir.join("gates");
    fs::create_dir(&gates)?;
    let netns = Netns::new()?;
    let server = start(context, &netns, &export)?;
    let host = Host {
        server: &server,
        export: &export,
        gates,
        reads_before: RefCell::default(),
    };
    let mut script = String::new();
    for (name, _) in EXPORTS {
        script += &format!("$T guest --results $R own /mnt/{name} $W/gates --name {name}\n");
    }
    let guest = Guest {
        kernel: Kernel::Installed,
        netns: &netns,
        port: server.address().port(),
        mounts: MOUNTS,
        script: &script,
        within: GUEST_DEADLINE,
    };
    let outcome = guest.run(&context.lab, |line| {
        match line.strip_prefix("progress own ") {
            Some(step) => host.after(step),
            None => Ok(()),
        }
    })?;
    server.stop()?;
    disk.unmount()?;
    let wrong = failures(&outcome);
    ensure!(wrong.is_empty(), "{}", wrong.join(" | "));
    let (passed, expected) = (verdicts(&outcome), EXPORTS.len() * own::STEPS);
    ensure!(
        passed == expected,
        "{passed} verdicts, should be {expected}"
    );
    Ok(format!(
        "{passed} tests; no READ but of what the host had changed"
    ))
}

fn start(context: &Context, netns: &Netns, export: &Path) -> Result<Server> {
    let mut text = String::new();
    for (name, io) in EXPORTS {
        fs::create_dir(export.join(name))?;
        text += &format!(
            "[[export]]\npath = {:?}\npseudo = \"/{name}\"\nclients = [\"{}\"]\nsquash = \"none\"\n{}",
            export.join(name).display(),
            Netns::NETWORK,
            io.toml()
        );
    }
    let config = context.lab.dir.join("penstock.toml");
    fs::write(&config, text)?;
    let options = ServerOptions {
        listen: format!("{}:2049", Netns::HOST),
        netns: Some(netns),
        config: Some(config),
        ..ServerOptions::default()
    };
    Server::start(
        &context.lab,
        export,
        &context.lab.dir.join("state"),
        &options,
    )
}

/// What the host does between the steps of the guest.
struct Host<'a> {
    server: &'a Server,
    export: &'a Path,
    gates: PathBuf,
    /// The READs of each export before the step that is under way.
    reads_before: RefCell<HashMap<String, u64>>,
}

impl Host<'_> {
    /// Looks at the counters after an attempt at a step (`EXPORT STEP ATTEMPT`), changes the files before the last
    /// step, and lets the guest go on or try again.
    fn after(&self, progress: &str) -> Result<()> {
        let mut words = progress.split(' ');
        let mut word = || words.next().context("an export, a step and an attempt");
        let (export, step, attempt) = (word()?, word()?, word()?);
        let attempt: usize = attempt.parse()?;
        let all = self.reads(export)?;
        let before = self.reads_before.borrow_mut().insert(export.into(), all);
        let reads = all - before.unwrap_or(0);
        let mut answer = "";
        if step == "foreign" {
            let files = own::SIZES.len() as u64;
            ensure!(
                reads >= files,
                "{export}: {reads} READs of {files} files that the host had changed"
            );
        } else if reads > 0 && attempt + 1 < own::ATTEMPTS {
            answer = own::AGAIN;
        } else {
            ensure!(
                reads == 0,
                "{export}: {reads} READs after the step '{step}' of what the client itself had written, and some \
                 after each attempt before"
            );
        }
        if step == "side-by-side" && answer.is_empty() {
            self.change(export)?;
        }
        // The guest looks for the file: it is to find all of the answer.
        let (made, gate) = (
            self.gates.join("made"),
            self.gates.join(format!("{export}-{step}-{attempt}")),
        );
        fs::write(&made, answer)?;
        fs::rename(&made, &gate)?;
        Ok(())
    }

    fn reads(&self, export: &str) -> Result<u64> {
        let pseudo = format!("/{export}");
        let figures = self.server.io_figures()?;
        let of_it = |operation: &'static str| {
            let rows = figures.iter();
            rows.filter(|row| row.export == pseudo && row.operation == operation)
                .map(|row| row.calls)
                .sum::<u64>()
        };
        ensure!(of_it("write") > 0, "{export}: no WRITE was counted");
        Ok(of_it("read"))
    }

    /// Other bytes, the same sizes, and another time than the client knows.
    fn change(&self, export: &str) -> Result<()> {
        for (index, size) in own::SIZES.iter().enumerate() {
            let path = self.export.join(export).join(own::name_of(index));
            let data = pattern::bytes(own::FOREIGN_TAG + index as u64, 0, *size);
            let time = || {
                Ok::<_, std::io::Error>((path.metadata()?.mtime(), path.metadata()?.mtime_nsec()))
            };
            let (before, deadline) = (time()?, Instant::now() + CLOCK_DEADLINE);
            while time()? == before {
                ensure!(Instant::now() < deadline, "the file's time stands still");
                // The kernel's clock for files ticks every few milliseconds.
                fs::write(&path, &data)?;
            }
        }
        Ok(())
    }
}
