//! Slots and replies: what a resend sees at every point of a call's life, and what becomes of memory.

mod support;

use nfs_state::{
    Begun, Channel, Config, ConnId, Count, Digest, Direction, Error, Replay, SequenceCall, limits,
};
use support::{CHANNEL, CONFIG, Disk, LEASE, Peer, Pin, Server, call};

fn begin(server: &Server, peer: &Peer, call: &SequenceCall) -> Result<Begun<Pin>, Error> {
    server.state.begin(&peer.session, call, server.now())
}

fn run(server: &Server, peer: &Peer, call: &SequenceCall) -> nfs_state::Sequenced<Pin> {
    match begin(server, peer, call).expect("accepted") {
        Begun::Run(request) => request,
        Begun::Again(replay, _) => panic!("not run: {replay:?}"),
    }
}

fn replay(server: &Server, peer: &Peer, call: &SequenceCall) -> Replay {
    match begin(server, peer, call).expect("accepted") {
        Begun::Run(_) => panic!("run twice"),
        Begun::Again(replay, status) => {
            assert_eq!((status.slot, status.sequence), (call.slot, call.sequence));
            replay
        }
    }
}

#[test]
fn a_request_is_carried_out_once_whenever_it_is_sent_again() {
    let server = Server::new();
    let peer = server.arrive("a", 1);
    let first = call(0, 1);
    let request = run(&server, &peer, &first);
    assert_eq!(
        begin(&server, &peer, &first).err(),
        Some(Error::Delay),
        "during"
    );
    request.finish(b"done");
    let done = Replay::Reply(b"done"[..].into());
    assert_eq!(replay(&server, &peer, &first), done, "after");
    let other_connection = SequenceCall {
        connection: Some(ConnId(77)),
        ..first
    };
    assert_eq!(
        replay(&server, &peer, &other_connection),
        done,
        "over another connection"
    );
    assert!(peer.session.is_bound(ConnId(77)));
    run(&server, &peer, &call(0, 2)).finish(b"next");
    assert_eq!(
        begin(&server, &peer, &first).err(),
        Some(Error::SeqMisordered),
        "too late"
    );
    assert_eq!(server.state.counters().get(Count::Replayed), 2);
}

#[test]
fn a_retry_with_other_arguments_is_none() {
    let server = Server::new();
    let peer = server.arrive("a", 1);
    run(&server, &peer, &call(0, 1)).finish(b"done");
    let other = SequenceCall {
        digest: Digest(8),
        ..call(0, 1)
    };
    assert_eq!(
        begin(&server, &peer, &other).err(),
        Some(Error::SeqFalseRetry)
    );
    assert_eq!(server.state.counters().get(Count::FalseRetries), 1);
}

#[test]
fn a_reply_that_the_client_does_not_want_is_not_kept() {
    let server = Server::new();
    let peer = server.arrive("a", 1);
    let unkept = SequenceCall {
        cache_this: false,
        ..call(0, 1)
    };
    let request = run(&server, &peer, &unkept);
    assert!(!request.is_kept());
    request.finish(b"done");
    assert_eq!(replay(&server, &peer, &unkept), Replay::Uncached);
    assert_eq!(server.state.reply_bytes(), 0);
}

/// A slot stayed busy for ever after a request that was put off (CVE-2026-45983).
#[test]
fn a_request_that_nobody_finishes_frees_its_slot() {
    let server = Server::new();
    let peer = server.arrive("a", 1);
    drop(run(&server, &peer, &call(0, 1)));
    assert_eq!(replay(&server, &peer, &call(0, 1)), Replay::Faulted);
    run(&server, &peer, &call(0, 2)).finish(b"done");
    assert_eq!(server.state.reply_bytes(), 4);
}

#[test]
fn a_request_that_may_be_left_off_is_asked_for_anew() {
    let server = Server::new();
    let peer = server.arrive("a", 1);
    let unkept = SequenceCall {
        cache_this: false,
        ..call(0, 1)
    };
    let mut request = run(&server, &peer, &unkept);
    request.may_be_left_off();
    drop(request);
    assert_eq!(replay(&server, &peer, &unkept), Replay::Uncached);
    // What is to be kept is not left off: its client trusts to find the reply.
    let mut request = run(&server, &peer, &call(0, 2));
    request.may_be_left_off();
    drop(request);
    assert_eq!(replay(&server, &peer, &call(0, 2)), Replay::Faulted);
}

/// The same when what carries it out panics.
#[test]
fn a_panic_in_a_request_frees_its_slot() {
    let server = Server::new();
    let peer = server.arrive("a", 1);
    let request = run(&server, &peer, &call(0, 1));
    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || {
        let _request = request;
        panic!("an operation is broken");
    }));
    assert!(caught.is_err());
    assert_eq!(replay(&server, &peer, &call(0, 1)), Replay::Faulted);
}

#[test]
fn what_is_refused_renews_no_lease_and_touches_no_slot() {
    let server = Server::new();
    let peer = server.arrive("a", 1);
    run(&server, &peer, &call(0, 1)).finish(b"done");
    server.pass(LEASE / 2);
    let beyond = CHANNEL.slots_max;
    let high = SequenceCall {
        highest_slot: beyond,
        ..call(0, 2)
    };
    let refused = [
        (call(beyond, 1), Error::BadSlot),
        (high, Error::BadHighSlot),
        (call(0, 3), Error::SeqMisordered),
        (call(1, 0), Error::SeqMisordered),
    ];
    for (call, error) in refused {
        assert_eq!(begin(&server, &peer, &call).err(), Some(error));
    }
    let client = server.state.client(peer.id).expect("confirmed");
    assert_eq!(client.silent_ms(server.now()), LEASE / 2);
    assert_eq!(
        replay(&server, &peer, &call(0, 1)),
        Replay::Reply(b"done"[..].into())
    );
    assert_eq!(client.silent_ms(server.now()), 0);
}

#[test]
fn a_slot_that_nobody_agrees_about_for_a_lease_ends_the_session() {
    let server = Server::new();
    let peer = server.arrive("a", 1);
    assert_eq!(
        begin(&server, &peer, &call(0, 5)).err(),
        Some(Error::SeqMisordered)
    );
    server.pass(LEASE + 1);
    assert_eq!(
        begin(&server, &peer, &call(0, 5)).err(),
        Some(Error::BadSession)
    );
}

#[test]
fn slots_are_independent_and_all_of_them_work() {
    let server = Server::new();
    let peer = server.arrive("a", 1);
    let requests: Vec<_> = (0..CHANNEL.slots_max)
        .map(|slot| run(&server, &peer, &call(slot, 1)))
        .collect();
    for request in requests {
        let slot = request.status().slot.to_be_bytes();
        request.finish(&slot);
    }
    for slot in 0..CHANNEL.slots_max {
        let kept = Replay::Reply(slot.to_be_bytes()[..].into());
        assert_eq!(replay(&server, &peer, &call(slot, 1)), kept);
    }
}

fn small(reply_bytes_max: usize) -> Server {
    let config = Config {
        reply_bytes_max,
        ..CONFIG
    };
    Server::start(Disk::default(), config)
}

/// A slot was freed while a request was in it (CVE-2026-89689).
#[test]
fn slots_are_given_back_when_idle_and_no_earlier() {
    let cached = CHANNEL.cached_bytes_max as usize;
    let server = small(cached * 8);
    let (peer, other) = (server.arrive("a", 1), server.arrive("b", 1));
    let busy = run(&server, &peer, &call(10, 1));
    for slot in 0..8 {
        let full = SequenceCall {
            highest_slot: 63,
            ..call(slot, 1)
        };
        run(&server, &other, &full).finish(&vec![1; cached]);
    }
    // Memory is short: the server asks for few slots, and the client says that it uses but one.
    let request = run(&server, &peer, &call(0, 1));
    let target = request.status().target_highest_slot;
    assert!(target < 9, "asked to use slots up to {target}");
    request.finish(b"");
    run(&server, &peer, &call(0, 2)).finish(b"");
    let busy_call = call(10, 1);
    let again = begin(&server, &peer, &busy_call).err();
    assert_eq!(again, Some(Error::Delay), "it is busy");
    busy.finish(b"late");
    let late = Replay::Reply(b"late"[..].into());
    assert_eq!(replay(&server, &peer, &busy_call), late);
    // Now it is idle: given back, and it begins at 1 again.
    run(&server, &peer, &call(0, 3)).finish(b"");
    let wrong = begin(&server, &peer, &call(10, 7)).err();
    assert_eq!(wrong, Some(Error::SeqMisordered));
    run(&server, &peer, &call(10, 1)).finish(b"anew");
}

#[test]
fn kept_replies_stay_within_their_memory() {
    let cached = CHANNEL.cached_bytes_max as usize;
    let max = cached * 20;
    let server = small(max);
    let peers: Vec<_> = (0..50).map(|n| server.arrive(&n.to_string(), 1)).collect();
    let mut delayed = 0;
    for peer in &peers {
        for slot in 0..CHANNEL.slots_max {
            match begin(&server, peer, &call(slot, 1)) {
                Ok(Begun::Run(request)) => request.finish(&vec![1; cached]),
                Ok(Begun::Again(..)) => panic!("run twice"),
                Err(error) => {
                    assert_eq!(error, Error::Delay);
                    delayed += 1;
                }
            }
        }
        assert!(peer.session.kept_bytes() >= limits::SESSION_REPLY_BYTES_ASSURED);
    }
    assert!(delayed > 0);
    let most = max + peers.len() * limits::SESSION_REPLY_BYTES_ASSURED;
    assert!(
        server.state.reply_bytes() <= most,
        "{} of {most}",
        server.state.reply_bytes()
    );
    drop(peers);
    drop(server);
}

#[test]
fn kept_replies_of_one_host_leave_memory_to_others() {
    let cached = CHANNEL.cached_bytes_max as usize;
    let max = cached * 200;
    let mut server = small(max);
    let greedy: Vec<_> = (0..5)
        .map(|n| server.join_from(1, &n.to_string()).expect("room"))
        .collect();
    for (peer, slot) in greedy
        .iter()
        .flat_map(|peer| (1..64).map(move |slot| (peer, slot)))
    {
        if let Ok(Begun::Run(request)) = begin(&server, peer, &call(slot, 1)) {
            request.finish(&vec![1; cached]);
        }
    }
    let greedy_has = server.state.reply_bytes();
    let assured = greedy.len() * limits::SESSION_REPLY_BYTES_ASSURED;
    assert!(greedy_has <= max / 2 + assured, "{greedy_has} of {max}");
    assert!(greedy_has >= max / 2 - cached, "{greedy_has} of {max}");
    let polite = server.join_from(2, "polite").expect("room");
    for slot in 1..32 {
        run(&server, &polite, &call(slot, 1)).finish(&vec![1; cached]);
    }
}

#[test]
fn memory_of_a_session_comes_back_with_its_end() {
    let mut server = small(1 << 20);
    let peer = server.arrive("a", 1);
    run(&server, &peer, &call(0, 1)).finish(&[1; 100]);
    assert_eq!(server.state.reply_bytes(), 100);
    server
        .expire(peer.id, nfs_state::Why::Operator)
        .expect("idle")
        .opens
        .clear();
    drop(peer);
    assert_eq!(server.state.reply_bytes(), 0);
}

#[test]
fn a_reply_longer_than_agreed_is_not_kept() {
    let server = Server::new();
    let peer = server.arrive("a", 1);
    run(&server, &peer, &call(0, 1)).finish(&vec![1; CHANNEL.cached_bytes_max as usize + 1]);
    assert_eq!(replay(&server, &peer, &call(0, 1)), Replay::Uncached);
}

#[test]
fn a_channel_without_kept_replies_keeps_none() {
    let fore = Channel {
        cached_bytes_max: 0,
        ..CHANNEL
    };
    let server = Server::start(Disk::default(), Config { fore, ..CONFIG });
    let peer = server.arrive("a", 1);
    run(&server, &peer, &call(0, 1)).finish(b"done");
    assert_eq!(replay(&server, &peer, &call(0, 1)), Replay::Uncached);
}

#[test]
fn connections_of_a_session_are_counted_and_bounded() {
    let server = Server::new();
    let session = server.arrive("a", 1).session;
    assert_eq!(
        session.bind(ConnId(1), Direction::Back),
        Direction::Both,
        "it made the session"
    );
    for n in 2..=limits::CONNECTIONS_PER_SESSION_MAX as u64 {
        assert_eq!(session.bind(ConnId(n), Direction::Back), Direction::Back);
    }
    assert_eq!(session.bind(ConnId(1000), Direction::Both), Direction::Fore);
    assert!(!session.is_bound(ConnId(1000)));
    session.unbind(ConnId(1));
    assert_eq!(session.back_connections().first(), Some(&ConnId(2)));
}
