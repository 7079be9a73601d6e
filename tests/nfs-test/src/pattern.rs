//! Bytes that say where they belong: a function of a tag and a file offset, so that any byte found
//! in a file can be checked without remembering what was written.

/// `len` bytes of the pattern of `tag` from `offset`. No byte is 0, so a hole is never mistaken
/// for data.
pub(crate) fn bytes(tag: u64, offset: u64, len: usize) -> Vec<u8> {
    (0..len as u64).map(|i| byte(tag, offset + i)).collect()
}

/// The byte of the pattern of `tag` at `offset`.
pub(crate) const fn byte(tag: u64, offset: u64) -> u8 {
    let mut z = tag.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (offset / 8);
    z = (z ^ (z >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z ^= z >> 32;
    let byte = (z >> ((offset % 8) * 8)) as u8;
    if byte == 0 { 0xa5 } else { byte }
}

/// Where `found` (read at `offset`) first differs from the pattern of `tag`.
pub(crate) fn first_difference(tag: u64, offset: u64, found: &[u8]) -> Option<u64> {
    (offset..)
        .zip(found)
        .find(|(at, b)| byte(tag, *at) != **b)
        .map(|(at, _)| at)
}

/// FNV-1a over `data`, continued from `state` (start with [`DIGEST_START`]).
pub(crate) fn digest(state: u64, data: &[u8]) -> u64 {
    data.iter().fold(state, |h, b| {
        (h ^ u64::from(*b)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// The FNV-1a offset basis.
pub(crate) const DIGEST_START: u64 = 0xcbf2_9ce4_8422_2325;
