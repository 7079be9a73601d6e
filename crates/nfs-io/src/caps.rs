//! Which capabilities the process holds, for decisions at start and for printing.

use rustix::thread::{
    CapabilitySet, capabilities, capability_is_in_bounding_set, clear_ambient_capability_set,
    remove_capability_from_bounding_set, set_capabilities,
};

use crate::{Errno, Result};

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
    /// Keep set-user-ID and set-group-ID bits of a file whose owner or mode is changed.
    Fsetid,
    /// Take any group identity, and any supplementary groups.
    Setgid,
    /// Take any user identity; needed to act for clients.
    Setuid,
    /// Bind ports below 1024, such as 111 for the port mapper.
    NetBindService,
    /// Create nodes of block and character devices.
    Mknod,
    /// Administer the network, other network namespaces of this process's among it.
    NetAdmin,
    /// Mount file systems, and much else that administers a system.
    SysAdmin,
    /// Overrule resource limits, quotas and reserved blocks.
    SysResource,
}

impl Capability {
    /// All of them, in the order they are printed.
    pub const ALL: [Self; 12] = [
        Self::Chown,
        Self::DacOverride,
        Self::DacReadSearch,
        Self::Fowner,
        Self::Fsetid,
        Self::Setgid,
        Self::Setuid,
        Self::NetBindService,
        Self::Mknod,
        Self::NetAdmin,
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
            Self::Fsetid => "CAP_FSETID",
            Self::Setgid => "CAP_SETGID",
            Self::Setuid => "CAP_SETUID",
            Self::NetBindService => "CAP_NET_BIND_SERVICE",
            Self::Mknod => "CAP_MKNOD",
            Self::NetAdmin => "CAP_NET_ADMIN",
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
            Self::Fsetid => CapabilitySet::FSETID,
            Self::Setgid => CapabilitySet::SETGID,
            Self::Setuid => CapabilitySet::SETUID,
            Self::NetBindService => CapabilitySet::NET_BIND_SERVICE,
            Self::Mknod => CapabilitySet::MKNOD,
            Self::NetAdmin => CapabilitySet::NET_ADMIN,
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

/// Whether the bounding set went too, with [`keep_only`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bounding {
    /// The bounding set has no others either.
    Narrowed,
    /// The bounding set is as it was: to change it takes `CAP_SETPCAP`.
    AsItWas,
}

/// Gives up every capability but those of `kept`, in all sets of the calling thread, for good; threads
/// made later inherit that. A capability of `kept` that is not held is not gained.
///
/// # Errors
/// What capset(2) and prctl(2) report.
pub fn keep_only(kept: &[Capability]) -> Result<Bounding> {
    let kept = kept
        .iter()
        .fold(CapabilitySet::empty(), |set, one| set | one.set());
    let mut sets = capabilities(None)?;
    let bounding = if sets.effective.contains(CapabilitySet::SETPCAP) {
        narrow_bounding_set(kept)?;
        Bounding::Narrowed
    } else {
        Bounding::AsItWas
    };
    clear_ambient_capability_set()?;
    sets.effective &= kept;
    sets.permitted &= kept;
    sets.inheritable = CapabilitySet::empty();
    set_capabilities(None, sets)?;
    Ok(bounding)
}

fn narrow_bounding_set(kept: CapabilitySet) -> Result<()> {
    for bit in 0..u64::BITS {
        let one = CapabilitySet::from_bits_retain(1 << bit);
        match capability_is_in_bounding_set(one) {
            Ok(true) if !kept.contains(one) => remove_capability_from_bounding_set(one)?,
            Ok(_) => {}
            // The kernel has no capability of this number, nor of a higher one.
            Err(Errno::INVAL) => return Ok(()),
            Err(error) => return Err(error),
        }
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

    #[test]
    fn keeping_some_gives_up_all_others_in_every_set() {
        let before: Vec<bool> = Capability::ALL.map(has).to_vec();
        let kept = [Capability::Chown, Capability::Setuid];
        let (bounding, status) = std::thread::spawn(move || {
            let bounding = keep_only(&kept).unwrap();
            (
                bounding,
                std::fs::read_to_string("/proc/thread-self/status").unwrap(),
            )
        })
        .join()
        .unwrap();
        let held = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            u64::from_str_radix(line.unwrap().trim(), 16).unwrap()
        };
        let allowed = Capability::Chown.set().bits() | Capability::Setuid.set().bits();
        let sets = ["CapEff:", "CapPrm:", "CapInh:", "CapAmb:", "CapBnd:"];
        let narrowed = match bounding {
            Bounding::Narrowed => &sets[..],
            Bounding::AsItWas => &sets[..4],
        };
        for set in narrowed {
            assert_eq!(held(set) & !allowed, 0, "{set}");
        }
        assert_eq!(
            held("CapEff:") != 0,
            has(Capability::Chown) || has(Capability::Setuid)
        );
        assert_eq!(Capability::ALL.map(has).to_vec(), before);
    }
}
