//! `penstock ctl clients`: who is connected, who is shut out.

use std::io::Write;
use std::path::Path;

use nfs_server::exports::config::parse_net;
use nfs_server::operate::control::{
    BlockOrder, BlockStatus, ClientStatus, Command, HeldQuery, Listed, Nfs4ClientStatus, Page,
};

use super::ask;

#[derive(clap::Subcommand, Debug)]
pub(super) enum Action {
    /// Shut a host or a network out: its connections are closed, and new ones are refused
    ///
    /// Its programs get no error: they wait until it is let in again. The server forgets it when it ends; who is
    /// to be kept out for good is left out of the exports' clients. A reload changes nothing about it.
    Block {
        /// An address, or a network such as 10.0.0.0/24. An IPv6 host has many addresses: block its /64
        #[arg(value_name = "ADDR[/LEN]", value_parser = checked_net)]
        net: String,
        /// Let it in again after so many minutes. Default: not before it is lifted or the server ends
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
        minutes: Option<u64>,
    },
    /// Let a host or a network in again, named as it was blocked
    Unblock {
        /// As `penstock ctl clients blocked` shows it
        #[arg(value_name = "ADDR[/LEN]", value_parser = checked_net)]
        net: String,
    },
    /// Show the hosts and networks that are shut out
    Blocked,
    /// Show the clients of NFSv4 alone, with what they hold
    ///
    /// A client is what called itself by a name, whatever connections it has. One whose lease is over keeps what it
    /// holds until somebody wants it (courtesy).
    Nfs4(super::held::Part),
    /// Close the connections of a host, or one of them; it may connect again at once
    Disconnect {
        /// An address, or address and port as `penstock ctl clients` shows them
        #[arg(value_name = "ADDR[:PORT]")]
        peer: String,
    },
}

/// What to ask the server.
pub(super) fn command(action: Option<&Action>) -> Command {
    match action {
        None => Command::Clients,
        Some(Action::Block { net, minutes }) => Command::Block(BlockOrder {
            net: net.clone(),
            minutes: *minutes,
        }),
        Some(Action::Unblock { net }) => Command::Unblock(net.clone()),
        Some(Action::Blocked) => Command::Blocked,
        Some(Action::Nfs4(part)) => Command::Held(HeldQuery::Clients(part.page())),
        Some(Action::Disconnect { peer }) => Command::Disconnect(peer.clone()),
    }
}

/// Asks, and prints the answer.
pub(super) fn run(
    out: &mut impl Write,
    directory: &Path,
    action: Option<Action>,
    command: Command,
) -> anyhow::Result<()> {
    match action {
        None => {
            print_clients(out, &ask::<Vec<_>>(directory, command)?)?;
            let page = Page::default();
            let query = HeldQuery::Clients(page.clone());
            let listed: Listed<Nfs4ClientStatus> = ask(directory, Command::Held(query))?;
            if listed.total > 0 {
                writeln!(out)?;
                super::held::print_clients(out, &listed, &page)?;
            }
        }
        Some(Action::Nfs4(part)) => {
            super::held::run(out, directory, HeldQuery::Clients(part.page()))?;
        }
        Some(Action::Block { .. } | Action::Unblock { .. } | Action::Blocked) => {
            print_blocked(out, &ask::<Vec<_>>(directory, command)?)?;
        }
        Some(Action::Disconnect { peer }) => {
            let closed: usize = ask(directory, command)?;
            let plural = if closed == 1 { "" } else { "s" };
            writeln!(out, "{peer}: {closed} connection{plural} closed")?;
        }
    }
    Ok(())
}

/// What is shut out, for the line of `ctl status`; empty if nothing is.
pub(super) fn blocked_in_short(blocked: &[BlockStatus]) -> String {
    let nets: Vec<&str> = blocked.iter().map(|block| block.net.as_str()).collect();
    nets.join(" ")
}

fn checked_net(text: &str) -> Result<String, String> {
    parse_net(text).map(|_| text.to_owned())
}

fn print_blocked(out: &mut impl Write, blocked: &[BlockStatus]) -> std::io::Result<()> {
    if blocked.is_empty() {
        return writeln!(out, "nobody is blocked");
    }
    for block in blocked {
        let time = match block.seconds_left {
            Some(seconds) => format!("for {} more minutes", seconds.div_ceil(60)),
            None => "until it is lifted or the server ends".to_owned(),
        };
        let (net, refused) = (&block.net, block.refused);
        writeln!(out, "{net} is blocked {time}; refused {refused} times")?;
    }
    Ok(())
}

fn print_clients(out: &mut impl Write, clients: &[ClientStatus]) -> std::io::Result<()> {
    if clients.is_empty() {
        return writeln!(out, "no client is connected");
    }
    let title = (
        "CLIENT",
        "USER",
        "SECONDS",
        "CALLS",
        "UNDER WAY",
        "RECEIVED",
        "SENT",
    );
    let (client, user, seconds, calls, in_flight, received, sent) = title;
    writeln!(
        out,
        "{client:<28}{user:>10}{seconds:>9}{calls:>12}{in_flight:>11}{received:>16}{sent:>16}"
    )?;
    for client in clients {
        writeln!(
            out,
            "{:<28}{:>10}{:>9}{:>12}{:>11}{:>16}{:>16}",
            client.address,
            client.user.as_deref().unwrap_or("-"),
            client.connected_seconds,
            client.calls,
            client.in_flight,
            client.received_bytes,
            client.sent_bytes
        )?;
    }
    Ok(())
}
