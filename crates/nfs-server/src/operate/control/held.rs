//! What is said on the control socket about NFSv4's clients and what they hold.
//!
//! Names that a peer chose are escaped here already: what is printable ASCII is as it is, and the rest as `\xNN`.

use serde::{Deserialize, Serialize};

use crate::limits;

/// What is asked or told about what NFSv4's clients hold: [`Command::Held`](super::Command::Held).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HeldQuery {
    /// How far the grace period is: a [`GraceReport`].
    Grace,
    /// Ends the grace period; a [`GraceReport`].
    EndGrace,
    /// The clients: [`Listed`] [`Nfs4ClientStatus`].
    Clients(Page),
    /// What is open: [`Listed`] [`OpenRow`].
    Opens(Page),
    /// What is locked: [`Listed`] [`LockRow`].
    Locks(Page),
    /// Ends a client's state at once, by its id or its name as they are shown; an [`Expired`].
    Expire(String),
}

/// Which part of a list is wanted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Page {
    /// Only what this client holds, by its id as it is shown.
    pub client: Option<String>,
    /// How many rows to leave out at the beginning.
    pub skip: usize,
    /// How many rows to give at most; never more than [`limits::CONTROL_HELD_ROWS_MAX`].
    pub limit: usize,
}

impl Default for Page {
    fn default() -> Self {
        Self {
            client: None,
            skip: 0,
            limit: limits::CONTROL_HELD_ROWS_MAX,
        }
    }
}

/// The answer to a [`HeldQuery`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum HeldAnswer {
    /// To [`HeldQuery::Grace`] and [`HeldQuery::EndGrace`].
    Grace(GraceReport),
    /// To [`HeldQuery::Clients`].
    Clients(Listed<Nfs4ClientStatus>),
    /// To [`HeldQuery::Opens`].
    Opens(Listed<OpenRow>),
    /// To [`HeldQuery::Locks`].
    Locks(Listed<LockRow>),
    /// To [`HeldQuery::Expire`].
    Expired(Expired),
}

/// Some rows of a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listed<T> {
    /// How many rows there are in all.
    pub total: usize,
    /// Those that were asked for.
    pub rows: Vec<T>,
}

/// How far the time after a restart is in which clients reclaim what they held.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct GraceReport {
    /// Whether it is running.
    pub running: bool,
    /// How many seconds it lasts at most from now.
    pub seconds_left: u64,
    /// How many clients have not come back.
    pub waiting: usize,
    /// The names of some of them, escaped.
    pub names: Vec<String>,
}

/// A client of NFSv4 that has a session or holds something.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Nfs4ClientStatus {
    /// Its id (`clientid4`), in hexadecimal.
    pub id: String,
    /// The name that it gave itself (`co_ownerid`), escaped.
    pub name: String,
    /// The address that it came from.
    pub address: String,
    /// The version of NFS that it came with.
    pub version: String,
    /// Seconds since its last request.
    pub silent_seconds: u64,
    /// Seconds until its lease is over; 0 if it is.
    pub lease_seconds_left: u64,
    /// Its lease is over, and it keeps what it holds until somebody wants that.
    pub courtesy: bool,
    /// How many sessions it has.
    pub sessions: usize,
    /// How many files it has open, each counted for every open-owner.
    pub opens: usize,
    /// How many lock stateids it has: one for each lock-owner and file.
    pub lock_states: usize,
    /// The addresses of two machines that took turns under this name in the last ten minutes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub name_shared_by: Vec<String>,
}

/// A file that a client has open.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct OpenRow {
    /// The id of the client.
    pub client: String,
    /// The open-owner, escaped.
    pub owner: String,
    /// The path of the file as clients see it, escaped, or its handle in hexadecimal.
    pub file: String,
    /// What it is open for: `read`, `write` or `both`.
    pub access: String,
    /// What it denies to others: `none`, `read`, `write` or `both`.
    pub deny: String,
}

/// A range of a file that is locked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LockRow {
    /// Whether a client holds it (`remote`), or a program of the server's own host (`local`), of which only one is shown
    /// for each file.
    pub holder: String,
    /// The id of the client; the process of a local program, where it is known; else empty.
    pub client: String,
    /// The lock-owner, escaped; empty for local programs.
    pub owner: String,
    /// The file, as in [`OpenRow`].
    pub file: String,
    /// The first byte.
    pub offset: u64,
    /// How many bytes; absent: to the end of the file, wherever that will be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub length: Option<u64>,
    /// `read` or `write`.
    pub kind: String,
}

/// A client whose state was ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Expired {
    /// Its id.
    pub id: String,
    /// Its name, escaped.
    pub name: String,
    /// How many files it had open.
    pub opens: usize,
    /// How many lock stateids it had.
    pub lock_states: usize,
}
