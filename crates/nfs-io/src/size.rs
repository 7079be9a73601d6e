//! Numbers of bytes as people write and read them, in configuration, options, rules and findings alike.

/// Why a text is no number of bytes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SizeError {
    /// The text is not a number with a unit.
    #[error("\"{0}\" is not a size; write a whole number and a unit, for example \"256MiB\"")]
    NotASize(String),
    /// The number of bytes is more than a `u64` holds.
    #[error("\"{0}\" is more bytes than any file or memory has; write a smaller size")]
    TooLarge(String),
}

/// Reads a number of bytes: `4096`, `7B`, `512K`, `512KiB` (powers of 1024), `1GB` (powers of 1000), up to
/// E. Upper and lower case and spaces around the unit are the same.
///
/// # Errors
/// [`SizeError`], which is the sentence to show.
pub fn parse(text: &str) -> Result<u64, SizeError> {
    let not_a_size = || SizeError::NotASize(text.to_owned());
    let trimmed = text.trim();
    let digits = trimmed.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = trimmed.split_at_checked(digits).ok_or_else(not_a_size)?;
    if number.is_empty() {
        return Err(not_a_size());
    }
    let (letter, base) = match unit.trim().to_ascii_uppercase().as_bytes() {
        [] | b"B" => (None, 1),
        [letter] | [letter, b'I', b'B'] => (Some(*letter), 1024_u64),
        [letter, b'B'] => (Some(*letter), 1000),
        _ => return Err(not_a_size()),
    };
    let power = match letter {
        None => 0,
        Some(b'K') => 1,
        Some(b'M') => 2,
        Some(b'G') => 3,
        Some(b'T') => 4,
        Some(b'P') => 5,
        Some(b'E') => 6,
        Some(_) => return Err(not_a_size()),
    };
    let number = number.parse::<u64>().ok();
    let scale = base.checked_pow(power);
    let size = number
        .zip(scale)
        .and_then(|(n, scale)| n.checked_mul(scale));
    size.ok_or_else(|| SizeError::TooLarge(text.to_owned()))
}

/// Bytes with a binary unit: `4 KiB`, `70.9 GiB`.
#[must_use]
pub fn in_words(bytes: u64) -> String {
    let units = ["bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < units.len() {
        value /= 1024.0;
        unit += 1;
    }
    let name = units.get(unit).copied().unwrap_or_default();
    if value.fract() == 0.0 {
        format!("{value} {name}")
    } else {
        format!("{value:.1} {name}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        let table: &[(&str, u64)] = &[
            ("0", 0),
            ("100", 100),
            ("7B", 7),
            ("4K", 4096),
            ("4k", 4096),
            ("4KiB", 4096),
            (" 4 kib ", 4096),
            ("4KB", 4000),
            ("2M", 2 << 20),
            ("1GB", 1_000_000_000),
            ("1GiB", 1 << 30),
            ("3T", 3 << 40),
            ("2PB", 2_000_000_000_000_000),
            ("15E", 15 << 60),
        ];
        for &(text, expected) in table {
            assert_eq!(parse(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_is_no_size_is_refused() {
        for text in [
            "", " ", "K", "-1", "1.5K", "4X", "4KBi", "4BB", "+4", "\u{e9}", "4\u{e9}", "4 4",
        ] {
            assert_eq!(parse(text), Err(SizeError::NotASize(text.to_owned())));
        }
        for text in ["16E", "99999999999999999999", "99999999999999999999K"] {
            assert_eq!(parse(text), Err(SizeError::TooLarge(text.to_owned())));
        }
    }

    #[test]
    fn words() {
        for (count, text) in [
            (0, "0 bytes"),
            (512, "512 bytes"),
            (4096, "4 KiB"),
            (1536, "1.5 KiB"),
            (24_689_124 * 1024, "23.5 GiB"),
            (u64::MAX, "16 EiB"),
        ] {
            assert_eq!(in_words(count), text);
        }
    }
}
