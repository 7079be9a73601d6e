//! Who may have how many connections, and whose is closed when there is no room for another.
//!
//! Connections are counted by holder: a host, for the most part. A holder may have its part of the whole and no more
//! ([`limits::CONNECTIONS_PER_HOLDER_DIVISOR`]). When all places are taken, a newcomer takes one of whoever
//! holds too many: of its own holder, if that has its share already (the whole divided by the holders that
//! have any), else of the holder that has most. In each case it is the connection that was idle for longest;
//! one that is busy is never closed, and where there is no other the newcomer is refused.
//!
//! The table keeps no clock and closes nothing: it says which connection is to be closed. What a connection is
//! doing is asked for when that matters, since it changes with every call.

pub(crate) mod peers;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::hash::Hash;

use crate::limits;

/// What a connection is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Doing {
    /// A call of it runs, waits to begin, or is answered: its client waits for the server.
    Busy,
    /// Nothing came or went since this time, in milliseconds of the same clock as the newcomer's.
    IdleSince(u64),
}

/// What becomes of a newcomer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It has a place.
    Taken,
    /// It has the place of this connection, which is to be closed.
    TakenFrom(u64),
    /// Its holder has all that one may have, and all of it is busy.
    HolderFull,
    /// All places are taken, and none can be given to it.
    Full,
}

/// The places for connections. Each connection has a number that no other has.
pub(crate) struct Slots<H> {
    connections_max: usize,
    connections: HashMap<u64, Place<H>>,
    /// The connections of each holder, by [`Place::before`].
    holders: HashMap<H, BTreeSet<(u64, u64)>>,
    by_count: BTreeSet<(usize, H)>,
    /// Connections that were told to close and have not left yet.
    closing: HashSet<u64>,
}

#[derive(Clone, Copy)]
struct Place<H> {
    holder: H,
    /// The connection was busy or came at this time or later, in milliseconds.
    before: u64,
}

impl<H: Copy + Ord + Hash> Slots<H> {
    pub(crate) fn new(connections_max: usize) -> Self {
        Self {
            connections_max,
            connections: HashMap::new(),
            holders: HashMap::new(),
            by_count: BTreeSet::new(),
            closing: HashSet::new(),
        }
    }

    /// Finds a place for a connection that came at `now`, in milliseconds.
    pub(crate) fn enter(
        &mut self,
        holder: H,
        number: u64,
        now: u64,
        doing: impl Fn(u64) -> Doing,
    ) -> Verdict {
        let held = self.held_by(holder);
        let full_for_holder = held >= self.per_holder_max();
        let full = self.connections.len() >= self.connections_max;
        let mut verdict = Verdict::Taken;
        if full_for_holder || full {
            let refused = if full_for_holder {
                Verdict::HolderFull
            } else {
                Verdict::Full
            };
            let has_share = full_for_holder || held >= self.share(held);
            if self.closing.len() >= self.closing_max(has_share) {
                return refused;
            }
            let from = if has_share {
                self.longest_idle(holder, now, &doing)
            } else {
                self.longest_idle_of_others(now, &doing)
            };
            let Some(from) = from else {
                return refused;
            };
            self.remove(from);
            self.closing.insert(from);
            verdict = Verdict::TakenFrom(from);
        }
        self.add(holder, number, now);
        verdict
    }

    /// A connection has ended.
    pub(crate) fn leave(&mut self, number: u64) {
        if !self.closing.remove(&number) {
            self.remove(number);
        }
    }

    /// How many connections `holder` has.
    pub(crate) fn held_by(&self, holder: H) -> usize {
        self.holders.get(&holder).map_or(0, BTreeSet::len)
    }

    fn per_holder_max(&self) -> usize {
        (self.connections_max / limits::CONNECTIONS_PER_HOLDER_DIVISOR).max(1)
    }

    /// How many connections may be closing when one more is closed for a newcomer.
    fn closing_max(&self, has_share: bool) -> usize {
        let all = self.connections_max / limits::CONNECTIONS_CLOSING_DIVISOR;
        let all = all.clamp(2, limits::CONNECTIONS_CLOSING_MAX);
        if has_share { all / 2 } else { all }
    }

    /// The share of each holder, a newcomer's that holds nothing yet (`held` is 0) among them.
    fn share(&self, held: usize) -> usize {
        let holders = self.holders.len() + usize::from(held == 0);
        (self.connections_max / holders.max(1)).max(1)
    }

    /// The connection to close of those that have their share or more, the one with most first.
    fn longest_idle_of_others(&mut self, now: u64, doing: &impl Fn(u64) -> Doing) -> Option<u64> {
        let share = self.share(0);
        let too_many: Vec<H> = (self.by_count.iter().rev())
            .take_while(|(count, _)| *count >= share)
            .take(limits::CONNECTION_HOLDERS_ASKED_MAX)
            .map(|(_, holder)| *holder)
            .collect();
        (too_many.into_iter()).find_map(|holder| self.longest_idle(holder, now, doing))
    }

    /// The connection of this holder that was idle for longest, if that was long enough. Times that turn out
    /// to be old are replaced on the way, so that on average few are looked at.
    fn longest_idle(&mut self, holder: H, now: u64, doing: &impl Fn(u64) -> Doing) -> Option<u64> {
        let of_holder = self.holders.get_mut(&holder)?;
        let latest = now.checked_sub(limits::CONNECTION_IDLE_MILLISECONDS_MIN)?;
        while let Some((before, number)) = of_holder.first().copied()
            && before <= latest
        {
            let since = match doing(number) {
                Doing::Busy => now,
                Doing::IdleSince(since) if since <= before => return Some(number),
                Doing::IdleSince(since) => since,
            };
            of_holder.remove(&(before, number));
            of_holder.insert((since, number));
            if let Some(place) = self.connections.get_mut(&number) {
                place.before = since;
            }
        }
        None
    }

    fn add(&mut self, holder: H, number: u64, before: u64) {
        self.connections.insert(number, Place { holder, before });
        let of_holder = self.holders.entry(holder).or_default();
        let count = of_holder.len();
        of_holder.insert((before, number));
        self.recount(holder, count);
    }

    fn remove(&mut self, number: u64) {
        let Some(Place { holder, before }) = self.connections.remove(&number) else {
            return;
        };
        if let Some(of_holder) = self.holders.get_mut(&holder) {
            let count = of_holder.len();
            of_holder.remove(&(before, number));
            self.recount(holder, count);
        }
    }

    /// Brings `by_count` up to date for a holder that had `before` connections.
    fn recount(&mut self, holder: H, before: usize) {
        self.by_count.remove(&(before, holder));
        match self.held_by(holder) {
            0 => drop(self.holders.remove(&holder)),
            count => {
                self.by_count.insert((count, holder));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    const LATER: u64 = limits::CONNECTION_IDLE_MILLISECONDS_MIN;

    fn idle(_number: u64) -> Doing {
        Doing::IdleSince(0)
    }

    fn busy(_number: u64) -> Doing {
        Doing::Busy
    }

    /// `count` connections of one host, from `first` on, that all find a place.
    fn fill(slots: &mut Slots<u8>, holder: u8, first: u64, count: u64) {
        for number in first..first + count {
            assert_eq!(slots.enter(holder, number, 0, busy), Verdict::Taken);
        }
    }

    #[test]
    fn a_holder_with_its_part_of_the_whole_loses_what_was_idle_for_longest() {
        let mut slots = Slots::new(40);
        fill(&mut slots, 1, 0, 10);
        let doing = |number| match number {
            3 => Doing::IdleSince(5),
            7 => Doing::IdleSince(4),
            _ => Doing::Busy,
        };
        let mut enter = |number| slots.enter(1, number, 10 * LATER, doing);
        assert_eq!(enter(100), Verdict::TakenFrom(7));
        assert_eq!(enter(101), Verdict::TakenFrom(3));
        assert_eq!(enter(102), Verdict::HolderFull, "the rest is busy");
        assert_eq!(slots.enter(2, 200, 10 * LATER, doing), Verdict::Taken);
    }

    #[test]
    fn a_newcomer_gets_a_place_of_who_has_most_when_all_are_taken() {
        let mut slots = Slots::new(40);
        for attacker in 1..=4 {
            fill(&mut slots, attacker, u64::from(attacker) * 100, 10);
        }
        let Verdict::TakenFrom(first) = slots.enter(5, 1, LATER, idle) else {
            panic!("no place for a polite one")
        };
        assert!(first >= 100);
        slots.leave(first);
        // Attackers that come again cost each other their places and not the polite one.
        for (number, attacker) in (1000..1100_u64).zip([1, 2, 3, 4].into_iter().cycle()) {
            match slots.enter(attacker, number, 2 * LATER, idle) {
                Verdict::TakenFrom(from) => {
                    assert_ne!(from, 1);
                    slots.leave(from);
                }
                Verdict::Full | Verdict::HolderFull => {}
                Verdict::Taken => panic!("there was no room"),
            }
            assert_eq!(slots.held_by(5), 1);
        }
    }

    #[test]
    fn who_came_just_now_or_is_busy_is_not_closed() {
        let mut slots = Slots::new(4);
        fill(&mut slots, 1, 0, 1);
        assert_eq!(slots.enter(1, 1, LATER - 1, idle), Verdict::HolderFull);
        assert_eq!(slots.enter(1, 2, LATER, busy), Verdict::HolderFull);
        let asked_again = slots.enter(1, 3, 2 * LATER, idle);
        assert_eq!(asked_again, Verdict::TakenFrom(0), "busy only at that time");
    }

    #[test]
    fn so_many_may_be_closing_and_no_more() {
        const MAX: u64 = 64 * limits::CONNECTIONS_CLOSING_DIVISOR as u64;
        let mut slots = Slots::new(MAX as usize);
        for host in 1..=4 {
            fill(&mut slots, host, u64::from(host) * MAX, MAX / 4);
        }
        let enter = |slots: &mut Slots<u8>, host, number| slots.enter(host, number, LATER, idle);
        for number in 0..32 {
            let verdict = enter(&mut slots, 1, number);
            assert!(matches!(verdict, Verdict::TakenFrom(_)));
        }
        assert_eq!(enter(&mut slots, 1, 100), Verdict::HolderFull);
        for number in 200..232 {
            let verdict = enter(&mut slots, 5, number);
            assert!(
                matches!(verdict, Verdict::TakenFrom(_)),
                "who has none goes on"
            );
        }
        assert_eq!(enter(&mut slots, 5, 300), Verdict::Full);
        slots.leave(MAX);
        assert!(matches!(enter(&mut slots, 5, 301), Verdict::TakenFrom(_)));
    }

    proptest! {
        /// Whatever comes and goes: the caps hold, a place is taken only from who is idle and has too many, and
        /// the books are right.
        #[test]
        fn caps_hold_and_the_books_are_right(
            moves in prop::collection::vec((0_u8..6, 0_u8..4, any::<u16>()), 1..400),
        ) {
            let mut slots = Slots::new(16);
            let open = RefCell::new(BTreeMap::<u64, (u8, Doing)>::new());
            let doing = |number: u64| open.borrow().get(&number).map_or(Doing::Busy, |it| it.1);
            for (step, (address, kind, pick)) in (0_u64..).zip(moves) {
                let now = step * LATER / 2;
                let chosen = {
                    let open = open.borrow();
                    open.keys().nth(usize::from(pick) % open.len().max(1)).copied()
                };
                match (kind, chosen) {
                    (0, Some(number)) => {
                        slots.leave(number);
                        open.borrow_mut().remove(&number);
                    }
                    (1, Some(number)) => {
                        let state = if pick % 2 == 0 { Doing::Busy } else { Doing::IdleSince(now) };
                        if let Some(it) = open.borrow_mut().get_mut(&number) {
                            it.1 = state;
                        }
                    }
                    _ => {
                        let holder = address;
                        let before = slots.held_by(holder);
                        let verdict = slots.enter(holder, step, now, doing);
                        if let Verdict::TakenFrom(from) = verdict {
                            let (whose, state) = open.borrow_mut().remove(&from).unwrap();
                            prop_assert!(matches!(state, Doing::IdleSince(since) if since + LATER <= now));
                            prop_assert!(whose == holder || before < slots.held_by(whose) + 1);
                            slots.leave(from);
                        }
                        if matches!(verdict, Verdict::Taken | Verdict::TakenFrom(_)) {
                            open.borrow_mut().insert(step, (holder, Doing::IdleSince(now)));
                        }
                    }
                }
                prop_assert!(open.borrow().len() <= 16);
                prop_assert_eq!(slots.connections.len(), open.borrow().len());
                for address in 0..6 {
                    let holder = address;
                    let count = open.borrow().values().filter(|it| it.0 == holder).count();
                    prop_assert!(count <= 4);
                    prop_assert_eq!(slots.held_by(holder), count);
                    prop_assert_eq!(slots.by_count.contains(&(count, holder)), count > 0);
                }
            }
        }
    }
}
