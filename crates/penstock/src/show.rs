//! How the client commands print names, modes and times, and how they run.

use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write};

use anstyle::{AnsiColor, Style};
use nfs_client::nfs3::{Fattr3, Ftype3, Nfstime3};
use serde_json::{Map, Value, json};
use unicode_width::UnicodeWidthStr as _;

/// What the help texts of the client commands say about exit codes and names.
pub(crate) const AFTER_HELP: &str = "\
URL: nfs://HOST[:PORT]/EXPORT/PATH[?OPTION=VALUE&...]. IPv6 addresses stand in
brackets; %XX is a byte of the path. Options: nfsport, mountport, uid, gid,
nconnect, rsize, wsize, readdir-buffer, hint, timeout, timeo, retrans=0,
autoreconnect=0, readonly, if, version (3; 4 for the newest that both speak,
4.1 or 4.2, but for mount and showmount). Without a port, 2049 is tried, then
the host's portmapper.

ls, stat, cat, find, du, df, rm, chmod, chown, and cp and sync as a source,
take patterns for names, in quotes: 'nfs://HOST/EXPORT/*/2026-[0-9]*.log'. %2A
is a * itself.

Names that are not UTF-8, and control characters, are printed as \\xNN on a
terminal, and as they are into a pipe or file.

Exit codes: 0 all done, 1 something failed (the rest was done), 2 wrong usage,
130 interrupted.";

/// What an error of writing there is about.
pub(crate) const STANDARD_OUTPUT: &str = "cannot write to standard output";

/// An error of reading or writing that says nothing of a place came from printing.
pub(crate) fn about_output(error: anyhow::Error) -> anyhow::Error {
    if error.is::<io::Error>() && error.chain().len() == 1 {
        error.context(STANDARD_OUTPUT)
    } else {
        error
    }
}

pub(crate) fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .downcast_ref::<io::Error>()
        .is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

/// Writes a file name: escaped on a terminal, raw elsewhere.
pub(crate) fn write_name(out: &mut impl Write, name: &[u8], escaped: bool) -> io::Result<()> {
    if escaped {
        out.write_all(escape(name).as_bytes())
    } else {
        out.write_all(name)
    }
}

/// Writes rows in columns, all but the last to the right, in the width that each needs.
pub(crate) fn table<const N: usize>(out: &mut impl Write, rows: &[[String; N]]) -> io::Result<()> {
    let width = |column: usize| {
        let lengths = rows.iter().filter_map(|row| row.get(column));
        lengths.map(|cell| cell.width()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..N).map(width).collect();
    for row in rows {
        for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
            match column + 1 == N {
                true => writeln!(out, "{cell}")?,
                false => write!(out, "{}{cell}  ", padding(cell, *width))?,
            }
        }
    }
    Ok(())
}

/// The spaces that `text` lacks to be so many columns wide.
pub(crate) fn padding(text: &str, columns: usize) -> String {
    " ".repeat(columns.saturating_sub(text.width()))
}

/// Prints what was done. A command that changes things does not stop because nobody reads this.
pub(crate) fn say(line: impl std::fmt::Display) {
    let _ = writeln!(io::stdout().lock(), "{line}");
}

/// Whether names have to be escaped on standard output.
pub(crate) fn escape_on_stdout() -> bool {
    io::stdout().is_terminal()
}

/// A name with what a terminal must not get written as `\xNN`, and `\` doubled.
pub(crate) fn escape(name: &[u8]) -> String {
    let mut text = String::with_capacity(name.len());
    for chunk in name.utf8_chunks() {
        for char in chunk.valid().chars() {
            if char == '\\' {
                text.push_str("\\\\");
            } else if char.is_control() || turns_text_round(char) {
                let mut bytes = [0; 4];
                for byte in char.encode_utf8(&mut bytes).bytes() {
                    let _ = write!(text, "\\x{byte:02x}");
                }
            } else {
                text.push(char);
            }
        }
        for byte in chunk.invalid() {
            let _ = write!(text, "\\x{byte:02x}");
        }
    }
    text
}

/// Whether a terminal shows what follows the character in another direction, so that a name would look like another
/// one (the controls of the Unicode Bidirectional Algorithm, UAX #9 §2).
const fn turns_text_round(char: char) -> bool {
    matches!(
        char,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
    )
}

/// A name as JSON members: `KEY` if it is UTF-8, else `KEY_hex`.
pub(crate) fn put_json_name(object: &mut Map<String, Value>, key: &str, name: &[u8]) {
    match std::str::from_utf8(name) {
        Ok(text) => object.insert(key.to_owned(), text.into()),
        Err(_) => {
            let hex = name.iter().fold(String::new(), |mut hex, byte| {
                let _ = write!(hex, "{byte:02x}");
                hex
            });
            object.insert(format!("{key}_hex"), hex.into())
        }
    };
}

/// The attributes as JSON members: see docs/json.md.
pub(crate) fn put_json_attributes(object: &mut Map<String, Value>, attributes: &Fattr3) {
    let members = json!({
        "type": type_name(attributes.ftype),
        "mode": format!("{:04o}", attributes.mode & 0o7777),
        "nlink": attributes.nlink,
        "uid": attributes.uid,
        "gid": attributes.gid,
        "size": attributes.size,
        "used": attributes.used,
        "fsid": attributes.fsid.to_string(),
        "fileid": attributes.fileid.to_string(),
        "atime": exact_time_text(attributes.atime),
        "mtime": exact_time_text(attributes.mtime),
        "ctime": exact_time_text(attributes.ctime),
    });
    if let Value::Object(members) = members {
        object.extend(members);
    }
    if matches!(attributes.ftype, Ftype3::Blk | Ftype3::Chr) {
        let rdev = attributes.rdev;
        let rdev = json!({ "major": rdev.major, "minor": rdev.minor });
        object.insert("rdev".to_owned(), rdev);
    }
}

/// The word for a file type.
pub(crate) fn type_name(ftype: Ftype3) -> &'static str {
    match ftype {
        Ftype3::Reg => "file",
        Ftype3::Dir => "directory",
        Ftype3::Blk => "block device",
        Ftype3::Chr => "character device",
        Ftype3::Lnk => "symbolic link",
        Ftype3::Sock => "socket",
        Ftype3::Fifo => "fifo",
    }
}

/// When output is coloured: the words of `--color`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum When {
    /// On a terminal, unless NO_COLOR is set
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

impl When {
    /// Whether standard output gets colours.
    pub(crate) fn is_now(self) -> bool {
        match self {
            Self::Always => true,
            Self::Never => false,
            Self::Auto => gets_colours(&io::stdout()),
        }
    }
}

/// Whether a stream gets colours where nobody says more: on a terminal that has them, unless NO_COLOR or CLICOLOR
/// refuse them; anywhere with CLICOLOR_FORCE (no-color.org, bixense.com/clicolors).
pub(crate) fn gets_colours(stream: &impl anstream::stream::RawStream) -> bool {
    anstream::AutoStream::choice(stream) != anstream::ColorChoice::Never
}

/// The colour of a name, as ls has them; plain files have none.
pub(crate) fn colour(attributes: &Fattr3) -> Option<Style> {
    use AnsiColor::{Black, Blue, Cyan, Green, Magenta, Red, White, Yellow};
    Some(match attributes.ftype {
        Ftype3::Reg if attributes.mode & 0o6000 != 0 => White.on(Red),
        Ftype3::Reg if attributes.mode & 0o111 != 0 => Green.on_default().bold(),
        Ftype3::Reg => return None,
        Ftype3::Dir if attributes.mode & 0o1002 == 0o1002 => Black.on(Green),
        Ftype3::Dir => Blue.on_default().bold(),
        Ftype3::Lnk => Cyan.on_default().bold(),
        Ftype3::Fifo => Yellow.on_default(),
        Ftype3::Sock => Magenta.on_default().bold(),
        Ftype3::Blk | Ftype3::Chr => Yellow.on_default().bold(),
    })
}

/// Type and permissions in ten characters, as `ls -l` writes them: `drwxr-sr-t`.
pub(crate) fn mode_text(ftype: Ftype3, mode: u32) -> String {
    let first = match ftype {
        Ftype3::Reg => '-',
        Ftype3::Dir => 'd',
        Ftype3::Blk => 'b',
        Ftype3::Chr => 'c',
        Ftype3::Lnk => 'l',
        Ftype3::Sock => 's',
        Ftype3::Fifo => 'p',
    };
    let mut text = String::from(first);
    for (shift, special, letter) in [(6, 0o4000, 's'), (3, 0o2000, 's'), (0, 0o1000, 't')] {
        let bits = mode >> shift;
        text.push(if bits & 4 != 0 { 'r' } else { '-' });
        text.push(if bits & 2 != 0 { 'w' } else { '-' });
        text.push(match (bits & 1 != 0, mode & special != 0) {
            (true, true) => letter,
            (false, true) => letter.to_ascii_uppercase(),
            (true, false) => 'x',
            (false, false) => '-',
        });
    }
    text
}

/// A time in UTC: `2026-01-31 23:59:59`.
pub(crate) fn time_text(time: Nfstime3) -> String {
    timestamp(time).strftime("%Y-%m-%d %H:%M:%S").to_string()
}

/// A time of this host's zone, with its distance from UTC: `2026-01-31 23:59:59 +0100`.
pub(crate) fn local_time_text(time: Nfstime3, zone: &jiff::tz::TimeZone) -> String {
    let zoned = timestamp(time).to_zoned(zone.clone());
    zoned.strftime("%Y-%m-%d %H:%M:%S %z").to_string()
}

/// A time as RFC 3339 has it, in UTC: `2026-01-31T23:59:59.000000001Z`.
pub(crate) fn exact_time_text(time: Nfstime3) -> String {
    let nanoseconds = i32::try_from(time.nseconds).unwrap_or_default();
    let exact = jiff::Timestamp::new(time.seconds.into(), nanoseconds);
    format!("{:.9}", exact.unwrap_or(jiff::Timestamp::UNIX_EPOCH))
}

/// A time of NFSv3: 1970 to 2106, which the calendar has.
fn timestamp(time: Nfstime3) -> jiff::Timestamp {
    jiff::Timestamp::from_second(time.seconds.into()).unwrap_or(jiff::Timestamp::UNIX_EPOCH)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_safe_for_terminals() {
        assert_eq!(escape(b"plain name"), "plain name");
        assert_eq!(escape("gr\u{fc}n".as_bytes()), "gr\u{fc}n");
        assert_eq!(escape(b"a\xffb\\\x1b[0m\n"), "a\\xffb\\\\\\x1b[0m\\x0a");
        assert_eq!(escape("\u{85}".as_bytes()), "\\xc2\\x85");
        let disguised = "gpj\u{202e}exe.jpg";
        assert_eq!(escape(disguised.as_bytes()), "gpj\\xe2\\x80\\xaeexe.jpg");
    }

    #[test]
    fn columns_are_those_of_a_terminal() {
        let rows = [["\u{fc}", "x"], ["\u{65e5}\u{672c}", "y"], ["abc", "z"]];
        let rows = rows.map(|row| row.map(str::to_owned));
        let mut page = Vec::new();
        table(&mut page, &rows).unwrap();
        let page = String::from_utf8(page).unwrap();
        assert_eq!(page, "   \u{fc}  x\n\u{65e5}\u{672c}  y\n abc  z\n");
    }

    #[test]
    fn modes() {
        assert_eq!(mode_text(Ftype3::Reg, 0o644), "-rw-r--r--");
        assert_eq!(mode_text(Ftype3::Dir, 0o1777), "drwxrwxrwt");
        assert_eq!(mode_text(Ftype3::Reg, 0o6750), "-rwsr-s---");
        assert_eq!(mode_text(Ftype3::Fifo, 0o7000), "p--S--S--T");
    }

    #[test]
    fn times() {
        let at = |seconds| {
            time_text(Nfstime3 {
                seconds,
                nseconds: 0,
            })
        };
        assert_eq!(at(0), "1970-01-01 00:00:00");
        assert_eq!(at(951_782_400), "2000-02-29 00:00:00");
        assert_eq!(at(1_735_689_599), "2024-12-31 23:59:59");
        assert_eq!(at(u32::MAX), "2106-02-07 06:28:15");
        let exact = exact_time_text(Nfstime3 {
            seconds: u32::MAX,
            nseconds: 1,
        });
        assert_eq!(exact, "2106-02-07T06:28:15.000000001Z");
        let zone = jiff::tz::TimeZone::fixed(jiff::tz::offset(-3));
        let seconds = 951_782_400;
        let local = local_time_text(
            Nfstime3 {
                seconds,
                nseconds: 0,
            },
            &zone,
        );
        assert_eq!(local, "2000-02-28 21:00:00 -0300");
    }

    #[test]
    fn json_names() {
        let mut object = Map::new();
        put_json_name(&mut object, "name", b"a");
        put_json_name(&mut object, "target", b"\xff\x01");
        assert_eq!(
            Value::Object(object),
            json!({"name": "a", "target_hex": "ff01"})
        );
    }
}
