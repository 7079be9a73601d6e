//! EXCHANGE_ID, CREATE_SESSION, DESTROY_SESSION, DESTROY_CLIENTID, as RFC 8881 §18.35 to §18.37 and §18.50 say.

mod support;

use nfs_state::{
    BackChannel, Bits, Bounds, Channel, Config, ConnId, Count, CreateSession, Error, Exchanged,
    Principal, Sequenced, SessionId, Why, limits,
};
use support::{CHANNEL, CONFIG, Disk, LEASE, Server, bytes, call, file, no_auth, principal};

#[test]
fn a_client_is_confirmed_by_its_first_session() {
    let server = Server::new();
    let first = server.exchange("a", 1, "root", false).expect("new");
    assert!(!first.is_confirmed);
    server
        .create(first.client, first.sequence, "root")
        .expect("confirmed");
    let again = server.exchange("a", 1, "root", false).expect("known");
    let expected = Exchanged {
        client: first.client,
        sequence: 2,
        is_confirmed: true,
        shared_with: None,
    };
    assert_eq!(again, expected);
    assert_eq!(server.exchange("a", 1, "root", true), Ok(expected));
}

#[test]
fn updates_are_only_for_the_client_itself() {
    let server = Server::new();
    assert_eq!(server.exchange("a", 1, "root", true), Err(Error::NoEnt));
    server.exchange("a", 1, "root", false).expect("new");
    assert_eq!(server.exchange("a", 1, "root", true), Err(Error::NoEnt));
    server.arrive("a", 1);
    assert_eq!(server.exchange("a", 2, "root", true), Err(Error::NotSame));
    assert_eq!(server.exchange("a", 1, "other", true), Err(Error::Perm));
}

#[test]
fn another_principal_gets_a_name_only_when_nothing_is_held_under_it() {
    let mut server = Server::new();
    let peer = server.join("a");
    let file = file();
    let open = server
        .open(&peer, "o", &file, Bits::READ, Bits::NONE)
        .expect("free");
    assert_eq!(
        server.exchange("a", 1, "other", false),
        Err(Error::ClidInUse)
    );
    let request = peer.request(&server);
    let closed = server
        .state
        .close(&request, open.stateid().to_wire(), &file, server.now());
    closed.expect("it is open");
    // A request of the client is in progress, so that it cannot be taken away now.
    assert_eq!(
        server.exchange("a", 1, "other", false),
        Err(Error::ClidInUse)
    );
    drop(request);
    let taken = server
        .exchange("a", 1, "other", false)
        .expect("nothing is held");
    assert!(!taken.is_confirmed && taken.client != peer.id);
    assert_eq!(peer.try_request(&server).err(), Some(Error::BadSession));
}

#[test]
fn a_candidate_is_replaced_and_its_number_is_stale() {
    let server = Server::new();
    let first = server.exchange("a", 1, "root", false).expect("new");
    let second = server
        .exchange("a", 2, "other", false)
        .expect("anybody may ask");
    let stale = server.create(first.client, 1, "root");
    assert_eq!(stale.err(), Some(Error::StaleClientId));
    let stolen = server.create(second.client, 1, "root");
    assert_eq!(stolen.err(), Some(Error::ClidInUse));
}

#[test]
fn create_session_is_carried_out_once() {
    let server = Server::new();
    let id = server.exchange("a", 1, "root", false).expect("new").client;
    for wrong in [0, 2, u32::MAX] {
        assert_eq!(
            server.create(id, wrong, "root").err(),
            Some(Error::SeqMisordered)
        );
    }
    let made = server.create(id, 1, "root").expect("the first").made;
    let again = server.create(id, 1, "root").expect("a retry");
    assert_eq!(again.made, made);
    assert!(again.session.is_none());
    let client = server.state.client(id).expect("confirmed");
    assert_eq!(client.sessions().len(), 1);
    // Any principal makes further sessions of a confirmed client.
    let other = server.create(id, 2, "other").expect("the second").made;
    assert_ne!(other.session, made.session);
    assert_eq!(
        server.create(id, 1, "root").err(),
        Some(Error::SeqMisordered)
    );
}

#[test]
fn an_error_of_create_session_is_kept_as_its_reply() {
    let server = Server::new();
    let id = server.exchange("a", 1, "root", false).expect("new").client;
    let small = Channel {
        request_bytes_max: limits::CHANNEL_BYTES_MIN - 1,
        ..CHANNEL
    };
    let root = principal("root");
    let asked = |fore| CreateSession {
        client: id,
        sequence: 1,
        principal: &root,
        fore,
        back: None,
        binds_back: false,
        connection: ConnId(1),
        nonce: 0,
    };
    for fore in [small, CHANNEL] {
        let refused = server.state.create_session(&asked(fore), server.now());
        assert_eq!(refused.err(), Some(Error::TooSmall));
    }
    server.create(id, 2, "root").expect("the next sequence");
}

#[test]
fn channels_are_cut_to_what_the_server_has() {
    let server = Server::new();
    let exchanged = server.exchange("a", 1, "root", false).expect("new");
    let greedy = Channel {
        request_bytes_max: u32::MAX,
        response_bytes_max: u32::MAX,
        cached_bytes_max: u32::MAX,
        operations_max: u32::MAX,
        slots_max: u32::MAX,
    };
    let asked = CreateSession {
        client: exchanged.client,
        sequence: exchanged.sequence,
        principal: &principal("root"),
        fore: greedy,
        back: Some(BackChannel {
            program: 0x4000_0000,
            auth: no_auth(),
            channel: greedy,
        }),
        binds_back: true,
        connection: ConnId(9),
        nonce: 0,
    };
    let created = server
        .state
        .create_session(&asked, server.now())
        .expect("cut");
    assert_eq!(
        (created.made.fore, created.made.back),
        (CHANNEL, Some(CHANNEL))
    );
    let session = created.session.expect("new");
    assert_eq!(session.back_connections(), [ConnId(9)]);
}

#[test]
fn a_client_that_starts_anew_gives_back_what_it_held() {
    let mut server = Server::new();
    let before = server.join("a");
    let file = file();
    server
        .open(&before, "o", &file, Bits::BOTH, Bits::BOTH)
        .expect("free");
    let anew = server.exchange("a", 2, "root", false).expect("a new life");
    assert_ne!(anew.client, before.id);
    assert_eq!(file.opens(), 1, "until the new life is confirmed");
    // A request of the old life is in progress: the new one is told to come again, with the same sequence.
    let request = before.request(&server);
    let early = server.create(anew.client, anew.sequence, "root");
    assert_eq!(early.err(), Some(Error::Delay));
    drop(request);
    let created = server
        .create(anew.client, anew.sequence, "root")
        .expect("confirmed");
    assert_eq!(created.released.opens.len(), 1);
    assert_eq!(file.opens(), 0);
    assert_eq!(before.try_request(&server).err(), Some(Error::BadSession));
    assert_eq!(server.state.counters().get(Count::Replaced), 1);
}

#[test]
fn two_machines_of_one_name_are_noticed() {
    let server = Server::new();
    let mut noticed = 0;
    for turn in 0..8 {
        let exchanged = server
            .exchange("cloned", 1 + turn % 2, "root", false)
            .expect("a restart");
        noticed += u32::from(exchanged.shared_with.is_some());
        server
            .create(exchanged.client, exchanged.sequence, "root")
            .expect("confirmed");
        server.pass(1000);
    }
    assert_eq!(noticed, 1);
    assert_eq!(server.state.counters().get(Count::SharedNames), 1);
}

#[test]
fn a_flood_of_names_costs_no_confirmed_client_anything() {
    let server = Server::new();
    let peer = server.arrive("a", 1);
    for n in 0..limits::UNCONFIRMED_MAX + 100 {
        server
            .exchange(&format!("flood {n}"), 1, "root", false)
            .expect("anybody may ask");
    }
    assert_eq!(server.state.unconfirmed(), limits::UNCONFIRMED_MAX);
    drop(peer.request(&server));
    server.pass(LEASE + 1);
    server.state.tick(server.now());
    assert_eq!(
        server.state.unconfirmed(),
        0,
        "who does not confirm is forgotten"
    );
}

#[test]
fn a_flood_of_names_costs_no_other_host_its_place() {
    let mut server = Server::new();
    let polite = server.exchange_from(2, "polite").expect("new");
    for n in 0..limits::UNCONFIRMED_MAX * 2 {
        let flood = server.exchange_from(1, &format!("flood {n}"));
        flood.expect("anybody may ask");
    }
    assert_eq!(server.state.unconfirmed(), limits::UNCONFIRMED_MAX);
    server
        .create(polite.client, polite.sequence, "root")
        .expect("it is still there");
    // Who has most gives way to who comes.
    let late = server.join_from(3, "late").expect("room");
    drop(late.request(&server));
}

/// A server with room for few clients.
fn small(bounds: Bounds) -> Server {
    Server::start(Disk::default(), Config { bounds, ..CONFIG })
}

#[test]
fn one_host_leaves_room_for_clients_of_others() {
    let mut server = small(Bounds {
        clients_max: 16,
        ..Bounds::DEFAULT
    });
    let greedy: Vec<_> = (0..20)
        .map_while(|n| server.join_from(1, &format!("greedy {n}")).ok())
        .collect();
    assert_eq!(greedy.len(), 8, "half of all");
    let more = server.join_from(1, "one more").err();
    assert_eq!(more, Some(Error::Resource));
    for host in 2..6 {
        let polite = server.join_from(host, &format!("of {host}")).expect("room");
        drop(polite.request(&server));
    }
    for peer in &greedy {
        drop(peer.request(&server));
    }
}

#[test]
fn a_host_over_its_share_loses_its_own_idle_client_and_nobody_elses() {
    let mut server = small(Bounds {
        clients_max: 6,
        ..Bounds::DEFAULT
    });
    let other = server.join_from(2, "other").expect("room");
    let silent: Vec<_> = (0..3)
        .map(|n| server.join_from(1, &n.to_string()).expect("room"))
        .collect();
    let file = file();
    server
        .open(&silent[0], "o", &file, Bits::READ, Bits::NONE)
        .expect("free");
    let asked = server.exchange_from(1, "new").expect("anybody may ask");
    let create = |server: &Server| server.create(asked.client, asked.sequence, "root").err();
    assert_eq!(create(&server), Some(Error::Resource));
    assert_eq!(
        server.state.who_gives_way(asked.client, server.now()),
        None,
        "all were heard of just now"
    );
    server.pass(limits::GIVING_WAY_SILENT_MS_MIN);
    drop(silent[2].request(&server));
    let gives_way = server.state.who_gives_way(asked.client, server.now());
    assert_eq!(gives_way, Some(silent[1].id), "not who holds something");
    let kept = server.expire(silent[0].id, Why::Room).err();
    assert_eq!(kept, Some(Error::Delay));
    assert!(
        server
            .expire(silent[1].id, Why::Room)
            .expect("idle")
            .is_empty()
    );
    assert_eq!(create(&server), None);
    drop(other.request(&server));
    // Who holds something gives way when its lease is over.
    server.pass(LEASE + 1);
    let asked = server.exchange_from(1, "last").expect("anybody may ask");
    let gives_way = server.state.who_gives_way(asked.client, server.now());
    assert_eq!(gives_way, Some(silent[0].id), "it was away longest");
}

#[test]
fn when_all_places_are_taken_the_host_with_most_gives_way() {
    let mut server = small(Bounds {
        clients_max: 3,
        ..Bounds::DEFAULT
    });
    for (host, name) in [(1, "a"), (2, "b"), (3, "c")] {
        drop(server.join_from(host, name).expect("room"));
    }
    let asked = server.exchange_from(4, "new").expect("anybody may ask");
    let refused = server.create(asked.client, asked.sequence, "root").err();
    assert_eq!(refused, Some(Error::Resource));
    server.pass(LEASE + 1);
    let asked = server.exchange_from(4, "new").expect("anybody may ask");
    let gives_way = server.state.who_gives_way(asked.client, server.now());
    let gone = server
        .expire(gives_way.expect("one"), Why::Room)
        .expect("idle");
    assert!(gone.is_empty());
    server
        .create(asked.client, asked.sequence, "root")
        .expect("room");
}

#[test]
fn one_host_leaves_room_for_sessions_of_others() {
    let mut server = small(Bounds {
        sessions_max: 8,
        ..Bounds::DEFAULT
    });
    let greedy = server.exchange_from(1, "greedy").expect("new").client;
    let made = (1..9).map_while(|sequence| server.create(greedy, sequence, "root").ok());
    assert_eq!(made.count(), 4);
    server.join_from(2, "polite").expect("room");
    server
        .state
        .client(greedy)
        .expect("there")
        .sessions()
        .iter()
        .for_each(|session| {
            let destroyed = server
                .state
                .destroy_session(session.id(), None, &principal("root"));
            destroyed.expect("idle");
        });
    assert!(
        server.create(greedy, 5, "root").is_ok(),
        "what is given back is free"
    );
}

#[test]
fn sessions_of_a_client_have_an_end() {
    let server = Server::new();
    let id = server.exchange("a", 1, "root", false).expect("new").client;
    let most = u32::try_from(limits::SESSIONS_PER_CLIENT_MAX).expect("few");
    for sequence in 1..=most {
        server
            .create(id, sequence, "root")
            .expect("within the bound");
    }
    assert_eq!(
        server.create(id, most + 1, "root").err(),
        Some(Error::Resource)
    );
    let session = server
        .state
        .client(id)
        .expect("confirmed")
        .sessions()
        .remove(0);
    server
        .state
        .destroy_session(session.id(), None, &principal("root"))
        .expect("idle");
    server
        .create(id, most + 1, "root")
        .expect("the sequence is as it was");
}

#[test]
fn a_session_is_destroyed_by_its_principal_when_nothing_else_is_in_progress() {
    let server = Server::new();
    let peer = server.arrive("a", 1);
    let id = peer.session.id();
    fn destroy(
        server: &Server,
        id: SessionId,
        by: Option<&Sequenced<()>>,
        user: &str,
    ) -> Result<(), Error> {
        server.state.destroy_session(id, by, &principal(user))
    }
    assert_eq!(destroy(&server, id, None, "other"), Err(Error::WrongCred));
    let own = peer.request(&server);
    assert_eq!(destroy(&server, id, None, "root"), Err(Error::Delay));
    let nfs_state::Begun::Run(second) = server
        .state
        .begin(&peer.session, &call(1, 1), server.now())
        .expect("another slot")
    else {
        panic!("it is new");
    };
    assert_eq!(destroy(&server, id, Some(&own), "root"), Err(Error::Delay));
    drop(second);
    assert_eq!(destroy(&server, id, Some(&own), "root"), Ok(()));
    own.finish(b"reply");
    assert_eq!(destroy(&server, id, None, "root"), Err(Error::BadSession));
    assert_eq!(peer.try_request(&server).err(), Some(Error::BadSession));
}

#[test]
fn a_client_id_is_destroyed_when_nothing_is_left() {
    let mut server = Server::new();
    let peer = server.join("a");
    let file = file();
    let open = server
        .open(&peer, "o", &file, Bits::READ, Bits::NONE)
        .expect("free");
    let root = principal("root");
    let destroy = |server: &Server, user: &Principal| server.state.destroy_client_id(peer.id, user);
    assert_eq!(destroy(&server, &root), Err(Error::ClientIdBusy));
    let request = peer.request(&server);
    let closed = server
        .state
        .close(&request, open.stateid().to_wire(), &file, server.now());
    closed.expect("it is open");
    drop(request);
    assert_eq!(
        destroy(&server, &root),
        Err(Error::ClientIdBusy),
        "it has a session"
    );
    server
        .state
        .destroy_session(peer.session.id(), None, &root)
        .expect("idle");
    assert_eq!(destroy(&server, &principal("other")), Err(Error::WrongCred));
    let removal = destroy(&server, &root)
        .expect("nothing is left")
        .expect("it had a record");
    assert_eq!((removal.owner, removal.client), (bytes("a"), peer.id));
    assert_eq!(destroy(&server, &root), Err(Error::StaleClientId));
}

#[test]
fn a_client_of_another_life_of_the_server_is_stale() {
    let mut server = Server::new();
    let peer = server.join("a");
    let old = peer.id;
    let server = server.restart();
    let new = server.exchange("a", 1, "root", false).expect("new").client;
    assert_eq!(old.index, new.index);
    assert_ne!(old, new);
    assert_eq!(
        server.create(old, 1, "root").err(),
        Some(Error::StaleClientId)
    );
    let lost = server.state.session(peer.session.id());
    assert_eq!(lost.err(), Some(Error::BadSession));
}

#[test]
fn the_operator_expires_a_client_between_two_of_its_requests() {
    let mut server = Server::new();
    let peer = server.join("a");
    let request = peer.request(&server);
    assert_eq!(
        server.expire(peer.id, Why::Operator).err(),
        Some(Error::Delay)
    );
    drop(request);
    assert!(
        server
            .expire(peer.id, Why::Operator)
            .expect("idle")
            .is_empty()
    );
    assert_eq!(peer.try_request(&server).err(), Some(Error::BadSession));
}
