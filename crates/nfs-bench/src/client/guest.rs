//! The Linux kernel's NFS client as one that takes its turn: User Mode Linux, booted for each measurement.
//!
//! The guest sees the host's files as its own, mounts the export over a tap device, moves one file with dd and halts. Its
//! first process is a shell script, which writes what happens, line by line, to a file that the host reads. What User Mode
//! Linux and its network cost is in every figure: it says how the kernel's client behaves, not how fast a kernel is.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use super::serve::{HOST, Serving, on_core};
use super::tool::Work;
use super::watch::Spent;
use crate::counters;
use crate::limits::GUEST_SECONDS_MAX;
use crate::stage::output;

/// The guest's address on the wire between the two.
const GUEST: &str = "10.99.2.2";
const TAP: &str = "bench0";
/// The command that boots it: package user-mode-linux.
const PROGRAM: &str = "linux.uml";
/// How often the guest's lines are looked at.
const BETWEEN_LOOKS: Duration = Duration::from_millis(5);
/// Of an NFSv3 client, in the order of their needs; those that are not there are built in.
const MODULES: &str = "net/sunrpc/sunrpc fs/nfs_common/grace fs/lockd/lockd fs/netfs/netfs \
     fs/fscache/fscache fs/nfs/nfs fs/nfs_common/nfs_acl fs/nfs/nfsv3";

/// The wire for guests: up as long as the namespace that this process has for itself.
///
/// # Errors
/// User Mode Linux is not installed, or there can be no tap device.
pub fn set_wire() -> Result<()> {
    output("which", &[PROGRAM]).context("install user-mode-linux")?;
    output("ip", &["tuntap", "add", "dev", TAP, "mode", "tap"])?;
    output("ip", &["addr", "add", &format!("{HOST}/24"), "dev", TAP])?;
    output("ip", &["link", "set", TAP, "up"]).map(drop)
}

/// Moves `bytes` between the server's file `remote` and nowhere, in a guest on core `cpu` with its files in `work`.
///
/// # Errors
/// The guest does not come up, does not end in time, or dd fails; the message has the guest's last words.
pub fn measure(
    on: &Serving,
    work: Work,
    remote: &str,
    bytes: u64,
    (cpu, at): (usize, &Path),
) -> Result<Spent> {
    let _ = fs::remove_dir_all(at);
    fs::create_dir_all(at)?;
    let (init, lines) = (at.join("init"), at.join("lines"));
    fs::write(&lines, "")?;
    fs::write(&init, script(on, work, remote, bytes, &lines)?)?;
    fs::set_permissions(&init, fs::Permissions::from_mode(0o755))?;
    let console = File::create(at.join("console"))?;
    let mut command = on_core(cpu);
    command.arg(PROGRAM).arg("mem=640M");
    command.args(["rootfstype=hostfs", "rootflags=/", "rw", "quiet", "panic=1"]);
    command.args(["con=null", "con0=fd:0,fd:1"]);
    command.arg(format!("vec0:transport=tap,ifname={TAP},depth=128,gro=1"));
    command.arg(format!("uml_dir={}/", at.display()));
    command.arg(format!("init={}", init.display()));
    command.env("TMPDIR", "/dev/shm");
    command
        .stdin(Stdio::null())
        .stdout(console.try_clone()?)
        .stderr(console);
    let mut guest = Guest {
        process: command.spawn().context("starting User Mode Linux")?,
        lines,
        deadline: Instant::now() + Duration::from_secs(GUEST_SECONDS_MAX),
    };
    guest.wait_for("begin")?;
    let before = cpu_times()?;
    let words = guest.wait_for("end")?;
    let after = cpu_times()?;
    // dd: "N bytes (...) copied, S s, ...".
    let seconds = words.rsplit("copied, ").next().unwrap_or_default();
    let seconds = seconds.split(' ').next().unwrap_or_default();
    guest.wait_for("halt")?;
    Ok(Spent {
        seconds: seconds
            .parse()
            .with_context(|| format!("dd said: {words}"))?,
        user: after.0 - before.0,
        system: after.1 - before.1,
        peak_bytes: 0,
        faults: 0,
    })
}

struct Guest {
    process: Child,
    lines: PathBuf,
    deadline: Instant,
}

impl Guest {
    /// What follows `word` on the line that begins with it.
    fn wait_for(&mut self, word: &str) -> Result<String> {
        loop {
            let text = fs::read_to_string(&self.lines)?;
            for line in text.split_inclusive('\n').filter(|l| l.ends_with('\n')) {
                if let Some(rest) = line.strip_prefix(word) {
                    return Ok(rest.trim().to_owned());
                }
                if let Some(why) = line.strip_prefix("fail") {
                    bail!("in the guest: {}", why.trim());
                }
            }
            let ended = self.process.try_wait()?.is_some();
            ensure!(!ended, "the guest ended before its {word}: {text}");
            ensure!(
                Instant::now() < self.deadline,
                "the guest took more than {GUEST_SECONDS_MAX} s: {text}"
            );
            // SLEEP: a poll for the guest's next line.
            std::thread::sleep(BETWEEN_LOOKS);
        }
    }
}

impl Drop for Guest {
    /// It halts by itself, or it never will.
    fn drop(&mut self) {
        let soon = Instant::now() + Duration::from_secs(5);
        while Instant::now() < soon && matches!(self.process.try_wait(), Ok(None)) {
            // SLEEP: a poll for the end of a process.
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn script(on: &Serving, work: Work, remote: &str, bytes: u64, lines: &Path) -> Result<String> {
    let count = bytes >> 20;
    let dd = match work {
        Work::Read => format!("dd if=/mnt/{remote} of=/dev/null bs=1M count={count}"),
        Work::Write => format!("dd if=/dev/zero of=/mnt/{remote} bs=1M count={count} conv=fsync"),
        _ => bail!("the kernel's client only reads and writes one file"),
    };
    let (export, nfs, mount) = on.mounted();
    let options = format!(
        "vers=3,proto=tcp,port={nfs},mountport={mount},mountproto=tcp,nolock,addr={HOST},\
         rsize=1048576,wsize=1048576"
    );
    let lines = lines.display();
    Ok(format!(
        "#!/bin/sh\n\
         export PATH=/usr/sbin:/usr/bin:/sbin:/bin\n\
         stop() {{ echo \"$1\" >>{lines}; sync; halt -f -p; }}\n\
         mount -t proc proc /proc; mount -t sysfs sysfs /sys\n\
         mount -t tmpfs tmpfs /mnt; mount -t tmpfs tmpfs /tmp\n\
         ip link set lo up; ip addr add {GUEST}/24 dev vec0; ip link set vec0 up\n\
         D=/usr/lib/uml/modules/$(uname -r)/kernel\n\
         for m in {MODULES}; do [ -f $D/$m.ko ] && insmod $D/$m.ko; done\n\
         mount -t nfs -o {options} {HOST}:{export} /mnt || stop 'fail mounting'\n\
         echo begin >>{lines}\n\
         said=$({dd} 2>&1) || stop \"fail $(echo $said)\"\n\
         echo \"end $(echo $said)\" >>{lines}\n\
         umount /mnt\n\
         stop halt\n"
    ))
}

/// CPU seconds of all processes that a guest consists of, and of those of them that have ended.
fn cpu_times() -> Result<(f64, f64)> {
    let mut sum = (0.0, 0.0);
    for entry in fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        let command = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        if !command.starts_with("linux") {
            continue;
        }
        // One that ends just now is counted with its parent.
        let own_and_childrens = [
            counters::cpu_times(pid),
            counters::ended_children_times(pid),
        ];
        for (user, system) in own_and_childrens.into_iter().flatten() {
            sum = (sum.0 + user, sum.1 + system);
        }
    }
    Ok(sum)
}
