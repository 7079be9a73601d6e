//! What the server's process gives up once it has all it needs: capabilities, system calls, places in
//! the file system. It is done once, before the first thread of the server, holds until the process
//! ends, and is told by [`in_force`].
//!
//! Nothing here ends the process: a part that the kernel does not offer is reported as unavailable, and
//! whoever asked for the confinement decides what that means.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use nfs_io::caps::{self, Bounding, Capability};
use nfs_io::confine;
use nfs_io::confine::places::{self, Places};
use nfs_io::confine::system_calls::{self, Besides, Refused};

/// What a server still needs.
#[derive(Clone, Debug, Default)]
pub struct Needs {
    /// The directories beneath which everything lies that it will ever serve; empty where nobody has
    /// said so and a reload may add exports anywhere.
    pub beneath: Vec<PathBuf>,
    /// The directories that are served at first.
    pub exports: Vec<PathBuf>,
    /// Directories of its own, where it makes and changes files.
    pub own: Vec<PathBuf>,
    /// Directories of its own where it only reads, as the one of the configuration file.
    pub read: Vec<PathBuf>,
    /// It takes every user's groups, or the names of users, from the machine's user database, which may be of a kind
    /// whose files and libraries only the machine's administrator knows.
    pub user_database: bool,
    /// One of its listeners is in another network namespace, and who connects there has to be asked
    /// for in it. Takes `CAP_SYS_ADMIN`, `CAP_NET_ADMIN` and setns(2).
    pub network_namespaces: bool,
}

/// One part of the confinement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// `capabilities`, `no-new-privileges`, `places` or `system-calls`.
    pub name: &'static str,
    /// Whether the part holds.
    pub state: PartState,
    /// What is left, or why the part does not hold and what to do about it.
    pub detail: String,
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: {}", self.name, self.state.word(), self.detail)
    }
}

/// Does a part of the confinement hold?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartState {
    /// It does.
    InForce,
    /// It was not asked for: what it would need to know was not said.
    Off,
    /// It was asked for and cannot be had.
    Unavailable,
}

impl PartState {
    /// The word for the operator.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::InForce => "in force",
            Self::Off => "off",
            Self::Unavailable => "unavailable",
        }
    }
}

/// What holds in this process; empty where nothing was given up.
static IN_FORCE: OnceLock<(Vec<Part>, Allowed)> = OnceLock::new();

/// Where exports may lie.
#[derive(Debug)]
enum Allowed {
    Anywhere,
    /// Without links; with `by_handles` also the roots of their mounts.
    Beneath {
        places: Vec<PathBuf>,
        by_handles: bool,
    },
}

/// Gives up what `needs` does not name, in this process, for good; to be called before the second
/// thread and once. What holds then is in [`in_force`].
pub fn enter(needs: &Needs) -> &'static [Part] {
    // Takes a capability that goes.
    nfs_io::fs::raise_nofile(u64::MAX);
    if !confine::is_only_thread() {
        let detail = "threads were running already, which would not be confined".to_owned();
        let parts = vec![part("all", PartState::Unavailable, detail)];
        return &IN_FORCE.get_or_init(|| (parts, Allowed::Anywhere)).0;
    }
    let by_handles = caps::has(Capability::DacReadSearch);
    let capabilities = give_up_capabilities(needs);
    let privileges = match confine::no_new_privileges() {
        Ok(()) => part("no-new-privileges", PartState::InForce, String::new()),
        Err(error) => part(
            "no-new-privileges",
            PartState::Unavailable,
            error.to_string(),
        ),
    };
    let (places, allowed) = stay_in_places(needs, by_handles);
    // The last, as it would refuse the others.
    let system_calls = give_up_system_calls(needs);
    let parts = vec![capabilities, privileges, places, system_calls];
    &IN_FORCE.get_or_init(|| (parts, allowed)).0
}

/// What this process has given up; empty where [`enter`] was not called.
#[must_use]
pub fn in_force() -> &'static [Part] {
    IN_FORCE.get().map_or(&[], |(parts, _)| parts)
}

/// Whether the directories of `exports` can be served within the confinement.
///
/// # Errors
/// Which cannot, and what to do.
pub fn admits<'p>(exports: impl Iterator<Item = &'p Path>) -> Result<(), String> {
    match IN_FORCE.get() {
        None => Ok(()),
        Some((_, allowed)) => allowed.admits(exports),
    }
}

/// The system calls that were refused so far.
#[must_use]
pub fn refused() -> Refused {
    system_calls::refused()
}

/// Logs the system calls that were refused since `told` was returned, and returns what is told now.
#[must_use]
pub fn tell_refused(told: Refused) -> Refused {
    let refused = system_calls::refused();
    let new = refused
        .names
        .iter()
        .filter(|name| !told.names.contains(name));
    for name in new {
        tracing::error!(
            call = name,
            "a system call was refused that this server does not make by itself: something runs in \
             it that should not, or a library of the machine needs it. Tell the makers; \
             confine = \"off\" in the configuration allows it"
        );
    }
    refused
}

fn give_up_capabilities(needs: &Needs) -> Part {
    let mut kept = KEPT.to_vec();
    if needs.network_namespaces {
        kept.extend([Capability::SysAdmin, Capability::NetAdmin]);
    }
    let name = "capabilities";
    match caps::keep_only(&kept) {
        Ok(Bounding::Narrowed) => part(
            name,
            PartState::InForce,
            format!("{} and no other, in the bounding set too", caps::summary()),
        ),
        Ok(Bounding::AsItWas) => part(
            name,
            PartState::InForce,
            format!("{} and no other", caps::summary()),
        ),
        Err(error) => part(name, PartState::Unavailable, error.to_string()),
    }
}

fn give_up_system_calls(needs: &Needs) -> Part {
    let besides = Besides {
        network_namespaces: needs.network_namespaces,
    };
    match system_calls::restrict(besides) {
        Ok(()) => part(
            "system-calls",
            PartState::InForce,
            "those of a file server; others are refused, counted and named".to_owned(),
        ),
        Err(why) => part("system-calls", PartState::Unavailable, why),
    }
}

fn stay_in_places(needs: &Needs, by_handles: bool) -> (Part, Allowed) {
    let off = |state, why: String| {
        let detail = format!("all files of this machine are within reach: {why}");
        (part("places", state, detail), Allowed::Anywhere)
    };
    if needs.beneath.is_empty() {
        let why = "a reload may add exports anywhere; confine_beneath says where they will be";
        return off(PartState::Off, why.to_owned());
    }
    if by_handles && !places::finds_files_of_handles() {
        let why = "this kernel's landlock refuses files that are opened by handles (it lacks the \
                   correction of erratum 3, of Linux 6.18)";
        return off(PartState::Unavailable, why.to_owned());
    }
    let canonical: Result<Vec<PathBuf>, String> = needs.beneath.iter().map(resolved).collect();
    let beneath = match canonical {
        Ok(beneath) => beneath,
        Err(why) => return off(PartState::Unavailable, why),
    };
    let allowed = Allowed::Beneath {
        places: beneath.clone(),
        by_handles,
    };
    if let Err(why) = allowed.admits(needs.exports.iter().map(PathBuf::as_path)) {
        return off(PartState::Unavailable, why);
    }
    let shown: Vec<String> = beneath
        .iter()
        .map(|place| place.display().to_string())
        .collect();
    let mut detail = shown.join(" ");
    let read = if needs.user_database {
        detail.push_str(
            " (reading is free: server_groups and idmap_domain ask the machine's user database)",
        );
        None
    } else {
        Some(
            SYSTEM
                .iter()
                .map(PathBuf::from)
                .chain(needs.read.iter().cloned())
                .collect(),
        )
    };
    let mut changed = beneath;
    changed.extend(needs.own.iter().cloned());
    match places::restrict(&Places { changed, read }) {
        Ok(()) => (part("places", PartState::InForce, detail), allowed),
        Err(why) => off(PartState::Unavailable, why),
    }
}

impl Allowed {
    fn admits<'p>(&self, mut exports: impl Iterator<Item = &'p Path>) -> Result<(), String> {
        match self {
            Self::Anywhere => Ok(()),
            Self::Beneath { places, by_handles } => exports.try_for_each(|export| {
                let shown = export.display();
                let path = resolved(export)?;
                if !places.iter().any(|place| path.starts_with(place)) {
                    return Err(format!(
                        "{shown} is not beneath what this server confined itself to when it \
                         started; add its place to confine_beneath and start it anew"
                    ));
                }
                if !by_handles {
                    return Ok(());
                }
                let root =
                    places::mount_root(&path).map_err(|error| format!("{shown}: {error}"))?;
                if places.iter().any(|place| root.starts_with(place)) {
                    return Ok(());
                }
                Err(format!(
                    "{shown} is in the mount of {}, which is not beneath what is served: landlock \
                     would refuse files there that are opened by handles. Serve a mount point \
                     (mount --bind makes one of any directory)",
                    root.display()
                ))
            }),
        }
    }
}

fn resolved(path: impl AsRef<Path>) -> Result<PathBuf, String> {
    let path = path.as_ref();
    std::fs::canonicalize(path).map_err(|error| format!("{}: {error}", path.display()))
}

const fn part(name: &'static str, state: PartState, detail: String) -> Part {
    Part {
        name,
        state,
        detail,
    }
}

/// To act as clients' users, to open files by handle, to make devices for a client's root.
const KEPT: [Capability; 8] = [
    Capability::Chown,
    Capability::DacOverride,
    Capability::DacReadSearch,
    Capability::Fowner,
    Capability::Fsetid,
    Capability::Mknod,
    Capability::Setgid,
    Capability::Setuid,
];

/// What the system has for all and a server looks at: itself and its descriptors, mounts, disks; and,
/// for the groups of local users, the user database with the libraries and caches it may be asked by.
const SYSTEM: &[&str] = &[
    "/proc",
    "/sys",
    "/dev",
    "/etc",
    "/run",
    "/usr",
    "/lib",
    "/lib64",
    "/nix/store",
    "/gnu/store",
    "/var/lib/sss",
    "/var/lib/extrausers",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exports_are_admitted_by_where_they_really_are() {
        let directory = tempfile::tempdir().unwrap();
        let base = std::fs::canonicalize(directory.path()).unwrap();
        for name in ["inside", "inside/a", "outside"] {
            std::fs::create_dir(base.join(name)).unwrap();
        }
        let link = base.join("inside/link");
        std::os::unix::fs::symlink(base.join("outside"), &link).unwrap();
        let allowed = |by_handles| Allowed::Beneath {
            places: vec![base.join("inside")],
            by_handles,
        };
        let admits = |by_handles, path: &str| {
            let path = base.join(path);
            allowed(by_handles).admits([path.as_path()].into_iter())
        };
        assert_eq!(admits(false, "inside/a"), Ok(()));
        assert_eq!(admits(false, "inside"), Ok(()));
        for path in ["outside", "inside/link", "inside/missing", "."] {
            assert!(admits(false, path).is_err(), "{path}");
        }
        let of_mount = admits(true, "inside/a").unwrap_err();
        assert!(of_mount.contains("mount --bind"), "{of_mount}");
        assert_eq!(
            Allowed::Anywhere.admits([link.as_path()].into_iter()),
            Ok(())
        );
    }
}
