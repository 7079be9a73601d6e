//! What the tests of all messages share.

use std::fmt::Debug;

use proptest::prelude::*;

use crate::nfs3::FileHandle;
use crate::{Decode, DecodeError, Decoder, Encode, encode_to_vec};

/// A message comes back as it went, does not decode from any shorter part of itself, and leaves what
/// follows it alone.
pub(crate) fn check_message<'a, T>(value: &T)
where
    T: Decode<'a> + Encode + PartialEq + Debug,
{
    check_message_with(value, T::decode);
}

/// [`check_message`] for what is not decoded by its own type alone.
pub(crate) fn check_message_with<'a, T>(
    value: &T,
    decode: impl Fn(&mut Decoder<'a>) -> Result<T, DecodeError>,
) where
    T: Encode + PartialEq + Debug,
{
    let mut bytes = encode_to_vec(value);
    let len = bytes.len();
    assert_eq!(len % 4, 0, "XDR comes in units of four bytes");
    bytes.push(0);
    // Leaked, so that it outlives whatever lifetime `T` was given. Messages of tests are small.
    let bytes: &'a [u8] = bytes.leak();

    let decode_all = |bytes: &'a [u8]| {
        let mut d = Decoder::new(bytes);
        let decoded = decode(&mut d)?;
        d.finish()?;
        Ok(decoded)
    };
    let decoded = decode_all(&bytes[..len]);
    assert_eq!(decoded.as_ref(), Ok(value));
    for cut in 0..len {
        let error = decode_all(&bytes[..cut]).expect_err("a truncated message decodes");
        assert!(
            matches!(error, DecodeError::Missing { .. }),
            "{error:?} at byte {cut} of {len}"
        );
    }
    assert_eq!(decode_all(bytes), Err(DecodeError::Trailing { left: 1 }));
}

/// Up to `max` bytes of any value, leaked so that messages can borrow them.
pub(crate) fn bytes(max: usize) -> impl Strategy<Value = &'static [u8]> + Clone {
    proptest::collection::vec(any::<u8>(), 0..=max).prop_map(|bytes| &*bytes.leak())
}

/// A file handle of any length and content.
pub(crate) fn file_handle() -> impl Strategy<Value = FileHandle> + Clone {
    bytes(64).prop_map(|bytes| FileHandle::new(bytes).unwrap())
}

/// Bytes written as hexadecimal digits, with spaces wherever they help.
pub(crate) fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text
        .chars()
        .filter(|c| !c.is_whitespace())
        .map(|c| u8::try_from(c.to_digit(16).expect("a hexadecimal digit")).unwrap())
        .collect();
    assert_eq!(digits.len() % 2, 0, "two digits are a byte");
    digits
        .chunks(2)
        .map(|pair| pair[0] << 4 | pair[1])
        .collect()
}
