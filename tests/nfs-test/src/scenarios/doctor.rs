//! `penstock doctor` on real file systems: what it says of each, its exit codes, its JSON, and that
//! it leaves nothing behind.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use nfs_lab::{FsKind, LoopFs, Mounted, copy_program, output};
use serde_json::Value;

use crate::host::Context;

/// A user who owns nothing and is in no group.
const STRANGER: u32 = 54_321;
/// Size of the loop file systems in MiB: enough for the smallest XFS.
const LOOP_MIB: u32 = 512;

pub(super) fn run(context: &Context) -> Result<String> {
    let dir = &context.lab.dir;
    let mut checks = 0;
    for (kind, name, sector) in [
        (FsKind::Xfs, "xfs", 512),
        (FsKind::Xfs, "xfs", 4096),
        (FsKind::Ext4, "ext4", 512),
        (FsKind::Ext4, "ext4", 4096),
    ] {
        let point = dir.join(format!("{name}-{sector}"));
        let mounted = LoopFs::with_sectors(kind, sector, LOOP_MIB, &point)?;
        checks += disk(context, mounted.point(), name, sector)?;
        if sector == 512 && kind == FsKind::Xfs {
            checks += overlay(context, mounted.point())?;
            checks += stranger(context, mounted.point())?;
            checks += read_only(context, mounted.point())?;
        }
    }
    let btrfs = LoopFs::new(FsKind::Btrfs, LOOP_MIB, &dir.join("btrfs"))?;
    checks += on_btrfs(context, btrfs.point())?;
    let memory = Mounted::tmpfs(16, &dir.join("tmpfs"))?;
    checks += on_tmpfs(context, &dir.join("tmpfs"))?;
    drop(memory);
    let full = Mounted::tmpfs(1, &dir.join("full"))?;
    checks += refused(context, &dir.join("full"), "no space")?;
    drop(full);
    let limited = doctor(
        Command::new("prlimit")
            .args(["--fsize=100000", "--"])
            .arg(&context.lab.program),
        btrfs.point(),
    )?;
    ensure!(limited.code == 2, "with a limit on files: {}", limited.json);
    checks += file_instead(context)?;
    Ok(format!("{} checks", checks + 1))
}

/// The exit code and the JSON that the command answered with.
struct Answer {
    code: i32,
    json: Value,
}

impl Answer {
    /// The word for what a trial came to.
    fn trial(&self, path: &str) -> &str {
        let pointer = format!("/trials/{path}/is");
        let word = self.json.pointer(&pointer).and_then(Value::as_str);
        word.unwrap_or("nothing")
    }

    fn missing(&self) -> bool {
        let findings = self.json["findings"].as_array().into_iter().flatten();
        findings
            .into_iter()
            .any(|finding| finding["level"] == "missing")
    }
}

/// Runs `penstock doctor --json` on a directory, which must be the same afterwards.
fn doctor(command: &mut Command, dir: &Path) -> Result<Answer> {
    let names = || -> Result<usize> { Ok(fs::read_dir(dir)?.count()) };
    let before = names()?;
    let done = command.args(["doctor", "--json"]).arg(dir).output()?;
    let text = String::from_utf8(done.stdout)?;
    let code = done.status.code().context("ended by a signal")?;
    ensure!(text.lines().count() == 1, "{code}: {text}");
    ensure!(
        names()? == before,
        "something was left in {}",
        dir.display()
    );
    let json = serde_json::from_str(&text)?;
    Ok(Answer { code, json })
}

fn ours(context: &Context, dir: &Path) -> Result<Answer> {
    let answer = doctor(&mut Command::new(&context.lab.program), dir)?;
    let expected = if answer.json["trials"].is_null() {
        2
    } else {
        i32::from(answer.missing())
    };
    ensure!(
        answer.code == expected,
        "exit {}: {}",
        answer.code,
        answer.json
    );
    Ok(answer)
}

/// XFS and ext4: direct I/O is what it says, in units of the sector.
fn disk(context: &Context, dir: &Path, name: &str, sector: u32) -> Result<u32> {
    let answer = ours(context, dir)?;
    let json = &answer.json;
    ensure!(json["file_system"]["type"] == name, "{json}");
    ensure!(json["device"]["kind"] == "loop", "{json}");
    ensure!(json["device"]["logical_block_bytes"] == sector, "{json}");
    ensure!(json["trials"]["alignment"]["offset"] == sector, "{json}");
    for operation in ["direct_read", "direct_write"] {
        for placement in ["aligned", "smallest"] {
            let word = answer.trial(&format!("{operation}/{placement}"));
            ensure!(word == "uncached", "{operation} {placement}: {json}");
        }
        let word = answer.trial(&format!("{operation}/odd_offset"));
        ensure!(word == "refused", "{operation} at an odd offset: {json}");
    }
    // Linux 6.15 on XFS and 6.17 on ext4: taken and dropped, or refused by an older kernel.
    let dropped = ["uncached", "refused"].contains(&answer.trial("dontcache_read"));
    ensure!(dropped, "dontcache READ: {json}");
    ensure!(json["handles"]["opened"].is_null(), "{json}");
    Ok(11)
}

/// cachestat sees nothing of a file on overlayfs; mincore does.
fn overlay(context: &Context, base: &Path) -> Result<u32> {
    let point = context.lab.dir.join("overlay");
    let mounted = Mounted::overlay(base, &point)?;
    let answer = ours(context, &point)?;
    ensure!(
        answer.json["file_system"]["type"] == "overlay",
        "{}",
        answer.json
    );
    ensure!(
        answer.json["trials"]["counted_by"] == "mincore",
        "{}",
        answer.json
    );
    ensure!(
        answer.trial("direct_write/aligned") == "uncached",
        "{}",
        answer.json
    );
    drop(mounted);
    Ok(3)
}

/// A direct write of a file with checksums is a buffered one in disguise since Linux 6.15.
fn on_btrfs(context: &Context, dir: &Path) -> Result<u32> {
    let plain = ours(context, dir)?;
    ensure!(
        plain.code == 1,
        "btrfs has no RWF_DONTCACHE: {}",
        plain.json
    );
    let disguised = ["passed-through", "uncached"].contains(&plain.trial("direct_write/aligned"));
    ensure!(disguised, "{}", plain.json);
    let bare = dir.join("no-checksums");
    fs::create_dir(&bare)?;
    output(Command::new("chattr").arg("+C").arg(&bare))?;
    let bare = ours(context, &bare)?;
    ensure!(
        bare.trial("direct_write/aligned") == "uncached",
        "{}",
        bare.json
    );
    Ok(3)
}

fn on_tmpfs(context: &Context, dir: &Path) -> Result<u32> {
    let answer = ours(context, dir)?;
    ensure!(answer.code == 1, "{}", answer.json);
    // Linux 6.6 takes O_DIRECT and moves the bytes through the page cache all the same.
    let read = answer.trial("direct_read/aligned");
    ensure!(["cached", "nothing"].contains(&read), "{}", answer.json);
    for operation in ["read", "write"] {
        let chosen = &answer.json["recommendation"][operation];
        ensure!(chosen == "buffered", "{}", answer.json);
    }
    Ok(4)
}

/// Checks the command as a user without rights: what is forbidden is named, what is allowed works.
fn stranger(context: &Context, dir: &Path) -> Result<u32> {
    let own = dir.join("own");
    let closed = dir.join("closed");
    fs::create_dir(&own)?;
    fs::create_dir(&closed)?;
    chown(&own, Some(STRANGER), Some(STRANGER))?;
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o700))?;
    // The binary may be where a stranger cannot go.
    let binary = dir.join("penstock");
    copy_program(&context.lab.program, &binary)?;
    let as_stranger = || {
        let mut command = Command::new("setpriv");
        let (uid, gid) = (format!("--reuid={STRANGER}"), format!("--regid={STRANGER}"));
        command
            .args([&uid, &gid, "--clear-groups", "--"])
            .arg(&binary);
        command
    };
    let answer = doctor(&mut as_stranger(), &own)?;
    ensure!(answer.json["process"]["uid"] == STRANGER, "{}", answer.json);
    ensure!(
        answer.json["handles"]["opened"]["status"] == "EPERM",
        "{}",
        answer.json
    );
    ensure!(
        answer.trial("direct_read/aligned") == "uncached",
        "{}",
        answer.json
    );
    let done = as_stranger()
        .arg("doctor")
        .arg(closed.join("below"))
        .output()?;
    let said = String::from_utf8_lossy(&done.stderr);
    let told = done.status.code() == Some(2) && said.contains("may not enter");
    ensure!(told, "{}: {said}", done.status);
    let done = as_stranger().arg("doctor").arg(dir).output()?;
    let said = String::from_utf8_lossy(&done.stdout);
    let told = done.status.code() == Some(2) && said.contains("may not make files");
    ensure!(told, "{}: {said}", done.status);
    fs::remove_file(&binary)?;
    Ok(5)
}

fn read_only(context: &Context, dir: &Path) -> Result<u32> {
    output(Command::new("mount").args(["-o", "remount,ro"]).arg(dir))?;
    refused(context, dir, "read-only")
}

/// The directory can be looked at, and nothing can be tried in it.
fn refused(context: &Context, dir: &Path, reason: &str) -> Result<u32> {
    let answer = ours(context, dir)?;
    let told = answer.json["error"]["message"].as_str().unwrap_or_default();
    ensure!(answer.code == 2 && told.contains(reason), "{}", answer.json);
    Ok(1)
}

fn file_instead(context: &Context) -> Result<u32> {
    let file = context.lab.dir.join("file");
    fs::write(&file, "")?;
    let done = Command::new(&context.lab.program)
        .arg("doctor")
        .arg(&file)
        .output()?;
    let said = String::from_utf8_lossy(&done.stderr);
    let told = done.status.code() == Some(2) && said.contains("not a directory");
    ensure!(told, "{}: {said}", done.status);
    Ok(1)
}
