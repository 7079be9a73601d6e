//! Who makes a call, as the wire says.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use nfs_io::turns::ClientKey;
use nfs_io::{Client, Creds, Lane, LocalGid, LocalUid, Queue, Sharer};
use parking_lot::Mutex;

use crate::exports::config::SquashKind;
use crate::exports::{NfsVersion, Squash, WireGid, WireUid};
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
    /// The ids that an AUTH_SYS credential claims. Shared by the calls that come with the same credential.
    Sys(Arc<Claimed>),
    /// A user of this machine, as the kernel says and not the credential. Its groups are those of this
    /// machine's user database.
    Own(LocalUid),
}

impl WireIdentity {
    /// The user; `None` for the anonymous one.
    pub(crate) fn uid(&self) -> Option<u32> {
        match self {
            Self::Nobody => None,
            Self::Sys(claimed) => Some(claimed.uid),
            Self::Own(LocalUid(uid)) => Some(*uid),
        }
    }
}

/// The ids that an AUTH_SYS credential claims, and as whom its last call was served.
#[derive(Debug)]
pub(crate) struct Claimed {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    gids: Box<[u32]>,
    /// Which squashing was asked for last, and what came of it.
    served_as: Mutex<Option<(Squashing, Creds)>>,
}

/// All that decides about the local identity of a claim.
type Squashing = (SquashKind, LocalUid, LocalGid);

impl Claimed {
    pub(crate) fn new(uid: u32, gid: u32, gids: &[u32]) -> Self {
        Self {
            uid,
            gid,
            gids: gids.into(),
            served_as: Mutex::new(None),
        }
    }

    /// As whom the server acts for these ids where an export squashes them so: what `decide` says of the squashed
    /// identity. It says the same each time, so that it is asked once for calls of one kind.
    ///
    /// # Errors
    /// What `decide` says where the server cannot act for them.
    pub(crate) fn served_as<E>(
        &self,
        squash: &Squash,
        decide: impl FnOnce(Creds) -> Result<Creds, E>,
    ) -> Result<Creds, E> {
        let anonymous = squash.anonymous();
        let squashing = (squash.kind(), anonymous.uid(), anonymous.gid());
        let mut served_as = self.served_as.lock();
        if let Some((last, creds)) = &*served_as
            && *last == squashing
        {
            return Ok(creds.clone());
        }
        let squashed = squash.creds(WireUid(self.uid), WireGid(self.gid), &self.gids);
        let creds = decide(squashed)?;
        *served_as = Some((squashing, creds.clone()));
        Ok(creds)
    }
}

impl PartialEq for Claimed {
    fn eq(&self, other: &Self) -> bool {
        (self.uid, self.gid, &self.gids) == (other.uid, other.gid, &other.gids)
    }
}

impl Eq for Claimed {}

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
    use std::cell::Cell;

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

    #[test]
    fn a_claim_is_served_as_each_squashing_says_whatever_was_asked_before() {
        let claimed = Claimed::new(0, 0, &[0, 7]);
        let squashes = [
            Squash::new(SquashKind::Root, 65534, 65534),
            Squash::new(SquashKind::None, 65534, 65534),
            Squash::new(SquashKind::Root, 99, 65534),
            Squash::new(SquashKind::Root, 99, 98),
            Squash::new(SquashKind::All, 99, 98),
        ];
        for squash in squashes {
            let expected = squash.creds(WireUid(0), WireGid(0), &[0, 7]);
            let asked = Cell::new(0);
            let ask = || {
                claimed.served_as(&squash, |creds| {
                    asked.set(asked.get() + 1);
                    Ok::<_, ()>(creds)
                })
            };
            assert_eq!(ask().as_ref(), Ok(&expected));
            assert_eq!((ask(), asked.get()), (Ok(expected), 1));
        }
        let refused = |squash: &Squash| claimed.served_as(squash, |_| Err(()));
        let new = Squash::new(SquashKind::Root, 1, 1);
        assert_eq!((refused(&new), refused(&new)), (Err(()), Err(())));
    }
}
