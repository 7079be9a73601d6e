//! Results as JSON, one object per line on standard output, failures among them: the convention of `--json`, which
//! docs/json.md describes.
//!
//! A process has one standard output, so whether it is JSON is the process's ([`begin`]). Times are RFC 3339, numbers
//! of files and file systems are strings, for they have 64 bits and JSON's readers often 53.

use std::io::{self, Write as _};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use nfs_client::doctor::facts::Refusal;
use nfs_client::transfer::{Location, TransferError};
use nfs_client::{ClientError, Nfs4Error, NfsUrl, RpcError};
use nix::errno::Errno;
use serde_json::{Map, Value, json};

use crate::message;
use crate::show::put_json_name;

/// Results are lines of JSON: `--json` was given.
static JSON: AtomicBool = AtomicBool::new(false);

/// Has results be for people, or lines of JSON.
pub(crate) fn begin(json: bool) {
    JSON.store(json, Ordering::Relaxed);
}

/// Whether results are lines of JSON.
pub(crate) fn is_json() -> bool {
    JSON.load(Ordering::Relaxed)
}

/// Prints one object as a line. A command that changes things does not stop because nobody reads this.
pub(crate) fn line(object: &Value) {
    message::around(|| {
        let _unread = writeln!(io::stdout().lock(), "{object}");
    });
}

/// Tells what was done with what `url` names: an object with `members`, or its address if it is to be told to people.
pub(crate) fn done(url: &NfsUrl, what: &str, members: Value, told: bool) {
    if !is_json() {
        if told {
            message::around(|| crate::show::say(url));
        }
        return;
    }
    let mut object = Map::new();
    object.insert("url".to_owned(), url.to_string().into());
    object.insert("done".to_owned(), what.into());
    if let Value::Object(members) = members {
        object.extend(members);
    }
    line(&Value::Object(object));
}

/// Writes the time of a snapshot as all times are written for programs: RFC 3339, in `at`.
pub(crate) fn date(snapshot: &mut Value) {
    let Some(members) = snapshot.as_object_mut() else {
        return;
    };
    let at = members.remove("at_unix_ms");
    let at = at.and_then(|at| jiff::Timestamp::from_millisecond(at.as_i64()?).ok());
    if let Some(at) = at {
        members.insert("at".to_owned(), format!("{at:.9}").into());
    }
}

/// Why something failed, as an object.
#[derive(Clone, Debug, Default)]
pub(crate) struct Failure {
    members: Map<String, Value>,
}

/// Tells people that something failed, and with `--json` programs as well.
pub(crate) fn failed(text: &str, failure: Failure) {
    message::error(text);
    if is_json() {
        line(&failure.object(text));
    }
}

impl Failure {
    /// A system call that failed.
    pub(crate) fn of_errno(errno: i32) -> Self {
        let mut failure = Self::default();
        failure.number(Errno::from_raw(errno));
        failure
    }

    /// An answer that the doctor did not get.
    pub(crate) fn of_refusal(refusal: &Refusal) -> Self {
        let mut failure = Self::default();
        if let Refusal::Status(status) = refusal {
            failure.status(status.word(), *status as u32);
        }
        failure
    }

    /// About what `url` names.
    pub(crate) fn at(url: &NfsUrl) -> Self {
        let mut failure = Self::default();
        failure.put("url", url.to_string());
        put_json_name(&mut failure.members, "path", &url.path);
        failure
    }

    /// About what `url` names, for this reason.
    pub(crate) fn of(url: &NfsUrl, error: &ClientError) -> Self {
        let mut failure = Self::at(url);
        failure.client(error);
        failure
    }

    /// Why something was not copied.
    pub(crate) fn of_transfer(error: &TransferError) -> Self {
        let mut failure = match error.place() {
            Some(Location::Remote(url)) => Self::at(url),
            Some(Location::Local(path)) => Self::here(path),
            None => Self::default(),
        };
        match error {
            TransferError::Client(error) => {
                let named = error.path().and_then(|path| path.parse::<NfsUrl>().ok());
                if let Some(url) = named {
                    failure = Self::at(&url);
                }
                failure.client(error);
            }
            TransferError::Local { error, .. } => failure.system(error),
            TransferError::ReaderGone { .. } => failure.number(Errno::EPIPE),
            _ => {}
        }
        failure
    }

    /// Why a command ended early.
    pub(crate) fn of_chain(error: &anyhow::Error) -> Self {
        if let Some(told) = error.downcast_ref::<Told>() {
            return told.failure.clone();
        }
        if let Some(error) = error.downcast_ref::<TransferError>() {
            return Self::of_transfer(error);
        }
        let mut failure = Self::default();
        for cause in error.chain() {
            if let Some(error) = cause.downcast_ref::<ClientError>() {
                failure.client(error);
            } else if let Some(error) = cause.downcast_ref::<io::Error>() {
                failure.system(error);
            }
        }
        failure
    }

    /// About a path of this host.
    pub(crate) fn here(path: &Path) -> Self {
        use std::os::unix::ffi::OsStrExt as _;
        let mut failure = Self::default();
        put_json_name(&mut failure.members, "path", path.as_os_str().as_bytes());
        failure
    }

    /// The whole of it: `{"error": {...}}`.
    pub(crate) fn object(self, text: &str) -> Value {
        json!({ "error": self.value(text) })
    }

    /// What is in the member `error`.
    pub(crate) fn value(self, text: &str) -> Value {
        let mut members = self.members;
        members.insert("message".to_owned(), text.into());
        for name in ["status", "code"] {
            members.entry(name).or_insert(Value::Null);
        }
        Value::Object(members)
    }

    fn client(&mut self, error: &ClientError) {
        match error {
            ClientError::Nfs { status, .. } => self.status(status.word(), *status as u32),
            ClientError::Mount { status, .. } => {
                let word = format!("MNT3ERR_{status:?}").to_uppercase();
                self.status(&word, *status as u32);
            }
            ClientError::Nfs4 {
                error: Nfs4Error::Status { status, .. },
                ..
            } => self.status(status.word(), *status as u32),
            ClientError::Rpc(RpcError::Connect { cause, .. }) => self.system(cause),
            ClientError::Rpc(RpcError::Timeout { .. }) => self.number(Errno::ETIMEDOUT),
            _ => {}
        }
    }

    fn system(&mut self, error: &io::Error) {
        match (error.raw_os_error(), error.kind()) {
            (Some(number), _) => self.number(Errno::from_raw(number)),
            (None, io::ErrorKind::TimedOut) => self.number(Errno::ETIMEDOUT),
            _ => {}
        }
    }

    fn number(&mut self, errno: Errno) {
        let code = errno as i32;
        self.put("status", format!("{errno:?}"));
        self.put("code", code);
    }

    fn status(&mut self, word: &str, code: u32) {
        self.put("status", word);
        self.put("code", code);
    }

    fn put(&mut self, name: &str, value: impl Into<Value>) {
        self.members.insert(name.to_owned(), value.into());
    }
}

/// An error with what is said of it, and the object that tells it to programs.
#[derive(Debug)]
pub(crate) struct Told {
    pub(crate) text: String,
    pub(crate) failure: Failure,
}

impl std::fmt::Display for Told {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Told {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_have_place_status_and_code() {
        let url: NfsUrl = "nfs://h/a%FF?uid=7".parse().unwrap();
        let refused = ClientError::Nfs {
            operation: "LOOKUP",
            path: String::new(),
            status: nfs_client::nfs3::Nfsstat3::Acces,
        };
        let object = Failure::of(&url, &refused).object("no");
        let expected = json!({"error": {
            "url": "nfs://h/a%FF?uid=7", "path_hex": "2f61ff", "message": "no",
            "status": "NFS3ERR_ACCES", "code": 13,
        }});
        assert_eq!(object, expected);
        let error = anyhow::Error::from(io::Error::from_raw_os_error(2)).context("reading");
        let object = Failure::of_chain(&error).object("reading: gone");
        let expected =
            json!({"error": {"message": "reading: gone", "status": "ENOENT", "code": 2}});
        assert_eq!(object, expected);
        let object = Failure::default().object("x");
        assert_eq!(
            object,
            json!({"error": {"message": "x", "status": null, "code": null}})
        );
    }
}
