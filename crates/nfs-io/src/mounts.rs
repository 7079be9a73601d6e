//! The mount table of this process: `/proc/self/mountinfo`, proc_pid_mountinfo(5).

use std::ffi::OsString;
use std::io::{Error, ErrorKind, Result};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// One mount of this process's mount namespace: a line of `/proc/self/mountinfo`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// Id, as name_to_handle_at(2) and statx(2) report it; may be used again after an unmount.
    pub id: u64,
    /// Id of the mount it is mounted on.
    pub parent: u64,
    /// Device of the file system: (major, minor). For btrfs not what `stat` shows.
    pub dev: (u32, u32),
    /// The directory of the file system that is visible at the mount point.
    pub root: PathBuf,
    /// The directory it is mounted on, as this process sees it.
    pub mount_point: PathBuf,
    /// The type of the file system, for example `ext4` or `xfs`.
    pub fs_type: String,
    /// What is mounted, as the file system tells it: mostly a device path.
    pub source: String,
    /// Options of this mount alone, separated by commas: `rw,noatime`.
    pub options: String,
    /// Options of the file system, common to all its mounts.
    pub super_options: String,
}

impl Mount {
    /// Whether this mount, or the whole file system, is read-only.
    #[must_use]
    pub fn read_only(&self) -> bool {
        [&self.options, &self.super_options]
            .iter()
            .any(|options| options.split(',').any(|option| option == "ro"))
    }
}

/// The mounts this process sees, in the kernel's order: a later one on the same mount point
/// covers an earlier.
///
/// # Errors
/// What reading `/proc/self/mountinfo` reports; `InvalidData` for a line that cannot be
/// understood.
pub fn mounts() -> Result<Vec<Mount>> {
    parse(&std::fs::read("/proc/self/mountinfo")?)
}

/// The mounts strictly beneath `path` (absolute, without links), in the kernel's order.
///
/// # Errors
/// As [`mounts`].
pub fn mounts_beneath(path: &Path) -> Result<Vec<Mount>> {
    let mut all = mounts()?;
    all.retain(|mount| mount.mount_point != path && mount.mount_point.starts_with(path));
    Ok(all)
}

/// Parses the text of a `mountinfo` file.
///
/// # Errors
/// `InvalidData` for a line that cannot be understood.
pub fn parse(text: &[u8]) -> Result<Vec<Mount>> {
    text.split(|&byte| byte == b'\n')
        .filter(|line| !line.is_empty())
        .map(|line| {
            parse_line(line).ok_or_else(|| {
                let line = String::from_utf8_lossy(line);
                Error::new(
                    ErrorKind::InvalidData,
                    format!("not a mountinfo line: {line}"),
                )
            })
        })
        .collect()
}

fn parse_line(line: &[u8]) -> Option<Mount> {
    let mut fields = line.split(|&byte| byte == b' ');
    let id = number(fields.next()?)?;
    let parent = number(fields.next()?)?;
    let mut dev = fields.next()?.split(|&byte| byte == b':');
    let dev = (number(dev.next()?)?, number(dev.next()?)?);
    let root = path(fields.next()?);
    let mount_point = path(fields.next()?);
    let options = text(fields.next()?);
    // Zero or more optional fields, ended by a lone hyphen.
    fields.find(|field| *field == b"-")?;
    let fs_type = text(fields.next()?);
    let source = text(fields.next()?);
    let super_options = text(fields.next()?);
    Some(Mount {
        id,
        parent,
        dev,
        root,
        mount_point,
        fs_type,
        source,
        options,
        super_options,
    })
}

fn number<T: std::str::FromStr>(field: &[u8]) -> Option<T> {
    std::str::from_utf8(field).ok()?.parse().ok()
}

fn path(field: &[u8]) -> PathBuf {
    OsString::from_vec(unescape(field)).into()
}

fn text(field: &[u8]) -> String {
    String::from_utf8_lossy(&unescape(field)).into_owned()
}

/// Space, tab, newline and backslash appear as a backslash and three octal digits.
fn unescape(field: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&first, after)) = rest.split_first() {
        let octal = (first == b'\\').then_some(after).and_then(|after| {
            let digits = after.get(..3)?;
            let value = digits.iter().try_fold(0_u32, |value, digit| {
                matches!(digit, b'0'..=b'7').then(|| value * 8 + u32::from(digit - b'0'))
            })?;
            u8::try_from(value).ok()
        });
        if let Some(byte) = octal {
            plain.push(byte);
            rest = &after[3..];
        } else {
            plain.push(first);
            rest = after;
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn understands_the_example_of_the_manual_page() {
        let text =
            b"36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue\n\
            37 36 0:9 / /a\\040b\\134c ro - tmpfs none rw\n";
        let parsed = parse(text).unwrap();
        assert_eq!(parsed.len(), 2);
        assert_eq!(
            (
                parsed[0].id,
                parsed[0].parent,
                parsed[0].dev,
                parsed[0].fs_type.as_str()
            ),
            (36, 35, (98, 0), "ext3")
        );
        assert_eq!(parsed[0].root, Path::new("/mnt1"));
        assert_eq!(
            (parsed[0].read_only(), parsed[1].read_only()),
            (false, true)
        );
        assert_eq!(parsed[1].mount_point, Path::new("/a b\\c"));
    }

    #[test]
    fn refuses_what_it_does_not_understand() {
        for line in [
            "36",
            "x 35 98:0 / / rw - a b c",
            "36 35 98:0 / / rw master:1",
            "1 2 3 / / rw",
        ] {
            assert_eq!(
                parse(line.as_bytes()).unwrap_err().kind(),
                ErrorKind::InvalidData
            );
        }
        assert_eq!(unescape(b"\\04\\999\\"), b"\\04\\999\\");
        assert_eq!(unescape(b"\\777"), b"\\777", "not a byte");
    }

    #[test]
    fn knows_the_mounts_of_this_machine() {
        let all = mounts().unwrap();
        let proc_mount = all
            .iter()
            .find(|mount| mount.mount_point == Path::new("/proc"));
        assert_eq!(proc_mount.map(|mount| mount.fs_type.as_str()), Some("proc"));
        let beneath = mounts_beneath(Path::new("/")).unwrap();
        assert!(
            beneath
                .iter()
                .any(|mount| mount.mount_point == Path::new("/proc"))
        );
        assert!(
            beneath
                .iter()
                .all(|mount| mount.mount_point != Path::new("/"))
        );
    }
}
