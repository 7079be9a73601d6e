//! Ends of direct writes that are held: whatever is written, taken out, put back and cut in whatever order, the file
//! and what is held of it are together what was written last, byte for byte, and no byte more.
#![no_main]

use std::ops::Range;

use libfuzzer_sys::fuzz_target;
use nfs_io::staging::{End, Obstacle, Staging, Taken, Which};

const BLOCK: usize = 16;
const FILE: usize = 16 * BLOCK;
const ALL: Range<u64> = 0..u64::MAX;

type Held = Taken<Vec<u8>, u8>;

struct World {
    staging: Staging<Vec<u8>, u8>,
    file: Vec<u8>,
    /// What was written, last come last.
    written: Vec<u8>,
    /// Taken out, and not in the file yet.
    under_way: Vec<Held>,
}

fuzz_target!(|data: &[u8]| {
    let mut world = World {
        staging: Staging::new(BLOCK),
        file: Vec::new(),
        written: Vec::new(),
        under_way: Vec::new(),
    };
    for step in data.chunks_exact(4) {
        world.step([step[0], step[1], step[2], step[3]]);
    }
    world.settle(&ALL);
    assert!(world.staging.is_idle());
    assert_eq!(world.file, world.written);
});

impl World {
    fn step(&mut self, [what, at, len, value]: [u8; 4]) {
        let start = usize::from(at) % FILE;
        let end = (start + usize::from(len) % (4 * BLOCK)).min(FILE);
        let range = start as u64..end as u64;
        match what % 8 {
            0..=3 => self.write(range, value, what & 0x80 == 0),
            4 => {
                let moment = self.staging.moment();
                let taken = self.staging.take(&range, Which::Before(moment));
                self.under_way.extend(taken);
            }
            5 => {
                let taken = self.staging.take(&range, Which::HeldSince(u64::from(value)));
                self.under_way.extend(taken);
            }
            6 => {
                // It failed, perhaps half-way.
                if let Some(mut taken) = self.under_way.pop() {
                    if value % 2 == 0 {
                        put(&mut self.file, &mut taken);
                    }
                    self.staging.restore(taken);
                }
            }
            _ => {
                self.staging.pause();
                self.settle(&ALL);
                assert_eq!(self.staging.blocks(), 0);
                self.file.resize(start, 0);
                self.written.resize(start, 0);
                self.staging.resume();
            }
        }
        let shown = self.file.len().max(self.staging.end().0 as usize);
        assert_eq!(shown, self.written.len());
    }

    fn write(&mut self, range: Range<u64>, value: u8, has_memory: bool) {
        if range.is_empty() {
            return;
        }
        let data = vec![value; (range.end - range.start) as usize];
        let now = u64::from(value);
        let placed = loop {
            let memory = || has_memory.then(|| vec![0xDB; BLOCK]);
            match self.staging.write(range.start, &data, &value, now, memory) {
                Ok(placed) => break Some(placed),
                Err(Obstacle::NoMiddle | Obstacle::Paused) => {
                    self.settle(&range);
                    break None;
                }
                Err(Obstacle::UnderWay | Obstacle::Covers) => self.settle(&range),
            }
        };
        store(&mut self.written, range.start as usize, &data);
        let Some(placed) = placed else {
            return store(&mut self.file, range.start as usize, &data);
        };
        let (front, back) = placed.of_others(&range);
        let own = range.start.max(placed.run.start)..range.end.min(placed.run.end);
        let own = vec![value; (own.end - own.start) as usize];
        let run = [front, &own, back].concat();
        assert_eq!(run.len() as u64, placed.run.end - placed.run.start);
        assert_eq!(placed.run.start % BLOCK as u64, 0);
        assert_eq!(placed.run.end % BLOCK as u64, 0);
        store(&mut self.file, placed.run.start as usize, &run);
        for (end, part) in [
            (placed.head, range.start..placed.run.start),
            (placed.tail, placed.run.end..range.end),
        ] {
            if end == End::Refused {
                let data = vec![value; (part.end - part.start) as usize];
                store(&mut self.file, part.start as usize, &data);
            }
        }
        self.staging.done(placed.taken);
        self.staging.accepted(range.end);
    }

    /// Has everything written that is held of a range, after what is under way.
    fn settle(&mut self, range: &Range<u64>) {
        let moment = self.staging.moment();
        let taken = self.staging.take(range, Which::Before(moment));
        self.under_way.extend(taken);
        for mut taken in std::mem::take(&mut self.under_way) {
            put(&mut self.file, &mut taken);
            self.staging.done(taken);
        }
        assert!(!self.staging.is_under_way(&ALL, u64::MAX));
    }
}

fn put(file: &mut Vec<u8>, taken: &mut Held) {
    for (start, block) in taken.blocks_mut() {
        let bytes = block.memory_mut().clone();
        for (part, _) in block.parts() {
            store(file, start as usize + part.start, &bytes[part]);
        }
    }
}

fn store(file: &mut Vec<u8>, at: usize, bytes: &[u8]) {
    let end = at + bytes.len();
    if file.len() < end {
        file.resize(end, 0);
    }
    file[at..end].copy_from_slice(bytes);
}
