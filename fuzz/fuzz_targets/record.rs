//! A byte stream gives the same records, however it is cut into pieces, and keeps to its limits.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nfs_wire::record::{RecordAssembler, RecordError, RecordLimits};

const LIMITS: RecordLimits = RecordLimits {
    record_bytes_max: 1000,
    fragments_max: 10,
};

fuzz_target!(|data: &[u8]| {
    let Some((piece_len, stream)) = data.split_first() else {
        return;
    };
    let piece_len = usize::from(*piece_len).max(1);
    let whole = assemble(&mut std::iter::once(stream));
    let pieces = assemble(&mut stream.chunks(piece_len));
    assert_eq!(whole, pieces);
});

fn assemble<'a>(pieces: &mut dyn Iterator<Item = &'a [u8]>) -> (Vec<Vec<u8>>, Option<RecordError>) {
    let mut assembler = RecordAssembler::new(LIMITS);
    let mut records = Vec::new();
    for mut piece in pieces {
        loop {
            match assembler.feed(&mut piece) {
                Ok(Some(record)) => {
                    assert!(record.len() <= LIMITS.record_bytes_max);
                    records.push(record);
                }
                Ok(None) => break assert!(piece.is_empty()),
                Err(error) => return (records, Some(error)),
            }
        }
    }
    (records, None)
}
