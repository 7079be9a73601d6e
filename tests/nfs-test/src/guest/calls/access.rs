//! Who may do what: calls of other users, judged by the server.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use rustix::io::Errno;

use crate::guest::check::same;

/// A user: the uid, the gid and the supplementary groups, separated by commas.
struct User(u32, u32, &'static str);

const ALICE: User = User(1001, 1001, "1001");
const BOB: User = User(1002, 1002, "1002,3000");
const ROOT: User = User(0, 0, "0");

/// Does `operation` on `path` as `user`, in a process of its own; `ok` or the error's name.
fn as_user(user: &User, operation: &str, path: &Path) -> Result<String> {
    let output = Command::new("setpriv")
        .arg(format!("--reuid={}", user.0))
        .arg(format!("--regid={}", user.1))
        .arg(format!("--groups={}", user.2))
        .arg(std::env::current_exe()?)
        .args(["guest", "attempt", operation])
        .arg(path)
        .output()
        .context("start setpriv")?;
    ensure!(
        output.status.success(),
        "{operation} as {}: {}",
        user.0,
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Makes one call, by whatever user this process is. Prints `ok` or the error's name.
pub(crate) fn attempt(operation: &str, path: &Path) {
    let outcome = attempted(operation, path).map_err(|error| {
        let errno = error
            .downcast_ref::<std::io::Error>()
            .and_then(std::io::Error::raw_os_error);
        match errno.map(Errno::from_raw_os_error) {
            Some(Errno::ACCESS) => "ACCESS".to_owned(),
            Some(Errno::PERM) => "PERM".to_owned(),
            _ => format!("{error:#}"),
        }
    });
    match outcome {
        Ok(()) => println!("ok"),
        Err(text) => println!("{text}"),
    }
}

fn attempted(operation: &str, path: &Path) -> Result<()> {
    match operation {
        "read" => {
            let mut text = Vec::new();
            File::open(path)?.read_to_end(&mut text)?;
        }
        "write" => {
            let mut file = OpenOptions::new().write(true).open(path)?;
            file.write_all(b"w")?;
            file.sync_all()?;
        }
        "create" => drop(File::create_new(path)?),
        "mkdir" => fs::create_dir(path)?,
        "list" => drop(fs::read_dir(path)?.collect::<std::io::Result<Vec<_>>>()?),
        "stat" => fs::metadata(path).map(|_| ())?,
        "remove" => fs::remove_file(path)?,
        "chmod" => fs::set_permissions(path, fs::Permissions::from_mode(0o666))?,
        "give-away" => chown(path, Some(1002), None)?,
        "truncate" => OpenOptions::new().write(true).open(path)?.set_len(0)?,
        "use-after-chmod" => use_after_chmod(path)?,
        other => bail!("no such operation: {other}"),
    }
    Ok(())
}

/// An owner who opened a file goes on reading and writing it after taking the right away from
/// everybody: what POSIX promises for an open file, and what servers grant to the owner.
fn use_after_chmod(path: &Path) -> Result<()> {
    let mut file = OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .open(path)?;
    file.write_all(b"before")?;
    file.sync_all()?;
    file.set_permissions(fs::Permissions::from_mode(0o000))?;
    file.write_all(b", after")?;
    file.sync_all()?;
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed)
        .map_err(std::io::Error::from)?;
    file.seek(SeekFrom::Start(0))?;
    let mut text = String::new();
    file.read_to_string(&mut text)?;
    ensure!(text == "before, after", "read {text:?}");
    Ok(())
}

fn make(path: PathBuf, owner: &User, mode: u32) -> Result<PathBuf> {
    fs::write(&path, "content")?;
    chown(&path, Some(owner.0), Some(owner.1))?;
    fs::set_permissions(&path, fs::Permissions::from_mode(mode))?;
    Ok(path)
}

pub(super) fn permissions(dir: &Path) -> Result<()> {
    let expect = |user: &User, operation: &str, path: &Path, expected: &str| {
        let what = format!("{operation} {} as {}", path.display(), user.0);
        same(as_user(user, operation, path)?.as_str(), expected, &what)
    };
    let private = make(dir.join("private"), &ALICE, 0o600)?;
    expect(&ALICE, "read", &private, "ok")?;
    expect(&ALICE, "write", &private, "ok")?;
    expect(&BOB, "read", &private, "ACCESS")?;
    expect(&BOB, "write", &private, "ACCESS")?;
    expect(&BOB, "truncate", &private, "ACCESS")?;
    expect(&BOB, "chmod", &private, "PERM")?;
    expect(&ALICE, "give-away", &private, "PERM")?;
    expect(&ROOT, "read", &private, "ok")?;
    let own_not_readable = make(dir.join("own-not-readable"), &ALICE, 0o066)?;
    expect(&ALICE, "read", &own_not_readable, "ACCESS")?;
    expect(&BOB, "read", &own_not_readable, "ok")?;
    let group = make(dir.join("group"), &User(1001, 3000, ""), 0o640)?;
    expect(&BOB, "read", &group, "ok").context("by a supplementary group")?;
    expect(&BOB, "write", &group, "ACCESS")?;
    expect(&User(1003, 1003, "1003"), "read", &group, "ACCESS")?;
    let closed = dir.join("closed");
    fs::create_dir(&closed)?;
    make(closed.join("inside"), &ALICE, 0o666)?;
    chown(&closed, Some(1001), Some(1001))?;
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o711))?;
    expect(&BOB, "read", &closed.join("inside"), "ok").context("x but not r")?;
    expect(&BOB, "list", &closed, "ACCESS")?;
    expect(&BOB, "create", &closed.join("new"), "ACCESS")?;
    expect(&BOB, "remove", &closed.join("inside"), "ACCESS")?;
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o744))?;
    expect(&BOB, "stat", &closed.join("inside"), "ACCESS").context("r but not x")?;
    expect(&ALICE, "stat", &closed.join("inside"), "ok")
}

pub(super) fn open_then_chmod(dir: &Path) -> Result<()> {
    fs::set_permissions(dir, fs::Permissions::from_mode(0o777))?;
    let path = dir.join("file");
    same(
        as_user(&ALICE, "use-after-chmod", &path)?.as_str(),
        "ok",
        "as its owner",
    )?;
    same(
        as_user(&ALICE, "read", &path)?.as_str(),
        "ACCESS",
        "opened anew",
    )
}

pub(super) fn new_files_belong_to_their_maker(dir: &Path) -> Result<()> {
    fs::set_permissions(dir, fs::Permissions::from_mode(0o777))?;
    let owner = |name: &str| -> Result<(u32, u32)> {
        let meta = fs::metadata(dir.join(name))?;
        Ok((meta.uid(), meta.gid()))
    };
    same(
        as_user(&ALICE, "create", &dir.join("file"))?.as_str(),
        "ok",
        "create",
    )?;
    same(owner("file")?, (1001, 1001), "owner of a new file")?;
    same(
        as_user(&BOB, "mkdir", &dir.join("dir"))?.as_str(),
        "ok",
        "mkdir",
    )?;
    same(owner("dir")?, (1002, 1002), "owner of a new directory")?;
    // Below a set-gid directory the group is the directory's.
    let shared = dir.join("shared");
    fs::create_dir(&shared)?;
    chown(&shared, Some(0), Some(3000))?;
    fs::set_permissions(&shared, fs::Permissions::from_mode(0o2777))?;
    same(
        as_user(&ALICE, "create", &shared.join("file"))?.as_str(),
        "ok",
        "create",
    )?;
    same(
        owner("shared/file")?,
        (1001, 3000),
        "owner below a set-gid directory",
    )?;
    same(
        as_user(&BOB, "mkdir", &shared.join("dir"))?.as_str(),
        "ok",
        "mkdir",
    )?;
    same(
        owner("shared/dir")?,
        (1002, 3000),
        "owner below a set-gid directory",
    )?;
    let mode = fs::metadata(shared.join("dir"))?.mode() & 0o2000;
    same(
        mode,
        0o2000,
        "set-gid of a directory below a set-gid directory",
    )
}

pub(super) fn sticky_directory(dir: &Path) -> Result<()> {
    fs::set_permissions(dir, fs::Permissions::from_mode(0o1777))?;
    let path = dir.join("alices");
    same(as_user(&ALICE, "create", &path)?.as_str(), "ok", "create")?;
    let refused = as_user(&BOB, "remove", &path)?;
    ensure!(
        refused == "PERM" || refused == "ACCESS",
        "remove another's file: {refused}"
    );
    same(
        as_user(&ALICE, "remove", &path)?.as_str(),
        "ok",
        "remove one's own file",
    )
}
