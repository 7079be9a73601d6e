//! Random operations on one file, each checked against a model in memory. The idea is that of
//! Apple's and Linux's `fsx`; the operations and the file's size limit are ours.

use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use fastrand::Rng;
use nfs_lab::pattern::{DIGEST_START, digest};

use super::Report;
use super::check::forget_pages;
use crate::map::Map;

/// Largest size of the file in bytes.
const SIZE_MAX: usize = 256 * 1024;
/// Most bytes that one operation touches.
const OPERATION_MAX: usize = 64 * 1024;
/// How many of the last operations a failure shows.
const HISTORY: usize = 12;

struct Fsx {
    path: PathBuf,
    file: File,
    model: Vec<u8>,
    random: Rng,
    /// How many of a hundred operations go past the client's cache.
    direct: u64,
    /// The last operations, of which a failure shows some.
    history: Vec<String>,
}

/// What one run of fsx does, and what its verdict is called.
pub(super) struct Plan<'a> {
    /// Name of the file and of the verdict.
    pub(super) name: &'a str,
    pub(super) seed: u64,
    pub(super) operations: u64,
    /// Number of operations between two lines of progress; `None` for no such lines.
    pub(super) progress: Option<u64>,
    /// How many of a hundred operations go past the client's cache.
    pub(super) direct: u64,
}

/// Runs random operations on one file in `dir` and gives one verdict.
pub(super) fn run(dir: &Path, plan: &Plan<'_>, report: &mut Report) -> Result<()> {
    let outcome = play(dir.join(plan.name), plan, report);
    let outcome = outcome.with_context(|| format!("seed {}", plan.seed));
    report.verdict(plan.name, &outcome)
}

fn play(path: PathBuf, plan: &Plan<'_>, report: &mut Report) -> Result<()> {
    let Plan {
        name,
        seed,
        operations,
        ..
    } = *plan;
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(true)
        .open(&path)?;
    let mut fsx = Fsx {
        path,
        file,
        model: Vec::new(),
        random: Rng::with_seed(seed),
        direct: plan.direct,
        history: Vec::new(),
    };
    for number in 0..operations {
        if plan
            .progress
            .is_some_and(|every| number % every == every / 2)
        {
            report.line(&format!("progress {name} {number}"))?;
        }
        fsx.step().with_context(|| {
            let mut text = format!("operation {number}; the last ones:");
            for line in fsx.history.iter().rev().take(HISTORY).rev() {
                let _infallible = write!(text, " {line};");
            }
            text
        })?;
    }
    forget_pages(&fsx.file)?;
    fsx.compare(0, fsx.model.len()).context("at the end")?;
    let content = digest(DIGEST_START, &fsx.model);
    report.line(&format!(
        "note {name}: {operations} operations, seed {seed}"
    ))?;
    report.line(&format!("file {name} {} {content}", fsx.model.len()))
}

impl Fsx {
    fn step(&mut self) -> Result<()> {
        if self.random.u64(..100) < self.direct {
            return self.direct();
        }
        match self.random.u64(..97) {
            0..25 => self.read(),
            25..50 => self.write(),
            50..58 => self.append(),
            58..66 => self.resize(),
            66..76 => self.map_read(),
            76..88 => self.map_write(),
            88..91 => self.reopen(),
            91..94 => self.synchronise(),
            _ => self.forget(),
        }
    }

    /// A range that lies inside the file, if there is one.
    fn range_inside(&mut self) -> Option<(usize, usize)> {
        let size = self.model.len();
        (size > 0).then(|| {
            let at = self.random.usize(..size);
            (at, 1 + self.random.usize(..(size - at).min(OPERATION_MAX)))
        })
    }

    fn read(&mut self) -> Result<()> {
        let Some((at, len)) = self.range_inside() else {
            return Ok(());
        };
        self.history.push(format!("read {at}+{len}"));
        self.compare(at, len)
    }

    fn compare(&self, at: usize, len: usize) -> Result<()> {
        let mut found = vec![0; len];
        self.file
            .read_exact_at(&mut found, at as u64)
            .context("read")?;
        self.equal(at, &found)?;
        let size = self.file.metadata()?.len();
        ensure!(
            size == self.model.len() as u64,
            "size {size}, should be {}",
            self.model.len()
        );
        Ok(())
    }

    fn equal(&self, at: usize, found: &[u8]) -> Result<()> {
        let expected = &self.model[at..at + found.len()];
        let wrong = found.iter().zip(expected).position(|(a, b)| a != b);
        ensure!(
            wrong.is_none(),
            "byte {} is {:#x}, should be {:#x}",
            at + wrong.unwrap_or(0),
            found[wrong.unwrap_or(0)],
            expected[wrong.unwrap_or(0)]
        );
        Ok(())
    }

    /// Random bytes and where they go: anywhere, also behind the end.
    fn new_data(&mut self) -> (usize, Vec<u8>) {
        let at = self.random.usize(..SIZE_MAX - 1);
        let at = if self.random.u64(..4) == 0 {
            at & !4095
        } else {
            at
        };
        let len = 1 + self.random.usize(..(SIZE_MAX - at).min(OPERATION_MAX));
        (at, self.bytes(len))
    }

    fn bytes(&mut self, len: usize) -> Vec<u8> {
        let words = (0..len.div_ceil(8)).flat_map(|_| self.random.u64(..).to_le_bytes());
        words.take(len).collect()
    }

    fn store(&mut self, at: usize, data: &[u8]) {
        if self.model.len() < at + data.len() {
            self.model.resize(at + data.len(), 0);
        }
        self.model[at..at + data.len()].copy_from_slice(data);
    }

    fn write(&mut self) -> Result<()> {
        let (at, data) = self.new_data();
        self.history.push(format!("write {at}+{}", data.len()));
        self.file.write_all_at(&data, at as u64).context("write")?;
        self.store(at, &data);
        Ok(())
    }

    fn append(&mut self) -> Result<()> {
        let room = SIZE_MAX - self.model.len();
        if room == 0 {
            return Ok(());
        }
        let len = 1 + self.random.usize(..room.min(8192));
        let data = self.bytes(len);
        self.history
            .push(format!("append {len} at {}", self.model.len()));
        let mut file = OpenOptions::new().append(true).open(&self.path)?;
        file.write_all(&data).context("append")?;
        self.store(self.model.len(), &data);
        Ok(())
    }

    fn resize(&mut self) -> Result<()> {
        let near = self.random.u64(..2) == 0;
        let size = if near {
            (self.model.len() + self.random.usize(..9000))
                .saturating_sub(4500)
                .min(SIZE_MAX)
        } else {
            self.random.usize(..SIZE_MAX)
        };
        self.history
            .push(format!("size {} -> {size}", self.model.len()));
        self.file.set_len(size as u64).context("ftruncate")?;
        self.model.resize(size, 0);
        Ok(())
    }

    fn map_read(&mut self) -> Result<()> {
        let Some((at, len)) = self.range_inside() else {
            return Ok(());
        };
        self.history.push(format!("map-read {at}+{len}"));
        let map = Map::new(&self.file, self.model.len())?;
        let mut found = vec![0; len];
        map.read(at, &mut found)?;
        self.equal(at, &found)
    }

    fn map_write(&mut self) -> Result<()> {
        let Some((at, len)) = self.range_inside() else {
            return Ok(());
        };
        let data = self.bytes(len);
        self.history.push(format!("map-write {at}+{len}"));
        Map::new(&self.file, self.model.len())?.write(at, &data)?;
        self.store(at, &data);
        Ok(())
    }

    fn reopen(&mut self) -> Result<()> {
        self.history.push("reopen".to_owned());
        self.file = OpenOptions::new().read(true).write(true).open(&self.path)?;
        self.compare(0, self.model.len())
    }

    /// Makes one write or read past the client's cache, at any alignment.
    fn direct(&mut self) -> Result<()> {
        let direct = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(rustix::fs::OFlags::DIRECT.bits().cast_signed())
            .open(&self.path)?;
        if self.random.u64(..2) == 0 {
            let Some((at, len)) = self.range_inside() else {
                return Ok(());
            };
            self.history.push(format!("direct-read {at}+{len}"));
            let mut found = vec![0; len];
            direct
                .read_exact_at(&mut found, at as u64)
                .context("direct read")?;
            self.equal(at, &found)
        } else {
            let (at, data) = self.new_data();
            self.history
                .push(format!("direct-write {at}+{}", data.len()));
            direct
                .write_all_at(&data, at as u64)
                .context("direct write")?;
            self.store(at, &data);
            Ok(())
        }
    }

    fn synchronise(&mut self) -> Result<()> {
        self.history.push("fsync".to_owned());
        self.file.sync_all().context("fsync")
    }

    /// Drops the client's cached pages, so that what comes next is read from the server again.
    fn forget(&mut self) -> Result<()> {
        self.history.push("forget".to_owned());
        forget_pages(&self.file)?;
        self.compare(0, self.model.len())
    }
}
