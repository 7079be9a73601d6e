//! Bytes that say where they belong: a function of a tag and a file offset, so that any byte found
//! in a file can be checked without remembering what was written.

/// `len` bytes of the pattern of `tag` from `offset`. No byte is 0, so a hole is never mistaken
/// for data.
pub fn bytes(tag: u64, offset: u64, len: usize) -> Vec<u8> {
    // Word by word: tests make many megabytes of it.
    let first = offset / 8;
    let words = first..=(offset + len as u64) / 8;
    let mut bytes = Vec::with_capacity(len + 16);
    for index in words {
        bytes.extend_from_slice(&word(tag, index));
    }
    bytes.drain(..(offset % 8) as usize);
    bytes.truncate(len);
    bytes
}

/// The byte of the pattern of `tag` at `offset`.
pub const fn byte(tag: u64, offset: u64) -> u8 {
    word(tag, offset / 8)[(offset % 8) as usize]
}

/// The eight bytes from offset 8 * `index` on.
const fn word(tag: u64, index: u64) -> [u8; 8] {
    let mut z = tag.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ index;
    z = (z ^ (z >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z ^= z >> 32;
    // A byte that would be 0 becomes 0xa5: found with a carry-free test for zero bytes.
    let low = 0x7f7f_7f7f_7f7f_7f7f;
    let zeros = !((((z & low).wrapping_add(low)) | z) | low);
    (z | (zeros >> 7).wrapping_mul(0xa5)).to_le_bytes()
}

/// Where `found` (read at `offset`) first differs from the pattern of `tag`.
pub fn first_difference(tag: u64, offset: u64, found: &[u8]) -> Option<u64> {
    (offset..)
        .zip(found)
        .find(|(at, b)| byte(tag, *at) != **b)
        .map(|(at, _)| at)
}

/// FNV-1a over `data`, continued from `state` (start with [`DIGEST_START`]).
pub fn digest(state: u64, data: &[u8]) -> u64 {
    data.iter().fold(state, |h, b| {
        (h ^ u64::from(*b)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// The FNV-1a offset basis, which is the `state` that a [`digest`] starts with.
pub const DIGEST_START: u64 = 0xcbf2_9ce4_8422_2325;
