//! What is in a directory tree, as comparable facts.
//!
//! The guest takes a manifest of what the kernel's client shows; the host takes one of the same
//! directory on the server's disk. Both have to be equal: what a program saw is what is there.

use std::fs::{self, File, Metadata};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt};
use std::path::Path;

use anyhow::{Context, Result};
use nfs_lab::pattern::{DIGEST_START, digest};
use serde::{Deserialize, Serialize};

/// Files larger than this are not read whole: their first and last piece of `EDGE` bytes are.
const WHOLE_FILE_MAX: u64 = 64 << 20;
/// The piece of a large file that is read at either end, in bytes.
const EDGE: u64 = 1 << 20;

/// One file, directory or other object of a tree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Entry {
    /// Path below the root of the manifest; it need not be UTF-8.
    pub(crate) path: Vec<u8>,
    /// `file`, `dir`, `symlink`, `fifo`, `socket`, `char` or `block`.
    pub(crate) kind: String,
    /// The permission bits with set-id and sticky bits.
    pub(crate) mode: u32,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    /// Link count; 0 for directories, whose count is the file system's own business.
    pub(crate) nlink: u64,
    /// Size in bytes; 0 for directories.
    pub(crate) size: u64,
    /// Modification time in seconds and nanoseconds.
    pub(crate) mtime: (i64, i64),
    /// Digest of a file's bytes, of a link's target, or the device number.
    pub(crate) content: u64,
}

/// Lists everything below `root` (without `root` itself), sorted by path.
///
/// # Errors
/// Any error of the file system while listing, reading or asking for attributes.
pub(crate) fn of_tree(root: &Path) -> Result<Vec<Entry>> {
    let mut entries = Vec::new();
    collect(root, root, &mut entries)?;
    entries.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(entries)
}

/// Clears the times of all entries, to compare trees on file systems that each have times of their own.
pub(crate) fn forget_times(entries: &mut [Entry]) {
    for entry in entries {
        entry.mtime = (0, 0);
    }
}

/// What differs between two manifests, in words; empty when they are equal.
pub(crate) fn differences(expected: &[Entry], found: &[Entry]) -> Vec<String> {
    let mut lines = Vec::new();
    let (mut e, mut f) = (expected.iter().peekable(), found.iter().peekable());
    loop {
        match (e.peek(), f.peek()) {
            (None, None) => return lines,
            (Some(a), Some(b)) if a.path == b.path => {
                if a != b {
                    lines.push(format!("{}: {}", shown(&a.path), difference(a, b)));
                }
                e.next();
                f.next();
            }
            (Some(a), b) if b.is_none_or(|b| a.path < b.path) => {
                lines.push(format!("{}: missing", shown(&a.path)));
                e.next();
            }
            (_, Some(b)) => {
                lines.push(format!("{}: should not exist", shown(&b.path)));
                f.next();
            }
            (Some(_), None) => unreachable!("covered by the arm of missing entries"),
        }
    }
}

fn difference(a: &Entry, b: &Entry) -> String {
    let mut parts = Vec::new();
    let mut note = |name: &str, x: String, y: String| {
        if x != y {
            parts.push(format!("{name} {x} became {y}"));
        }
    };
    note("kind", a.kind.clone(), b.kind.clone());
    note("mode", format!("{:o}", a.mode), format!("{:o}", b.mode));
    note(
        "owner",
        format!("{}:{}", a.uid, a.gid),
        format!("{}:{}", b.uid, b.gid),
    );
    note("nlink", a.nlink.to_string(), b.nlink.to_string());
    note("size", a.size.to_string(), b.size.to_string());
    note("mtime", format!("{:?}", a.mtime), format!("{:?}", b.mtime));
    note(
        "content",
        format!("{:016x}", a.content),
        format!("{:016x}", b.content),
    );
    parts.join(", ")
}

fn collect(root: &Path, dir: &Path, entries: &mut Vec<Entry>) -> Result<()> {
    for item in fs::read_dir(dir).with_context(|| format!("list {}", dir.display()))? {
        let path = item
            .with_context(|| format!("list {}", dir.display()))?
            .path();
        let meta =
            fs::symlink_metadata(&path).with_context(|| format!("stat {}", path.display()))?;
        entries.push(entry(root, &path, &meta)?);
        if meta.is_dir() {
            collect(root, &path, entries)?;
        }
    }
    Ok(())
}

fn entry(root: &Path, path: &Path, meta: &Metadata) -> Result<Entry> {
    let kind = meta.file_type();
    let (name, content) = if kind.is_dir() {
        ("dir", 0)
    } else if kind.is_symlink() {
        let target = fs::read_link(path).with_context(|| format!("readlink {}", path.display()))?;
        (
            "symlink",
            digest(DIGEST_START, target.as_os_str().as_bytes()),
        )
    } else if kind.is_fifo() {
        ("fifo", 0)
    } else if kind.is_socket() {
        ("socket", 0)
    } else if kind.is_char_device() {
        ("char", meta.rdev())
    } else if kind.is_block_device() {
        ("block", meta.rdev())
    } else {
        let content =
            digest_of_file(path, meta.len()).with_context(|| format!("read {}", path.display()))?;
        ("file", content)
    };
    let is_dir = kind.is_dir();
    Ok(Entry {
        path: path.strip_prefix(root)?.as_os_str().as_bytes().to_vec(),
        kind: name.to_owned(),
        mode: meta.mode() & 0o7777,
        uid: meta.uid(),
        gid: meta.gid(),
        nlink: if is_dir { 0 } else { meta.nlink() },
        size: if is_dir { 0 } else { meta.len() },
        mtime: (meta.mtime(), meta.mtime_nsec()),
        content,
    })
}

fn digest_of_file(path: &Path, size: u64) -> Result<u64> {
    let mut file = File::open(path)?;
    if size > WHOLE_FILE_MAX {
        let mut edge = vec![0; EDGE as usize];
        file.read_exact_at(&mut edge, 0)?;
        let start = digest(DIGEST_START, &edge);
        file.read_exact_at(&mut edge, size - EDGE)?;
        return Ok(digest(start, &edge));
    }
    let mut state = DIGEST_START;
    let mut piece = vec![0; EDGE as usize];
    loop {
        let n = file.read(&mut piece)?;
        if n == 0 {
            return Ok(state);
        }
        state = digest(state, &piece[..n]);
    }
}

fn shown(path: &[u8]) -> String {
    path.escape_ascii().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_name_what_is_missing_extra_and_changed() -> Result<()> {
        let (a, b) = (tempfile::tempdir()?, tempfile::tempdir()?);
        fs::write(a.path().join("both"), "one")?;
        fs::write(b.path().join("both"), "two!")?;
        fs::write(a.path().join("gone"), "")?;
        fs::write(b.path().join("new"), "")?;
        let found = differences(&of_tree(a.path())?, &of_tree(b.path())?);
        assert_eq!(found.len(), 3, "{found:?}");
        assert!(found[0].starts_with("both: ") && found[0].contains("size 3 became 4"));
        assert_eq!(found[1..], ["gone: missing", "new: should not exist"]);
        assert!(differences(&of_tree(a.path())?, &of_tree(a.path())?).is_empty());
        Ok(())
    }
}
