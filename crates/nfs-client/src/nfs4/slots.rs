//! The slots of a session: which request goes into which, with what number (RFC 8881 §2.10.6.1). Pure: no I/O and
//! no clock.
//!
//! A slot takes one request at a time, and numbers them. A request whose fate is not known leaves its slot
//! at a number that nobody can tell, so that the slot is given up.

/// The slots of one session.
#[derive(Debug)]
pub(super) struct Slots {
    slots: Vec<Slot>,
    /// How many of the first slots the server would have us use, at least 1.
    target: usize,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    /// The number of its next request.
    next: u32,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Free,
    Busy,
    GivenUp,
}

/// What a request says of its slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Taken {
    pub(super) slotid: u32,
    pub(super) sequenceid: u32,
    pub(super) highest_slotid: u32,
}

/// What became of a request, as far as its slot is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// The server has taken its number.
    Taken,
    /// The server has not: the number is still the next one.
    Refused,
    /// Nobody knows.
    Unknown,
}

impl Slots {
    /// `count` slots, at least one, of a new session.
    pub(super) fn new(count: u32) -> Self {
        let count = usize::try_from(count.max(1)).unwrap_or(usize::MAX);
        let slot = Slot {
            next: 1,
            state: State::Free,
        };
        Self {
            slots: vec![slot; count],
            target: count,
        }
    }

    /// Takes the lowest free slot; `None` where a request has to wait.
    pub(super) fn take(&mut self) -> Option<Taken> {
        let mut slots = self.slots.iter_mut().take(self.target).zip(0_u32..);
        let (slot, slotid) = slots.find(|(slot, _)| slot.state == State::Free)?;
        slot.state = State::Busy;
        let sequenceid = slot.next;
        Some(Taken {
            slotid,
            sequenceid,
            highest_slotid: self.highest_busy(),
        })
    }

    /// Gives a slot back.
    pub(super) fn give_back(&mut self, slotid: u32, fate: Fate) {
        let at = usize::try_from(slotid).unwrap_or(usize::MAX);
        let Some(slot) = self.slots.get_mut(at) else {
            return;
        };
        match fate {
            Fate::Taken => slot.next = slot.next.wrapping_add(1),
            Fate::Refused => {}
            Fate::Unknown => {
                slot.state = State::GivenUp;
                return;
            }
        }
        slot.state = State::Free;
    }

    /// Takes note of the highest slot that the server would have us use.
    pub(super) fn aim_at(&mut self, target_highest_slotid: u32) {
        let target = usize::try_from(target_highest_slotid).unwrap_or(usize::MAX);
        self.target = target.saturating_add(1).min(self.slots.len());
    }

    /// Whether every slot was given up: the session is of no use any more.
    pub(super) fn are_given_up(&self) -> bool {
        let mut slots = self.slots.iter().take(self.target);
        slots.all(|slot| slot.state == State::GivenUp)
    }

    fn highest_busy(&self) -> u32 {
        let busy = self.slots.iter().zip(0_u32..);
        let busy = busy.filter(|(slot, _)| slot.state == State::Busy);
        busy.map(|(_, slotid)| slotid).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(slotid: u32, sequenceid: u32, highest_slotid: u32) -> Option<Taken> {
        Some(Taken {
            slotid,
            sequenceid,
            highest_slotid,
        })
    }

    #[test]
    fn the_lowest_free_slot_is_taken_and_numbers_go_up() {
        let mut slots = Slots::new(3);
        assert_eq!(slots.take(), taken(0, 1, 0));
        assert_eq!(slots.take(), taken(1, 1, 1));
        slots.give_back(0, Fate::Taken);
        assert_eq!(slots.take(), taken(0, 2, 1));
        assert_eq!(slots.take(), taken(2, 1, 2));
        assert_eq!(slots.take(), None);
    }

    #[test]
    fn a_request_that_was_refused_leaves_its_number() {
        let mut slots = Slots::new(1);
        slots.take();
        slots.give_back(0, Fate::Refused);
        assert_eq!(slots.take(), taken(0, 1, 0));
    }

    #[test]
    fn a_slot_at_a_number_that_nobody_knows_is_given_up() {
        let mut slots = Slots::new(2);
        slots.take();
        slots.give_back(0, Fate::Unknown);
        assert!(!slots.are_given_up());
        assert_eq!(slots.take(), taken(1, 1, 1));
        assert_eq!(slots.take(), None);
        slots.give_back(1, Fate::Unknown);
        assert!(slots.are_given_up());
    }

    #[test]
    fn numbers_wrap() {
        let mut slots = Slots::new(1);
        slots.slots[0].next = u32::MAX;
        slots.take();
        slots.give_back(0, Fate::Taken);
        assert_eq!(slots.take(), taken(0, 0, 0));
    }

    #[test]
    fn the_server_may_have_fewer_slots_used_and_more_again() {
        let mut slots = Slots::new(4);
        slots.aim_at(0);
        assert_eq!(slots.take(), taken(0, 1, 0));
        assert_eq!(slots.take(), None);
        slots.aim_at(u32::MAX);
        assert_eq!(slots.take(), taken(1, 1, 1));
        // A slot that is not there.
        slots.give_back(99, Fate::Taken);
    }
}
