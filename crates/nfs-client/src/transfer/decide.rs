//! What is to be done, decided from attributes and options alone.

use std::ops::Range;

use nfs_wire::nfs3::{Fattr3, Ftype3, Nfstime3, Sattr3, SetTime};

use super::options::{Compare, Existing, Options, Preserve, Sparse};
use super::watch::What;
use crate::limits::{RESUME_ALIGN_BYTES, SPARSE_BLOCK_BYTES, TRANSFER_UNCOMMITTED_BYTES_MAX};

/// What to do with a file whose name is taken at the destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Onto {
    /// The file is left as it is.
    Leave(What),
    /// It may be there whole: leave it if it has the source's content, and replace it if not.
    Compare,
    /// Cut it to nothing and write it anew.
    Replace,
    /// Keep what lies below this offset, which is above 0, and write the rest.
    Resume(u64),
    /// A symbolic link stands there: remove it first. A link in a tree that somebody else may write
    /// must not choose which file gets the content.
    Remove,
    /// Something stands there that no content can be written to.
    InTheWay,
}

/// What to do with the regular file `source` where `there` is already. `one_write` is the largest
/// content that travels in one WRITE, bytes; `None` if attributes have to be set after it.
pub(super) fn onto(
    source: &Fattr3,
    there: &Fattr3,
    existing: Existing,
    one_write: Option<u64>,
) -> Onto {
    match existing {
        Existing::Keep => return Onto::Leave(What::Exists),
        Existing::ReplaceOlder if there.mtime >= source.mtime => {
            return Onto::Leave(What::NotOlder);
        }
        // Who is asked was asked before.
        Existing::Replace | Existing::Ask | Existing::ReplaceOlder | Existing::Resume => {}
    }
    match there.ftype {
        Ftype3::Reg => {}
        Ftype3::Lnk => return Onto::Remove,
        Ftype3::Dir | Ftype3::Blk | Ftype3::Chr | Ftype3::Sock | Ftype3::Fifo => {
            return Onto::InTheWay;
        }
    }
    if existing == Existing::Resume {
        resume(source, there, one_write)
    } else {
        Onto::Replace
    }
}

/// How to go on with what an interrupted copy left.
///
/// Content is sent in order, and at most [`TRANSFER_UNCOMMITTED_BYTES_MAX`] of it lie between what is on
/// stable storage and the end of what was sent; so what lies further below the file's end is there.
fn resume(source: &Fattr3, there: &Fattr3, one_write: Option<u64>) -> Onto {
    if there.size == source.size {
        // With times kept, the time is set last. Where nothing is set last, a file that went in one
        // WRITE is there whole or not at all; but an earlier run may have cut it into smaller ones.
        if is_same_time(source.mtime, there.mtime) {
            return Onto::Leave(What::Complete);
        }
        let fits = one_write.is_some_and(|most| source.size <= most);
        if fits && there.mtime >= source.mtime {
            return Onto::Compare;
        }
    }
    if source.mtime > there.mtime || there.size > source.size {
        return Onto::Replace;
    }
    let safe = there.size.saturating_sub(TRANSFER_UNCOMMITTED_BYTES_MAX);
    match safe - safe % RESUME_ALIGN_BYTES {
        0 => Onto::Replace,
        from => Onto::Resume(from),
    }
}

/// Whether `there` is what `source` is to become, told by attributes alone; `None` where only the content tells.
pub(super) fn is_mirrored(source: &Fattr3, there: &Fattr3, compare: Compare) -> Option<bool> {
    if there.ftype != source.ftype || there.size != source.size {
        return Some(false);
    }
    match compare {
        Compare::TimeAndSize => Some(is_same_time(source.mtime, there.mtime)),
        Compare::Size => Some(true),
        Compare::Checksum => None,
    }
}

/// Whether `there` has the attributes already that are to be `set`. Times of access do not count: to read the
/// file for a comparison changes them.
pub(super) fn is_dressed(set: &Sattr3, there: &Fattr3) -> bool {
    let time = match set.mtime {
        SetTime::ClientTime(time) => is_same_time(time, there.mtime),
        SetTime::DontChange => true,
        SetTime::ServerTime => false,
    };
    time && set.mode.is_none_or(|mode| mode == there.mode & 0o7777)
        && set.uid.is_none_or(|uid| uid == there.uid)
        && set.gid.is_none_or(|gid| gid == there.gid)
}

/// Whether `there` is `source` as a file system with coarser times keeps it: microseconds, tenths of
/// them, or seconds.
fn is_same_time(source: Nfstime3, there: Nfstime3) -> bool {
    let coarser = |unit: u32| source.nseconds - source.nseconds % unit;
    source.seconds == there.seconds
        && [1, 100, 1000, 1_000_000_000]
            .map(coarser)
            .contains(&there.nseconds)
}

/// Permission bits to make a new file with. Where owner or mode are to be kept, only the maker may
/// open it until they are set, at the end.
pub(super) fn first_mode(source: &Fattr3, options: &Options) -> u32 {
    if options.preserve.mode || options.preserve.owner {
        source.mode & 0o700
    } else {
        source.mode & 0o777 & !options.umask
    }
}

/// Permission bits to make a new directory with: its maker has to work in it.
pub(super) fn first_dir_mode(source: &Fattr3, options: &Options) -> u32 {
    first_mode(source, options) | 0o700
}

/// The attributes to set when the content is there; `None` when all is as it should be. `there` is
/// the destination as it was made, or found; `new` says that we made it.
pub(super) fn last_attributes(
    source: &Fattr3,
    there: &Fattr3,
    new: bool,
    options: &Options,
) -> Option<Sattr3> {
    let Preserve {
        mode, times, owner, ..
    } = options.preserve;
    let mut set = Sattr3::default();
    if mode {
        set.mode = Some(source.mode & 0o7777);
    } else if new {
        let wanted = source.mode & 0o777 & !options.umask;
        let made = match source.ftype {
            Ftype3::Dir => first_dir_mode(source, options),
            _ => first_mode(source, options),
        };
        set.mode = (made != wanted).then_some(wanted);
    }
    if times {
        set.atime = SetTime::ClientTime(source.atime);
        set.mtime = SetTime::ClientTime(source.mtime);
    }
    if owner {
        set.uid = (there.uid != source.uid).then_some(source.uid);
        set.gid = (there.gid != source.gid).then_some(source.gid);
    }
    (set != Sattr3::default()).then_some(set)
}

/// `set` without owner and group, for a caller who may not set them: then the file must not get
/// rights of another owner either.
pub(super) fn without_owner(set: &Sattr3) -> Sattr3 {
    Sattr3 {
        uid: None,
        gid: None,
        mode: set.mode.map(|mode| mode & 0o1777),
        ..*set
    }
}

/// Whether blocks of zeros are to be looked for in the content.
pub(super) fn looks_for_zeros(sparse: Sparse, source: &Fattr3, source_is_remote: bool) -> bool {
    match sparse {
        Sparse::Always => true,
        Sparse::Never => false,
        Sparse::Auto => source_is_remote && source.used < source.size,
    }
}

/// The parts of `data`, which lies at `offset` in its file, that are not blocks of zeros. Blocks begin
/// at multiples of [`SPARSE_BLOCK_BYTES`] of the file.
pub(super) fn without_zeros(offset: u64, data: &[u8]) -> Vec<Range<usize>> {
    let block = SPARSE_BLOCK_BYTES;
    let into_block = usize::try_from(offset % (block as u64)).unwrap_or(0);
    let mut parts: Vec<Range<usize>> = Vec::new();
    let mut start = 0;
    let mut end = (block - into_block).min(data.len());
    while start < data.len() {
        let piece = data.get(start..end).unwrap_or_default();
        if !is_zero(piece) {
            match parts.last_mut() {
                Some(last) if last.end == start => last.end = end,
                _ => parts.push(start..end),
            }
        }
        start = end;
        end = (end + block).min(data.len());
    }
    parts
}

/// Whether all bytes are zero: a word at a time, so that it costs little beside a copy.
fn is_zero(data: &[u8]) -> bool {
    let (words, rest) = data.as_chunks::<16>();
    words.iter().all(|word| u128::from_ne_bytes(*word) == 0) && rest.iter().all(|byte| *byte == 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nfs_wire::nfs3::Specdata3;

    const MIB: u64 = 1 << 20;

    fn file(size: u64, seconds: u32) -> Fattr3 {
        let time = Nfstime3 {
            seconds,
            nseconds: 123_456_789,
        };
        Fattr3 {
            ftype: Ftype3::Reg,
            mode: 0o4755,
            nlink: 1,
            uid: 5,
            gid: 6,
            size,
            used: size,
            rdev: Specdata3::default(),
            fsid: 1,
            fileid: 2,
            atime: time,
            mtime: time,
            ctime: time,
        }
    }

    #[test]
    fn what_is_there_decides() {
        use Existing::{Keep, Replace, ReplaceOlder, Resume};
        let done = Onto::Leave(What::Complete);
        let table = [
            // Source, there, what is asked, what is done.
            (file(9, 5), file(9, 5), Replace, Onto::Replace),
            (file(9, 5), file(9, 9), Keep, Onto::Leave(What::Exists)),
            (
                file(9, 5),
                file(1, 5),
                ReplaceOlder,
                Onto::Leave(What::NotOlder),
            ),
            (file(9, 5), file(1, 4), ReplaceOlder, Onto::Replace),
            // The same size and time: done. The same size, later: done if it fits one WRITE and is the same.
            (file(9, 5), file(9, 5), Resume, done),
            (file(9 * MIB, 5), file(9 * MIB, 5), Resume, done),
            (file(9, 5), file(9, 6), Resume, Onto::Compare),
            (file(9 * MIB, 5), file(9 * MIB, 6), Resume, Onto::Replace),
            (file(9, 7), file(9, 6), Resume, Onto::Replace),
            // Part of it is there.
            (
                file(300 * MIB, 5),
                file(200 * MIB + 1, 6),
                Resume,
                Onto::Resume(136 * MIB),
            ),
            (file(300 * MIB, 5), file(64 * MIB, 6), Resume, Onto::Replace),
            (
                file(300 * MIB, 5),
                file(65 * MIB, 6),
                Resume,
                Onto::Resume(MIB),
            ),
            // The source changed after it; the source is shorter.
            (
                file(300 * MIB, 7),
                file(200 * MIB, 6),
                Resume,
                Onto::Replace,
            ),
            (
                file(100 * MIB, 5),
                file(200 * MIB, 6),
                Resume,
                Onto::Replace,
            ),
        ];
        for (source, there, existing, expected) in table {
            let found = onto(&source, &there, existing, Some(MIB));
            assert_eq!(
                found, expected,
                "{} {existing:?} {}",
                source.size, there.size
            );
        }
        let other = |ftype| Fattr3 {
            ftype,
            ..file(1, 1)
        };
        // Of the size and not older, but its mode and time may have been still to come.
        let cut_off = onto(&file(9, 5), &file(9, 6), Resume, None);
        assert_eq!(cut_off, Onto::Replace);
        let onto_type = |ftype| onto(&file(9, 5), &other(ftype), Resume, Some(MIB));
        assert_eq!(onto_type(Ftype3::Lnk), Onto::Remove);
        assert_eq!(onto_type(Ftype3::Dir), Onto::InTheWay);
        assert_eq!(onto_type(Ftype3::Fifo), Onto::InTheWay);
    }

    #[test]
    fn coarse_times_are_the_same_times() {
        let at = |seconds, nseconds| Nfstime3 { seconds, nseconds };
        let source = at(5, 123_456_789);
        for same in [123_456_789, 123_456_700, 123_456_000, 0] {
            assert!(is_same_time(source, at(5, same)), "{same}");
        }
        for other in [
            at(5, 123_456_788),
            at(4, 123_456_789),
            at(6, 0),
            at(5, 123_000_000),
        ] {
            assert!(!is_same_time(source, other), "{other:?}");
        }
    }

    #[test]
    fn modes_and_owners() {
        let plain = Options::default();
        let keep = Options {
            preserve: Preserve::ALL,
            ..Options::default()
        };
        let source = file(1, 1);
        assert_eq!(first_mode(&source, &plain), 0o755);
        assert_eq!(first_mode(&source, &keep), 0o700);
        assert_eq!(last_attributes(&source, &source, true, &plain), None);
        let there = Fattr3 { uid: 0, ..source };
        let set = last_attributes(&source, &there, true, &keep).unwrap();
        assert_eq!((set.mode, set.uid, set.gid), (Some(0o4755), Some(5), None));
        assert_eq!(set.mtime, SetTime::ClientTime(source.mtime));
        let less = without_owner(&set);
        assert_eq!((less.mode, less.uid), (Some(0o755), None));
        // A directory that its maker could not write in is made with more, and gets its mode at last.
        let closed = Fattr3 {
            ftype: Ftype3::Dir,
            mode: 0o555,
            ..source
        };
        assert_eq!(first_dir_mode(&closed, &plain), 0o755);
        let set = last_attributes(&closed, &closed, true, &plain).unwrap();
        assert_eq!(set.mode, Some(0o555));
        assert_eq!(last_attributes(&closed, &closed, false, &plain), None);
    }

    proptest::proptest! {
        #[test]
        fn parts_and_zeros_are_the_whole(
            offset in 0_u64..20_000,
            blocks in proptest::collection::vec(proptest::bool::ANY, 0..20),
            cut in 0_usize..5000,
        ) {
            let block = SPARSE_BLOCK_BYTES;
            let mut data: Vec<u8> = blocks.iter().flat_map(|&full| vec![u8::from(full); block]).collect();
            data.truncate(data.len().saturating_sub(cut));
            let parts = without_zeros(offset, &data);
            let mut again = vec![0; data.len()];
            let mut end = 0;
            for (index, part) in parts.iter().enumerate() {
                proptest::prop_assert!(part.start < part.end && (index == 0 || part.start > end));
                end = part.end;
                again[part.clone()].copy_from_slice(&data[part.clone()]);
            }
            proptest::prop_assert_eq!(again, data);
        }
    }
}
