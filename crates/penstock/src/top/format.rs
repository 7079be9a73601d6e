//! Figures and names as the screen shows them: in few columns, and with nothing that a terminal would obey.

use crate::show;

/// Bytes in at most six columns, in powers of 1024: `0`, `512`, `1.21M`, `310K`.
pub(super) fn bytes(bytes: f64) -> String {
    scaled(bytes, 1024.0, &["", "K", "M", "G", "T", "P"])
}

/// A number in at most six columns, in powers of 1000: `0`, `0.5`, `12.3k`.
pub(super) fn count(count: f64) -> String {
    scaled(count, 1000.0, &["", "k", "M", "G", "T", "P"])
}

fn scaled(number: f64, step: f64, units: &[&str]) -> String {
    let (mut number, mut unit) = (number.max(0.0), 0);
    // What would be rounded up to the next unit is shown in it.
    while number >= step - 0.5 && unit + 1 < units.len() {
        (number, unit) = (number / step, unit + 1);
    }
    let digits = match number {
        0.0 => 0,
        number if number < 9.995 && unit > 0 => 2,
        number if number < 99.95 && (unit > 0 || number.fract() > 0.0) => 1,
        _ => 0,
    };
    let unit = units.get(unit).copied().unwrap_or_default();
    match format!("{number:.digits$}") {
        // Less than the last digit that is shown, and not nothing.
        text if number > 0.0 && text == "0.0" => "<0.1".to_owned(),
        // A whole number stays one; with a unit the digit keeps the column in place.
        text if unit.is_empty() => text.strip_suffix(".0").unwrap_or(&text).to_owned(),
        text => format!("{text}{unit}"),
    }
}

/// A time in at most six columns: `12us`, `1.24ms`, `3.1s`; `-` where there was no call.
pub(super) fn time(seconds: Option<f64>) -> String {
    let Some(seconds) = seconds else {
        return "-".to_owned();
    };
    let (number, unit) = match seconds {
        seconds if seconds < 0.000_999_5 => (seconds * 1e6, "us"),
        seconds if seconds < 0.999_5 => (seconds * 1e3, "ms"),
        seconds => (seconds, "s"),
    };
    let digits = match number {
        _ if unit == "us" => 0,
        number if number < 9.995 => 2,
        number if number < 99.95 => 1,
        _ => 0,
    };
    format!("{number:.digits$}{unit}")
}

/// A part of the whole, 0 to 1, in percent.
pub(super) fn percent(part: f64) -> String {
    match part * 100.0 {
        percent if percent > 0.0 && percent < 0.5 => "<1%".to_owned(),
        percent => format!("{percent:.0}%"),
    }
}

/// A name that a peer or a configuration may have chosen, for a terminal.
pub(super) fn name(name: &str) -> String {
    show::escape(name.as_bytes())
}

/// The time of the day in UTC.
pub(super) fn clock(at_unix_ms: u64) -> String {
    let second = at_unix_ms / 1000 % 86_400;
    format!(
        "{:02}:{:02}:{:02}",
        second / 3600,
        second / 60 % 60,
        second % 60
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_short() {
        let sizes = [
            (0.0, "0"),
            (0.04, "<0.1"),
            (0.5, "0.5"),
            (512.0, "512"),
            (1023.4, "1023"),
            (1023.6, "1.00K"),
            (1_269_000_000.0, "1.18G"),
            (325_000_000.0, "310M"),
            (-4.0, "0"),
            (1e21, "888178P"),
        ];
        for (number, expected) in sizes {
            assert_eq!(bytes(number), expected, "{number}");
        }
        assert_eq!(
            [count(999.4), count(12_345.0), count(7.0)],
            ["999", "12.3k", "7"]
        );
    }

    #[test]
    fn times_are_short() {
        let times = [
            (0.0, "0us"),
            (0.000_012, "12us"),
            (0.000_999_9, "1.00ms"),
            (0.012_34, "12.3ms"),
            (0.5, "500ms"),
            (3.15, "3.15s"),
            (512.0, "512s"),
        ];
        for (seconds, expected) in times {
            assert_eq!(time(Some(seconds)), expected, "{seconds}");
        }
        assert_eq!(time(None), "-");
        assert_eq!(
            [percent(0.0), percent(0.001), percent(1.0)],
            ["0%", "<1%", "100%"]
        );
        assert_eq!(clock(86_400_000 + 3_723_999), "01:02:03");
    }

    #[test]
    fn names_cannot_speak_to_the_terminal() {
        assert_eq!(
            name("/a\x1b[2J\u{202e}b\u{9b}"),
            "/a\\x1b[2J\\xe2\\x80\\xaeb\\xc2\\x9b"
        );
    }
}
