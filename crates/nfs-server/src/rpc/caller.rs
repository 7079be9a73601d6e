//! Who makes a call, as the wire says.

use std::net::IpAddr;
use std::time::Instant;

use nfs_io::turns::ClientKey;
use nfs_io::{Client, Lane, LocalUid, Queue, Sharer};

use crate::exports::NfsVersion;
use crate::network::Network;
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

    /// The number of whoever shares with this caller what one host may have: a host, all hosts of an IPv6 /64, or a user
    /// of the server's own machine, who could have any number of loopback addresses.
    pub(crate) fn host(&self) -> u128 {
        const LOCAL: u128 = 1 << 63;
        match self.standing {
            Standing::Distant => Network::of(self.addr).number(),
            Standing::Root => LOCAL,
            Standing::User(uid) => LOCAL | u128::from(uid.0),
            Standing::Untold | Standing::Barred => LOCAL | 1 << 62,
        }
    }

    /// The same for [`Shares`](nfs_io::Shares), with the weight that the caller has. Most of what is shared is counted for
    /// addresses, by whose connections it is taken; this is for what outlives these.
    pub(crate) fn host_sharer(&self, weight: u32) -> Sharer {
        /// Beside numbers of users, of 32 bits.
        const ROOT: u64 = 1 << 32;
        const UNTOLD: u64 = 1 << 33;
        let key = match self.standing {
            Standing::Distant => ClientKey::of(self.addr),
            Standing::Root => ClientKey::of_local(ROOT),
            Standing::User(uid) => ClientKey::of_local(uid.0.into()),
            Standing::Untold | Standing::Barred => ClientKey::of_local(UNTOLD),
        };
        Sharer { key, weight }
    }

    /// What trace events of this call are about, where it names the file with these bytes of a handle.
    pub(crate) const fn about<'a>(&'a self, file: &'a [u8]) -> About<'a> {
        About {
            call: &self.call,
            file,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_could_have_many_addresses_shares_one_number() {
        let host = |addr: &str, standing| {
            let client = ClientId::of_number(1);
            let from = (addr.parse().unwrap(), 1000);
            let caller = Caller::of_connection(from, standing, client, Instant::now());
            (caller.host(), caller.host_sharer(1).key)
        };
        let distant = |addr| host(addr, Standing::Distant);
        assert_eq!(distant("10.0.0.1"), distant("::ffff:10.0.0.1"));
        assert_eq!(distant("2001:db8::1"), distant("2001:db8::ffff:2"));
        let user = |addr, uid| host(addr, Standing::User(LocalUid(uid)));
        assert_eq!(user("127.0.0.1", 5), user("127.9.0.1", 5));
        let all = [
            distant("10.0.0.1"),
            distant("10.0.0.2"),
            distant("2001:db8::1"),
            distant("2001:db8:0:1::1"),
            user("127.0.0.1", 5),
            user("127.0.0.1", 6),
            host("127.0.0.1", Standing::Root),
            host("127.0.0.1", Standing::Untold),
        ];
        for (at, one) in all.iter().enumerate() {
            let before = &all[..at];
            assert!(
                before.iter().all(|it| it.0 != one.0 && it.1 != one.1),
                "{at}"
            );
        }
    }
}
