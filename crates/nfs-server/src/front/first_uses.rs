//! Which client has used which export since the server started: the first time is worth a line of the log.
//!
//! A handle outlives the server, so that a client goes on after a restart without a MOUNT: this is where it
//! is seen then. Bounded by [`limits::FIRST_USES_MAX`]; what was forgotten is a first use once more.

use std::collections::{HashSet, VecDeque};

use crate::limits;
use crate::network::Network;

/// The clients and the ids of the exports that they used, oldest first.
#[derive(Debug, Default)]
pub(crate) struct FirstUses {
    known: HashSet<(Network, u32)>,
    in_order: VecDeque<(Network, u32)>,
}

impl FirstUses {
    /// Whether this is the first use of the export with this id by this client, which it is not from now on.
    pub(crate) fn is_first(&mut self, client: Network, export: u32) -> bool {
        if !self.known.insert((client, export)) {
            return false;
        }
        self.in_order.push_back((client, export));
        if self.in_order.len() > limits::FIRST_USES_MAX
            && let Some(oldest) = self.in_order.pop_front()
        {
            self.known.remove(&oldest);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn client(number: u32) -> Network {
        Network::of(Ipv4Addr::from_bits(number).into())
    }

    #[test]
    fn each_client_uses_each_export_for_the_first_time_once() {
        let mut uses = FirstUses::default();
        assert!(uses.is_first(client(1), 7));
        assert!(!uses.is_first(client(1), 7));
        assert!(uses.is_first(client(1), 8));
        assert!(uses.is_first(client(2), 7));
    }

    #[test]
    fn many_clients_take_bounded_memory_and_the_oldest_is_new_again() {
        let mut uses = FirstUses::default();
        let most = u32::try_from(limits::FIRST_USES_MAX).unwrap();
        for number in 0..=most {
            assert!(uses.is_first(client(number), 7));
        }
        assert_eq!(uses.known.len(), limits::FIRST_USES_MAX);
        assert_eq!(uses.in_order.len(), limits::FIRST_USES_MAX);
        assert!(!uses.is_first(client(most), 7));
        assert!(uses.is_first(client(0), 7));
    }
}
