//! `bitmap4`: sets of small numbers: attributes, operations, hints (RFC 8881 §3.3.7).

use core::fmt;
use core::hash::{Hash, Hasher};

use crate::limits::BITMAP_WORDS_MAX;
use crate::{Decode, DecodeError, Decoder, Encode, Encoder};

/// Words that are held: the numbers 0 to 127. The highest that any RFC defines is 86.
const WORDS: usize = 4;
/// Bits of a word.
const WORD_BITS: u32 = u32::BITS;

/// A set of numbers from 0 to 127, and whether it has any beyond these.
///
/// Peers write the same set in more words or fewer. How many there were is kept, so that a set that is sent
/// on is sent as it came; it is no part of what the set means, and two sets are equal without it.
#[derive(Clone, Copy, Default)]
pub struct Bitmap4 {
    words: [u32; WORDS],
    /// How many words it is on the wire, where that is more than are needed.
    wire_words: u8,
    /// Some number beyond 127 is in the set. Which one, nobody needs to know: it is unknown.
    beyond: bool,
}

impl Bitmap4 {
    /// The set without any number.
    pub const EMPTY: Self = Self {
        words: [0; WORDS],
        wire_words: 0,
        beyond: false,
    };
    /// The numbers that can be held are below this.
    pub const BITS: u32 = 128;
    /// The most bytes on the wire of a set that was made here.
    pub const ENCODED_LEN_MAX: usize = 4 + 4 * WORDS;

    /// The set of these numbers.
    #[must_use]
    pub const fn of(numbers: &[u32]) -> Self {
        let mut set = Self::EMPTY;
        let mut rest = numbers;
        while let [first, others @ ..] = rest {
            set.insert(*first);
            rest = others;
        }
        set
    }

    /// Puts a number into the set. One from 128 on leaves behind only that there is such a number.
    pub const fn insert(&mut self, number: u32) {
        let [a, b, c, d] = &mut self.words;
        let bit = 1 << (number % WORD_BITS);
        match number / WORD_BITS {
            0 => *a |= bit,
            1 => *b |= bit,
            2 => *c |= bit,
            3 => *d |= bit,
            _ => self.beyond = true,
        }
    }

    /// This set with one more number.
    #[must_use]
    pub const fn with(mut self, number: u32) -> Self {
        self.insert(number);
        self
    }

    /// This set without one number, below 128.
    #[must_use]
    pub const fn without(self, number: u32) -> Self {
        self.minus(&Self::EMPTY.with(number))
    }

    /// Whether a number, below 128, is in the set.
    #[must_use]
    pub const fn contains(&self, number: u32) -> bool {
        let [a, b, c, d] = self.words;
        let word = match number / WORD_BITS {
            0 => a,
            1 => b,
            2 => c,
            3 => d,
            _ => 0,
        };
        word >> (number % WORD_BITS) & 1 == 1
    }

    /// Whether a number beyond 127 was in the set: one that no RFC defines.
    #[must_use]
    pub const fn has_beyond(&self) -> bool {
        self.beyond
    }

    /// Whether there is no number in the set.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        matches!(self.words, [0, 0, 0, 0]) && !self.beyond
    }

    /// The numbers that are in both sets.
    #[must_use]
    pub const fn and(&self, other: &Self) -> Self {
        let ([a, b, c, d], [e, f, g, h]) = (self.words, other.words);
        Self {
            words: [a & e, b & f, c & g, d & h],
            wire_words: 0,
            beyond: self.beyond && other.beyond,
        }
    }

    /// The numbers that are in either set.
    #[must_use]
    pub const fn or(&self, other: &Self) -> Self {
        let ([a, b, c, d], [e, f, g, h]) = (self.words, other.words);
        Self {
            words: [a | e, b | f, c | g, d | h],
            wire_words: 0,
            beyond: self.beyond || other.beyond,
        }
    }

    /// The numbers of this set that are not in the other. What is beyond 127 stays unless the other has such
    /// as well.
    #[must_use]
    pub const fn minus(&self, other: &Self) -> Self {
        let ([a, b, c, d], [e, f, g, h]) = (self.words, other.words);
        Self {
            words: [a & !e, b & !f, c & !g, d & !h],
            wire_words: 0,
            beyond: self.beyond && !other.beyond,
        }
    }

    /// Whether all numbers of this set are in the other.
    #[must_use]
    pub const fn is_within(&self, other: &Self) -> bool {
        self.minus(other).is_empty()
    }

    /// The numbers below 128, in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = u32> + use<> {
        let [a, b, c, d] = self.words.map(u128::from);
        let mut rest = a | b << WORD_BITS | c << (2 * WORD_BITS) | d << (3 * WORD_BITS);
        core::iter::from_fn(move || {
            let number = (rest != 0).then(|| rest.trailing_zeros())?;
            rest &= rest - 1;
            Some(number)
        })
    }

    /// How many bytes it is on the wire.
    #[must_use]
    pub fn encoded_len(&self) -> usize {
        4 + 4 * self.wire_words()
    }

    /// How many words are written.
    fn wire_words(&self) -> usize {
        let needed = match self.words {
            _ if self.beyond => WORDS + 1,
            [0, 0, 0, 0] => 0,
            [_, 0, 0, 0] => 1,
            [_, _, 0, 0] => 2,
            [_, _, _, 0] => 3,
            _ => WORDS,
        };
        needed.max(usize::from(self.wire_words))
    }
}

impl PartialEq for Bitmap4 {
    fn eq(&self, other: &Self) -> bool {
        self.words == other.words && self.beyond == other.beyond
    }
}

impl Eq for Bitmap4 {}

impl Hash for Bitmap4 {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.words, self.beyond).hash(state);
    }
}

impl fmt::Debug for Bitmap4 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut set = f.debug_set();
        set.entries(self.iter());
        if self.beyond {
            set.entry(&"beyond");
        }
        set.finish()
    }
}

impl FromIterator<u32> for Bitmap4 {
    fn from_iter<I: IntoIterator<Item = u32>>(numbers: I) -> Self {
        numbers.into_iter().fold(Self::EMPTY, Self::with)
    }
}

impl Decode<'_> for Bitmap4 {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        const FIELD: &str = "bitmap4";
        let len = d.len(BITMAP_WORDS_MAX, FIELD)?;
        let mut set = Self::EMPTY;
        for place in set.words.iter_mut().take(len) {
            *place = d.u32(FIELD)?;
        }
        for _ in WORDS..len {
            set.beyond |= d.u32(FIELD)? != 0;
        }
        set.wire_words = u8::try_from(len).unwrap_or(u8::MAX);
        Ok(set)
    }
}

impl Encode for Bitmap4 {
    fn encode(&self, e: &mut Encoder<'_>) {
        let len = self.wire_words();
        e.len(len);
        for word in self.words.iter().take(len) {
            e.u32(*word);
        }
        for index in WORDS..len {
            // One number in the last word stands for those that were beyond.
            e.u32(u32::from(self.beyond && index + 1 == len));
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::test_support::{check_message, hex};
    use crate::{decode_all, encode_to_vec};

    #[test]
    fn a_set_is_written_in_as_few_words_as_it_needs() {
        assert_eq!(encode_to_vec(&Bitmap4::EMPTY), hex("00000000"));
        let expected = hex("00000002 00000003 00000001");
        assert_eq!(encode_to_vec(&Bitmap4::of(&[0, 1, 32])), expected);
        let highest = hex("00000004 00000000 00000000 00000000 80000000");
        assert_eq!(encode_to_vec(&Bitmap4::of(&[127])), highest);
    }

    #[test]
    fn a_set_is_sent_on_in_as_many_words_as_it_came() {
        for bytes in [
            "00000001 00000000",
            "00000003 00000001 00000000 00000000",
            "00000006 00000001 00000000 00000000 00000000 00000000 00000000",
        ] {
            let bytes = hex(bytes);
            let set: Bitmap4 = decode_all(&bytes).unwrap();
            assert_eq!(encode_to_vec(&set), bytes);
            assert_eq!(set.encoded_len(), bytes.len());
            assert!(!set.has_beyond());
        }
        let wide: Bitmap4 = decode_all(&hex("00000002 00000001 00000000")).unwrap();
        assert_eq!(wide, Bitmap4::of(&[0]));
    }

    #[test]
    fn a_number_that_nobody_knows_is_remembered_as_one() {
        let mut bytes = hex("00000020");
        bytes.extend([0; 31 * 4]);
        bytes.extend(hex("00000100"));
        let set: Bitmap4 = decode_all(&bytes).unwrap();
        assert!(set.has_beyond() && !set.is_empty());
        assert!(!set.is_within(&Bitmap4::of(&[0])));
        assert_eq!(set.iter().count(), 0);
        check_message(&set);
        assert_eq!(set, Bitmap4::of(&[1000]));
        assert!(matches!(
            decode_all::<Bitmap4>(&hex("00000041")),
            Err(DecodeError::TooLong { .. })
        ));
    }

    proptest! {
        #[test]
        fn sets_do_as_sets_do(
            a in proptest::collection::btree_set(0_u32..128, 0..20),
            b in proptest::collection::btree_set(0_u32..128, 0..20),
        ) {
            let (x, y): (Bitmap4, Bitmap4) = (a.iter().copied().collect(), b.iter().copied().collect());
            check_message(&x);
            prop_assert_eq!(encode_to_vec(&x).len(), x.encoded_len());
            prop_assert!(x.iter().eq(a.iter().copied()));
            prop_assert!(x.and(&y).iter().eq(a.intersection(&b).copied()));
            prop_assert!(x.or(&y).iter().eq(a.union(&b).copied()));
            prop_assert!(x.minus(&y).iter().eq(a.difference(&b).copied()));
            prop_assert_eq!(x.is_within(&y), a.is_subset(&b));
            prop_assert_eq!(x.is_empty(), a.is_empty());
            for number in 0..128 {
                prop_assert_eq!(x.contains(number), a.contains(&number));
                prop_assert!(x.with(number).contains(number));
                prop_assert!(!x.without(number).contains(number));
            }
        }
    }
}
