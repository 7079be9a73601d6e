//! Two mounts of one export, each with caches of its own (`nosharecache`), see each other's
//! changes: at once without caching (`noac`), from open to close with it. So do a mount and a program of the
//! server's host.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::Path;

use anyhow::{Context, Result};
use nfs_lab::pattern;
use rustix::io::Errno;

use super::Report;
use super::check::{fails, names, same, until};

/// A test: gets the same directory by two mounts.
type Test = fn([&Path; 2]) -> Result<()>;

/// The tests for mounts without attribute caching.
const UNCACHED: &[(&str, Test)] = &[
    ("names", names_show),
    ("content", content_shows),
    ("attributes", attributes_show),
    ("removed_while_open", removed_while_open),
    ("append_in_turn", append_in_turn),
    ("exclusive_create", exclusive_create),
];

/// The tests for mounts with the default caches.
const CACHED: &[(&str, Test)] = &[
    ("close_to_open", close_to_open),
    ("close_to_open_truncated", close_to_open_truncated),
];

/// The tests for a mount that remembers attributes for its time, beside the server's host.
const AGED: &[(&str, Test)] = &[
    ("close_to_open", close_to_open),
    ("close_to_open_truncated", close_to_open_truncated),
    ("append_in_turn", append_in_turn),
    ("same_size", same_size),
    ("in_time", in_time),
];

/// Number of verdicts of the suite between two mounts.
pub(crate) const TESTS: usize = UNCACHED.len() + CACHED.len();
/// Number of verdicts of the suite between the server's disk and a mount.
pub(crate) const BESIDE: usize = TESTS;
/// Number of verdicts of the suite between the server's disk and a mount that caches attributes.
pub(crate) const BESIDE_CACHED: usize = AGED.len();

/// Runs the suite between two mounts, first without attribute caching, then with it.
pub(super) fn run(uncached: [&Path; 2], cached: [&Path; 2], report: &mut Report) -> Result<()> {
    each(UNCACHED, uncached, "sharing/noac", report)?;
    each(CACHED, cached, "sharing/cached", report)
}

/// Runs the suite between the server's disk and a mount, which are the two of `dirs`.
pub(super) fn beside(
    dirs: [&Path; 2],
    cached: bool,
    name: &str,
    report: &mut Report,
) -> Result<()> {
    if cached {
        return each(AGED, dirs, &format!("{name}/cached"), report);
    }
    each(UNCACHED, dirs, &format!("{name}/at-once"), report)?;
    each(CACHED, dirs, &format!("{name}/closed"), report)
}

fn each(tests: &[(&str, Test)], dirs: [&Path; 2], kind: &str, report: &mut Report) -> Result<()> {
    for (name, test) in tests {
        let own = dirs.map(|dir| dir.join(format!("{}-{name}", kind.replace('/', "-"))));
        let outcome = two_mounts(dirs)
            .and_then(|()| Ok(fs::create_dir(&own[0])?))
            .and_then(|()| test([&own[0], &own[1]]));
        report.verdict(&format!("{kind}/{name}"), &outcome)?;
    }
    Ok(())
}

/// The client must not have made one mount of both.
fn two_mounts(mounts: [&Path; 2]) -> Result<()> {
    let device = |path: &Path| fs::metadata(path).map(|meta| meta.dev());
    same(
        device(mounts[0])? == device(mounts[1])?,
        false,
        "both mounts are one",
    )
}

fn names_show([a, b]: [&Path; 2]) -> Result<()> {
    for round in 0..10 {
        let name = format!("file-{round}");
        fails(fs::metadata(b.join(&name)), Errno::NOENT, "before")?;
        fs::write(a.join(&name), "x")?;
        same(fs::metadata(b.join(&name))?.len(), 1, "created on one side")?;
        fs::rename(b.join(&name), b.join("renamed"))?;
        fails(
            fs::metadata(a.join(&name)),
            Errno::NOENT,
            "renamed on the other side",
        )?;
        fs::remove_file(a.join("renamed"))?;
        fails(
            fs::metadata(b.join("renamed")),
            Errno::NOENT,
            "removed on one side",
        )?;
        fs::create_dir(b.join("dir"))?;
        fs::write(a.join("dir/in"), "")?;
        same(names(&b.join("dir"))?, vec![b"in".to_vec()], "a listing")?;
        fs::remove_dir_all(a.join("dir"))?;
        same(names(b)?.len(), 0, "names left")?;
    }
    Ok(())
}

fn content_shows([a, b]: [&Path; 2]) -> Result<()> {
    let writer = OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(a.join("file"))?;
    let reader = File::open(b.join("file"))?;
    for round in 0..20 {
        // Without attribute caching every write goes out before the call returns.
        let data = pattern::bytes(50 + round, 0, 10_000);
        writer.write_all_at(&data, round * 5_000)?;
        let mut found = vec![0; 10_000];
        reader
            .read_exact_at(&mut found, round * 5_000)
            .context("read the other's bytes")?;
        same(found == data, true, "the other's bytes")?;
    }
    writer.set_len(3)?;
    same(
        reader.metadata()?.len(),
        3,
        "size after the other's truncation",
    )
}

fn attributes_show([a, b]: [&Path; 2]) -> Result<()> {
    fs::write(a.join("file"), "x")?;
    for mode in [0o600, 0o444, 0o755] {
        fs::set_permissions(a.join("file"), fs::Permissions::from_mode(mode))?;
        same(
            fs::metadata(b.join("file"))?.mode() & 0o7777,
            mode,
            "the other's chmod",
        )?;
    }
    fs::hard_link(b.join("file"), b.join("link"))?;
    same(fs::metadata(a.join("file"))?.nlink(), 2, "the other's link")
}

fn removed_while_open([a, b]: [&Path; 2]) -> Result<()> {
    fs::write(a.join("file"), "x")?;
    let open = File::open(b.join("file"))?;
    fs::remove_file(a.join("file"))?;
    // NFSv3 keeps no file for its openers: the other client's removal makes the handle stale.
    fails(
        open.metadata(),
        Errno::STALE,
        "attributes of a file that another client removed",
    )?;
    fs::write(b.join("file"), "again")?;
    same(
        fs::read(a.join("file"))?,
        b"again".to_vec(),
        "a new file of that name",
    )
}

fn append_in_turn([a, b]: [&Path; 2]) -> Result<()> {
    let mut expected = Vec::new();
    for round in 0..40_u8 {
        let mount = if round % 2 == 0 { a } else { b };
        let mut file = OpenOptions::new()
            .append(true)
            .create(true)
            .open(mount.join("log"))?;
        let line = vec![b'a' + round % 26; 50 + usize::from(round)];
        file.write_all(&line)?;
        drop(file);
        expected.extend(line);
    }
    same(
        fs::read(a.join("log"))? == expected,
        true,
        "lines appended in turn",
    )
}

fn exclusive_create(mounts: [&Path; 2]) -> Result<()> {
    for round in 0..20 {
        let name = format!("lock-{round}");
        let wins = std::thread::scope(|scope| {
            let tries = mounts.map(|mount| {
                let path = mount.join(&name);
                scope.spawn(move || {
                    OpenOptions::new()
                        .write(true)
                        .create_new(true)
                        .open(path)
                        .is_ok()
                })
            });
            tries
                .into_iter()
                .filter_map(|one| one.join().ok())
                .filter(|won| *won)
                .count()
        });
        same(wins, 1, "winners of O_EXCL on two mounts")?;
    }
    Ok(())
}

fn close_to_open([a, b]: [&Path; 2]) -> Result<()> {
    fs::write(a.join("file"), "start")?;
    for round in 0..20_u64 {
        let (writer, reader) = if round % 2 == 0 { (a, b) } else { (b, a) };
        let data = pattern::bytes(70 + round, 0, 20_000 + round as usize * 777);
        let mut file = OpenOptions::new().write(true).open(writer.join("file"))?;
        file.write_all(&data)?;
        drop(file);
        same(
            fs::read(reader.join("file"))? == data,
            true,
            "what the other closed",
        )?;
    }
    Ok(())
}

fn close_to_open_truncated([a, b]: [&Path; 2]) -> Result<()> {
    for (round, size) in (0..).zip([90_000_usize, 10, 40_000, 0, 1]) {
        let (writer, reader) = if round % 2 == 0 { (a, b) } else { (b, a) };
        fs::write(writer.join("file"), pattern::bytes(90 + round, 0, size))?;
        let found = fs::read(reader.join("file"))?;
        same(
            found == pattern::bytes(90 + round, 0, size),
            true,
            "a file written anew",
        )?;
    }
    Ok(())
}

/// The length tells nothing, and what was read before is in the cache.
fn same_size([host, mount]: [&Path; 2]) -> Result<()> {
    for round in 0..5 {
        let data = pattern::bytes(120 + round, 0, 70_001);
        rewrite(&host.join("file"), &data)?;
        same(
            fs::read(mount.join("file"))? == data,
            true,
            "a file of the same length, opened again",
        )?;
    }
    Ok(())
}

/// Other bytes in place, with another time than before.
fn rewrite(path: &Path, data: &[u8]) -> Result<()> {
    let time = || fs::metadata(path).and_then(|meta| meta.modified()).ok();
    let before = time();
    until("another time of the file", || {
        // The kernel's clock for files ticks every few milliseconds.
        let mut file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)?;
        file.write_all(data)?;
        drop(file);
        Ok(time() != before)
    })
}

/// Attributes and names are remembered, but not for ever.
fn in_time([host, mount]: [&Path; 2]) -> Result<()> {
    fs::write(host.join("file"), "x")?;
    let open = File::open(mount.join("file"))?;
    same(open.metadata()?.len(), 1, "size at first")?;
    fs::write(host.join("file"), "longer")?;
    fs::set_permissions(host.join("file"), fs::Permissions::from_mode(0o600))?;
    until("the new size of an open file", || {
        Ok(open.metadata()?.len() == 6)
    })?;
    until("the new mode", || {
        Ok(fs::metadata(mount.join("file"))?.mode() & 0o7777 == 0o600)
    })?;
    fs::rename(host.join("file"), host.join("renamed"))?;
    until("the name's end", || Ok(!mount.join("file").exists()))?;
    until("the new name", || Ok(mount.join("renamed").exists()))
}
