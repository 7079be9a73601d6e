//! Sizes: as people write them, and as they read them.

use std::str::FromStr;

/// How truncate(1) finds the new length of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NewLen {
    /// The length is that many bytes.
    Exact(u64),
    /// The length grows by so many bytes (`+`).
    More(u64),
    /// The length shrinks by so many bytes (`-`), not below 0.
    Less(u64),
    /// The length becomes that many bytes where it is more (`<`).
    AtMost(u64),
    /// The length becomes that many bytes where it is less (`>`).
    AtLeast(u64),
    /// The length is rounded down to a multiple of so many bytes (`/`).
    Down(u64),
    /// The length is rounded up to a multiple of so many bytes (`%`).
    Up(u64),
}

impl NewLen {
    /// The new length for the old one, bytes; `None` where it is more than a file can have.
    pub(crate) fn of(self, old: u64) -> Option<u64> {
        match self {
            Self::Exact(len) => Some(len),
            Self::More(len) => old.checked_add(len),
            Self::Less(len) => Some(old.saturating_sub(len)),
            Self::AtMost(len) => Some(old.min(len)),
            Self::AtLeast(len) => Some(old.max(len)),
            Self::Down(unit) => old.checked_rem(unit).map(|rest| old - rest),
            Self::Up(unit) => old.checked_next_multiple_of(unit),
        }
    }

    /// Whether the new length is the same whatever the old one.
    pub(crate) fn is_absolute(self) -> bool {
        matches!(self, Self::Exact(_))
    }
}

impl FromStr for NewLen {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (make, behind): (fn(u64) -> Self, _) = match text.as_bytes().first() {
            Some(b'+') => (Self::More, 1),
            Some(b'-') => (Self::Less, 1),
            Some(b'<') => (Self::AtMost, 1),
            Some(b'>') => (Self::AtLeast, 1),
            Some(b'/') => (Self::Down, 1),
            Some(b'%') => (Self::Up, 1),
            _ => (Self::Exact, 0),
        };
        let number = text.get(behind..).unwrap_or_default();
        let read = nfs_io::size::parse(number);
        let len = read.map_err(|error| error.to_string())?;
        if len == 0 && matches!(make(len), Self::Down(_) | Self::Up(_)) {
            return Err("a multiple of 0 is no length: give 1 or more".to_owned());
        }
        Ok(make(len))
    }
}

/// A number for people, in at most four characters and a letter, as `ls -h` writes it: `0`, `999`,
/// `1.5K`, `20M`. Rounded up, so that nothing but 0 is 0.
pub(crate) fn human(number: u64) -> String {
    let (mut whole, mut tenths, mut letter) = (u128::from(number), 0, None);
    let mut letters = "KMGTPE".chars();
    let mut scale: u128 = 1;
    while whole >= 1024 {
        scale *= 1024;
        letter = letters.next();
        // Tenths, rounded up.
        let all = (u128::from(number) * 10).div_ceil(scale);
        (whole, tenths) = (all / 10, all % 10);
        if whole >= 10 {
            (whole, tenths) = (u128::from(number).div_ceil(scale), 0);
        }
    }
    match letter {
        None => whole.to_string(),
        Some(letter) if whole < 10 => format!("{whole}.{tenths}{letter}"),
        Some(letter) => format!("{whole}{letter}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_lengths() {
        let table: &[(&str, u64, Option<u64>)] = &[
            ("10", 3, Some(10)),
            ("+10", 3, Some(13)),
            ("+1", u64::MAX, None),
            ("-1K", 4096, Some(3072)),
            ("-1K", 5, Some(0)),
            ("<4", 9, Some(4)),
            ("<4", 2, Some(2)),
            (">4", 9, Some(9)),
            (">4", 2, Some(4)),
            ("/4", 9, Some(8)),
            ("%4", 9, Some(12)),
            ("%4", 8, Some(8)),
            ("%4", u64::MAX, None),
        ];
        for &(text, old, new) in table {
            let len: NewLen = text.parse().unwrap();
            assert_eq!(len.of(old), new, "{text} of {old}");
        }
        for text in ["", "+", "%0", "/0", "++1", "é"] {
            assert!(text.parse::<NewLen>().is_err(), "{text} is taken");
        }
    }

    #[test]
    fn for_people() {
        let table: &[(u64, &str)] = &[
            (0, "0"),
            (1, "1"),
            (1023, "1023"),
            (1024, "1.0K"),
            (1025, "1.1K"),
            (10 * 1024, "10K"),
            (10 * 1024 + 1, "11K"),
            (9 * 1024 + 1023, "10K"),
            (1023 * 1024, "1023K"),
            (1023 * 1024 + 1, "1.0M"),
            (1 << 30, "1.0G"),
            (u64::MAX, "16E"),
        ];
        for &(number, expected) in table {
            assert_eq!(human(number), expected, "{number}");
        }
    }
}
