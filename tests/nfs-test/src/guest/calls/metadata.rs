//! Attributes: modes, owners, times, the file system's numbers.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, lchown, symlink};
use std::path::Path;

use anyhow::{Context, Result};
use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT, utimensat};

use crate::guest::check::same;

fn mode(path: &Path) -> Result<u32> {
    Ok(fs::symlink_metadata(path)?.mode() & 0o7777)
}

pub(super) fn modes(dir: &Path) -> Result<()> {
    let file = dir.join("file");
    fs::write(&file, "x")?;
    let sub = dir.join("dir");
    fs::create_dir(&sub)?;
    for bits in [
        0, 0o400, 0o644, 0o755, 0o777, 0o4755, 0o2755, 0o1777, 0o7777, 0o600,
    ] {
        for path in [&file, &sub] {
            fs::set_permissions(path, fs::Permissions::from_mode(bits))?;
            same(mode(path)?, bits, "mode after chmod")?;
        }
    }
    let before = fs::metadata(&file)?;
    fs::set_permissions(&file, fs::Permissions::from_mode(0o640))?;
    let after = fs::metadata(&file)?;
    let ctime = |meta: &fs::Metadata| (meta.ctime(), meta.ctime_nsec());
    same(ctime(&after) >= ctime(&before), true, "ctime goes on")?;
    same(
        (after.mtime(), after.size()),
        (before.mtime(), before.size()),
        "the rest",
    )?;
    // By descriptor; and the mode given at creation, less the umask.
    File::open(&file)?.set_permissions(fs::Permissions::from_mode(0o604))?;
    same(mode(&file)?, 0o604, "mode after fchmod")?;
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o027));
    let created = OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(dir.join("created"));
    let made = fs::create_dir(dir.join("made"));
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
    created?;
    made?;
    same(mode(&dir.join("created"))?, 0o640, "mode of a created file")?;
    same(mode(&dir.join("made"))?, 0o750, "mode of a made directory")
}

pub(super) fn owners(dir: &Path) -> Result<()> {
    let owner = |path: &Path| -> Result<(u32, u32)> {
        let meta = fs::symlink_metadata(path)?;
        Ok((meta.uid(), meta.gid()))
    };
    let file = dir.join("file");
    fs::write(&file, "x")?;
    chown(&file, Some(1234), Some(5678))?;
    same(owner(&file)?, (1234, 5678), "owner")?;
    chown(&file, None, Some(99))?;
    same(owner(&file)?, (1234, 99), "owner after a change of group")?;
    chown(&file, Some(65_534), None)?;
    same(owner(&file)?, (65_534, 99), "owner after a change of user")?;
    chown(&file, Some(4_000_000_000), Some(4_000_000_001))?;
    same(
        owner(&file)?,
        (4_000_000_000, 4_000_000_001),
        "ids above 2^31",
    )?;
    symlink("file", dir.join("link"))?;
    lchown(dir.join("link"), Some(7), Some(8))?;
    same(owner(&dir.join("link"))?, (7, 8), "owner of a link")?;
    same(
        owner(&file)?,
        (4_000_000_000, 4_000_000_001),
        "owner of the link's target",
    )?;
    fs::create_dir(dir.join("dir"))?;
    chown(dir.join("dir"), Some(11), Some(12))?;
    same(owner(&dir.join("dir"))?, (11, 12), "owner of a directory")?;
    // A new group of an executable clears its set-id bits.
    fs::set_permissions(&file, fs::Permissions::from_mode(0o6755))?;
    chown(&file, Some(500), Some(501))?;
    same(mode(&file)? & 0o6000, 0, "set-id bits after chown")
}

/// A file's times count every write that has returned, though it may still be on its way, and do not
/// change when the file is closed.
pub(super) fn times_of_a_write(dir: &Path) -> Result<()> {
    let path = dir.join("file");
    let mut file = File::create(&path)?;
    let long_ago = Timespec {
        tv_sec: 1_000_000_000,
        tv_nsec: 0,
    };
    let times = Timestamps {
        last_access: long_ago,
        last_modification: long_ago,
    };
    utimensat(CWD, &path, &times, AtFlags::empty()).context("utimensat")?;
    file.write_all(b"something")?;
    let written = file.metadata()?;
    same(
        written.mtime() == long_ago.tv_sec,
        false,
        "mtime of before the write",
    )?;
    drop(file);
    let closed = fs::metadata(&path)?;
    same(closed.mtime(), written.mtime(), "mtime after the close")?;
    let (before, after) = (written.mtime_nsec(), closed.mtime_nsec());
    same(after, before, "nanoseconds of mtime after the close")
}

pub(super) fn times(dir: &Path) -> Result<()> {
    let file = dir.join("file");
    fs::write(&file, "x")?;
    let at = |sec, nsec| Timespec {
        tv_sec: sec,
        tv_nsec: nsec,
    };
    let set = |path: &Path, atime, mtime, flags| {
        let times = Timestamps {
            last_access: atime,
            last_modification: mtime,
        };
        utimensat(CWD, path, &times, flags).context("utimensat")
    };
    let get = |path: &Path| -> Result<[(i64, i64); 2]> {
        let meta = fs::symlink_metadata(path)?;
        Ok([
            (meta.atime(), meta.atime_nsec()),
            (meta.mtime(), meta.mtime_nsec()),
        ])
    };
    let follow = AtFlags::empty();
    set(
        &file,
        at(1_000_000_000, 123_456_789),
        at(2_000_000_000, 987_654_321),
        follow,
    )?;
    let expected = [(1_000_000_000, 123_456_789), (2_000_000_000, 987_654_321)];
    same(get(&file)?, expected, "times with nanoseconds")?;
    set(&file, at(0, UTIME_OMIT), at(1_500_000_000, 1), follow)?;
    same(
        get(&file)?,
        [expected[0], (1_500_000_000, 1)],
        "times, only mtime set",
    )?;
    set(&file, at(77, 0), at(0, UTIME_OMIT), follow)?;
    same(
        get(&file)?,
        [(77, 0), (1_500_000_000, 1)],
        "times, only atime set",
    )?;
    let now = || std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    set(&file, at(0, UTIME_NOW), at(0, UTIME_NOW), follow)?;
    let set_to = get(&file)?[1].0;
    same(
        (set_to - now()?.as_secs() as i64).abs() < 60,
        true,
        "mtime set to the server's now",
    )?;
    symlink("file", dir.join("link"))?;
    set(
        &dir.join("link"),
        at(5, 6),
        at(7, 8),
        AtFlags::SYMLINK_NOFOLLOW,
    )?;
    same(get(&dir.join("link"))?[1], (7, 8), "mtime of a link")?;
    same(get(&file)?[1].0, set_to, "mtime of the link's target")?;
    // A directory's mtime moves when an entry comes or goes; a file's when it is written.
    set(dir, at(100, 0), at(100, 0), follow)?;
    fs::write(dir.join("new"), "")?;
    same(get(dir)?[1].0 > 100, true, "mtime of the directory moved")?;
    set(&file, at(100, 0), at(100, 0), follow)?;
    let mut append = OpenOptions::new().append(true).open(&file)?;
    append.write_all(b"more")?;
    append.sync_all()?;
    drop(append);
    same(get(&file)?[1].0 > 100, true, "mtime of the file moved")
}

pub(super) fn statfs(dir: &Path) -> Result<()> {
    let fs = rustix::fs::statvfs(dir)?;
    same(
        fs.f_blocks > 0 && fs.f_bfree <= fs.f_blocks,
        true,
        "free blocks of all blocks",
    )?;
    same(
        fs.f_bavail <= fs.f_bfree,
        true,
        "available blocks of the free ones",
    )?;
    same(fs.f_ffree <= fs.f_files, true, "free files of all files")?;
    same(fs.f_namemax, 255, "longest name")?;
    let before = fs.f_frsize * fs.f_bavail;
    let file = dir.join("eight-mib");
    fs::write(&file, vec![1; 8 << 20])?;
    File::open(&file)?.sync_all()?;
    let meta = fs::metadata(&file)?;
    same(
        meta.blocks() * 512 >= 8 << 20,
        true,
        "space used by a file of 8 MiB",
    )?;
    same(before > 8 << 20, true, "there was room for it")
}
