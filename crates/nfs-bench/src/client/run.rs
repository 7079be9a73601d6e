//! A whole run of the client comparison: the files, the servers, the rounds.

use std::fs::{self, File};
use std::os::fd::AsFd as _;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde::Serialize;

use super::ceiling::{self, Ceiling};
use super::guest;
use super::plan::{Figures, Part, Row, Sizes, rows};
use super::serve::{Server, Serving};
use super::tool::{self, Ends, LOOPED_FILES, Tool, Work, small_name};
use super::watch::watch;
use crate::content::{Content, Data};
use crate::counters;
use crate::servers::{WITHOUT_GANESHA, ganesha_is_installed};
use crate::stage::{self, output};
use crate::supervise::Setting;
use crate::turns::{Machine, Turns};
use crate::volume::Volume;

/// Length of each small file in bytes.
const SMALL_FILE_BYTES: usize = 4096;
/// Name of the file on the local disk that is copied to a server.
const DISK_SOURCE: &str = "source";
/// Bytes of the large file that are composed and written at a time.
const PIECE_BYTES: usize = 1 << 20;

/// Settings of a run of the client comparison.
#[derive(Clone, Debug)]
pub struct Options {
    /// Sizes of the large files, in bytes.
    pub sizes: Sizes,
    /// Number of small files to move.
    pub files: usize,
    /// Number of rounds: each row is measured once in every round.
    pub rounds: usize,
    /// Measure only rows whose label contains this.
    pub filter: Option<String>,
    /// Whether to measure the kernel's client, too.
    pub kernel: bool,
}

/// The machine, the versions and the settings of a run: a figure is worth something only beside them.
#[derive(Debug, Serialize)]
pub struct Header {
    /// The machine that the run took place on.
    #[serde(flatten)]
    pub machine: Machine,
    /// Versions of the programs that ours is compared with.
    pub versions: Vec<String>,
    /// Size of the large file in bytes.
    pub file_bytes: u64,
    /// Number of small files that are moved.
    pub files: usize,
    /// Number of rounds: each row was measured once in every round.
    pub rounds: usize,
    /// Description of the local disk's file system, if files on a disk were measured.
    pub disk: Option<String>,
    /// Length of the whole run in seconds.
    pub run_seconds: f64,
}

/// The result of a whole run of the client comparison.
#[derive(Debug, Serialize)]
pub struct Report {
    /// The machine, the versions and the settings of the run.
    pub header: Header,
    /// What loopback TCP carried, measured once in each round.
    pub ceilings: Vec<Ceiling>,
    /// The measurements, one row for each server, work and tool.
    pub rows: Vec<Row>,
    /// What could not be measured and why, one entry for each.
    pub missing: Vec<String>,
}

/// Measures all rows in all rounds; says what it is doing on standard error.
///
/// # Errors
/// Not started by [`crate::supervise::run_inside`], too little memory, or our own server does not start.
pub fn run(options: &Options) -> Result<Report> {
    // A copy of the largest file, and what of it is on its way.
    let mut turns = Turns::new().touching(2 * options.sizes.whole);
    let machine = Machine::look()?;
    let cores = machine.cores;
    let setting = Setting::ours()?;
    let root = stage::set_network_and_run()?;
    let mut rows = rows(options.sizes, options.kernel);
    rows.retain(|row| {
        let filter = options.filter.as_deref();
        filter.is_none_or(|filter| row.label().contains(filter))
    });
    ensure!(!rows.is_empty(), "--filter leaves nothing over");
    leave_out_what_is_not_there(&mut rows, &mut turns.missing);
    let wire = rows.iter().any(|row| row.tool == Tool::Kernel);
    let disk = rows.iter().find(|row| row.part == Part::Disk);
    let on_disk = disk.map(|row| (&*setting.disk, row.file_bytes));
    let place = Place::set(&root, options, on_disk, cores)?;
    let servings = place.start(&rows, wire)?;
    let mut ceilings = Vec::new();
    for round in 1..=options.rounds {
        turns.round(round, options.rounds);
        let ceiling = ceiling::measure(options.sizes.whole, cores)?;
        eprintln!(
            "  {:<64} {:>7.0} MiB/s",
            "loopback TCP",
            ceiling.mib_per_second()
        );
        ceilings.push(ceiling);
        for row in &mut rows {
            one(&place, &servings, row, &mut turns)?;
        }
    }
    let header = Header {
        machine: turns.on(machine),
        versions: versions(),
        file_bytes: options.sizes.whole,
        files: options.files,
        rounds: options.rounds,
        disk: place.disk.as_ref().map(|disk| disk.description.clone()),
        run_seconds: turns.seconds(),
    };
    Ok(Report {
        header,
        ceilings,
        rows,
        missing: turns.missing,
    })
}

fn leave_out_what_is_not_there(rows: &mut Vec<Row>, missing: &mut Vec<String>) {
    if rows.iter().any(|row| row.tool == Tool::Kernel)
        && let Err(error) = guest::set_wire()
    {
        missing.push(format!("the kernel's client: {error:#}"));
        rows.retain(|row| row.tool != Tool::Kernel);
    }
    if !ganesha_is_installed() {
        missing.push(WITHOUT_GANESHA.to_owned());
        rows.retain(|row| row.server != Server::Ganesha);
    }
    if output("which", &["nfs-cp"]).is_err() {
        missing.push("libnfs: install libnfs-utils".to_owned());
        rows.retain(|row| row.tool != Tool::Libnfs);
    }
}

fn versions() -> Vec<String> {
    let version = |format: &str, package: &str| {
        let format = format!("-f={format} ${{Version}}");
        output("dpkg-query", &["-W", &format, package]).ok()
    };
    let peers = [("libnfs", "libnfs-utils"), ("ganesha", "nfs-ganesha")];
    peers
        .into_iter()
        .filter_map(|(name, package)| version(name, package))
        .collect()
}

fn one(place: &Place, servings: &[Serving], row: &mut Row, turns: &mut Turns) -> Result<()> {
    let serving = servings
        .iter()
        .find(|serving| serving.server == row.server)
        .context("a row without a server")?;
    let say = |figures: &Figures| match row.work.is_many() {
        true => format!("{:>7.0} files/s", figures.files_per_second()),
        false => format!("{:>7.0} MiB/s", figures.mib_per_second()),
    };
    let measure = |turn| place.measure(serving, row, turn);
    let figures = turns.take(&row.label(), measure, say);
    row.rounds.extend(figures);
    Ok(())
}

/// The files that are moved, and where they come to be.
struct Place {
    root: PathBuf,
    /// What servers serve, and everything local: one file system in memory.
    memory: PathBuf,
    files: usize,
    largest: u64,
    cores: (usize, usize),
    /// A file system on a device, for local files.
    disk: Option<Volume>,
}

impl Place {
    /// Makes the files; in a directory of a disk, too, if there are to be files of so many bytes.
    fn set(
        root: &Path,
        options: &Options,
        on_disk: Option<(&Path, u64)>,
        cores: (usize, usize),
    ) -> Result<Self> {
        let sizes = options.sizes;
        // The source, and one copy of it at a time; on the disk as well.
        let needed = 2 * sizes.whole + sizes.small + sizes.swept + (1 << 30);
        let memory = root.join("memory");
        mount_memory(&memory, needed, on_disk.map_or(0, |(_, bytes)| 2 * bytes))?;
        let disk = on_disk.map(|(directory, _)| Volume::disk(directory));
        let place = Self {
            root: root.to_owned(),
            memory,
            files: options.files,
            largest: sizes.whole,
            cores,
            disk: disk.transpose()?,
        };
        eprintln!("writing the files that are moved");
        for bytes in [sizes.whole, sizes.small, sizes.swept] {
            if !place.source(bytes).exists() {
                make_file(&place.source(bytes), bytes)?;
            }
        }
        // A virtual machine may have to ask its host for memory that it uses the first time: not while it is measured.
        let first = place.memory.join("first-use");
        make_file(&first, sizes.whole)?;
        fs::remove_file(first)?;
        if let (Some(disk), Some((_, bytes))) = (&place.disk, on_disk) {
            let copy = disk.directory.join("new");
            make_file(&copy, bytes)?;
            disk.settle()?;
            fs::remove_file(copy)?;
            make_file(&disk.directory.join(DISK_SOURCE), bytes)?;
        }
        fs::create_dir(place.many())?;
        let mut content = Content::new(Data::Noise, SMALL_FILE_BYTES);
        let content = content.piece(0, SMALL_FILE_BYTES);
        for index in 0..place.files.max(LOOPED_FILES) {
            fs::write(place.many().join(small_name(index)), content)?;
        }
        Ok(place)
    }

    fn source(&self, bytes: u64) -> PathBuf {
        self.memory.join(format!("large-{}", bytes >> 20))
    }

    fn many(&self) -> PathBuf {
        self.memory.join("many")
    }

    /// Starts the servers that `rows` need; each finds the files as links in its directory.
    fn start(&self, rows: &[Row], wire: bool) -> Result<Vec<Serving>> {
        let all = [
            Server::Penstock,
            Server::Ganesha,
            Server::Responder,
            Server::Distant,
        ];
        let mut servings = Vec::new();
        for server in all {
            if !rows.iter().any(|row| row.server == server) {
                continue;
            }
            let word = format!("{server:?}").to_lowercase();
            let directory = self.memory.join(&word);
            fs::create_dir(&directory)?;
            let mut sizes: Vec<u64> = rows.iter().map(|row| row.file_bytes).collect();
            sizes.sort_unstable();
            sizes.dedup();
            for bytes in sizes {
                let source = self.source(bytes);
                fs::hard_link(&source, directory.join(large_name(bytes)))?;
            }
            let many = directory.join("many");
            fs::create_dir(&many)?;
            for index in 0..self.files.max(LOOPED_FILES) {
                let name = small_name(index);
                fs::hard_link(self.many().join(&name), many.join(&name))?;
            }
            let work = self.root.join(word);
            let swept = rows.iter().find(|row| row.server == server);
            let bytes = swept.map_or(self.largest, |row| row.file_bytes);
            servings.push(Serving::start(
                server,
                &directory,
                &work,
                (self.cores.1, wire),
                bytes,
            )?);
        }
        Ok(servings)
    }

    fn measure(&self, on: &Serving, row: &Row, turn: usize) -> Result<Figures> {
        // The responders have no such name until it is made.
        let new = format!("new-{turn}");
        let disk = self.disk_of(row)?;
        let mut source = self.source(row.file_bytes);
        let local = disk.map_or(&self.memory, |disk| &disk.directory);
        let (local_new, remote_new) = (local.join(&new), on.directory.join(&new));
        if let Some(disk) = disk.filter(|_| row.work.is_up()) {
            source = disk.directory.join(DISK_SOURCE);
        }
        let large = large_name(row.file_bytes);
        let ends = |remote, local| Ends {
            remote,
            local,
            bytes: row.file_bytes,
            synced: disk.is_some() && !row.work.is_up(),
        };
        let many = self.many();
        let looped = row.work.is_many() && row.tool == Tool::Libnfs;
        let (ends, made) = match row.work {
            Work::Read => (ends(&large, &local_new), None),
            Work::CopyDown => (ends(&large, &local_new), Some(&local_new)),
            Work::ManyDown => (ends("many", &local_new), Some(&local_new)),
            Work::Write | Work::CopyUp => (ends(&new, &source), Some(&remote_new)),
            Work::ManyUp => (ends(&new, &many), Some(&remote_new)),
        };
        if let Some(made) = made.filter(|_| looped) {
            fs::create_dir(made)?;
        }
        let log = self.root.join("log");
        let core = self.cores.0;
        let before = on.cpu_times()?;
        let spent = if row.tool == Tool::Kernel {
            let at = self.root.join("guest");
            guest::measure(on, row.work, ends.remote, row.file_bytes, (core, &at))
        } else {
            let mut command = tool::command(row.tool, row.work, on, ends, (core, &log))?;
            watch(&mut command).with_context(|| first_line(&log))
        };
        let after = on.cpu_times()?;
        let checked = match (&spent, made) {
            (Ok(_), Some(made)) if on.server.has_files() => self.check(row, &source, made),
            _ => Ok(()),
        };
        if let Some(made) = made {
            clear(made)?;
        }
        checked?;
        let files = match (row.work.is_many(), looped) {
            (false, _) => 1,
            (true, true) => LOOPED_FILES,
            (true, false) => self.files.max(LOOPED_FILES),
        };
        let bytes = if row.work.is_many() {
            (files * SMALL_FILE_BYTES) as u64
        } else {
            row.file_bytes
        };
        Ok(Figures {
            bytes,
            files,
            client: spent?,
            server_seconds: after.0 + after.1 - before.0 - before.1,
        })
    }

    /// The disk that a row's local file is on, at rest and with nothing of its source in memory.
    fn disk_of(&self, row: &Row) -> Result<Option<&Volume>> {
        if row.part != Part::Disk {
            return Ok(None);
        }
        let disk = self.disk.as_ref().context("a row without its disk")?;
        disk.settle()?;
        let source = File::open(disk.directory.join(DISK_SOURCE))?;
        nfs_io::fs::drop_cached(source.as_fd())?;
        Ok(Some(disk))
    }

    /// Whether what was made is what it should be: lengths, and places spread over a large file; the first and the
    /// last of the small ones.
    fn check(&self, row: &Row, source: &Path, made: &Path) -> Result<()> {
        if row.tool == Tool::Kernel {
            // It writes zeroes.
            let len = fs::metadata(made)?.len();
            ensure!(len == row.file_bytes, "{len} bytes came");
            return Ok(());
        }
        if row.work.is_many() {
            let last = match row.tool {
                Tool::Libnfs => LOOPED_FILES - 1,
                _ => self.files.max(LOOPED_FILES) - 1,
            };
            for name in [small_name(0), small_name(last)] {
                compare(&self.many().join(&name), &made.join(&name))?;
            }
            return Ok(());
        }
        compare(source, made)
    }
}

/// Mounts a file system in memory of `bytes` at `directory`, if the machine has so much left and `cached`
/// bytes more for the cache of a disk.
fn mount_memory(directory: &Path, bytes: u64, cached: u64) -> Result<()> {
    let (needed, available) = (bytes + cached, counters::memory_available()?);
    ensure!(
        available > needed,
        "the files lie in memory: {} MiB are needed and {} available; choose a smaller --gib",
        needed >> 20,
        available >> 20
    );
    fs::create_dir(directory)?;
    let at = directory.display().to_string();
    output(
        "mount",
        &["-t", "tmpfs", "-o", &format!("size={bytes}"), "tmpfs", &at],
    )?;
    Ok(())
}

fn large_name(bytes: u64) -> String {
    format!("large-{}", bytes >> 20)
}

/// The first line of a program's messages, which usually names the cause of its failure.
fn first_line(log: &Path) -> String {
    let text = fs::read_to_string(log).unwrap_or_default();
    text.lines().next().unwrap_or_default().to_owned()
}

/// Number of places at which two large files are compared, beside their last bytes.
const COMPARED_PLACES: u64 = 64;
const COMPARED_BYTES: u64 = 64 << 10;

fn compare(expected: &Path, found: &Path) -> Result<()> {
    let open = |path: &Path| File::open(path).with_context(|| path.display().to_string());
    let (expected, found) = (open(expected)?, open(found)?);
    let (len, found_len) = (expected.metadata()?.len(), found.metadata()?.len());
    ensure!(len == found_len, "{found_len} bytes came of {len}");
    for place in 0..=COMPARED_PLACES {
        let part = COMPARED_BYTES.min(len);
        // The last one ends with the file.
        let at = (len - part) / COMPARED_PLACES * place;
        let at = if place == COMPARED_PLACES {
            len - part
        } else {
            at
        };
        let mut bytes = [
            vec![0; usize::try_from(part)?],
            vec![0; usize::try_from(part)?],
        ];
        expected.read_exact_at(&mut bytes[0], at)?;
        found.read_exact_at(&mut bytes[1], at)?;
        ensure!(bytes[0] == bytes[1], "wrong bytes at {at}");
    }
    Ok(())
}

/// Removes what was made; its memory is free at once, also while a server keeps a file open.
fn clear(made: &Path) -> Result<()> {
    if made.is_dir() {
        return Ok(fs::remove_dir_all(made)?);
    }
    if let Ok(file) = File::options().write(true).open(made) {
        file.set_len(0)?;
        fs::remove_file(made)?;
    }
    Ok(())
}

/// Makes a file that differs from block to block.
fn make_file(path: &Path, bytes: u64) -> Result<()> {
    Content::new(Data::Noise, PIECE_BYTES).make_file(path, bytes)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_is_looked_at() {
        let directory = std::env::temp_dir().join(format!("compare-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let (one, other) = (directory.join("one"), directory.join("other"));
        make_file(&one, 3 << 20).unwrap();
        fs::copy(&one, &other).unwrap();
        compare(&one, &other).unwrap();
        let file = File::options().write(true).open(&other).unwrap();
        file.write_all_at(&[0xff], (3 << 20) - 1).unwrap();
        assert!(compare(&one, &other).is_err());
        file.set_len((3 << 20) - 8).unwrap();
        assert!(compare(&one, &other).is_err());
        clear(&other).unwrap();
        assert!(!other.exists());
        fs::remove_dir_all(&directory).unwrap();
    }
}
