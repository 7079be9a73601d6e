//! What systemd is told, and the sockets it hands over. Without systemd all of it does nothing.
//!
//! The unit is `Type=notify` (see `docs/examples/penstock.service`): started when `READY=1` is said,
//! reloaded by `penstock ctl reload`. A reload by SIGHUP is told as `Type=notify-reload` (systemd 253 and
//! later) wants it, between `RELOADING=1` and `READY=1`; earlier ones pass over that.

use std::io;
use std::net::TcpListener;

use rustix::process::{PidfdFlags, PidfdGetfdFlags};
use sd_notify::NotifyState;

/// The server accepts connections, or a reload is done; `status` is shown by `systemctl status`.
pub fn ready(status: &str) {
    notify(&[NotifyState::Ready, NotifyState::Status(status)]);
}

/// Tells the service manager that a reload begins.
pub fn reloading() {
    match NotifyState::monotonic_usec_now() {
        Ok(now) => notify(&[NotifyState::Reloading, now]),
        Err(error) => tracing::debug!(%error, "no clock for systemd"),
    }
}

/// Tells the service manager that the server ends when it has drained.
pub fn stopping() {
    notify(&[NotifyState::Stopping, NotifyState::Status("draining")]);
}

fn notify(state: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(state) {
        tracing::debug!(%error, "systemd was not told");
    }
}

/// The listening sockets that systemd passed (`LISTEN_FDS`), non-blocking; none without socket
/// activation. To be called once, before other threads.
///
/// # Errors
/// When a descriptor that was announced is not there or is no TCP socket that listens.
pub fn listeners() -> io::Result<Vec<TcpListener>> {
    let mut listeners = Vec::new();
    for announced in sd_notify::listen_fds()? {
        // A number becomes an owned descriptor only through the kernel's hands: this copies it, and
        // fails for one that is not open. (The original stays open beside it, which harms nobody.)
        let own = rustix::process::pidfd_open(rustix::process::getpid(), PidfdFlags::empty())?;
        let copy = rustix::process::pidfd_getfd(&own, announced, PidfdGetfdFlags::empty())?;
        let listens = rustix::net::sockopt::socket_acceptconn(&copy)?;
        let is_tcp = rustix::net::sockopt::socket_type(&copy)? == rustix::net::SocketType::STREAM;
        if !listens || !is_tcp {
            return Err(io::Error::other(format!(
                "descriptor {announced} from systemd is no listening TCP socket; use ListenStream="
            )));
        }
        let listener = TcpListener::from(copy);
        listener.local_addr()?;
        listener.set_nonblocking(true)?;
        listeners.push(listener);
    }
    Ok(listeners)
}
