//! Names: creating, renaming, linking, removing.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, symlink};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use nfs_lab::pattern;
use rustix::fs::{AtFlags, CWD, FileType, Mode, makedev, mknodat};
use rustix::io::Errno;

use super::content::new_file;
use crate::guest::check::{fails, forget_pages, holds_pattern, names, same, until};

pub(super) fn exclusive(dir: &Path) -> Result<()> {
    let path = dir.join("once");
    let mut file = new_file(&path)?;
    file.write_all(b"mine")?;
    drop(file);
    let again = OpenOptions::new().write(true).create_new(true).open(&path);
    fails(again, Errno::EXIST, "O_EXCL on an existing file")?;
    same(fs::read(&path)?, b"mine".to_vec(), "content")?;
    fails(fs::create_dir(&path), Errno::EXIST, "mkdir over a file")?;
    // Many at once: exactly one may win.
    let contested = dir.join("contested");
    let contested = &contested;
    let wins = std::thread::scope(|scope| {
        let tries: Vec<_> = (0..8)
            .map(|_| {
                scope.spawn(move || {
                    OpenOptions::new()
                        .write(true)
                        .create_new(true)
                        .open(contested)
                        .is_ok()
                })
            })
            .collect();
        tries
            .into_iter()
            .filter_map(|one| one.join().ok())
            .filter(|won| *won)
            .count()
    });
    same(wins, 1, "winners of O_EXCL")
}

pub(super) fn rename_over(dir: &Path) -> Result<()> {
    let at = |name: &str| dir.join(name);
    fs::write(at("a"), "a's content")?;
    fs::write(at("b"), "b")?;
    fs::rename(at("a"), at("b"))?;
    fails(fs::metadata(at("a")), Errno::NOENT, "the old name")?;
    same(
        fs::read(at("b"))?,
        b"a's content".to_vec(),
        "the new name's content",
    )?;
    fs::rename(at("b"), at("b")).context("rename onto itself")?;

    fs::create_dir(at("full"))?;
    fs::write(at("full/x"), "")?;
    fs::create_dir(at("empty"))?;
    fs::create_dir(at("moved"))?;
    fs::write(at("moved/y"), "y")?;
    // XFS says EEXIST, others ENOTEMPTY; POSIX allows both.
    let refused = fs::rename(at("moved"), at("full"))
        .err()
        .and_then(|e| e.raw_os_error());
    let refused = refused.map(Errno::from_raw_os_error);
    let allowed = [Some(Errno::NOTEMPTY), Some(Errno::EXIST)];
    same(
        allowed.contains(&refused),
        true,
        "directory over a full one is refused",
    )?;
    fails(
        fs::rename(at("b"), at("empty")),
        Errno::ISDIR,
        "file over a directory",
    )?;
    fails(
        fs::rename(at("empty"), at("b")),
        Errno::NOTDIR,
        "directory over a file",
    )?;
    fails(
        fs::rename(at("moved"), at("moved/in")),
        Errno::INVAL,
        "directory into itself",
    )?;
    fs::rename(at("moved"), at("empty")).context("directory over an empty one")?;
    same(
        fs::read(at("empty/y"))?,
        b"y".to_vec(),
        "content of the moved directory",
    )?;
    // Two names of one file: rename does nothing, both stay.
    fs::hard_link(at("b"), at("b2"))?;
    fs::rename(at("b"), at("b2")).context("rename of two links of one file")?;
    same(
        fs::metadata(at("b2"))?.nlink() >= 1,
        true,
        "the file is still there",
    )
}

pub(super) fn rename_between_directories(dir: &Path) -> Result<()> {
    let (one, two) = (dir.join("one"), dir.join("two"));
    fs::create_dir(&one)?;
    fs::create_dir(&two)?;
    fs::create_dir(one.join("sub"))?;
    fs::write(one.join("sub/file"), "in sub")?;
    fs::rename(one.join("sub"), two.join("sub"))?;
    same(names(&one)?.len(), 0, "entries left behind")?;
    let up = fs::metadata(two.join("sub/.."))?.ino();
    same(up, fs::metadata(&two)?.ino(), "`..` of the moved directory")?;
    same(
        fs::metadata(&one)?.nlink(),
        2,
        "links of the emptied directory",
    )?;
    same(
        fs::metadata(&two)?.nlink(),
        3,
        "links of the other directory",
    )?;
    for i in 0..50 {
        fs::write(one.join(format!("f{i}")), format!("{i}"))?;
        fs::rename(one.join(format!("f{i}")), two.join(format!("g{i}")))?;
    }
    same(names(&one)?.len(), 0, "entries left behind")?;
    same(fs::read(two.join("g49"))?, b"49".to_vec(), "content")
}

pub(super) fn unlink_open_file(dir: &Path) -> Result<()> {
    let path = dir.join("open");
    let file = new_file(&path)?;
    file.write_all_at(&pattern::bytes(40, 0, 20_000), 0)?;
    fs::remove_file(&path)?;
    fails(fs::metadata(&path), Errno::NOENT, "the removed name")?;
    // The client keeps an open file under a name of its own (.nfs...); it still reads and writes.
    forget_pages(&file)?;
    holds_pattern(&file, 40, 0, 20_000)?;
    file.write_all_at(&pattern::bytes(40, 20_000, 5000), 20_000)?;
    forget_pages(&file)?;
    holds_pattern(&file, 40, 15_000, 10_000)?;
    same(file.metadata()?.len(), 25_000, "size")?;
    // The name is free again.
    fs::write(&path, "a new file")?;
    drop(file);
    hidden_name_goes(dir, b"open")
}

/// Once a file is closed, the name that the client gave it goes. FUSE tells a mount of the last close when
/// close(2) has returned, so that may be a little later.
fn hidden_name_goes(dir: &Path, stays: &[u8]) -> Result<()> {
    until("the end of .nfs... names", || Ok(names(dir)? == [stays]))
}

pub(super) fn rename_open_file(dir: &Path) -> Result<()> {
    let (a, b) = (dir.join("a"), dir.join("b"));
    let file_a = new_file(&a)?;
    file_a.write_all_at(&pattern::bytes(41, 0, 9000), 0)?;
    let file_b = new_file(&b)?;
    file_b.write_all_at(&pattern::bytes(42, 0, 9000), 0)?;
    fs::rename(&a, &b)?;
    file_a.write_all_at(&pattern::bytes(41, 9000, 9000), 9000)?;
    forget_pages(&file_a)?;
    forget_pages(&file_b)?;
    holds_pattern(&file_a, 41, 0, 18_000)?;
    // The one renamed over is gone by name, but still open here.
    holds_pattern(&file_b, 42, 0, 9000)?;
    drop((file_a, file_b));
    same(fs::metadata(&b)?.len(), 18_000, "size under the new name")?;
    hidden_name_goes(dir, b"b")
}

pub(super) fn hard_links(dir: &Path) -> Result<()> {
    let (a, b, c) = (dir.join("a"), dir.join("b"), dir.join("c"));
    fs::write(&a, "shared")?;
    fs::hard_link(&a, &b)?;
    fs::create_dir(dir.join("d"))?;
    fs::hard_link(&b, dir.join("d/e"))?;
    let (meta_a, meta_e) = (fs::metadata(&a)?, fs::metadata(dir.join("d/e"))?);
    same(meta_a.ino(), meta_e.ino(), "file ids of two links")?;
    same(meta_a.nlink(), 3, "link count")?;
    fs::write(&b, "changed")?;
    same(
        fs::read(&a)?,
        b"changed".to_vec(),
        "content by the other name",
    )?;
    fs::remove_file(&a)?;
    same(fs::metadata(&b)?.nlink(), 2, "link count after one is gone")?;
    fails(
        fs::hard_link(&b, dir.join("d/e")),
        Errno::EXIST,
        "link over a name",
    )?;
    fails(
        fs::hard_link(&a, &c),
        Errno::NOENT,
        "link of a missing file",
    )?;
    fails(
        fs::hard_link(dir.join("d"), &c),
        Errno::PERM,
        "link of a directory",
    )?;
    // A link to a symbolic link, not to what it points at.
    symlink("b", dir.join("s"))?;
    rustix::fs::linkat(CWD, dir.join("s"), CWD, dir.join("s2"), AtFlags::empty())?;
    same(
        fs::read_link(dir.join("s2"))?,
        PathBuf::from("b"),
        "target of the linked link",
    )
}

pub(super) fn symbolic_links(dir: &Path) -> Result<()> {
    let long = "x/".repeat(500);
    for (name, target) in [
        ("file", "target"),
        ("nowhere", "/does/not/exist"),
        ("long", long.as_str()),
        ("up", ".."),
    ] {
        symlink(target, dir.join(name)).with_context(|| format!("symlink {name}"))?;
        same(
            fs::read_link(dir.join(name))?,
            PathBuf::from(target),
            "target",
        )?;
        let meta = fs::symlink_metadata(dir.join(name))?;
        same(meta.len(), target.len() as u64, "size of a link")?;
        same(meta.is_symlink(), true, "type")?;
    }
    fs::write(dir.join("target"), "through the link")?;
    same(
        fs::read(dir.join("file"))?,
        b"through the link".to_vec(),
        "content",
    )?;
    fs::write(dir.join("file"), "written through")?;
    same(
        fs::read(dir.join("target"))?,
        b"written through".to_vec(),
        "content",
    )?;
    fails(
        fs::metadata(dir.join("nowhere")),
        Errno::NOENT,
        "a dangling link",
    )?;
    fails(
        symlink("y", dir.join("file")),
        Errno::EXIST,
        "symlink over a name",
    )?;
    symlink("loop", dir.join("loop"))?;
    fails(
        fs::metadata(dir.join("loop")),
        Errno::LOOP,
        "a link to itself",
    )?;
    let odd = OsStr::from_bytes(b"\xff\xfe \n\\");
    symlink(odd, dir.join("odd"))?;
    same(
        fs::read_link(dir.join("odd"))?,
        PathBuf::from(odd),
        "a target that is not UTF-8",
    )?;
    fs::remove_file(dir.join("up"))?;
    same(dir.is_dir(), true, "removing a link leaves its target")
}

pub(super) fn odd_names(dir: &Path) -> Result<()> {
    let longest = [b'n'; 255];
    let all: &[&[u8]] = &[
        &longest,
        b"with space",
        b"new\nline",
        b"back\\slash",
        b"-rf",
        b"...",
        b" ",
        b"\xff\xfe\x80not utf-8",
        "\u{1f30a} h\u{e9}l\u{e9}".as_bytes(),
        b"*?[a]",
        b"\x01\x7f",
        b"CaSe",
        b"case",
    ];
    for name in all {
        let path = dir.join(OsStr::from_bytes(name));
        fs::write(&path, name).with_context(|| format!("create {:?}", name.escape_ascii()))?;
        same(fs::read(&path)?, name.to_vec(), "content")?;
    }
    let mut expected: Vec<Vec<u8>> = all.iter().map(|name| name.to_vec()).collect();
    expected.sort();
    same(names(dir)?, expected, "names listed")?;
    let too_long = dir.join(OsStr::from_bytes(&[b'n'; 256]));
    fails(
        File::create(too_long),
        Errno::NAMETOOLONG,
        "a name of 256 bytes",
    )?;
    let sub = dir.join(OsStr::from_bytes(&[0xe9; 255]));
    fs::create_dir(&sub)?;
    fs::write(sub.join("inside"), "in")?;
    let renamed = dir.join(OsStr::from_bytes(&[0xe8; 255]));
    fs::rename(&sub, &renamed)?;
    same(fs::read(renamed.join("inside"))?, b"in".to_vec(), "content")
}

pub(super) fn errors(dir: &Path) -> Result<()> {
    let at = |name: &str| dir.join(name);
    fs::write(at("file"), "x")?;
    fs::create_dir(at("dir"))?;
    fails(
        File::open(at("missing")),
        Errno::NOENT,
        "open a missing file",
    )?;
    fails(
        File::open(at("missing/x")),
        Errno::NOENT,
        "open below a missing directory",
    )?;
    fails(File::open(at("file/x")), Errno::NOTDIR, "open below a file")?;
    fails(
        OpenOptions::new().write(true).open(at("dir")),
        Errno::ISDIR,
        "write a directory",
    )?;
    fails(
        fs::remove_file(at("missing")),
        Errno::NOENT,
        "unlink a missing file",
    )?;
    fails(
        fs::remove_file(at("dir")),
        Errno::ISDIR,
        "unlink a directory",
    )?;
    fails(fs::remove_dir(at("file")), Errno::NOTDIR, "rmdir a file")?;
    fails(
        fs::rename(at("missing"), at("y")),
        Errno::NOENT,
        "rename a missing file",
    )?;
    fails(fs::create_dir(at("dir")), Errno::EXIST, "mkdir twice")?;
    fails(
        fs::read_link(at("file")),
        Errno::INVAL,
        "readlink of a file",
    )?;
    fails(fs::read_dir(at("file")), Errno::NOTDIR, "list a file")
}

pub(super) fn special_files(dir: &Path) -> Result<()> {
    let make = |name: &str, kind, device| {
        mknodat(
            CWD,
            dir.join(name),
            kind,
            Mode::from_raw_mode(0o640),
            device,
        )
        .with_context(|| format!("mknod {name}"))
    };
    make("fifo", FileType::Fifo, 0)?;
    make("socket", FileType::Socket, 0)?;
    make("char", FileType::CharacterDevice, makedev(1, 3))?;
    make("block", FileType::BlockDevice, makedev(259, 70_000))?;
    make("plain", FileType::RegularFile, 0)?;
    let meta = |name: &str| fs::symlink_metadata(dir.join(name));
    same(meta("fifo")?.file_type().is_fifo(), true, "a fifo")?;
    same(meta("socket")?.file_type().is_socket(), true, "a socket")?;
    same(
        meta("char")?.rdev(),
        makedev(1, 3),
        "device of a character device",
    )?;
    same(
        meta("block")?.rdev(),
        makedev(259, 70_000),
        "device of a block device",
    )?;
    same(meta("plain")?.is_file(), true, "a plain file")?;
    same(meta("fifo")?.mode() & 0o7777, 0o640, "mode")?;
    // A fifo works between two processes of one client.
    let path = dir.join("fifo");
    let writer = std::thread::spawn(move || -> Result<()> {
        OpenOptions::new()
            .write(true)
            .open(path)?
            .write_all(b"through the fifo")?;
        Ok(())
    });
    let mut text = String::new();
    File::open(dir.join("fifo"))?.read_to_string(&mut text)?;
    writer
        .join()
        .unwrap_or_else(|_| Err(anyhow::anyhow!("the writer panicked")))?;
    same(text.as_str(), "through the fifo", "text through the fifo")
}
