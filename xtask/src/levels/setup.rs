//! Set-up: the packages the tests use, installed where we may, named where we may not.

use std::path::Path;
use std::process::{Command, Stdio};

use super::Tally;
use crate::run;

/// A Debian package and what needs it.
struct Package {
    name: &'static str,
    reason: &'static str,
}

const PACKAGES: &[Package] = &[
    Package {
        name: "gcc",
        reason: "the linker of Rust programs; a C compiler to run on a mount",
    },
    Package {
        name: "libc6-dev",
        reason: "C start files and headers for both",
    },
    Package {
        name: "g++",
        reason: "builds the fuzzing engine (libFuzzer is C++)",
    },
    Package {
        name: "user-mode-linux",
        reason: "a Linux kernel with an NFS client, as a process",
    },
    Package {
        name: "nfs-common",
        reason: "mount.nfs for that kernel",
    },
    Package {
        name: "libnfs-utils",
        reason: "a foreign client: nfs-ls, nfs-cat, nfs-cp",
    },
    Package {
        name: "rpcbind",
        reason: "registration with it, and rpcinfo to look",
    },
    Package {
        name: "xfsprogs",
        reason: "mkfs.xfs, and xfs_io, which cuts the power",
    },
    Package {
        name: "e2fsprogs",
        reason: "mkfs.ext4",
    },
    Package {
        name: "fuse3",
        reason: "a file system that stalls on request",
    },
    Package {
        name: "iproute2",
        reason: "tap devices and network namespaces",
    },
    Package {
        name: "util-linux",
        reason: "unshare, nsenter, setpriv, losetup",
    },
    Package {
        name: "mount",
        reason: "loop mounts",
    },
    Package {
        name: "tar",
        reason: "unpacks a source tree on a mount",
    },
];

/// Installs what is missing, or says what is missing.
pub(crate) fn packages() -> Tally {
    if !Path::new("/etc/debian_version").exists() || !run::exists("apt-get") {
        eprintln!("SKIP: set-up: not Debian; the tests need what these packages hold:");
        print_list(&PACKAGES.iter().collect::<Vec<_>>());
        return Tally::skip();
    }
    let missing = missing();
    if missing.is_empty() {
        eprintln!("==> set-up: all {} packages are here", PACKAGES.len());
        return Tally::one(true);
    }
    print_list(&missing);
    if !run::is_root() {
        eprintln!(
            "SKIP: set-up: not root, so the packages above are not installed; tests that need them skip"
        );
        return Tally::skip();
    }
    let names: Vec<&str> = missing.iter().map(|p| p.name).collect();
    // A stale package list is the common cause of a failed install, so it is renewed first.
    let updated = apt(&["update", "-q"]);
    let installed = apt(&[
        &["install", "-y", "-q", "--no-install-recommends"],
        names.as_slice(),
    ]
    .concat());
    if !updated || !installed {
        eprintln!("SKIP: set-up: apt-get failed (no network?); tests that need the packages skip");
        return Tally::skip();
    }
    Tally::one(true)
}

fn print_list(packages: &[&Package]) {
    for package in packages {
        eprintln!("    {:<16} {}", package.name, package.reason);
    }
}

fn missing() -> Vec<&'static Package> {
    PACKAGES
        .iter()
        .filter(|package| !is_installed(package.name))
        .collect()
}

fn is_installed(name: &str) -> bool {
    let output = Command::new("dpkg-query")
        .args(["-W", "-f=${db:Status-Status}", name])
        .output();
    output.is_ok_and(|o| o.stdout == b"installed")
}

fn apt(arguments: &[&str]) -> bool {
    eprintln!("==> apt-get {}", arguments.join(" "));
    let status = Command::new("apt-get")
        .args(arguments)
        .env("DEBIAN_FRONTEND", "noninteractive")
        .stdin(Stdio::null())
        // Standard output belongs to the tests' closing line.
        .stdout(std::io::stderr())
        .status();
    status.is_ok_and(|s| s.success())
}
