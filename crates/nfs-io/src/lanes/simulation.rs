//! A lane with hundreds of clients, by seed: how long each waits, who is refused, and how much gets done.

use std::collections::{BinaryHeap, HashMap};

use super::*;
use crate::testing::Random;

/// Time units of a job, at most.
const LONGEST_WORK: u64 = 20;
const PLACES: usize = 64;
const LANE_PLACES: usize = 32;
const MAY_WAIT: usize = 1024;
const ENDS_AT: u64 = 3_000;

/// The order that is judged, or the one it is compared with.
enum Order {
    Fair(Lanes<Job>),
    /// Whoever came first, of all clients.
    Came(VecDeque<Job>, usize),
}

#[derive(Clone, Copy, Debug)]
struct Job {
    client: u64,
    work: u64,
    /// How many jobs had begun when it came.
    began_before: u64,
}

impl Order {
    fn queue(client: u64) -> Queue {
        let client = Client {
            network: client,
            machine: 0,
        };
        Queue {
            lane: Lane(1),
            client,
            weight: None,
        }
    }

    /// Takes a job in; hands back whichever is refused.
    fn offer(&mut self, job: Job) -> Option<Job> {
        match self {
            Self::Fair(lanes) if lanes.takes(Self::queue(job.client)) => {
                lanes.wait(Self::queue(job.client), job)
            }
            Self::Came(jobs, _) if jobs.len() < MAY_WAIT => {
                jobs.push_back(job);
                None
            }
            _full => Some(job),
        }
    }

    fn next(&mut self) -> Option<Job> {
        match self {
            Self::Fair(lanes) => lanes.next().map(|(_, job)| job),
            Self::Came(jobs, running) if *running < LANE_PLACES => {
                let job = jobs.pop_front();
                *running += usize::from(job.is_some());
                job
            }
            Self::Came(..) => None,
        }
    }

    fn ended(&mut self, client: u64) {
        match self {
            Self::Fair(lanes) => lanes.leave(Self::queue(client)),
            Self::Came(_, running) => *running -= 1,
        }
    }
}

#[derive(Default)]
struct Outcome {
    work_done: u64,
    refused_of_polite: u64,
    refused_of_greedy: u64,
    /// Most jobs that began while one of a polite client waited.
    overtaken_max: u64,
    done_of: HashMap<u64, u64>,
}

/// Client 0 has as many calls waiting as it gets in; the others one each, and a pause after it.
fn simulate(seed: u64, polite: u64, mut order: Order) -> Outcome {
    let mut random = Random(seed);
    let mut outcome = Outcome::default();
    // What happens next, by time: the end of a job, or (`None`) the next call of a client.
    let mut events = BinaryHeap::new();
    let add = |events: &mut BinaryHeap<_>, at: u64, client: u64, work: Option<u64>| {
        events.push(std::cmp::Reverse((at, client, work)));
    };
    for client in 0..=polite {
        let at = random.below(500);
        add(&mut events, at, client, None);
    }
    let mut began = 0;
    while let Some(std::cmp::Reverse((now, client, ended))) = events.pop() {
        if now > ENDS_AT {
            break;
        }
        if let Some(work) = ended {
            order.ended(client);
            outcome.work_done += work;
            *outcome.done_of.entry(client).or_default() += 1;
            if client != 0 {
                let pause = 1 + random.below(200);
                add(&mut events, now + pause, client, None);
            }
        } else {
            for _ in 0..if client == 0 { 40 } else { 1 } {
                let work = 1 + random.below(LONGEST_WORK);
                let job = Job {
                    client,
                    work,
                    began_before: began,
                };
                if let Some(refused) = order.offer(job) {
                    let polite = refused.client != 0;
                    outcome.refused_of_polite += u64::from(polite);
                    outcome.refused_of_greedy += u64::from(!polite);
                    if polite {
                        add(&mut events, now + 500, refused.client, None);
                    }
                }
            }
            if client == 0 {
                add(&mut events, now + 1, 0, None);
            }
        }
        while let Some(job) = order.next() {
            if job.client != 0 {
                let overtaken = began - job.began_before;
                outcome.overtaken_max = outcome.overtaken_max.max(overtaken);
            }
            began += 1;
            add(&mut events, now + job.work, job.client, Some(job.work));
        }
    }
    outcome
}

fn fair() -> Order {
    Order::Fair(Lanes::new(LaneLimits {
        places_max: PLACES,
        lane_max: LANE_PLACES,
        queued_max: MAY_WAIT,
    }))
}

#[test]
fn beside_a_greedy_client_nobody_is_refused_or_waits_longer_than_a_round() {
    for seed in 0..3 {
        for polite in [1, 20, 300] {
            let by_turns = simulate(seed, polite, fair());
            assert_eq!(by_turns.refused_of_polite, 0, "seed {seed}");
            assert!(by_turns.refused_of_greedy > 0, "seed {seed}");
            // While a job waits, each other network has its turn at most once, and at most once more where it
            // came back to the end of the line before.
            assert!(
                by_turns.overtaken_max <= 2 * (polite + 1),
                "seed {seed}: {} of {polite}",
                by_turns.overtaken_max
            );
            let as_they_came = simulate(seed, polite, Order::Came(VecDeque::new(), 0));
            let refused = as_they_came.refused_of_polite;
            assert!(polite == 1 || refused > 0, "the greedy one fills it");
            assert!(
                by_turns.work_done * 100 >= as_they_came.work_done * 97,
                "seed {seed}: {} against {}",
                by_turns.work_done,
                as_they_came.work_done
            );
            let polite_done: u64 = (1..=polite)
                .map(|client| by_turns.done_of.get(&client).copied().unwrap_or(0))
                .min()
                .unwrap_or(0);
            assert!(polite_done > 0, "seed {seed}: somebody was never served");
        }
    }
}

#[test]
fn clients_that_always_wait_are_served_by_their_weight() {
    const CLIENTS: u64 = 200;
    const TURNS: u64 = 40_000;
    for seed in 0..3 {
        let mut random = Random(seed);
        let weights: Vec<u32> = (0..CLIENTS)
            .map(|_| [1, 4, 1 + random.below(9) as u32][random.below(3) as usize])
            .collect();
        let mut queue = FairQueue::default();
        let push = |queue: &mut FairQueue<u64>, number: u64| {
            let weight = weights[number as usize];
            queue.push(Order::queue(number).client, Some(weight), number);
        };
        for client in 0..CLIENTS {
            for _ in 0..1 + random.below(3) {
                push(&mut queue, client);
            }
        }
        let mut served = vec![0_u64; CLIENTS as usize];
        for _ in 0..TURNS {
            let (_, client) = queue.pop(|_| true).unwrap();
            served[client as usize] += 1;
            push(&mut queue, client);
        }
        let by_weight = served.iter().zip(&weights);
        let by_weight: Vec<f64> = by_weight
            .map(|(&served, &weight)| served as f64 / f64::from(weight))
            .collect();
        let least = by_weight.iter().copied().fold(f64::MAX, f64::min);
        let greatest = by_weight.iter().copied().fold(0.0, f64::max);
        let apart = greatest - least;
        assert!(apart <= 1.01, "seed {seed}: {least} to {greatest}");
        assert!(least > 30.0, "seed {seed}: {least} turns");
    }
}
