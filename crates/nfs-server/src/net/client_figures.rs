//! What each client has done, over all of its connections, those that have ended among them.
//!
//! So many clients have figures of their own ([`limits::CLIENT_FIGURES_MAX`]). For one more the least active of
//! those that are away goes: its figures are added to those of all others together. Where none is away the newcomer
//! is one of the others itself. So what is told of a client, and of the others, only grows, until the client is
//! forgotten.

use std::collections::HashMap;
use std::hash::Hash;
use std::ops::AddAssign;

use crate::limits;

/// The figures of a client's connections together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Totals {
    pub(super) operations: u64,
    pub(super) received_bytes: u64,
    pub(super) sent_bytes: u64,
    pub(super) throttled_nanoseconds: u64,
}

impl AddAssign for Totals {
    fn add_assign(&mut self, other: Self) {
        self.operations += other.operations;
        self.received_bytes += other.received_bytes;
        self.sent_bytes += other.sent_bytes;
        self.throttled_nanoseconds += other.throttled_nanoseconds;
    }
}

/// What connections did that have ended, by client.
pub(super) struct ClientFigures<K> {
    named: HashMap<K, Ended>,
    others: Totals,
}

/// A client that has figures of its own.
#[derive(Default)]
struct Ended {
    /// Connections that are open now.
    open: usize,
    /// What those did that have ended.
    totals: Totals,
}

impl<K> Default for ClientFigures<K> {
    fn default() -> Self {
        Self {
            named: HashMap::new(),
            others: Totals::default(),
        }
    }
}

impl<K: Copy + Eq + Hash> ClientFigures<K> {
    /// A connection of this client begins. False where it is counted among the others.
    pub(super) fn enter(&mut self, client: K) -> bool {
        let is_new = !self.named.contains_key(&client);
        if is_new && self.named.len() >= limits::CLIENT_FIGURES_MAX && !self.forget_one() {
            return false;
        }
        self.named.entry(client).or_default().open += 1;
        true
    }

    /// A connection of this client has ended, which had the answer `is_named` when it began.
    pub(super) fn leave(&mut self, client: K, is_named: bool, totals: Totals) {
        match self.named.get_mut(&client).filter(|_| is_named) {
            Some(ended) => {
                ended.open -= 1;
                ended.totals += totals;
            }
            None => self.others += totals,
        }
    }

    /// Makes room for a client. False where all that are known have connections.
    fn forget_one(&mut self) -> bool {
        let away = self.named.iter().filter(|(_, ended)| ended.open == 0);
        let least = away.min_by_key(|(_, ended)| ended.totals.operations);
        let Some(client) = least.map(|(client, _)| *client) else {
            return false;
        };
        if let Some(ended) = self.named.remove(&client) {
            self.others += ended.totals;
        }
        true
    }

    /// The clients with figures of their own, with what their connections did that have ended.
    pub(super) fn named(&self) -> impl Iterator<Item = (K, Totals)> {
        self.named
            .iter()
            .map(|(client, ended)| (*client, ended.totals))
    }

    /// What connections of all others did that have ended.
    pub(super) const fn others(&self) -> Totals {
        self.others
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operations(operations: u64) -> Totals {
        Totals {
            operations,
            ..Totals::default()
        }
    }

    #[test]
    fn the_least_active_of_those_away_is_folded_into_the_others() {
        let mut figures = ClientFigures::default();
        let most = limits::CLIENT_FIGURES_MAX as u32;
        for client in 0..most {
            assert!(figures.enter(client));
            // The second one is still here, and has done least.
            if client != 1 {
                figures.leave(client, true, operations(100 + u64::from(client)));
            }
        }
        assert!(figures.enter(most), "the first one went for it");
        assert_eq!(figures.others(), operations(100));
        assert!(figures.named().all(|(client, _)| client != 0));
        assert!(figures.named().any(|(client, _)| client == 1));
        figures.leave(most, true, operations(1));
        assert!(figures.enter(0), "it comes back, and begins anew");
        assert_eq!(figures.others(), operations(101));
        assert_eq!(figures.named().count(), limits::CLIENT_FIGURES_MAX);
    }

    #[test]
    fn where_nobody_is_away_a_newcomer_is_one_of_the_others() {
        let mut figures = ClientFigures::default();
        let most = limits::CLIENT_FIGURES_MAX as u32;
        for client in 0..most {
            assert!(figures.enter(client));
        }
        assert!(!figures.enter(most));
        figures.leave(0, true, operations(5));
        // It has a connection of each kind now.
        assert!(figures.enter(most));
        figures.leave(most, false, operations(7));
        assert_eq!(figures.others(), operations(5 + 7));
    }
}
