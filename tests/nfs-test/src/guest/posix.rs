//! What calls on names and attributes have to answer, as a table in the manner of pjdfstest: for root, and for a
//! user who is not allowed everything.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;

use anyhow::{Result, ensure};
use rustix::fs::{
    AtFlags, CWD, Mode, OFlags, RawMode, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT,
};
use rustix::io::Errno;
use rustix::process::{Gid, Uid};

use super::Report;

type Call = fn(&Path) -> rustix::io::Result<()>;

/// One row of the table: its name, the call below the suite's directory, and what the call answers.
struct Row(&'static str, Call, Result<(), Errno>);

const fn yes(name: &'static str, call: Call) -> Row {
    Row(name, call, Ok(()))
}

const fn no(name: &'static str, call: Call, errno: Errno) -> Row {
    Row(name, call, Err(errno))
}

fn open(path: &Path, flags: OFlags) -> rustix::io::Result<()> {
    rustix::fs::open(path, flags, Mode::from_raw_mode(0o644)).map(drop)
}

fn mkdir(path: &Path) -> rustix::io::Result<()> {
    rustix::fs::mkdir(path, Mode::from_raw_mode(0o755))
}

fn chmod(path: &Path, mode: RawMode) -> rustix::io::Result<()> {
    rustix::fs::chmod(path, Mode::from_raw_mode(mode))
}

fn chown(path: &Path, uid: Option<u32>, gid: Option<u32>) -> rustix::io::Result<()> {
    rustix::fs::chown(path, uid.map(Uid::from_raw), gid.map(Gid::from_raw))
}

fn truncate(path: &Path, size: u64) -> rustix::io::Result<()> {
    let file = rustix::fs::open(path, OFlags::WRONLY, Mode::empty())?;
    rustix::fs::ftruncate(file, size)
}

fn utimens(path: &Path, nsec: i64) -> rustix::io::Result<()> {
    let time = Timespec {
        tv_sec: 1_234_567_890,
        tv_nsec: nsec,
    };
    let times = Timestamps {
        last_access: time,
        last_modification: time,
    };
    rustix::fs::utimensat(CWD, path, &times, AtFlags::empty())
}

/// A name of `len` letters.
fn long(len: usize) -> String {
    "n".repeat(len)
}

/// The rows that root runs, in this order: later rows use what earlier ones made.
const ROOT: &[Row] = &[
    yes("open creates", |d| {
        open(&d.join("f"), OFlags::CREATE | OFlags::WRONLY)
    }),
    no(
        "open O_EXCL twice",
        |d| open(&d.join("f"), OFlags::CREATE | OFlags::EXCL),
        Errno::EXIST,
    ),
    no(
        "open missing",
        |d| open(&d.join("m"), OFlags::RDONLY),
        Errno::NOENT,
    ),
    no(
        "open below a file",
        |d| open(&d.join("f/x"), OFlags::RDONLY),
        Errno::NOTDIR,
    ),
    no(
        "open O_DIRECTORY a file",
        |d| open(&d.join("f"), OFlags::DIRECTORY),
        Errno::NOTDIR,
    ),
    yes("mkdir", |d| mkdir(&d.join("d"))),
    no("mkdir twice", |d| mkdir(&d.join("d")), Errno::EXIST),
    no("mkdir over a file", |d| mkdir(&d.join("f")), Errno::EXIST),
    no(
        "mkdir below a file",
        |d| mkdir(&d.join("f/x")),
        Errno::NOTDIR,
    ),
    no(
        "mkdir below nothing",
        |d| mkdir(&d.join("m/x")),
        Errno::NOENT,
    ),
    no(
        "open a directory to write",
        |d| open(&d.join("d"), OFlags::WRONLY),
        Errno::ISDIR,
    ),
    no(
        "open O_CREAT a directory",
        |d| open(&d.join("d"), OFlags::CREATE | OFlags::RDWR),
        Errno::ISDIR,
    ),
    yes("name of 255", |d| {
        open(&d.join(long(255)), OFlags::CREATE | OFlags::WRONLY)
    }),
    no(
        "name of 256",
        |d| open(&d.join(long(256)), OFlags::CREATE | OFlags::WRONLY),
        Errno::NAMETOOLONG,
    ),
    no(
        "mkdir name of 256",
        |d| mkdir(&d.join(long(256))),
        Errno::NAMETOOLONG,
    ),
    yes("unlink name of 255", |d| {
        rustix::fs::unlink(d.join(long(255)))
    }),
    yes("symlink", |d| rustix::fs::symlink("f", d.join("s"))),
    no(
        "symlink twice",
        |d| rustix::fs::symlink("f", d.join("s")),
        Errno::EXIST,
    ),
    yes("open through it", |d| open(&d.join("s"), OFlags::RDONLY)),
    no(
        "open O_NOFOLLOW",
        |d| open(&d.join("s"), OFlags::NOFOLLOW),
        Errno::LOOP,
    ),
    yes("symlink to itself", |d| {
        rustix::fs::symlink("loop", d.join("loop"))
    }),
    no(
        "open a loop",
        |d| open(&d.join("loop"), OFlags::RDONLY),
        Errno::LOOP,
    ),
    no(
        "readlink of a file",
        |d| rustix::fs::readlink(d.join("f"), []).map(drop),
        Errno::INVAL,
    ),
    yes("link", |d| rustix::fs::link(d.join("f"), d.join("l"))),
    no(
        "link onto a name",
        |d| rustix::fs::link(d.join("f"), d.join("d")),
        Errno::EXIST,
    ),
    no(
        "link of nothing",
        |d| rustix::fs::link(d.join("m"), d.join("x")),
        Errno::NOENT,
    ),
    no(
        "link of a directory",
        |d| rustix::fs::link(d.join("d"), d.join("x")),
        Errno::PERM,
    ),
    yes("rename", |d| rustix::fs::rename(d.join("l"), d.join("l2"))),
    yes("rename to another name of it", |d| {
        rustix::fs::rename(d.join("l2"), d.join("f"))
    }),
    yes("both names stay", |d| open(&d.join("l2"), OFlags::RDONLY)),
    no(
        "rename nothing",
        |d| rustix::fs::rename(d.join("m"), d.join("x")),
        Errno::NOENT,
    ),
    no(
        "rename a file over a directory",
        |d| rustix::fs::rename(d.join("f"), d.join("d")),
        Errno::ISDIR,
    ),
    no(
        "rename a directory over a file",
        |d| rustix::fs::rename(d.join("d"), d.join("f")),
        Errno::NOTDIR,
    ),
    no(
        "rename into itself",
        |d| rustix::fs::rename(d.join("d"), d.join("d/x")),
        Errno::INVAL,
    ),
    yes("mkdir inside", |d| mkdir(&d.join("d/in"))),
    yes("mkdir another", |d| mkdir(&d.join("e"))),
    no(
        "rename over a full directory",
        |d| rustix::fs::rename(d.join("e"), d.join("d")),
        Errno::NOTEMPTY,
    ),
    no(
        "rmdir a full directory",
        |d| rustix::fs::rmdir(d.join("d")),
        Errno::NOTEMPTY,
    ),
    no(
        "rmdir a file",
        |d| rustix::fs::rmdir(d.join("f")),
        Errno::NOTDIR,
    ),
    no(
        "rmdir nothing",
        |d| rustix::fs::rmdir(d.join("m")),
        Errno::NOENT,
    ),
    no(
        "rmdir .",
        |d| rustix::fs::rmdir(d.join("d/.")),
        Errno::INVAL,
    ),
    no(
        "unlink a directory",
        |d| rustix::fs::unlink(d.join("d")),
        Errno::ISDIR,
    ),
    no(
        "unlink nothing",
        |d| rustix::fs::unlink(d.join("m")),
        Errno::NOENT,
    ),
    no(
        "unlink below a file",
        |d| rustix::fs::unlink(d.join("f/x")),
        Errno::NOTDIR,
    ),
    yes("rmdir", |d| rustix::fs::rmdir(d.join("d/in"))),
    yes("rename over an empty directory", |d| {
        rustix::fs::rename(d.join("e"), d.join("d"))
    }),
    yes("unlink", |d| rustix::fs::unlink(d.join("l2"))),
    yes("chmod", |d| chmod(&d.join("f"), 0o600)),
    no(
        "chmod nothing",
        |d| chmod(&d.join("m"), 0o600),
        Errno::NOENT,
    ),
    no(
        "chmod below a file",
        |d| chmod(&d.join("f/x"), 0o600),
        Errno::NOTDIR,
    ),
    yes("chown", |d| chown(&d.join("f"), Some(1001), Some(1001))),
    no(
        "chown nothing",
        |d| chown(&d.join("m"), Some(1), None),
        Errno::NOENT,
    ),
    yes("truncate", |d| truncate(&d.join("f"), 12_345)),
    no(
        "truncate nothing",
        |d| truncate(&d.join("m"), 1),
        Errno::NOENT,
    ),
    no(
        "truncate a directory",
        |d| truncate(&d.join("d"), 1),
        Errno::ISDIR,
    ),
    yes("utimens", |d| utimens(&d.join("f"), 987_654_321)),
    yes("utimens now", |d| utimens(&d.join("d"), UTIME_NOW)),
    yes("utimens omit", |d| utimens(&d.join("f"), UTIME_OMIT)),
    no(
        "utimens nothing",
        |d| utimens(&d.join("m"), 0),
        Errno::NOENT,
    ),
    no(
        "utimens of too many nanoseconds",
        |d| utimens(&d.join("f"), 2_000_000_000),
        Errno::INVAL,
    ),
    yes("mkdir for others", |d| {
        mkdir(&d.join("private")).and_then(|()| chmod(&d.join("private"), 0o700))
    }),
    yes("mkdir sticky", |d| {
        mkdir(&d.join("sticky")).and_then(|()| chmod(&d.join("sticky"), 0o1777))
    }),
    yes("mkdir open", |d| {
        mkdir(&d.join("open")).and_then(|()| chmod(&d.join("open"), 0o777))
    }),
    yes("file in sticky", |d| {
        open(&d.join("sticky/root"), OFlags::CREATE | OFlags::WRONLY)
    }),
    yes("file of root", |d| {
        open(&d.join("root"), OFlags::CREATE | OFlags::WRONLY)
    }),
    yes("secret of root", |d| {
        open(&d.join("secret"), OFlags::CREATE | OFlags::WRONLY)?;
        chmod(&d.join("secret"), 0o600)
    }),
];

/// The rows that another user runs afterwards, in what root has left.
const OTHER: &[Row] = &[
    yes("open to read", |d| open(&d.join("root"), OFlags::RDONLY)),
    no(
        "open to write",
        |d| open(&d.join("root"), OFlags::WRONLY),
        Errno::ACCESS,
    ),
    no(
        "open a secret",
        |d| open(&d.join("secret"), OFlags::RDONLY),
        Errno::ACCESS,
    ),
    no(
        "create where one may not",
        |d| open(&d.join("x"), OFlags::CREATE | OFlags::WRONLY),
        Errno::ACCESS,
    ),
    no(
        "mkdir where one may not",
        |d| mkdir(&d.join("x")),
        Errno::ACCESS,
    ),
    no(
        "symlink where one may not",
        |d| rustix::fs::symlink("x", d.join("x")),
        Errno::ACCESS,
    ),
    no(
        "unlink where one may not",
        |d| rustix::fs::unlink(d.join("root")),
        Errno::ACCESS,
    ),
    no(
        "rmdir where one may not",
        |d| rustix::fs::rmdir(d.join("d")),
        Errno::ACCESS,
    ),
    no(
        "rename where one may not",
        |d| rustix::fs::rename(d.join("root"), d.join("r")),
        Errno::ACCESS,
    ),
    no(
        "look into a private directory",
        |d| open(&d.join("private/x"), OFlags::RDONLY),
        Errno::ACCESS,
    ),
    no(
        "list a private directory",
        |d| open(&d.join("private"), OFlags::DIRECTORY),
        Errno::ACCESS,
    ),
    no(
        "chmod another's",
        |d| chmod(&d.join("root"), 0o666),
        Errno::PERM,
    ),
    no(
        "chown another's",
        |d| chown(&d.join("root"), Some(1001), None),
        Errno::PERM,
    ),
    no(
        "utimens another's",
        |d| utimens(&d.join("root"), 5),
        Errno::PERM,
    ),
    no(
        "truncate another's",
        |d| truncate(&d.join("root"), 5),
        Errno::ACCESS,
    ),
    yes("create", |d| {
        open(&d.join("open/mine"), OFlags::CREATE | OFlags::WRONLY)
    }),
    yes("chmod one's own", |d| chmod(&d.join("open/mine"), 0o640)),
    yes("utimens one's own", |d| utimens(&d.join("open/mine"), 5)),
    no(
        "give it away",
        |d| chown(&d.join("open/mine"), Some(1002), None),
        Errno::PERM,
    ),
    yes("truncate one's own", |d| truncate(&d.join("open/mine"), 77)),
    yes("link one's own", |d| {
        rustix::fs::link(d.join("open/mine"), d.join("open/too"))
    }),
    yes("create in sticky", |d| {
        open(&d.join("sticky/mine"), OFlags::CREATE | OFlags::WRONLY)
    }),
    no(
        "unlink another's in sticky",
        |d| rustix::fs::unlink(d.join("sticky/root")),
        Errno::PERM,
    ),
    no(
        "rename another's in sticky",
        |d| rustix::fs::rename(d.join("sticky/root"), d.join("sticky/r")),
        Errno::PERM,
    ),
    yes("unlink one's own in sticky", |d| {
        rustix::fs::unlink(d.join("sticky/mine"))
    }),
    yes("unlink in open", |d| rustix::fs::unlink(d.join("open/too"))),
];

/// Number of verdicts that the suite gives: one for each row, and one more as either user.
pub(crate) const ROWS: usize = ROOT.len() + OTHER.len() + 2;

/// Runs the rows of whoever this process is, in `dir`.
pub(super) fn run(dir: &Path, name: &str, report: &mut Report) -> Result<()> {
    let root = rustix::process::geteuid().is_root();
    let (rows, who) = if root {
        (ROOT, "root")
    } else {
        (OTHER, "other")
    };
    if root {
        fs::create_dir(dir)?;
        fs::set_permissions(dir, fs::Permissions::from_mode(0o755))?;
    }
    for Row(what, call, expected) in rows {
        let found = call(dir);
        let outcome = if found == *expected {
            Ok(())
        } else {
            Err(anyhow::anyhow!("{found:?}, should be {expected:?}"))
        };
        report.verdict(&format!("{name}/{who}/{what}"), &outcome)?;
    }
    let end = if root {
        after_root(dir)
    } else {
        after_other(dir)
    };
    report.verdict(&format!("{name}/{who}/what is left"), &end)
}

fn after_root(dir: &Path) -> Result<()> {
    let file = dir.join("f").metadata()?;
    let right = file.mode() & 0o7777 == 0o600
        && (file.uid(), file.gid(), file.len()) == (1001, 1001, 12_345)
        && (file.mtime(), file.mtime_nsec()) == (1_234_567_890, 987_654_321)
        && file.nlink() == 1;
    ensure!(right, "{file:?}");
    Ok(())
}

fn after_other(dir: &Path) -> Result<()> {
    let file = dir.join("open/mine").metadata()?;
    let right = file.mode() & 0o7777 == 0o640
        && (file.uid(), file.gid(), file.len(), file.nlink()) == (1001, 1001, 77, 1);
    ensure!(right, "{file:?}");
    Ok(())
}
