//! Random changes of names and attributes, each also made on a file system of the guest's own: what the
//! calls answer has to be the same there and on the mount, and so have the trees at the end. The idea is
//! that of SGI's `fsstress`; the operations are ours.
//!
//! The host kills the server all along. A call that ran twice answers otherwise: a MKDIR that it was there
//! already, a REMOVE that it was not.

use std::fmt;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail, ensure};
use fastrand::Rng;
use nfs_lab::pattern;
use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, chmodat, ftruncate, linkat, mkdirat, mknodat, open,
    renameat, symlinkat, unlinkat,
};
use rustix::io::Errno;

use super::Report;
use crate::manifest::{self, Entry};

/// Directories that no operation removes.
const DIRECTORIES: [&str; 5] = ["p", "p/r", "p/r/t", "q", "q/s"];
/// Number of names in each of those directories, for objects of any kind.
const NAMES: u64 = 7;
/// How many of a hundred paths lie below one of the names that come and go.
const BELOW: u64 = 15;
/// How many of the last operations a failure shows.
const HISTORY: usize = 8;

/// What one run of the suite does, and what its verdict is called.
pub(super) struct Plan<'a> {
    /// Name of the directory and of the verdict.
    pub(super) name: &'a str,
    pub(super) seed: u64,
    /// How many workers run at once, each in a directory of its own.
    pub(super) workers: u64,
    /// A file that the host makes when the workers shall stop.
    pub(super) enough: &'a Path,
}

/// Runs the same random operations in `dir` and in `reference` and gives one verdict.
pub(super) fn run(
    dir: &Path,
    reference: &Path,
    plan: &Plan<'_>,
    report: &mut Report,
) -> Result<()> {
    let outcome = play(dir, reference, plan);
    report.verdict(
        plan.name,
        &outcome
            .as_ref()
            .map(drop)
            .map_err(|error| anyhow::anyhow!("{error:#}, seed {}", plan.seed)),
    )?;
    if let Ok((operations, tree)) = outcome {
        report.line(&format!("note {}: {operations} operations", plan.name))?;
        let tree = serde_json::to_string(&tree)?;
        report.line(&format!("manifest {} {tree}", plan.name))?;
    }
    Ok(())
}

/// How many operations were done, and the tree that has to be there.
fn play(dir: &Path, reference: &Path, plan: &Plan<'_>) -> Result<(u64, Vec<Entry>)> {
    let roots = [dir, reference].map(|root| root.join(plan.name));
    for root in &roots {
        fs::create_dir(root).with_context(|| format!("make {}", root.display()))?;
    }
    let mut random = Rng::with_seed(plan.seed);
    let mut workers = Vec::new();
    for number in 0..plan.workers {
        workers.push(Worker {
            roots: roots.each_ref().map(|root| root.join(number.to_string())),
            random: random.fork(),
            history: Vec::new(),
        });
    }
    let operations = std::thread::scope(|scope| {
        let working = workers
            .iter_mut()
            .map(|worker| scope.spawn(|| worker.work(plan.enough)));
        let working: Vec<_> = working.collect();
        let mut operations = 0;
        for worker in working {
            let done = worker.join();
            operations += done.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        }
        Ok::<_, anyhow::Error>(operations)
    })?;
    let [found, expected] = roots.map(|root| tree(&root));
    let (found, expected) = (found?, expected?);
    let wrong = manifest::differences(&expected, &found);
    ensure!(
        wrong.is_empty(),
        "the tree on the mount: {}",
        wrong.join("; ")
    );
    Ok((operations, expected))
}

/// Everything below `root`, without times, as each file system has its own.
fn tree(root: &Path) -> Result<Vec<Entry>> {
    let mut tree = manifest::of_tree(root)?;
    manifest::forget_times(&mut tree);
    Ok(tree)
}

struct Worker {
    /// The worker's directory on the mount, and the one on the guest's own file system.
    roots: [PathBuf; 2],
    random: Rng,
    history: Vec<String>,
}

impl Worker {
    fn work(&mut self, enough: &Path) -> Result<u64> {
        for root in &self.roots {
            fs::create_dir(root).with_context(|| format!("make {}", root.display()))?;
            for directory in DIRECTORIES {
                let directory = root.join(directory);
                fs::create_dir(&directory)
                    .with_context(|| format!("make {}", directory.display()))?;
            }
        }
        let mut operations = 0;
        while !enough.exists() {
            self.step().with_context(|| {
                let last = self.history.iter().rev().take(HISTORY).rev();
                let last: Vec<_> = last.cloned().collect();
                format!("operation {operations}; the last ones: {}", last.join("; "))
            })?;
            operations += 1;
        }
        Ok(operations)
    }

    fn step(&mut self) -> Result<()> {
        let operation = self.operation();
        let [found, expected] = self.roots.each_ref().map(|root| operation.run(root));
        let said = |outcome: Result<(), Errno>| match outcome {
            Ok(()) => "done".to_owned(),
            Err(errno) => format!("{:?}", errno.kind()),
        };
        self.history.push(format!("{operation}: {}", said(found)));
        if found != expected {
            bail!("it should have been {}", said(expected));
        }
        Ok(())
    }

    fn path(&mut self) -> String {
        let directory = match self.random.usize(..DIRECTORIES.len() + 1) {
            0 => String::new(),
            at => format!("{}/", DIRECTORIES[at - 1]),
        };
        let name = format!("{directory}n{}", self.random.u64(..NAMES));
        if self.random.u64(..100) < BELOW {
            name + "/below"
        } else {
            name
        }
    }

    fn operation(&mut self) -> Operation {
        let path = self.path();
        match self.random.u64(..100) {
            0..10 => Operation::Create(path),
            10..18 => Operation::Write(path, self.random.u64(..20_000)),
            18..24 => Operation::Append(path, self.random.u64(..5_000)),
            24..38 => Operation::Mkdir(path),
            38..48 => Operation::Symlink(self.target(), path),
            48..54 => Operation::Mknod(path),
            54..64 => Operation::Link(path, self.path()),
            64..76 => Operation::Rename(path, self.path()),
            76..86 => Operation::Unlink(path),
            86..93 => Operation::Rmdir(path),
            93..96 => Operation::Truncate(path, self.random.u64(..30_000)),
            _ => Operation::Chmod(path, 0o600 | self.random.u64(..0o100) as u32),
        }
    }

    /// Makes the target of a symbolic link. It may lead to something, but never out of the worker's
    /// directory.
    fn target(&mut self) -> String {
        let name = self.random.u64(..NAMES);
        match self.random.u64(..3) {
            0 => format!("n{name}"),
            1 => format!("../q/n{name}"),
            _ => format!("nowhere/{}", self.random.u64(..)),
        }
    }
}

/// One operation on paths below a root.
enum Operation {
    /// Makes a file that must not be there yet.
    Create(String),
    /// Writes the whole content of a file, which is made if need be.
    Write(String, u64),
    /// Appends to a file that is there, on stable storage.
    Append(String, u64),
    Mkdir(String),
    /// Makes a symbolic link, given its target and its path.
    Symlink(String, String),
    Mknod(String),
    Link(String, String),
    Rename(String, String),
    Unlink(String),
    Rmdir(String),
    Truncate(String, u64),
    Chmod(String, u32),
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Create(path) => write!(f, "create {path}"),
            Self::Write(path, len) => write!(f, "write {path} {len}"),
            Self::Append(path, len) => write!(f, "append {path} {len}"),
            Self::Mkdir(path) => write!(f, "mkdir {path}"),
            Self::Symlink(target, path) => write!(f, "symlink {target} {path}"),
            Self::Mknod(path) => write!(f, "mknod {path}"),
            Self::Link(from, to) => write!(f, "link {from} {to}"),
            Self::Rename(from, to) => write!(f, "rename {from} {to}"),
            Self::Unlink(path) => write!(f, "unlink {path}"),
            Self::Rmdir(path) => write!(f, "rmdir {path}"),
            Self::Truncate(path, len) => write!(f, "truncate {path} {len}"),
            Self::Chmod(path, mode) => write!(f, "chmod {path} {mode:o}"),
        }
    }
}

impl Operation {
    fn run(&self, root: &Path) -> Result<(), Errno> {
        let at = |path: &String| root.join(path);
        // What is a FIFO by now must not keep us.
        let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        match self {
            Self::Create(path) => {
                let flags = flags | OFlags::CREATE | OFlags::EXCL;
                open(at(path), flags, Mode::from_raw_mode(0o644)).map(drop)
            }
            Self::Write(path, len) => {
                let flags = flags | OFlags::CREATE | OFlags::TRUNC;
                let file = open(at(path), flags, Mode::from_raw_mode(0o644))?;
                store(file.into(), *len)
            }
            Self::Append(path, len) => {
                let file = open(at(path), flags | OFlags::APPEND, Mode::empty())?;
                let file = File::from(file);
                let synced = file.try_clone().map_err(errno_of)?;
                store(file, *len)?;
                synced.sync_all().map_err(errno_of)
            }
            Self::Mkdir(path) => mkdirat(CWD, at(path), Mode::from_raw_mode(0o755)),
            Self::Symlink(target, path) => symlinkat(target, CWD, at(path)),
            Self::Mknod(path) => {
                let mode = Mode::from_raw_mode(0o644);
                mknodat(CWD, at(path), FileType::Fifo, mode, 0)
            }
            Self::Link(from, to) => linkat(CWD, at(from), CWD, at(to), AtFlags::empty()),
            Self::Rename(from, to) => match renameat(CWD, at(from), CWD, at(to)) {
                // Either tells of a directory that is not empty; XFS says the one, tmpfs the other.
                Err(Errno::EXIST) => Err(Errno::NOTEMPTY),
                outcome => outcome,
            },
            Self::Unlink(path) => unlinkat(CWD, at(path), AtFlags::empty()),
            Self::Rmdir(path) => unlinkat(CWD, at(path), AtFlags::REMOVEDIR),
            Self::Truncate(path, len) => {
                let file = open(at(path), flags, Mode::empty())?;
                ftruncate(&file, *len)
            }
            Self::Chmod(path, mode) => {
                chmodat(CWD, at(path), Mode::from_raw_mode(*mode), AtFlags::empty())
            }
        }
    }
}

fn store(mut file: File, len: u64) -> Result<(), Errno> {
    let content = pattern::bytes(len, 0, len as usize);
    file.write_all(&content).map_err(errno_of)
}

fn errno_of(error: std::io::Error) -> Errno {
    Errno::from_io_error(&error).unwrap_or(Errno::IO)
}
