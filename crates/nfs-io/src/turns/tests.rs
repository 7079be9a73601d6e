use std::collections::{HashMap, VecDeque};
use std::net::{Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;

use super::*;

fn client(number: u32, weight: u32) -> Sharer {
    Sharer {
        weight,
        ..Sharer::of(Ipv4Addr::from(number).into())
    }
}

#[test]
fn a_client_is_an_address_or_a_network_of_64_bits() {
    let key = |text: &str| ClientKey::of(text.parse().unwrap());
    assert_eq!(key("192.0.2.1"), key("::ffff:192.0.2.1"));
    assert_ne!(key("192.0.2.1"), key("192.0.2.2"));
    assert_eq!(key("2001:db8::1"), key("2001:db8::ffff:1"));
    assert_ne!(key("2001:db8:0:1::1"), key("2001:db8:0:2::1"));
    assert_ne!(
        ClientKey::of(Ipv6Addr::LOCALHOST.into()),
        ClientKey::of(Ipv4Addr::LOCALHOST.into())
    );
}

#[test]
fn who_comes_after_a_pause_is_next_whatever_waits() {
    let mut turns = Turns::default();
    for number in 0..1000 {
        turns.join(client(1, 1), 100, number);
    }
    for served in 0..10 {
        assert_eq!(turns.next_turn(), Some(served), "in their order");
    }
    turns.join(client(2, 1), 1, 5000);
    // At most one turn of the greedy client began before the other came.
    let next = [turns.next_turn(), turns.next_turn()];
    assert!(next.contains(&Some(5000)), "{next:?}");
}

#[test]
fn who_leaves_is_in_nobodys_way() {
    let mut turns = Turns::default();
    let first = turns.join(client(1, 1), 1, 'a');
    let second = turns.join(client(1, 1), 1, 'b');
    turns.join(client(1, 1), 1, 'c');
    assert_eq!(turns.leave(client(1, 1).key, first), Some('a'));
    assert_eq!(turns.leave(client(1, 1).key, first), None);
    assert_eq!(turns.leave(client(1, 1).key, second), Some('b'));
    assert_eq!(turns.next_turn(), Some('c'));
    assert!(turns.is_empty() && turns.next_turn().is_none());
}

#[test]
fn clients_that_pause_are_forgotten() {
    let mut turns = Turns::default();
    for number in 0..100_000 {
        turns.join(client(number, 1), 1, ());
        turns.next_turn().unwrap();
    }
    assert!(turns.flows.len() <= TURNS_IDLE_CLIENTS_MAX + 2);
}

/// A client of the simulation, who waits with `depth` turns at once and asks again for each that it got.
struct Greedy {
    client: Sharer,
    depth: usize,
    cost_max: u64,
    served: u64,
}

/// Clients by the seed: weights, costs and depths differ, so that some ask for thousands of times as much as
/// others.
fn crowd(random: &mut fastrand::Rng, count: u32) -> Vec<Greedy> {
    (0..count)
        .map(|number| Greedy {
            client: client(number, 1 << random.u32(0..4)),
            depth: 1 << random.u32(0..10),
            cost_max: 1 << random.u32(0..8),
            served: 0,
        })
        .collect()
}

#[test]
fn of_hundreds_that_always_wait_none_gets_ahead_by_more_than_a_turn() {
    for seed in 0..4 {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut crowd = crowd(&mut random, 300);
        let mut turns = Turns::default();
        for (number, greedy) in crowd.iter().enumerate() {
            for _ in 0..greedy.depth {
                let cost = random.u64(1..=greedy.cost_max);
                turns.join(greedy.client, cost, (number, cost));
            }
        }
        for _ in 0..50_000 {
            let (number, cost) = turns.next_turn().expect("work-conserving");
            crowd[number].served += cost;
            let greedy = &crowd[number];
            let next = random.u64(1..=greedy.cost_max);
            turns.join(greedy.client, next, (number, next));
        }
        let by_weight = |greedy: &Greedy| greedy.served as f64 / f64::from(greedy.client.weight);
        let turn = |greedy: &Greedy| greedy.cost_max as f64 / f64::from(greedy.client.weight);
        for one in &crowd {
            for other in &crowd {
                let ahead = by_weight(one) - by_weight(other);
                // What dividing loses is less than a hundredth of all.
                let most = (turn(one) + turn(other)) * 1.01 + 1.0;
                assert!(ahead <= most, "seed {seed}: {ahead} of at most {most}");
            }
        }
    }
}

/// One call of the simulation.
#[derive(Clone, Copy)]
struct Job {
    number: usize,
    cost: u64,
    came: u64,
}

/// Some hundred clients in a closed loop over one server: greedy ones with hundreds of calls at once, polite
/// ones with one and a pause behind each. Returns what was done by the end, and the longest that a polite
/// call waited.
fn run(seed: u64, fair: bool) -> (u64, u64) {
    let mut random = fastrand::Rng::with_seed(seed);
    let greedy = 20 + random.usize(0..20);
    let polite = 200 + random.usize(0..100);
    let mut turns = Turns::default();
    let mut queue = VecDeque::new();
    let mut pauses = BTreeSet::new();
    let job = |random: &mut fastrand::Rng, number: usize, came: u64| Job {
        number,
        cost: if number < greedy {
            random.u64(1..=64)
        } else {
            1
        },
        came,
    };
    let mut waiting = VecDeque::new();
    for number in 0..greedy {
        for _ in 0..1 << random.u32(4..10) {
            waiting.push_back(job(&mut random, number, 0));
        }
    }
    for number in greedy..greedy + polite {
        pauses.insert((random.u64(0..100_000), number));
    }
    let (mut now, mut done, mut longest) = (0, 0, 0);
    while now < 1_000_000 {
        while let Some((at, number)) = pauses.first().copied().filter(|(at, _)| *at <= now) {
            pauses.pop_first();
            waiting.push_back(job(&mut random, number, at));
        }
        for job in waiting.drain(..) {
            let client = client(u32::try_from(job.number).unwrap(), 1);
            if fair {
                turns.join(client, job.cost, job);
            } else {
                queue.push_back(job);
            }
        }
        let next = if fair {
            turns.next_turn()
        } else {
            queue.pop_front()
        };
        let Some(served) = next else {
            now += 1;
            continue;
        };
        now += served.cost;
        done += served.cost;
        if served.number < greedy {
            waiting.push_back(job(&mut random, served.number, now));
        } else {
            longest = longest.max(now - served.came);
            pauses.insert((now + random.u64(20_000..100_000), served.number));
        }
    }
    (done, longest)
}

#[test]
fn as_much_is_done_as_first_come_first_served_and_nobody_waits_beyond_the_share() {
    for seed in 0..6 {
        let (fifo_done, fifo_longest) = run(seed, false);
        let (fair_done, fair_longest) = run(seed, true);
        assert!(fair_done * 100 >= fifo_done * 97, "seed {seed}");
        // A polite call waits for the turn in progress, at most one turn of each greedy client, and one
        // call of each polite one.
        let share = 64 + 40 * 64 + 300;
        assert!(fair_longest <= share, "seed {seed}: {fair_longest}");
        assert!(
            fifo_longest > 4 * share,
            "seed {seed}: the test tests nothing"
        );
    }
}

#[test]
fn alone_a_client_has_nearly_all_and_for_the_next_there_is_room_at_once() {
    let mut ledger: Ledger<()> = Ledger::new(1000, Rule::TimesFree(3));
    let most = |ledger: &mut Ledger<()>, number: u32| {
        while ledger.try_take(client(number, 1), 1) {}
        ledger.of(client(number, 1).key)
    };
    assert_eq!(most(&mut ledger, 1), 750);
    assert_eq!(most(&mut ledger, 2), 187);
    assert_eq!(most(&mut ledger, 3), 47);
    assert!(ledger.try_take(client(4, 1), 16), "a first one, if it fits");
    assert!(!ledger.try_take(client(4, 1), 1));
    ledger.give_back(client(1, 1).key, 750);
    ledger.give_back(client(2, 1).key, 187);
    assert_eq!(most(&mut ledger, 4), 714, "what others gave back");
}

#[test]
fn weights_say_how_much_each_holds() {
    let mut ledger: Ledger<()> = Ledger::new(6000, Rule::TimesFree(1));
    let (heavy, light) = (client(1, 4), client(2, 1));
    // The light one comes first and has half of all; then each gives back and takes again.
    while ledger.try_take(light, 1) {}
    assert_eq!(ledger.of(light.key), 3000);
    for _ in 0..5000 {
        ledger.give_back(light.key, 1);
        while ledger.try_take(heavy, 1) {}
        ledger.give_back(heavy.key, 1);
        while ledger.try_take(light, 1) {}
    }
    let held = (ledger.of(heavy.key), ledger.of(light.key));
    assert!((3990..=4010).contains(&held.0), "{held:?}");
    assert!((990..=1010).contains(&held.1), "{held:?}");
}

#[test]
fn who_holds_more_than_a_share_waits_and_is_overtaken() {
    let mut ledger = Ledger::new(100, Rule::TimesFree(3));
    while ledger.try_take(client(1, 1), 5) {}
    assert_eq!(ledger.of(client(1, 1).key), 75);
    ledger.join(client(1, 1), 5, "more of the greedy one");
    assert_eq!(ledger.grant(), None);
    assert!(!ledger.holds_up_others(client(1, 1).key), "itself alone");
    ledger.join(client(2, 1), 25, "the first of another");
    assert_eq!(ledger.grant(), Some("the first of another"));
    let place = ledger.join(client(3, 1), 20, "too large now");
    assert_eq!(ledger.grant(), None);
    assert!(ledger.holds_up_others(client(1, 1).key));
    assert!(
        !ledger.holds_up_others(client(2, 1).key),
        "within its share"
    );
    ledger.give_back(client(1, 1).key, 15);
    assert_eq!(ledger.grant(), None, "what is free is kept for it");
    assert!(!ledger.try_take(client(4, 1), 1), "and not overtaken");
    ledger.give_back(client(1, 1).key, 5);
    assert_eq!(ledger.grant(), Some("too large now"));
    assert_eq!(ledger.leave(client(3, 1).key, place), None);
    ledger.give_back(client(1, 1).key, 55);
    assert_eq!(ledger.grant(), Some("more of the greedy one"));
    assert!(ledger.is_calm());
}

#[test]
fn who_holds_little_is_not_refused_because_somebody_waits_who_holds_much() {
    let (greedy, polite) = (client(1, 1), client(2, 1));
    let mut ledger = Ledger::new(100, Rule::TimesFree(3));
    while ledger.try_take(greedy, 5) {}
    ledger.join(greedy, 5, ());
    assert_eq!(ledger.grant(), None, "it holds all that it may");
    assert!(
        !ledger.try_take(greedy, 1),
        "its own calls keep their order"
    );
    assert!(ledger.try_take(polite, 5));
    // Its turns are counted: somebody who has had nothing yet is next.
    ledger.join(client(3, 1), 30, ());
    assert_eq!(ledger.grant(), None, "more than there is now");
    assert!(!ledger.try_take(polite, 5));
    assert!(!ledger.try_take(client(4, 1), 5), "it came later");
}

#[test]
fn a_turn_without_waiting_counts_like_one_that_was_waited_for() {
    let mut turns = Turns::default();
    let (steady, quick) = (client(1, 1), client(2, 1));
    for number in 0..10 {
        turns.join(steady, 10, number);
    }
    let skip = |_: Sharer, _: u64| Verdict::Skip;
    let take = |_: Sharer, _: u64| Verdict::Take;
    assert!(
        !turns.would_be_next(quick.key, take),
        "behind who came first"
    );
    assert!(turns.would_be_next(quick.key, skip));
    assert!(!turns.would_be_next(steady.key, skip));
    turns.note_turn(quick, 35);
    turns.join(quick, 10, 100);
    let order: Vec<_> = std::iter::from_fn(|| turns.next_turn()).collect();
    assert_eq!(order[..6], [0, 1, 2, 3, 100, 4]);
}

proptest! {
    /// Whatever is taken, waited for and given back, in whatever order: never more than there is, nobody is
    /// forgotten, and when all is given back all have had theirs.
    #[test]
    fn the_books_balance(
        steps in prop::collection::vec((0_u32..5, 1_u32..4, 1_u64..40, any::<bool>()), 1..200),
        times in prop::option::of(1_u32..4),
    ) {
        let rule = times.map_or(Rule::Everything, Rule::TimesFree);
        let mut ledger = Ledger::new(100, rule);
        let mut held: Vec<(ClientKey, u64)> = Vec::new();
        let mut waiting: HashMap<usize, (Sharer, u64)> = HashMap::new();
        for (number, (who, weight, amount, take)) in steps.into_iter().enumerate() {
            let client = client(who, weight);
            if take {
                if ledger.try_take(client, amount) {
                    held.push((client.key, amount));
                } else {
                    ledger.join(client, amount, number);
                    waiting.insert(number, (client, amount));
                }
            } else if !held.is_empty() {
                let (client, amount) = held.swap_remove(number % held.len());
                ledger.give_back(client, amount);
            }
            while let Some(granted) = ledger.grant() {
                let (client, amount) = waiting.remove(&granted).unwrap();
                held.push((client.key, amount));
            }
            prop_assert_eq!(ledger.taken(), held.iter().map(|(_, amount)| amount).sum::<u64>());
            prop_assert!(ledger.taken() <= 100);
        }
        while let Some((client, amount)) = held.pop() {
            ledger.give_back(client, amount);
            while let Some(granted) = ledger.grant() {
                let (client, amount) = waiting.remove(&granted).unwrap();
                held.push((client.key, amount));
            }
        }
        prop_assert!(waiting.is_empty() && ledger.is_calm());
        prop_assert_eq!(ledger.taken(), 0);
    }
}
