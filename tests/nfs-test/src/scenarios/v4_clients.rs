//! Very many NFSv4.1 clients, each with a reply kept in every slot of its session: the server's memory stays within what
//! its limits say, one host cannot take all of what there is for kept replies, and another client is served all along.
//!
//! Each client has a connection of its own, from one of a hundred addresses of loopback, each a host to the server. As
//! machines commonly permit a process 20,000 descriptors, half of which the server takes for connections, some of the
//! largest crowd leave when their slots are full; what is kept for them stays.

use std::fs;
use std::net::Ipv4Addr;
use std::path::Path;

use anyhow::{Context as _, Result, bail, ensure};
use nfs_lab::{Server, ServerOptions, counter};
use nfs_wire::nfs4::{ArgOp, Nfsstat4, ResOp};

use super::hostile::raise_descriptor_limit;
use crate::host::Context;
use crate::host::raw_client4::{RawClient4, SLOTS};
use crate::host::wire::block_on;

/// Clients of the long form with `--full`, without, and of the short form.
const CLIENTS: [usize; 3] = [10_000, 2000, 200];
/// Clients that keep their connections.
const CONNECTED_MAX: usize = 9000;
/// Hosts that they come from.
const HOSTS: usize = 100;
/// Clients of the host that wants to have all memory for kept replies.
const GREEDY: usize = 600;
/// Bytes of the tag in each of its calls, which comes back in the reply.
const GREEDY_TAG: usize = 1000;
/// What all kept replies take at most: the server's `KEPT_REPLIES_BYTES_MAX` and `REPLY_BYTES_ASSURED_MAX`.
const REPLY_BYTES_MAX: u64 = 128 << 20;
/// The first of these, of which one host has half at most.
const SHARED_REPLY_BYTES_MAX: u64 = 64 << 20;
/// What one session has of it for sure: `SESSION_REPLY_BYTES_ASSURED`.
const SESSION_ASSURED: u64 = 8192;
/// The server's program, caches and threads.
const BASE_BYTES: u64 = 48 << 20;
/// A client with a connection, a session and its slots, without the replies.
const CLIENT_BYTES_MAX: u64 = 20 << 10;
/// What the heap takes for short replies, as a multiple of their bytes.
const HEAP_FACTOR: u64 = 2;

pub(super) fn run(context: &Context) -> Result<String> {
    let [full, long, quick] = CLIENTS;
    let clients = match (context.quick, context.full) {
        (true, _) => quick,
        (_, true) => full,
        _ => long,
    };
    // The server inherits it, and has half of it for connections.
    raise_descriptor_limit(2 * (clients.min(CONNECTED_MAX) + 300) as u64)?;
    let export = context.lab.dir.join("export");
    let state = context.lab.dir.join("state");
    fs::create_dir(&export)?;
    let config = context.lab.dir.join("penstock.toml");
    // A silent client keeps what it has for as long as this takes.
    let text = format!(
        "[server]\ntrust_loopback = true\nlease_seconds = 600\n[[export]]\npath = {export:?}\npseudo = \"/\"\n\
         squash = \"none\"\nclients = [\"127.0.0.0/8\"]\n"
    );
    fs::write(&config, text)?;
    let options = ServerOptions {
        config: Some(config),
        ..ServerOptions::default()
    };
    let mut server = Server::start(&context.lab, &export, &state, &options)?;
    let told = block_on(crowd(context, &mut server, &state, clients))?;
    server.stop()?;
    Ok(told)
}

async fn crowd(
    context: &Context,
    server: &mut Server,
    state: &Path,
    clients: usize,
) -> Result<String> {
    let kept = || counter(&context.lab, state, "nfs4_reply_bytes");
    let address = server.address();
    let at_rest = server.resident()?;
    let mut witness = RawClient4::new(Ipv4Addr::new(127, 2, 0, 1), address, "witness").await?;
    let join = async |number: usize| {
        let host = Ipv4Addr::new(127, 1, 0, 1 + (number % HOSTS) as u8);
        RawClient4::new(host, address, &number.to_string()).await
    };
    let connected = clients.min(CONNECTED_MAX);
    let mut crowd = Vec::new();
    for number in 0..connected {
        crowd.push(join(number).await?);
    }
    let idle = server.resident()?;
    let mut put_off = 0;
    for number in 0..clients {
        put_off += match crowd.get_mut(number) {
            Some(client) => fill(client, b"").await?,
            None => fill(&mut join(number).await?, b"").await?,
        };
        if number.is_multiple_of(100) {
            keeps(&mut witness).await.context("beside others")?;
        }
    }
    ensure!(put_off == 0, "{put_off} calls of the crowd were put off");
    let (all, replies) = (server.resident()?, kept()?);
    check(server, clients, replies)?;

    let greedy_host = Ipv4Addr::new(127, 3, 0, 1);
    for number in 0..GREEDY {
        let name = format!("greedy {number}");
        let mut client = RawClient4::new(greedy_host, address, &name).await?;
        put_off += fill(&mut client, &[b'x'; GREEDY_TAG]).await?;
        keeps(&mut witness).await.context("beside a greedy host")?;
    }
    ensure!(put_off > 0, "one host may keep as much as it likes");
    let taken = kept()?.saturating_sub(replies);
    let share = SHARED_REPLY_BYTES_MAX / 2 + GREEDY as u64 * SESSION_ASSURED;
    ensure!(taken <= share, "one host has {taken} bytes of replies");
    check(server, clients + GREEDY, kept()?)?;

    // Newcomers find room, and who has a full table of slots goes on.
    let mut newcomer = RawClient4::new(Ipv4Addr::new(127, 4, 0, 1), address, "newcomer").await?;
    ensure!(
        fill(&mut newcomer, b"").await? == 0,
        "a newcomer was put off"
    );
    for client in crowd.iter_mut().take(HOSTS) {
        ensure!(fill(client, b"").await? == 0, "a client was put off");
    }
    server.alive()?;
    let per_client = |bytes: u64, of: usize| bytes.saturating_sub(at_rest) / of as u64;
    Ok(format!(
        "{} MiB at rest, {} MiB ({} bytes a client) with {connected} clients, their connections and sessions, {} MiB ({} \
         bytes a client) with {clients} and {} KiB of replies in {SLOTS} slots each; one host more had {} KiB of replies, and {put_off} \
         of its calls were put off",
        at_rest >> 20,
        idle >> 20,
        per_client(idle, connected),
        all >> 20,
        per_client(all, clients),
        replies >> 10,
        taken >> 10
    ))
}

/// Holds the server's memory against what its limits come to.
fn check(server: &Server, clients: usize, replies: u64) -> Result<()> {
    ensure!(replies <= REPLY_BYTES_MAX, "{replies} bytes of replies");
    let most = BASE_BYTES + clients as u64 * CLIENT_BYTES_MAX + HEAP_FACTOR * replies;
    let resident = server.resident_max()?;
    ensure!(
        resident <= most,
        "the server has {} KiB of {} KiB, with {clients} clients and {} KiB of replies",
        resident >> 10,
        most >> 10,
        replies >> 10
    );
    Ok(())
}

/// A call in each slot, all at once, whose replies are to be kept. How many were put off.
async fn fill(client: &mut RawClient4, tag: &[u8]) -> Result<usize> {
    for slot in 0..SLOTS {
        client.ask(slot, tag, vec![ArgOp::Putrootfh(())]).await?;
    }
    let mut put_off = 0;
    for _ in 0..SLOTS {
        let done = client
            .receive(|res| match &*res.resarray {
                [ResOp::Sequence(Ok(ok)), ResOp::Putrootfh(Ok(()))] => Ok(Some(ok.slotid)),
                [ResOp::Sequence(Err(Nfsstat4::Delay))] => Ok(None),
                other => bail!("{other:?}"),
            })
            .await?;
        match done {
            Some(slot) => client.sequence[slot as usize] += 1,
            None => put_off += 1,
        }
    }
    Ok(put_off)
}

/// One call whose reply is kept.
async fn keeps(client: &mut RawClient4) -> Result<()> {
    let ops = vec![ArgOp::Putrootfh(())];
    let status = client.call(ops, |status, _| Ok(status)).await?;
    ensure!(status == Nfsstat4::Ok, "{status}");
    Ok(())
}
