//! What a test needs of the machine, and whether it is there.

use std::fs;
use std::path::{Path, PathBuf};

use crate::Engine;
use crate::uml::{self, Kernel};

/// Something that a test needs and that a machine may lack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// The rights of root: mounts, namespaces, other users' files.
    Root,
    /// Loop devices, and the programs that make XFS and ext4 on them.
    Loop,
    /// The program mkfs.btrfs, to make btrfs on a loop device.
    Btrfs,
    /// User Mode Linux with its NFS client modules, and mount.nfs.
    Uml,
    /// User Mode Linux of a newer Debian than the machine's, too.
    NewerKernel,
    /// Tap devices in network namespaces, as the wire to a guest.
    Tun,
    /// The utilities of libnfs: nfs-ls, nfs-cat, nfs-cp and nfs-stat.
    LibnfsUtils,
    /// FUSE: file systems that a process serves.
    Fuse,
    /// NFS-Ganesha, with the means to give it a world of its own.
    Ganesha,
    /// nfsd and its programs, for a guest that serves.
    KernelServer,
    /// The program tar and a C compiler.
    Compiler,
    /// strace, to count system calls.
    Strace,
    /// The program sqlite3.
    Sqlite,
    /// tmux, a terminal that a test types into and reads.
    Tmux,
    /// The browser Chromium, without a screen.
    Chromium,
    /// rpcbind and rpcinfo, in namespaces of their own.
    Rpcbind,
    /// The programs that make Debian packages, split debug symbols off and judge units.
    Packager,
    /// A program that builds container images, and one that reads what it says of them.
    ImageBuilder,
    /// What commands in the documents are put together with: jq, zstd and namespaces.
    PageTools,
    /// The program under test, linked statically.
    StaticProgram,
    /// All of the machine's processors, memory and page cache: nothing else is tested meanwhile.
    WholeMachine,
}

impl Need {
    /// The need's name in the list of scenarios.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Root => "root",
            Self::Loop => "loop devices",
            Self::Btrfs => "btrfs",
            Self::Uml => "User Mode Linux",
            Self::NewerKernel => "Linux 6.12 for a guest",
            Self::Tun => "tap devices",
            Self::LibnfsUtils => "libnfs utilities",
            Self::Fuse => "FUSE",
            Self::Ganesha => "NFS-Ganesha",
            Self::KernelServer => "the kernel's server",
            Self::Compiler => "C compiler",
            Self::Strace => "strace",
            Self::Sqlite => "SQLite",
            Self::Tmux => "tmux",
            Self::Chromium => "Chromium",
            Self::Rpcbind => "rpcbind",
            Self::Packager => "packaging tools",
            Self::ImageBuilder => "builder of container images",
            Self::PageTools => "tools of the documents",
            Self::StaticProgram => "static program",
            Self::WholeMachine => "the whole machine",
        }
    }
}

/// Why the machine cannot serve `need`, with the cure; `None` when it can.
pub fn missing(need: Need, engine: Engine) -> Option<String> {
    if engine == Engine::Uring && io_uring_is_off() {
        return Some("io_uring is switched off here (kernel.io_uring_disabled)".to_owned());
    }
    match need {
        Need::Root => (!rustix::process::geteuid().is_root()).then(|| "not root".to_owned()),
        Need::Loop => programs(&[
            ("mkfs.xfs", "xfsprogs"),
            ("xfs_io", "xfsprogs"),
            ("mkfs.ext4", "e2fsprogs"),
            ("mount", "mount"),
            ("losetup", "mount"),
        ])
        .or_else(|| device("/dev/loop-control")),
        Need::Btrfs => programs(&[("mkfs.btrfs", "btrfs-progs")]),
        Need::Uml => programs(&[
            ("linux.uml", "user-mode-linux"),
            ("mount.nfs", "nfs-common"),
            ("insmod", "kmod"),
        ])
        .or_else(|| {
            (!Path::new("/usr/lib/uml/modules").is_dir())
                .then(|| "no modules of User Mode Linux (apt install user-mode-linux)".to_owned())
        }),
        Need::NewerKernel => newer_kernel(),
        Need::Tun => programs(&[("ip", "iproute2")]).or_else(|| device("/dev/net/tun")),
        Need::LibnfsUtils => {
            let package = "libnfs-utils";
            programs(&[
                ("nfs-ls", package),
                ("nfs-cat", package),
                ("nfs-cp", package),
            ])
        }
        Need::Tmux => programs(&[("tmux", "tmux")]),
        Need::Chromium => programs(&[("chromium", "chromium")]),
        Need::Sqlite => programs(&[("sqlite3", "sqlite3")]),
        Need::Fuse => programs(&[("fusermount3", "fuse3")]).or_else(|| device("/dev/fuse")),
        Need::Rpcbind => programs(&[
            ("rpcbind", "rpcbind"),
            ("rpcinfo", "rpcbind"),
            ("unshare", "util-linux"),
            ("nsenter", "util-linux"),
            ("ip", "iproute2"),
        ]),
        Need::Strace => programs(&[("strace", "strace"), ("fincore", "util-linux-extra")]),
        Need::Ganesha => programs(&[
            ("ganesha.nfsd", "nfs-ganesha nfs-ganesha-vfs"),
            ("unshare", "util-linux"),
        ]),
        Need::KernelServer => programs(&[
            ("linux.uml", "user-mode-linux"),
            ("rpc.nfsd", "nfs-kernel-server"),
            ("rpc.mountd", "nfs-kernel-server"),
            ("exportfs", "nfs-kernel-server"),
            ("rpcbind", "rpcbind"),
        ]),
        Need::Packager => programs(&[
            ("dpkg-deb", "dpkg"),
            ("dpkg-shlibdeps", "dpkg-dev"),
            ("man", "man-db"),
            ("objcopy", "binutils"),
            ("systemd-analyze", "systemd"),
            ("unshare", "util-linux"),
            ("ip", "iproute2"),
        ]),
        Need::ImageBuilder => {
            programs(&[("buildah", "buildah"), ("jq", "jq"), ("pgrep", "procps")])
        }
        Need::PageTools => programs(&[
            ("jq", "jq"),
            ("zstd", "zstd"),
            ("journalctl", "systemd"),
            ("unshare", "util-linux"),
            ("ip", "iproute2"),
        ]),
        Need::StaticProgram => static_program().is_none().then(|| {
            "no static program (`cargo xtask test --long` builds it, with `rustup target add`)"
                .to_owned()
        }),
        // Whoever runs the tests gives it, by running nothing else.
        Need::WholeMachine => None,
        Need::Compiler => programs(&[("gcc", "gcc"), ("tar", "tar"), ("setpriv", "util-linux")]),
    }
}

fn io_uring_is_off() -> bool {
    fs::read_to_string("/proc/sys/kernel/io_uring_disabled").is_ok_and(|text| text.trim() == "2")
}

/// The program under test, linked statically, where `cargo xtask test --long` builds it: beside the program that asks.
pub fn static_program() -> Option<PathBuf> {
    let own = std::env::current_exe().ok()?;
    let target = own.parent()?.parent()?;
    let triple = format!("{}-unknown-linux-musl", std::env::consts::ARCH);
    let program = target.join(triple).join("debug/penstock");
    program.is_file().then_some(program)
}

fn newer_kernel() -> Option<String> {
    let Some(program) = Kernel::Newer.program() else {
        return Some(uml::not_told());
    };
    (!program.is_file()).then(|| {
        format!(
            "no {}: `cargo xtask test` fetches it from Debian's mirror",
            program.display()
        )
    })
}

fn device(path: &str) -> Option<String> {
    (!Path::new(path).exists()).then(|| format!("no {path}"))
}

fn programs(wanted: &[(&str, &str)]) -> Option<String> {
    wanted
        .iter()
        .find(|(program, _)| find(program).is_none())
        .map(|(program, package)| format!("no {program} (apt install {package})"))
}

/// Where a program is, on the PATH or in the system directories that a user's PATH may lack.
pub fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/sbin", "/sbin", "/usr/bin"].map(PathBuf::from))
        .map(|dir| dir.join(program))
        .find(|candidate| candidate.is_file())
}
