//! What an examination of a server found out: measurements and answers, without a judgement.

use std::time::Duration;

use nfs_wire::nfs3::{Fattr3, FsinfoOk, Nfsstat3, PathconfOk, StableHow, WccData};

use crate::error::RpcError;
use crate::mount3::ExportEntry;

/// All that an examination of one directory of a server found out.
#[derive(Clone, Debug)]
pub struct Facts {
    /// The host and port of the NFS program that was examined.
    pub server: String,
    /// The path that was examined, in the server's name space.
    pub path: Vec<u8>,
    /// The version of NFS that was examined: `3`, `4.1` or `4.2`.
    pub version: &'static str,
    /// How many calls were made in all, one at a time.
    pub calls: u64,
    /// What answers on the host.
    pub services: Services,
    /// Whether the directory could be mounted and found; why not.
    pub directory: Answered<()>,
    /// FSINFO of the directory.
    pub fsinfo: Answered<FsinfoOk>,
    /// PATHCONF of the directory.
    pub pathconf: Answered<PathconfOk>,
    /// How long calls take that change nothing.
    pub latency: Latency,
    /// What was tried in a directory of the examination's own.
    pub trials: Result<Trials, NoTrials>,
    /// The directory of the examination's own, once it was made.
    pub own: Option<OwnDirectory>,
    /// The examination was ended before it had asked for all.
    pub ended: Option<Ended>,
}

/// Why an examination ended before it had asked for all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The user asked for the end.
    Asked,
    /// The time of a whole examination was over.
    Late,
}

/// Why nothing was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoTrials {
    /// The user asked for an examination that writes nothing.
    ReadOnly,
    /// The directory for the trials could not be made.
    Refused(Refusal),
    /// It did not come to that: the directory could not be mounted, or the examination had ended.
    NotMounted,
}

/// What became of the directory of the examination's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnDirectory {
    /// Its path in the server's name space.
    pub path: Vec<u8>,
    /// Whether it was removed with all that was in it; why not, in words.
    pub removed: Result<(), String>,
}

/// An answer, or why there was none.
pub type Answered<T> = Result<T, Refusal>;

/// Why there was no answer to use.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The server answered with an error status.
    #[error("{}", .0.word())]
    Status(Nfsstat3),
    /// The call brought no results, for this reason.
    #[error("{0}")]
    Call(String),
    /// The server has the program in these versions only.
    #[error("the server has versions {low} to {high} only")]
    Versions {
        /// The lowest version that the server has.
        low: u32,
        /// The highest version that the server has.
        high: u32,
    },
    /// It was not asked: the examination had ended.
    #[error("not asked: the examination had ended")]
    NotAsked,
}

impl From<RpcError> for Refusal {
    fn from(error: RpcError) -> Self {
        match error {
            RpcError::ProgMismatch { low, high } => Self::Versions { low, high },
            error => Self::Call(error.to_string()),
        }
    }
}

/// The programs that were found on the server's host.
#[derive(Clone, Debug)]
pub struct Services {
    /// What the host's portmapper has registered over TCP.
    pub portmap: Answered<Vec<Registered>>,
    /// Whether each version of NFS answers at the port of NFS.
    pub nfs: Vec<VersionFound>,
    /// The MOUNT program, version 3.
    pub mount: Answered<MountFound>,
}

/// A program that the portmapper has registered over TCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Registered {
    /// The number of the program.
    pub program: u32,
    /// The version of the program.
    pub version: u32,
    /// The TCP port that it listens on.
    pub port: u32,
}

/// Whether one version of NFS answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VersionFound {
    /// The version as it is written in a URL: `3`, `4.1`, `4.2`.
    pub version: &'static str,
    /// Whether it answers; why not.
    pub answer: Answered<()>,
}

/// The MOUNT program of a server.
#[derive(Clone, Debug)]
pub struct MountFound {
    /// The port that it answers on.
    pub port: u16,
    /// The server's list of exports.
    pub exports: Answered<Vec<ExportEntry>>,
}

/// How long calls take that change nothing.
#[derive(Clone, Debug, Default)]
pub struct Latency {
    /// NULL calls: the network, and the server's way from a call to its reply.
    pub null: Times,
    /// GETATTR calls of one object.
    pub getattr: Times,
    /// READ calls of 4 KiB; empty where there was no file to read.
    pub read: Times,
}

/// Times of calls that were made one after the other, the shortest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Times(Vec<Duration>);

impl From<Vec<Duration>> for Times {
    fn from(mut times: Vec<Duration>) -> Self {
        times.sort_unstable();
        Self(times)
    }
}

impl Times {
    /// How many calls were measured.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// The time that so many percent of the calls took at most; `None` without any.
    #[must_use]
    pub fn percentile(&self, percent: usize) -> Option<Duration> {
        let rank = (self.0.len() * percent).div_ceil(100).max(1) - 1;
        self.0.get(rank).copied()
    }

    /// The time of the longest call; `None` without any.
    #[must_use]
    pub fn max(&self) -> Option<Duration> {
        self.0.last().copied()
    }

    /// How far the middle half of the times lies apart; zero without any.
    #[must_use]
    pub fn spread(&self) -> Duration {
        let at = |percent| self.percentile(percent).unwrap_or_default();
        at(75).saturating_sub(at(25))
    }
}

/// What was tried in the directory of the examination's own.
#[derive(Clone, Debug)]
pub struct Trials {
    /// Small WRITEs, stable and unstable.
    pub stable: Answered<StableTrial>,
    /// What the write verifier was, in the order of the replies.
    pub verifiers: Answered<Verifiers>,
    /// Which changes a handle survives.
    pub handles: Answered<HandleTrial>,
    /// The server's clock against this machine's.
    pub clock: Answered<ClockTrial>,
    /// What replies to changes tell of before and after.
    pub wcc: Answered<WccTrial>,
    /// A directory that changes while it is read.
    pub cookies: Answered<CookieTrial>,
    /// An exclusive creation that comes again.
    pub exclusive: Answered<ExclusiveTrial>,
    /// Calls as somebody else.
    pub identities: Answered<IdentityTrial>,
}

impl Default for Trials {
    fn default() -> Self {
        Self {
            stable: Err(Refusal::NotAsked),
            verifiers: Err(Refusal::NotAsked),
            handles: Err(Refusal::NotAsked),
            clock: Err(Refusal::NotAsked),
            wcc: Err(Refusal::NotAsked),
            cookies: Err(Refusal::NotAsked),
            exclusive: Err(Refusal::NotAsked),
            identities: Err(Refusal::NotAsked),
        }
    }
}

/// Small WRITEs, stable and unstable, by turns over the same kind of file.
#[derive(Clone, Debug)]
pub struct StableTrial {
    /// WRITEs of 4 KiB that asked for UNSTABLE.
    pub unstable: Times,
    /// The COMMIT behind each of them.
    pub commit: Times,
    /// A COMMIT behind each of those, with nothing to commit.
    pub commit_idle: Times,
    /// WRITEs of 4 KiB that asked for FILE_SYNC.
    pub file_sync: Times,
    /// WRITEs without a byte that asked for FILE_SYNC, where a server answers UNSTABLE with FILE_SYNC; none where it
    /// does not, or refuses them.
    pub nothing: Times,
    /// GETATTRs between them, which change nothing.
    pub getattr: Times,
    /// The least that a reply to an UNSTABLE WRITE promised.
    pub unstable_promised: StableHow,
    /// The least that a reply to a FILE_SYNC WRITE promised.
    pub file_sync_promised: StableHow,
}

/// Write verifiers of WRITE and COMMIT replies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verifiers {
    /// How many replies of the first connection were looked at.
    pub replies: u64,
    /// How often the verifier was another one than in the reply before, over one connection.
    pub changes: u64,
    /// Whether another connection is told the same verifier.
    pub same_elsewhere: Answered<bool>,
}

/// What became of a file's handle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HandleTrial {
    /// GETATTR over another connection; `None` where handles are too long to be compared (over NFSv4).
    pub elsewhere: Option<Answered<()>>,
    /// Whether LOOKUP over another connection gives the same handle; `None` as above.
    pub same_elsewhere: Option<Answered<bool>>,
    /// GETATTR after the file was renamed in its directory.
    pub renamed: Answered<()>,
    /// GETATTR after the file was moved to another directory.
    pub moved: Answered<()>,
    /// GETATTR after the directory of the file was renamed.
    pub directory_renamed: Answered<()>,
    /// GETATTR after the file was removed, which had one name.
    pub removed: Answered<()>,
}

/// The server's clock against this machine's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockTrial {
    /// By how many nanoseconds the server's clock is ahead; negative where it is behind.
    pub ahead_ns: i128,
    /// By how much that may be wrong: half of the round trip, nanoseconds.
    pub uncertain_ns: i128,
}

/// What replies to changes told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WccTrial {
    /// Over NFSv3: wcc_data of each change, and what was known of the object before it.
    V3(Vec<WccSeen>),
    /// Over NFSv4: whether the change_info4 of a REMOVE said that it is atomic.
    V4 {
        /// The server says that nothing else lies between the two change attributes.
        atomic: bool,
    },
}

/// The wcc_data of one reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WccSeen {
    /// The procedure, in the RFC's word.
    pub procedure: &'static str,
    /// What GETATTR told of the object just before the change, which nobody else makes.
    pub known: Fattr3,
    /// What the reply told.
    pub told: WccData,
}

/// A directory that was changed between two pages of its listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CookieTrial {
    /// Entries that were there from the first page to the last.
    pub lasting: usize,
    /// How many pages the listing took.
    pub pages: usize,
    /// Lasting entries that the listing did not have.
    pub lost: usize,
    /// Entries that the listing had more than once.
    pub twice: usize,
    /// How the listing ended, if not with its last entry.
    pub failure: Option<Refusal>,
    /// What the server said to a cookie with another verifier; `None` where the whole directory fitted one page.
    pub other_verifier: Option<Answered<()>>,
    /// How long each CREATE of an entry took.
    pub create: Times,
}

/// An exclusive creation that came more than once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExclusiveTrial {
    /// The same creation again, with the same verifier: whether it gave the same file.
    pub same: Answered<bool>,
    /// The same name with another verifier; success would be wrong.
    pub other: Answered<()>,
}

/// Calls as somebody else than the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdentityTrial {
    /// GETATTR without any credentials (AUTH_NONE).
    pub nobody: Answered<()>,
    /// The owner of a file that uid 0 made in a directory which everybody may write.
    pub root: Answered<u32>,
    /// The owner of a file that [`IdentityTrial::STRANGER`] made there.
    pub stranger: Answered<u32>,
}

impl IdentityTrial {
    /// A user whom no server is likely to know.
    pub const STRANGER: u32 = 2_140_000_017;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_times_that_were_measured() {
        let times = Times::from(
            (1..=100)
                .rev()
                .map(Duration::from_micros)
                .collect::<Vec<_>>(),
        );
        let at = |percent| times.percentile(percent).unwrap().as_micros();
        assert_eq!([at(0), at(50), at(99), at(100)], [1, 50, 99, 100]);
        assert_eq!(times.spread(), Duration::from_micros(50));
        assert_eq!(Times::default().percentile(50), None);
        let one = Times::from(vec![Duration::from_micros(7)]);
        assert_eq!(one.percentile(99), Some(Duration::from_micros(7)));
    }
}
