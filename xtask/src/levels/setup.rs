//! Set-up: the packages that the tests use, and those that `bench` measures with; installed where we may, named where
//! we may not.

use std::path::Path;
use std::process::{Command, Stdio};

use super::{Tally, newer_kernel};
use crate::run;

/// A Debian package and what needs it.
#[derive(Clone, Copy)]
struct Package {
    name: &'static str,
    reason: &'static str,
    /// What Debian starts when it is installed. The tests start their own, in namespaces of their own.
    services: &'static [&'static str],
}

const fn package(name: &'static str, reason: &'static str) -> Package {
    Package {
        name,
        reason,
        services: &[],
    }
}

const LIBNFS: Package = package("libnfs-utils", "a foreign client: nfs-ls, nfs-cat, nfs-cp");
const GANESHA: Package = Package {
    name: "nfs-ganesha",
    reason: "a foreign server for our client, and one to compare ours with",
    services: &["nfs-ganesha.service"],
};
const GANESHA_VFS: Package = package("nfs-ganesha-vfs", "its back end for real directories");
const RPCBIND: Package = Package {
    name: "rpcbind",
    reason: "registration with it, and rpcinfo to look",
    services: &["rpcbind.socket", "rpcbind.service"],
};
const XFS: Package = package("xfsprogs", "mkfs.xfs, and xfs_io, which cuts the power");
const EXT4: Package = package("e2fsprogs", "mkfs.ext4, chattr");
const STRACE: Package = package("strace", "counts a server's system calls");

/// The packages that `bench` measures with, or that hold what ours is compared with.
const FOR_MEASUREMENTS: &[Package] = &[
    XFS,
    EXT4,
    package("fio", "the same load straight on the file system"),
    GANESHA,
    GANESHA_VFS,
    RPCBIND,
    LIBNFS,
    STRACE,
    package("valgrind", "counts a server's instructions"),
];

/// The packages that the tests use.
const FOR_TESTS: &[Package] = &[
    package(
        "gcc",
        "the linker of Rust programs; a C compiler to run on a mount",
    ),
    package("libc6-dev", "C start files and headers for both"),
    package("g++", "builds the fuzzing engine (libFuzzer is C++)"),
    package(
        "user-mode-linux",
        "a Linux kernel with an NFS client, as a process",
    ),
    package(
        "patchelf",
        "lets a newer Linux for guests run with a C library of its own",
    ),
    package("kmod", "insmod, for that kernel's modules"),
    package("nfs-common", "mount.nfs for that kernel"),
    LIBNFS,
    GANESHA,
    GANESHA_VFS,
    Package {
        name: "nfs-kernel-server",
        reason: "programs of the kernel's server, a foreign server for our client",
        services: &["nfs-server.service", "nfs-blkmap.service"],
    },
    RPCBIND,
    XFS,
    EXT4,
    package("acl", "setfacl, which grants what a file's mode does not"),
    package("btrfs-progs", "mkfs.btrfs, and btrfs, which limits space"),
    package("fuse3", "a file system that stalls on request"),
    package("iproute2", "tap devices and network namespaces"),
    package("util-linux", "unshare, nsenter, setpriv"),
    package(
        "util-linux-extra",
        "fincore, which looks into the page cache",
    ),
    package("mount", "loop mounts, losetup"),
    package("systemd", "systemd-analyze, which judges the example unit"),
    STRACE,
    package(
        "tmux",
        "a terminal in which penstock top is typed into and read",
    ),
    package(
        "chromium",
        "a browser that shows the web page of a real server (half a minute to install)",
    ),
    package(
        "binutils",
        "objcopy, which splits debug symbols off for packages",
    ),
    package("man-db", "shows the manual pages of a package"),
    package("dpkg-dev", "finds what a Debian package depends on"),
    package("buildah", "builds the container image"),
    package("procps", "pgrep, which finds the server of a container"),
    package("jq", "reads JSON in commands of the documents"),
    package("zstd", "compresses in a command of the documents"),
    package("sqlite3", "a database on a mount that rests on locks"),
    package("zsh", "completes addresses"),
    package("fish", "completes addresses"),
    package("tar", "unpacks a source tree on a mount"),
    package(
        "python3-venv",
        "an environment for the Python package's tests",
    ),
];

/// The packages that the tests use, and what no package of the machine's own Debian has.
pub(crate) fn all() -> Tally {
    let mut tally = tally(installed(FOR_TESTS));
    // By what the packages brought.
    tally.merge(newer_kernel::set_up());
    tally
}

/// The packages that `bench` uses. What could not be had is said, and each measurement says what it misses.
pub(crate) fn for_measurements() {
    if let Err(NotInstalled { why, .. }) = installed(FOR_MEASUREMENTS) {
        eprintln!("set-up: {why}; what needs these packages is not measured");
    }
}

/// Packages that are not there, and could not be had.
struct NotInstalled {
    why: String,
    /// Their names, where it is known which.
    names: Option<String>,
}

fn tally(installed: Result<(), NotInstalled>) -> Tally {
    let Err(NotInstalled { why, names }) = installed else {
        return Tally::one(true);
    };
    eprintln!("SKIP: set-up: {why}; tests that need these packages skip");
    let mut tally = Tally::skip();
    if let Some(names) = names {
        tally.say(&format!("set-up: not installed: {names}"));
    }
    tally
}

/// Installs what is missing of `packages`.
fn installed(packages: &[Package]) -> Result<(), NotInstalled> {
    let without_names = |why: &str| NotInstalled {
        why: why.to_owned(),
        names: None,
    };
    if !Path::new("/etc/debian_version").exists() || !run::exists("apt-get") {
        print_list(packages);
        return Err(without_names(
            "not Debian, where the packages above hold what is needed",
        ));
    }
    let missing = missing(packages);
    if missing.is_empty() {
        eprintln!("==> set-up: all {} packages are here", packages.len());
        return Ok(());
    }
    print_list(&missing);
    if !run::is_root() {
        return Err(without_names(
            "not root, so the packages above are not installed",
        ));
    }
    // A stale package list is the common cause of a failed install, so it is renewed first.
    let updated = apt(&["update", "-q"]);
    let _judged_by_what_is_there = apt(&[
        &["install", "-y", "-q", "--no-install-recommends"],
        names(&missing).as_slice(),
    ]
    .concat());
    let missing_still = self::missing(packages);
    // One mirror that does not answer fails the update, and what is wanted can be had all the same.
    if !updated && missing_still.is_empty() {
        eprintln!("    the package list could not be renewed; everything was there all the same");
    }
    if !missing_still.is_empty() {
        let names = names(&missing_still).join(" ");
        return Err(NotInstalled {
            why: format!("apt-get failed (no network?), {names} missing"),
            names: Some(names),
        });
    }
    for service in missing.iter().flat_map(|package| package.services) {
        stop(service);
    }
    Ok(())
}

fn names(packages: &[Package]) -> Vec<&'static str> {
    packages.iter().map(|package| package.name).collect()
}

/// A service that came with a package which only its programs were wanted of is not left running.
fn stop(service: &str) {
    if Path::new("/run/systemd/system").exists() {
        eprintln!("==> systemctl disable --now {service}");
        let stopped = Command::new("systemctl")
            .args(["disable", "--now", service])
            .status();
        if !stopped.is_ok_and(|status| status.success()) {
            eprintln!(
                "    {service} could not be stopped; it came with a package installed just now"
            );
        }
    }
}

fn print_list(packages: &[Package]) {
    for package in packages {
        eprintln!("    {:<16} {}", package.name, package.reason);
    }
}

fn missing(packages: &[Package]) -> Vec<Package> {
    let missing = |package: &&Package| !is_installed(package.name);
    packages.iter().filter(missing).copied().collect()
}

fn is_installed(name: &str) -> bool {
    let output = Command::new("dpkg-query")
        .args(["-W", "-f=${db:Status-Status}", name])
        .output();
    output.is_ok_and(|o| o.stdout == b"installed")
}

/// What makes `apt-get` wait where it would fail: for another that holds the lock (a machine that has just started
/// upgrades itself), and for a mirror that drops connections.
pub(super) const PATIENCE: [&str; 4] = [
    "-oDPkg::Lock::Timeout=600",
    "-oAcquire::Retries=5",
    "-oAcquire::http::Timeout=30",
    "-oAcquire::https::Timeout=30",
];

fn apt(arguments: &[&str]) -> bool {
    eprintln!("==> apt-get {}", arguments.join(" "));
    let status = Command::new("apt-get")
        .args(PATIENCE)
        .args(arguments)
        .env("DEBIAN_FRONTEND", "noninteractive")
        .stdin(Stdio::null())
        // Standard output belongs to the tests' closing line.
        .stdout(std::io::stderr())
        .status();
    status.is_ok_and(|s| s.success())
}
