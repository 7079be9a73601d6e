//! Which shard a new connection goes to.
//!
//! The one that has the fewest, so that none is left with all that stay: a mount of NFSv3 opens a connection for MOUNT
//! and another for its files, of which only the second lives on, and in turn all of those would come to the same shards.
//! It may go to another later ([`loads`](super::loads)).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use nfs_io::event_loop::LoopTimes;
use tokio::sync::mpsc::UnboundedSender;

use super::clients::Entered;
use super::connection::Moving;
use super::shard::Accepted;

/// The shards, as those see them who accept connections, and each other.
pub(crate) struct Shards(Places<Inlet>);

struct Inlet {
    connections: UnboundedSender<Accepted>,
    load: LoopTimes,
}

/// Where connections can be, and how many are.
struct Places<T> {
    all: Vec<Place<T>>,
    /// Where the next one goes, of places that have equally many.
    turn: AtomicUsize,
}

struct Place<T> {
    is: T,
    taken: Arc<AtomicUsize>,
}

/// One connection of a shard's, until this is dropped.
pub(crate) struct Taken(Arc<AtomicUsize>);

impl Shards {
    pub(crate) fn new(shards: impl IntoIterator<Item = UnboundedSender<Accepted>>) -> Self {
        let inlet = |connections| Inlet {
            connections,
            load: LoopTimes::default(),
        };
        Self(Places::new(shards.into_iter().map(inlet)))
    }

    /// How each of them spends its time, in the order of their numbers.
    pub(crate) fn loads(&self) -> impl ExactSizeIterator<Item = &LoopTimes> {
        self.0.all.iter().map(|place| &place.is.load)
    }

    /// Hands a connection to a shard; whether there is one that takes it.
    pub(crate) fn give(&self, stream: std::net::TcpStream, entered: Entered) -> bool {
        self.0.take().is_some_and(|(shard, taken)| {
            let accepted = Accepted {
                stream,
                entered,
                taken,
                known: None,
            };
            shard.connections.send(accepted).is_ok()
        })
    }

    /// Hands a connection over to the shard that it goes to; whether that takes it. The connection has ended if not.
    pub(super) fn give_over(&self, moving: Moving, entered: Entered) -> bool {
        let Moving { stream, known, to } = moving;
        self.0.take_at(to).is_some_and(|(shard, taken)| {
            let accepted = Accepted {
                stream,
                entered,
                taken,
                known: Some(known),
            };
            shard.connections.send(accepted).is_ok()
        })
    }
}

impl<T> Places<T> {
    fn new(all: impl IntoIterator<Item = T>) -> Self {
        let place = |is| Place {
            is,
            taken: Arc::default(),
        };
        Self {
            all: all.into_iter().map(place).collect(),
            turn: AtomicUsize::new(0),
        }
    }

    /// Takes a place where the fewest are taken. Two who do so at once may see the same.
    fn take(&self) -> Option<(&T, Taken)> {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        let (before, first) = self.all.split_at(turn.checked_rem(self.all.len())?);
        let emptiest = first
            .iter()
            .chain(before)
            .min_by_key(|place| place.taken.load(Ordering::Relaxed))?;
        Some(emptiest.take())
    }

    /// Takes the place of this number, if there is one.
    fn take_at(&self, number: usize) -> Option<(&T, Taken)> {
        self.all.get(number).map(Place::take)
    }
}

impl<T> Place<T> {
    fn take(&self) -> (&T, Taken) {
        self.taken.fetch_add(1, Ordering::Relaxed);
        (&self.is, Taken(Arc::clone(&self.taken)))
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_that_stay_are_on_all_shards_whatever_ends_between() {
        let places = Places::new(["first", "second", "third"]);
        let mut stay = Vec::new();
        for round in 1..4 {
            for _shard in 0..3 {
                stay.push(places.take().unwrap());
                // Those for MOUNT: with three shards each that stays would have its turn on the same.
                drop((places.take(), places.take()));
            }
            for name in ["first", "second", "third"] {
                let here = stay.iter().filter(|(place, _)| **place == name);
                assert_eq!(here.count(), round, "{name}");
            }
        }
        stay.retain(|(place, _)| **place != "second");
        assert_eq!(*places.take().unwrap().0, "second");
        assert!(Places::<()>::new([]).take().is_none());
    }
}
