//! The Linux kernel's client, mounted without `nolock`, locks files of a server that has no lock manager:
//! its programs get ENOLCK at once. Found through our own portmap, and through a real rpcbind.
//!
//! The guest is a machine of its own with an rpcbind and a status monitor, as such a mount needs them; a
//! client in the server's network would ask the lock manager of its own kernel. Without anything on port 111
//! of the server the client asks there for ever, and no answer of ours could reach it: that case is
//! not here, because it does not end.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use nfs_lab::{Guest, Kernel, Netns, Server, ServerOptions, counter};

use super::kernel::{failures, verdicts};
use super::rpcbind::{Inside, stop};
use crate::guest::LOCKS;
use crate::host::Context;

/// Longest run of a guest: a call that hangs shows by this.
const GUEST_DEADLINE: Duration = Duration::from_secs(120);
const PORT: u16 = 2049;
/// The calls of [`LOCKS`] that ask for a lock, or after one.
const ASKED: u64 = 5;

pub(super) fn run(context: &Context) -> Result<String> {
    by_portmap(context).context("--portmap")?;
    by_rpcbind(context).context("beside rpcbind")?;
    Ok(format!("{} tests: each lock is refused at once", 2 * LOCKS))
}

fn by_portmap(context: &Context) -> Result<()> {
    let netns = Netns::new()?;
    let options = ServerOptions {
        listen: format!("{}:{PORT}", Netns::HOST),
        netns: Some(&netns),
        more: &["--allow", Netns::NETWORK, "--squash", "none", "--portmap"],
        ..ServerOptions::default()
    };
    let [export, state] =
        ["portmap-export", "portmap-state"].map(|name| context.lab.dir.join(name));
    let server = Server::start(&context.lab, &export, &state, &options)?;
    lock_files(context, &netns, "portmap")?;
    let refused = counter(&context.lab, &state, "locks_refused")?;
    server.stop()?;
    is_counted(refused)
}

fn by_rpcbind(context: &Context) -> Result<()> {
    let netns = Netns::new()?;
    let inside = Inside::of(&netns, "exec rpcbind -f")?;
    inside.wait_for("portmapper")?;
    let listen = format!("{}:{PORT}", Netns::HOST);
    let more = ["--allow", Netns::NETWORK, "--squash", "none"];
    let server = inside.serve(context, "rpcbind", &listen, &more)?;
    inside.wait_for("100021    4   tcp   2049")?;
    lock_files(context, &netns, "rpcbind")?;
    let refused = counter(
        &context.lab,
        &context.lab.dir.join("rpcbind-state"),
        "locks_refused",
    )?;
    stop(server)?;
    is_counted(refused)
}

/// Without this a client that has no status monitor, and therefore locks nothing, would pass.
fn is_counted(refused: u64) -> Result<()> {
    ensure!(
        refused == ASKED,
        "the server refused {refused} locks, should be {ASKED}"
    );
    Ok(())
}

fn lock_files(context: &Context, netns: &Netns, name: &str) -> Result<()> {
    let host = Netns::HOST;
    let guest = Guest {
        kernel: Kernel::Installed,
        netns,
        port: PORT,
        mounts: &[],
        // The ports are given: it is the lock manager that has to be found.
        script: &format!(
            "mount -t tmpfs tmpfs /var/lib/nfs\n\
             mkdir /var/lib/nfs/sm /var/lib/nfs/sm.bak\n\
             rpcbind && rpc.statd --no-notify || echo \"FAIL rpcbind or rpc.statd\" >>$R\n\
             mkdir /mnt/locks\n\
             mount -t nfs -o vers=3,proto=tcp,port={PORT},mountport={PORT},mountproto=tcp,hard \
               {host}:/ /mnt/locks || {{ echo \"FAIL mount\" >>$R; stop; }}\n\
             $T guest --results $R locks /mnt/locks --name {name}\n"
        ),
        within: GUEST_DEADLINE,
    };
    let outcome = guest.run(&context.lab, |_| Ok(()))?;
    let wrong = failures(&outcome);
    ensure!(wrong.is_empty(), "{}", wrong.join(" | "));
    let passed = verdicts(&outcome);
    ensure!(passed == LOCKS, "{passed} verdicts, should be {LOCKS}");
    Ok(())
}
