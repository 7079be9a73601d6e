//! ACLs as Linux's client shows and sets them (the attribute `system.nfs4_acl`, of which `nfs4_setfacl` makes lines of
//! text), and what a directory's default ACL makes of new files.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use nfs_wire::nfs4::{
    ACE4_DIRECTORY_INHERIT_ACE, ACE4_EXECUTE, ACE4_FILE_INHERIT_ACE, ACE4_READ_DATA, Nfsace4,
    Utf8str,
};
use nfs_wire::{decode_all, encode_to_vec};
use rustix::fs::{Mode, XattrFlags, getxattr, setxattr};

use super::Report;

/// The file and the directory that the host looks at.
pub(crate) const FILE: &str = "listed";
const DIRECTORY: &str = "inherited";
/// Who is let in, and who is not.
const FRIEND: u32 = 1234;
const STRANGER: u32 = 1235;

const NFS4_ACL: &str = "system.nfs4_acl";
const BYTES_MAX: usize = 64 << 10;

/// One verdict, `acls`.
///
/// # Errors
/// When the result file cannot be written.
pub(super) fn run(dir: &Path, report: &mut Report) -> Result<()> {
    report.verdict("acls", &check(dir))
}

fn check(dir: &Path) -> Result<()> {
    fs::set_permissions(dir, fs::Permissions::from_mode(0o755))?;
    let file = dir.join(FILE);
    fs::write(&file, "text")?;
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600))?;
    ensure!(!may_read(&file, FRIEND)?, "read before it is allowed");
    let plain = 3;
    ensure!(acl(&file)?.len() == plain, "{:?}", acl(&file)?);
    let friend = FRIEND.to_string();
    let read = ace(&friend, 0, ACE4_READ_DATA);
    add(&file, read)?;
    ensure!(may_read(&file, FRIEND)?, "it is allowed and refused");
    ensure!(!may_read(&file, STRANGER)?, "a stranger reads");
    let lines = acl(&file)?;
    let expected = format!("0:0:{friend}:1");
    ensure!(lines.contains(&expected), "{lines:?}");

    let directory = dir.join(DIRECTORY);
    fs::create_dir(&directory)?;
    fs::set_permissions(&directory, fs::Permissions::from_mode(0o755))?;
    let passed_on = ACE4_FILE_INHERIT_ACE | ACE4_DIRECTORY_INHERIT_ACE;
    add(
        &directory,
        ace(&friend, passed_on, ACE4_READ_DATA | ACE4_EXECUTE),
    )?;
    // The umask would leave the mask of the ACL nothing.
    let before = rustix::process::umask(Mode::from_raw_mode(0o077));
    let made = fs::write(directory.join(FILE), "text");
    rustix::process::umask(before);
    made?;
    let inherited = directory.join(FILE);
    ensure!(may_read(&inherited, FRIEND)?, "{:?}", acl(&inherited)?);
    ensure!(
        may_read(&inherited, STRANGER)?,
        "others read in the directory, too"
    );
    let name = encode_to_vec(&vec![ace("somebody@example.org", 0, ACE4_READ_DATA)]);
    let refused = setxattr(&file, NFS4_ACL, &name, XattrFlags::empty());
    ensure!(refused.is_err(), "a name that is no number: {refused:?}");
    Ok(())
}

fn ace(who: &str, flag: u32, access_mask: u32) -> Nfsace4<'_> {
    Nfsace4 {
        acetype: 0,
        flag,
        access_mask,
        who: Utf8str(who.as_bytes()),
    }
}

/// Puts an entry before the others.
fn add(path: &Path, ace: Nfsace4<'_>) -> Result<()> {
    let bytes = get(path, NFS4_ACL)?;
    let mut aces: Vec<Nfsace4<'_>> = decode_all(&bytes)?;
    aces.insert(0, ace);
    let bytes = encode_to_vec(&aces);
    setxattr(path, NFS4_ACL, &bytes, XattrFlags::empty()).context("set an ACL")
}

/// The entries as `type:flags:who:mask`, of the mask only the bits of a mode.
fn acl(path: &Path) -> Result<Vec<String>> {
    let bytes = get(path, NFS4_ACL)?;
    let aces: Vec<Nfsace4<'_>> = decode_all(&bytes)?;
    let lines = aces.iter().map(|ace| {
        let who = String::from_utf8_lossy(ace.who.0);
        let mask = ace.access_mask & (ACE4_READ_DATA | ACE4_EXECUTE);
        format!("{}:{}:{who}:{mask}", ace.acetype, ace.flag)
    });
    Ok(lines.collect())
}

fn get(path: &Path, name: &str) -> Result<Vec<u8>> {
    let mut value = vec![0; BYTES_MAX];
    let len = getxattr(path, name, &mut value[..]).with_context(|| name.to_owned())?;
    value.truncate(len);
    Ok(value)
}

/// Whether a program of this user may read the file.
fn may_read(path: &Path, user: u32) -> Result<bool> {
    let mut cat = Command::new("cat");
    cat.arg(path).uid(user).gid(user);
    let status = cat.stdout(Stdio::null()).stderr(Stdio::null()).status();
    Ok(status.context("cat")?.success())
}

/// What the host finds of it on its own disk.
///
/// # Errors
/// When it is not what the guest set.
pub(crate) fn on_disk(dir: &Path) -> Result<()> {
    // Entries of acl(5): tag, permissions, id; of the file's owner, the friend, the group, the mask and others.
    let of_file = [(1, 6), (2, 4), (4, 0), (0x10, 4), (0x20, 0)];
    let found = get(&dir.join(FILE), "system.posix_acl_access")?;
    ensure!(found == posix(&of_file), "of the file: {found:?}");
    let of_directory = [(1, 7), (2, 5), (4, 5), (0x10, 5), (0x20, 5)];
    for name in ["system.posix_acl_access", "system.posix_acl_default"] {
        let found = get(&dir.join(DIRECTORY), name)?;
        ensure!(found == posix(&of_directory), "{name}: {found:?}");
    }
    Ok(())
}

fn posix(entries: &[(u16, u16)]) -> Vec<u8> {
    let mut bytes = 2u32.to_le_bytes().to_vec();
    for (tag, permissions) in entries {
        let id = if *tag == 2 { FRIEND } else { u32::MAX };
        bytes.extend_from_slice(&tag.to_le_bytes());
        bytes.extend_from_slice(&permissions.to_le_bytes());
        bytes.extend_from_slice(&id.to_le_bytes());
    }
    bytes
}
