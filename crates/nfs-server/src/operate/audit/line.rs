//! Audited calls, as they were made and in words.

use std::fmt::Write as _;
use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use super::Record;
use crate::limits;
use crate::operate::trace::time;

macro_rules! operations {
    ($( $variant:ident $word:literal; )*) => {
        /// The calls that are audited.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub(crate) enum Operation { $( $variant ),* }

        impl Operation {
            const fn word(self) -> &'static str {
                match self { $( Self::$variant => $word, )* }
            }
        }

        impl AuditEvent {
            /// What `operation` can be.
            pub const OPERATIONS: &[&str] = &[$( $word ),*];
        }
    };
}

operations! {
    Create "create";
    Mkdir "mkdir";
    Symlink "symlink";
    Mknod "mknod";
    Remove "remove";
    Rmdir "rmdir";
    Rename "rename";
    Link "link";
    Setattr "setattr";
    Read "read";
    Write "write";
}

impl Operation {
    /// Of these only the first in a while is told.
    pub(super) const fn is_data(self) -> bool {
        matches!(self, Self::Read | Self::Write)
    }
}

/// A call that is audited: who asks for what.
#[derive(Clone, Debug)]
pub(crate) struct Deed {
    pub(crate) operation: Operation,
    pub(crate) client: SocketAddr,
    /// As the call names it, before squashing; for a program of this machine as the kernel says.
    pub(crate) uid: Option<u32>,
    /// The object, or the directory and the name in it.
    pub(crate) on: Named,
    /// RENAME and LINK: the new directory and name.
    pub(crate) to: Option<Named>,
    pub(crate) asked: Asked,
}

/// An object by its handle, or by that of its directory and its name.
#[derive(Clone, Debug)]
pub(crate) struct Named {
    pub(crate) handle: Box<[u8]>,
    pub(crate) name: Option<Box<[u8]>>,
    /// Where in the export the object of the handle was when the call had been answered, if that is known.
    pub(super) path: Option<Box<[u8]>>,
}

impl Named {
    /// `name` is cut where it is longer than any that a file system takes.
    pub(crate) fn new(handle: &[u8], name: Option<&[u8]>) -> Self {
        let cut = |name: &[u8]| {
            name.iter()
                .copied()
                .take(limits::AUDIT_NAME_BYTES_MAX)
                .collect()
        };
        Self {
            handle: handle.into(),
            name: name.map(cut),
            path: None,
        }
    }
}

/// Attributes that the call sets.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Asked {
    pub(crate) mode: Option<u32>,
    pub(crate) uid: Option<u32>,
    pub(crate) gid: Option<u32>,
    pub(crate) size: Option<u64>,
}

/// One audited call.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct AuditEvent {
    /// When it was answered: UTC, to the microsecond, as in RFC 3339.
    pub time: String,
    /// The procedure: `create`, `mkdir`, `symlink`, `mknod`, `remove`, `rmdir`, `rename`, `link`,
    /// `setattr`, `read` or `write`.
    pub operation: String,
    /// Address and port that the call came from.
    pub client: String,
    /// The user as the call names it, before squashing; for a program of this machine as the kernel says.
    /// Absent for AUTH_NONE.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uid: Option<u32>,
    /// The export, as clients mount it.
    pub export: String,
    /// The handle of the object, or of the directory that `name` is in, in hexadecimal.
    pub handle: String,
    /// Where in the export the object of `handle` was when the call had been answered, `/` for its root;
    /// written as `name` is. Absent where the kernel had no path of it at hand.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The name in that directory; bytes that are not UTF-8 and control characters as `\xNN`, and a
    /// backslash doubled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// RENAME and LINK: the handle of the directory of the new name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to_handle: Option<String>,
    /// RENAME and LINK: where that directory was, as `path`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to_path: Option<String>,
    /// RENAME and LINK: the new name, as `name`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to_name: Option<String>,
    /// The permission bits that are set, in octal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// The owner that is set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<u32>,
    /// The group that is set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<u32>,
    /// The length that is set, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// What the client was told, the RFC's word; absent where it left before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
}

/// One line of the audit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum AuditLine {
    /// So many calls are not told of, since this reader was too slow for them.
    Lost {
        /// How many.
        lost: u64,
    },
    /// A call.
    Event(Box<AuditEvent>),
}

impl AuditLine {
    pub(super) fn of(record: &Record) -> Self {
        let Record {
            time: at,
            deed,
            export,
            status,
        } = record;
        let to = deed.to.as_ref();
        Self::Event(Box::new(AuditEvent {
            time: time(*at),
            operation: deed.operation.word().to_owned(),
            client: deed.client.to_string(),
            uid: deed.uid,
            export: export.as_ref().to_owned(),
            handle: hexadecimal(&deed.on.handle),
            path: deed.on.path.as_deref().map(readable),
            name: deed.on.name.as_deref().map(readable),
            to_handle: to.map(|to| hexadecimal(&to.handle)),
            to_path: to.and_then(|to| to.path.as_deref()).map(readable),
            to_name: to.and_then(|to| to.name.as_deref()).map(readable),
            mode: deed.asked.mode.map(|mode| format!("{mode:04o}")),
            owner: deed.asked.uid,
            group: deed.asked.gid,
            size: deed.asked.size,
            status: status.map(str::to_owned),
        }))
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string does not fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// A name or path without ambiguity and without the characters that a terminal would obey.
fn readable(name: &[u8]) -> String {
    let mut text = String::with_capacity(name.len());
    for chunk in name.utf8_chunks() {
        for character in chunk.valid().chars() {
            match character {
                '\\' => text.push_str("\\\\"),
                control if control.is_control() || turns_text(control) => {
                    let mut bytes = [0; 4];
                    escape(&mut text, control.encode_utf8(&mut bytes).as_bytes());
                }
                plain => text.push(plain),
            }
        }
        escape(&mut text, chunk.invalid());
    }
    text
}

/// Characters that turn the direction of the text beside them or begin a line, so that a name could be shown
/// as another one (Unicode Standard Annex 9).
const fn turns_text(character: char) -> bool {
    matches!(
        character,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
    )
}

fn escape(text: &mut String, bytes: &[u8]) {
    for byte in bytes {
        // Writing to a string does not fail.
        let _ = write!(text, "\\x{byte:02x}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_told_without_ambiguity_and_without_control_characters() {
        assert_eq!(readable("é a".as_bytes()), "é a");
        assert_eq!(readable(b"a\\x41"), "a\\\\x41");
        assert_eq!(readable(b"\x1b[2J\n"), "\\x1b[2J\\x0a");
        assert_eq!(readable(b"\xff\xc3b"), "\\xff\\xc3b");
        assert_eq!(readable("\u{9b}".as_bytes()), "\\xc2\\x9b");
        assert_eq!(
            readable("a\u{202e}b\u{2028}".as_bytes()),
            "a\\xe2\\x80\\xaeb\\xe2\\x80\\xa8"
        );
    }
}
