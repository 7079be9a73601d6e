//! Threads in many orders: what one does between any two steps of another, where a step is an atomic operation or what is
//! done under one lock. The orders are random by a seed; a failure prints the schedule, and shuttle replays it.

use std::sync::Arc;

use shuttle::thread;

use crate::gate::{Gate, Shut};
use crate::sync::atomic::{AtomicU32, Ordering};
use crate::{
    Admission, Begun, Bits, Channel, Claim, Completion, Config, ConnId, CreateSession, Digest,
    Epoch, Error, ExchangeId, Expiry, FileState, HostWork, LockArgs, LockKind, Locker, Millis,
    OpenArgs, OwnerBytes, Principal, Range, Record, Recovered, Refused, Replay, SequenceCall,
    Sequenced, Session, Share, State, Verifier, Why,
};

/// Orders that each test tries.
const ORDERS: usize = 2_000;
const LEASE: u64 = 1000;

fn in_many_orders(test: impl Fn() + Send + Sync + 'static) {
    shuttle::check_random(test, ORDERS);
}

type Core = Arc<State<()>>;

fn bytes(name: &str) -> OwnerBytes {
    OwnerBytes::new(name.as_bytes()).expect("short")
}

fn user() -> Principal {
    Principal::new(b"user").expect("short")
}

fn core(records: Vec<Record>) -> Core {
    let channel = Channel {
        request_bytes_max: 4096,
        response_bytes_max: 4096,
        cached_bytes_max: 64,
        operations_max: 8,
        slots_max: 4,
    };
    let config = Config {
        lease_ms: LEASE,
        grace_ms: LEASE,
        reply_bytes_max: 4096,
        bounds: crate::Bounds::DEFAULT,
        fore: channel,
        back: channel,
    };
    let epoch = Epoch(2);
    Arc::new(State::new(config, Recovered { epoch, records }, Millis(0)))
}

fn record(name: &str) -> Record {
    Record {
        owner: bytes(name),
        client: crate::ClientId {
            epoch: Epoch(1),
            index: 1,
        },
        principal: user(),
    }
}

fn arrive(core: &Core, name: &str) -> Arc<Session<()>> {
    let asked = ExchangeId {
        owner: &bytes(name),
        verifier: Verifier([1; 8]),
        principal: &user(),
        update: false,
        from: crate::Origin {
            host: crate::Host(1),
            address: [192, 0, 2, 1].into(),
            minor: 1,
        },
    };
    let exchanged = core.exchange_id(&asked, Millis(0)).expect("new");
    let channel = core.config().fore;
    let asked = CreateSession {
        client: exchanged.client,
        sequence: exchanged.sequence,
        principal: &user(),
        fore: channel,
        back: None,
        binds_back: false,
        connection: ConnId(1),
        nonce: 0,
    };
    let created = core.create_session(&asked, Millis(0)).expect("confirmed");
    created.session.expect("no retry")
}

fn call(slot: u32, sequence: u32) -> SequenceCall {
    SequenceCall {
        slot,
        sequence,
        highest_slot: slot,
        cache_this: true,
        digest: Digest(0),
        connection: None,
    }
}

fn run(
    core: &Core,
    session: &Arc<Session<()>>,
    slot: u32,
    sequence: u32,
    now: u64,
) -> Result<Sequenced<()>, Error> {
    match core.begin(session, &call(slot, sequence), Millis(now))? {
        Begun::Run(request) => Ok(request),
        Begun::Again(..) => panic!("run twice"),
    }
}

fn complete(core: &Core, request: &Sequenced<()>) {
    while let Completion::Record(write) = core
        .reclaim_complete(request, Millis(0))
        .expect("the first time")
    {
        let _permit = write.on_disk();
    }
}

fn open(
    core: &Core,
    request: &Sequenced<()>,
    claim: Claim<'_>,
    file: &Arc<FileState>,
    deny: Bits,
) -> Result<Arc<crate::OpenState<()>>, Refused> {
    let args = OpenArgs {
        owner: bytes("opener"),
        principal: user(),
        file: Arc::clone(file),
        pin: (),
        share: Share::new(Bits::BOTH, deny).expect("some access"),
    };
    core.open(request, claim, args, Millis(0))
}

/// A client that has said RECLAIM_COMPLETE and opened the file, through slot 0.
fn joined(
    core: &Core,
    name: &str,
    file: &Arc<FileState>,
) -> (Arc<Session<()>>, Arc<crate::OpenState<()>>) {
    let session = arrive(core, name);
    let request = run(core, &session, 0, 1, 0).expect("new");
    complete(core, &request);
    let permit = permit(core, &request);
    let open =
        open(core, &request, Claim::New(&permit), file, Bits::NONE).expect("nobody denies it");
    (session, open)
}

fn permit(core: &Core, request: &Sequenced<()>) -> crate::NewPermit {
    match core.permit_new(request).expect("no grace period") {
        Admission::Granted(permit) => permit,
        Admission::Record(write) => write.on_disk(),
    }
}

#[test]
fn nobody_is_inside_a_gate_that_was_closed() {
    in_many_orders(|| {
        let gate = Arc::new(Gate::new());
        let inside = Arc::new(AtomicU32::new(0));
        let visitors: Vec<_> = (0..2)
            .map(|_| {
                let (gate, inside) = (Arc::clone(&gate), Arc::clone(&inside));
                thread::spawn(move || {
                    if gate.enter().is_ok() {
                        inside.fetch_add(1, Ordering::SeqCst);
                        inside.fetch_sub(1, Ordering::SeqCst);
                        gate.leave();
                    }
                })
            })
            .collect();
        if gate.close_if_empty() {
            assert_eq!(inside.load(Ordering::SeqCst), 0);
            assert_eq!(gate.enter(), Err(Shut::ForNow));
            gate.seal();
        } else if gate.close_behind() {
            assert_eq!(inside.load(Ordering::SeqCst), 0);
        }
        for visitor in visitors {
            visitor.join().expect("no panic");
        }
        assert_eq!(gate.inside(), 0);
        assert_eq!(
            gate.enter(),
            Err(Shut::ForGood),
            "closed at once, or by the last who left"
        );
    });
}

/// The same request over two connections, and a third that drops it: it runs once at a time, and the slot is idle in
/// the end.
#[test]
fn one_of_two_resends_runs() {
    in_many_orders(|| {
        let core = core(Vec::new());
        let session = arrive(&core, "a");
        let runs = Arc::new(AtomicU32::new(0));
        let senders: Vec<_> = (0..3)
            .map(|sender| {
                let (core, session, runs) =
                    (Arc::clone(&core), Arc::clone(&session), Arc::clone(&runs));
                thread::spawn(move || match core.begin(&session, &call(0, 1), Millis(0)) {
                    Ok(Begun::Run(request)) => {
                        runs.fetch_add(1, Ordering::SeqCst);
                        if sender > 0 {
                            request.finish(b"done");
                        }
                    }
                    Ok(Begun::Again(replay, _)) => {
                        assert!(matches!(replay, Replay::Reply(_) | Replay::Faulted));
                    }
                    Err(error) => assert_eq!(error, Error::Delay),
                })
            })
            .collect();
        for sender in senders {
            sender.join().expect("no panic");
        }
        assert_eq!(runs.load(Ordering::SeqCst), 1);
        run(&core, &session, 0, 2, 0)
            .expect("the slot is idle")
            .finish(b"next");
    });
}

/// A client comes back, or not, while it is expired for another's sake: either all of it is gone, or nothing.
#[test]
fn a_client_is_expired_as_a_whole_or_not_at_all() {
    in_many_orders(|| {
        let core = core(Vec::new());
        let file = Arc::new(FileState::new());
        let (session, open) = joined(&core, "a", &file);
        let late = LEASE + 1;
        let client = session.client_id();
        let returner = {
            let (core, session, file) =
                (Arc::clone(&core), Arc::clone(&session), Arc::clone(&file));
            thread::spawn(move || match run(&core, &session, 1, 1, late) {
                Ok(request) => {
                    // As long as the request runs, everything is there.
                    let id = open.stateid().to_wire();
                    assert_eq!(core.test_stateids(&request, &[id]), [Ok(())]);
                    assert_eq!(file.opens(), 1);
                    request.finish(b"done");
                    true
                }
                Err(error) => {
                    assert!(
                        matches!(error, Error::Delay | Error::BadSession),
                        "{error:?}"
                    );
                    false
                }
            })
        };
        let expired = match core.expire(client, Why::LeaseOver, Millis(late)) {
            Ok(Expiry::Remove(expiring)) => {
                assert_eq!(file.opens(), 1, "until the record is gone");
                let released = core.record_removed(expiring, Millis(late));
                assert_eq!(released.opens.len(), 1);
                true
            }
            Ok(Expiry::Done(_)) => panic!("it has a record"),
            Err(error) => {
                assert_eq!(error, Error::Delay);
                false
            }
        };
        let returned = returner.join().expect("no panic");
        assert!(
            !(expired && returned),
            "it was there, and so its lease was not over"
        );
        assert!(expired || returned, "one of the two came first");
        assert_eq!(file.opens(), usize::from(!expired));
        assert_eq!(core.client(client).is_none(), expired);
    });
}

/// The grace period ends while one client reclaims and another asks for something new: nothing new is granted before
/// the last reclaim is held, and none is begun after.
#[test]
fn no_reclaim_meets_a_new_grant() {
    in_many_orders(|| {
        let core = core(vec![record("a")]);
        let file = Arc::new(FileState::new());
        let (a, b) = (arrive(&core, "a"), arrive(&core, "b"));
        complete(&core, &run(&core, &b, 0, 1, 0).expect("new"));
        let reclaimer = {
            let (core, file) = (Arc::clone(&core), Arc::clone(&file));
            thread::spawn(move || {
                let request = run(&core, &a, 0, 1, 0).expect("new");
                match core.permit_reclaim(&request) {
                    Ok(permit) => {
                        let reclaimed =
                            open(&core, &request, Claim::Reclaim(&permit), &file, Bits::BOTH);
                        assert!(
                            reclaimed.is_ok(),
                            "{reclaimed:?}: somebody else was given it"
                        );
                        true
                    }
                    Err(error) => {
                        assert_eq!(error, Error::NoGrace);
                        false
                    }
                }
            })
        };
        let newcomer = {
            let (core, file) = (Arc::clone(&core), Arc::clone(&file));
            thread::spawn(move || {
                let request = run(&core, &b, 0, 2, 0).expect("new");
                match core.permit_new(&request) {
                    Ok(Admission::Record(write)) => {
                        let permit = write.on_disk();
                        open(&core, &request, Claim::New(&permit), &file, Bits::BOTH).is_ok()
                    }
                    Ok(Admission::Granted(_)) => panic!("it has no record"),
                    Err(error) => {
                        assert_eq!(error, Error::Grace);
                        false
                    }
                }
            })
        };
        if let Some(ending) = core.end_grace() {
            ending.records_removed();
        }
        let (reclaimed, granted) = (
            reclaimer.join().expect("no panic"),
            newcomer.join().expect("no panic"),
        );
        assert!(!(reclaimed && granted), "both deny everything to others");
    });
}

/// Two clients lock the same range and tell the host, each for itself: one has it, and the host knows of it.
#[test]
fn the_host_is_told_what_is_granted_whoever_tells_it() {
    in_many_orders(|| {
        let core = core(Vec::new());
        let file = Arc::new(FileState::new());
        let opens = ["a", "b"].map(|name| joined(&core, name, &file));
        let lockers = opens.map(|(session, open)| {
            let (core, file) = (Arc::clone(&core), Arc::clone(&file));
            thread::spawn(move || {
                let request = run(&core, &session, 0, 2, 0).expect("new");
                let owner = bytes("locker");
                let args = LockArgs {
                    locker: Locker::New {
                        open: open.stateid().to_wire(),
                        owner: &owner,
                    },
                    file: &file,
                    range: Range::WHOLE,
                    kind: LockKind::Write,
                    wait: false,
                };
                let permit = permit(&core, &request);
                let Ok(reservation) = core.lock(&request, Claim::New(&permit), &args, Millis(0))
                else {
                    return false;
                };
                tell_host(&file);
                reservation.confirm(Millis(0)).expect("it is open");
                true
            })
        });
        let granted = lockers.map(|locker| locker.join().expect("no panic"));
        assert_eq!(granted.iter().filter(|granted| **granted).count(), 1);
        assert_eq!(file.locks().len(), 1);
        assert!(matches!(file.host_turn(), HostWork::Nothing));
    });
}

fn tell_host(file: &Arc<FileState>) {
    loop {
        match file.host_turn() {
            HostWork::Nothing => return,
            HostWork::Taken => thread::yield_now(),
            HostWork::Turn(mut turn) => {
                while turn.next_step().is_some() {
                    turn.succeeded();
                }
            }
        }
    }
}
