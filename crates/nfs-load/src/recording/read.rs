//! A recording as it is read: one record after the other, in memory of fixed size, whatever the file holds.

use std::io::{self, BufRead, BufReader, Read};

use super::codec::{self, Record};
use super::{End, Entry, Header, MAGIC, VERSION};
use crate::limits::RECORDING_ENTRY_BYTES_MAX;

/// Why a recording cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum RecordingError {
    /// The file is something else.
    #[error("no recording of penstock: name a file that `penstock trace record` wrote")]
    Foreign,
    /// A later version of the program wrote it.
    #[error(
        "the recording has form {0}, and this program knows none behind {VERSION}: use the penstock that wrote it, or a newer one"
    )]
    Newer(u16),
    /// The file ends within its beginning.
    #[error("the recording ends within its first {0} bytes: it was cut off; record again")]
    NoHeader(u64),
    /// Some bytes are not what they were.
    #[error(
        "the recording is damaged at byte {at} ({what}): copy it again, or keep what is good with `head -c {at} FILE > NEW`"
    )]
    Damaged {
        /// Where the record that is damaged begins, in bytes from the file's beginning.
        at: u64,
        /// What is wrong with it.
        what: &'static str,
    },
    /// The file cannot be read.
    #[error("cannot read the recording: {0}")]
    Io(#[from] io::Error),
}

/// Reads a recording.
#[derive(Debug)]
pub struct Reader<R> {
    input: BufReader<R>,
    header: Header,
    at: u64,
    before_ns: i64,
    end: Option<End>,
}

impl<R: Read> Reader<R> {
    /// Reads the beginning.
    ///
    /// # Errors
    /// It is no recording, or none that this version knows.
    pub fn new(input: R) -> Result<Self, RecordingError> {
        let mut input = BufReader::new(input);
        let magic: [u8; 8] = array(&mut input)?.ok_or(RecordingError::Foreign)?;
        if magic != MAGIC {
            return Err(RecordingError::Foreign);
        }
        let mut at = magic.len() as u64;
        let mut word = |input: &mut BufReader<R>| -> Result<u16, RecordingError> {
            at += 2;
            let bytes = array(input)?.ok_or(RecordingError::NoHeader(at))?;
            Ok(u16::from_le_bytes(bytes))
        };
        let version = word(&mut input)?;
        if version > VERSION {
            return Err(RecordingError::Newer(version));
        }
        let len = word(&mut input)?;
        let mut rest = vec![0; len.into()];
        at += u64::from(len);
        if !filled(&mut input, &mut rest)? {
            return Err(RecordingError::NoHeader(at));
        }
        let header = header_of(&rest).ok_or(RecordingError::Damaged {
            at: 0,
            what: "its beginning is too short",
        })?;
        Ok(Self {
            input,
            header,
            at,
            before_ns: 0,
            end: None,
        })
    }

    /// What is known of the whole.
    pub const fn header(&self) -> &Header {
        &self.header
    }

    /// The next record; `None` at the end, which [`Reader::end`] tells of then.
    ///
    /// # Errors
    /// The file is damaged, or cannot be read.
    pub fn next_entry(&mut self) -> Result<Option<Entry>, RecordingError> {
        while self.end.is_none() {
            let mut bytes = [0; RECORDING_ENTRY_BYTES_MAX];
            let Some(record) = self.record(&mut bytes)? else {
                self.end = Some(End::Cut);
                break;
            };
            let len = record.len() as u64;
            let read = codec::record_of(record, self.before_ns);
            let at = self.at;
            match read.map_err(|what| RecordingError::Damaged { at, what })? {
                Record::Entry(entry) => {
                    self.at += 1 + len;
                    if let Entry::Call(call) = &entry {
                        self.before_ns = call.at_ns;
                    }
                    return Ok(Some(entry));
                }
                Record::End(end) => self.end = Some(end),
                Record::Unknown => self.at += 1 + len,
            }
        }
        Ok(None)
    }

    /// Why there are no more records; `None` while there may be.
    pub const fn end(&self) -> Option<End> {
        self.end
    }

    /// The bytes of the next record; `None` where the file ends before or within it.
    fn record<'a>(
        &mut self,
        bytes: &'a mut [u8; RECORDING_ENTRY_BYTES_MAX],
    ) -> Result<Option<&'a [u8]>, RecordingError> {
        let Some([len]) = array(&mut self.input)? else {
            return Ok(None);
        };
        let place = bytes.get_mut(..len.into()).unwrap_or_default();
        Ok(filled(&mut self.input, place)?.then_some(place))
    }
}

fn header_of(rest: &[u8]) -> Option<Header> {
    let (began, rest) = rest.split_first_chunk()?;
    let (len, rest) = rest.split_first()?;
    let server = rest.get(..usize::from(*len))?;
    Some(Header {
        began_ns: u64::from_le_bytes(*began),
        server: String::from_utf8_lossy(server).into_owned(),
    })
}

/// The next bytes; `None` where the file ends first.
fn array<const N: usize>(input: &mut impl BufRead) -> io::Result<Option<[u8; N]>> {
    let mut bytes = [0; N];
    Ok(filled(input, &mut bytes)?.then_some(bytes))
}

/// Fills `place`, if the file does not end before.
fn filled(input: &mut impl BufRead, place: &mut [u8]) -> io::Result<bool> {
    match input.read_exact(place) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}
