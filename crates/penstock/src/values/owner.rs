//! Owners as chown(1) takes them: `UID`, `UID:GID`, `:GID`, `NAME:GROUP`, `NAME:`.

use std::path::Path;
use std::str::FromStr;

/// The user and the group that shall own a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    /// The user id to set; `None` leaves the owner.
    pub(crate) uid: Option<u32>,
    /// The group id to set; `None` leaves the group.
    pub(crate) gid: Option<u32>,
}

impl FromStr for Owner {
    type Err = String;

    /// Reads names in this machine's `/etc/passwd` and `/etc/group`; the server only knows numbers.
    fn from_str(text: &str) -> Result<Self, String> {
        let read = |path: &str| std::fs::read_to_string(Path::new(path)).unwrap_or_default();
        parse(text, &read("/etc/passwd"), &read("/etc/group"))
    }
}

fn parse(text: &str, passwd: &str, group: &str) -> Result<Owner, String> {
    let (user, group_name) = match text.split_once(':') {
        Some((user, group)) => (user, Some(group)),
        None => (text, None),
    };
    let uid = match user {
        "" => None,
        name => Some(id(name, passwd, "user", "/etc/passwd")?),
    };
    let gid = match group_name {
        None => None,
        // As chown(1): `NAME:` is the group that NAME logs in with.
        Some("") if uid.is_some() => Some(login_group(user, passwd)?),
        Some("") => None,
        Some(name) => Some(id(name, group, "group", "/etc/group")?),
    };
    if uid.is_none() && gid.is_none() {
        return Err("names nobody: write UID, UID:GID, :GID or names".to_owned());
    }
    Ok(Owner { uid, gid })
}

/// A name's number; a number is itself, unless there is such a name.
fn id(name: &str, table: &str, what: &str, file: &str) -> Result<u32, String> {
    let named = lines(table).find(|fields| fields.first() == Some(&name));
    let number = match named {
        Some(fields) => fields.get(2).and_then(|number| number.parse().ok()),
        None if name.bytes().all(|byte| byte.is_ascii_digit()) => name.parse().ok(),
        None => None,
    };
    // RFC 1813 has no number for nobody; (uid_t)-1 means "leave it" on every server.
    let number = number.filter(|&number: &u32| number != u32::MAX);
    number.ok_or_else(|| format!("no {what} '{name}' in {file}: give its number"))
}

fn login_group(user: &str, passwd: &str) -> Result<u32, String> {
    let named = lines(passwd).find(|fields| fields.first() == Some(&user));
    let group = named.and_then(|fields| fields.get(3).and_then(|gid| gid.parse().ok()));
    group.ok_or_else(|| format!("no user '{user}' in /etc/passwd: give the group's number"))
}

fn lines(table: &str) -> impl Iterator<Item = Vec<&str>> {
    table.lines().map(|line| line.split(':').collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const PASSWD: &str =
        "root:x:0:0:root:/root:/bin/sh\nann:x:1000:1001::/home/ann:/bin/sh\n7:x:70:71::/:\nbad\n";
    const GROUP: &str = "root:x:0:\nstaff:x:50:ann\n";

    #[test]
    fn owners() {
        let table: &[(&str, Option<u32>, Option<u32>)] = &[
            ("0", Some(0), None),
            ("1000:50", Some(1000), Some(50)),
            (":50", None, Some(50)),
            ("ann", Some(1000), None),
            ("ann:staff", Some(1000), Some(50)),
            ("ann:", Some(1000), Some(1001)),
            (":staff", None, Some(50)),
            ("7", Some(70), None),
            ("4294967294", Some(4_294_967_294), None),
        ];
        for &(text, uid, gid) in table {
            assert_eq!(parse(text, PASSWD, GROUP), Ok(Owner { uid, gid }), "{text}");
        }
        for text in [
            "",
            ":",
            "bob",
            "ann:wheel",
            "4294967295",
            "-1",
            "+1",
            "12345678901",
            "1000:",
            "bad:",
        ] {
            let result = parse(text, PASSWD, GROUP);
            assert!(result.is_err(), "{text} is {result:?}");
        }
    }
}
