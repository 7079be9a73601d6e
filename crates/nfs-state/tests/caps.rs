//! What may grow, at its cap: who is refused, who goes on, and that there is room again.

mod support;

use std::sync::Arc;

use nfs_state::{
    Begun, Bits, Bounds, Claim, Config, Count, Error, FileState, LockArgs, LockKind, LockRefused,
    Locker, Millis, OpenState, OwnerBytes, Principal, Record, Recovered, Refused, State, Why,
    limits,
};
use support::{CHANNEL, CONFIG, Disk, LEASE, Peer, Pin, Server, bytes, call, file, range};

fn small(bounds: Bounds) -> Server {
    Server::start(Disk::default(), Config { bounds, ..CONFIG })
}

fn open(server: &mut Server, peer: &Peer, file: &Arc<FileState>) -> Arc<OpenState<Pin>> {
    let opened = server.open(peer, "o", file, Bits::BOTH, Bits::NONE);
    opened.expect("free")
}

#[test]
fn names_have_a_longest() {
    let long = vec![b'x'; limits::OWNER_BYTES_MAX + 1];
    assert!(OwnerBytes::new(&long[1..]).is_ok());
    assert!(OwnerBytes::new(&long).is_err());
    assert!(Principal::new(&long[..limits::PRINCIPAL_BYTES_MAX]).is_ok());
    assert!(Principal::new(&long[..=limits::PRINCIPAL_BYTES_MAX]).is_err());
}

#[test]
fn a_tick_has_so_many_clients_expired_and_the_next_one_the_others() {
    const BEYOND: usize = 44;
    let mut server = Server::new();
    for n in 0..limits::EXPIRIES_PER_TICK_MAX + BEYOND {
        server.arrive(&n.to_string(), 1);
    }
    server.pass(LEASE + 1);
    let first = server.state.tick(server.now());
    assert_eq!(first.expire.len(), limits::EXPIRIES_PER_TICK_MAX);
    assert_eq!(first.courtesy, BEYOND);
    for client in first.expire {
        drop(server.expire(client, Why::LeaseOver).expect("idle"));
    }
    let second = server.state.tick(server.now());
    assert_eq!((second.expire.len(), second.courtesy), (BEYOND, 0));
}

#[test]
fn changes_of_a_file_that_wait_for_the_host_have_an_end() {
    let mut server = Server::new();
    let (a, file) = (server.join("a"), file());
    let opened = open(&mut server, &a, &file);
    let request = a.request(&server);
    let permit = server.permit(&request).expect("no grace period");
    let owner = bytes("l");
    let reserve = |n: usize| {
        let args = LockArgs {
            locker: Locker::New {
                open: opened.stateid().to_wire(),
                owner: &owner,
            },
            file: &file,
            range: range(n as u64 * 10, 5),
            kind: LockKind::Write,
            wait: false,
        };
        let now = server.now();
        server.state.lock(&request, Claim::New(&permit), &args, now)
    };
    let mut waiting: Vec<_> = (0..limits::PENDING_PER_FILE_MAX)
        .map(|n| reserve(n).expect("room"))
        .collect();
    let beyond = reserve(limits::PENDING_PER_FILE_MAX).err();
    assert_eq!(beyond, Some(LockRefused::Status(Error::Resource)));
    assert_eq!(server.state.counters().get(Count::LocksFull), 1);
    let one = waiting.pop().expect("many");
    one.give_up(server.now());
    drop(reserve(limits::PENDING_PER_FILE_MAX).expect("room again"));
}

#[test]
fn opens_of_a_client_have_an_end() {
    let mut server = Server::new();
    let (a, b) = (server.join("a"), server.join("b"));
    for _ in 0..limits::OPENS_PER_CLIENT_MAX {
        open(&mut server, &a, &file());
    }
    let beyond = server.open(&a, "o", &file(), Bits::READ, Bits::NONE).err();
    assert_eq!(beyond, Some(Refused::Status(Error::Resource)));
    assert_eq!(server.state.counters().get(Count::OpensFull), 1);
    open(&mut server, &b, &file());
}

#[test]
fn so_many_clients_are_looked_at_for_one_that_gives_way_and_then_the_next_ones() {
    let mut server = small(Bounds {
        clients_max: 200,
        ..Bounds::DEFAULT
    });
    let peers: Vec<_> = (0..100)
        .map(|n| server.join_from(1, &n.to_string()).expect("room"))
        .collect();
    let asked = server.exchange_from(1, "new").expect("anybody may ask");
    server.pass(limits::GIVING_WAY_SILENT_MS_MIN);
    for peer in peers.iter().take(limits::GIVING_WAY_LOOKED_AT_MAX) {
        drop(peer.request(&server));
    }
    let given = |_| server.state.who_gives_way(asked.client, server.now());
    assert_eq!(given(1), None, "the first ones were heard of");
    let next = given(2).expect("others were not");
    let silent = &peers[limits::GIVING_WAY_LOOKED_AT_MAX..];
    assert!(silent.iter().any(|peer| peer.id == next));
}

#[test]
fn one_host_leaves_places_in_queues_to_others() {
    let mut server = small(Bounds {
        waiters_max: 8,
        ..Bounds::DEFAULT
    });
    let holder = server.join_from(1, "holder").expect("room");
    let greedy = server.join_from(2, "greedy").expect("room");
    let other = server.join_from(3, "other").expect("room");
    let file = file();
    let opens = [&holder, &greedy, &other].map(|peer| open(&mut server, peer, &file));
    server
        .lock(&holder, &opens[0], "h", range(0, 10), LockKind::Write)
        .expect("free");
    let mut wait = |peer: &Peer, opened: &OpenState<Pin>, owner: &str| {
        let request = peer.request(&server);
        let permit = server.permit(&request).expect("no grace period");
        let args = LockArgs {
            locker: Locker::New {
                open: opened.stateid().to_wire(),
                owner: &bytes(owner),
            },
            file: &file,
            range: range(0, 10),
            kind: LockKind::Write,
            wait: true,
        };
        let now = server.now();
        let asked = server.state.lock(&request, Claim::New(&permit), &args, now);
        assert!(matches!(asked, Err(LockRefused::Denied(_))));
        file.waiters()
    };
    for n in 0..8 {
        let waiting = wait(&greedy, &opens[1], &n.to_string());
        assert_eq!(waiting, (n + 1).min(4), "half of all");
    }
    assert_eq!(wait(&other, &opens[2], "o"), 5);
    assert_eq!(server.state.counters().get(Count::WaitersFull), 4);
}

#[test]
fn records_of_an_earlier_life_have_an_end() {
    let mut server = Server::new();
    let a = server.join("a");
    open(&mut server, &a, &file());
    let record = server.disk.records.values().next().expect("one").clone();
    let records = (0..limits::RECORDS_MAX + 10).map(|n| Record {
        owner: bytes(&n.to_string()),
        ..record.clone()
    });
    let recovered = Recovered {
        epoch: server.restart().state.epoch(),
        records: records.collect(),
    };
    let state: State<Pin> = State::new(CONFIG, recovered, Millis(0));
    assert_eq!(state.grace().waiting, limits::RECORDS_MAX);
}

/// Each session keeps something when all memory for replies is used up, and all of that has an end too.
#[test]
fn what_sessions_keep_for_sure_has_an_end() {
    const HOSTS: u8 = 200;
    const SESSIONS: usize = 50;
    let config = Config {
        reply_bytes_max: 0,
        ..CONFIG
    };
    let server = Server::start(Disk::default(), config);
    let cached = CHANNEL.cached_bytes_max as usize;
    let slots = (limits::SESSION_REPLY_BYTES_ASSURED / cached) as u32;
    let (mut kept, mut put_off) = (0, 0);
    for host in 1..=HOSTS {
        for n in 0..SESSIONS {
            let exchanged = server.exchange_from(host, &format!("{host}.{n}"));
            let exchanged = exchanged.expect("room");
            let created = server.create(exchanged.client, exchanged.sequence, "root");
            let session = created.expect("room").session.expect("no retry");
            let peer = Peer::of(exchanged.client, session);
            for slot in 1..=slots + 1 {
                match server
                    .state
                    .begin(&peer.session, &call(slot, 1), server.now())
                {
                    Ok(Begun::Run(request)) => {
                        request.finish(&vec![1; cached]);
                        kept += 1;
                    }
                    Ok(Begun::Again(..)) => panic!("run twice"),
                    Err(error) => {
                        assert_eq!(error, Error::Delay);
                        put_off += 1;
                    }
                }
            }
        }
    }
    assert!(kept * cached <= limits::REPLY_BYTES_ASSURED_MAX);
    assert!(server.state.reply_bytes() <= limits::REPLY_BYTES_ASSURED_MAX);
    assert!(kept * cached > limits::REPLY_BYTES_ASSURED_MAX * 9 / 10);
    assert!(
        put_off >= usize::from(HOSTS) * SESSIONS,
        "more than is for sure"
    );
}
