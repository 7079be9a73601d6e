//! Hundreds of clients that share bytes, by seed: how long each waits, that nothing is handed out twice, and how
//! much gets done.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::future::Future;
use std::net::Ipv4Addr;
use std::pin::Pin;
use std::task::{Context, Poll, Wake, Waker};

use super::*;
use crate::testing::Random;

const TOTAL: u64 = 1000;
/// What one call asks for.
const EACH: u64 = 20;
/// For how long it holds that, at most.
const LONGEST_WORK: u64 = 20;
const ENDS_AT: u64 = 1500;
/// How many calls of the greedy client wait at once: in the order they came, all others would wait for them.
const GREEDY_CALLS: usize = 1000;
const GREEDY: u32 = 0;

/// A call that waits for its bytes.
struct Call<'s> {
    client: u32,
    work: u64,
    /// How many calls had been given theirs when it came.
    given_before: u64,
    taking: Pin<Box<dyn Future<Output = Share> + 's>>,
}

/// Notes the call of this number as one that was given its bytes.
struct Noted {
    number: u64,
    given: Arc<Mutex<Vec<u64>>>,
}

impl Wake for Noted {
    fn wake(self: Arc<Self>) {
        self.given.lock().push(self.number);
    }
}

#[derive(Default)]
struct Outcome {
    /// The time for which something was held, of calls that have ended.
    done: u64,
    /// Most calls of others that were given theirs while one of a polite client waited.
    overtaken_max: u64,
    served: HashMap<u32, u64>,
}

struct World<'s> {
    shares: &'s Shares,
    /// The client as which each one's calls are counted.
    sharer: fn(u32) -> Sharer,
    random: Random,
    waiting: HashMap<u64, Call<'s>>,
    waiting_of_greedy: usize,
    /// Calls that were given their bytes while they waited, in this order.
    given_late: Arc<Mutex<Vec<u64>>>,
    /// What is held, by when it ends and its number.
    ends: BinaryHeap<Reverse<(u64, u64)>>,
    held: HashMap<u64, (u32, u64, Share)>,
    asked: u64,
    given: u64,
    outcome: Outcome,
}

impl<'s> World<'s> {
    /// A call comes, and is given its bytes or begins to wait.
    fn ask(&mut self, client: u32, now: u64) {
        let call = Call {
            client,
            work: 1 + self.random.below(LONGEST_WORK),
            given_before: self.given,
            taking: Box::pin(self.shares.take((self.sharer)(client), EACH)),
        };
        self.asked += 1;
        self.look(self.asked, call, now);
    }

    /// Looks whether a call has been given its bytes.
    fn look(&mut self, number: u64, mut call: Call<'s>, now: u64) {
        let given = Arc::clone(&self.given_late);
        let waker = Waker::from(Arc::new(Noted { number, given }));
        match call.taking.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Pending => {
                self.waiting_of_greedy += usize::from(call.client == GREEDY);
                self.waiting.insert(number, call);
            }
            Poll::Ready(share) => {
                assert_eq!(share.bytes, EACH);
                if call.client != GREEDY {
                    let overtaken = self.given - call.given_before;
                    self.outcome.overtaken_max = self.outcome.overtaken_max.max(overtaken);
                }
                self.given += 1;
                *self.outcome.served.entry(call.client).or_default() += 1;
                self.ends.push(Reverse((now + call.work, number)));
                self.held.insert(number, (call.client, call.work, share));
            }
        }
    }

    /// A call ends that should by now, and what it held goes to others. Says whose it was.
    fn end_one(&mut self, now: u64) -> Option<u32> {
        let Reverse((at, number)) = *self.ends.peek()?;
        if at > now {
            return None;
        }
        self.ends.pop();
        let (client, work, share) = self.held.remove(&number)?;
        drop(share);
        self.outcome.done += work;
        let given = std::mem::take(&mut *self.given_late.lock());
        for number in given {
            let call = self.waiting.remove(&number).unwrap();
            self.waiting_of_greedy -= usize::from(call.client == GREEDY);
            self.look(number, call, now);
        }
        let held = self.held.len() as u64 * EACH;
        assert!(held <= TOTAL, "{held} bytes were handed out");
        assert_eq!(held, self.shares.0.ledger.lock().taken());
        Some(client)
    }
}

/// Client 0 always has calls that wait; the others ask for something now and then, and hold it for a while.
fn simulate(seed: u64, polite: u32, rule: Rule, sharer: fn(u32) -> Sharer) -> Outcome {
    let shares = Shares::new(TOTAL, rule);
    let mut world = World {
        shares: &shares,
        sharer,
        random: Random(seed),
        waiting: HashMap::new(),
        waiting_of_greedy: 0,
        given_late: Arc::default(),
        ends: BinaryHeap::new(),
        held: HashMap::new(),
        asked: 0,
        given: 0,
        outcome: Outcome::default(),
    };
    let mut asks_at: Vec<u64> = (0..=polite).map(|_| world.random.below(100)).collect();
    for now in 0..ENDS_AT {
        while let Some(client) = world.end_one(now) {
            asks_at[client as usize] = now + 1 + world.random.below(30);
        }
        while world.waiting_of_greedy < GREEDY_CALLS {
            world.ask(GREEDY, now);
        }
        for client in 1..=polite {
            if asks_at[client as usize] == now {
                world.ask(client, now);
            }
        }
    }
    world.outcome
}

fn own(client: u32) -> Sharer {
    Sharer::of(Ipv4Addr::from(client).into())
}

/// All are one: whoever comes first is served first.
fn as_they_came(_client: u32) -> Sharer {
    own(GREEDY)
}

#[test]
fn beside_a_greedy_client_nobody_waits_longer_than_a_round_and_all_is_used() {
    for seed in 0..3 {
        for polite in [1, 20, 300] {
            let fifo = simulate(seed, polite, Rule::Everything, as_they_came);
            assert!(fifo.overtaken_max >= GREEDY_CALLS as u64 / 2);
            for rule in [Rule::Everything, Rule::TimesFree(3)] {
                let fair = simulate(seed, polite, rule, own);
                // While a call waits, each other client is served at most once, and at most once more where it
                // waited before.
                let most = 2 * (u64::from(polite) + 1);
                let overtaken = fair.overtaken_max;
                assert!(overtaken <= most, "seed {seed}: {overtaken} of {polite}");
                for client in 0..=polite {
                    let served = fair.served.contains_key(&client);
                    assert!(served, "seed {seed}: {client} never");
                }
                // With the other rule a part is kept free for whoever comes next, while few want something.
                if rule == Rule::Everything || polite == 300 {
                    let (done, most) = (fair.done, fifo.done);
                    assert!(done * 100 >= most * 97, "seed {seed}: {done} of {most}");
                }
            }
        }
    }
}
