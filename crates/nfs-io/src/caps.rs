//! Which capabilities the process holds, for decisions at start and for printing.

use rustix::thread::{CapabilitySet, capabilities, set_capabilities};

use crate::Result;

/// The capabilities this server asks about; capabilities(7).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Capability {
    /// Change owners of files at will.
    Chown,
    /// Overrule the permissions to read, write and execute files.
    DacOverride,
    /// Overrule read and search permissions; needed for `open_by_handle_at`.
    DacReadSearch,
    /// Act as the owner of any file.
    Fowner,
    /// Take any group identity, and any supplementary groups.
    Setgid,
    /// Take any user identity; needed to act for clients.
    Setuid,
    /// Bind ports below 1024, such as 111 for the port mapper.
    NetBindService,
    /// Create nodes of block and character devices.
    Mknod,
    /// Mount file systems, and much else that administers a system.
    SysAdmin,
    /// Overrule resource limits, quotas and reserved blocks.
    SysResource,
}

impl Capability {
    /// All of them, in the order they are printed.
    pub const ALL: [Self; 10] = [
        Self::Chown,
        Self::DacOverride,
        Self::DacReadSearch,
        Self::Fowner,
        Self::Setgid,
        Self::Setuid,
        Self::NetBindService,
        Self::Mknod,
        Self::SysAdmin,
        Self::SysResource,
    ];

    /// The capability's name as capabilities(7) writes it, for example `CAP_CHOWN`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Chown => "CAP_CHOWN",
            Self::DacOverride => "CAP_DAC_OVERRIDE",
            Self::DacReadSearch => "CAP_DAC_READ_SEARCH",
            Self::Fowner => "CAP_FOWNER",
            Self::Setgid => "CAP_SETGID",
            Self::Setuid => "CAP_SETUID",
            Self::NetBindService => "CAP_NET_BIND_SERVICE",
            Self::Mknod => "CAP_MKNOD",
            Self::SysAdmin => "CAP_SYS_ADMIN",
            Self::SysResource => "CAP_SYS_RESOURCE",
        }
    }

    fn set(self) -> CapabilitySet {
        match self {
            Self::Chown => CapabilitySet::CHOWN,
            Self::DacOverride => CapabilitySet::DAC_OVERRIDE,
            Self::DacReadSearch => CapabilitySet::DAC_READ_SEARCH,
            Self::Fowner => CapabilitySet::FOWNER,
            Self::Setgid => CapabilitySet::SETGID,
            Self::Setuid => CapabilitySet::SETUID,
            Self::NetBindService => CapabilitySet::NET_BIND_SERVICE,
            Self::Mknod => CapabilitySet::MKNOD,
            Self::SysAdmin => CapabilitySet::SYS_ADMIN,
            Self::SysResource => CapabilitySet::SYS_RESOURCE,
        }
    }
}

/// Whether the calling thread holds the capability in its effective set.
#[must_use]
pub fn has(capability: Capability) -> bool {
    capabilities(None).is_ok_and(|sets| sets.effective.contains(capability.set()))
}

/// One line for the operator: what is held of the capabilities that matter here.
#[must_use]
pub fn summary() -> String {
    let held: Vec<&str> = Capability::ALL
        .iter()
        .filter(|&&one| has(one))
        .map(|one| one.name())
        .collect();
    if held.is_empty() {
        "none".to_owned()
    } else {
        held.join(" ")
    }
}

/// Removes a capability from the calling thread's effective set; threads made later inherit
/// that. For `CAP_SYS_RESOURCE`, which would let clients write past quotas and into the blocks
/// reserved for root: call it after [`crate::fs::raise_nofile`] and before the first thread and
/// the first [`crate::identity::ServerIdentity::current`].
///
/// # Errors
/// What capset(2) reports; never for a capability that is not held.
pub fn drop_effective(capability: Capability) -> Result<()> {
    let mut sets = capabilities(None)?;
    if sets.effective.contains(capability.set()) {
        sets.effective.remove(capability.set());
        set_capabilities(None, sets)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_is_what_the_kernel_shows() {
        let text = std::fs::read_to_string("/proc/thread-self/status").unwrap();
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix("CapEff:"))
            .unwrap();
        let effective = u64::from_str_radix(line.trim(), 16).unwrap();
        for capability in Capability::ALL {
            let held = effective & capability.set().bits() != 0;
            assert_eq!(has(capability), held, "{}", capability.name());
            assert_eq!(summary().contains(capability.name()), held);
        }
    }

    #[test]
    fn dropping_concerns_one_capability_of_this_thread() {
        let before: Vec<bool> = Capability::ALL.map(has).to_vec();
        std::thread::spawn(|| {
            drop_effective(Capability::SysResource).unwrap();
            assert!(!has(Capability::SysResource));
            drop_effective(Capability::SysResource).unwrap();
        })
        .join()
        .unwrap();
        assert_eq!(Capability::ALL.map(has).to_vec(), before);
    }
}
