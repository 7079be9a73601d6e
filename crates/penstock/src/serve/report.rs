//! What `penstock serve` tells its operator at start: what it did, what it found, how to mount it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use nfs_server::exports::config::{
    Access, Config, Durability, ExportConfig, ServerConfig, SquashKind, word_of,
};
use nfs_server::exports::{NfsVersion, Versions};
use nfs_server::operate::control::IoView;

use crate::ctl;

/// Tells line by line, on standard error as plain text, or as log events where those are JSON and
/// another program reads them.
pub(super) struct Report {
    json: bool,
}

impl Report {
    pub(super) const fn new(json: bool) -> Self {
        Self { json }
    }

    pub(super) fn line(&mut self, line: String) {
        if self.json {
            tracing::info!("{}", line.trim_start());
        } else {
            eprintln!("{line}");
        }
    }

    /// Everything there is to say of a server that has started.
    pub(super) fn started(&mut self, config: &Config, addresses: &[SocketAddr], facts: &[String]) {
        if self.json {
            return started_for_programs(config, addresses, facts);
        }
        self.line(format!(
            "penstock {} serves on {}",
            env!("CARGO_PKG_VERSION"),
            joined(addresses)
        ));
        for export in &config.exports {
            self.export(export, config.server.trust_loopback);
        }
        for fact in facts {
            self.line(format!("  {fact}"));
        }
        for warning in config.warnings() {
            self.line(format!("  warning: {warning}"));
        }
        if let Some(warning) = unreachable_for_others(config, addresses) {
            self.line(format!("  warning: {warning}"));
        }
        if let (Some(address), Some(export)) = (addresses.first(), config.exports.first()) {
            self.ways_in(reachable(*address), &export.pseudo, &config.server);
        }
    }

    /// How a client on this machine gets at an export.
    fn ways_in(&mut self, address: SocketAddr, pseudo: &str, server: &ServerConfig) {
        let versions = server.versions;
        let over_v3 = versions.contains(NfsVersion::V3);
        let over_v4 = mount_command_v4(address, pseudo, versions);
        let (url, ls) = (format!("nfs://{address}{pseudo}"), "  penstock ls");
        self.line("mount it:".to_owned());
        if let Some(mount) = &over_v4 {
            self.line(format!("  {mount}"));
        }
        if over_v3 {
            if over_v4.is_some() {
                self.line("or, over NFSv3:".to_owned());
            }
            self.line(format!("  {}", mount_command(address, pseudo)));
            self.line(format!("  {}", about_locks(server.portmap)));
        }
        self.line("or look at it without mounting:".to_owned());
        match over_v3 {
            true => self.line(format!("{ls} {url}")),
            // Our own commands speak NFSv3 where the URL does not say otherwise.
            false => self.line(format!("{ls} '{url}?version=4'")),
        }
    }

    fn export(&mut self, export: &ExportConfig, trusts_loopback: bool) {
        self.line(format!("  {} is {}", export.pseudo, export.path.display()));
        for line in ctl::io::lines(&IoView::of(&export.io)) {
            self.line(format!("    {line}"));
        }
        for client in &export.clients {
            let access = match client.access {
                Access::ReadWrite => "may read and write",
                Access::ReadOnly => "may read",
            };
            let squash = match client.squash {
                SquashKind::None if client.net.is_loopback() && !trusts_loopback => {
                    "root is not squashed"
                }
                SquashKind::None => {
                    "root is not squashed: whoever can send from there can act as root, as far as \
                     this server can"
                }
                SquashKind::Root => "root becomes nobody",
                SquashKind::All => "everybody becomes nobody",
            };
            let word = word_of(client.squash, SquashKind::WORDS);
            self.line(format!(
                "    {} {access}; {squash} (squash {word})",
                client.net
            ));
        }
    }
}

/// The same as events of the log with members: one of the server, one for each client rule of each export.
fn started_for_programs(config: &Config, addresses: &[SocketAddr], facts: &[String]) {
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        pid = std::process::id(),
        listeners = %joined(addresses),
        exports = config.exports.len(),
        "serving"
    );
    for export in &config.exports {
        for client in &export.clients {
            tracing::info!(
                pseudo = %export.pseudo,
                path = %export.path.display(),
                net = %client.net,
                access = word_of(client.access, Access::WORDS),
                squash = word_of(client.squash, SquashKind::WORDS),
                durability = word_of(export.durability, Durability::WORDS),
                "export"
            );
        }
    }
    for fact in facts {
        tracing::info!("{fact}");
    }
    let unreachable = unreachable_for_others(config, addresses);
    for warning in config.warnings().into_iter().chain(unreachable) {
        tracing::warn!("{warning}");
    }
}

/// The mount command of a Linux client for the highest minor version of NFSv4 that is served. It tries 4.2 first, at
/// port 2049, by itself.
fn mount_command_v4(address: SocketAddr, pseudo: &str, versions: Versions) -> Option<String> {
    let mut options = Vec::new();
    if !versions.contains(NfsVersion::V42) {
        if !versions.contains(NfsVersion::V41) {
            return None;
        }
        options.push("vers=4.1".to_owned());
    }
    if address.port() != NFS_PORT {
        options.push(format!("port={}", address.port()));
    }
    let options = match options.as_slice() {
        [] => String::new(),
        some => format!("-o {} ", some.join(",")),
    };
    let host = host(address);
    Some(format!("mount -t nfs {options}{host}:{pseudo} /mnt"))
}

/// The mount command of a Linux client for NFSv3. Both ports are given, so it needs no rpcbind.
fn mount_command(address: SocketAddr, pseudo: &str) -> String {
    let (port, host) = (address.port(), host(address));
    format!(
        "mount -t nfs -o vers=3,proto=tcp,port={port},mountport={port},nolock {host}:{pseudo} /mnt"
    )
}

/// The address as a mount command has it before the path.
fn host(address: SocketAddr) -> String {
    match address.ip() {
        IpAddr::V4(ip) => ip.to_string(),
        IpAddr::V6(ip) => format!("[{ip}]"),
    }
}

/// The port at which clients look for NFSv4 by themselves.
const NFS_PORT: u16 = 2049;

/// What `nolock` in the mount command is for.
const fn about_locks(portmap: bool) -> &'static str {
    if portmap {
        "nolock keeps file locks on the client; without it they are refused (ENOLCK)"
    } else {
        "nolock keeps file locks on the client; without it they are refused, or hang if port 111 of \
         this machine does not answer for us (--portmap, or rpcbind)"
    }
}

/// An address to give to a client on this machine: the loopback one for "any".
fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

/// Listens for other machines, but lets none of them in?
fn unreachable_for_others(config: &Config, addresses: &[SocketAddr]) -> Option<String> {
    let listens = addresses.iter().any(|address| !address.ip().is_loopback());
    let mut clients = config.exports.iter().flat_map(|export| &export.clients);
    let admits = clients.any(|client| !client.net.is_loopback());
    (listens && !admits).then(|| {
        "other machines can connect but only clients on this one may mount; let others in with \
         --allow CLIENTS or, in a file, `clients`"
            .to_owned()
    })
}

/// The addresses in one line, separated by spaces.
pub(super) fn joined(addresses: &[SocketAddr]) -> String {
    addresses
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_command_gives_both_ports_and_brackets_ipv6() {
        let v4 = mount_command("127.0.0.1:2049".parse().unwrap(), "/");
        assert!(
            v4.ends_with("port=2049,mountport=2049,nolock 127.0.0.1:/ /mnt"),
            "{v4}"
        );
        let v6 = mount_command("[::1]:7".parse().unwrap(), "/a");
        assert!(
            v6.ends_with("port=7,mountport=7,nolock [::1]:/a /mnt"),
            "{v6}"
        );
    }

    #[test]
    fn a_mount_command_of_nfsv4_says_only_what_a_client_would_not_do_by_itself() {
        let command =
            |address: &str, versions| mount_command_v4(address.parse().unwrap(), "/a", versions);
        let all = Versions::ALL;
        let only_41 = all.without(Versions::NONE.with(NfsVersion::V42));
        let expected = |text: &str| Some(text.to_owned());
        assert_eq!(
            command("10.0.0.1:2049", all),
            expected("mount -t nfs 10.0.0.1:/a /mnt")
        );
        assert_eq!(
            command("[::1]:7", all),
            expected("mount -t nfs -o port=7 [::1]:/a /mnt")
        );
        assert_eq!(
            command("10.0.0.1:7", only_41),
            expected("mount -t nfs -o vers=4.1,port=7 10.0.0.1:/a /mnt")
        );
        assert_eq!(command("10.0.0.1:2049", Versions::V3), None);
    }

    #[test]
    fn any_address_is_shown_as_one_to_connect_to() {
        let shown = |text: &str| reachable(text.parse().unwrap()).to_string();
        assert_eq!(shown("0.0.0.0:1"), "127.0.0.1:1");
        assert_eq!(shown("[::]:1"), "[::1]:1");
        assert_eq!(shown("10.0.0.1:1"), "10.0.0.1:1");
    }
}
