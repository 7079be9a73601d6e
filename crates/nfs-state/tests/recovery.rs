//! Leases, courtesy, restarts, and the edge cases of RFC 8881 §8.4.2 and §8.4.3.

mod support;

use nfs_state::{
    Bits, Claim, Config, Error, Expiry, IoRight, LockKind, LockRefused, Range, Read, Refused,
    StateRef, Why, Write, limits,
};
use support::{CONFIG, Disk, LEASE, Server, file, principal, range};

const WHOLE: Range = Range::WHOLE;

#[test]
fn without_records_there_is_no_grace_period() {
    let mut server = Server::new();
    assert!(server.state.grace().is_over);
    let idle = server.arrive("idle", 1);
    server.complete(&idle).expect("the first time");
    assert!(
        server.disk.records.is_empty(),
        "an idle mount costs no write"
    );
    assert!(server.restart().state.grace().is_over);
}

#[test]
fn nothing_is_granted_before_the_record_is_on_the_disk() {
    let mut server = Server::new();
    let peer = server.join("a");
    let request = peer.request(&server);
    // The disk is full: the permit is not to be had, now or later, until it has been written.
    for _ in 0..2 {
        let admission = server.state.permit_new(&request).expect("no grace period");
        assert!(matches!(admission, nfs_state::Admission::Record(_)));
    }
    server.permit(&request).expect("written");
    let admission = server.state.permit_new(&request).expect("no grace period");
    assert!(matches!(admission, nfs_state::Admission::Granted(_)));
    assert_eq!(server.disk.records.len(), 1);
}

#[test]
fn a_permit_is_its_clients() {
    let mut server = Server::new();
    let (one, other) = (server.join("a"), server.join("b"));
    let permit = server
        .permit(&one.request(&server))
        .expect("no grace period");
    let args = nfs_state::OpenArgs {
        owner: support::bytes("o"),
        principal: principal("user"),
        file: file(),
        pin: (),
        share: nfs_state::Share::new(Bits::READ, Bits::NONE).expect("some"),
    };
    let refused = server.state.open(
        &other.request(&server),
        Claim::New(&permit),
        args,
        server.now(),
    );
    assert_eq!(refused.err(), Some(Refused::Status(Error::Perm)));
}

#[test]
fn grace_is_for_reclaims_and_ends_when_all_have_come_back() {
    let mut server = Server::new();
    let file = file();
    for name in ["a", "b"] {
        let peer = server.join(name);
        server
            .open(&peer, "o", &file, Bits::BOTH, Bits::NONE)
            .expect("free");
    }
    let (mut server, file) = (server.restart(), support::file());
    assert_eq!(server.state.grace().waiting, 2);
    let (a, b, c) = (
        server.arrive("a", 1),
        server.arrive("b", 1),
        server.arrive("c", 1),
    );
    let grace = Some(Refused::Status(Error::Grace));
    assert_eq!(
        server.open(&a, "o", &file, Bits::READ, Bits::NONE).err(),
        grace
    );
    let open = server
        .reclaim_open(&a, "o", &file, Bits::BOTH)
        .expect("it was its own");
    let bad = server.reclaim_open(&c, "o", &file, Bits::BOTH).err();
    assert_eq!(bad, Some(Refused::Status(Error::ReclaimBad)));
    // I/O goes on under a reclaimed open, and waits without one.
    let request = a.request(&server);
    let named = StateRef::parse(open.stateid().to_wire()).expect("a name");
    let right = |with| {
        server
            .state
            .io_right::<Write>(&request, &principal("user"), with, &file, server.now())
    };
    assert!(matches!(right(named), Ok(IoRight::Open(_))));
    assert_eq!(right(StateRef::Anonymous).err(), grace);
    drop(request);
    assert_eq!(server.complete(&a), Ok(false));
    assert_eq!(server.complete(&a), Err(Error::CompleteAlready));
    let late = server.reclaim_open(&a, "o", &file, Bits::BOTH).err();
    assert_eq!(late, Some(Refused::Status(Error::NoGrace)));
    assert_eq!(server.complete(&b), Ok(true), "the last one");
    assert!(server.state.tick(server.now()).grace_is_due);
    assert!(server.end_grace());
    assert!(!server.end_grace(), "there is one end");
    server.complete(&c).expect("the first time");
    server
        .open(&c, "o", &file, Bits::READ, Bits::NONE)
        .expect("everything is granted");
    assert!(
        server
            .disk
            .records
            .values()
            .all(|record| record.client.epoch.0 == 2)
    );
    assert!(
        !server.disk.records.contains_key(&support::bytes("b")),
        "it reclaimed nothing"
    );
}

/// Ending a grace period that was not there, and twice (CVE-2026-22980, CVE-2026-22989).
#[test]
fn the_operator_may_end_what_is_running_and_nothing_else() {
    let mut server = Server::new();
    assert!(!server.end_grace());
    let peer = server.join("a");
    server
        .open(&peer, "o", &file(), Bits::READ, Bits::NONE)
        .expect("free");
    let server = server.restart();
    let first = server.state.end_grace().expect("it is running");
    assert!(server.state.end_grace().is_none(), "somebody is ending it");
    assert!(
        !server.state.tick(server.now()).grace_is_due,
        "and no tick does"
    );
    drop(first);
    assert!(!server.state.grace().is_over, "the disk did not take it");
    server
        .state
        .end_grace()
        .expect("another attempt")
        .records_removed();
    assert!(server.state.grace().is_over);
    assert!(server.state.end_grace().is_none());
}

#[test]
fn the_end_of_grace_waits_for_a_reclaim_in_progress() {
    let mut server = Server::new();
    for name in ["a", "b"] {
        let peer = server.join(name);
        server
            .open(&peer, "o", &file(), Bits::READ, Bits::NONE)
            .expect("free");
    }
    let server = server.restart();
    let (a, b) = (server.arrive("a", 1), server.arrive("b", 1));
    let request = a.request(&server);
    let permit = server
        .state
        .permit_reclaim(&request)
        .expect("it has a record");
    assert!(server.state.end_grace().is_none());
    // From now on nobody else begins.
    let late = server.state.permit_reclaim(&b.request(&server));
    assert_eq!(late.err(), Some(Error::NoGrace));
    drop(permit);
    assert!(server.state.end_grace().is_some());
}

#[test]
fn a_client_that_comes_late_has_lost_what_it_held() {
    let mut server = Server::new();
    let file = file();
    let peer = server.join("a");
    server
        .open(&peer, "o", &file, Bits::BOTH, Bits::BOTH)
        .expect("free");
    let mut server = server.restart();
    server.pass(LEASE);
    assert!(server.state.tick(server.now()).grace_is_due);
    assert!(server.end_grace());
    let late = server.arrive("a", 1);
    let refused = server
        .reclaim_open(&late, "o", &support::file(), Bits::BOTH)
        .err();
    assert_eq!(refused, Some(Refused::Status(Error::NoGrace)));
    assert!(server.disk.records.is_empty());
}

#[test]
fn new_state_waits_for_the_clients_own_completion() {
    let mut server = Server::new();
    let peer = server.arrive("a", 1);
    let refused = server
        .open(&peer, "o", &file(), Bits::READ, Bits::NONE)
        .err();
    assert_eq!(refused, Some(Refused::Status(Error::Grace)));
    server.complete(&peer).expect("the first time");
    server
        .open(&peer, "o", &file(), Bits::READ, Bits::NONE)
        .expect("free");
}

/// §8.4.3, first edge: a client loses its lease, another one gets its lock and is done, the server restarts: the first
/// one must not reclaim.
#[test]
fn who_lost_a_lock_to_another_does_not_get_it_back_by_a_restart() {
    let mut server = Server::new();
    let file = file();
    let (a, b) = (server.join("a"), server.join("b"));
    let open = server
        .open(&a, "o", &file, Bits::BOTH, Bits::NONE)
        .expect("free");
    server
        .lock(&a, &open, "l", WHOLE, LockKind::Write)
        .expect("free");
    server.pass(LEASE + 1);
    let open = server
        .open(&b, "o", &file, Bits::BOTH, Bits::NONE)
        .expect("no conflict");
    let refused = server.lock(&b, &open, "l", WHOLE, LockKind::Write);
    assert_eq!(refused, Err(LockRefused::Expirable(a.id)));
    // Power is cut after the record is gone and before anything else happens.
    let Ok(Expiry::Remove(expiring)) = server.state.expire(a.id, Why::LeaseOver, server.now())
    else {
        panic!("it has a record");
    };
    assert!(matches!(
        server.lock(&b, &open, "l", WHOLE, LockKind::Write),
        Err(LockRefused::Expirable(_))
    ));
    drop(expiring);
    let mut cut = server.disk.clone();
    cut.records.remove(&support::bytes("a"));
    drop(server.expire(a.id, Why::LeaseOver).expect("idle"));
    server
        .lock(&b, &open, "l", WHOLE, LockKind::Write)
        .expect("it is free now");
    for disk in [cut, server.disk.clone()] {
        let server = Server::start(disk, CONFIG);
        let a = server.arrive("a", 1);
        let refused = server
            .reclaim_open(&a, "o", &support::file(), Bits::BOTH)
            .err();
        assert_eq!(refused, Some(Refused::Status(Error::ReclaimBad)));
        let b = server.arrive("b", 1);
        server
            .reclaim_open(&b, "o", &support::file(), Bits::BOTH)
            .expect("its own");
    }
}

/// §8.4.3, second edge: two restarts, with a grace period that ended in between without the client.
#[test]
fn who_missed_a_grace_period_does_not_reclaim_in_the_next() {
    let mut server = Server::new();
    let a = server.join("a");
    server
        .open(&a, "o", &file(), Bits::BOTH, Bits::NONE)
        .expect("free");
    let mut server = server.restart();
    server.pass(LEASE);
    assert!(server.end_grace());
    let b = server.join("b");
    server
        .open(&b, "o", &file(), Bits::BOTH, Bits::BOTH)
        .expect("granted to another");
    let server = server.restart();
    let a = server.arrive("a", 1);
    let refused = server.reclaim_open(&a, "o", &file(), Bits::BOTH).err();
    assert_eq!(refused, Some(Refused::Status(Error::ReclaimBad)));
}

/// Two restarts in a row: nothing was granted in between, so that the client may still reclaim.
#[test]
fn a_second_restart_within_the_grace_period_costs_nobody_anything() {
    let mut server = Server::new();
    let a = server.join("a");
    server
        .open(&a, "o", &file(), Bits::BOTH, Bits::NONE)
        .expect("free");
    let server = server.restart().restart();
    let a = server.arrive("a", 1);
    server
        .reclaim_open(&a, "o", &file(), Bits::BOTH)
        .expect("its own");
    let mut server = server.restart();
    let a = server.arrive("a", 1);
    server
        .reclaim_open(&a, "o", &file(), Bits::BOTH)
        .expect("its own, once more");
    server.complete(&a).expect("the first time");
    let server = server.restart();
    let a = server.arrive("a", 1);
    server
        .reclaim_open(&a, "o", &file(), Bits::BOTH)
        .expect("also after completion");
}

/// A client got half of its locks back when the grace period ended, others took the rest, and the server restarts:
/// the client must not reclaim the rest.
#[test]
fn half_a_recovery_gives_no_claim_to_the_other_half() {
    let mut server = Server::new();
    let a = server.join("a");
    for owner in ["first", "second"] {
        server
            .open(&a, owner, &file(), Bits::BOTH, Bits::NONE)
            .expect("free");
    }
    let mut server = server.restart();
    let a = server.arrive("a", 1);
    server
        .reclaim_open(&a, "first", &file(), Bits::BOTH)
        .expect("its own");
    server.pass(LEASE);
    assert!(server.end_grace());
    let b = server.join("b");
    server
        .open(&b, "o", &file(), Bits::BOTH, Bits::BOTH)
        .expect("the second half");
    let server = server.restart();
    let a = server.arrive("a", 1);
    let refused = server.reclaim_open(&a, "second", &file(), Bits::BOTH).err();
    assert_eq!(refused, Some(Refused::Status(Error::ReclaimBad)));
}

#[test]
fn another_principal_reclaims_nothing() {
    let mut server = Server::new();
    let a = server.join("a");
    server
        .open(&a, "o", &file(), Bits::BOTH, Bits::NONE)
        .expect("free");
    let server = server.restart();
    let exchanged = server
        .exchange("a", 1, "thief", false)
        .expect("nobody is here yet");
    let session = server
        .create(exchanged.client, 1, "thief")
        .expect("confirmed")
        .session;
    let session = session.expect("new");
    let begun = server
        .state
        .begin(&session, &support::call(0, 1), server.now());
    let Ok(nfs_state::Begun::Run(request)) = begun else {
        panic!("it is new");
    };
    let refused = server.state.permit_reclaim(&request);
    assert_eq!(refused.err(), Some(Error::ReclaimBad));
}

#[test]
fn a_reclaim_that_meets_another_is_refused() {
    let mut server = Server::new();
    let shared = file();
    let (a, b) = (server.join("a"), server.join("b"));
    let open = server
        .open(&a, "o", &shared, Bits::BOTH, Bits::NONE)
        .expect("free");
    server
        .lock(&a, &open, "l", range(0, 10), LockKind::Write)
        .expect("free");
    server
        .open(&b, "o", &shared, Bits::BOTH, Bits::NONE)
        .expect("free");
    let (server, shared) = (server.restart(), file());
    let (a, b) = (server.arrive("a", 1), server.arrive("b", 1));
    let reclaim = |peer: &support::Peer| {
        let open = server
            .reclaim_open(peer, "o", &shared, Bits::BOTH)
            .expect("its own");
        let request = peer.request(&server);
        let permit = server
            .state
            .permit_reclaim(&request)
            .expect("it has a record");
        server.lock_by(
            &request,
            Claim::Reclaim(&permit),
            &open,
            "l",
            range(0, 10),
            LockKind::Write,
        )
    };
    reclaim(&a).expect("its own");
    assert_eq!(
        reclaim(&b),
        Err(LockRefused::Status(Error::ReclaimConflict))
    );
}

#[test]
fn a_silent_client_keeps_what_it_has_until_somebody_wants_it() {
    let mut server = Server::new();
    let file = file();
    let (a, b) = (server.join("a"), server.join("b"));
    let open = server
        .open(&a, "o", &file, Bits::BOTH, Bits::WRITE)
        .expect("free");
    server.pass(LEASE * 10);
    drop(b.request(&server));
    let tick = server.state.tick(server.now());
    assert_eq!((tick.courtesy, tick.expire.len()), (1, 0));
    server
        .open(&b, "o", &file, Bits::READ, Bits::NONE)
        .expect("no conflict");
    drop(a.request(&server));
    let refused = server.open(&b, "p", &file, Bits::WRITE, Bits::NONE).err();
    assert_eq!(
        refused,
        Some(Refused::Status(Error::ShareDenied)),
        "it came back"
    );
    server.pass(LEASE + 1);
    drop(b.request(&server));
    let refused = server.open(&b, "p", &file, Bits::WRITE, Bits::NONE).err();
    assert_eq!(refused, Some(Refused::Expirable(a.id)));
    let released = server.expire(a.id, Why::LeaseOver).expect("idle");
    assert_eq!(released.opens.len(), 1);
    assert_eq!(released.opens[0].stateid(), open.stateid());
    server
        .open(&b, "p", &file, Bits::WRITE, Bits::NONE)
        .expect("free now");
    assert_eq!(a.try_request(&server).err(), Some(Error::BadSession));
}

/// A client was freed under a request of its own (CVE-2026-89662, CVE-2026-89708).
#[test]
fn nobody_is_expired_under_a_request() {
    let mut server = Server::new();
    let a = server.join("a");
    server
        .open(&a, "o", &file(), Bits::READ, Bits::NONE)
        .expect("free");
    let request = a.request(&server);
    server.pass(LEASE * 100);
    assert_eq!(
        server.expire(a.id, Why::LeaseOver).err(),
        Some(Error::Delay)
    );
    request.finish(b"long");
    drop(server.expire(a.id, Why::LeaseOver).expect("idle"));
    assert!(server.state.client(a.id).is_none());
}

#[test]
fn who_comes_back_in_time_is_not_expired() {
    let mut server = Server::new();
    let a = server.join("a");
    let open = server
        .open(&a, "o", &file(), Bits::READ, Bits::NONE)
        .expect("free");
    server.pass(LEASE + 1);
    let Ok(Expiry::Remove(expiring)) = server.state.expire(a.id, Why::LeaseOver, server.now())
    else {
        panic!("it has a record");
    };
    assert_eq!(a.try_request(&server).err(), Some(Error::Delay), "not now");
    let second = server.state.expire(a.id, Why::LeaseOver, server.now());
    assert_eq!(second.err(), Some(Error::Delay), "somebody is at it");
    drop(expiring);
    drop(a.request(&server));
    let late = server.state.expire(a.id, Why::LeaseOver, server.now());
    assert_eq!(late.err(), Some(Error::Delay), "it is alive");
    assert_eq!(open.file().opens(), 1);
}

/// The disk did not take the removal of a record, which may have reached it nevertheless.
#[test]
fn a_client_whose_record_may_be_gone_gets_nothing_new_before_it_is_written_again() {
    let mut server = Server::new();
    let (a, file) = (server.join("a"), file());
    server
        .open(&a, "o", &file, Bits::READ, Bits::NONE)
        .expect("free");
    server.pass(LEASE + 1);
    for _ in 0..2 {
        let expiry = server.state.expire(a.id, Why::LeaseOver, server.now());
        // Also at the second attempt: it may still be there.
        let Ok(Expiry::Remove(expiring)) = expiry else {
            panic!("it may have a record");
        };
        drop(expiring);
    }
    server.disk.records.clear();
    let request = a.request(&server);
    let admission = server.state.permit_new(&request).expect("no grace period");
    assert!(matches!(admission, nfs_state::Admission::Record(_)));
    server.permit(&request).expect("written");
    drop(request);
    assert_eq!(server.restart().state.grace().waiting, 1);
}

#[test]
fn idle_clients_without_state_go_with_their_lease() {
    let server = Server::new();
    let a = server.arrive("a", 1);
    server.pass(LEASE);
    assert!(server.state.tick(server.now()).expire.is_empty());
    server.pass(1);
    assert_eq!(server.state.tick(server.now()).expire, [a.id]);
}

#[test]
fn courtesy_lasts_a_day_and_for_so_many() {
    let mut server = Server::new();
    let a = server.join("a");
    server
        .open(&a, "o", &file(), Bits::READ, Bits::NONE)
        .expect("free");
    server.pass(LEASE + limits::COURTESY_MS_MAX);
    assert!(server.state.tick(server.now()).expire.is_empty());
    server.pass(1);
    assert_eq!(server.state.tick(server.now()).expire, [a.id]);
}

#[test]
fn beyond_the_bound_the_one_that_was_away_longest_goes_first() {
    let mut server = Server::new();
    let file = file();
    let mut ids = Vec::new();
    for n in 0..limits::COURTESY_MAX + 3 {
        let peer = server.join(&n.to_string());
        server
            .open(&peer, "o", &file, Bits::READ, Bits::NONE)
            .expect("free");
        ids.push(peer.id);
        server.pass(u64::from(n < 10));
    }
    server.pass(LEASE + 1);
    let tick = server.state.tick(server.now());
    assert_eq!(tick.expire, ids[..3]);
    assert_eq!(tick.courtesy, limits::COURTESY_MAX);
}

#[test]
fn beyond_the_bound_the_host_goes_first_that_has_more_than_its_part() {
    let mut server = Server::new();
    let file = file();
    let join = |server: &mut Server, host, n: usize| {
        let peer = server
            .join_from(host, &format!("{n} of {host}"))
            .expect("room");
        server
            .open(&peer, "o", &file, Bits::READ, Bits::NONE)
            .expect("free");
        peer.id
    };
    // The few have been away longest.
    for n in 0..5 {
        join(&mut server, 2, n);
        server.pass(1);
    }
    let many: Vec<_> = (0..limits::COURTESY_MAX)
        .map(|n| join(&mut server, 1, n))
        .collect();
    server.pass(LEASE + 1);
    let tick = server.state.tick(server.now());
    assert_eq!(tick.expire.len(), 5);
    assert!(tick.expire.iter().all(|id| many.contains(id)));
}

#[test]
fn a_record_of_a_later_life_survives_the_expiry_of_an_earlier_one() {
    let mut server = Server::new();
    let a = server.join("a");
    server
        .open(&a, "o", &file(), Bits::READ, Bits::NONE)
        .expect("free");
    server.pass(LEASE + 1);
    let Ok(Expiry::Remove(expiring)) = server.state.expire(a.id, Why::LeaseOver, server.now())
    else {
        panic!("it has a record");
    };
    let removal = expiring.removal().clone();
    let _released = server.state.record_removed(expiring, server.now());
    let again = server.join("a");
    server
        .open(&again, "o", &file(), Bits::READ, Bits::NONE)
        .expect("free");
    let stored = &server.disk.records[&support::bytes("a")];
    assert!(!removal.applies_to(stored));
}

#[test]
fn a_grace_period_of_no_length_is_due_at_once() {
    let mut server = Server::new();
    let a = server.join("a");
    server
        .open(&a, "o", &file(), Bits::READ, Bits::NONE)
        .expect("free");
    let config = Config {
        grace_ms: 0,
        ..CONFIG
    };
    let server = Server::start(server.disk, config);
    assert!(server.state.tick(server.now()).grace_is_due);
    assert!(Server::start(Disk::default(), config).state.grace().is_over);
}

#[test]
fn reading_past_a_reservation_is_for_reading_only() {
    let mut server = Server::new();
    let (a, b) = (server.join("a"), server.join("b"));
    let file = file();
    server
        .open(&a, "o", &file, Bits::READ, Bits::BOTH)
        .expect("free");
    let request = b.request(&server);
    let (state, now, user) = (&server.state, server.now(), principal("user"));
    let locked = Some(Refused::Status(Error::Locked));
    let bad = Some(Refused::Status(Error::BadStateId));
    let read = |with| {
        state
            .io_right::<Read>(&request, &user, with, &file, now)
            .err()
    };
    let write = |with| {
        state
            .io_right::<Write>(&request, &user, with, &file, now)
            .err()
    };
    assert_eq!(
        (read(StateRef::Anonymous), write(StateRef::Anonymous)),
        (locked, locked)
    );
    assert_eq!(
        (read(StateRef::ReadBypass), write(StateRef::ReadBypass)),
        (None, locked)
    );
    let free = crate::file();
    let write = |with| {
        state
            .io_right::<Write>(&request, &user, with, &free, now)
            .err()
    };
    assert_eq!(write(StateRef::ReadBypass), None, "it is as if anonymous");
    assert_eq!(
        (read(StateRef::Current), write(StateRef::Current)),
        (bad, bad)
    );
}
