//! A network namespace with a tap device: the wire between the server and one guest.

use std::os::fd::AsFd as _;
use std::process::Command;

use anyhow::{Context, Result};

use crate::process::run;

/// The namespace; deleted (with its devices) on drop.
pub struct Netns {
    name: String,
}

impl Netns {
    /// The network of the wire between the server and the guest.
    pub const NETWORK: &'static str = "10.99.1.0/24";
    /// The server's address on the wire.
    pub const HOST: &'static str = "10.99.1.1";
    /// The guest's address on the wire.
    pub const GUEST: &'static str = "10.99.1.2";
    /// The server's second address. The guest comes to it from [`Netns::GUEST_SECOND`], as another client
    /// would.
    pub const HOST_SECOND: &'static str = "10.99.1.11";
    /// The guest's second address: the source of what it sends to [`Netns::HOST_SECOND`].
    pub const GUEST_SECOND: &'static str = "10.99.1.12";
    /// Name of the tap device inside the namespace.
    pub const TAP: &'static str = "tap0";

    /// Makes a namespace of this process's own, with loopback and the tap device up.
    ///
    /// # Errors
    /// When `ip` fails: not root, no tun driver.
    pub fn new() -> Result<Self> {
        let name = format!("nfs-test-{}", std::process::id());
        run("ip", &["netns", "add", &name]).context("make a network namespace")?;
        let netns = Self { name };
        let n = netns.name.as_str();
        run("ip", &["-n", n, "link", "set", "lo", "up"])?;
        run(
            "ip",
            &["-n", n, "tuntap", "add", "dev", Self::TAP, "mode", "tap"],
        )?;
        for address in [Self::HOST, Self::HOST_SECOND] {
            let address = format!("{address}/24");
            run("ip", &["-n", n, "addr", "add", &address, "dev", Self::TAP])?;
        }
        run("ip", &["-n", n, "link", "set", Self::TAP, "up"])?;
        Ok(netns)
    }

    /// A command that runs `program` inside the namespace. `ip netns exec` becomes the program, so
    /// the child's process id is the program's.
    pub fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name]).arg(program);
        command
    }

    /// A command that runs `program` inside the network namespace, but among the mounts of this process.
    /// [`Netns::command`] gives it a mount namespace of its own, in which a file system that the program
    /// mounts stays unseen.
    pub fn command_among_our_mounts(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new("nsenter");
        command
            .arg(format!("--net=/run/netns/{}", self.name))
            .arg(program);
        command
    }

    /// Runs `work` in a thread that is inside the namespace.
    ///
    /// # Errors
    /// Those of `work`, and when the kernel does not let us in.
    pub fn within<T: Send>(&self, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
        let namespace = std::fs::File::open(format!("/run/netns/{}", self.name))?;
        std::thread::scope(|scope| {
            let inside = scope.spawn(|| {
                rustix::thread::move_into_link_name_space(
                    namespace.as_fd(),
                    Some(rustix::thread::LinkNameSpaceType::Network),
                )?;
                work()
            });
            inside
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }
}

impl Drop for Netns {
    fn drop(&mut self) {
        if let Err(error) = run("ip", &["netns", "delete", &self.name]) {
            println!(
                "     left behind: network namespace {} ({error:#})",
                self.name
            );
        }
    }
}
