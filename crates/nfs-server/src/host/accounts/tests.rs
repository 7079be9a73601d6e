use std::net::{IpAddr, Ipv4Addr};
use std::sync::mpsc;

use nfs_io::{Client, PoolLimits};

use super::*;

fn block_on<F: Future>(future: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build();
    runtime.unwrap().block_on(future)
}

fn from(host: u8) -> (Queue, Sharer) {
    let address = IpAddr::from(Ipv4Addr::new(10, 0, host, 1));
    let queue = Queue {
        lane: LANE,
        client: Client::at(address, 1),
        weight: None,
    };
    (queue, Sharer::of(address))
}

fn name_of(uid: u32) -> Question {
    Question::Name(Kind::User, uid)
}

fn id_of(name: &str) -> Question {
    Question::Id(Kind::User, name.as_bytes().into())
}

/// A database that knows all names, and says in order what it is asked.
fn of_all() -> (Arc<Accounts>, mpsc::Receiver<Question>) {
    let (sender, asked) = mpsc::channel();
    let accounts = Accounts::new(Box::new(move |question| {
        sender.send(question.clone()).unwrap();
        match question {
            Question::Groups(uid) => Answer::Groups([*uid].into()),
            Question::Name(_, id) if *id >= 1_000_000 => Answer::Unknown,
            Question::Name(_, id) => Answer::Name(format!("user{id}").into()),
            Question::Id(..) => Answer::Unknown,
        }
    }));
    (Arc::new(accounts), asked)
}

/// A database that says what it is asked, and answers nothing before the sender goes.
fn hanging() -> (Arc<Accounts>, mpsc::Receiver<Question>, mpsc::Sender<()>) {
    let (release, held) = mpsc::channel::<()>();
    let (sender, asked) = mpsc::channel();
    let held = Mutex::new(held);
    let accounts = Accounts::new(Box::new(move |question| {
        sender.send(question.clone()).unwrap();
        let _released = held.lock().recv();
        Answer::Id(7)
    }));
    (Arc::new(accounts), asked, release)
}

#[test]
fn an_answer_is_asked_for_once() {
    let (accounts, asked) = of_all();
    let pool = Pool::new(PoolLimits::default());
    block_on(async {
        let questions = [name_of(1), name_of(2), name_of(1), id_of("nobody")];
        for _ in 0..2 {
            assert_eq!(accounts.learn(&pool, from(1), &questions).await, Ok(()));
        }
    });
    assert_eq!(
        accounts.recall(&name_of(2)),
        Some(Answer::Name("user2".into()))
    );
    assert_eq!(accounts.recall(&id_of("nobody")), Some(Answer::Unknown));
    assert_eq!(accounts.recall(&name_of(3)), None);
    assert_eq!(asked.try_iter().count(), 3);
    assert!(accounts.asked.lock().is_empty());
}

#[test]
fn a_database_that_hangs_is_waited_for_once_and_asked_once() {
    let (accounts, asked, release) = hanging();
    let pool = Pool::new(PoolLimits::default());
    block_on(async {
        tokio::time::pause();
        let start = tokio::time::Instant::now();
        let learned = accounts.learn(&pool, from(1), &[name_of(1)]).await;
        assert_eq!(learned, Err(Late));
        let waited = Duration::from_millis(limits::ACCOUNT_NAME_WAIT_MS_MAX);
        assert!(start.elapsed() >= waited);
        // For what a number does nobody waits again; for the rest, a bounded time.
        for host in 1..100 {
            let learned = accounts.learn(&pool, from(host), &[name_of(1)]).await;
            assert_eq!(learned, Err(Late));
        }
        assert!(start.elapsed() < 2 * waited);
        let urgent = tokio::time::Instant::now();
        let learned = accounts.learn(&pool, from(1), &[id_of("a")]).await;
        assert_eq!(learned, Err(Late));
        let most = Duration::from_secs(limits::ACCOUNT_WAIT_SECONDS_MAX);
        assert!(urgent.elapsed() >= most);
    });
    assert_eq!(pool.stats().accepted, 2);
    let under_way = [asked.recv().unwrap(), asked.recv().unwrap()];
    assert!(under_way.contains(&name_of(1)) && under_way.contains(&id_of("a")));
    drop(release);
    assert_eq!(pool.shutdown(Duration::from_secs(60)), 0);
    // What came late is known from then on.
    assert_eq!(accounts.recall(&name_of(1)), Some(Answer::Id(7)));
    assert!(!accounts.is_stalled.load(Ordering::Relaxed));
}

#[test]
fn one_host_leaves_room_for_the_questions_of_others() {
    let (accounts, _asked, release) = hanging();
    let pool = Pool::new(PoolLimits::default());
    let mut number = 0;
    let mut asks = |host: u8| {
        number += 1;
        accounts.ask(&pool, from(host), &[name_of(number)]).0.len() == 1
    };
    let most = usize::try_from(limits::ACCOUNTS_ASKED_MAX).unwrap();
    let half = (0..most).filter(|_| asks(1)).count();
    assert!(half <= most / 2, "{half} of {most}");
    assert!(asks(2), "another host finds room");
    let threads = pool.stats().threads;
    assert!(
        threads <= PoolLimits::default().lane_threads_max + 2,
        "{threads}"
    );
    drop(release);
    assert_eq!(pool.shutdown(Duration::from_secs(60)), 0);
    let left = accounts.asked.lock().len();
    assert_eq!(
        left, 0,
        "what is pushed out and refused is under way no more"
    );
    assert!(accounts.asked_shares.held_by(from(1).1.key) == 0);
}

#[test]
fn names_that_nobody_has_push_out_nobody() {
    let (accounts, _asked) = of_all();
    accounts.remember(name_of(1), Answer::Name("a".into()));
    for number in 0..2 * limits::ACCOUNTS_UNKNOWN_MAX {
        accounts.remember(id_of(&number.to_string()), Answer::Unknown);
    }
    assert!(accounts.recall(&name_of(1)).is_some());
    assert!(accounts.told.read().unknown.len() <= limits::ACCOUNTS_UNKNOWN_MAX);
    for number in 0..2 * u32::try_from(limits::ACCOUNTS_MAX).unwrap() {
        accounts.remember(name_of(number), Answer::Name("a".into()));
    }
    assert!(accounts.told.read().known.len() <= limits::ACCOUNTS_MAX);
}

#[test]
fn only_a_name_that_is_shown_is_gone_by_after_its_time() {
    let (accounts, asked) = of_all();
    let pool = Pool::new(PoolLimits::default());
    let groups = Question::Groups(1);
    let past = |seconds| Instant::now().checked_sub(Duration::from_secs(seconds));
    let Some(before) = past(limits::ACCOUNT_SECONDS + 1) else {
        nfs_lab::skipped("a machine that runs for longer");
        return;
    };
    let old = |answer| (before, answer);
    {
        let mut told = accounts.told.write();
        let name = Answer::Name("before".into());
        told.known.insert(name_of(1), old(name));
        let list = Answer::Groups([99].into());
        told.known.insert(groups.clone(), old(list));
    }
    assert_eq!(accounts.recall(&groups), None);
    assert_eq!(
        accounts.recall(&name_of(1)),
        Some(Answer::Name("before".into()))
    );
    let (waits, _) = accounts.ask(&pool, from(1), &[name_of(1)]);
    assert!(waits.is_empty(), "nobody waits for a name that is known");
    assert_eq!(asked.recv().unwrap(), name_of(1));
    assert_eq!(pool.shutdown(Duration::from_secs(60)), 0);
    assert_eq!(
        accounts.recall(&name_of(1)),
        Some(Answer::Name("user1".into()))
    );
    // A database that cannot be asked takes no name away that is shown, and does take rights away.
    accounts.remember(name_of(1), Answer::Failed);
    assert!(matches!(
        accounts.recall(&name_of(1)),
        Some(Answer::Name(_))
    ));
    accounts.remember(groups.clone(), Answer::Failed);
    assert_eq!(accounts.recall(&groups), Some(Answer::Failed));
}
