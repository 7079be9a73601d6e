//! A network namespace with tap devices: each is the wire between the server and one guest.

use std::os::fd::AsFd as _;
use std::process::Command;

use anyhow::{Context, Result};

use crate::process::run;

/// The server's end of a wire, and the guest at the other one.
#[derive(Debug)]
pub struct Wire {
    /// Name of the tap device inside the namespace.
    pub(crate) tap: &'static str,
    /// The guest's address on the wire.
    pub(crate) guest: &'static str,
    /// What the guest calls itself: NFSv4 clients with one name are one client to a server.
    pub(crate) name: &'static str,
}

impl Wire {
    /// The wire that each namespace has.
    pub const FIRST: Self = Self {
        tap: Netns::TAP,
        guest: Netns::GUEST,
        name: "guest-1",
    };
    /// A further one, once [`Netns::add_second_wire`] has made it, with a network of its own.
    pub const SECOND: Self = Self {
        tap: "tap1",
        guest: "10.99.2.2",
        name: "guest-2",
    };
    /// The network of the second wire.
    pub const SECOND_NETWORK: &'static str = "10.99.2.0/24";
    /// The server's own address on the second wire.
    const SECOND_HOST: &'static str = "10.99.2.1";

    /// Shell lines by which the guest reaches the server's addresses on the first wire.
    pub(crate) fn routes(&self) -> String {
        if self.tap == Self::SECOND.tap {
            let (host, gate) = (Netns::HOST, Self::SECOND_HOST);
            return format!("ip route add {host} via {gate}\n");
        }
        let (second, host) = (Netns::GUEST_SECOND, Netns::HOST_SECOND);
        format!("ip addr add {second}/24 dev vec0; ip route add {host} dev vec0 src {second}\n")
    }
}

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

    /// Makes [`Wire::SECOND`], for a second guest. It comes to the server by [`Netns::HOST`] too.
    ///
    /// # Errors
    /// When `ip` fails.
    pub fn add_second_wire(&self) -> Result<()> {
        let (n, tap) = (self.name.as_str(), Wire::SECOND.tap);
        let address = format!("{}/24", Wire::SECOND_HOST);
        run("ip", &["-n", n, "tuntap", "add", "dev", tap, "mode", "tap"])?;
        run("ip", &["-n", n, "addr", "add", &address, "dev", tap])?;
        run("ip", &["-n", n, "link", "set", tap, "up"])
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
