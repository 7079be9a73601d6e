//! A file that is read, written, cut and opened again at random, beside a copy in memory that says what
//! has to be in it.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use fastrand::Rng;

/// Longest the file gets, bytes: more than one transfer.
const LEN_MAX: u64 = 3 * 1024 * 1024;

/// Longest single read or write, bytes.
const PIECE_MAX: u64 = 1500 * 1024;

/// A length of any order of magnitude, small and large equally often.
fn len(random: &mut Rng) -> u64 {
    let bits = random.u64(..21);
    random.u64(..1 << bits).min(PIECE_MAX) + 1
}

/// The file, opened through each of several mounts' paths in turn, and what is in it.
pub(crate) struct Model {
    paths: Vec<PathBuf>,
    file: File,
    content: Vec<u8>,
    random: Rng,
    fill: u8,
}

impl Model {
    /// An empty file that is reached by each of `paths`.
    pub(crate) fn new(paths: &[&Path], seed: u64) -> Self {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(paths[0])
            .unwrap();
        Self {
            paths: paths.iter().map(|path| path.to_path_buf()).collect(),
            file,
            content: Vec::new(),
            random: Rng::with_seed(seed),
            fill: 0,
        }
    }

    /// Does one thing and looks whether it was done.
    pub(crate) fn step(&mut self) {
        match self.random.u64(..20) {
            0 => self.cut(),
            1 => self.open_again(),
            2 => self.file.sync_all().unwrap(),
            3 => assert_eq!(self.file.metadata().unwrap().len(), self.size()),
            4..12 => self.write(),
            _ => self.read(),
        }
    }

    /// Compares the whole file with what it has to hold.
    pub(crate) fn compare(&mut self) {
        self.open_again();
        let end = usize::try_from(self.size()).unwrap();
        self.compare_part(0, end);
    }

    fn size(&self) -> u64 {
        self.content.len() as u64
    }

    fn write(&mut self) {
        let len = len(&mut self.random);
        let at = self.random.u64(..LEN_MAX - len);
        self.fill = self.fill.wrapping_add(1);
        let data: Vec<u8> = (0..len).map(|i| self.fill ^ (i % 251) as u8).collect();
        self.file.write_all_at(&data, at).unwrap();
        let (start, end) = (at as usize, (at + len) as usize);
        if self.content.len() < end {
            self.content.resize(end, 0);
        }
        self.content[start..end].copy_from_slice(&data);
    }

    fn read(&mut self) {
        let at = self.random.u64(..LEN_MAX) as usize;
        let len = len(&mut self.random) as usize;
        self.compare_part(at, len);
    }

    fn compare_part(&self, at: usize, len: usize) {
        let end = (at + len).min(self.content.len());
        let expected = self.content.get(at..end).unwrap_or_default();
        let mut data = vec![0; len];
        let mut have = 0;
        while have < len {
            match self
                .file
                .read_at(&mut data[have..], (at + have) as u64)
                .unwrap()
            {
                0 => break,
                more => have += more,
            }
        }
        assert_eq!(have, expected.len(), "length of {len} bytes read at {at}");
        let wrong = expected.iter().zip(&data).position(|(a, b)| a != b);
        assert_eq!(wrong, None, "first wrong byte of {len} read at {at}");
    }

    fn cut(&mut self) {
        let len = self.random.u64(..LEN_MAX);
        self.file.set_len(len).unwrap();
        self.content.resize(len as usize, 0);
    }

    fn open_again(&mut self) {
        let turn = self.random.u64(..self.paths.len() as u64) as usize;
        // Closed first: only then is it for others to see.
        self.file = File::open("/dev/null").unwrap();
        let path = &self.paths[turn];
        self.file = OpenOptions::new()
            .read(true)
            .write(true)
            .open(path)
            .unwrap();
        assert_eq!(self.file.metadata().unwrap().len(), self.size());
    }
}
