//! Who may start: operations by lane, within the room there is.

use std::collections::{HashMap, VecDeque};

use crate::pool::{Lane, LaneShare};

/// Counts what is in flight for each lane and keeps what has to wait.
pub(super) struct Lanes<T> {
    share: LaneShare,
    lane_queued_max: usize,
    in_flight: usize,
    queued: usize,
    /// Only lanes with something queued or in flight.
    lanes: HashMap<Lane, LaneState<T>>,
    /// Lanes with something queued, in the order their turn comes.
    turns: VecDeque<Lane>,
}

struct LaneState<T> {
    in_flight: usize,
    queue: VecDeque<T>,
}

impl<T> Lanes<T> {
    pub(super) fn new(
        in_flight_max: usize,
        lane_in_flight_max: usize,
        lane_queued_max: usize,
    ) -> Self {
        Self {
            share: LaneShare {
                places_max: in_flight_max,
                lane_max: lane_in_flight_max.clamp(1, in_flight_max),
            },
            lane_queued_max,
            in_flight: 0,
            queued: 0,
            lanes: HashMap::new(),
            turns: VecDeque::new(),
        }
    }

    /// How many operations wait in all lanes together.
    pub(super) fn queued(&self) -> usize {
        self.queued
    }

    /// Takes `item` in: it starts now (`Some`, counted as in flight) or waits (`None`).
    ///
    /// # Errors
    /// The item, where the lane's queue is full.
    pub(super) fn enter(&mut self, lane: Lane, item: T) -> Result<Option<T>, T> {
        let eligible = self.eligible(lane);
        let state = self.lanes.entry(lane).or_insert_with(|| LaneState {
            in_flight: 0,
            queue: VecDeque::new(),
        });
        // Not past those of the same lane that wait already.
        if eligible && state.queue.is_empty() {
            state.in_flight += 1;
            self.in_flight += 1;
            return Ok(Some(item));
        }
        if state.queue.len() >= self.lane_queued_max {
            if state.in_flight == 0 && state.queue.is_empty() {
                self.lanes.remove(&lane);
            }
            return Err(item);
        }
        state.queue.push_back(item);
        self.queued += 1;
        if state.queue.len() == 1 {
            self.turns.push_back(lane);
        }
        Ok(None)
    }

    /// One operation of the lane is no longer in flight.
    pub(super) fn leave(&mut self, lane: Lane) {
        if let Some(state) = self.lanes.get_mut(&lane) {
            state.in_flight -= 1;
            self.in_flight -= 1;
            if state.in_flight == 0 && state.queue.is_empty() {
                self.lanes.remove(&lane);
            }
        }
    }

    /// The next that may start, counted as in flight; lanes take turns.
    pub(super) fn next(&mut self) -> Option<(Lane, T)> {
        let at = self.turns.iter().position(|&lane| self.eligible(lane))?;
        let lane = self.turns.remove(at)?;
        let state = self.lanes.get_mut(&lane)?;
        let item = state.queue.pop_front()?;
        state.in_flight += 1;
        self.in_flight += 1;
        self.queued -= 1;
        if !state.queue.is_empty() {
            self.turns.push_back(lane);
        }
        Some((lane, item))
    }

    /// Everything that waits, in no particular order.
    pub(super) fn take_all(&mut self) -> Vec<T> {
        self.turns.clear();
        self.queued = 0;
        self.lanes
            .values_mut()
            .flat_map(|state| state.queue.drain(..))
            .collect()
    }

    /// Whether the lane may have one more in flight.
    fn eligible(&self, lane: Lane) -> bool {
        let in_flight = self.lanes.get(&lane).map_or(0, |state| state.in_flight);
        self.share.allows_one_more(in_flight, self.in_flight)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stalled_lane_gets_its_share_and_the_next_half_of_the_rest() {
        let mut lanes = Lanes::new(16, 8, 100);
        let mut started = [0; 4];
        for (lane, count) in started.iter_mut().enumerate() {
            for n in 0..50 {
                *count += usize::from(lanes.enter(Lane(lane as u64), n).unwrap().is_some());
            }
        }
        assert_eq!(started, [8, 4, 2, 1]);
        assert_eq!(lanes.queued(), 200 - 15);
    }

    #[test]
    fn what_waits_starts_in_order_as_room_comes_and_lanes_take_turns() {
        let mut lanes = Lanes::new(3, 1, 2);
        assert_eq!(lanes.enter(Lane(1), 'a'), Ok(Some('a')));
        assert_eq!(lanes.enter(Lane(1), 'b'), Ok(None));
        assert_eq!(lanes.enter(Lane(1), 'c'), Ok(None));
        assert_eq!(lanes.enter(Lane(1), 'd'), Err('d'), "the queue is full");
        assert_eq!(lanes.enter(Lane(2), 'A'), Ok(Some('A')));
        assert_eq!(lanes.enter(Lane(2), 'B'), Ok(None));
        assert_eq!(lanes.next(), None);
        lanes.leave(Lane(2));
        assert_eq!(lanes.next(), Some((Lane(2), 'B')));
        lanes.leave(Lane(1));
        assert_eq!(lanes.next(), Some((Lane(1), 'b')));
        assert_eq!(lanes.next(), None);
        assert_eq!(lanes.take_all(), vec!['c']);
        lanes.leave(Lane(1));
        lanes.leave(Lane(2));
        assert!(lanes.lanes.is_empty() && lanes.in_flight == 0 && lanes.queued() == 0);
    }

    #[test]
    fn a_lane_with_room_and_a_queue_of_none_still_runs() {
        let mut lanes = Lanes::new(1, 1, 0);
        assert_eq!(lanes.enter(Lane(1), 1), Ok(Some(1)));
        assert_eq!(lanes.enter(Lane(2), 2), Err(2));
        lanes.leave(Lane(1));
        assert_eq!(lanes.enter(Lane(2), 3), Ok(Some(3)));
    }
}
