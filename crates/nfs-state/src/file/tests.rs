//! Reservations, the queue, and what the host is told, on one file.

use super::*;
use crate::id::Epoch;
use crate::sync::alone;

const CLIENT: ClientId = ClientId {
    epoch: Epoch(1),
    index: 1,
};

fn owner(name: &str) -> LockOwner {
    LockOwner::V4 {
        client: CLIENT,
        owner: OwnerBytes::new(name.as_bytes()).expect("short"),
    }
}

fn range(offset: u64, length: u64) -> Range {
    Range::new(offset, length).expect("a range")
}

fn wanted(name: &str, range: Range, kind: LockKind) -> Locked<LockOwner> {
    Locked {
        range,
        kind,
        owner: owner(name),
    }
}

fn check(file: &FileState, locked: &Locked<LockOwner>, now: u64) -> Result<(), RangeConflict> {
    file.lock()
        .check(&locked.owner, locked.range, locked.kind, Millis(now))
}

/// Locks without a host.
fn lock(file: &FileState, locked: &Locked<LockOwner>, now: u64) -> Result<(), RangeConflict> {
    check(file, locked, now)?;
    let mut file = file.lock();
    let number = file.reserve(locked.clone())?;
    file.settle(number, true, Millis(now));
    Ok(())
}

fn wait(file: &FileState, locked: &Locked<LockOwner>, now: u64) -> bool {
    let wait = Wait {
        owner: locked.owner.clone(),
        range: locked.range,
        kind: locked.kind,
        open: None,
    };
    file.lock().wait(wait, Millis(now), || Some(place()))
}

/// A place in a queue, of a host that may have many.
fn place() -> Place {
    let totals = Arc::new(crate::host::Totals::new(crate::host::Bounds::DEFAULT));
    let holdings = Arc::new(crate::host::Holdings::new(totals));
    Place::new(holdings.count(crate::host::What::Waiter), &Arc::default())
}

fn unlock(file: &FileState, name: &str, range: Range, now: u64) -> Vec<LockOwner> {
    let unlocked = file.lock().unlock(&owner(name), range, Millis(now));
    let notify = unlocked.expect("nothing is under way");
    notify.into_iter().map(|n| n.0.owner).collect()
}

/// Does what the host is to be told, and says what that was.
fn tell_host(file: &Arc<FileState>) -> Vec<Step> {
    let mut told = Vec::new();
    while let HostWork::Turn(mut turn) = file.host_turn() {
        while let Some(step) = turn.next_step() {
            told.push(step);
            turn.succeeded();
        }
    }
    told
}

#[test]
fn who_meets_a_reservation_is_told_to_come_again() {
    alone(|| {
        let file = FileState::new();
        let first = wanted("a", range(0, 10), LockKind::Write);
        check(&file, &first, 0).expect("free");
        let number = file.lock().reserve(first).expect("room");
        for (name, at, kind, expected) in [
            ("b", 5, LockKind::Read, Err(RangeConflict::Pending)),
            ("a", 5, LockKind::Read, Err(RangeConflict::Pending)),
            ("b", 10, LockKind::Write, Ok(())),
        ] {
            assert_eq!(check(&file, &wanted(name, range(at, 5), kind), 0), expected);
        }
        file.lock().settle(number, false, Millis(0));
        assert_eq!(
            check(&file, &wanted("b", range(5, 5), LockKind::Read), 0),
            Ok(())
        );
    });
}

#[test]
fn waiters_are_served_in_the_order_they_came() {
    alone(|| {
        let file = FileState::new();
        let whole = |name, kind| wanted(name, Range::WHOLE, kind);
        lock(&file, &whole("holder", LockKind::Write), 0).expect("free");
        for name in ["first", "second"] {
            assert!(wait(&file, &whole(name, LockKind::Write), 0));
        }
        assert_eq!(unlock(&file, "holder", Range::WHOLE, 10), [owner("first")]);
        // The range is promised: neither the second nor a newcomer gets in between.
        for name in ["second", "newcomer"] {
            let denied = check(&file, &whole(name, LockKind::Read), 11);
            assert_eq!(
                denied,
                Err(RangeConflict::Held(whole("first", LockKind::Write)))
            );
        }
        lock(&file, &whole("first", LockKind::Write), 12).expect("promised");
        assert_eq!(unlock(&file, "first", Range::WHOLE, 13), [owner("second")]);
    });
}

#[test]
fn readers_that_wait_together_are_told_together() {
    alone(|| {
        let file = FileState::new();
        lock(&file, &wanted("holder", range(0, 100), LockKind::Write), 0).expect("free");
        for (name, kind) in [
            ("reader 1", LockKind::Read),
            ("reader 2", LockKind::Read),
            ("writer", LockKind::Write),
            ("reader 3", LockKind::Read),
        ] {
            assert!(wait(&file, &wanted(name, range(0, 10), kind), 0));
        }
        let told = unlock(&file, "holder", range(0, 100), 1);
        assert_eq!(told, [owner("reader 1"), owner("reader 2")]);
    });
}

#[test]
fn a_promise_that_nobody_takes_up_lapses() {
    alone(|| {
        let file = FileState::new();
        let all = |name| wanted(name, Range::WHOLE, LockKind::Write);
        lock(&file, &all("holder"), 0).expect("free");
        assert!(wait(&file, &all("killed"), 0));
        assert!(wait(&file, &all("alive"), 0));
        assert_eq!(unlock(&file, "holder", Range::WHOLE, 0), [owner("killed")]);
        assert!(check(&file, &all("alive"), limits::CLAIM_MS_MAX - 1).is_err());
        lock(&file, &all("alive"), limits::CLAIM_MS_MAX).expect("the promise has lapsed");
    });
}

#[test]
fn the_queue_has_an_end_and_who_asks_again_keeps_its_place() {
    alone(|| {
        let file = FileState::new();
        let all = |name: &str| wanted(name, Range::WHOLE, LockKind::Write);
        lock(&file, &all("holder"), 0).expect("free");
        for n in 0..limits::WAITERS_PER_FILE_MAX {
            assert!(wait(&file, &all(&n.to_string()), 0));
        }
        assert!(!wait(&file, &all("one more"), 0));
        assert!(wait(&file, &all("3"), 50_000), "it is in the queue");
        // All but the one that asked again have not been heard of for too long.
        let told = unlock(&file, "holder", Range::WHOLE, limits::WAITER_MS_MAX + 1);
        assert_eq!(told, [owner("3")]);
    });
}

#[test]
fn the_host_is_told_the_union_and_nothing_twice() {
    alone(|| {
        let file = Arc::new(FileState::new());
        let step = |offset, length, kind| Step {
            range: range(offset, length),
            kind,
        };
        lock(&file, &wanted("a", range(0, 10), LockKind::Read), 0).expect("free");
        lock(&file, &wanted("b", range(5, 10), LockKind::Read), 0).expect("readers share");
        assert_eq!(tell_host(&file), [step(0, 15, Some(LockKind::Read))]);
        assert_eq!(tell_host(&file), []);
        lock(&file, &wanted("a", range(0, 3), LockKind::Write), 0).expect("its own");
        assert_eq!(tell_host(&file), [step(0, 3, Some(LockKind::Write))]);
        unlock(&file, "a", range(0, u64::MAX), 0);
        assert_eq!(
            tell_host(&file),
            [step(0, 5, None)],
            "the other reader's part stays"
        );
        unlock(&file, "b", range(0, u64::MAX), 0);
        assert_eq!(tell_host(&file), [step(5, 10, None)]);
        assert!(file.inner.lock().mirror_is_true());
    });
}

#[test]
fn what_the_host_refuses_is_taken_back() {
    alone(|| {
        let file = Arc::new(FileState::new());
        lock(&file, &wanted("a", range(100, 10), LockKind::Write), 0).expect("free");
        assert_eq!(tell_host(&file).len(), 1);
        // A reservation of two pieces around what is held; the host grants the first and refuses the second.
        let asked = wanted("a", range(90, 30), LockKind::Write);
        check(&file, &asked, 0).expect("its own");
        let number = file.lock().reserve(asked).expect("room");
        let HostWork::Turn(mut turn) = file.host_turn() else {
            panic!("there is something to be done");
        };
        assert!(matches!(file.host_turn(), HostWork::Taken));
        turn.succeeded();
        assert!(turn.next_step().is_some());
        drop(turn);
        file.lock().settle(number, false, Millis(0));
        let back = Step {
            range: range(90, 10),
            kind: None,
        };
        assert_eq!(tell_host(&file), [back]);
        assert!(file.inner.lock().mirror_is_true());
        assert_eq!(
            file.locks(),
            [(owner("a"), range(100, 10), LockKind::Write)]
        );
    });
}

#[test]
fn a_refusal_does_not_hold_up_what_others_reserved() {
    alone(|| {
        let file = Arc::new(FileState::new());
        let asked = [
            wanted("a", range(0, 10), LockKind::Write),
            wanted("b", range(20, 10), LockKind::Write),
        ];
        let numbers = asked.map(|locked| file.lock().reserve(locked).expect("room"));
        let HostWork::Turn(mut turn) = file.host_turn() else {
            panic!("there is something to be done");
        };
        turn.refused();
        turn.succeeded();
        assert_eq!(turn.next_step(), None);
        drop(turn);
        file.lock().settle(numbers[0], false, Millis(0));
        file.lock().settle(numbers[1], true, Millis(0));
        assert_eq!(tell_host(&file), []);
        assert!(!file.is_free_on_host());
        unlock(&file, "b", Range::WHOLE, 0);
        tell_host(&file);
        assert!(file.is_free_on_host());
    });
}

#[test]
fn too_many_ranges_are_refused() {
    alone(|| {
        let file = FileState::new();
        let mut refused = None;
        for n in 0..limits::RANGES_PER_FILE_MAX as u64 {
            if let Err(error) = lock(&file, &wanted("a", range(n * 2, 1), LockKind::Read), 0) {
                refused = Some((n, error));
                break;
            }
        }
        let (held, error) = refused.expect("there is a bound");
        assert_eq!(error, RangeConflict::Full);
        assert_eq!(held as usize, limits::RANGES_PER_FILE_MAX - 1);
    });
}

#[test]
fn who_cannot_be_told_gives_way_to_the_next() {
    alone(|| {
        let file = FileState::new();
        let all = |name| wanted(name, Range::WHOLE, LockKind::Write);
        lock(&file, &all("holder"), 0).expect("free");
        for name in ["deaf", "next"] {
            assert!(wait(&file, &all(name), 0));
        }
        let told = file
            .lock()
            .unlock(&owner("holder"), Range::WHOLE, Millis(0))
            .expect("nothing is under way");
        assert_eq!(told[0].0.owner, owner("deaf"));
        let next = file.could_not_tell(&told[0], Millis(0));
        assert_eq!(next.len(), 1);
        assert_eq!(next[0].0.owner, owner("next"));
        lock(&file, &all("next"), 0).expect("promised");
        assert_eq!(file.waiters(), 0);
    });
}

#[test]
fn the_next_is_told_when_a_promise_lapsed() {
    alone(|| {
        let file = FileState::new();
        let all = |name| wanted(name, Range::WHOLE, LockKind::Write);
        lock(&file, &all("holder"), 0).expect("free");
        for name in ["killed", "next"] {
            assert!(wait(&file, &all(name), 0));
        }
        assert_eq!(unlock(&file, "holder", Range::WHOLE, 0), [owner("killed")]);
        let early = file.promises_lapsed(Millis(limits::CLAIM_MS_MAX - 1));
        assert!(early.is_empty(), "{early:?}");
        let told = file.promises_lapsed(Millis(limits::CLAIM_MS_MAX));
        assert_eq!(told[0].0.owner, owner("next"));
    });
}

#[test]
fn who_finds_no_place_is_not_in_the_queue() {
    alone(|| {
        let file = FileState::new();
        let wait = Wait {
            owner: owner("a"),
            range: Range::WHOLE,
            kind: LockKind::Write,
            open: Some(7),
        };
        assert!(!file.lock().wait(wait.clone(), Millis(0), || None));
        assert_eq!(file.waiters(), 0);
        assert!(file.lock().wait(wait, Millis(0), || Some(place())));
        file.lock().leave((CLIENT, 8), Millis(0));
        assert_eq!(file.waiters(), 1, "it waits through another open");
        file.lock().leave((CLIENT, 7), Millis(0));
        assert_eq!(file.waiters(), 0);
    });
}
