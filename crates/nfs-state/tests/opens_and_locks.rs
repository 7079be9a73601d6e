//! OPEN, OPEN_DOWNGRADE, CLOSE, LOCK, LOCKT, LOCKU, TEST_STATEID, FREE_STATEID, and what READ and WRITE may.

mod support;

use std::sync::Arc;

use nfs_state::{
    Bits, Bounds, Claim, Config, Error, FileState, HostWork, IoRight, LockArgs, LockKind,
    LockOwner, LockRefused, Locker, OpenState, Range, Read, Refused, Sequenced, Share, StateId,
    StateRef, Write, limits,
};
use support::{CONFIG, Disk, Peer, Pin, Server, bytes, file, principal, range};

const DENIED: Option<Refused> = Some(Refused::Status(Error::ShareDenied));

fn share(access: Bits, deny: Bits) -> Share {
    Share::new(access, deny).expect("some access")
}

#[test]
fn an_owner_that_opens_again_has_one_open_with_both_accesses() {
    let mut server = Server::new();
    let (a, file) = (server.join("a"), file());
    let first = server
        .open(&a, "o", &file, Bits::READ, Bits::NONE)
        .expect("free");
    let before = first.stateid().to_wire();
    let again = server
        .open(&a, "o", &file, Bits::WRITE, Bits::NONE)
        .expect("its own");
    let after = again.stateid().to_wire();
    assert!(Arc::ptr_eq(&first, &again));
    assert_eq!((before.seqid, after.seqid), (1, 2));
    assert_eq!(before.other, after.other);
    assert_eq!(again.access(), Bits::BOTH);
    assert_eq!(file.opens(), 1);
    let other = server
        .open(&a, "p", &file, Bits::READ, Bits::NONE)
        .expect("free");
    assert_ne!(other.stateid().to_wire().other, after.other);
}

#[test]
fn shares_stand_against_all_other_owners() {
    let mut server = Server::new();
    let (a, b, file) = (server.join("a"), server.join("b"), file());
    server
        .open(&a, "o", &file, Bits::READ, Bits::WRITE)
        .expect("free");
    for (peer, owner) in [(&a, "p"), (&b, "o")] {
        assert_eq!(
            server
                .open(peer, owner, &file, Bits::WRITE, Bits::NONE)
                .err(),
            DENIED
        );
        assert_eq!(
            server
                .open(peer, owner, &file, Bits::READ, Bits::READ)
                .err(),
            DENIED
        );
        server
            .open(peer, owner, &file, Bits::READ, Bits::NONE)
            .expect("no conflict");
    }
    // An upgrade that meets another leaves the open as it was.
    assert_eq!(
        server.open(&a, "o", &file, Bits::READ, Bits::READ).err(),
        DENIED
    );
    let own = server
        .open(&a, "o", &file, Bits::WRITE, Bits::NONE)
        .expect("its own denial is not against it");
    assert_eq!((own.access(), own.deny()), (Bits::BOTH, Bits::WRITE));
}

#[test]
fn a_downgrade_leads_back_to_what_was_opened() {
    let mut server = Server::new();
    let (a, b, file) = (server.join("a"), server.join("b"), file());
    server
        .open(&a, "o", &file, Bits::READ, Bits::NONE)
        .expect("free");
    let open = server
        .open(&a, "o", &file, Bits::BOTH, Bits::WRITE)
        .expect("its own");
    let request = a.request(&server);
    let id = open.stateid().to_wire();
    let down = |share| server.state.open_downgrade(&request, id, &file, share);
    assert_eq!(down(share(Bits::WRITE, Bits::NONE)), Err(Error::Inval));
    let after = down(share(Bits::READ, Bits::NONE))
        .expect("it was opened so")
        .to_wire();
    assert_eq!(after.seqid, id.seqid + 1);
    assert_eq!(down(share(Bits::READ, Bits::NONE)), Err(Error::OldStateId));
    drop(request);
    assert_eq!(open.access(), Bits::READ);
    server
        .open(&b, "o", &file, Bits::WRITE, Bits::NONE)
        .expect("nobody denies it any more");
}

#[test]
fn close_ends_the_open_and_its_locks() {
    let mut server = Server::new();
    let (a, b, file) = (server.join("a"), server.join("b"), file());
    let open = server
        .open(&a, "o", &file, Bits::BOTH, Bits::BOTH)
        .expect("free");
    let lock = server
        .lock(&a, &open, "l", Range::WHOLE, LockKind::Write)
        .expect("free");
    let request = a.request(&server);
    let id = open.stateid().to_wire();
    let elsewhere = server
        .state
        .close(&request, id, &support::file(), server.now());
    assert_eq!(
        elsewhere.err(),
        Some(Error::BadStateId),
        "it is another file's"
    );
    let closed = server
        .state
        .close(&request, id, &file, server.now())
        .expect("it is open");
    assert_eq!(
        (closed.released.opens.len(), closed.released.files.len()),
        (1, 1)
    );
    assert_eq!((file.opens(), file.locks().len()), (0, 0));
    let again = server.state.close(&request, id, &file, server.now());
    assert_eq!(again.err(), Some(Error::BadStateId));
    assert_eq!(
        server.state.test_stateids(&request, &[id, lock]),
        [Err(Error::BadStateId); 2]
    );
    drop(request);
    server
        .open(&b, "o", &file, Bits::BOTH, Bits::BOTH)
        .expect("free");
}

#[test]
fn locks_split_merge_upgrade_and_downgrade() {
    let mut server = Server::new();
    let (a, file) = (server.join("a"), file());
    let open = server
        .open(&a, "o", &file, Bits::BOTH, Bits::NONE)
        .expect("free");
    let first = server
        .lock(&a, &open, "l", range(0, 100), LockKind::Write)
        .expect("free");
    let second = server
        .lock(&a, &open, "l", range(40, 20), LockKind::Read)
        .expect("its own");
    assert_eq!(first.other, second.other);
    assert_eq!(second.seqid, first.seqid + 1);
    let locks: Vec<_> = file
        .locks()
        .into_iter()
        .map(|(_, range, kind)| (range, kind))
        .collect();
    let expected = [
        (range(0, 40), LockKind::Write),
        (range(40, 20), LockKind::Read),
        (range(60, 40), LockKind::Write),
    ];
    assert_eq!(locks, expected);
    let request = a.request(&server);
    let unlocked = server
        .state
        .unlock(&request, second, &file, range(0, u64::MAX), server.now());
    let after = unlocked.expect("its own").stateid.to_wire();
    assert!(file.locks().is_empty());
    let old = server
        .state
        .unlock(&request, second, &file, range(0, 1), server.now());
    assert_eq!(old.err(), Some(Error::OldStateId));
    let current = StateId { seqid: 0, ..after };
    server
        .state
        .unlock(&request, current, &file, range(0, 1), server.now())
        .expect("whatever it is now");
}

#[test]
fn who_is_denied_learns_who_holds_what() {
    let mut server = Server::new();
    let (a, b, file) = (server.join("a"), server.join("b"), file());
    let opens = [&a, &b].map(|peer| {
        server
            .open(peer, "o", &file, Bits::BOTH, Bits::NONE)
            .expect("free")
    });
    server
        .lock(&a, &opens[0], "holder", range(10, u64::MAX), LockKind::Read)
        .expect("free");
    let denied = server
        .lock(&b, &opens[1], "l", range(0, 11), LockKind::Write)
        .expect_err("held");
    let LockRefused::Denied(holder) = &denied else {
        panic!("{denied:?}");
    };
    let owner = LockOwner::V4 {
        client: a.id,
        owner: bytes("holder"),
    };
    assert_eq!((&holder.owner, holder.kind), (&owner, LockKind::Read));
    assert_eq!(
        (holder.range.offset(), holder.range.length()),
        (10, u64::MAX)
    );
    let request = b.request(&server);
    let test = |range, kind| {
        server
            .state
            .test_lock(&request, &bytes("l"), &file, (range, kind), server.now())
    };
    assert_eq!(test(range(0, 11), LockKind::Write), Err(denied.clone()));
    assert_eq!(test(range(0, 11), LockKind::Read), Ok(()));
    assert_eq!(test(range(0, 10), LockKind::Write), Ok(()));
}

#[test]
fn a_lock_needs_the_access_it_stands_for() {
    let mut server = Server::new();
    let (a, file) = (server.join("a"), file());
    let mode = Err(LockRefused::Status(Error::OpenMode));
    let reader = server
        .open(&a, "r", &file, Bits::READ, Bits::NONE)
        .expect("free");
    let writer = server
        .open(&a, "w", &file, Bits::WRITE, Bits::NONE)
        .expect("free");
    assert_eq!(
        server.lock(&a, &reader, "l", Range::WHOLE, LockKind::Write),
        mode
    );
    assert_eq!(
        server.lock(&a, &writer, "l", Range::WHOLE, LockKind::Read),
        mode
    );
    server
        .lock(&a, &reader, "l", range(0, 1), LockKind::Read)
        .expect("open for it");
    server
        .lock(&a, &writer, "m", range(1, 1), LockKind::Write)
        .expect("open for it");
}

/// A stateid of one kind was taken for another, or for another client's (a type confusion elsewhere).
#[test]
fn a_stateid_serves_its_kind_client_and_file_only() {
    let mut server = Server::new();
    let (a, b, file) = (server.join("a"), server.join("b"), file());
    let open = server
        .open(&a, "o", &file, Bits::BOTH, Bits::NONE)
        .expect("free");
    let lock = server
        .lock(&a, &open, "l", range(0, 1), LockKind::Write)
        .expect("free");
    let open = open.stateid().to_wire();
    let (mine, other) = (a.request(&server), b.request(&server));
    let (state, now, bad) = (&server.state, server.now(), Some(Error::BadStateId));
    assert_eq!(state.close(&mine, lock, &file, now).err(), bad);
    assert_eq!(state.close(&other, open, &file, now).err(), bad);
    assert_eq!(
        state.unlock(&mine, open, &file, range(0, 1), now).err(),
        bad
    );
    assert_eq!(
        state.unlock(&other, lock, &file, range(0, 1), now).err(),
        bad
    );
    assert_eq!(
        state
            .unlock(&mine, lock, &support::file(), range(0, 1), now)
            .err(),
        bad
    );
    assert_eq!(state.free_stateid(&other, lock).err(), bad);
    assert_eq!(
        state.test_stateids(&other, &[open, lock]),
        [Err(Error::BadStateId); 2]
    );
    for (id, file) in [(open, &support::file()), (lock, &support::file())] {
        let named = StateRef::parse(id).expect("a name");
        let right = state.io_right::<Read>(&mine, &principal("user"), named, file, now);
        assert_eq!(right.err(), Some(Refused::Status(Error::BadStateId)));
    }
}

#[test]
fn test_stateid_tells_old_from_bad_and_never_stale() {
    let mut server = Server::new();
    let (a, file) = (server.join("a"), file());
    let open = server
        .open(&a, "o", &file, Bits::READ, Bits::NONE)
        .expect("free");
    let old = open.stateid().to_wire();
    server
        .open(&a, "o", &file, Bits::WRITE, Bits::NONE)
        .expect("its own");
    let now = open.stateid().to_wire();
    let mut other_life = now;
    other_life.other[3] ^= 1;
    let mut other_kind = now;
    other_kind.other[7] ^= 7;
    let beyond = StateId {
        seqid: now.seqid + 1,
        ..now
    };
    let zero = StateId { seqid: 0, ..now };
    let special = [[0; 12], [0xff; 12]].map(|other| StateId {
        seqid: other[0].into(),
        other,
    });
    let ids = [
        now,
        zero,
        old,
        beyond,
        other_life,
        other_kind,
        StateId::INVALID,
        special[0],
        special[1],
    ];
    let bad = Err(Error::BadStateId);
    let expected = [
        Ok(()),
        Ok(()),
        Err(Error::OldStateId),
        bad,
        bad,
        bad,
        bad,
        bad,
        bad,
    ];
    assert_eq!(
        server.state.test_stateids(&a.request(&server), &ids),
        expected
    );
}

#[test]
fn free_stateid_frees_locks_that_hold_nothing() {
    let mut server = Server::new();
    let (a, file) = (server.join("a"), file());
    let open = server
        .open(&a, "o", &file, Bits::BOTH, Bits::NONE)
        .expect("free");
    let lock = server
        .lock(&a, &open, "l", range(0, 1), LockKind::Write)
        .expect("free");
    let request = a.request(&server);
    let free = |id| server.state.free_stateid(&request, id);
    assert_eq!(free(open.stateid().to_wire()), Err(Error::LocksHeld));
    assert_eq!(free(lock), Err(Error::LocksHeld));
    let unlocked = server
        .state
        .unlock(&request, lock, &file, Range::WHOLE, server.now());
    let id = unlocked.expect("its own").stateid.to_wire();
    assert_eq!(free(lock), Err(Error::OldStateId));
    assert_eq!(free(id), Ok(()));
    assert_eq!(free(id), Err(Error::BadStateId));
}

fn right<A: nfs_state::Access>(
    server: &Server,
    request: &Sequenced<Pin>,
    user: &str,
    id: StateId,
    file: &FileState,
) -> Result<Option<bool>, Refused> {
    let named = StateRef::parse(id).expect("a name");
    let right = server
        .state
        .io_right::<A>(request, &principal(user), named, file, server.now())?;
    Ok(match right {
        IoRight::Open(_) => Some(true),
        IoRight::PerCall(Some(_)) => Some(false),
        IoRight::PerCall(None) => None,
    })
}

#[test]
fn an_open_is_a_right_for_who_opened_it_and_as_far_as_it_goes() {
    let mut server = Server::new();
    let (a, file) = (server.join("a"), file());
    let reader = server
        .open(&a, "r", &file, Bits::READ, Bits::NONE)
        .expect("free");
    let writer = server
        .open(&a, "w", &file, Bits::WRITE, Bits::NONE)
        .expect("free");
    let lock = server
        .lock(&a, &writer, "l", range(0, 1), LockKind::Write)
        .expect("free");
    let (reader, writer) = (reader.stateid().to_wire(), writer.stateid().to_wire());
    let request = a.request(&server);
    let mode = Err(Refused::Status(Error::OpenMode));
    assert_eq!(
        right::<Read>(&server, &request, "user", reader, &file),
        Ok(Some(true))
    );
    assert_eq!(
        right::<Write>(&server, &request, "user", reader, &file),
        mode
    );
    assert_eq!(
        right::<Write>(&server, &request, "user", writer, &file),
        Ok(Some(true))
    );
    assert_eq!(
        right::<Write>(&server, &request, "user", lock, &file),
        Ok(Some(true))
    );
    assert_eq!(
        right::<Read>(&server, &request, "user", writer, &file),
        Ok(Some(false)),
        "the kernel decides"
    );
    for id in [reader, writer] {
        assert_eq!(
            right::<Read>(&server, &request, "another", id, &file),
            Ok(Some(false))
        );
    }
}

#[test]
fn an_open_that_two_principals_share_is_no_ones_right() {
    let mut server = Server::new();
    let (a, file) = (server.join("a"), file());
    let open = server
        .open(&a, "o", &file, Bits::READ, Bits::NONE)
        .expect("free");
    let request = a.request(&server);
    let permit = server.permit(&request).expect("no grace period");
    let args = nfs_state::OpenArgs {
        owner: bytes("o"),
        principal: principal("root"),
        file: Arc::clone(&file),
        pin: (),
        share: share(Bits::WRITE, Bits::NONE),
    };
    server
        .state
        .open(&request, Claim::New(&permit), args, server.now())
        .expect("one owner");
    let id = open.stateid().to_wire();
    for user in ["user", "root"] {
        assert_eq!(
            right::<Write>(&server, &request, user, id, &file),
            Ok(Some(false))
        );
    }
}

/// A LOCK whose first half is done, waiting.
fn reserve(
    server: &mut Server,
    peer: &Peer,
    open: &OpenState<Pin>,
    wait: bool,
) -> (
    Sequenced<Pin>,
    Result<nfs_state::Reservation<Pin>, LockRefused>,
) {
    let request = peer.request(server);
    let permit = server.permit(&request).expect("no grace period");
    let args = LockArgs {
        locker: Locker::New {
            open: open.stateid().to_wire(),
            owner: &bytes("l"),
        },
        file: open.file(),
        range: Range::WHOLE,
        kind: LockKind::Write,
        wait,
    };
    let reserved = server
        .state
        .lock(&request, Claim::New(&permit), &args, server.now());
    (request, reserved)
}

#[test]
fn a_lock_that_the_host_refuses_leaves_nothing_behind() {
    let mut server = Server::new();
    let (a, b, file) = (server.join("a"), server.join("b"), file());
    let opens = [&a, &b].map(|peer| {
        server
            .open(peer, "o", &file, Bits::BOTH, Bits::NONE)
            .expect("free")
    });
    let (request, reserved) = reserve(&mut server, &a, &opens[0], false);
    let reservation = reserved.expect("free");
    let delay = LockRefused::Status(Error::Delay);
    assert_eq!(
        server.lock(&b, &opens[1], "l", Range::WHOLE, LockKind::Read),
        Err(delay)
    );
    let HostWork::Turn(turn) = file.host_turn() else {
        panic!("the host is to be asked");
    };
    drop(turn);
    assert!(reservation.give_up(server.now()).is_empty());
    assert!(matches!(file.host_turn(), HostWork::Nothing));
    drop(request);
    server
        .lock(&b, &opens[1], "l", Range::WHOLE, LockKind::Read)
        .expect("free");
}

#[test]
fn a_lock_whose_open_is_closed_meanwhile_is_not_granted() {
    let mut server = Server::new();
    let (a, file) = (server.join("a"), file());
    let open = server
        .open(&a, "o", &file, Bits::BOTH, Bits::NONE)
        .expect("free");
    let (request, reserved) = reserve(&mut server, &a, &open, false);
    let closed = server
        .state
        .close(&request, open.stateid().to_wire(), &file, server.now());
    closed.expect("it is open");
    let confirmed = reserved.expect("free").confirm(server.now());
    assert_eq!(confirmed.err(), Some(Error::BadStateId));
    assert!(file.locks().is_empty());
}

#[test]
fn who_waits_is_told_through_its_open() {
    let mut server = Server::new();
    let (a, b, file) = (server.join("a"), server.join("b"), file());
    let opens = [&a, &b].map(|peer| {
        server
            .open(peer, "o", &file, Bits::BOTH, Bits::NONE)
            .expect("free")
    });
    let held = server
        .lock(&a, &opens[0], "l", Range::WHOLE, LockKind::Write)
        .expect("free");
    let (request, denied) = reserve(&mut server, &b, &opens[1], true);
    assert!(matches!(denied, Err(LockRefused::Denied(_))));
    drop(request);
    let request = a.request(&server);
    let unlocked = server
        .state
        .unlock(&request, held, &file, Range::WHOLE, server.now())
        .expect("its own");
    let notice = server
        .state
        .notice(&unlocked.notify[0])
        .expect("it is there");
    assert_eq!((notice.client, &notice.owner), (b.id, &bytes("l")));
    assert!(Arc::ptr_eq(&notice.open, &opens[1]));
    drop(request);
    // The range is promised to b, and a does not come first.
    let again = server.lock(&a, &opens[0], "l", Range::WHOLE, LockKind::Write);
    assert!(matches!(again, Err(LockRefused::Denied(_))));
    server
        .lock(&b, &opens[1], "l", Range::WHOLE, LockKind::Write)
        .expect("promised");
}

#[test]
fn lock_stateids_of_a_client_have_an_end() {
    let mut server = Server::new();
    let (a, file) = (server.join("a"), file());
    let open = server
        .open(&a, "o", &file, Bits::BOTH, Bits::NONE)
        .expect("free");
    let request = a.request(&server);
    let permit = server.permit(&request).expect("no grace period");
    for n in 0..limits::LOCK_STATES_PER_CLIENT_MAX {
        let owner = n.to_string();
        let id = server.lock_by(
            &request,
            Claim::New(&permit),
            &open,
            &owner,
            range(0, 1),
            LockKind::Read,
        );
        let id = id.expect("readers share");
        server
            .state
            .unlock(&request, id, &file, range(0, 1), server.now())
            .expect("its own");
    }
    let one_more = server.lock_by(
        &request,
        Claim::New(&permit),
        &open,
        "one more",
        range(0, 1),
        LockKind::Read,
    );
    assert_eq!(one_more, Err(LockRefused::Status(Error::Resource)));
}

#[test]
fn a_client_that_is_expired_leaves_no_locks() {
    let mut server = Server::new();
    let (a, file) = (server.join("a"), file());
    let open = server
        .open(&a, "o", &file, Bits::BOTH, Bits::BOTH)
        .expect("free");
    server
        .lock(&a, &open, "l", range(5, 5), LockKind::Write)
        .expect("free");
    if let HostWork::Turn(mut turn) = file.host_turn() {
        turn.succeeded();
    }
    server.pass(support::LEASE + 1);
    let released = server
        .expire(a.id, nfs_state::Why::LeaseOver)
        .expect("idle");
    assert_eq!(released.files.len(), 1);
    assert_eq!(
        (file.opens(), file.locks().len(), file.denied()),
        (0, 0, Bits::NONE)
    );
    let HostWork::Turn(turn) = file.host_turn() else {
        panic!("the host has to be told");
    };
    assert_eq!(
        turn.next_step().map(|step| (step.range, step.kind)),
        Some((range(5, 5), None))
    );
}

#[test]
fn one_host_leaves_opens_and_locks_to_others() {
    let bounds = Bounds {
        opens_max: 8,
        lock_states_max: 6,
        ranges_max: 6,
        ..Bounds::DEFAULT
    };
    let mut server = Server::start(Disk::default(), Config { bounds, ..CONFIG });
    let greedy = server.join_from(1, "greedy").expect("room");
    let polite = server.join_from(2, "polite").expect("room");
    let files: Vec<_> = (0..8).map(|_| file()).collect();
    let opens: Vec<_> = files
        .iter()
        .map_while(|file| server.open(&greedy, "o", file, Bits::BOTH, Bits::NONE).ok())
        .collect();
    assert_eq!(opens.len(), 4, "half of all");
    let more = server.open(&greedy, "o", &files[7], Bits::BOTH, Bits::NONE);
    assert_eq!(more.err(), Some(Error::Resource.into()));
    let open = server.open(&polite, "o", &files[0], Bits::BOTH, Bits::NONE);
    let open = open.expect("room for who has nothing");

    let lock = |server: &mut Server, peer, open: &_, owner: &str, at| {
        server.lock(peer, open, owner, range(at, 1), LockKind::Write)
    };
    for (n, owner) in ["a", "b", "c"].into_iter().enumerate() {
        lock(&mut server, &greedy, &opens[0], owner, 10 * n as u64).expect("within its share");
    }
    // Neither another owner nor another range of one that it has.
    for owner in ["d", "a"] {
        let more = lock(&mut server, &greedy, &opens[0], owner, 100);
        assert_eq!(more, Err(Error::Resource.into()), "{owner}");
    }
    let id = lock(&mut server, &polite, &open, "p", 200).expect("room");
    let unlocked = {
        let request = polite.request(&server);
        server
            .state
            .unlock(&request, id, &files[0], range(200, 1), server.now())
    };
    assert!(unlocked.is_ok());
    // All of it comes back with its holder.
    let gone = server
        .expire(greedy.id, nfs_state::Why::Operator)
        .expect("idle");
    drop((gone, opens));
    for n in 0..3 {
        lock(&mut server, &polite, &open, "p", 10 * n).expect("room again");
    }
}
