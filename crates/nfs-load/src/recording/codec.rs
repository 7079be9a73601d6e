//! The records of a recording as bytes: pure, and without panics whatever the bytes are.

use super::{Call, End, Entry};
use crate::limits::RECORDING_ENTRY_BYTES_MAX;

const CALL: u8 = 1;
const LOST: u8 = 2;
const END: u8 = 3;

const FOLLOWS: u64 = 1;
const ON: u64 = 1 << 1;
const NAME: u64 = 1 << 2;
const TO: u64 = 1 << 3;
const TO_NAME: u64 = 1 << 4;
const RANGE: u64 = 1 << 5;
const HOW: u64 = 1 << 6;
const MOVED: u64 = 1 << 7;

/// A record that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Record {
    Entry(Entry),
    End(End),
    /// Of a kind that a later version has.
    Unknown,
}

/// Appends a call, its length first; `before_ns` is when the one before it began.
pub(super) fn put_call(out: &mut Vec<u8>, call: &Call, before_ns: i64) {
    record(out, |out| {
        out.push(CALL);
        let flag = |is_set: bool, flag: u64| if is_set { flag } else { 0 };
        let flags = flag(call.follows, FOLLOWS)
            | flag(call.on.is_some(), ON)
            | flag(call.name.is_some(), NAME)
            | flag(call.to.is_some(), TO)
            | flag(call.to_name.is_some(), TO_NAME)
            | flag(call.range.is_some(), RANGE)
            | flag(call.how.is_some(), HOW)
            | flag(call.moved.is_some(), MOVED);
        put(out, flags);
        out.push(call.version);
        put(out, call.number.into());
        put(out, zigzag(call.at_ns.wrapping_sub(before_ns)));
        put(out, call.took_ns);
        out.extend_from_slice(&call.client.to_le_bytes());
        out.extend_from_slice(&call.connection.to_le_bytes());
        put(out, call.status.into());
        for object in [call.on, call.name, call.to, call.to_name] {
            out.extend(object.iter().flat_map(|object| object.to_le_bytes()));
        }
        if let Some((offset, len)) = call.range {
            put(out, offset);
            put(out, len);
        }
        if let Some(how) = call.how {
            put(out, how.into());
        }
        if let Some(moved) = call.moved {
            put(out, moved);
        }
    });
}

/// Appends that so many calls are missing.
pub(super) fn put_lost(out: &mut Vec<u8>, lost: u64) {
    record(out, |out| {
        out.push(LOST);
        put(out, lost);
    });
}

/// Appends the end.
pub(super) fn put_end(out: &mut Vec<u8>, end: End) {
    let reason = match end {
        End::Asked => 0,
        End::Full => 1,
        End::Server => 2,
        // Such a file has no such record.
        End::Cut => return,
    };
    record(out, |out| out.extend_from_slice(&[END, reason]));
}

fn record(out: &mut Vec<u8>, fields: impl FnOnce(&mut Vec<u8>)) {
    let at = out.len();
    out.push(0);
    fields(out);
    let len = out.len() - at - 1;
    debug_assert!(len <= RECORDING_ENTRY_BYTES_MAX, "{len} bytes");
    if let (Some(place), Ok(len)) = (out.get_mut(at), u8::try_from(len)) {
        *place = len;
    }
}

/// Reads a record without its length.
///
/// # Errors
/// What is wrong with it, in words.
pub(super) fn record_of(bytes: &[u8], before_ns: i64) -> Result<Record, &'static str> {
    let mut fields = Fields(bytes);
    Ok(match fields.byte()? {
        CALL => Record::Entry(Entry::Call(fields.call(before_ns)?)),
        LOST => Record::Entry(Entry::Lost(fields.number()?)),
        END => Record::End(match fields.byte()? {
            1 => End::Full,
            2 => End::Server,
            // What a later version may say in more detail.
            _ => End::Asked,
        }),
        _ => Record::Unknown,
    })
}

struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn call(&mut self, before_ns: i64) -> Result<Call, &'static str> {
        let flags = self.number()?;
        let has = |flag: u64| flags & flag != 0;
        let mut call = Call {
            follows: has(FOLLOWS),
            version: self.byte()?,
            number: self.short()?,
            at_ns: before_ns.wrapping_add(unzigzag(self.number()?)),
            took_ns: self.number()?,
            client: u32::from_le_bytes(self.array()?),
            connection: u32::from_le_bytes(self.array()?),
            status: self.short()?,
            ..Call::default()
        };
        let objects = [
            (ON, &mut call.on),
            (NAME, &mut call.name),
            (TO, &mut call.to),
            (TO_NAME, &mut call.to_name),
        ];
        for (flag, object) in objects {
            if has(flag) {
                *object = Some(u64::from_le_bytes(self.array()?));
            }
        }
        if has(RANGE) {
            call.range = Some((self.number()?, self.number()?));
        }
        if has(HOW) {
            call.how = Some(self.short()?);
        }
        if has(MOVED) {
            call.moved = Some(self.number()?);
        }
        Ok(call)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], &'static str> {
        let (array, rest) = self.0.split_first_chunk().ok_or("a record is too short")?;
        self.0 = rest;
        Ok(*array)
    }

    fn byte(&mut self) -> Result<u8, &'static str> {
        self.array().map(|[byte]| byte)
    }

    /// A number in LEB128.
    fn number(&mut self) -> Result<u64, &'static str> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                break;
            }
            number |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err("a number has more than 64 bits")
    }

    fn short(&mut self) -> Result<u32, &'static str> {
        u32::try_from(self.number()?).map_err(|_| "a number has more than 32 bits")
    }
}

fn put(out: &mut Vec<u8>, mut number: u64) {
    loop {
        let [low, ..] = number.to_le_bytes();
        number >>= 7;
        if number == 0 {
            out.push(low & 0x7f);
            return;
        }
        out.push(low | 0x80);
    }
}

/// A difference, small ones of either sign as small numbers.
const fn zigzag(difference: i64) -> u64 {
    ((difference << 1) ^ (difference >> 63)).cast_unsigned()
}

const fn unzigzag(number: u64) -> i64 {
    (number >> 1).cast_signed() ^ -(number & 1).cast_signed()
}
