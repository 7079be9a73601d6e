//! The directory of one test: removed when the test passed, kept (and its logs shown) when it failed, or when its process
//! was ended from outside.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result};

/// The directory in which those of all tests are made.
const PARENT: &str = "/var/tmp";
/// The times of files are of a clock that is behind by as much as it goes forward at a time: some milliseconds.
const CLOCK_STEP: Duration = Duration::from_millis(100);
/// How many lines of each log are shown after a failure.
const TAIL_LINES: usize = 25;

/// A temporary directory, which is removed on drop.
pub struct Scratch(Option<tempfile::TempDir>);

impl Scratch {
    /// A fresh directory named after the test, on a disk file system that a guest sees as well
    /// (a guest hides the host's `/dev`, `/run` and `/mnt` behind its own).
    ///
    /// # Errors
    /// When the directory cannot be made.
    pub fn new(name: &str) -> Result<Self> {
        let dir = tempfile::Builder::new()
            .prefix(&prefix(name))
            .permissions(std::os::unix::fs::PermissionsExt::from_mode(0o755))
            .tempdir_in(PARENT)
            .with_context(|| format!("make a directory in {PARENT}"))?;
        Ok(Self(Some(dir)))
    }

    /// Path of the directory, as long as it is there.
    pub fn path(&self) -> &Path {
        self.0
            .as_ref()
            .map_or_else(|| Path::new("/nonexistent"), |dir| dir.path())
    }

    /// Leaves the directory where it is and prints its path.
    pub fn keep(mut self) {
        if let Some(dir) = self.0.take() {
            println!("     kept {}", dir.keep().display());
        }
    }

    /// Leaves the directory and prints the end of every log in it.
    pub fn keep_and_show(self) {
        for line in ends_of_logs(self.path()) {
            println!("     {line}");
        }
        self.keep();
    }
}

/// What a test's process that was ended from outside has left: the end of every log in directories that were made for the
/// test `name` and changed after `since`, and where they are.
pub fn left_by(name: &str, since: SystemTime) -> Vec<String> {
    let prefix = prefix(name);
    let is_of_test = |entry: &fs::DirEntry| {
        let name = entry.file_name();
        let rest = name.to_str().and_then(|name| name.strip_prefix(&prefix));
        // Another test's name may begin with this one's.
        let is_ours = rest.is_some_and(|rest| !rest.contains('-'));
        let changed = entry.metadata().and_then(|metadata| metadata.modified());
        is_ours && changed.is_ok_and(|changed| changed + CLOCK_STEP >= since)
    };
    let entries = fs::read_dir(PARENT).into_iter().flatten().flatten();
    let directories = entries.filter(is_of_test).map(|entry| entry.path());
    directories
        .flat_map(|directory| {
            let kept = format!("kept {}", directory.display());
            ends_of_logs(&directory)
                .into_iter()
                .chain(std::iter::once(kept))
        })
        .collect()
}

fn prefix(name: &str) -> String {
    format!("nfs-test-{}-", name.replace([':', '/'], "-"))
}

/// The last lines of every log in a directory, each log under its name.
fn ends_of_logs(directory: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for log in logs(directory) {
        let Ok(text) = fs::read(&log) else { continue };
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<_> = text.lines().collect();
        found.push(format!("the end of {}:", log.display()));
        let last = &lines[lines.len().saturating_sub(TAIL_LINES)..];
        found.extend(last.iter().map(|line| format!("  {line}")));
    }
    found
}

fn logs(dir: &Path) -> Vec<PathBuf> {
    let mut found: Vec<_> = fs::read_dir(dir)
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|ext| ext == "log"))
        .collect();
    found.sort();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_ended_test_left_is_found_by_its_name_and_time() {
        let begun = SystemTime::now();
        let name = format!("left-{}", std::process::id());
        let ours = Scratch::new(&name).unwrap();
        let other = Scratch::new(&format!("{name}-more")).unwrap();
        let lines: Vec<String> = (1..=30).map(|number| format!("line {number}")).collect();
        for scratch in [&ours, &other] {
            fs::write(scratch.path().join("server.log"), lines.join("\n")).unwrap();
        }
        let left = left_by(&name, begun);
        let path = ours.path().display();
        assert_eq!(
            left.first(),
            Some(&format!("the end of {path}/server.log:"))
        );
        assert_eq!(left.get(1).map(String::as_str), Some("  line 6"));
        assert_eq!(left.last(), Some(&format!("kept {path}")));
        assert_eq!(left.len(), TAIL_LINES + 2);
        let later = SystemTime::now() + Duration::from_secs(3600);
        assert_eq!(left_by(&name, later), Vec::<String>::new());
    }
}
