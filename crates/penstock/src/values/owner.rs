//! Owners as chown(1) takes them: `UID`, `UID:GID`, `:GID`, `NAME:GROUP`, `NAME:`.

use std::collections::HashMap;
use std::str::FromStr;

use nix::unistd::{Group, User};

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

    /// Reads names as this machine knows them (NSS); the server only knows numbers.
    fn from_str(text: &str) -> Result<Self, String> {
        let user = |name: &str| {
            let user = User::from_name(name).map_err(|error| error.to_string())?;
            Ok(user.map(|user| (user.uid.as_raw(), user.gid.as_raw())))
        };
        let group = |name: &str| {
            let group = Group::from_name(name).map_err(|error| error.to_string())?;
            Ok(group.map(|group| group.gid.as_raw()))
        };
        parse(text, user, group)
    }
}

/// What a look for a name brings: nothing if nobody has it.
type Looked<T> = Result<Option<T>, String>;

fn parse(
    text: &str,
    user_ids: impl Fn(&str) -> Looked<(u32, u32)>,
    group_id: impl Fn(&str) -> Looked<u32>,
) -> Result<Owner, String> {
    let (user, group) = match text.split_once(':') {
        Some((user, group)) => (user, Some(group)),
        None => (text, None),
    };
    let uid = match user {
        "" => None,
        name => {
            let known = user_ids(name)?.map(|(uid, _)| uid);
            Some(id(name, known, "user")?)
        }
    };
    let gid = match group {
        None => None,
        // As chown(1): `NAME:` is the group that NAME logs in with.
        Some("") if uid.is_some() => {
            let login = user_ids(user)?.map(|(_, gid)| gid);
            Some(login.ok_or_else(|| {
                format!("no user '{user}' on this machine: give the group's number")
            })?)
        }
        Some("") => None,
        Some(name) => Some(id(name, group_id(name)?, "group")?),
    };
    if uid.is_none() && gid.is_none() {
        return Err("names nobody: write UID, UID:GID, :GID or names".to_owned());
    }
    Ok(Owner { uid, gid })
}

/// A name's number; a number is itself, unless there is such a name.
fn id(name: &str, known: Option<u32>, what: &str) -> Result<u32, String> {
    let number = known.or_else(|| {
        let is_number = name.bytes().all(|byte| byte.is_ascii_digit());
        name.parse().ok().filter(|_| is_number)
    });
    // RFC 1813 has no number for nobody; (uid_t)-1 means "leave it" on every server.
    let number = number.filter(|&number: &u32| number != u32::MAX);
    number.ok_or_else(|| format!("no {what} '{name}' on this machine: give its number"))
}

/// Names of owners for people, looked up once each (NSS); a number that nobody has is told as it is.
#[derive(Debug, Default)]
pub(crate) struct Names {
    users: HashMap<u32, String>,
    groups: HashMap<u32, String>,
}

impl Names {
    /// The name of the user with this number.
    pub(crate) fn user(&mut self, uid: u32) -> &str {
        self.users.entry(uid).or_insert_with(|| {
            let user = User::from_uid(uid.into()).ok().flatten();
            user.map_or_else(|| uid.to_string(), |user| user.name)
        })
    }

    /// The name of the group with this number.
    pub(crate) fn group(&mut self, gid: u32) -> &str {
        self.groups.entry(gid).or_insert_with(|| {
            let group = Group::from_gid(gid.into()).ok().flatten();
            group.map_or_else(|| gid.to_string(), |group| group.name)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Result<Owner, String> {
        let users = [("root", (0, 0)), ("ann", (1000, 1001)), ("7", (70, 71))];
        let groups = [("root", 0), ("staff", 50)];
        let user = |name: &str| {
            Ok(users
                .iter()
                .find(|known| known.0 == name)
                .map(|known| known.1))
        };
        let group = |name: &str| {
            Ok(groups
                .iter()
                .find(|known| known.0 == name)
                .map(|known| known.1))
        };
        parse(text, user, group)
    }

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
            assert_eq!(of(text), Ok(Owner { uid, gid }), "{text}");
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
            let result = of(text);
            assert!(result.is_err(), "{text} is {result:?}");
        }
    }

    #[test]
    fn names_of_owners() {
        let mut names = Names::default();
        assert_eq!(names.user(0), "root");
        assert_eq!(names.user(3_999_999_999), "3999999999");
        assert_eq!(names.group(0), "root");
        assert_eq!(
            "root".parse(),
            Ok(Owner {
                uid: Some(0),
                gid: None
            })
        );
    }
}
