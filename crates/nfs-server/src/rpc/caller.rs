//! Who makes a call, as the wire says.

use std::net::IpAddr;
use std::time::Instant;

use nfs_io::{Client, Lane, LocalUid, Queue};

use crate::exports::NfsVersion;
use crate::operate::trace::{About, CallId};
use crate::rpc::client_id::ClientId;
use crate::rpc::standing::Standing;

/// Who makes a call. Nothing of it is believed beyond what the export's rules allow.
#[derive(Clone)]
pub(crate) struct Caller {
    pub(crate) addr: IpAddr,
    pub(crate) port: u16,
    /// What callers of this connection are believed.
    pub(crate) standing: Standing,
    /// The version of NFS that the call is of, or that its program serves.
    pub(crate) version: NfsVersion,
    /// The client to whom this call's changes and write errors are ascribed, as its credential says.
    pub(crate) client: ClientId,
    pub(crate) identity: WireIdentity,
    pub(crate) call: CallId,
}

/// What the credential of a call says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum WireIdentity {
    /// AUTH_NONE: served as the anonymous user.
    Nobody,
    /// The ids that an AUTH_SYS credential claims.
    Sys { uid: u32, gid: u32, gids: Vec<u32> },
    /// A user of this machine, as the kernel says and not the credential. Its groups are those of this
    /// machine's user database.
    Own(LocalUid),
}

impl Caller {
    /// Whoever sends calls over a connection from this address and port; dispatch says for each call which it
    /// is, of what version, and whose.
    pub(crate) fn of_connection(
        from: (IpAddr, u16),
        standing: Standing,
        client: ClientId,
        now: Instant,
    ) -> Self {
        Self {
            addr: from.0,
            port: from.1,
            standing,
            version: NfsVersion::V3,
            client,
            identity: WireIdentity::Nobody,
            call: CallId::new(0, from, now),
        }
    }

    /// The line in which work for this caller waits, of all that waits in a lane.
    pub(crate) fn queue(&self, lane: Lane) -> Queue {
        Queue {
            lane,
            client: Client::at(self.addr, self.client.number()),
            weight: None,
        }
    }

    /// What trace events of this call are about, where it names the file with these bytes of a handle.
    pub(crate) const fn about<'a>(&'a self, file: &'a [u8]) -> About<'a> {
        About {
            call: &self.call,
            file,
        }
    }
}
