//! The scenarios, in one table.

mod kernel;
mod libnfs;
mod power;

use anyhow::Result;

use crate::host::Context;
use crate::host::needs::Need;

/// Which engines a scenario runs with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Engines {
    /// Once with each.
    Each,
    /// Once: the engine makes no difference.
    Any,
}

/// One scenario.
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    /// What it shows, in a line.
    pub(crate) about: &'static str,
    pub(crate) needs: &'static [Need],
    pub(crate) engines: Engines,
    /// Runs it; the text is a note for the verdict line.
    pub(crate) run: fn(&Context) -> Result<String>,
}

/// All scenarios, in the order in which they run.
pub(crate) const TABLE: &[Scenario] = &[
    Scenario {
        name: "libnfs",
        about: "libnfs's utilities: ls, cat, cp up and down, stat",
        needs: &[Need::LibnfsUtils],
        engines: Engines::Each,
        run: libnfs::run,
    },
    Scenario {
        name: "kernel",
        about: "the Linux kernel's client: every call, a source tree, fsx, two mounts",
        needs: &[Need::Root, Need::Uml, Need::Tun, Need::Compiler],
        engines: Engines::Each,
        run: kernel::run,
    },
    Scenario {
        name: "power-xfs",
        about: "power cuts under load on XFS: what was acknowledged is there",
        needs: &[Need::Root, Need::Loop],
        engines: Engines::Each,
        run: power::xfs,
    },
    Scenario {
        name: "power-ext4",
        about: "power cuts under load on ext4: what was acknowledged is there",
        needs: &[Need::Root, Need::Loop],
        engines: Engines::Each,
        run: power::ext4,
    },
];
