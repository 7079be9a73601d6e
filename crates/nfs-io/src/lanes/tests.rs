use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::*;

fn lanes<T>(places_max: usize, lane_max: usize, queued_max: usize) -> Lanes<T> {
    Lanes::new(LaneLimits {
        places_max,
        lane_max,
        queued_max,
    })
}

const fn queue(lane: u64, network: u64, machine: u64) -> Queue {
    Queue {
        lane: Lane(lane),
        client: Client { network, machine },
        weight: None,
    }
}

fn weighted(network: u64, weight: u32) -> Queue {
    Queue {
        weight: Some(weight),
        ..queue(1, network, 1)
    }
}

impl<T> Lanes<T> {
    /// Starts a job, lets it wait, or hands back who is refused.
    fn offer(&mut self, queue: Queue, job: T) -> Offered<T> {
        if self.start_at_once(queue) {
            Offered::Started
        } else if self.takes(queue) {
            self.wait(queue, job)
                .map_or(Offered::Waits, Offered::PushedOut)
        } else {
            Offered::Refused
        }
    }

    fn is_unused(&self) -> bool {
        let idle = |lane: &LaneState<T>| lane.running == 0 && !lane.has_something();
        self.lanes.values().all(idle)
            && self.turns.is_empty()
            && (self.running, self.queued, self.beyond) == (0, 0, 0)
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Offered<T> {
    Started,
    Waits,
    PushedOut(T),
    Refused,
}

#[test]
fn a_stalled_lane_gets_its_share_and_the_next_half_of_the_rest() {
    let mut lanes = lanes(16, 8, 100);
    let mut started = [0; 4];
    for (lane, count) in started.iter_mut().enumerate() {
        for n in 0..50 {
            let offered = lanes.offer(Lane(lane as u64).into(), n);
            *count += usize::from(offered == Offered::Started);
        }
    }
    assert_eq!(started, [8, 4, 2, 1]);
    assert_eq!(lanes.queued(), 200 - 15);
    assert!(!lanes.has_next());
}

#[test]
fn what_waits_starts_in_order_as_room_comes_and_lanes_take_turns() {
    let mut lanes = lanes(3, 1, 2);
    let (one, two) = (Queue::from(Lane(1)), Queue::from(Lane(2)));
    assert_eq!(lanes.offer(one, 'a'), Offered::Started);
    assert_eq!(lanes.offer(one, 'b'), Offered::Waits);
    assert_eq!(lanes.offer(one, 'c'), Offered::Waits);
    assert_eq!(lanes.offer(one, 'd'), Offered::Refused, "the queue is full");
    assert_eq!(lanes.offer(two, 'A'), Offered::Started);
    assert_eq!(lanes.offer(two, 'B'), Offered::Waits);
    assert_eq!(lanes.next(), None);
    lanes.leave(two);
    assert_eq!(lanes.next(), Some((two, 'B')));
    lanes.leave(one);
    assert_eq!(lanes.next(), Some((one, 'b')));
    assert_eq!(lanes.next(), None);
    assert_eq!(lanes.take_all(), vec!['c']);
    lanes.leave(one);
    lanes.leave(two);
    assert!(lanes.is_unused());
}

#[test]
fn a_lane_with_room_and_a_queue_of_none_still_runs() {
    let mut lanes = lanes(1, 1, 0);
    assert_eq!(lanes.offer(Lane(1).into(), 1), Offered::Started);
    assert_eq!(lanes.offer(Lane(2).into(), 2), Offered::Refused);
    lanes.leave(Lane(1).into());
    assert_eq!(lanes.offer(Lane(2).into(), 3), Offered::Started);
}

#[test]
fn networks_take_turns_and_within_a_network_its_clients() {
    let mut lanes = lanes(1, 1, 100);
    assert_eq!(lanes.offer(queue(1, 7, 7), "first"), Offered::Started);
    for job in ["a1", "a2", "a3"] {
        lanes.offer(queue(1, 1, 1), job);
    }
    for job in ["b1", "b2"] {
        lanes.offer(queue(1, 1, 2), job);
    }
    for job in ["c1", "c2", "c3"] {
        lanes.offer(queue(1, 2, 1), job);
    }
    lanes.leave(queue(1, 7, 7));
    let mut order = Vec::new();
    while let Some((queue, job)) = lanes.next() {
        order.push(job);
        lanes.leave(queue);
    }
    assert_eq!(order, ["a1", "c1", "b1", "c2", "a2", "c3", "b2", "a3"]);
    assert!(lanes.is_unused());
}

#[test]
fn of_two_that_always_wait_the_one_with_four_times_the_weight_starts_four_times_as_often() {
    let mut lanes = lanes(1, 1, 1000);
    let (light, heavy) = (weighted(1, 1), weighted(2, 4));
    for n in 0..200 {
        lanes.wait(light, n);
        lanes.wait(heavy, n);
    }
    let mut started = [0_i32; 3];
    for turn in 1..=200 {
        let (queue, _) = lanes.next().unwrap();
        started[queue.client.network as usize] += 1;
        lanes.leave(queue);
        assert!(started[1].abs_diff(turn / 5) <= 1, "{started:?}");
    }
    assert_eq!(started, [0, 40, 160]);
    // What waits without a word of the weight is of who was there.
    lanes.wait(queue(1, 2, 1), 0);
    let heavy_again = (0..5).filter(|_| {
        let (queue, _) = lanes.next().unwrap();
        lanes.leave(queue);
        queue.client.network == 2
    });
    assert_eq!(heavy_again.count(), 4);
}

#[test]
fn what_may_wait_in_a_full_lane_is_shared_by_weight() {
    let mut lanes = lanes(2, 1, 10);
    let (light, heavy) = (weighted(1, 1), weighted(2, 4));
    assert_eq!(lanes.offer(light, 0), Offered::Started);
    for n in 1..=10 {
        assert_eq!(lanes.offer(light, n), Offered::Waits);
    }
    for n in 0..8 {
        assert_eq!(lanes.offer(heavy, 100 + n), Offered::PushedOut(10 - n));
    }
    assert_eq!(lanes.offer(heavy, 108), Offered::Refused);
    assert_eq!(lanes.offer(light, 11), Offered::Refused);
}

#[test]
fn whoever_fills_a_lane_gives_way_and_nobody_else() {
    let mut lanes = lanes(2, 1, 8);
    let greedy = queue(1, 1, 1);
    assert_eq!(lanes.offer(greedy, 0), Offered::Started);
    for n in 1..=8 {
        assert_eq!(lanes.offer(greedy, n), Offered::Waits);
    }
    assert_eq!(lanes.offer(greedy, 9), Offered::Refused);
    // Its latest jobs go, up to the share of the others.
    let other = queue(1, 2, 1);
    for n in 0..4 {
        assert_eq!(lanes.offer(other, 100 + n), Offered::PushedOut(8 - n));
    }
    assert_eq!(lanes.offer(other, 104), Offered::Refused);
    assert_eq!(lanes.offer(greedy, 10), Offered::Refused);
    let third = queue(1, 3, 1);
    assert!(matches!(lanes.offer(third, 200), Offered::PushedOut(_)));
    assert!(matches!(lanes.offer(third, 201), Offered::PushedOut(_)));
    assert_eq!(lanes.offer(third, 202), Offered::Refused);
    assert_eq!(lanes.queued(), 8);
}

#[test]
fn many_names_at_one_address_share_what_one_has() {
    let mut lanes = lanes(2, 1, 8);
    assert_eq!(lanes.offer(queue(1, 1, 0), 0), Offered::Started);
    for name in 0..8 {
        assert_eq!(lanes.offer(queue(1, 1, name), name), Offered::Waits);
    }
    // One more name gets nothing that another has; a client elsewhere gets half.
    assert_eq!(lanes.offer(queue(1, 1, 9), 9), Offered::Refused);
    for n in 0..4 {
        let offered = lanes.offer(queue(1, 2, 0), 100 + n);
        assert!(matches!(offered, Offered::PushedOut(0..8)), "{offered:?}");
    }
    assert_eq!(lanes.offer(queue(1, 2, 0), 104), Offered::Refused);
}

#[test]
fn behind_one_address_a_greedy_machine_gives_way_to_the_other() {
    let mut lanes = lanes(2, 1, 4);
    assert_eq!(lanes.offer(queue(1, 1, 1), 0), Offered::Started);
    for n in 1..=4 {
        assert_eq!(lanes.offer(queue(1, 1, 1), n), Offered::Waits);
    }
    assert_eq!(lanes.offer(queue(1, 1, 2), 100), Offered::PushedOut(4));
    assert_eq!(lanes.offer(queue(1, 1, 2), 101), Offered::PushedOut(3));
    assert_eq!(lanes.offer(queue(1, 1, 2), 102), Offered::Refused);
}

#[test]
fn the_first_of_a_network_starts_beside_a_share_that_never_ends() {
    let mut lanes = lanes(16, 8, 100);
    for n in 0..50 {
        lanes.offer(queue(1, 1, 1), n);
    }
    assert_eq!(lanes.running(), 8);
    // One of each other network, while half of what is left stays free.
    let mut started = 0;
    for network in 2..30 {
        for n in 0..3 {
            lanes.offer(queue(1, network, 1), n);
        }
        while let Some((queue, _)) = lanes.next() {
            assert_eq!(queue.client.network, network);
            started += 1;
        }
    }
    assert_eq!(
        started, 3,
        "of the 8 places left, while half of the rest is free"
    );
    assert_eq!(
        lanes.offer(Lane(2).into(), 0),
        Offered::Started,
        "elsewhere"
    );
    lanes.leave(Lane(2).into());
    // Given back, they are others'.
    for network in 2..5 {
        lanes.leave(queue(1, network, 1));
        let next = lanes.next().map(|(queue, _)| queue.client.network);
        assert!(next.is_some_and(|network| network != 1), "{next:?}");
    }
    lanes.take_all();
    for network in 5..8 {
        lanes.leave(queue(1, network, 1));
    }
    for _ in 0..8 {
        lanes.leave(queue(1, 1, 1));
    }
    assert!(lanes.is_unused());
}

#[test]
fn an_address_is_known_as_far_as_a_host_cannot_choose_it() {
    let v4 = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
    let mapped = IpAddr::V6(Ipv4Addr::new(192, 0, 2, 1).to_ipv6_mapped());
    assert_eq!(Client::at(v4, 1), Client::at(mapped, 1));
    let v6 = |half: u16, host: u16| {
        Client::at(
            Ipv6Addr::new(0x2001, 0xdb8, 0, half, 0, 0, 0, host).into(),
            1,
        )
    };
    assert_eq!(v6(1, 1), v6(1, 2));
    assert_ne!(v6(1, 1), v6(2, 1));
    assert_ne!(Client::at(v4, 1), Client::at(v4, 2));
    assert_ne!(Client::at(v4, 0), Client::OWN);
}

#[test]
fn what_goes_behind_a_lane_starts_when_all_that_waited_has_and_nothing_that_came_later() {
    let mut lanes = lanes(8, 1, 2);
    let next = |lanes: &mut Lanes<u32>| {
        let (queue, job) = lanes.next()?;
        lanes.leave(queue);
        Some(job)
    };
    assert_eq!(lanes.wait(queue(1, 1, 1), 1), None);
    assert_eq!(lanes.wait(queue(1, 1, 1), 2), None);
    // The queue is full: that is no matter here.
    lanes.wait_behind(Lane(1), 10);
    assert_eq!(lanes.queued(), 3);
    assert!(!lanes.takes(queue(1, 1, 1)));
    assert_eq!(next(&mut lanes), Some(1));
    assert_eq!(lanes.wait(queue(1, 1, 1), 3), None);
    lanes.wait_behind(Lane(1), 11);
    let rest: Vec<_> = std::iter::from_fn(|| next(&mut lanes)).collect();
    assert_eq!(rest, [2, 10, 3, 11]);
    assert!(lanes.is_unused());
    // Alone it starts at once, and what one client lets wait holds it back for so long.
    lanes.wait_behind(Lane(2), 12);
    assert_eq!(next(&mut lanes), Some(12));
    let mut lanes = super::tests::lanes(8, 1, 1000);
    for job in 0..500 {
        assert_eq!(lanes.wait(queue(1, 1, 1), job), None);
    }
    lanes.wait_behind(Lane(1), 1000);
    let order: Vec<_> = std::iter::from_fn(|| next(&mut lanes)).collect();
    assert_eq!(order.len(), 501);
    assert_eq!(order[BEHIND_JOBS_MAX], 1000);
    assert_eq!(order[BEHIND_JOBS_MAX + 1], BEHIND_JOBS_MAX as u32);
    assert!(lanes.is_unused());
    // What waits is handed back with the rest.
    lanes.wait_behind(Lane(1), 13);
    assert_eq!(lanes.wait(queue(1, 1, 1), 14), None);
    assert_eq!(lanes.take_all(), [14, 13]);
    assert!(!lanes.has_next());
}

#[test]
fn what_goes_behind_has_a_place_beyond_a_share_that_never_ends() {
    let mut lanes = lanes(16, 4, 100);
    for job in 0..4 {
        assert_eq!(lanes.wait(queue(1, 1, 1), job), None);
        assert!(lanes.next().is_some());
    }
    // What it would be behind waits for a place, and those who have them may be stuck.
    for job in 0..50 {
        assert_eq!(lanes.wait(queue(1, 1, 1), job), None);
    }
    lanes.wait_behind(Lane(1), 100);
    let (queue, job) = lanes.next().unwrap();
    assert_eq!((queue.client, job), (Client::OWN, 100));
    lanes.wait_behind(Lane(1), 101);
    assert!(!lanes.has_next(), "one is enough");
    lanes.leave(queue);
    assert_eq!(lanes.next().map(|(_, job)| job), Some(101));
}
