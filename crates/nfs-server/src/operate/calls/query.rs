//! Which calls somebody wants to see.

use std::net::IpAddr;
use std::time::Duration;

use nfs_wire::nfs4::Opnum;
use nfs_wire::{mount3, nfs3, nlm4};
use serde::{Deserialize, Serialize};

use super::clock::nanoseconds;
use super::record::{Answered, CallRecord};
use super::steps::Note;
use crate::limits;
use crate::operate::trace::ExportNames;

/// Which calls are wanted, and for how long.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CallQuery {
    /// Names of procedures and of operations of NFSv4, as the RFCs write them; all if there is none. A COMPOUND is
    /// wanted if one of its operations is.
    pub calls: Vec<String>,
    /// Only calls on this export, by the path that clients mount.
    pub export: Option<String>,
    /// Only calls that come from this address.
    pub client: Option<IpAddr>,
    /// Only calls that name this object.
    pub file: Option<FileNumber>,
    /// Only calls that took this long or longer, in microseconds.
    pub slower_than_us: Option<u64>,
    /// Only so many of them, those that took longest: at most [`limits::CALLS_SLOWEST_MAX`].
    pub slowest: Option<usize>,
    /// How long to follow, in milliseconds; `None` for no end.
    pub for_ms: Option<u64>,
    /// What the flight recorder has, instead of what happens from now on.
    pub recorded: bool,
}

/// The number by which the server's host knows an object: `st_dev` and `st_ino` of stat(2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileNumber {
    /// The device that the object is on.
    pub dev: u64,
    /// The number of its inode.
    pub inode: u64,
}

/// A query, made ready to be asked of each call.
#[derive(Clone, Debug, Default)]
pub(super) struct Filter {
    calls: Vec<&'static str>,
    export: Option<u32>,
    client: Option<IpAddr>,
    file: Option<FileNumber>,
    slower_than: Duration,
}

/// Checks a name of a procedure or operation, and gives it back as the RFCs write it.
///
/// # Errors
/// In words: there is none of that name.
pub fn check_call(name: &str) -> Result<String, String> {
    known(name).map(str::to_owned)
}

fn known(name: &str) -> Result<&'static str, String> {
    let mut names = names();
    let found = names.find(|known| known.eq_ignore_ascii_case(name));
    found.ok_or_else(|| {
        format!(
            "{name:?} is no procedure of NFSv3, MOUNT or NLM and no operation of NFSv4, as READ is"
        )
    })
}

fn names() -> impl Iterator<Item = &'static str> {
    let nfs3 = nfs3::Procedure::ALL.iter().map(|one| one.name());
    let mount3 = mount3::Procedure::ALL.iter().map(|one| one.name());
    let nlm4 = nlm4::Procedure::ALL.iter().map(|one| one.name());
    let nfs4 = Opnum::ALL.iter().map(|one| one.name());
    let all = nfs3.chain(nfs4).chain(mount3).chain(nlm4);
    all.chain(["COMPOUND"])
}

impl CallQuery {
    /// # Errors
    /// In words: a name that is no procedure's, an export that is not served, too many of the slowest.
    pub(super) fn filter(&self, exports: &ExportNames) -> Result<Filter, String> {
        let export = match &self.export {
            Some(pseudo) => Some(exports.id_of(pseudo)?),
            None => None,
        };
        if let Some(slowest) = self.slowest
            && !(1..=limits::CALLS_SLOWEST_MAX).contains(&slowest)
        {
            let most = limits::CALLS_SLOWEST_MAX;
            return Err(format!(
                "between 1 and {most} of the slowest calls are kept, not {slowest}"
            ));
        }
        let calls = self.calls.iter().map(|name| known(name));
        Ok(Filter {
            calls: calls.collect::<Result<_, _>>()?,
            export,
            client: self.client.map(|client| client.to_canonical()),
            file: self.file,
            slower_than: Duration::from_micros(self.slower_than_us.unwrap_or_default()),
        })
    }
}

impl Filter {
    pub(super) fn wants(&self, call: &CallRecord) -> bool {
        let file = |file| call.files.contains(&Some(file));
        self.export.is_none_or(|export| call.export == Some(export))
            && self
                .client
                .is_none_or(|client| call.client.ip().to_canonical() == client)
            && self.file.is_none_or(file)
            && (self.slower_than.is_zero() || call.took() >= self.slower_than)
            && (self.calls.is_empty() || self.is_of_calls(call))
    }

    fn is_of_calls(&self, call: &CallRecord) -> bool {
        let is_named = |name: &'static str| self.calls.contains(&name);
        call.procedure.name().is_some_and(is_named)
            || call.steps.iter().any(|step| match step.note {
                Note::Operation(number, _) => {
                    let operation = Opnum::try_from(number);
                    operation.is_ok_and(|operation| is_named(operation.name()))
                }
                Note::None | Note::Hit | Note::Miss | Note::Moved(..) => false,
            })
    }
}

impl CallRecord {
    /// How long it took until its reply was there, from when it had come whole; so far, if it has not ended.
    pub(super) fn took(&self) -> Duration {
        let until = match self.answer {
            Answered::Running => super::now(),
            Answered::Results(_) | Answered::Refused | Answered::Nothing => self.times.answered,
        };
        Duration::from_nanos(nanoseconds(self.times.received, until))
    }
}
