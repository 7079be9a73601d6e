//! Users and groups as NFSv4 names them: by their numbers in decimal or, where a domain is configured, as
//! `name@domain` (RFC 8881 §5.9).
//!
//! Numbers are always taken. What is sent and taken by name goes by what the server has of the machine's user database
//! when it looks: who may wait asks first ([`learn_names`], [`learn_ids`]), as the database may answer late or never.

use std::collections::HashSet;

use nfs_wire::nfs4::Nfsstat4;

use crate::front::context::Context;
use crate::host::accounts::{Answer, Kind, Question};
use crate::limits;

type Result<T> = core::result::Result<T, Nfsstat4>;

/// Sees to it that the names of users and groups are known before they are sent, as far as they come in time: who has
/// none by then is sent as a number.
pub(super) async fn learn_names(cx: &Context, asked: impl Iterator<Item = (Kind, u32)>) {
    if cx.service.idmap_domain.is_none() {
        return;
    }
    let accounts = &cx.service.accounts;
    let mut seen = HashSet::new();
    let new = asked.filter(|one| seen.insert(*one));
    let questions = new.map(|(kind, id)| Question::Name(kind, id));
    let unknown = questions.filter(|question| !accounts.is_fresh(question));
    let questions: Vec<Question> = unknown.take(limits::OWNERS_ASKED_PER_ANSWER_MAX).collect();
    if !questions.is_empty() {
        let _sent_as_numbers = cx.service.learn(&cx.caller, &questions).await;
    }
}

/// A user or group as it is sent.
pub(super) fn owner(cx: &Context, kind: Kind, id: u32) -> String {
    let domain = cx.service.idmap_domain.as_deref();
    let known = domain.and_then(|domain| {
        let answer = cx.service.accounts.recall(&Question::Name(kind, id))?;
        owner_of(&answer, domain)
    });
    known.unwrap_or_else(|| id.to_string())
}

/// The most bytes that [`owner`] makes.
pub(super) fn owner_len_max(cx: &Context) -> usize {
    let domain = cx.service.idmap_domain.as_deref();
    domain.map_or(limits::OWNER_NUMBER_BYTES_MAX, |domain| {
        limits::OWNER_NAME_BYTES_MAX + 1 + domain.len()
    })
}

/// Sees to it that the numbers are known of those whom a client names.
///
/// # Errors
/// NFS4ERR_DELAY where the user database does not answer in time.
pub(super) async fn learn_ids(
    cx: &Context,
    named: impl Iterator<Item = (Kind, &[u8])>,
) -> Result<()> {
    let Some(domain) = cx.service.idmap_domain.as_deref() else {
        return Ok(());
    };
    let names = named.filter_map(|(kind, owner)| match parse(owner, Some(domain)) {
        Ok(Named::ByName(name)) => Some(Question::Id(kind, name.into())),
        Ok(Named::ByNumber(_)) | Err(_) => None,
    });
    let mut seen = HashSet::new();
    // No ACL that is taken names more.
    let names = names.filter(|question| seen.insert(question.clone()));
    let questions: Vec<Question> = names.take(limits::OWNERS_ASKED_PER_ANSWER_MAX).collect();
    if questions.is_empty() {
        return Ok(());
    }
    let learned = cx.service.learn(&cx.caller, &questions).await;
    learned.map_err(|_late| Nfsstat4::Delay)
}

/// The number of whom a client names, by what is known of the user database.
///
/// # Errors
/// NFS4ERR_BADOWNER for whom it does not know, NFS4ERR_DELAY where that is not known.
pub(super) fn id(cx: &Context, kind: Kind, owner: &[u8]) -> Result<u32> {
    match parse(owner, cx.service.idmap_domain.as_deref())? {
        Named::ByNumber(number) => Ok(number),
        Named::ByName(name) => {
            let question = Question::Id(kind, name.into());
            match cx.service.accounts.recall(&question) {
                Some(Answer::Id(id)) if id != NO_ID => Ok(id),
                Some(Answer::Failed) | None => Err(Nfsstat4::Delay),
                Some(_nobody) => Err(Nfsstat4::Badowner),
            }
        }
    }
}

/// 4294967295 is no id: to the kernel it means "leave as it is".
const NO_ID: u32 = u32::MAX;

/// How an owner is named.
#[derive(Debug, PartialEq, Eq)]
enum Named<'o> {
    ByNumber(u32),
    /// By a name of the domain, without that.
    ByName(&'o [u8]),
}

/// Digits alone are a number, also where somebody is called so: he is `1000@domain`. The domain is that of the server,
/// in large or small letters.
///
/// # Errors
/// NFS4ERR_BADOWNER for all else: names without a domain, of another one, or that no account can have.
fn parse<'o>(owner: &'o [u8], domain: Option<&str>) -> Result<Named<'o>> {
    const BAD: Nfsstat4 = Nfsstat4::Badowner;
    if owner.iter().all(u8::is_ascii_digit) {
        return number(owner).map(Named::ByNumber);
    }
    let domain = domain.ok_or(BAD)?;
    if owner.len() > limits::OWNER_BYTES_MAX {
        return Err(BAD);
    }
    let at = owner.iter().position(|byte| *byte == b'@').ok_or(BAD)?;
    let (name, of) = owner.split_at(at);
    let of = of.get(1..).unwrap_or_default();
    let is_ours = of.eq_ignore_ascii_case(domain.as_bytes());
    (is_ours && may_be_name(name))
        .then_some(Named::ByName(name))
        .ok_or(BAD)
}

/// A number in decimal, of no more digits than it takes.
///
/// # Errors
/// NFS4ERR_BADOWNER for anything else.
pub(super) fn number(owner: &[u8]) -> Result<u32> {
    let is_short =
        owner.len() <= limits::OWNER_NUMBER_BYTES_MAX && owner.iter().all(u8::is_ascii_digit);
    let text = core::str::from_utf8(owner).ok().filter(|_| is_short);
    let number = text.and_then(|text| text.parse().ok());
    number
        .filter(|number| *number != NO_ID)
        .ok_or(Nfsstat4::Badowner)
}

/// What the user database answers for a number, as it is sent; `None` for what only the number can stand for.
fn owner_of(answer: &Answer, domain: &str) -> Option<String> {
    let Answer::Name(name) = answer else {
        return None;
    };
    let is_sendable = name.len() <= limits::OWNER_NAME_BYTES_MAX && may_be_name(name.as_bytes());
    is_sendable.then(|| format!("{name}@{domain}"))
}

/// Whether an account may have such a name: text without control characters, and without what separates fields of the
/// user database or a name from its domain.
fn may_be_name(name: &[u8]) -> bool {
    let is_text = core::str::from_utf8(name).is_ok_and(|name| !name.contains(char::is_control));
    is_text && !name.is_empty() && !name.iter().any(|byte| matches!(byte, b':' | b'@'))
}

#[cfg(test)]
mod tests {
    use super::*;

    const BAD: Result<Named<'static>> = Err(Nfsstat4::Badowner);

    #[test]
    fn an_owner_is_a_number_in_decimal() {
        for domain in [None, Some("example.org")] {
            assert_eq!(parse(b"0", domain), Ok(Named::ByNumber(0)));
            let most = u32::MAX - 1;
            assert_eq!(parse(b"4294967294", domain), Ok(Named::ByNumber(most)));
            for owner in [
                &b""[..],
                b"-1",
                b"+1",
                b" 1",
                b"4294967295",
                b"99999999999",
                b"00000000001",
                b"root",
                b"\xff",
            ] {
                assert_eq!(parse(owner, domain), BAD, "{owner:?}");
            }
        }
        assert_eq!(parse(b"nobody@example.org", None), BAD);
    }

    #[test]
    fn a_name_is_of_the_servers_domain() {
        let parse = |owner| parse(owner, Some("example.org"));
        for (owner, name) in [
            (&b"root@example.org"[..], &b"root"[..]),
            (b"root@EXAMPLE.org", b"root"),
            // Somebody who is called like a number is not the one who has it.
            (b"1000@example.org", b"1000"),
            (b"DOM\\user@example.org", b"DOM\\user"),
            ("j\u{f6}rg@example.org".as_bytes(), "j\u{f6}rg".as_bytes()),
        ] {
            assert_eq!(parse(owner), Ok(Named::ByName(name)), "{owner:?}");
        }
        let long = [&[b'a'; limits::OWNER_BYTES_MAX][..], b"@example.org"].concat();
        for owner in [
            &b"root@"[..],
            b"@example.org",
            b"root@example.com",
            b"root@example.org.",
            b"root@@example.org",
            b"root@example.org@example.org",
            b"a@b@example.org",
            b"ro\0ot@example.org",
            b"root\0@example.org",
            b"root\n@example.org",
            b"root:0@example.org",
            b"\xff@example.org",
            b"\x7f@example.org",
            &long,
        ] {
            assert_eq!(parse(owner), BAD, "{owner:?}");
        }
    }

    #[test]
    fn a_name_that_cannot_be_sent_is_a_number() {
        let of = |name: &str| owner_of(&Answer::Name(name.into()), "example.org");
        assert_eq!(of("root").as_deref(), Some("root@example.org"));
        let most = "a".repeat(limits::OWNER_NAME_BYTES_MAX);
        assert!(of(&most).is_some());
        for name in ["", "a@b", "a\nb", "a:b", &format!("{most}a")] {
            assert_eq!(of(name), None, "{name:?}");
        }
        assert_eq!(owner_of(&Answer::Unknown, "example.org"), None);
        assert_eq!(owner_of(&Answer::Failed, "example.org"), None);
    }
}
