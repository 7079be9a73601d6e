//! What the other end of a connection is believed, by what the kernel says of it.
//!
//! AUTH_SYS is a claim. Of another machine's claim the export's rules say what it is worth; a program
//! of this machine need not be believed, because the kernel tells whose it is (`nfs_io::peer`). It is
//! asked once, when a connection is accepted, and what it said holds for the connection's life.

use nfs_io::LocalUid;
use nfs_io::identity::ServerIdentity;
use nfs_io::peer::{Asker, Owner};

use crate::rpc::caller::WireIdentity;

/// Who sends the calls of a connection, as far as that is known without their credentials.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Standing {
    /// Another machine; or any, where loopback is trusted. Its credentials are taken at their word,
    /// within the export's rules.
    Distant,
    /// Root of this machine, and with it the kernel's NFS client: taken at its word as well, since it
    /// could act as anybody without us.
    Root,
    /// A user of this machine: acts as itself, whatever its credentials say.
    User(LocalUid),
    /// A program of this machine that nobody can be told to own: acts as the anonymous user.
    Untold,
    /// A program of this machine with whom nothing is shared but the machine, where the server acts as its
    /// own user for everybody: it may use no export.
    Barred,
}

impl Standing {
    /// What `owner` is to a server that acts as `server` when it acts for itself.
    pub(crate) fn new(owner: Owner, server: &ServerIdentity) -> Self {
        match owner {
            Owner::Elsewhere => Self::Distant,
            Owner::User(LocalUid(0)) => Self::Root,
            Owner::User(uid) if server.can_switch() || uid == server.creds().uid() => {
                Self::User(uid)
            }
            Owner::Untold if server.can_switch() => Self::Untold,
            Owner::User(_) | Owner::Untold => Self::Barred,
        }
    }

    /// The identity as which a call is carried out that claims to be `claimed`'s. AUTH_NONE stays the
    /// anonymous user's.
    pub(crate) fn identify(self, claimed: WireIdentity) -> WireIdentity {
        match (self, claimed) {
            (Self::Distant | Self::Root, claimed) => claimed,
            (_, WireIdentity::Nobody) | (Self::Untold | Self::Barred, _) => WireIdentity::Nobody,
            (Self::User(uid), WireIdentity::Sys(_) | WireIdentity::Own(_)) => {
                WireIdentity::Own(uid)
            }
        }
    }

    /// Whether the kernel vouches for who it is. A port below 1024 proves no more than that.
    pub(crate) const fn is_known(self) -> bool {
        matches!(self, Self::Root | Self::User(_))
    }

    /// The user of a local program as `penstock ctl clients` shows it; `None` for callers that are not of
    /// this machine.
    pub(crate) fn user(self) -> Option<String> {
        match self {
            Self::Distant => None,
            Self::Root => Some("0".to_owned()),
            Self::User(uid) => Some(uid.0.to_string()),
            Self::Untold => Some("untold".to_owned()),
            Self::Barred => Some("barred".to_owned()),
        }
    }
}

/// Asks about the connections of one listener, or believes them all.
pub(crate) struct Door {
    asker: Option<Asker>,
}

impl Door {
    /// Makes one for the connections of `listener`. With `trusts_loopback` the kernel is asked about nobody.
    pub(crate) fn new(listener: &std::net::TcpListener, trusts_loopback: bool) -> Self {
        Self {
            asker: (!trusts_loopback).then(|| Asker::for_listener(listener)),
        }
    }

    /// Makes one to try out what the kernel tells ([`Door::fact`]), on a connection of our own.
    pub(crate) fn for_trial(trusts_loopback: bool) -> Self {
        Self {
            asker: (!trusts_loopback).then(Asker::new),
        }
    }

    /// Who is at the other end of a connection that was just accepted.
    pub(crate) fn standing(&mut self, connection: &std::net::TcpStream) -> Standing {
        let owner = self.asker.as_mut().map(|asker| asker.owner(connection));
        owner.map_or(Standing::Distant, |owner| {
            Standing::new(owner, ServerIdentity::current())
        })
    }

    /// Whom programs of this machine act as, for the operator: found out by trying it.
    pub(crate) fn fact(&mut self) -> String {
        let own = ServerIdentity::current();
        let asked = self.asker.as_mut().map(Asker::probe);
        match asked {
            None => {
                "local programs: believed whoever they say they are (trust_loopback); every user \
                     of this machine can act as any other, root included, as far as the exports' \
                     squash lets root"
                    .to_owned()
            }
            Some(Ok(())) if own.can_switch() => {
                "local programs: act as the user who runs them, whatever they claim; only root's \
                 may act for others (--trust-loopback believes all)"
                    .to_owned()
            }
            Some(Ok(())) => format!(
                "local programs: only those of user {} and of root may use this server \
                 (--trust-loopback lets all in)",
                own.creds().uid().0
            ),
            Some(Err(why)) if own.can_switch() => format!(
                "local programs: act as the anonymous user of the export, since {why} \
                 (--trust-loopback believes whom they claim to be)"
            ),
            Some(Err(why)) => format!(
                "local programs: none may use this server, since {why} (--trust-loopback lets \
                 all in)"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::rpc::caller::Claimed;

    fn claim(uid: u32) -> WireIdentity {
        WireIdentity::Sys(Arc::new(Claimed::new(uid, uid, &[0, uid])))
    }

    #[test]
    fn only_other_machines_and_root_are_taken_at_their_word() {
        let own = LocalUid(1000);
        for claimed in [claim(0), claim(1000), claim(7)] {
            let identify = |standing: Standing| standing.identify(claimed.clone());
            assert_eq!(identify(Standing::Distant), claimed);
            assert_eq!(identify(Standing::Root), claimed);
            assert_eq!(identify(Standing::User(own)), WireIdentity::Own(own));
            assert_eq!(identify(Standing::Untold), WireIdentity::Nobody);
            assert_eq!(identify(Standing::Barred), WireIdentity::Nobody);
        }
        for standing in [
            Standing::Distant,
            Standing::Root,
            Standing::User(own),
            Standing::Untold,
        ] {
            assert_eq!(
                standing.identify(WireIdentity::Nobody),
                WireIdentity::Nobody
            );
        }
    }

    #[test]
    fn a_server_that_acts_as_itself_lets_in_itself_and_root() {
        let own = ServerIdentity::current();
        let standing = |owner| Standing::new(owner, own);
        let stranger = LocalUid(own.creds().uid().0 ^ 4711);
        assert_eq!(standing(Owner::Elsewhere), Standing::Distant);
        assert_eq!(standing(Owner::User(LocalUid(0))), Standing::Root);
        let (strange, untold) = if own.can_switch() {
            (Standing::User(stranger), Standing::Untold)
        } else {
            (Standing::Barred, Standing::Barred)
        };
        assert_eq!(standing(Owner::User(stranger)), strange);
        assert_eq!(standing(Owner::Untold), untold);
    }
}
