use std::os::unix::fs::MetadataExt as _;
use std::task::{Context, Waker};

use nfs_io::PoolLimits;

use super::*;

#[test]
fn a_peer_that_writes_under_many_names_fills_no_memory() {
    let mut unstable = Unstable::default();
    let most = limits::UNSTABLE_WRITERS_PER_OBJECT_MAX;
    for round in 0..3 {
        let covered = Covered {
            writers: std::mem::take(&mut unstable.writers),
            more: false,
            bytes: 0,
        };
        for name in 0..1000 {
            unstable.wrote(Author(round * 1000 + name));
        }
        assert!(unstable.more_writers);
        // The file system is too busy for a sync; then its disk fails.
        unstable.restore(covered);
        assert!(unstable.writers.len() <= most);
        let covered = Covered {
            writers: unstable.writers.clone(),
            more: true,
            bytes: 0,
        };
        unstable.lost(covered);
        assert!(unstable.to_tell.len() <= most);
    }
}

#[test]
fn what_comes_while_a_round_runs_shares_the_next() {
    const LANE: Lane = Lane(1);
    let pool = Pool::new(PoolLimits {
        threads_max: 1,
        ..PoolLimits::default()
    });
    // The pool's one thread waits, as for a slow disk, until all have asked.
    let (go, gone) = std::sync::mpsc::channel::<()>();
    let slow = pool.run(LANE, move || gone.recv().is_err());
    let committer = Committer::new(pool, Arc::new(Verifier::new(1)), true);
    let directory = tempfile::tempdir().unwrap();
    let flushes = ["a", "b"].map(|name| {
        let file = std::fs::File::create(directory.path().join(name)).unwrap();
        let stat = file.metadata().unwrap();
        Flush::Inode {
            id: (stat.dev(), stat.ino()),
            fd: Arc::new(file.into()),
        }
    });
    let mut syncs: Vec<_> = (0..200)
        .map(|number| Box::pin(committer.sync(LANE.into(), vec![flushes[number % 2].clone()])))
        .collect();
    let mut context = Context::from_waker(Waker::noop());
    for sync in &mut syncs {
        assert!(sync.as_mut().poll(&mut context).is_pending());
    }
    drop(go);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    runtime.block_on(async {
        assert!(slow.await.unwrap());
        for sync in syncs {
            sync.await.unwrap();
        }
    });
    let CommitterStats {
        requests,
        syncs,
        rounds,
    } = committer.stats();
    assert_eq!((requests, syncs, rounds), (200, 2, 1));
    // A round for each that comes when none runs.
    runtime
        .block_on(committer.sync(LANE.into(), vec![flushes[0].clone()]))
        .unwrap();
    assert_eq!(committer.stats().rounds, 2);
}

#[test]
fn what_may_take_long_is_in_no_round_with_others() {
    let committer = Committer::new(
        Pool::new(PoolLimits::default()),
        Arc::new(Verifier::new(1)),
        true,
    );
    let directory = tempfile::tempdir().unwrap();
    let file = std::fs::File::create(directory.path().join("long")).unwrap();
    let stat = file.metadata().unwrap();
    let (id, fd) = ((stat.dev(), stat.ino()), Arc::new(file.into()));
    let inode = Flush::Inode {
        id,
        fd: Arc::clone(&fd),
    };
    let attributes = Flush::AttributesOf {
        id,
        fd: Arc::clone(&fd),
    };
    let whole = Flush::FileSystem { fd };
    let groups = [&inode, &attributes, &whole].map(Flush::group);
    assert_eq!(groups, [Group::Short, Group::File(id), Group::FileSystem]);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let all = vec![inode, attributes, whole];
    runtime
        .block_on(committer.sync(Lane(1).into(), all))
        .unwrap();
    let stats = committer.stats();
    assert_eq!((stats.requests, stats.syncs, stats.rounds), (1, 3, 3));
    // A round looks once more after its answers.
    committer.pool.shutdown(std::time::Duration::from_secs(60));
    assert!(committer.queues.lock().is_empty(), "nothing stays behind");
}

/// A flush of a new file of its own.
fn inode_flush(directory: &tempfile::TempDir, name: &str) -> Flush {
    let file = std::fs::File::create(directory.path().join(name)).unwrap();
    let stat = file.metadata().unwrap();
    Flush::Inode {
        id: (stat.dev(), stat.ino()),
        fd: Arc::new(file.into()),
    }
}

fn patient(patience: Duration) -> Arc<Committer> {
    let pool = Pool::new(PoolLimits::default());
    let committer = Committer::new(pool, Arc::new(Verifier::new(1)), true);
    let committer = Arc::into_inner(committer).unwrap();
    Arc::new(Committer {
        patience,
        ..committer
    })
}

fn joining(committer: &Arc<Committer>, what: Vec<Flush>) -> std::sync::mpsc::Receiver<Result<()>> {
    let (sender, receiver) = std::sync::mpsc::channel();
    committer.join(Lane(1).into(), what, move |result| {
        sender.send(result).unwrap();
    });
    receiver
}

#[test]
fn a_round_waits_for_changes_that_are_under_way_and_for_no_later_ones() {
    let committer = patient(Duration::from_secs(3600));
    let directory = tempfile::tempdir().unwrap();
    let flush = inode_flush(&directory, "a");
    let under_way = [committer.begin(Lane(1)), committer.begin(Lane(1))];
    let _elsewhere = committer.begin(Lane(2));
    let first = joining(&committer, vec![flush.clone()]);
    let waits = || {
        let lanes = committer.changes.lock();
        lanes.get(&Lane(1)).unwrap().waits_below.is_some()
    };
    while !waits() {
        assert!(first.try_recv().is_err(), "it did not wait");
        std::thread::yield_now();
    }
    let later = committer.begin(Lane(1));
    // One joins, and one fails.
    let [joins, fails] = under_way;
    let second = joining(&committer, vec![flush.clone()]);
    drop(joins);
    assert!(waits());
    drop(fails);
    assert_eq!(first.recv(), Ok(Ok(())));
    assert_eq!(second.recv(), Ok(Ok(())));
    let stats = committer.stats();
    assert_eq!((stats.requests, stats.syncs, stats.rounds), (2, 1, 1));
    drop(later);
    let third = joining(&committer, vec![flush]);
    assert_eq!(third.recv(), Ok(Ok(())));
}

/// One whose rounds wait for as long as it takes for those that are to come.
fn gathering() -> Arc<Committer> {
    let committer = Arc::into_inner(patient(Duration::from_secs(3600))).unwrap();
    Arc::new(Committer {
        flushes: u32::MAX,
        ..committer
    })
}

#[test]
fn a_round_waits_for_as_many_as_were_answered_just_now() {
    let committer = gathering();
    let directory = tempfile::tempdir().unwrap();
    let flush = inode_flush(&directory, "a");
    let change = || {
        let under_way = committer.begin(Lane(1));
        let flushed = joining(&committer, vec![flush.clone()]);
        drop(under_way);
        flushed
    };
    let held = committer.begin(Lane(1));
    let first = [change(), change()];
    drop(held);
    assert_eq!(first.map(|flushed| flushed.recv()), [Ok(Ok(())); 2]);
    assert_eq!(committer.stats().rounds, 1);
    for rounds in 2..5 {
        let one = change();
        // A round that did not wait would have begun by then, without the other.
        for _turn in 0..1000 {
            assert!(one.try_recv().is_err(), "it did not wait");
            std::thread::yield_now();
        }
        let other = change();
        assert_eq!([one, other].map(|flushed| flushed.recv()), [Ok(Ok(())); 2]);
        assert_eq!(committer.stats().rounds, rounds);
    }
    // One that comes back and fails is as good, and nobody waits once a lone one was answered.
    drop(committer.begin(Lane(1)));
    assert_eq!(change().recv(), Ok(Ok(())));
    assert_eq!(committer.pool.shutdown(Duration::from_secs(60)), 0);
    assert!(committer.queues.lock().is_empty(), "nothing stays behind");
    assert!(committer.changes.lock().is_empty(), "nothing stays behind");
}

#[test]
fn a_lone_change_waits_for_nobody() {
    let committer = gathering();
    let directory = tempfile::tempdir().unwrap();
    let flush = inode_flush(&directory, "a");
    for _change in 0..3 {
        let under_way = committer.begin(Lane(1));
        let flushed = joining(&committer, vec![flush.clone()]);
        drop(under_way);
        assert_eq!(flushed.recv(), Ok(Ok(())));
    }
    assert_eq!(committer.pool.shutdown(Duration::from_secs(60)), 0);
    let stats = committer.stats();
    assert_eq!((stats.requests, stats.syncs, stats.rounds), (3, 3, 3));
}

#[test]
fn a_change_that_is_stuck_is_waited_for_once() {
    let committer = patient(Duration::ZERO);
    let directory = tempfile::tempdir().unwrap();
    let stuck = committer.begin(Lane(1));
    let flushed = joining(&committer, vec![inode_flush(&directory, "a")]);
    assert_eq!(flushed.recv(), Ok(Ok(())));
    let number = committer.changes.lock()[&Lane(1)].next;
    assert!(!committer.changes.lock()[&Lane(1)].has_any_below(number));
    let other = committer.begin(Lane(1));
    assert!(committer.changes.lock()[&Lane(1)].has_any_below(number + 1));
    assert!(!committer.changes.lock()[&Lane(1)].has_any_below(number));
    drop(stuck);
    drop(other);
    // A round looks once more after its answers.
    committer.pool.shutdown(Duration::from_secs(60));
    assert!(committer.changes.lock().is_empty(), "nothing stays behind");
}

#[test]
fn who_waits_for_several_flushes_is_answered_once_all_are_over_and_hears_of_its_own_failures() {
    let committer = patient(limits::ROUND_WAITS_MAX);
    let directory = tempfile::tempdir().unwrap();
    let good = inode_flush(&directory, "good");
    let (end, _other_end) = std::io::pipe().unwrap();
    // Nothing can be synced by the end of a pipe.
    let bad = Flush::Inode {
        id: (0, 0),
        fd: Arc::new(end.into()),
    };
    let Flush::Inode { fd, .. } = good.clone() else {
        unreachable!("made above");
    };
    let whole = Flush::FileSystem { fd };
    // All are in one round.
    let held = committer.begin(Lane(1));
    let fails = joining(&committer, vec![good.clone(), bad, whole.clone()]);
    let is_well = joining(&committer, vec![whole, good.clone(), good]);
    let nothing = joining(&committer, vec![]);
    assert_eq!(nothing.recv(), Ok(Ok(())), "there is nothing to wait for");
    drop(held);
    assert_eq!(fails.recv(), Ok(Err(Error::Errno(Errno::INVAL))));
    assert_eq!(is_well.recv(), Ok(Ok(())));
    assert_eq!(committer.verifier.changes(), 1);
    // A pool that ends lets those go who wait.
    committer.pool.shutdown(Duration::from_secs(60));
    let late = joining(&committer, vec![inode_flush(&directory, "late")]);
    assert_eq!(late.recv(), Ok(Err(Error::Busy)));
    assert!(committer.queues.lock().is_empty(), "nothing stays behind");
}
