//! Extended attributes of the user's namespace, as programs set and read them.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use rustix::fs::{XattrFlags, getxattr, listxattr, removexattr, setxattr};
use rustix::io::Errno;

use super::Report;

/// The attribute that is left for the host to look at, and its value.
pub(crate) const KEPT: (&str, &[u8]) = ("user.kept", b"a value\0with a zero");
/// The file that has it.
pub(crate) const FILE: &str = "attributed";

/// Most bytes of a value or list here.
const BYTES_MAX: usize = 64 << 10;

/// One verdict, `xattrs`.
///
/// # Errors
/// When the result file cannot be written.
pub(super) fn run(dir: &Path, report: &mut Report) -> Result<()> {
    report.verdict("xattrs", &check(dir))
}

fn check(dir: &Path) -> Result<()> {
    let file = dir.join(FILE);
    fs::write(&file, "text")?;
    let (name, value) = KEPT;
    let none = get(&file, name);
    ensure!(none == Err(Errno::NODATA), "before it is set: {none:?}");
    setxattr(&file, name, value, XattrFlags::CREATE).context("set")?;
    let again = setxattr(&file, name, value, XattrFlags::CREATE);
    ensure!(again == Err(Errno::EXIST), "made twice: {again:?}");
    ensure!(get(&file, name).as_deref() == Ok(value), "another value");
    let long = vec![7; 30_000];
    setxattr(&file, "user.long", &long, XattrFlags::empty()).context("set a long one")?;
    ensure!(get(&file, "user.long") == Ok(long), "another long value");
    let missing = setxattr(&file, "user.none", b"", XattrFlags::REPLACE);
    ensure!(missing == Err(Errno::NODATA), "replaced: {missing:?}");
    for number in 0..200 {
        let name = format!("user.one-of-many-{number:03}");
        setxattr(dir, &*name, b"x", XattrFlags::empty()).context("set one of many")?;
    }
    ensure!(list(dir)?.len() == 200, "{:?}", list(dir)?);
    removexattr(&file, "user.long").context("remove")?;
    let gone = removexattr(&file, "user.long");
    ensure!(gone == Err(Errno::NODATA), "removed twice: {gone:?}");
    let left = list(&file)?;
    ensure!(left == [name.as_bytes()], "left: {left:?}");
    Ok(())
}

fn get(path: &Path, name: &str) -> rustix::io::Result<Vec<u8>> {
    let mut value = vec![0; BYTES_MAX];
    let len = getxattr(path, name, &mut value[..])?;
    value.truncate(len);
    Ok(value)
}

/// The names of the user's namespace.
fn list(path: &Path) -> Result<Vec<Vec<u8>>> {
    let mut list = vec![0; BYTES_MAX];
    let len = listxattr(path, &mut list[..]).context("list")?;
    list.truncate(len);
    let names = list.split(|byte| *byte == 0);
    let own = names.filter(|name| name.starts_with(b"user."));
    Ok(own.map(<[u8]>::to_vec).collect())
}

/// What the host finds of it on its own disk.
///
/// # Errors
/// When it is not what the guest set.
pub(crate) fn on_disk(dir: &Path) -> Result<()> {
    let (name, value) = KEPT;
    let found = get(&dir.join(FILE), name).context("on the server's disk")?;
    ensure!(found == value, "on the server's disk: {found:?}");
    Ok(())
}
