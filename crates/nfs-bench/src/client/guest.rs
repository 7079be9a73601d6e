//! The Linux kernel's NFS client as one that takes its turn: User Mode Linux, booted for each measurement.
//!
//! The guest sees the host's files as its own, mounts the export over a tap device, moves one file with dd and halts. Its
//! first process is a shell script, which writes what happens, line by line, to a file that the host reads. What User Mode
//! Linux and its network cost is in every figure: it says how the kernel's client behaves, not how fast a kernel is.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use nfs_lab::{Heard, Kernel, Lines, Running, uml};

use super::serve::{HOST, Serving};
use super::tool::Work;
use super::watch::Spent;
use crate::counters::Stat;
use crate::limits::GUEST_SECONDS_MAX;
use crate::servers::on_core;
use crate::stage::output;

/// The guest's address on the wire between the two.
const GUEST: &str = "10.99.2.2";
/// Name of the tap device that is the host's end of the wire.
const TAP: &str = "bench0";
/// How long a guest that has said its last line may take to halt.
const HALT_DEADLINE: Duration = Duration::from_secs(5);

/// The wire for guests: up as long as the namespace that this process has for itself.
///
/// # Errors
/// User Mode Linux is not installed, or there can be no tap device.
pub fn set_wire() -> Result<()> {
    output("which", &[uml::PROGRAM]).context("install user-mode-linux")?;
    output("ip", &["tuntap", "add", "dev", TAP, "mode", "tap"])?;
    output("ip", &["addr", "add", &format!("{HOST}/24"), "dev", TAP])?;
    output("ip", &["link", "set", TAP, "up"]).map(drop)
}

/// Moves `bytes` between the server's file `remote` and nowhere, in a guest on core `cpu` with its files in `at`.
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
    let mut guest = Guest::start(cpu, at, |lines| script(on, work, remote, bytes, lines))?;
    guest.wait_for("begin")?;
    let before = cpu_times()?;
    let words = guest.wait_for("end")?;
    let after = cpu_times()?;
    guest.halt()?;
    // dd: "N bytes (...) copied, S s, ...".
    let seconds = words.rsplit("copied, ").next().unwrap_or_default();
    let seconds = seconds.split(' ').next().unwrap_or_default();
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

/// A guest that is running, and what it has said.
pub struct Guest {
    process: Running,
    said: Lines,
    deadline: Instant,
}

impl Guest {
    /// Boots a guest on core `cpu` with its files in `at`. `script` makes the first process's shell script, given the
    /// file to which that writes what happens.
    ///
    /// # Errors
    /// Its files cannot be written, or it does not start.
    pub fn start(
        cpu: usize,
        at: &Path,
        script: impl FnOnce(&Path) -> Result<String>,
    ) -> Result<Self> {
        // What an earlier measurement has left.
        let _was_none = fs::remove_dir_all(at);
        fs::create_dir_all(at)?;
        let (init, lines) = (at.join("init"), at.join("lines"));
        fs::write(&init, script(&lines)?)?;
        fs::set_permissions(&init, fs::Permissions::from_mode(0o755))?;
        let said = Lines::new(&lines)?;
        let console = File::create(at.join("console"))?;
        let mut command = on_core(cpu);
        command
            .args(uml::command_line(Kernel::Installed, at, TAP, &init)?)
            .envs(uml::environment(at)?)
            .stdin(Stdio::null())
            .stdout(console.try_clone()?)
            .stderr(console);
        Ok(Self {
            process: Running::start(&mut command)?,
            said,
            deadline: Instant::now() + Duration::from_secs(GUEST_SECONDS_MAX),
        })
    }

    /// Waits until it says `halt`, and gives it a moment to do so.
    ///
    /// # Errors
    /// Those of [`Guest::wait_for`].
    pub fn halt(mut self) -> Result<()> {
        self.wait_for("halt")?;
        // It halts by itself, or it is ended when it is dropped.
        self.process.ended_within(HALT_DEADLINE).map(drop)
    }

    /// What follows `word` on the line that begins with it.
    ///
    /// # Errors
    /// The guest ends before, says `fail`, or takes too long.
    pub fn wait_for(&mut self, word: &str) -> Result<String> {
        loop {
            let line = match self.said.hear(&mut self.process, self.deadline)? {
                Heard::Line(line) => line,
                Heard::Ended => {
                    bail!("the guest ended before its {word}: {}", self.said.text()?)
                }
                Heard::Late => bail!(
                    "the guest took more than {GUEST_SECONDS_MAX} s: {}",
                    self.said.text()?
                ),
            };
            if let Some(rest) = line.strip_prefix(word) {
                return Ok(rest.trim().to_owned());
            }
            if let Some(why) = line.strip_prefix("fail") {
                bail!("in the guest: {}", why.trim());
            }
        }
    }
}

fn script(on: &Serving, work: Work, remote: &str, bytes: u64, lines: &Path) -> Result<String> {
    let count = bytes >> 20;
    let dd = match work {
        Work::Read => format!("dd if=/mnt/{remote} of=/dev/null bs=1M count={count}"),
        Work::Write => format!("dd if=/dev/zero of=/mnt/{remote} bs=1M count={count} conv=fsync"),
        _ => bail!("the kernel's client only reads and writes one file"),
    };
    let (beginning, mount) = (beginning(lines)?, mount(on.mounted(), "/mnt"));
    let lines = lines.display();
    Ok(format!(
        "{beginning}\
         {mount}\
         echo begin >>{lines}\n\
         said=$({dd} 2>&1) || stop \"fail $(echo $said)\"\n\
         echo \"end $(echo $said)\" >>{lines}\n\
         umount /mnt\n\
         stop halt\n"
    ))
}

/// Shell lines that a guest begins with: `stop LINE` is how it ends from then on.
///
/// # Errors
/// When nobody has said where the kernel is.
pub fn beginning(lines: &Path) -> Result<String> {
    let setup = uml::setup(Kernel::Installed, GUEST, uml::CLIENT_MODULES)?;
    let lines = lines.display();
    Ok(format!(
        "#!/bin/sh\n\
         stop() {{ echo \"$1\" >>{lines}; sync; halt -f -p; }}\n\
         {setup}\
         mount -t tmpfs tmpfs /mnt; mount -t tmpfs tmpfs /tmp\n"
    ))
}

/// The shell line that mounts an export, given its path and the ports of NFS and MOUNT, at `point`.
#[must_use]
pub fn mount((export, nfs, mount): (&str, u16, u16), point: &str) -> String {
    format!(
        "mount -t nfs -o vers=3,proto=tcp,port={nfs},mountport={mount},mountproto=tcp,nolock,addr={HOST},\
         rsize=1048576,wsize=1048576 {HOST}:{export} {point} || stop 'fail mounting (mount.nfs is in the package nfs-common)'\n"
    )
}

/// CPU seconds, in their own code and in the kernel, of all processes that the guest consists of or consisted
/// of.
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
        let Ok(stat) = Stat::of(pid) else { continue };
        for (user, system) in [stat.own(), stat.children()] {
            sum = (sum.0 + user, sum.1 + system);
        }
    }
    Ok(sum)
}
