//! The Linux kernel's NFS client, in User Mode Linux: a whole kernel as one process.
//!
//! The guest's root is the host's file tree (hostfs). Its process 1 is a shell script that loads
//! the NFS modules, mounts the export and runs the caller's own program on it; verdicts come back
//! through a file.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::netns::Wire;
use crate::{Heard, Lab, Lines, Netns, Running, copy_program, output, output_within};

/// The program that is a kernel (Debian: user-mode-linux).
pub const PROGRAM: &str = "linux.uml";

/// How long the C compiler may take for one small file.
const COMPILER_DEADLINE: Duration = Duration::from_secs(60);

/// The file of a scenario's directory that has what the guest's console says.
const CONSOLE: &str = "guest-console.log";

/// What a guest writes as the last line of its result file.
const END: &str = "end";

/// How long a guest may take to halt after its script. Everything is unmounted by then.
const HALT_WITHIN: Duration = Duration::from_secs(60);

/// The last words of a kernel on its console: of Linux 6.12, and of 6.1.
const DOWN: [&str; 2] = ["reboot: Power down", "reboot: System halted"];

/// Memory of a guest, as the kernel's `mem` option takes it.
const GUEST_MEMORY: &str = "640M";

/// The modules of a client of NFSv3 and NFSv4, in the order of their needs.
pub const CLIENT_MODULES: &str = "net/sunrpc/sunrpc fs/nfs_common/grace fs/lockd/lockd fs/netfs/netfs \
     fs/fscache/fscache fs/nfs/nfs fs/nfs_common/nfs_acl fs/nfs/nfsv3 net/dns_resolver/dns_resolver \
     fs/nfs/nfsv4";

/// Which Linux a guest is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kernel {
    /// The one that the machine's own Debian has as a package.
    Installed,
    /// Linux 6.12, the one of Debian 13, which `cargo xtask test` keeps in a directory of its own beside the
    /// machine's packages.
    Newer,
}

impl Kernel {
    /// The environment variable that names the directory of [`Kernel::Newer`].
    pub const NEWER_DIRECTORY: &'static str = "PENSTOCK_NEWER_KERNEL";

    /// The program that is the kernel; `None` if nobody has said where [`Kernel::Newer`] is.
    pub fn program(self) -> Option<PathBuf> {
        match self {
            Self::Installed => Some(PathBuf::from(PROGRAM)),
            Self::Newer => Some(Self::newer_directory()?.join("usr/bin").join(PROGRAM)),
        }
    }

    /// The directory with a directory of modules for each version; `None` as for [`Kernel::program`].
    pub fn modules(self) -> Option<PathBuf> {
        let directory = match self {
            Self::Installed => PathBuf::from("/"),
            Self::Newer => Self::newer_directory()?,
        };
        Some(directory.join("usr/lib/uml/modules"))
    }

    fn newer_directory() -> Option<PathBuf> {
        std::env::var_os(Self::NEWER_DIRECTORY).map(PathBuf::from)
    }
}

/// A User Mode Linux guest that mounts exports and runs a script.
pub struct Guest<'a> {
    /// The Linux that it is.
    pub kernel: Kernel,
    /// The wire to its server; its addresses are those of [`Netns`].
    pub netns: &'a Netns,
    /// The server's port on [`Netns::HOST`], of the mounts that have none of their own.
    pub port: u16,
    /// The exports that are mounted before the script runs.
    pub mounts: &'a [Mount<'a>],
    /// Shell lines to run once all is mounted. `$T` is the test binary, `$R` the result file.
    pub script: &'a str,
    /// After this the guest is ended and the run has failed.
    pub within: Duration,
}

/// An export that a guest mounts.
pub struct Mount<'a> {
    /// Name of the mount point in the directory `/mnt`.
    point: &'a str,
    export: &'a str,
    /// The version of NFS, as `mount -o vers=` takes it.
    version: &'a str,
    /// Mount options beside the protocol version and the ports.
    options: &'a str,
    host: &'a str,
    /// The port of a server of its own; [`Guest::port`] without one.
    port: Option<u16>,
}

impl<'a> Mount<'a> {
    /// The export `export` on `/mnt/point`, with mount options besides version and ports.
    pub const fn new(point: &'a str, export: &'a str, options: &'a str) -> Self {
        Self {
            point,
            export,
            version: "3",
            options,
            host: Netns::HOST,
            port: None,
        }
    }

    /// The mount with another version than NFSv3.
    pub const fn over(self, version: &'a str) -> Self {
        Self { version, ..self }
    }

    /// The mount from the server on `port`, which to the guest is another server.
    pub const fn of_port(self, port: u16) -> Self {
        Self {
            port: Some(port),
            ..self
        }
    }

    /// The mount by the server's second address, from the guest's second one, which to the server is another
    /// client.
    pub const fn by_second_address(self) -> Self {
        Self {
            host: Netns::HOST_SECOND,
            ..self
        }
    }
}

/// What a guest that has halted left behind.
pub struct GuestOutcome {
    /// The lines of its result file, in order.
    pub lines: Vec<String>,
}

impl Guest<'_> {
    /// Boots, runs the script, halts. `seen` is told of each line of the result file while the
    /// guest runs.
    ///
    /// # Errors
    /// When the guest does not end in time or not by its own script, and those of `seen`.
    pub fn run(&self, lab: &Lab, seen: impl FnMut(&str) -> Result<()>) -> Result<GuestOutcome> {
        self.run_on(&Wire::FIRST, lab, seen)
    }

    /// [`Guest::run`] at the end of a given wire. Guests that run at the same time each have a wire and a
    /// laboratory's directory of their own.
    ///
    /// # Errors
    /// Those of [`Guest::run`].
    pub fn run_on(
        &self,
        wire: &Wire,
        lab: &Lab,
        mut seen: impl FnMut(&str) -> Result<()>,
    ) -> Result<GuestOutcome> {
        let dir = &lab.dir;
        let results = dir.join("guest-results");
        let mut results_seen = Lines::new(&results)?;
        let init = dir.join("init.sh");
        let binary = test_binary(dir)?;
        fs::write(&init, self.init_script(wire, &binary, &results, dir)?)?;
        fs::set_permissions(&init, fs::Permissions::from_mode(0o755))?;
        let console_before = console(dir).len();
        let mut process = boot(self.kernel, lab, self.netns, wire, &init, None)?;
        let mut deadline = Instant::now() + self.within;
        let mut lines: Vec<String> = Vec::new();
        let ended = loop {
            match results_seen.hear(&mut process, deadline)? {
                Heard::Line(line) => {
                    seen(&line)?;
                    if line == END {
                        deadline = deadline.min(Instant::now() + HALT_WITHIN);
                    }
                    lines.push(line);
                }
                Heard::Ended => break true,
                Heard::Late => break false,
            }
        };
        let last = lines.last().cloned().unwrap_or_default();
        // Now and then the process stays behind when the kernel in it has powered down or halted.
        let said = console(dir);
        let said = said.get(console_before..).unwrap_or_default();
        let is_down = DOWN.iter().any(|words| said.contains(words));
        let is_over = ended || (last == END && is_down);
        ensure!(
            is_over,
            "the guest still ran after {:?}, or {HALT_WITHIN:?} after its script; its last word: {last:?}; on its \
             console: {:?}; sockets at the server's end: {}",
            self.within,
            said.lines().next_back().unwrap_or_default(),
            sockets(self.netns).unwrap_or_else(|error| format!("unknown: {error:#}"))
        );
        if last != END {
            bail!("the guest ended early; its last word: {last:?}");
        }
        Ok(GuestOutcome { lines })
    }

    fn init_script(
        &self,
        wire: &Wire,
        binary: &Path,
        results: &Path,
        dir: &Path,
    ) -> Result<String> {
        let setup = setup(self.kernel, wire.guest, CLIENT_MODULES)?;
        let (name, routes) = (wire.name, wire.routes());
        let mut mounts = String::new();
        for mount in self.mounts {
            let Mount {
                point,
                export,
                version,
                options,
                host,
                port,
            } = mount;
            let port = port.unwrap_or(self.port);
            // MOUNT and the lock manager are NFSv3's.
            let of_v3 = match *version {
                "3" => format!("mountport={port},mountproto=tcp,nolock,"),
                _ => String::new(),
            };
            let options =
                format!("vers={version},proto=tcp,port={port},{of_v3}addr={host},{options}");
            mounts += &format!(
                "mkdir -p /mnt/{point}\n\
                 mount -t nfs -o {options} {host}:{export} /mnt/{point} ||\n\
                 {{ echo \"FAIL mount /mnt/{point}\" >>$R; stop; }}\n\
                 [ \"$(stat -f -c %T /mnt/{point})\" = nfs ] ||\n\
                 {{ echo \"FAIL /mnt/{point} is not NFS\" >>$R; stop; }}\n"
            );
        }
        let (script, dir) = (self.script, dir.display());
        let (binary, results) = (binary.display(), results.display());
        Ok(format!(
            "#!/bin/sh\n\
             T={binary}; R={results}; W={dir}\n\
             stop() {{ sync; halt -f -p; }}\n\
             {setup}\
             mount -t tmpfs tmpfs /run; mount -t tmpfs tmpfs /mnt; mount -t tmpfs tmpfs /tmp\n\
             echo {name} >/proc/sys/kernel/hostname\n\
             {routes}\
             {mounts}\
             {script}\n\
             for p in /mnt/*; do umount $p || echo \"FAIL umount $p\" >>$R; done\n\
             echo {END} >>$R\n\
             stop\n"
        ))
    }
}

/// The TCP sockets inside the namespace, with what waits in each: whether a guest that hangs has a connection, and who
/// owes whom an answer.
fn sockets(netns: &Netns) -> Result<String> {
    let said = output(netns.command("ss").args(["-t", "-a", "-n", "-o"]))?;
    let said = String::from_utf8_lossy(&said);
    let lines = said.lines().map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        words.join(" ")
    });
    Ok(lines.collect::<Vec<_>>().join(" | "))
}

/// What guests said on their consoles in this directory so far.
fn console(dir: &Path) -> String {
    let said = fs::read(dir.join(CONSOLE)).unwrap_or_default();
    String::from_utf8_lossy(&said).into_owned()
}

/// Boots a guest whose first process is `init`, an executable script; `disk` is its `/dev/ubda`.
/// What its console says goes to `guest-console.log` of the scenario's directory.
///
/// # Errors
/// When it cannot be started.
pub(crate) fn boot(
    kernel: Kernel,
    lab: &Lab,
    netns: &Netns,
    wire: &Wire,
    init: &Path,
    disk: Option<&Path>,
) -> Result<Running> {
    let dir = &lab.dir;
    let console = OpenOptions::new()
        .create(true)
        .append(true)
        .open(dir.join(CONSOLE))?;
    // unshare stands between us and the guest: when it is killed, the whole process tree of the
    // guest (a host process for each of the guest's) goes with it.
    let mut command = netns.command("unshare");
    command.args(["--pid", "--fork", "--kill-child"]);
    command.args(command_line(kernel, dir, wire.tap, init)?);
    command.args(disk.map(|disk| format!("ubd0={}", disk.display())));
    command.envs(environment(dir)?);
    command
        .stdin(Stdio::null())
        .stdout(console.try_clone()?)
        .stderr(console);
    Running::start(&mut command)
}

/// The words of the command that boots a guest: its own files and its console's socket are in `dir`, its
/// network is the tap device `tap`, its first process the executable script `init`. It wants
/// [`environment`].
///
/// # Errors
/// When nobody has said where the kernel is.
pub fn command_line(kernel: Kernel, dir: &Path, tap: &str, init: &Path) -> Result<Vec<String>> {
    let program = kernel.program().with_context(not_told)?;
    let mut words = vec![
        program.display().to_string(),
        format!("mem={GUEST_MEMORY}"),
        format!("uml_dir={}/", dir.display()),
        format!("vec0:transport=tap,ifname={tap},depth=128,gro=1"),
        format!("init={}", init.display()),
    ];
    let root = ["rootfstype=hostfs", "rootflags=/", "rw", "quiet", "panic=1"];
    let console = ["con=null", "con0=fd:0,fd:1"];
    words.extend(root.into_iter().chain(console).map(str::to_owned));
    Ok(words)
}

/// What is wrong when nobody has said where [`Kernel::Newer`] is, and the cure.
pub(crate) fn not_told() -> String {
    let variable = Kernel::NEWER_DIRECTORY;
    format!("no Linux 6.12 ({variable} is not set; `cargo xtask test` fetches one and sets it)")
}

/// The environment variables of the command that boots a guest; `dir` is the guest's own.
///
/// # Errors
/// On a processor with AMX, when there is no C compiler: there a guest needs a library that is made for it.
pub fn environment(dir: &Path) -> Result<Vec<(&'static str, PathBuf)>> {
    // By this the guest's memory, a file, comes to lie in the host's.
    let mut variables = vec![("TMPDIR", PathBuf::from("/dev/shm"))];
    if fs::read_to_string("/proc/cpuinfo")?.contains(" amx_tile") {
        variables.push(("LD_PRELOAD", whole_state_library(dir)?));
    }
    Ok(variables)
}

/// Makes the library without which a guest dies on a processor with AMX; its source says why.
fn whole_state_library(dir: &Path) -> Result<PathBuf> {
    let (source, library) = (dir.join("whole_state.c"), dir.join("whole_state.so"));
    fs::write(&source, include_str!("uml/whole_state.c"))?;
    let mut compiler = Command::new("cc");
    compiler.args(["-O2", "-Wall", "-shared", "-fPIC", "-o"]);
    compiler.args([&library, &source]);
    output_within(&mut compiler, COMPILER_DEADLINE)
        .context("making a library for User Mode Linux with cc, which Rust needs, too")?;
    Ok(library)
}

/// Shell lines that a guest's first process begins with: proc and sysfs, the network with `address`, and
/// the modules of `modules` that the kernel has not built in.
///
/// # Errors
/// When nobody has said where the kernel is.
pub fn setup(kernel: Kernel, address: &str, modules: &str) -> Result<String> {
    let directory = kernel.modules().with_context(not_told)?;
    let directory = directory.display();
    Ok(format!(
        "export PATH=/usr/sbin:/usr/bin:/sbin:/bin\n\
         mount -t proc proc /proc; mount -t sysfs sysfs /sys\n\
         ip link set lo up; ip addr add {address}/24 dev vec0; ip link set vec0 up\n\
         D={directory}/$(uname -r)/kernel\n\
         for m in {modules}; do [ -f $D/$m.ko ] && insmod $D/$m.ko; done\n"
    ))
}

/// A copy of this binary that any user may run.
///
/// # Errors
/// When it cannot be copied.
pub fn test_binary(dir: &Path) -> Result<PathBuf> {
    let copy = dir.join("nfs-test");
    if !copy.exists() {
        copy_program(&std::env::current_exe()?, &copy)?;
    }
    Ok(copy)
}
