//! Whose file permissions a thread uses.
//!
//! The process keeps its own identity for its whole life. To act for a client, one *thread* takes
//! the client's file-system identity (fsgid, supplementary groups, fsuid) for the length of a
//! [`Guard`] and gives it back when the guard is dropped. The system calls are issued raw: the C
//! library's `setgroups` would change every thread of the process.
//!
//! Capabilities follow: while the file-system uid is not 0 the thread must not hold the
//! capabilities that overrule file permissions. The kernel drops them itself when fsuid leaves 0
//! and raises them when it comes back (capabilities(7), "Effect of user ID changes"); a server
//! that holds capabilities without being root, or that has switched that rule off with
//! securebits, gets the same effect by an explicit `capset`.
//!
//! Whether the process can do all this is found out at start by doing it once, in a thread that ends
//! then: capabilities alone do not say so. A user namespace may forbid to set groups although the
//! process is root there (`unshare -r` by a user), or know no user but one; and a thread that cannot
//! go back must not have left.
//!
//! Invariants: a guard exists before the first change it must undo; a thread has at most one
//! guard; a failure to go back aborts the process, because a thread with a client's identity must
//! never serve another client.

mod map;

use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::{Arc, OnceLock};

use rustix::process::{Gid, getgroups};
use rustix::thread::{
    CapabilitiesSecureBits, CapabilitySet, CapabilitySets, capabilities, capabilities_secure_bits,
    set_capabilities, set_thread_groups,
};

use crate::{Errno, Result};
use map::IdMap;

/// A user id of this machine, after squashing; not the number that came over the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LocalUid(pub u32);

/// A group id of this machine, after squashing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LocalGid(pub u32);

/// The identity under which one request touches files. Cheap to clone.
///
/// Two values are equal exactly when the kernel would treat them alike: the groups are kept
/// sorted and without duplicates.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Creds {
    uid: LocalUid,
    gid: LocalGid,
    groups: Arc<[u32]>,
}

impl Creds {
    /// Makes an identity of a user, its primary group and its supplementary groups.
    #[must_use]
    pub fn new(uid: LocalUid, gid: LocalGid, groups: &[u32]) -> Self {
        let mut groups = groups.to_vec();
        groups.sort_unstable();
        groups.dedup();
        Self {
            uid,
            gid,
            groups: groups.into(),
        }
    }

    /// The user: owner of what is created, and whose permission bits count.
    #[must_use]
    pub fn uid(&self) -> LocalUid {
        self.uid
    }

    /// The primary group: group of what is created.
    #[must_use]
    pub fn gid(&self) -> LocalGid {
        self.gid
    }

    /// The supplementary groups, in ascending order.
    #[must_use]
    pub fn groups(&self) -> &[u32] {
        &self.groups
    }

    /// Whether `gid` is the primary or a supplementary group.
    #[must_use]
    pub fn in_group(&self, gid: LocalGid) -> bool {
        self.gid == gid || self.groups.binary_search(&gid.0).is_ok()
    }
}

/// What the process is when it acts for itself. Taken once, at the first call of
/// [`ServerIdentity::current`], which must come before the first [`Guard`].
#[derive(Clone, Debug)]
pub struct ServerIdentity {
    creds: Creds,
    groups_as_found: Vec<u32>,
    users: IdMap,
    groups: IdMap,
    /// Why no client's identity can be taken on; `None` where it can.
    obstacle: Option<String>,
    /// `Some` where the kernel does not move the capabilities together with fsuid by itself.
    explicit_caps: Option<CapabilitySets>,
}

impl ServerIdentity {
    /// The server's own identity. The first call reads it from the calling thread; call it early
    /// in `main`, before threads and guards exist.
    pub fn current() -> &'static Self {
        static CURRENT: OnceLock<ServerIdentity> = OnceLock::new();
        CURRENT.get_or_init(Self::read)
    }

    /// The server's own user and groups: a guard for these is free.
    #[must_use]
    pub fn creds(&self) -> &Creds {
        &self.creds
    }

    /// Whether the process may take a client's identity (`CAP_SETUID` and `CAP_SETGID`, in a user
    /// namespace that lets it). Where it may not, [`Guard::enter`] changes nothing and the caller
    /// squashes everybody to [`ServerIdentity::creds`].
    #[must_use]
    pub fn can_switch(&self) -> bool {
        self.obstacle.is_none()
    }

    /// Why [`ServerIdentity::can_switch`] says no, in words.
    #[must_use]
    pub fn obstacle(&self) -> Option<&str> {
        self.obstacle.as_deref()
    }

    /// `creds` as far as this user namespace knows its ids: a user that it does not know is
    /// `anonymous`, as is an unknown group, and of the supplementary groups unknown ones are left out.
    /// `None` where the anonymous user is needed and not known either.
    #[must_use]
    pub fn known(&self, creds: Creds, anonymous: &Creds) -> Option<Creds> {
        let is_known = |creds: &Creds| {
            self.users.has(creds.uid.0)
                && self.groups.has(creds.gid.0)
                && creds.groups.iter().all(|&gid| self.groups.has(gid))
        };
        if is_known(&creds) {
            return Some(creds);
        }
        let mapped = if self.users.has(creds.uid.0) {
            let gid = if self.groups.has(creds.gid.0) {
                creds.gid
            } else {
                anonymous.gid
            };
            let known = creds.groups.iter().copied();
            let groups: Vec<u32> = known.filter(|&gid| self.groups.has(gid)).collect();
            Creds::new(creds.uid, gid, &groups)
        } else {
            anonymous.clone()
        };
        is_known(&mapped).then_some(mapped)
    }

    /// Gives the calling thread the server's identity, whatever it had. For the first lines of a
    /// new thread: a thread inherits its creator's identity, and the creator may have been inside
    /// a guard.
    pub fn adopt(&self) {
        if self.can_switch() {
            self.restore(Change {
                groups: true,
                gid: true,
            });
        }
    }

    fn read() -> Self {
        assert!(
            !GUARDED.get(),
            "the server's identity must be read outside every guard"
        );
        let groups_as_found: Vec<u32> = getgroups()
            .map(|groups| groups.into_iter().map(Gid::as_raw).collect())
            .unwrap_or_default();
        let creds = Creds::new(
            LocalUid(setfsuid(QUERY)),
            LocalGid(setfsgid(QUERY)),
            &groups_as_found,
        );
        let sets = capabilities(None).unwrap_or(CapabilitySets {
            effective: CapabilitySet::empty(),
            permitted: CapabilitySet::empty(),
            inheritable: CapabilitySet::empty(),
        });
        let may_switch = sets
            .effective
            .contains(CapabilitySet::SETUID | CapabilitySet::SETGID);
        let fixup_off = capabilities_secure_bits()
            .is_ok_and(|bits| bits.contains(CapabilitiesSecureBits::NO_SETUID_FIXUP));
        let kernel_moves_caps = creds.uid.0 == 0
            && !fixup_off
            && (sets.effective & FS_CAPS) == (sets.permitted & FS_CAPS);
        let explicit_caps = (!kernel_moves_caps).then_some(sets);
        let mut server = Self {
            creds,
            groups_as_found,
            users: IdMap::of_users(),
            groups: IdMap::of_groups(),
            obstacle: None,
            explicit_caps,
        };
        server.obstacle = if may_switch {
            server.try_switching().err()
        } else {
            Some("no CAP_SETUID and CAP_SETGID".to_owned())
        };
        server
    }

    /// Takes another identity and comes back, in a thread of its own.
    ///
    /// # Errors
    /// What is in the way, in words.
    fn try_switching(&self) -> core::result::Result<(), String> {
        let ids = (
            self.users.other_than(self.creds.uid.0),
            self.groups.other_than(self.creds.gid.0),
        );
        let (Some(uid), Some(gid)) = ids else {
            return Err(
                "this user namespace has no user or group besides the server's own".to_owned(),
            );
        };
        let other = Creds::new(LocalUid(uid), LocalGid(gid), &[]);
        std::thread::scope(|scope| {
            let trial = std::thread::Builder::new().spawn_scoped(scope, || self.try_as(&other));
            let trial = trial.map_err(|error| format!("no thread to try it in: {error}"))?;
            let outcome = trial.join();
            outcome.unwrap_or_else(|_| Err("trying it failed".to_owned()))
        })
    }

    fn try_as(&self, other: &Creds) -> core::result::Result<(), String> {
        let no_groups = |error: Errno| {
            format!(
                "groups cannot be set: {error}; a user namespace that a user made for itself \
                 forbids it, see setgroups in user_namespaces(7)"
            )
        };
        let take = |creds: &Creds, groups: &[u32]| {
            set_groups(groups).map_err(no_groups)?;
            setfsgid(creds.gid.0);
            setfsuid(creds.uid.0);
            let is_taken = setfsgid(QUERY) == creds.gid.0 && setfsuid(QUERY) == creds.uid.0;
            is_taken
                .then_some(())
                .ok_or_else(|| format!("user {} cannot be taken on", creds.uid.0))
        };
        take(other, &other.groups)?;
        take(&self.creds, &self.groups_as_found)
    }

    /// Back to the server's identity: user first, because with it come the rights for the rest.
    fn restore(&self, change: Change) {
        setfsuid(self.creds.uid.0);
        if change.gid {
            setfsgid(self.creds.gid.0);
        }
        let groups = if change.groups {
            set_groups(&self.groups_as_found)
        } else {
            Ok(())
        };
        let caps = self
            .explicit_caps
            .map_or(Ok(()), |sets| set_capabilities(None, sets));
        let restored = groups.is_ok()
            && caps.is_ok()
            && setfsuid(QUERY) == self.creds.uid.0
            && setfsgid(QUERY) == self.creds.gid.0;
        if !restored {
            // Going on would serve the next request with this client's rights.
            eprintln!("penstock: cannot restore the server's identity; aborting");
            std::process::abort();
        }
    }
}

/// What differs from the server's identity besides the user.
#[derive(Clone, Copy, Debug)]
struct Change {
    groups: bool,
    gid: bool,
}

/// Whether the process can act for clients; see [`ServerIdentity::can_switch`].
#[must_use]
pub fn can_switch() -> bool {
    ServerIdentity::current().can_switch()
}

/// While it lives, this thread's file operations count as another user's.
///
/// Not `Send`, and not to be held across an `.await`: the next task of the thread would run with
/// the wrong identity. [`run_as`] makes that mistake impossible and is the form to prefer.
#[must_use = "the identity is given back when the guard is dropped"]
#[derive(Debug)]
pub struct Guard {
    undo: Option<(&'static ServerIdentity, Change)>,
    _this_thread_only: PhantomData<*const ()>,
}

impl Guard {
    /// Takes the identity `creds` for the calling thread. Costs nothing when it is the server's
    /// own, and nothing (and changes nothing) when the server cannot switch.
    ///
    /// # Errors
    /// `EPERM` where the kernel did not take an id (one without a mapping in this user namespace,
    /// or a missing capability), `EINVAL` for more groups than the kernel keeps (65536). The
    /// thread then has the server's identity again.
    ///
    /// # Panics
    /// When the thread already has a guard.
    pub fn enter(creds: &Creds) -> Result<Self> {
        Self::enter_from(ServerIdentity::current(), creds)
    }

    fn enter_from(server: &'static ServerIdentity, creds: &Creds) -> Result<Self> {
        assert!(!GUARDED.get(), "a thread can act for one client at a time");
        // Each change costs the kernel a new set of credentials, a microsecond and more.
        let change = Change {
            groups: creds.groups[..] != server.creds.groups[..],
            gid: creds.gid != server.creds.gid,
        };
        let switches = server.can_switch() && *creds != server.creds;
        let guard = Self {
            undo: switches.then_some((server, change)),
            _this_thread_only: PhantomData,
        };
        GUARDED.set(true);
        if switches {
            Self::switch(server, creds, change)?;
        }
        Ok(guard)
    }

    fn switch(server: &ServerIdentity, creds: &Creds, change: Change) -> Result<()> {
        // Groups and group first: once the user is not 0 any more there may be no right left to.
        if change.groups {
            set_groups(&creds.groups)?;
        }
        if change.gid {
            setfsgid(creds.gid.0);
        }
        setfsuid(creds.uid.0);
        // setfsuid(2) and setfsgid(2) report no errors: ask what is in force now.
        if setfsgid(QUERY) != creds.gid.0 || setfsuid(QUERY) != creds.uid.0 {
            return Err(Errno::PERM);
        }
        if let Some(mut sets) = server.explicit_caps {
            sets.effective = if creds.uid.0 == 0 {
                sets.effective | (sets.permitted & FS_CAPS)
            } else {
                sets.effective - FS_CAPS
            };
            set_capabilities(None, sets)?;
        }
        Ok(())
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if let Some((server, change)) = self.undo {
            server.restore(change);
        }
        GUARDED.set(false);
    }
}

/// Runs `work` with the identity `creds` on this thread.
///
/// # Errors
/// As [`Guard::enter`], in which case `work` did not run; else what `work` returned.
pub fn run_as<T>(creds: &Creds, work: impl FnOnce() -> Result<T>) -> Result<T> {
    let _guard = Guard::enter(creds)?;
    work()
}

/// Whether the calling thread is inside a [`Guard`].
#[must_use]
pub fn guarded() -> bool {
    GUARDED.get()
}

thread_local! {
    static GUARDED: Cell<bool> = const { Cell::new(false) };
}

/// An id no user has: setting it changes nothing and returns the id in force.
const QUERY: u32 = u32::MAX;

/// The capabilities that concern files: the kernel's `CAP_FS_SET`
/// (`include/linux/capability.h`), moved with fsuid.
const FS_CAPS: CapabilitySet = CapabilitySet::CHOWN
    .union(CapabilitySet::MKNOD)
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::DAC_READ_SEARCH)
    .union(CapabilitySet::FOWNER)
    .union(CapabilitySet::FSETID)
    .union(CapabilitySet::LINUX_IMMUTABLE)
    .union(CapabilitySet::MAC_OVERRIDE);

fn set_groups(groups: &[u32]) -> Result<()> {
    // Raw in rustix: this thread only.
    if groups.len() <= 32 {
        let mut few = [Gid::ROOT; 32];
        for (to, from) in few.iter_mut().zip(groups) {
            *to = Gid::from_raw(*from);
        }
        set_thread_groups(&few[..groups.len()])
    } else {
        let many: Vec<Gid> = groups.iter().map(|&gid| Gid::from_raw(gid)).collect();
        set_thread_groups(&many)
    }
}

/// Sets the thread's file-system user id; returns the one before.
fn setfsuid(uid: u32) -> u32 {
    // SAFETY: takes a number, touches no memory; the raw call concerns the calling thread only.
    let before = unsafe { libc::syscall(libc::SYS_setfsuid, uid) };
    before as u32
}

/// Sets the thread's file-system group id; returns the one before.
fn setfsgid(gid: u32) -> u32 {
    // SAFETY: takes a number, touches no memory; the raw call concerns the calling thread only.
    let before = unsafe { libc::syscall(libc::SYS_setfsgid, gid) };
    before as u32
}

#[cfg(test)]
mod tests;
