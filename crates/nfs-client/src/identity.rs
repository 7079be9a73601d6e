//! Who a call is made as: the credential of an RPC call, encoded once and shared by many calls.

use std::sync::{Arc, LazyLock};

use nfs_wire::Encoder;
use nfs_wire::auth::{AUTH_NONE, AUTH_SYS, OpaqueAuth};
use nfs_wire::limits::{AUTH_SYS_GIDS_MAX, MACHINE_NAME_BYTES_MAX};

use crate::random;

/// The credential of a call (RFC 5531 §8.2). Clones share it; any call may carry any identity.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Identity {
    flavor: u32,
    body: Arc<[u8]>,
}

impl Identity {
    /// AUTH_NONE: calls are made as nobody in particular.
    pub fn none() -> Self {
        Self::raw(AUTH_NONE, &[])
    }

    /// AUTH_SYS as `uid`, `gid` and supplementary `groups`. AUTH_SYS carries 16 of them; more are
    /// left out, as every client has to. The machine name is this host's.
    pub fn sys(uid: u32, gid: u32, groups: &[u32]) -> Self {
        let groups = groups.get(..AUTH_SYS_GIDS_MAX).unwrap_or(groups);
        Self::sys_stamped(stamp(), host_name().as_bytes(), uid, gid, groups)
    }

    /// AUTH_SYS with whatever is given, also what the protocol forbids (17 groups, a machine name
    /// of 300 bytes), and a stamp of 0: for tests of servers.
    pub fn sys_unchecked(machine_name: &[u8], uid: u32, gid: u32, groups: &[u32]) -> Self {
        Self::sys_stamped(0, machine_name, uid, gid, groups)
    }

    fn sys_stamped(stamp: u32, machine_name: &[u8], uid: u32, gid: u32, groups: &[u32]) -> Self {
        let mut body = Vec::new();
        let mut e = Encoder::new(&mut body);
        e.u32(stamp);
        e.opaque(machine_name);
        e.u32(uid);
        e.u32(gid);
        e.u32(u32::try_from(groups.len()).unwrap_or(u32::MAX));
        for &group in groups {
            e.u32(group);
        }
        Self::raw(AUTH_SYS, &body)
    }

    /// Any flavor with any body, right or wrong: for tests of servers.
    pub fn raw(flavor: u32, body: &[u8]) -> Self {
        Self {
            flavor,
            body: body.into(),
        }
    }

    /// AUTH_SYS as this process: its effective user and group, and its supplementary groups.
    pub fn current() -> Self {
        let groups: Vec<u32> = rustix::process::getgroups()
            .unwrap_or_default()
            .iter()
            .map(|group| group.as_raw())
            .collect();
        let uid = rustix::process::geteuid().as_raw();
        let gid = rustix::process::getegid().as_raw();
        Self::sys(uid, gid, &groups)
    }

    /// As the header of a call carries it.
    pub fn credential(&self) -> OpaqueAuth<'_> {
        OpaqueAuth {
            flavor: self.flavor,
            body: &self.body,
        }
    }
}

/// This process's stamp, "an arbitrary ID which the caller machine may generate" (RFC 5531 appendix A):
/// random, so that no two processes of a host send the same bytes for two calls, whatever their xids. A
/// server's reply cache cannot take the one's for the other's then. A forked child, which has what its parent
/// had made, differs by its number.
fn stamp() -> u32 {
    static STAMP: LazyLock<u32> = LazyLock::new(random::number);
    *STAMP ^ std::process::id()
}

fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name = name.trim();
    let fits = !name.is_empty() && name.len() <= MACHINE_NAME_BYTES_MAX;
    if fits {
        name.to_owned()
    } else {
        "localhost".to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn auth_sys_body() {
        let identity = Identity::sys_unchecked(b"host1", 7, 8, &[9, 10]);
        let auth = identity.credential();
        assert_eq!(auth.flavor, 1);
        let expected: &[u8] = &[
            0, 0, 0, 0, 0, 0, 0, 5, b'h', b'o', b's', b't', b'1', 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 8,
            0, 0, 0, 2, 0, 0, 0, 9, 0, 0, 0, 10,
        ];
        assert_eq!(auth.body, expected);
    }

    #[test]
    fn groups_beyond_sixteen_are_left_out() {
        let many: Vec<u32> = (0..40).collect();
        assert_eq!(Identity::sys(1, 2, &many), Identity::sys(1, 2, &many[..16]));
        assert_ne!(
            Identity::sys(1, 2, &many[..15]),
            Identity::sys(1, 2, &many[..16])
        );
    }

    #[test]
    fn a_process_has_one_stamp_that_others_have_not() {
        let stamp_of = |identity: &Identity| {
            let stamp = identity.credential().body.first_chunk::<4>();
            u32::from_be_bytes(*stamp.unwrap())
        };
        let stamp = stamp_of(&Identity::sys(1, 2, &[]));
        assert_eq!(stamp, stamp_of(&Identity::sys(3, 4, &[5])));
        // One random number in four billion is 0.
        assert_ne!(stamp, 0);
    }

    #[test]
    fn this_process_has_an_identity() {
        assert_eq!(Identity::current().credential().flavor, 1);
    }
}
