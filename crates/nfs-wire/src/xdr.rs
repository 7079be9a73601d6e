//! XDR, the external data representation (RFC 4506).

pub(crate) mod define;

use crate::limits::ARRAY_ENTRIES_MAX;

/// Reads XDR from a slice, from front to back. Never reads past it, and allocates only for lists.
#[derive(Clone, Debug)]
pub struct Decoder<'a> {
    rest: &'a [u8],
    position: usize,
    /// Where data is missing from the bytes, because it was received to a place of its own.
    hole: Option<usize>,
}

/// Opaque data that may be long: where it is.
///
/// A server receives what is written to a file, and sends what was read from it, apart from the message
/// that it belongs to. Both ends of a message so read and write the same type, with the data or without.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Payload<'a> {
    /// The data stands in the message.
    Here(&'a [u8]),
    /// The message has only the data's length. The data itself, `len` bytes and their padding, belongs
    /// just behind that.
    Apart {
        /// Bytes of the data, without padding.
        len: u32,
    },
}

/// Appends XDR to a vector.
#[derive(Debug)]
pub struct Encoder<'v> {
    out: &'v mut Vec<u8>,
}

/// What can be read from XDR.
pub trait Decode<'a>: Sized {
    /// Reads one value from the front of what is left.
    ///
    /// # Errors
    /// [`DecodeError`] names the field and what is wrong with it; the decoder's position is then of
    /// no use.
    fn decode(d: &mut Decoder<'a>) -> Result<Self, DecodeError>;
}

/// What can be written as XDR.
pub trait Encode {
    /// Appends the value to what the encoder has.
    fn encode(&self, e: &mut Encoder<'_>);
}

/// Why bytes are not the message they should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The bytes end within a field.
    #[error("the message ends within {field}")]
    Missing {
        /// The field's name in the RFC.
        field: &'static str,
    },
    /// A length is beyond the field's limit.
    #[error("{field} is {len} bytes or entries long; at most {max} are allowed")]
    TooLong {
        /// The field's name in the RFC.
        field: &'static str,
        /// The length in the message.
        len: u32,
        /// The most that the field may have.
        max: usize,
    },
    /// A value is none of those that the protocol defines.
    #[error("{field} is {value}, which the protocol does not define")]
    BadValue {
        /// The field's name in the RFC.
        field: &'static str,
        /// The value in the message.
        value: u32,
    },
    /// Bytes are left after the message.
    #[error("{left} bytes are left after the message")]
    Trailing {
        /// How many bytes there are too many.
        left: usize,
    },
}

impl DecodeError {
    /// Gives an error about a bare number the name of the field that holds it.
    pub(crate) fn within(self, name: &'static str) -> Self {
        match self {
            Self::Missing { field } if is_bare(field) => Self::Missing { field: name },
            Self::BadValue { field, value } if is_bare(field) => {
                Self::BadValue { field: name, value }
            }
            error => error,
        }
    }
}

const BARE: [&str; 7] = [
    "unsigned int",
    "unsigned hyper",
    "int",
    "hyper",
    "bool",
    "opaque",
    "array",
];

fn is_bare(field: &str) -> bool {
    BARE.contains(&field)
}

impl<'a> Decoder<'a> {
    /// Starts at the front of `bytes`.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self {
            rest: bytes,
            position: 0,
            hole: None,
        }
    }

    /// Starts at the front of a message that was received without one [`Payload`]: the data belongs before
    /// `bytes[at]`, its padding too.
    #[must_use]
    pub fn with_hole(bytes: &'a [u8], at: usize) -> Self {
        Self {
            hole: Some(at),
            ..Self::new(bytes)
        }
    }

    /// Reads an unsigned 32-bit integer (RFC 4506 §4.2).
    ///
    /// # Errors
    /// When fewer than four bytes are left.
    pub fn u32(&mut self, field: &'static str) -> Result<u32, DecodeError> {
        self.array(field).map(u32::from_be_bytes)
    }

    /// Reads an unsigned 64-bit integer (RFC 4506 §4.5).
    ///
    /// # Errors
    /// When fewer than eight bytes are left.
    pub fn u64(&mut self, field: &'static str) -> Result<u64, DecodeError> {
        self.array(field).map(u64::from_be_bytes)
    }

    /// Reads a boolean (RFC 4506 §4.4).
    ///
    /// # Errors
    /// When it is neither 0 nor 1, or missing.
    pub fn bool(&mut self, field: &'static str) -> Result<bool, DecodeError> {
        match self.u32(field)? {
            0 => Ok(false),
            1 => Ok(true),
            value => Err(DecodeError::BadValue { field, value }),
        }
    }

    /// Reads fixed-length opaque data with its padding (RFC 4506 §4.9).
    ///
    /// # Errors
    /// When the bytes end within it.
    pub fn opaque_fixed<const N: usize>(
        &mut self,
        field: &'static str,
    ) -> Result<[u8; N], DecodeError> {
        let value = self.array(field)?;
        self.take(padding(N), field)?;
        Ok(value)
    }

    /// Reads variable-length opaque data of at most `max` bytes with its padding (RFC 4506 §4.10).
    /// What the padding holds does not matter: some peers send other bytes than zero.
    ///
    /// # Errors
    /// When the length is beyond `max`, or the bytes end within it.
    pub fn opaque(&mut self, max: usize, field: &'static str) -> Result<&'a [u8], DecodeError> {
        let len = self.len(max, field)?;
        let value = self.take(len, field)?;
        self.take(padding(len), field)?;
        Ok(value)
    }

    /// Reads opaque data that may have been received apart ([`Decoder::with_hole`]).
    ///
    /// # Errors
    /// As [`Decoder::opaque`].
    pub fn payload(&mut self, max: usize, field: &'static str) -> Result<Payload<'a>, DecodeError> {
        let mut ahead = self.clone();
        let len = ahead.len(max, field)?;
        if self.hole == Some(ahead.position) {
            let len = self.u32(field)?;
            return Ok(Payload::Apart { len });
        }
        let value = ahead.take(len, field)?;
        ahead.take(padding(len), field)?;
        *self = ahead;
        Ok(Payload::Here(value))
    }

    /// Reads an array (RFC 4506 §4.13) of at most `max` entries. Memory grows with the entries that are
    /// there and not with the number that is announced: each takes at least four bytes.
    ///
    /// # Errors
    /// When there are more than `max`, one is malformed, or the bytes end before the array does.
    pub fn array_of<T: Decode<'a>>(
        &mut self,
        max: usize,
        field: &'static str,
    ) -> Result<Vec<T>, DecodeError> {
        let len = self.len(max, field)?;
        let mut entries = Vec::new();
        for _ in 0..len {
            entries.push(T::decode(self).map_err(|error| error.within(field))?);
        }
        Ok(entries)
    }

    /// Reads the length of variable-length data or of an array.
    ///
    /// # Errors
    /// When it is beyond `max`, or missing.
    pub fn len(&mut self, max: usize, field: &'static str) -> Result<usize, DecodeError> {
        let len = self.u32(field)?;
        match usize::try_from(len) {
            Ok(wide) if wide <= max => Ok(wide),
            _ => Err(DecodeError::TooLong { field, len, max }),
        }
    }

    /// Takes the next `len` bytes as they are.
    ///
    /// # Errors
    /// When fewer are left.
    pub fn take(&mut self, len: usize, field: &'static str) -> Result<&'a [u8], DecodeError> {
        let (taken, rest) = self
            .rest
            .split_at_checked(len)
            .ok_or(DecodeError::Missing { field })?;
        self.rest = rest;
        self.position += len;
        Ok(taken)
    }

    /// Reads a linked list (RFC 4506 §4.19): each entry behind a boolean that says that it follows.
    /// The entries are bounded by the bytes that are left, as each takes at least four of them.
    ///
    /// # Errors
    /// When an entry is malformed, or the bytes end before the list does.
    pub fn list<T: Decode<'a>>(&mut self, field: &'static str) -> Result<Vec<T>, DecodeError> {
        let mut entries = Vec::new();
        while self.bool(field)? {
            entries.push(T::decode(self)?);
        }
        Ok(entries)
    }

    fn array<const N: usize>(&mut self, field: &'static str) -> Result<[u8; N], DecodeError> {
        let (taken, rest) = self
            .rest
            .split_first_chunk::<N>()
            .ok_or(DecodeError::Missing { field })?;
        self.rest = rest;
        self.position += N;
        Ok(*taken)
    }

    /// How many bytes are left.
    #[must_use]
    pub fn remaining(&self) -> usize {
        self.rest.len()
    }

    /// The bytes that are left.
    #[must_use]
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// How many bytes were read.
    #[must_use]
    pub fn position(&self) -> usize {
        self.position
    }

    /// Ends a message.
    ///
    /// # Errors
    /// When bytes are left.
    pub fn finish(self) -> Result<(), DecodeError> {
        if self.rest.is_empty() {
            Ok(())
        } else {
            Err(DecodeError::Trailing {
                left: self.rest.len(),
            })
        }
    }
}

impl<'v> Encoder<'v> {
    /// Begins behind what is in `out` already.
    pub fn new(out: &'v mut Vec<u8>) -> Self {
        Self { out }
    }

    /// Writes an unsigned 32-bit integer.
    pub fn u32(&mut self, value: u32) {
        self.out.extend_from_slice(&value.to_be_bytes());
    }

    /// Writes an unsigned 64-bit integer.
    pub fn u64(&mut self, value: u64) {
        self.out.extend_from_slice(&value.to_be_bytes());
    }

    /// Writes a boolean as the number 0 or 1 (RFC 4506 §4.4).
    pub fn bool(&mut self, value: bool) {
        self.u32(u32::from(value));
    }

    /// Writes fixed-length opaque data with its padding.
    pub fn opaque_fixed(&mut self, value: &[u8]) {
        self.out.extend_from_slice(value);
        self.pad(value.len());
    }

    /// Writes variable-length opaque data with its length and padding.
    pub fn opaque(&mut self, value: &[u8]) {
        self.len(value.len());
        self.opaque_fixed(value);
    }

    /// Writes a length. No message of ours comes near 4 GiB; a longer one would be cut off by
    /// the record's own limit, so the length saturates instead of wrapping.
    pub fn len(&mut self, len: usize) {
        self.u32(u32::try_from(len).unwrap_or(u32::MAX));
    }

    /// Writes an XDR optional (RFC 4506 §4.19).
    pub fn optional<T: Encode>(&mut self, value: Option<&T>) {
        self.bool(value.is_some());
        if let Some(value) = value {
            value.encode(self);
        }
    }

    /// Writes a linked list (RFC 4506 §4.19): each entry behind a boolean that says that it follows.
    pub fn list<T: Encode>(&mut self, entries: &[T]) {
        for entry in entries {
            self.bool(true);
            entry.encode(self);
        }
        self.bool(false);
    }

    /// Writes a payload: its length, and the data where it is here.
    pub fn payload(&mut self, payload: &Payload<'_>) {
        match payload {
            Payload::Here(data) => self.opaque(data),
            Payload::Apart { len } => self.u32(*len),
        }
    }

    /// Writes an array (RFC 4506 §4.13): the number of its entries, and these.
    pub fn array_of<T: Encode>(&mut self, entries: &[T]) {
        self.len(entries.len());
        for entry in entries {
            entry.encode(self);
        }
    }

    /// Writes what `write` writes as variable-length opaque data, with its length before it.
    pub fn opaque_of(&mut self, write: impl FnOnce(&mut Encoder<'_>)) {
        let at = self.out.len();
        self.u32(0);
        let from = self.out.len();
        write(self);
        let len = self.out.len().saturating_sub(from);
        self.pad(len);
        let len = u32::try_from(len).unwrap_or(u32::MAX);
        patch(self.out, at, len);
    }

    /// How long the whole vector is by now.
    #[must_use]
    pub fn position(&self) -> usize {
        self.out.len()
    }

    /// Takes back what was written behind a [position](Self::position).
    pub(crate) fn truncate(&mut self, position: usize) {
        self.out.truncate(position);
    }

    fn pad(&mut self, len: usize) {
        const ZEROS: [u8; 3] = [0; 3];
        let (zeros, _) = ZEROS.split_at(padding(len));
        self.out.extend_from_slice(zeros);
    }
}

impl Payload<'_> {
    /// Bytes of the data, without padding.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::Here(data) => data.len(),
            Self::Apart { len } => usize::try_from(*len).unwrap_or(usize::MAX),
        }
    }

    /// Whether there is no byte of data.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Writes a number over four bytes that were written before; nothing where there are none.
pub(crate) fn patch(out: &mut [u8], at: usize, value: u32) {
    let place = out.get_mut(at..).and_then(<[u8]>::first_chunk_mut);
    if let Some(place) = place {
        *place = value.to_be_bytes();
    }
}

/// How many zero bytes follow `len` bytes of opaque data: 0 to 3.
#[must_use]
pub const fn padding(len: usize) -> usize {
    len.wrapping_neg() & 3
}

/// Decodes a message that must use up all of `bytes`.
///
/// # Errors
/// [`DecodeError`], [`DecodeError::Trailing`] included.
pub fn decode_all<'a, T: Decode<'a>>(bytes: &'a [u8]) -> Result<T, DecodeError> {
    let mut decoder = Decoder::new(bytes);
    let value = T::decode(&mut decoder)?;
    decoder.finish()?;
    Ok(value)
}

/// Encodes a message into a vector of its own.
#[must_use]
pub fn encode_to_vec(value: &impl Encode) -> Vec<u8> {
    let mut out = Vec::new();
    value.encode(&mut Encoder::new(&mut out));
    out
}

impl Decode<'_> for () {
    fn decode(_: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        Ok(())
    }
}

impl Encode for () {
    fn encode(&self, _: &mut Encoder<'_>) {}
}

impl Decode<'_> for u32 {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        d.u32("unsigned int")
    }
}

impl Encode for u32 {
    fn encode(&self, e: &mut Encoder<'_>) {
        e.u32(*self);
    }
}

impl Decode<'_> for u64 {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        d.u64("unsigned hyper")
    }
}

impl Encode for u64 {
    fn encode(&self, e: &mut Encoder<'_>) {
        e.u64(*self);
    }
}

impl Decode<'_> for i32 {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        d.u32("int").map(u32::cast_signed)
    }
}

impl Encode for i32 {
    fn encode(&self, e: &mut Encoder<'_>) {
        e.u32(self.cast_unsigned());
    }
}

impl Decode<'_> for i64 {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        d.u64("hyper").map(u64::cast_signed)
    }
}

impl Encode for i64 {
    fn encode(&self, e: &mut Encoder<'_>) {
        e.u64(self.cast_unsigned());
    }
}

impl Decode<'_> for bool {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        d.bool("bool")
    }
}

impl Encode for bool {
    fn encode(&self, e: &mut Encoder<'_>) {
        e.bool(*self);
    }
}

impl<const N: usize> Decode<'_> for [u8; N] {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        d.opaque_fixed("opaque")
    }
}

impl<const N: usize> Encode for [u8; N] {
    fn encode(&self, e: &mut Encoder<'_>) {
        e.opaque_fixed(self);
    }
}

impl<'a, T: Decode<'a>> Decode<'a> for Option<T> {
    fn decode(d: &mut Decoder<'a>) -> Result<Self, DecodeError> {
        Ok(if d.bool("value follows")? {
            Some(T::decode(d)?)
        } else {
            None
        })
    }
}

impl<T: Encode> Encode for Option<T> {
    fn encode(&self, e: &mut Encoder<'_>) {
        e.optional(self.as_ref());
    }
}

/// An array, at most [`ARRAY_ENTRIES_MAX`] entries long.
impl<'a, T: Decode<'a>> Decode<'a> for Vec<T> {
    fn decode(d: &mut Decoder<'a>) -> Result<Self, DecodeError> {
        d.array_of(ARRAY_ENTRIES_MAX, "array")
    }
}

impl<T: Encode> Encode for Vec<T> {
    fn encode(&self, e: &mut Encoder<'_>) {
        e.array_of(self);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::{check_message, hex};

    #[test]
    fn integers_are_big_endian() {
        let bytes = hex("01020304 0000000000000102 00000001");
        let mut d = Decoder::new(&bytes);
        assert_eq!(d.u32("a"), Ok(0x0102_0304));
        assert_eq!(d.position(), 4);
        assert_eq!(d.u64("b"), Ok(0x0102));
        assert_eq!(d.bool("c"), Ok(true));
        assert_eq!(d.remaining(), 0);
        assert_eq!(d.u32("d"), Err(DecodeError::Missing { field: "d" }));
    }

    #[test]
    fn opaque_is_padded_to_four_bytes() {
        for (len, padded) in [(0, 0), (1, 4), (2, 4), (3, 4), (4, 4), (5, 8)] {
            let mut out = Vec::new();
            Encoder::new(&mut out).opaque(&[7; 8][..len]);
            assert_eq!(out.len(), 4 + padded);
            assert_eq!(padding(len), padded - len);
            let mut d = Decoder::new(&out);
            assert_eq!(d.opaque(8, "data"), Ok(&[7; 8][..len]));
            assert_eq!(d.finish(), Ok(()));
        }
    }

    #[test]
    fn opaque_without_its_padding_is_missing() {
        let error = Err(DecodeError::Missing { field: "data" });
        assert_eq!(Decoder::new(&hex("00000001 61")).opaque(8, "data"), error);
        assert_eq!(
            Decoder::new(&hex("00000001 610000")).opaque(8, "data"),
            error
        );
    }

    #[test]
    fn opaque_beyond_its_limit_is_too_long() {
        for len in [9, u32::MAX] {
            let bytes = len.to_be_bytes();
            assert_eq!(
                Decoder::new(&bytes).opaque(8, "data"),
                Err(DecodeError::TooLong {
                    field: "data",
                    len,
                    max: 8
                })
            );
        }
    }

    #[test]
    fn basic_types_round_trip() {
        check_message(&());
        check_message(&7_u32);
        check_message(&u64::MAX);
        check_message(&true);
        check_message(&[1_u8, 2, 3, 4, 5]);
        check_message(&Some(7_u32));
        check_message(&None::<u32>);
    }

    #[test]
    fn list_ends_where_it_says() {
        let bytes = hex("00000001 0000000a 00000001 0000000b 00000000 ff");
        let mut d = Decoder::new(&bytes);
        assert_eq!(d.list::<u32>("list"), Ok(vec![10, 11]));
        assert_eq!(d.rest(), [0xff]);
    }

    #[test]
    fn list_without_its_end_is_missing() {
        let bytes = hex("00000001 0000000a");
        assert_eq!(
            Decoder::new(&bytes).list::<u32>("list"),
            Err(DecodeError::Missing { field: "list" })
        );
    }

    #[test]
    fn arrays_and_signed_numbers_round_trip() {
        check_message(&vec![1_u32, 2, 3]);
        check_message(&Vec::<u32>::new());
        check_message(&i32::MIN);
        check_message(&-2_i64);
    }

    #[test]
    fn an_array_takes_no_memory_for_what_is_only_announced() {
        let bytes = hex("0000ffff 00000001");
        let error = Err(DecodeError::Missing { field: "array" });
        assert_eq!(Vec::<u32>::decode(&mut Decoder::new(&bytes)), error);
        let bytes = hex("ffffffff 00000001");
        assert!(matches!(
            Vec::<u32>::decode(&mut Decoder::new(&bytes)),
            Err(DecodeError::TooLong { .. })
        ));
    }

    #[test]
    fn a_payload_is_read_where_it_is() {
        let whole = hex("00000007 00000003 616263 00 00000009");
        let mut d = Decoder::new(&whole);
        assert_eq!(d.u32("before"), Ok(7));
        assert_eq!(d.payload(8, "data"), Ok(Payload::Here(b"abc")));
        assert_eq!(d.u32("behind"), Ok(9));
        let holed = hex("00000007 00000003 00000009");
        let mut d = Decoder::with_hole(&holed, 8);
        assert_eq!(d.u32("before"), Ok(7));
        assert_eq!(d.payload(8, "data"), Ok(Payload::Apart { len: 3 }));
        assert_eq!(d.u32("behind"), Ok(9));
        assert_eq!(d.finish(), Ok(()));
        let mut out = Vec::new();
        Encoder::new(&mut out).payload(&Payload::Apart { len: 3 });
        assert_eq!(out, hex("00000003"));
    }

    #[test]
    fn what_is_written_as_opaque_data_has_its_length_and_padding() {
        let mut out = hex("00000001");
        Encoder::new(&mut out).opaque_of(|e| e.out.extend_from_slice(b"abcde"));
        assert_eq!(out, hex("00000001 00000005 6162636465 000000"));
    }

    #[test]
    fn error_names_the_field_of_a_bare_number() {
        let error = DecodeError::Missing {
            field: "unsigned int",
        };
        let named = DecodeError::Missing { field: "count" };
        assert_eq!(error.within("count"), named);
        assert_eq!(named.within("other"), named);
    }
}
