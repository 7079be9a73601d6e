//! Ctrl-C in the middle of `rm -r`, `chmod -R` and `cp -r`: the exit code, what is said to be done, that it can be
//! gone on with, and that nothing else is touched.
//!
//! The middle is found without a clock: the commands name each thing that is done, on a pipe that holds less than
//! all of it. What is not read keeps them from going on, and that is when the signal is sent.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use nfs_lab::pattern;
use nfs_lab::{Running, output};
use rustix::process::Signal;

use super::Ground;
use crate::manifest;

/// Directories of the tree, and files in each. Their names are many times what the pipe holds, and there are many
/// times as many as a command gets done between the signal and when it looks for one, also on a busy machine.
const DIRS: usize = 60;
const FILES: usize = 40;
/// Capacity of the pipe in bytes.
const PIPE_BYTES: usize = 4096;
/// Lines that are read before the signal: some directories are done by then.
const SEEN: usize = 150;
/// How long a command may take to end; it says itself that it takes five seconds at most.
const END_DEADLINE: Duration = Duration::from_secs(60);
/// The modes of files before and after `chmod`.
const MODES: [u32; 2] = [0o640, 0o604];

/// Runs all checks in a new directory on the server's disk, which is exported as `ground.url`; returns how
/// many.
///
/// # Errors
/// What is wrong.
pub(super) fn checks(ground: &Ground<'_>, scratch: &Path) -> Result<u32> {
    let place = ground.dir.join("interrupted");
    fs::create_dir(&place)?;
    fill(&place)?;
    let bench = Bench {
        ground,
        tree: place.join("tree"),
        outside: place.join("outside"),
        scratch,
    };
    let outside = manifest::of_tree(&bench.outside)?;
    bench.chmod().context("chmod -R")?;
    bench.cp().context("cp -r")?;
    bench.rm().context("rm -r")?;
    let wrong = manifest::differences(&outside, &manifest::of_tree(&bench.outside)?);
    ensure!(wrong.is_empty(), "outside of the tree: {wrong:?}");
    fs::remove_dir_all(&place)?;
    Ok(3)
}

/// A tree, and beside it something that links in the tree lead to.
fn fill(place: &Path) -> Result<()> {
    let outside = place.join("outside");
    fs::create_dir_all(outside.join("dir"))?;
    fs::write(outside.join("kept"), "kept")?;
    fs::write(outside.join("dir/kept too"), "kept")?;
    for dir in 0..DIRS {
        let dir = place.join(format!("tree/dir-{dir:02}"));
        fs::create_dir_all(&dir)?;
        for file in 0..FILES {
            let path = dir.join(format!("file-{file:03}"));
            fs::write(&path, pattern::bytes(file as u64, 0, file * 17))?;
            fs::set_permissions(&path, fs::Permissions::from_mode(MODES[0]))?;
        }
        symlink("../../outside/kept", dir.join("link"))?;
        symlink("../../outside/dir", dir.join("link to a directory"))?;
    }
    Ok(())
}

struct Bench<'a> {
    ground: &'a Ground<'a>,
    tree: PathBuf,
    /// A tree that no command may touch, though links lead to it.
    outside: PathBuf,
    scratch: &'a Path,
}

/// What an interrupted command has said it did.
struct Interrupted {
    /// Number of lines on standard output, each a thing that was done.
    done: usize,
    /// Number of those lines that tell of a new directory, if the command tells them apart.
    made: usize,
    errors: String,
}

impl Bench<'_> {
    fn url(&self) -> String {
        self.ground.url(b"interrupted/tree")
    }

    fn chmod(&self) -> Result<()> {
        let url = self.url();
        let mode = "u=rwX,g=,o=r";
        let said = self.interrupt(&["chmod", "-Rv", mode, &url])?;
        let changed = |mode: u32| -> Result<usize> {
            let entries = manifest::of_tree(&self.tree)?;
            let files = entries.iter().filter(|entry| entry.kind == "file");
            Ok(files.filter(|entry| entry.mode == mode).count())
        };
        let (new, old) = (changed(MODES[1])?, changed(MODES[0])?);
        ensure!(
            new > 0 && old > 0,
            "{new} changed, {old} not: not in the middle"
        );
        said.must_say(&format!("interrupted: {} changed below {url}", said.done))?;
        ensure!(
            (new..=new + DIRS + 1).contains(&said.done),
            "{} said to be changed, {new} files are",
            said.done
        );
        self.ground.run(&["chmod", "-R", mode, &url])?;
        ensure!(changed(MODES[1])? == DIRS * FILES, "run again");
        Ok(())
    }

    fn cp(&self) -> Result<()> {
        let expected = manifest::of_tree(&self.tree)?;
        let up = self.ground.url(b"interrupted/copy");
        let down = self.scratch.join("interrupted");
        let down = down.to_str().context("UTF-8")?;
        for (from, to, there) in [
            (self.url(), down.to_owned(), Path::new(down).to_path_buf()),
            (down.to_owned(), up, self.tree.with_file_name("copy")),
        ] {
            let said = self.interrupt(&["cp", "-avT", &from, &to])?;
            let partly = manifest::of_tree(&there)?;
            ensure!(
                partly.len() < expected.len(),
                "all was copied: not in the middle"
            );
            // Every file that was named, and no more, is said to be done, and is there.
            let files = said.done - said.made;
            said.must_say(&format!("interrupted: {files} files are done"))?;
            let there_now = partly.iter().filter(|entry| entry.kind != "dir").count();
            ensure!(files <= there_now, "{files} done, {there_now} there");
            // The very words that it says.
            let again = said.after("to go on: ")?;
            let again = again.strip_prefix("penstock").context("a command")?;
            let program = (self.ground.penstock)();
            let program = program.get_program().to_str().context("UTF-8")?.to_owned();
            output(Command::new("bash").args(["-c", &format!("{program}{again}")]))
                .context("run again as it says")?;
            let wrong = manifest::differences(&expected, &manifest::of_tree(&there)?);
            ensure!(
                wrong.is_empty(),
                "run again: {} wrong: {:?}",
                wrong.len(),
                wrong.first()
            );
        }
        Ok(())
    }

    fn rm(&self) -> Result<()> {
        let url = self.url();
        let before = manifest::of_tree(&self.tree)?.len();
        let said = self.interrupt(&["rm", "-rv", &url])?;
        let left = manifest::of_tree(&self.tree)?.len();
        ensure!(
            (1..before).contains(&left),
            "{left} of {before} are left: not in the middle"
        );
        ensure!(
            said.done == before - left,
            "{} said to be removed, {} are",
            said.done,
            before - left
        );
        said.must_say(&format!("interrupted: {} removed below {url}", said.done))?;
        self.ground.run(&["rm", "-r", &url])?;
        ensure!(!self.tree.exists(), "run again");
        Ok(())
    }

    /// Runs a command until it has named some of what it does, and interrupts it.
    fn interrupt(&self, words: &[&str]) -> Result<Interrupted> {
        let log = self.scratch.join("interrupted.log");
        let (out, its_end) = std::io::pipe()?;
        rustix::pipe::fcntl_setpipe_size(&out, PIPE_BYTES)?;
        let mut command = (self.ground.penstock)();
        command
            .args(words)
            .stdin(Stdio::null())
            .stdout(its_end)
            .stderr(File::create(&log)?);
        let mut running = Running::start(&mut command)?;
        // It holds our copy of the writing end.
        drop(command);
        let mut out = BufReader::with_capacity(1, out);
        let is_made = |line: &str| line.trim_end().ends_with(": made");
        let (mut line, mut made) = (String::new(), 0);
        for _ in 0..SEEN {
            line.clear();
            ensure!(out.read_line(&mut line)? > 0, "it ended by itself");
            made += usize::from(is_made(&line));
        }
        running.signal(Signal::INT);
        let mut rest = String::new();
        out.read_to_string(&mut rest)?;
        let status = running.wait(END_DEADLINE)?;
        let errors = fs::read_to_string(&log)?;
        ensure!(
            status.code() == Some(130),
            "{words:?}: {status}, should be exit code 130: {errors}"
        );
        Ok(Interrupted {
            done: SEEN + rest.lines().count(),
            made: made + rest.lines().filter(|line| is_made(line)).count(),
            errors,
        })
    }
}

impl Interrupted {
    fn must_say(&self, text: &str) -> Result<()> {
        ensure!(
            self.errors.contains(text),
            "it does not say {text:?}: {}",
            self.errors
        );
        Ok(())
    }

    /// What follows the first `text` on standard error, up to the end of that line.
    fn after(&self, text: &str) -> Result<&str> {
        let rest = self.errors.split_once(text);
        let (_, rest) = rest.with_context(|| format!("no {text:?} in: {}", self.errors))?;
        Ok(rest.lines().next().unwrap_or_default())
    }
}
