//! The table's file as redb reads and writes it.
//!
//! A database of redb that met one failed write answers nothing any more, also no read. A full state
//! directory must not take the objects away that are known, so a failure stays in here: from the
//! first write on that the disk does not take, this and all later ones are kept in memory. The file on
//! disk is then as after a crash at that moment, and redb goes on, on what it believes to be its
//! file. [`TableFile::failure`] tells: whoever commits asks it, and opens the file anew to try again.
//!
//! redb looks at checksums only when a database is opened, and may panic on what is damaged later. So
//! what was read or written once is known here by a hash, eight bytes for four KiB, and is an error when it
//! comes back otherwise.

use std::collections::BTreeMap;
use std::fs::File;
use std::hash::{BuildHasher as _, RandomState};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::sync::{Arc, OnceLock};

use parking_lot::{Mutex, RwLock};

/// Bytes are kept in pieces of this size, at multiples of it.
const PIECE_BYTES: usize = 4096;

/// The table's file as redb uses it, which keeps in memory what the disk does not take any more. Clones are
/// the same file.
#[derive(Clone, Debug)]
pub(super) struct TableFile {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    file: Arc<File>,
    failure: OnceLock<Arc<io::Error>>,
    /// What was written since the failure.
    kept: RwLock<Kept>,
    /// Hashes of the pieces of the file; 0 where none is known.
    sums: Mutex<Vec<u64>>,
    hasher: RandomState,
}

#[derive(Debug, Default)]
struct Kept {
    /// `None`: nothing has failed, all is in the file.
    len: Option<u64>,
    /// Where what is still good in the file ends, in bytes: less than its length once it was made shorter.
    file_end: u64,
    pieces: BTreeMap<u64, Box<[u8; PIECE_BYTES]>>,
}

impl TableFile {
    pub(super) fn new(file: Arc<File>) -> Self {
        let inner = Inner {
            file,
            failure: OnceLock::new(),
            kept: RwLock::default(),
            sums: Mutex::default(),
            hasher: RandomState::new(),
        };
        Self {
            inner: Arc::new(inner),
        }
    }

    /// Why what was written is not in the file; `None` while it is. Set before redb believes a commit done.
    pub(super) fn failure(&self) -> Option<Arc<io::Error>> {
        self.inner.failure.get().cloned()
    }
}

impl Inner {
    /// Takes note of a failed write: from now on all is kept in memory.
    fn fail(&self, kept: &mut Kept, error: io::Error) -> io::Result<()> {
        kept.file_end = self.file.metadata()?.len();
        kept.len = Some(kept.file_end);
        self.failure.get_or_init(|| Arc::new(error));
        Ok(())
    }

    fn sum(&self, piece: &[u8]) -> u64 {
        self.hasher.hash_one(piece).max(1)
    }

    /// Compares what was read with what it was, piece by piece.
    fn verify(&self, offset: u64, read: &[u8]) -> io::Result<()> {
        let mut sums = self.sums.lock();
        for (number, piece) in whole_pieces(offset, read) {
            let sum = self.sum(piece);
            if sums.len() <= number {
                sums.resize(number + 1, 0);
            }
            match sums.get_mut(number) {
                Some(known) if *known == 0 => *known = sum,
                Some(known) if *known == sum => {}
                _ => return Err(io::Error::other("it is not what was written there")),
            }
        }
        Ok(())
    }

    /// What is in the file now; of pieces that were written in part nothing is known.
    fn note_written(&self, offset: u64, written: &[u8]) {
        let mut sums = self.sums.lock();
        let end = offset.saturating_add(written.len() as u64);
        let touched = index(offset / PIECE_BYTES as u64)..index(end.div_ceil(PIECE_BYTES as u64));
        if sums.len() < touched.end {
            sums.resize(touched.end, 0);
        }
        for sum in sums.iter_mut().take(touched.end).skip(touched.start) {
            *sum = 0;
        }
        for (number, piece) in whole_pieces(offset, written) {
            if let Some(known) = sums.get_mut(number) {
                *known = self.sum(piece);
            }
        }
    }

    /// What redb takes the file for at `offset`: pieces in memory over the file, and zeros beyond it.
    fn read_through(&self, kept: &Kept, offset: u64, out: &mut [u8]) -> io::Result<()> {
        out.fill(0);
        let in_file = index(kept.file_end.saturating_sub(offset)).min(out.len());
        let mut done = 0;
        while let Some(rest) = out.get_mut(done..in_file).filter(|rest| !rest.is_empty()) {
            match self.file.read_at(rest, offset + done as u64) {
                Ok(0) => break,
                Ok(read) => done += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        for (at, piece) in overlapping(kept, offset, out.len()) {
            let skipped = at.saturating_sub(offset);
            let from = offset.saturating_sub(at);
            let here = out.iter_mut().skip(index(skipped));
            for (byte, kept) in here.zip(piece.iter().skip(index(from))) {
                *byte = *kept;
            }
        }
        Ok(())
    }
}

/// The pieces that lie wholly in `bytes`, which begin at `offset` of the file, with their numbers.
fn whole_pieces(offset: u64, bytes: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    let first = offset.div_ceil(PIECE_BYTES as u64);
    let skipped = index(first * PIECE_BYTES as u64 - offset);
    let pieces = bytes.get(skipped..).unwrap_or_default();
    (index(first)..).zip(pieces.chunks_exact(PIECE_BYTES))
}

/// Offsets in the table's file fit into memory's: it is far smaller.
fn index(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

fn overlapping(
    kept: &Kept,
    offset: u64,
    len: usize,
) -> impl Iterator<Item = (u64, &[u8; PIECE_BYTES])> {
    let first = offset - offset % PIECE_BYTES as u64;
    let pieces = kept.pieces.range(first..offset + len as u64);
    pieces.map(|(at, piece)| (*at, &**piece))
}

impl redb::StorageBackend for TableFile {
    fn len(&self) -> io::Result<u64> {
        match self.inner.kept.read().len {
            Some(len) => Ok(len),
            None => Ok(self.inner.file.metadata()?.len()),
        }
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let kept = self.inner.kept.read();
        match kept.len {
            None => {
                self.inner.file.read_exact_at(out, offset)?;
                self.inner.verify(offset, out)
            }
            Some(len) if offset.saturating_add(out.len() as u64) > len => {
                Err(io::ErrorKind::UnexpectedEof.into())
            }
            Some(_) => self.inner.read_through(&kept, offset, out),
        }
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut kept = self.inner.kept.write();
        if kept.len.is_none() {
            let Err(error) = self.inner.file.set_len(len) else {
                let mut sums = self.inner.sums.lock();
                sums.truncate(index(len / PIECE_BYTES as u64));
                return Ok(());
            };
            self.inner.fail(&mut kept, error)?;
        }
        kept.len = Some(len);
        kept.file_end = kept.file_end.min(len);
        kept.pieces.retain(|at, _| *at < len);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut kept = self.inner.kept.write();
        if kept.len.is_none()
            && let Err(error) = self.inner.file.sync_data()
        {
            self.inner.fail(&mut kept, error)?;
        }
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut kept = self.inner.kept.write();
        if kept.len.is_none() {
            let Err(error) = self.inner.file.write_all_at(data, offset) else {
                self.inner.note_written(offset, data);
                return Ok(());
            };
            self.inner.fail(&mut kept, error)?;
        }
        let end = offset + data.len() as u64;
        let mut at = offset - offset % PIECE_BYTES as u64;
        while at < end {
            let mut piece = Box::new([0; PIECE_BYTES]);
            self.inner.read_through(&kept, at, &mut *piece)?;
            let from = index(offset.saturating_sub(at));
            let source = data.iter().skip(index(at.saturating_sub(offset)));
            for (kept, byte) in piece.iter_mut().skip(from).zip(source) {
                *kept = *byte;
            }
            kept.pieces.insert(at, piece);
            at += PIECE_BYTES as u64;
        }
        kept.len = kept.len.max(Some(end));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use redb::StorageBackend as _;

    use super::*;

    #[test]
    fn what_comes_back_otherwise_is_an_error() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        std::fs::write(&path, vec![1; 16_384]).unwrap();
        let options = File::options().read(true).write(true).open(&path);
        let raw = Arc::new(options.unwrap());
        let file = TableFile::new(Arc::clone(&raw));
        let read = |offset: u64, len: usize| file.read(offset, &mut vec![0; len]);
        read(0, 16_384).unwrap();
        // Written in part: nothing is known of it until it is read again.
        file.write(4100, &[7; 10]).unwrap();
        read(4096, 8192).unwrap();
        file.write(8192, &[8; 4096]).unwrap();
        read(0, 16_384).unwrap();
        for (at, whole) in [(5000, 4096), (9000, 8192), (3, 0)] {
            let byte = std::fs::read(&path).unwrap()[at];
            raw.write_all_at(&[byte ^ 1], at as u64).unwrap();
            assert!(read(whole, 4096).is_err(), "{at}");
            raw.write_all_at(&[byte], at as u64).unwrap();
            read(whole, 4096).unwrap();
        }
        file.set_len(4096).unwrap();
        file.set_len(16_384).unwrap();
        read(0, 16_384).unwrap();
    }

    #[test]
    fn what_the_disk_does_not_take_is_kept_in_memory() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        std::fs::write(&path, vec![1; 10_000]).unwrap();
        // Opened for reading only: every write fails.
        let file = TableFile::new(Arc::new(File::open(&path).unwrap()));
        assert!(file.failure().is_none());
        file.write(4090, &[2; 10]).unwrap();
        assert!(file.failure().is_some());
        file.set_len(20_000).unwrap();
        file.write(12_000, &[3; 5000]).unwrap();
        file.sync_data().unwrap();
        assert_eq!(file.len().unwrap(), 20_000);
        let mut expected = vec![1; 10_000];
        expected.resize(20_000, 0);
        expected[4090..4100].fill(2);
        expected[12_000..17_000].fill(3);
        for (offset, len) in [
            (0, 20_000),
            (4089, 12),
            (4095, 2),
            (11_999, 3),
            (16_990, 30),
        ] {
            let mut read = vec![9; len];
            file.read(offset as u64, &mut read).unwrap();
            assert_eq!(read, expected[offset..offset + len], "{len} at {offset}");
        }
        assert!(file.read(19_999, &mut [0; 2]).is_err());
        assert_eq!(std::fs::read(&path).unwrap(), vec![1; 10_000]);
    }
}
