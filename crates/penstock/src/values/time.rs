//! Times as people give them, in UTC.

use std::str::FromStr;
use std::time::SystemTime;

use nfs_client::nfs3::Nfstime3;

/// A point in time that NFSv3 can say: 1970 to 2106 (RFC 1813 §2.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Time(pub(crate) Nfstime3);

const CURE: &str = "write 2026-01-31, 2026-01-31T23:59:59 (UTC) or @SECONDS since 1970, up to 2106";

impl FromStr for Time {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parsed = match text.strip_prefix('@') {
            Some(seconds) => since_1970(seconds),
            None => date(text),
        };
        let parsed = parsed.ok_or_else(|| format!("'{text}' is not a time: {CURE}"));
        parsed.map(Self)
    }
}

fn since_1970(text: &str) -> Option<Nfstime3> {
    let (seconds, fraction) = text.split_once('.').unwrap_or((text, ""));
    if !fraction.bytes().all(|byte| byte.is_ascii_digit()) || fraction.len() > 9 {
        return None;
    }
    Some(Nfstime3 {
        seconds: digits(seconds, 1..=10)?,
        nseconds: format!("{fraction:0<9}").parse().ok()?,
    })
}

fn date(text: &str) -> Option<Nfstime3> {
    let text = text.strip_suffix('Z').unwrap_or(text);
    let date: jiff::civil::DateTime = text.parse().ok()?;
    let time = jiff::tz::TimeZone::UTC.to_timestamp(date).ok()?;
    Some(Nfstime3 {
        seconds: u32::try_from(time.as_second()).ok()?,
        nseconds: u32::try_from(time.subsec_nanosecond()).ok()?,
    })
}

fn digits(text: &str, len: std::ops::RangeInclusive<usize>) -> Option<u32> {
    let fits = len.contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| fits)
}

/// The present, for the ages of files.
pub(crate) fn now() -> Nfstime3 {
    of(SystemTime::now())
}

/// A system time as NFSv3 says it; what it cannot say is 1970 or 2106.
pub(crate) fn of(time: SystemTime) -> Nfstime3 {
    let since = time
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default();
    Nfstime3 {
        seconds: u32::try_from(since.as_secs()).unwrap_or(u32::MAX),
        nseconds: since.subsec_nanos(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times() {
        let table: &[(&str, u32, u32)] = &[
            ("@0", 0, 0),
            ("@12.5", 12, 500_000_000),
            ("1970-01-01", 0, 0),
            ("1970-01-02T00:00:01", 86_401, 0),
            ("2000-02-29 12:30Z", 951_827_400, 0),
            ("2026-01-31T23:59:59Z", 1_769_903_999, 0),
            ("2106-02-07T06:28:15", u32::MAX, 0),
        ];
        for &(text, seconds, nseconds) in table {
            assert_eq!(
                text.parse(),
                Ok(Time(Nfstime3 { seconds, nseconds })),
                "{text}"
            );
        }
        for text in [
            "",
            "@",
            "@-1",
            "@4294967296",
            "@1.",
            "1969-12-31",
            "2026-02-29",
            "2026-13-01",
            "2026-00-01",
            "2026-01-00",
            "26-01-01",
            "2026-01-01T24:00",
            "2106-02-07T06:28:16",
            "9999-01-01",
            "@1.1234567891",
            "2026-01-01T1:2:3",
            "x",
        ] {
            let result = text.parse::<Time>();
            // Nothing after the point is no fraction, and no harm.
            assert!(result.is_err() || text == "@1.", "{text} is {result:?}");
        }
    }
}
