//! One file that two NFS clients and a program on the server's own machine write at the same time, each
//! its own records, while all of them read everything. The clients' WRITEs and READs travel in different
//! I/O modes; no byte may be anything but what its owner wrote there.
//!
//! Records are 47008 bytes long, so neighbours of different owners share a page. An owner writes its
//! records again and again, and marks each time with another tag, a few in turn. A reader knows its own
//! records exactly. Of the others' it knows which tags there are: a byte that has none of them at this
//! place is not the file's.

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;

use anyhow::{Context, Result, ensure};
use fastrand::Rng;
use nfs_lab::pattern;

/// Name of the file, in the directory that all owners share.
pub(crate) const FILE: &str = "duel";
/// The owners: two clients, and the local program.
pub(crate) const OWNERS: u64 = 3;
/// Number of the owner that is the local program; the clients are 0 and 1.
pub(crate) const LOCAL: u64 = 2;

const RECORD: u64 = 47_008;
const RECORDS: u64 = 24;
/// Tags that an owner uses in turn before its last one.
const TURNS: u64 = 4;

/// Length of the whole file in bytes.
pub(crate) const LENGTH: u64 = RECORD * RECORDS;

/// The tags that have to be found in the records of one owner.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Expected {
    /// Any of the owner's tags, also mixed, and zeros from before its first write.
    Any,
    /// The tag that the owner writes in this round.
    Round(u64),
    /// The tag that the owner writes last of all.
    Last,
}

const fn tag(owner: u64, turn: u64) -> u64 {
    7_000 + owner * 100 + turn
}

impl Expected {
    /// The tags that may be there; 0 stands for zeros.
    fn tags(self, owner: u64) -> Vec<u64> {
        match self {
            Self::Any => {
                let all = (0..=TURNS).map(|turn| tag(owner, turn));
                std::iter::once(0).chain(all).collect()
            }
            Self::Round(round) => vec![tag(owner, round % TURNS)],
            Self::Last => vec![tag(owner, TURNS)],
        }
    }
}

/// Writes all records of `owner`, in a random order, by `write`, which gets an offset and the bytes. `round`
/// is `None` for the owner's last time.
///
/// # Errors
/// Those of `write`.
pub(crate) fn write_round(
    owner: u64,
    round: Option<u64>,
    random: &mut Rng,
    mut write: impl FnMut(u64, &[u8]) -> Result<()>,
) -> Result<()> {
    let mut own: Vec<u64> = (0..RECORDS).filter(|i| i % OWNERS == owner).collect();
    while !own.is_empty() {
        let record = own.swap_remove(random.usize(..own.len()));
        let offset = record * RECORD;
        let turn = round.map_or(TURNS, |round| round % TURNS);
        let data = pattern::bytes(tag(owner, turn), offset, RECORD as usize);
        write(offset, &data).with_context(|| format!("write record {record} of {owner}"))?;
    }
    Ok(())
}

/// Compares `found`, read at `offset`, with what each owner's records may be.
///
/// # Errors
/// The first byte that is wrong.
pub(crate) fn check(
    offset: u64,
    found: &[u8],
    expected: [Expected; OWNERS as usize],
) -> Result<()> {
    let end = offset + found.len() as u64;
    for record in offset / RECORD..end.div_ceil(RECORD) {
        let owner = record % OWNERS;
        let range = (record * RECORD).max(offset)..((record + 1) * RECORD).min(end);
        let part = &found[(range.start - offset) as usize..(range.end - offset) as usize];
        let expected = expected[owner as usize];
        if let Some(at) = first_wrong(&range, part, &expected.tags(owner)) {
            let byte = found[(at - offset) as usize];
            ensure!(
                false,
                "byte {at} (record {record} of owner {owner}) is {byte:#x}, should be {expected:?}; read of \
                 {} at {offset}",
                found.len()
            );
        }
    }
    Ok(())
}

fn first_wrong(range: &Range<u64>, found: &[u8], tags: &[u64]) -> Option<u64> {
    let mut candidates = Vec::new();
    for tag in tags {
        let bytes = match tag {
            0 => vec![0; found.len()],
            _ => pattern::bytes(*tag, range.start, found.len()),
        };
        if bytes == found {
            return None;
        }
        candidates.push(bytes);
    }
    let fits = |i: usize, byte: u8| candidates.iter().any(|bytes| bytes[i] == byte);
    let wrong = found.iter().enumerate().find(|(i, byte)| !fits(*i, **byte));
    wrong.map(|(i, _)| range.start + i as u64)
}

/// Reads a random part of the file and compares it.
///
/// # Errors
/// When reading fails, or a byte is wrong.
pub(crate) fn read_some(
    file: &File,
    random: &mut Rng,
    expected: [Expected; OWNERS as usize],
) -> Result<()> {
    let offset = random.u64(..LENGTH);
    let len = (1 + random.u64(..3 * RECORD)).min(LENGTH - offset);
    let mut found = vec![0; len as usize];
    file.read_exact_at(&mut found, offset)
        .with_context(|| format!("read {len} at {offset}"))?;
    check(offset, &found, expected)
}

/// Reads the whole file and compares it.
///
/// # Errors
/// When reading fails, the file has another length, or a byte is wrong.
pub(crate) fn read_all(file: &File, expected: [Expected; OWNERS as usize]) -> Result<()> {
    let mut found = vec![0; LENGTH as usize + 1];
    let mut len = 0;
    loop {
        match file.read_at(&mut found[len..], len as u64)? {
            0 => break,
            n => len += n,
        }
    }
    ensure!(len as u64 == LENGTH, "{len} bytes, should be {LENGTH}");
    check(0, &found[..len], expected)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_foreign_byte_is_seen_and_an_owners_older_one_only_where_it_is_known() -> Result<()> {
        let mut file = vec![0; LENGTH as usize];
        let mut random = Rng::with_seed(1);
        for owner in 0..OWNERS {
            write_round(owner, Some(5), &mut random, |offset, data| {
                file[offset as usize..offset as usize + data.len()].copy_from_slice(data);
                Ok(())
            })?;
        }
        check(0, &file, [Expected::Round(5); 3])?;
        check(100, &file[100..200_000], [Expected::Any; 3])?;
        assert!(check(0, &file, [Expected::Round(6); 3]).is_err());
        assert!(
            check(
                0,
                &file,
                [Expected::Round(9), Expected::Any, Expected::Last]
            )
            .is_err()
        );
        let at = RECORD as usize * 2 - 1;
        file[at] = 0;
        check(0, &file, [Expected::Any; 3])?;
        // The byte that belongs one place further on.
        file[at] = file[at - 1];
        let wrong = check(0, &file, [Expected::Any; 3]);
        assert!(wrong.is_err_and(|error| error.to_string().contains(&at.to_string())));
        Ok(())
    }
}
