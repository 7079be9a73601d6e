//! A tree with everything that a copy may lose: odd names, modes, times, links, holes.

use std::ffi::OsStr;
use std::fs::{self, File, FileTimes};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileExt as _, PermissionsExt as _, symlink};
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use anyhow::Result;
use fastrand::Rng;
use nfs_lab::pattern;

/// Names that a shell, a terminal, a URL or a text encoding might spoil.
const NAMES: &[&[u8]] = &[
    b"plain",
    b"two words",
    b" leading",
    b"trailing ",
    b"new\nline",
    b"tab\tand\x07bell",
    b"50%#?&=+;",
    b"%2F",
    b"-dash",
    b"--recursive",
    b"~tilde",
    b"$(reboot)`reboot`",
    b"back\\slash",
    b"'quoted\"",
    b"*glob?[a]",
    b"gr\xc3\xbcn",
    b"\xff\xfe\x80",
    b"...",
    b".hidden",
    b"nfs:",
    b"a:b@c",
];
/// Sizes in bytes: the edges of blocks and transfers.
const SIZES: &[usize] = &[
    0, 1, 511, 4096, 4097, 65_536, 1_048_576, 1_048_577, 3_333_333,
];
/// The file with holes, its length, and where its bytes are.
pub(super) const SPARSE: &str = "sparse";
pub(super) const SPARSE_BYTES: u64 = 64 << 20;
const SPARSE_PIECES: &[(u64, usize)] = &[
    (0, 4096),
    (10_000_000, 70_000),
    (40 << 20, 1),
    (63 << 20, 9_999),
];

/// Makes the tree in `dir`, which is made too.
///
/// # Errors
/// Any error of the file system.
pub(super) fn make(dir: &Path, random: &mut Rng) -> Result<()> {
    fs::create_dir_all(dir.join("names/deep/er/and/deeper"))?;
    fs::create_dir(dir.join("empty directory"))?;
    let mut longest = vec![b'n'; 255];
    longest[254] = b'!';
    for (index, name) in NAMES
        .iter()
        .copied()
        .chain([longest.as_slice()])
        .enumerate()
    {
        let path = dir.join("names").join(OsStr::from_bytes(name));
        fs::write(&path, pattern::bytes(index as u64, 0, 100 + index))?;
    }
    fs::create_dir(dir.join("names").join(OsStr::from_bytes(b"dir\xff \n")))?;
    fs::write(
        dir.join("names").join(OsStr::from_bytes(b"dir\xff \n/in")),
        "in",
    )?;
    fs::create_dir(dir.join("sizes"))?;
    for size in SIZES {
        let data = pattern::bytes(*size as u64, 0, *size);
        fs::write(dir.join(format!("sizes/{size}")), data)?;
    }
    sparse(&dir.join(SPARSE))?;
    links(dir)?;
    fs::create_dir(dir.join("modes"))?;
    for mode in [0o000, 0o400, 0o644, 0o755, 0o1777, 0o2750, 0o4711, 0o6555] {
        let path = dir.join(format!("modes/{mode:04o}"));
        fs::write(&path, "x")?;
        std::os::unix::fs::chown(&path, Some(1000 + mode), Some(2000 + mode))?;
        fs::set_permissions(&path, fs::Permissions::from_mode(mode))?;
        let sub = dir.join(format!("modes/dir-{mode:04o}"));
        fs::create_dir(&sub)?;
        fs::set_permissions(&sub, fs::Permissions::from_mode(mode))?;
    }
    times(dir, random)
}

fn sparse(path: &Path) -> Result<()> {
    let file = File::create(path)?;
    for (offset, len) in SPARSE_PIECES {
        file.write_all_at(&pattern::bytes(77, *offset, *len), *offset)?;
    }
    file.set_len(SPARSE_BYTES)?;
    Ok(())
}

fn links(dir: &Path) -> Result<()> {
    let links = dir.join("links");
    fs::create_dir(&links)?;
    fs::write(links.join("one"), "one file, three names")?;
    fs::hard_link(links.join("one"), links.join("two"))?;
    fs::hard_link(links.join("one"), dir.join("names/three"))?;
    symlink("one", links.join("symbolic"))?;
    symlink("nowhere/at all", links.join("dangling"))?;
    symlink("/absolute", links.join("absolute"))?;
    symlink("..", links.join("up"))?;
    symlink(OsStr::from_bytes(b"odd\xff\n"), links.join("odd"))?;
    Ok(())
}

/// Times of all kinds, those of directories last: what is made in them moves them.
fn times(dir: &Path, random: &mut Rng) -> Result<()> {
    for part in ["names", "sizes", "modes", "links"] {
        for entry in fs::read_dir(dir.join(part))? {
            let entry = entry?;
            // Before 1970 is not for NFSv3.
            let seconds = random.u64(..1 << 31);
            let time = UNIX_EPOCH + Duration::new(seconds, random.u64(..1_000_000_000) as u32);
            if entry.file_type()?.is_file() {
                let times = FileTimes::new().set_modified(time).set_accessed(time);
                File::open(entry.path())?.set_times(times)?;
            }
        }
        let time = UNIX_EPOCH + Duration::new(1_000_000_000 + random.u64(..1000), 123_456_789);
        let times = FileTimes::new().set_modified(time).set_accessed(time);
        File::open(dir.join(part))?.set_times(times)?;
    }
    Ok(())
}
