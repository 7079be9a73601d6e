//! What the double does wrong, and how often.
//!
//! A pure function, [`decide`], makes of a call a [`Plan`]; the server carries it out.

use std::time::Duration;

use nfs_client::nfs3::Nfsstat3;
use nfs_wire::nfs3::Procedure;

use super::chance::Chance;

/// One way in which the server misbehaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Fault {
    /// READ gives less than there is.
    ShortRead,
    /// WRITE takes less than there is.
    ShortWrite,
    /// The reply comes late, by up to a quarter of a second.
    Late,
    /// Replies come in another order: each after a pause of its own.
    OutOfOrder,
    /// The same reply comes twice, one behind the other.
    Twice,
    /// The verifier changes, although nothing is lost.
    OtherVerifier,
    /// The power is cut: what was not committed may be lost, all connections end, and so do the
    /// memories of what was answered.
    Restart,
    /// The call is refused with NFS3ERR_JUKEBOX: it is to be tried later.
    Jukebox,
    /// The call is refused with NFS3ERR_STALE, although the file is there.
    Stale,
    /// The connection is closed, and the call not executed.
    CloseBefore,
    /// The call is executed, and the connection closed without a reply.
    CloseAfter,
    /// Half of the reply, and then the connection is closed.
    HalfReply,
    /// The call is executed, and nothing said.
    NoReply,
    /// WRITE is refused with NFS3ERR_IO, and nothing of it is kept.
    WriteIo,
    /// WRITE is refused with NFS3ERR_NOSPC, and nothing of it is kept.
    WriteNospc,
    /// COMMIT fails, what was to be committed is lost, and the verifier changes with it.
    CommitIo,
    /// An operation on names fails with NFS3ERR_IO.
    NamesIo,
}

use Fault::*;

/// What a client has to get over without a failure.
pub(crate) const HARMLESS: [Fault; 12] = [
    ShortRead,
    ShortWrite,
    Late,
    OutOfOrder,
    Twice,
    OtherVerifier,
    Restart,
    Jukebox,
    CloseBefore,
    CloseAfter,
    HalfReply,
    NoReply,
];

/// What a client can only report.
pub(crate) const HARMFUL: [Fault; 5] = [Stale, WriteIo, WriteNospc, CommitIo, NamesIo];

/// What is switched on: each fault happens once in so many calls that it can happen to.
#[derive(Clone, Debug, Default)]
pub(crate) struct Profile {
    pub(crate) faults: Vec<(Fault, usize)>,
    /// What was answered is remembered, so that a call that comes again is not executed again.
    pub(crate) remembers: bool,
}

impl Profile {
    pub(crate) fn only(fault: Fault, often: usize) -> Self {
        Self {
            faults: vec![(fault, often)],
            remembers: true,
        }
    }

    /// What was accepted may be given up by the client, because of a failure or of too many verifiers,
    /// before anything has told so. What a restart loses, the client still has.
    pub(crate) fn loses(&self) -> bool {
        let loses = |fault: Fault| fault == OtherVerifier || HARMFUL.contains(&fault);
        self.faults.iter().any(|&(fault, _)| loses(fault))
    }

    /// A mixture: some of `faults`, each at its own rate.
    pub(crate) fn mixed(chance: &mut Chance, faults: &[Fault]) -> Self {
        let mut chosen = Vec::new();
        for &fault in faults {
            if chance.one_in(3) {
                let often = match fault {
                    Restart | OtherVerifier | Stale | WriteIo | WriteNospc | CommitIo | NamesIo => {
                        15
                    }
                    _ => 4,
                };
                chosen.push((fault, often + chance.below(3 * often)));
            }
        }
        Self {
            faults: chosen,
            remembers: chance.one_in(2),
        }
    }
}

/// What is done with one call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) faults: Vec<Fault>,
    /// The answer, if the call is not to be executed.
    pub(crate) refuse: Option<Nfsstat3>,
    /// READ and WRITE move at most so many bytes.
    pub(crate) bytes_max: Option<usize>,
    /// How long the server waits before it sends the reply.
    pub(crate) pause: Duration,
}

impl Plan {
    pub(crate) fn has(&self, fault: Fault) -> bool {
        self.faults.contains(&fault)
    }
}

pub(crate) fn decide(profile: &Profile, chance: &mut Chance, procedure: Procedure) -> Plan {
    let mut plan = Plan::default();
    for &(fault, often) in &profile.faults {
        if !fits(fault, procedure) || !chance.one_in(often) {
            continue;
        }
        plan.faults.push(fault);
        match fault {
            ShortRead | ShortWrite => plan.bytes_max = Some(1 + chance.below(3000)),
            Late => plan.pause += Duration::from_millis(50 + chance.next() % 200),
            OutOfOrder => plan.pause += Duration::from_millis(chance.next() % 20),
            Jukebox => plan.refuse = Some(Nfsstat3::Jukebox),
            Stale => plan.refuse = Some(Nfsstat3::Stale),
            WriteIo | CommitIo | NamesIo => plan.refuse = Some(Nfsstat3::Io),
            WriteNospc => plan.refuse = Some(Nfsstat3::Nospc),
            _ => {}
        }
    }
    plan
}

fn fits(fault: Fault, procedure: Procedure) -> bool {
    use Procedure::*;
    match fault {
        ShortRead => procedure == Read,
        ShortWrite | WriteIo | WriteNospc => procedure == Write,
        CommitIo => procedure == Commit,
        OtherVerifier => matches!(procedure, Write | Commit),
        NamesIo => matches!(
            procedure,
            Create
                | Mkdir
                | Symlink
                | Link
                | Rename
                | Remove
                | Rmdir
                | Setattr
                | Lookup
                | Readdir
                | Readdirplus
        ),
        // The protocol has no such answer for NULL, and for these nothing can be done about it.
        Jukebox | Stale => !matches!(procedure, Null | Fsinfo),
        _ => true,
    }
}
