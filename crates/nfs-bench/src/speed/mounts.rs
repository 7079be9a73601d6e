//! A large file through a mount of ours, beside the same with `penstock cp`: both in memory, all on all cores.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result};
use nfs_load::spread::median;
use rustix::fs::Advice;
use serde::Serialize;

use super::list::Figure;
use crate::client::tool::Work;
use crate::client::watch::watch;
use crate::mounted::Mounted;
use crate::pin;
use crate::servers::{Penstock, Program, Server, Start, binary};
use crate::stage::output;

/// The name of this run in `--only`.
pub(super) const NAME: &str = "mounts";
/// The mount, as the table names it.
pub(super) const OURS: &str = "penstock mount";
/// What it is held against.
pub(super) const THEIRS: &str = "penstock cp";
/// Length of the file in MiB.
const FILE_MIB: u32 = 512;
/// The port of the server.
const PORT: u16 = 20_523;

/// What came of it.
#[derive(Debug, Default, Serialize)]
pub(super) struct Mounts {
    rows: Vec<Row>,
    /// What could not be measured, and why.
    pub(super) missing: Vec<String>,
}

#[derive(Debug, Serialize)]
struct Row {
    work: Work,
    is_mounted: bool,
    seconds: Vec<f64>,
}

/// Measures in a directory in memory, so many rounds behind one that is thrown away.
pub(super) fn measure(directory: &Path, rounds: usize) -> Mounts {
    eprintln!("{NAME}: penstock mount and penstock cp");
    let mut mounts = Mounts::default();
    for work in [Work::CopyDown, Work::CopyUp] {
        mounts.rows.extend([true, false].map(|is_mounted| Row {
            work,
            is_mounted,
            seconds: Vec::new(),
        }));
    }
    let measured = Place::set(directory).and_then(|place| {
        for round in 0..=rounds {
            for row in &mut mounts.rows {
                let seconds = place.copy(row.work, row.is_mounted, round)?;
                row.seconds.extend((round > 0).then_some(seconds));
            }
        }
        let files = [place.local.clone(), place.served.clone()];
        drop(place);
        // The runs behind this one want the memory.
        files
            .iter()
            .try_for_each(|files| fs::remove_dir_all(files).context("removing the files"))
    });
    if let Err(error) = measured {
        mounts.missing.push(format!("{error:#}"));
    }
    mounts
}

impl Mounts {
    /// A figure of [`OURS`] or [`THEIRS`], at the median of the rounds.
    pub(super) fn figure(&self, work: Work, figure: Figure, target: &str) -> Option<f64> {
        let is_mounted = match target {
            OURS => true,
            THEIRS => false,
            _ => return None,
        };
        let mut rows = self.rows.iter();
        let row = rows.find(|row| row.work == work && row.is_mounted == is_mounted)?;
        let rates = row
            .seconds
            .iter()
            .map(|seconds| f64::from(FILE_MIB) / seconds);
        (figure == Figure::Throughput).then(|| median(rates))?
    }
}

/// The server, its mount, and the file on both sides.
struct Place {
    local: PathBuf,
    served: PathBuf,
    // The mount goes before its server.
    mounted: Mounted,
    server: Server,
}

impl Place {
    fn set(directory: &Path) -> Result<Self> {
        let (local, served) = (directory.join("local"), directory.join("served"));
        for directory in [&local, &served] {
            fs::create_dir_all(directory).with_context(|| directory.display().to_string())?;
        }
        let (file, count) = (local.join("file"), format!("count={FILE_MIB}"));
        let to = format!("of={}", file.display());
        output(
            "dd",
            &["if=/dev/urandom", &to, "bs=1M", &count, "status=none"],
        )?;
        fs::copy(&file, served.join("file"))?;
        let start = Start {
            name: "penstock",
            program: Program::Penstock(Penstock {
                pseudo: "/export",
                ..Penstock::default()
            }),
            directory: &served,
            work: &directory.join("server"),
            port: PORT,
            cpu: pin::cores().1,
            wrapper: &[],
        };
        let server = start.start()?;
        let mounted = directory.join("mounted");
        let mounted = Mounted::start(Command::new("env"), &url(&server, ""), &mounted)?;
        Ok(Self {
            local,
            served,
            mounted,
            server,
        })
    }

    /// Copies the file once, and removes the copy; the seconds that it took.
    fn copy(&self, work: Work, is_mounted: bool, round: usize) -> Result<f64> {
        let new = format!("new-{round}-{is_mounted}");
        let (remote, local, copy) = match work.is_up() {
            true => (
                new.as_str(),
                self.local.join("file"),
                self.served.join(&new),
            ),
            false => ("file", self.local.join(&new), self.local.join(&new)),
        };
        let mut command = if is_mounted {
            let remote = self.mounted.directory.join(remote);
            let (from, to) = match work.is_up() {
                true => (&local, &remote),
                false => (&remote, &local),
            };
            // What the mount has in this host's page cache would come from there.
            let cached = File::open(from)?;
            rustix::fs::fadvise(&cached, 0, None, Advice::DontNeed)?;
            let [from, to] =
                [("if", from), ("of", to)].map(|(word, path)| format!("{word}={}", path.display()));
            let mut command = Command::new("dd");
            command.args([&from, &to, "bs=1M", "conv=fsync", "status=none"]);
            command
        } else {
            let remote = url(&self.server, &format!("/{remote}"));
            let mut command = Command::new(binary()?);
            command.args(["cp", "--quiet"]);
            match work.is_up() {
                true => command.arg(local).arg(remote),
                false => command.arg(remote).arg(local),
            };
            command
        };
        let spent = watch(command.stdin(Stdio::null()).stdout(Stdio::null()));
        fs::remove_file(&copy).with_context(|| copy.display().to_string())?;
        Ok(spent?.seconds)
    }
}

fn url(server: &Server, path: &str) -> String {
    let place = &server.place;
    format!(
        "nfs://{}{}{path}?mountport={}",
        place.nfs,
        place.export,
        place.mount.port()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_those_of_the_way_of_copying() {
        let row = |is_mounted, seconds: [f64; 3]| Row {
            work: Work::CopyUp,
            is_mounted,
            seconds: seconds.to_vec(),
        };
        let mounts = Mounts {
            rows: vec![row(true, [1.0, 4.0, 2.0]), row(false, [0.5; 3])],
            missing: Vec::new(),
        };
        let figure = |work, target| mounts.figure(work, Figure::Throughput, target);
        assert_eq!(figure(Work::CopyUp, OURS), Some(256.0));
        assert_eq!(figure(Work::CopyUp, THEIRS), Some(1024.0));
        assert_eq!(figure(Work::CopyDown, OURS), None);
        assert_eq!(figure(Work::CopyUp, "ganesha"), None);
    }
}
