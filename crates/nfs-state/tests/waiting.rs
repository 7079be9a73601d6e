//! Who waits for a lock: told in turn, whatever becomes of those before; and how a client that cannot be told learns of it.

mod support;

use std::collections::BTreeMap;
use std::sync::Arc;

use fastrand::Rng;
use nfs_state::{
    Bits, CallbackEnd, Claim, ConnId, CreateSession, Direction, FileState, LockArgs, LockKind,
    LockOwner, LockRefused, Locker, Notify, OpenState, Range, StateId, StatusFlags, Why, limits,
};
use support::{CHANNEL, LEASE, Peer, Pin, Server, bytes, file, principal, way_back};

/// A client that can be called over connection 1.
fn with_way_back(server: &mut Server, name: &str) -> Peer {
    let exchanged = server.exchange(name, 1, "root", false).expect("new");
    let asked = CreateSession {
        client: exchanged.client,
        sequence: exchanged.sequence,
        principal: &principal("root"),
        fore: CHANNEL,
        back: Some(way_back()),
        binds_back: true,
        connection: ConnId(1),
        nonce: 0,
    };
    let created = server.state.create_session(&asked, server.now());
    let created = created.expect("confirmed");
    assert!(created.made.is_bound_back);
    let peer = Peer::of(exchanged.client, created.session.expect("no retry"));
    server.complete(&peer).expect("the first time");
    peer
}

fn open(server: &mut Server, peer: &Peer, file: &Arc<FileState>) -> Arc<OpenState<Pin>> {
    let opened = server.open(peer, "o", file, Bits::BOTH, Bits::NONE);
    opened.expect("free")
}

/// LOCK of the whole file for writing, by an owner that waits.
fn wait(
    server: &mut Server,
    peer: &Peer,
    open: &OpenState<Pin>,
    owner: &str,
) -> Result<StateId, LockRefused> {
    let request = peer.request(server);
    let permit = server.permit(&request).expect("no grace period");
    let args = LockArgs {
        locker: Locker::New {
            open: open.stateid().to_wire(),
            owner: &bytes(owner),
        },
        file: open.file(),
        range: Range::WHOLE,
        kind: LockKind::Write,
        wait: true,
    };
    let now = server.now();
    let reservation = server
        .state
        .lock(&request, Claim::New(&permit), &args, now)?;
    let (stateid, _notify) = reservation.confirm(now).expect("it is open");
    Ok(stateid.to_wire())
}

fn owners<'a>(notify: impl IntoIterator<Item = &'a Notify>) -> Vec<String> {
    let names = notify.into_iter().map(|Notify(wait)| match &wait.owner {
        LockOwner::V4 { owner, .. } => String::from_utf8_lossy(owner.as_bytes()).into_owned(),
        other @ LockOwner::Nlm { .. } => panic!("{other:?}"),
    });
    names.collect()
}

#[test]
fn a_way_back_that_is_gone_is_told_to_whom_something_rests_on_it() {
    let mut server = Server::new();
    let (peer, file) = (with_way_back(&mut server, "a"), file());
    let flags = |server: &Server| server.state.status_flags(&peer.session);
    let nothing = StatusFlags::default();
    peer.session.unbind(ConnId(1));
    assert_eq!(flags(&server), nothing, "it expects no calls");
    peer.session.bind(ConnId(2), Direction::Both);
    let opened = open(&mut server, &peer, &file);
    let request = peer.request(&server);
    assert!(server.state.promise_notices(&request));
    drop(request);
    assert_eq!(flags(&server), nothing, "there is a way");
    peer.session.unbind(ConnId(2));
    let both = StatusFlags::CB_PATH_DOWN.0 | StatusFlags::CB_PATH_DOWN_SESSION.0;
    assert_eq!(flags(&server), StatusFlags(both));
    let request = peer.request(&server);
    assert!(!server.state.promise_notices(&request));
    drop(request);
    peer.session.bind(ConnId(3), Direction::Fore);
    assert_eq!(flags(&server), StatusFlags(both), "no way back");
    peer.session.bind(ConnId(3), Direction::Both);
    assert_eq!(flags(&server), nothing);
    let callback = peer.session.call_back().expect("there is a way");
    let unanswered = CallbackEnd::Unanswered;
    assert!(!peer.session.called_back(&callback, unanswered));
    assert_eq!(flags(&server), StatusFlags(both), "it did not answer");
    let request = peer.request(&server);
    let id = opened.stateid().to_wire();
    let now = server.now();
    let closed = server.state.close(&request, id, &file, now);
    assert!(closed.expect("open").released.notify.is_empty());
    drop(request);
    assert_eq!(flags(&server), nothing, "nothing rests on it any more");
}

#[test]
fn what_ends_a_lock_tells_who_waits_for_it() {
    for how in ["CLOSE", "expiry"] {
        let mut server = Server::new();
        let (a, b) = (server.join("a"), server.join("b"));
        let file = file();
        let opens = [&a, &b].map(|peer| open(&mut server, peer, &file));
        wait(&mut server, &a, &opens[0], "a").expect("free");
        assert!(wait(&mut server, &b, &opens[1], "b").is_err());
        let released = if how == "CLOSE" {
            let request = a.request(&server);
            let (id, now) = (opens[0].stateid().to_wire(), server.now());
            let closed = server.state.close(&request, id, &file, now);
            closed.expect("open").released
        } else {
            server.expire(a.id, Why::Operator).expect("gone")
        };
        let told = owners(released.notify.iter().map(|(_, notify)| notify));
        assert_eq!(told, ["b"], "{how}");
        assert!(Arc::ptr_eq(&released.notify[0].0, &file));
    }
}

#[test]
fn who_is_away_is_expired_when_somebody_waits_for_its_lock() {
    let mut server = Server::new();
    let (a, b) = (server.join("a"), server.join("b"));
    let file = file();
    let opens = [&a, &b].map(|peer| open(&mut server, peer, &file));
    wait(&mut server, &a, &opens[0], "a").expect("free");
    server.pass(LEASE);
    assert!(wait(&mut server, &b, &opens[1], "b").is_err());
    assert!(server.state.tick(server.now()).expire.is_empty());
    server.pass(1);
    assert_eq!(server.state.tick(server.now()).expire, [a.id]);
    let released = server.expire(a.id, Why::LeaseOver).expect("gone");
    let told = owners(released.notify.iter().map(|(_, notify)| notify));
    assert_eq!(told, ["b"]);
    // Without anybody who waits, it would keep what it has.
    wait(&mut server, &b, &opens[1], "b").expect("promised");
    server.pass(LEASE + 1);
    assert!(server.state.tick(server.now()).expire.is_empty());
}

/// A tick looks at so many locks of a client that is away; who waits in another file gets it by asking again.
#[test]
fn so_many_locks_of_a_client_that_is_away_are_looked_at() {
    const BEYOND: usize = 100;
    let mut server = Server::new();
    let (a, b) = (server.join("a"), server.join("b"));
    let files = (0..limits::LOCKS_LOOKED_AT_MAX + BEYOND).map(|_| file());
    let files: Vec<_> = files.collect();
    for file in &files {
        let opened = open(&mut server, &a, file);
        wait(&mut server, &a, &opened, "a").expect("free");
    }
    let (mut seen, mut unseen) = (0, 0);
    for file in &files {
        let opened = open(&mut server, &b, file);
        assert!(wait(&mut server, &b, &opened, "b").is_err());
        server.pass(LEASE + 1);
        drop(b.request(&server));
        match server.state.tick(server.now()).expire.as_slice() {
            [] => {
                unseen += 1;
                let asked = wait(&mut server, &b, &opened, "b").err();
                assert_eq!(asked, Some(LockRefused::Expirable(a.id)));
            }
            [id] => {
                seen += 1;
                assert_eq!(*id, a.id);
            }
            other => panic!("{other:?}"),
        }
        drop(a.request(&server));
        let request = b.request(&server);
        let id = opened.stateid().to_wire();
        let closed = server.state.close(&request, id, file, server.now());
        closed.expect("open");
    }
    assert_eq!((seen, unseen), (limits::LOCKS_LOOKED_AT_MAX, BEYOND));
}

#[test]
fn who_waits_for_a_local_program_has_its_place() {
    let mut server = Server::new();
    let (a, file) = (server.join("a"), file());
    let opened = open(&mut server, &a, &file);
    for _ in 0..2 {
        let request = a.request(&server);
        let permit = server.permit(&request).expect("no grace period");
        let args = LockArgs {
            locker: Locker::New {
                open: opened.stateid().to_wire(),
                owner: &bytes("a"),
            },
            file: &file,
            range: Range::WHOLE,
            kind: LockKind::Write,
            wait: true,
        };
        let now = server.now();
        let claim = Claim::New(&permit);
        let reserved = server.state.lock(&request, claim, &args, now);
        let others = reserved.expect("no client has it").give_up_for_now(now);
        assert!(others.is_empty(), "not itself: {others:?}");
        assert_eq!(file.wanted_first(8), [(Range::WHOLE, LockKind::Write)]);
        drop(request);
        // The host has it free now; when it asks, somebody else has it again.
        let free = file.wanted_first(8);
        assert_eq!(owners(&file.host_let_go(&free, now)), ["a"]);
    }
    server.pass(limits::CLAIM_MS_MAX);
    assert!(file.promises_lapsed(server.now()).is_empty());
    assert_eq!(file.waiters(), 0, "it did not ask");
}

/// Each of the two was told when the other one asked, asked in turn, and so on for as long as the local programs had
/// their locks.
#[test]
fn who_wait_for_local_programs_do_not_wake_each_other() {
    let mut server = Server::new();
    let (a, file) = (server.join("a"), file());
    let opened = open(&mut server, &a, &file);
    let range = |n| support::range(n * 10, 10);
    let ask = |server: &mut Server, n: u64| {
        let request = a.request(server);
        let permit = server.permit(&request).expect("no grace period");
        let args = LockArgs {
            locker: Locker::New {
                open: opened.stateid().to_wire(),
                owner: &bytes(&n.to_string()),
            },
            file: &file,
            range: range(n),
            kind: LockKind::Write,
            wait: true,
        };
        let now = server.now();
        let reserved = server.state.lock(&request, Claim::New(&permit), &args, now);
        owners(&reserved.expect("no client has it").give_up_for_now(now))
    };
    let none: [&str; 0] = [];
    for n in [0, 1, 2, 0, 1] {
        assert_eq!(ask(&mut server, n), none, "{n} asked");
    }
    server.pass(limits::CLAIM_MS_MAX);
    assert_eq!(owners(&file.promises_lapsed(server.now())), none);
    let let_go = file.host_let_go(&[(range(1), LockKind::Write)], server.now());
    assert_eq!(owners(&let_go), ["1"]);
    assert_eq!(ask(&mut server, 1), none, "it was taken again");
    assert_eq!(file.waiters(), 3);
}

#[test]
fn who_closes_does_not_wait_any_more() {
    let mut server = Server::new();
    let (a, b, c) = (server.join("a"), server.join("b"), server.join("c"));
    let file = file();
    let opens = [&a, &b, &c].map(|peer| open(&mut server, peer, &file));
    let held = wait(&mut server, &a, &opens[0], "a").expect("free");
    assert!(wait(&mut server, &b, &opens[1], "b").is_err());
    assert!(wait(&mut server, &c, &opens[2], "c").is_err());
    let request = b.request(&server);
    let (id, now) = (opens[1].stateid().to_wire(), server.now());
    let closed = server.state.close(&request, id, &file, now);
    assert!(closed.expect("open").released.notify.is_empty());
    let request = a.request(&server);
    let unlocked = server
        .state
        .unlock(&request, held, &file, Range::WHOLE, now)
        .expect("its own");
    assert_eq!(owners(&unlocked.notify), ["c"]);
}

#[test]
fn waiters_of_a_client_have_an_end() {
    let mut server = Server::new();
    let (a, b) = (server.join("a"), server.join("b"));
    let files = limits::WAITERS_PER_CLIENT_MAX / limits::WAITERS_PER_FILE_MAX + 1;
    let files: Vec<_> = (0..files).map(|_| file()).collect();
    for file in &files {
        let opens = [&a, &b].map(|peer| open(&mut server, peer, file));
        wait(&mut server, &a, &opens[0], "a").expect("free");
        for n in 0..limits::WAITERS_PER_FILE_MAX {
            assert!(wait(&mut server, &b, &opens[1], &n.to_string()).is_err());
        }
    }
    let waiting = || files.iter().map(|file| file.waiters()).sum::<usize>();
    assert_eq!(waiting(), limits::WAITERS_PER_CLIENT_MAX);
    let refused = server.state.counters().get(nfs_state::Count::WaitersFull);
    assert_eq!(refused as usize, limits::WAITERS_PER_FILE_MAX);
    // Another client of the same host finds room, and what one had is free when it ends.
    let c = server.join("c");
    let opened = open(&mut server, &c, &files[0]);
    drop(server.expire(b.id, Why::Operator).expect("gone"));
    assert!(wait(&mut server, &c, &opened, "c").is_err());
    assert_eq!(waiting(), 1);
}

/// Programs that wait for one lock, some of which are killed while they wait.
struct Programs {
    server: Server,
    file: Arc<FileState>,
    clients: Vec<(Peer, Arc<OpenState<Pin>>)>,
    /// Those that wait, in the order in which they came, and whether they are still there.
    waiting: Vec<(String, bool)>,
    holder: Option<(usize, StateId)>,
    /// Who was told, and when.
    told: BTreeMap<String, u64>,
    random: Rng,
}

impl Programs {
    fn hear(&mut self, notify: &[Notify]) {
        for name in owners(notify) {
            assert!(
                self.holder.is_none(),
                "{name} is told of a lock that is held"
            );
            let before = self.waiting.iter().take_while(|(it, _)| *it != name);
            assert_eq!(before.count(), 0, "{name} is told before its turn");
            self.told.insert(name, self.server.now().0);
        }
    }

    fn come(&mut self, name: String) {
        let client = self.random.usize(..self.clients.len());
        if let Some(id) = self.ask(client, &name) {
            self.holder = Some((client, id));
        } else {
            self.waiting.push((format!("{client}/{name}"), true));
        }
    }

    fn ask(&mut self, client: usize, name: &str) -> Option<StateId> {
        let (peer, open) = &self.clients[client];
        let owner = format!("{client}/{name}");
        wait(&mut self.server, peer, open, &owner).ok()
    }

    fn unlock(&mut self) {
        let Some((client, id)) = self.holder.take() else {
            return;
        };
        let request = self.clients[client].0.request(&self.server);
        let now = self.server.now();
        let unlocked = self
            .server
            .state
            .unlock(&request, id, &self.file, Range::WHOLE, now);
        let notify = unlocked.expect("its own").notify;
        drop(request);
        self.hear(&notify);
    }

    /// Who was told asks, unless it was killed; whom nobody hears of any more is passed over in time.
    fn go_on(&mut self) {
        let Some((name, at)) = self.told.pop_first() else {
            return;
        };
        let place = self.waiting.iter().position(|(it, _)| *it == name);
        let (_, is_alive) = self.waiting.remove(place.expect("it waits"));
        if is_alive {
            let (client, own) = name.split_once('/').expect("client and name");
            let client = client.parse().expect("a number");
            let id = self.ask(client, own).expect("it was promised");
            self.holder = Some((client, id));
            return;
        }
        let lapses = at + limits::CLAIM_MS_MAX;
        self.server.pass(lapses.saturating_sub(self.server.now().0));
        let notify = self.file.promises_lapsed(self.server.now());
        self.hear(&notify);
    }
}

#[test]
fn whoever_waits_gets_its_turn_though_others_are_killed() {
    for seed in 0..200 {
        let mut server = Server::new();
        let file = file();
        let peers = ["a", "b", "c"].map(|name| server.join(name));
        let clients = peers.map(|peer| {
            let opened = open(&mut server, &peer, &file);
            (peer, opened)
        });
        let mut programs = Programs {
            server,
            file,
            clients: clients.into(),
            waiting: Vec::new(),
            holder: None,
            told: BTreeMap::new(),
            random: Rng::with_seed(seed),
        };
        for name in 0..60 {
            match programs.random.u8(..4) {
                0 | 1 if programs.told.is_empty() => programs.come(name.to_string()),
                2 => {
                    let count = programs.waiting.len();
                    let one = programs.random.usize(..count.max(1));
                    if let Some((_, is_alive)) = programs.waiting.get_mut(one) {
                        *is_alive = false;
                    }
                }
                _ => programs.unlock(),
            }
            programs.go_on();
        }
        // In the end everybody has had it.
        for _ in 0..200 {
            programs.unlock();
            programs.go_on();
        }
        assert!(
            programs.waiting.is_empty(),
            "seed {seed}: {:?}",
            programs.waiting
        );
        assert_eq!(programs.file.waiters(), 0, "seed {seed}");
    }
}
