//! The scenarios, in one table. Each runs once with each engine of our server, but for those of
//! [`Scenario::runs_with_one_engine`].

mod client;
mod commands;
mod doctor;
mod doctor_server;
mod documents;
mod fuse;
mod fuse_away;
mod host_side;
mod hostile;
mod io;
mod kernel;
mod kernel_cache;
mod kernel_locks;
mod kernel_modes;
mod kernel_v4;
mod kills;
mod libnfs;
mod machine_copy;
mod packages;
mod power;
mod rootless;
mod rpcbind;
mod screens;
mod stall;
mod v4_clients;
mod v4_records;
mod v4_state;
mod write_twice;

use anyhow::Result;
use nfs_lab::needs::Need;

use crate::host::Context;

/// One of the scenarios in [`TABLE`], with what it needs.
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    /// One line that says what the scenario shows.
    pub(crate) about: &'static str,
    pub(crate) needs: &'static [Need],
    /// Runs the scenario; the text is a note for the verdict line.
    pub(crate) run: fn(&Context) -> Result<String>,
}

impl Scenario {
    /// The server's engines make no difference: it is not ours, or hardly used, or the client is the second of its kind.
    /// What `kernel` and the others show with both engines is shown with Linux 6.12 with one.
    pub(crate) fn runs_with_one_engine(&self) -> bool {
        let foreign = |need: &Need| {
            matches!(
                need,
                Need::Ganesha | Need::KernelServer | Need::Packager | Need::PageTools
            )
        };
        self.needs == NEWER_KERNEL || self.needs.iter().any(foreign)
    }

    /// Whether no other scenario may run beside this one.
    pub(crate) fn runs_alone(&self) -> bool {
        self.needs.contains(&Need::WholeMachine)
    }
}

/// What the scenarios of the newer kernel's client need.
const NEWER_KERNEL: &[Need] = &[
    Need::Root,
    Need::Loop,
    Need::Uml,
    Need::NewerKernel,
    Need::Tun,
    Need::Compiler,
];

/// What the scenarios need in which clients of two kernels hold something.
const V4_STATE: &[Need] = &[
    Need::Root,
    Need::Loop,
    Need::Uml,
    Need::NewerKernel,
    Need::Tun,
];

/// All scenarios, in the order in which they run.
pub(crate) const TABLE: &[Scenario] = &[
    Scenario {
        name: "wire-table",
        about: "every procedure times its errors, on the wire through our own client",
        needs: &[Need::Root],
        run: crate::wire_table::run,
    },
    Scenario {
        name: "wire-table-unprivileged",
        about: "the same with a server that has no privilege: handles from its table",
        needs: &[Need::Root],
        run: crate::wire_table::run_unprivileged,
    },
    Scenario {
        name: "commands",
        about: "penstock ls, cat and stat: output, JSON, exit codes",
        needs: &[],
        run: commands::ours,
    },
    Scenario {
        name: "doctor",
        about: "penstock doctor on XFS, ext4, btrfs, tmpfs, overlayfs, as root and as a stranger",
        needs: &[Need::Root, Need::Loop, Need::Btrfs],
        run: doctor::run,
    },
    Scenario {
        name: "doctor-server",
        about: "penstock doctor nfs://... on Penstock, on a disk and in memory, over each version",
        needs: &[Need::Root, Need::Loop, Need::Tun],
        run: doctor_server::penstock,
    },
    Scenario {
        name: "doctor-ganesha",
        about: "the same on NFS-Ganesha",
        needs: &[
            Need::Root,
            Need::Loop,
            Need::Tun,
            Need::Rpcbind,
            Need::Ganesha,
        ],
        run: doctor_server::ganesha,
    },
    Scenario {
        name: "doctor-nfsd",
        about: "the same on the Linux kernel's server, that syncs and that only says so (async)",
        needs: &[Need::Root, Need::Loop, Need::Tun, Need::KernelServer],
        run: doctor_server::nfsd,
    },
    Scenario {
        name: "screens-top",
        about: "penstock top in a terminal: figures under load, keys, a changed mode, a restart, every way out",
        needs: &[Need::Tmux],
        run: screens::top,
    },
    Scenario {
        name: "screens-page",
        about: "the web page of a server under load in Chromium: figures, hostile names, who may ask",
        needs: &[Need::Chromium],
        run: screens::page,
    },
    Scenario {
        name: "package-deb",
        about: "the Debian package: installed in a copy of this machine, served from, mounted, copied with, purged",
        needs: &[Need::Root, Need::Fuse, Need::Packager],
        run: packages::debian,
    },
    Scenario {
        name: "package-static",
        about: "the tarball with the static program, used and removed",
        needs: &[Need::Root, Need::Fuse, Need::Packager, Need::StaticProgram],
        run: packages::without_libraries,
    },
    Scenario {
        name: "package-image",
        about: "the container image: built, started, and replaced by another container with its volumes",
        needs: &[
            Need::Root,
            Need::Fuse,
            Need::Packager,
            Need::StaticProgram,
            Need::ImageBuilder,
        ],
        run: packages::image,
    },
    Scenario {
        name: "documents",
        about: "the commands and configurations of the documents, each page's as they stand",
        needs: &[Need::Root, Need::Loop, Need::Fuse, Need::PageTools],
        run: documents::run,
    },
    Scenario {
        name: "commands-ganesha",
        about: "the same on NFS-Ganesha, found through its portmapper",
        needs: &[
            Need::Root,
            Need::Loop,
            Need::Tun,
            Need::Rpcbind,
            Need::Ganesha,
        ],
        run: commands::ganesha,
    },
    Scenario {
        name: "commands-nfsd",
        about: "the same on the Linux kernel's server, in User Mode Linux",
        needs: &[Need::Root, Need::Loop, Need::Tun, Need::KernelServer],
        run: commands::nfsd,
    },
    Scenario {
        name: "client-files",
        about: "the library and each command: trees with odd names, holes, links, modes and times",
        needs: &[Need::Root, Need::Loop, Need::Tun],
        run: client::files_penstock,
    },
    Scenario {
        name: "client-files-ganesha",
        about: "the same on NFS-Ganesha",
        needs: &[
            Need::Root,
            Need::Loop,
            Need::Tun,
            Need::Rpcbind,
            Need::Ganesha,
        ],
        run: client::files_ganesha,
    },
    Scenario {
        name: "client-files-nfsd",
        about: "the same on the Linux kernel's server",
        needs: &[Need::Root, Need::Loop, Need::Tun, Need::KernelServer],
        run: client::files_nfsd,
    },
    Scenario {
        name: "client-many",
        about: "100,000 small files: up, found, listed, down, compared, removed",
        needs: &[Need::Root, Need::Loop, Need::Tun],
        run: client::many_penstock,
    },
    Scenario {
        name: "client-many-ganesha",
        about: "fewer of them on NFS-Ganesha",
        needs: &[
            Need::Root,
            Need::Loop,
            Need::Tun,
            Need::Rpcbind,
            Need::Ganesha,
        ],
        run: client::many_ganesha,
    },
    Scenario {
        name: "client-many-nfsd",
        about: "fewer of them on the Linux kernel's server",
        needs: &[Need::Root, Need::Loop, Need::Tun, Need::KernelServer],
        run: client::many_nfsd,
    },
    Scenario {
        name: "client-large",
        about: "a file beyond 4 GiB up, down and between, in bounded memory",
        needs: &[Need::Root, Need::Loop, Need::Tun],
        run: client::large,
    },
    Scenario {
        name: "client-local",
        about: "cp from and to XFS, ext4 and memory: buffered, dontcache and direct",
        needs: &[Need::Root, Need::Loop, Need::Tun],
        run: client::local,
    },
    Scenario {
        name: "client-kill",
        about: "cp while the server is killed, over and over: right bytes, or it says so",
        needs: &[Need::Root, Need::Loop],
        run: client::kill,
    },
    Scenario {
        name: "client-power-xfs",
        about: "cp while the power of the server's XFS is cut",
        needs: &[Need::Root, Need::Loop],
        run: client::power_xfs,
    },
    Scenario {
        name: "client-power-ext4",
        about: "cp while the power of the server's ext4 is cut",
        needs: &[Need::Root, Need::Loop],
        run: client::power_ext4,
    },
    Scenario {
        name: "fuse",
        about: "penstock mount: every call, a table of errors, fsx, with and without the kernel's cache",
        needs: &[Need::Root, Need::Loop, Need::Tun, Need::Fuse],
        run: fuse::penstock,
    },
    Scenario {
        name: "fuse-ganesha",
        about: "the same over NFS-Ganesha",
        needs: &[
            Need::Root,
            Need::Loop,
            Need::Tun,
            Need::Fuse,
            Need::Rpcbind,
            Need::Ganesha,
        ],
        run: fuse::ganesha,
    },
    Scenario {
        name: "fuse-kill",
        about: "penstock mount while the server is killed: fsx goes on, and is right",
        needs: &[Need::Root, Need::Loop, Need::Fuse],
        run: fuse::killed,
    },
    Scenario {
        name: "fuse-away",
        about: "penstock mount whose server is away: signals end programs, nothing is lost, it can be unmounted",
        needs: &[Need::Root, Need::Fuse],
        run: fuse_away::run,
    },
    Scenario {
        name: "libnfs",
        about: "libnfs's utilities: ls, cat, cp up and down, stat",
        needs: &[Need::LibnfsUtils],
        run: libnfs::run,
    },
    Scenario {
        name: "rpcbind",
        about: "found through rpcbind and through our own portmap, by rpcinfo",
        needs: &[Need::Root, Need::Rpcbind],
        run: rpcbind::run,
    },
    Scenario {
        name: "kernel",
        about: "the Linux kernel's client: every call, a source tree, fsx, two mounts",
        needs: &[Need::Root, Need::Loop, Need::Uml, Need::Tun, Need::Compiler],
        run: kernel::run,
    },
    Scenario {
        name: "kernel-modes",
        about: "the kernel's client in each I/O mode: fsx, dd, clients in different modes, restarts",
        needs: &[Need::Root, Need::Loop, Need::Uml, Need::Tun],
        run: kernel_modes::run,
    },
    Scenario {
        name: "kernel-cache",
        about: "the kernel's client reads nothing again that it wrote itself, in each I/O mode",
        needs: &[Need::Root, Need::Loop, Need::Uml, Need::Tun],
        run: kernel_cache::run,
    },
    Scenario {
        name: "kernel-locks",
        about: "the kernel's client without nolock: each lock fails at once, none hangs",
        needs: &[Need::Root, Need::Uml, Need::Tun, Need::Rpcbind],
        run: kernel_locks::run,
    },
    Scenario {
        name: "kernel-v4.1",
        about: "the kernel's client over NFSv4.1: every call, a source tree, fsx, two exports by one path",
        needs: &[Need::Root, Need::Loop, Need::Uml, Need::Tun, Need::Compiler],
        run: kernel_v4::v41,
    },
    Scenario {
        name: "kernel-v4.2",
        about: "the same over NFSv4.2, and extended attributes",
        needs: &[Need::Root, Need::Loop, Need::Uml, Need::Tun, Need::Compiler],
        run: kernel_v4::v42,
    },
    Scenario {
        name: "kernel-6.12",
        about: "what `kernel` shows, with the client of Linux 6.12",
        needs: NEWER_KERNEL,
        run: kernel::newer,
    },
    Scenario {
        name: "kernel-6.12-v4.1",
        about: "what `kernel-v4.1` shows, with the client of Linux 6.12",
        needs: NEWER_KERNEL,
        run: kernel_v4::v41_newer,
    },
    Scenario {
        name: "kernel-6.12-v4.2",
        about: "what `kernel-v4.2` shows, with the client of Linux 6.12",
        needs: NEWER_KERNEL,
        run: kernel_v4::v42_newer,
    },
    Scenario {
        name: "kernel-v4-locks",
        about: "two kernel clients and two programs of the host lock ranges of a file while the server is killed",
        needs: V4_STATE,
        run: v4_state::locks,
    },
    Scenario {
        name: "kernel-v4-blocked",
        about: "two kernel clients wait for one lock by turns: who waits is told, and asks once",
        needs: V4_STATE,
        run: v4_state::blocked,
    },
    Scenario {
        name: "kernel-v4-restart",
        about: "opens and locks of a kernel client outlive kills of the server, and an intruder gets none",
        needs: V4_STATE,
        run: v4_state::restart,
    },
    Scenario {
        name: "kernel-v4-sqlite",
        about: "two kernel clients and the host insert into one SQLite database: sound, and no row is lost",
        needs: &[
            Need::Root,
            Need::Loop,
            Need::Uml,
            Need::NewerKernel,
            Need::Tun,
            Need::Sqlite,
        ],
        run: v4_state::sqlite,
    },
    Scenario {
        name: "host-side",
        about: "on the server's host: a program runs as soon as it is copied, a removed file gives its space back",
        needs: &[Need::Root, Need::Loop],
        run: host_side::run,
    },
    Scenario {
        name: "hostile",
        about: "half-open connections, slow senders, endless records, garbage: memory stays bounded",
        needs: &[],
        run: hostile::run,
    },
    Scenario {
        name: "v4-clients",
        about: "thousands of NFSv4.1 clients with full slot tables: memory stays bounded, and fairly shared",
        needs: &[],
        run: v4_clients::run,
    },
    Scenario {
        name: "v4-records",
        about: "the state directory is full, read-only, or loses a file: NFSv4 grants nothing that a restart would forget",
        needs: &[Need::Root, Need::Loop],
        run: v4_records::run,
    },
    Scenario {
        name: "io-matrix",
        about: "READ and WRITE at every edge, in each mode, on each file system, against a model",
        needs: &[Need::Root, Need::Loop, Need::Btrfs],
        run: io::matrix,
    },
    Scenario {
        name: "io-coherence",
        about: "clients in different modes and a local process on one file: nobody sees old bytes",
        needs: &[Need::Root, Need::Loop, Need::Btrfs],
        run: io::coherence,
    },
    Scenario {
        name: "io-faults",
        about: "full, limited, failing and refusing file systems in the middle of split WRITEs",
        needs: &[Need::Root, Need::Loop, Need::Btrfs],
        run: io::faults,
    },
    Scenario {
        name: "io-live",
        about: "modes and rules changed while calls run: none is lost, none is wrong",
        needs: &[Need::Root, Need::Loop],
        run: io::live,
    },
    Scenario {
        name: "io-ahead",
        about: "streams of direct READs while clients and a local process write in bursts: nobody sees old bytes",
        needs: &[Need::Root, Need::Loop],
        run: io::ahead,
    },
    Scenario {
        name: "io-counted",
        about: "what a large transfer leaves in the page cache, copies, and asks of the kernel",
        needs: &[
            Need::Root,
            Need::Loop,
            Need::Strace,
            // How much of a WRITE comes in with its head depends on who else computes.
            Need::WholeMachine,
        ],
        run: io::counted,
    },
    Scenario {
        name: "rootless-device",
        about: "handles of a server without privileges when the disk's device number is another, or the disk",
        needs: &[Need::Root, Need::Loop, Need::Btrfs],
        run: rootless::device,
    },
    Scenario {
        name: "rootless-full",
        about: "its state directory full: what needs a new handle fails and changes nothing",
        needs: &[Need::Root],
        run: rootless::full,
    },
    Scenario {
        name: "stall-fuse",
        about: "hundreds of READs wait on a stalled file system, all else goes on",
        needs: &[Need::Root, Need::Fuse],
        run: stall::fuse,
    },
    Scenario {
        name: "stall-greedy",
        about: "one client has more calls on a stalled file system than may wait, another's come through",
        needs: &[Need::Root, Need::Fuse],
        run: stall::greedy,
    },
    Scenario {
        name: "stall-frozen",
        about: "hundreds of CREATEs wait on a frozen file system, all else goes on",
        needs: &[Need::Root, Need::Loop],
        run: stall::frozen,
    },
    Scenario {
        name: "kill",
        about: "kill -9 under load: handles live, the verifier changes, resending loses nothing",
        needs: &[Need::Root],
        run: power::kill,
    },
    Scenario {
        name: "write-twice",
        about: "WRITEs that come twice to a file system that waits: what was acknowledged after them stands",
        needs: &[Need::Root, Need::Loop, Need::Fuse],
        run: write_twice::run,
    },
    Scenario {
        name: "kill-replies",
        about: "kill -9 between a change and its reply: sent again, no call runs into its own change",
        needs: &[Need::Root, Need::Loop],
        run: kills::replies,
    },
    Scenario {
        name: "kill-names",
        about: "the kernel's client changes names while its servers are killed: each call answers as on a local disk",
        needs: &[Need::Root, Need::Loop, Need::Uml, Need::Tun],
        run: kills::names,
    },
    Scenario {
        name: "power-xfs",
        about: "power cuts under load on XFS: what was acknowledged is there",
        needs: &[Need::Root, Need::Loop],
        run: power::xfs,
    },
    Scenario {
        name: "power-ext4",
        about: "power cuts under load on ext4: what was acknowledged is there",
        needs: &[Need::Root, Need::Loop],
        run: power::ext4,
    },
    Scenario {
        name: "power-attributes",
        about: "power cuts right after a SETATTR that did not wait for the file's data, on XFS and ext4",
        needs: &[Need::Root, Need::Loop],
        run: power::attributes,
    },
    Scenario {
        name: "power-behind",
        about: "power cuts after WRITEs behind the end of files that were cut off: zeros lie between, on XFS and ext4",
        needs: &[Need::Root, Need::Loop],
        run: io::behind,
    },
];
