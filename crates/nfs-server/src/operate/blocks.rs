//! The hosts that the administrator shut out while the server runs (`penstock ctl clients block`).
//!
//! A blocked host's connections are closed when they are accepted, and those it has at its next call. It is
//! answered nothing: a mistaken block is a pause for its programs and not an error, as they go on when it is
//! lifted. The list is forgotten when the server ends: who is to be kept out for good is left out of the exports'
//! clients. A reload leaves it alone.

use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ipnet::IpNet;
use parking_lot::Mutex;

use super::control::BlockStatus;
use crate::limits;

/// Shared by all shards. While nobody is blocked, asking costs one load.
#[derive(Default)]
pub(crate) struct BlockList {
    any: AtomicBool,
    blocks: Mutex<Blocks>,
}

impl BlockList {
    /// Whether the address is blocked at `now`; if so, that is counted.
    pub(crate) fn refuses(&self, addr: IpAddr, now: Instant) -> bool {
        self.any.load(Ordering::Relaxed) && self.blocks.lock().refuses(addr, now)
    }

    /// Shuts a network out, until so many minutes have passed if some are given, and says what is blocked then.
    /// A network that is blocked already gets the new time.
    ///
    /// # Errors
    /// In words: too many blocks.
    pub(crate) fn add(
        &self,
        net: IpNet,
        minutes: Option<u64>,
        now: Instant,
    ) -> Result<Vec<BlockStatus>, String> {
        let mut blocks = self.blocks.lock();
        blocks.add(net, minutes, now)?;
        self.any.store(true, Ordering::Relaxed);
        Ok(blocks.list(now))
    }

    /// Lets a network in again, and says what is still blocked.
    ///
    /// # Errors
    /// In words: this network was not blocked; with those that hold some of its addresses.
    pub(crate) fn remove(&self, net: IpNet, now: Instant) -> Result<Vec<BlockStatus>, String> {
        let mut blocks = self.blocks.lock();
        blocks.remove(net, now)?;
        self.any.store(!blocks.list.is_empty(), Ordering::Relaxed);
        Ok(blocks.list(now))
    }

    /// What is blocked at `now`, in the order in which it was.
    pub(crate) fn list(&self, now: Instant) -> Vec<BlockStatus> {
        let mut blocks = self.blocks.lock();
        let list = blocks.list(now);
        self.any.store(!list.is_empty(), Ordering::Relaxed);
        list
    }
}

/// At most [`limits::BLOCKS_MAX`] networks: each call of anybody asks all of them while there are any.
#[derive(Debug, Default)]
struct Blocks {
    list: Vec<Block>,
}

#[derive(Debug)]
struct Block {
    net: IpNet,
    /// `None`: until it is lifted or the server ends.
    until: Option<Instant>,
    refused: u64,
}

impl Block {
    fn holds(&self, now: Instant) -> bool {
        self.until.is_none_or(|until| now < until)
    }
}

impl Blocks {
    fn refuses(&mut self, addr: IpAddr, now: Instant) -> bool {
        let addr = addr.to_canonical();
        let holds = |block: &&mut Block| block.holds(now) && block.net.contains(&addr);
        match self.list.iter_mut().find(holds) {
            Some(block) => {
                block.refused += 1;
                true
            }
            None => false,
        }
    }

    fn add(&mut self, net: IpNet, minutes: Option<u64>, now: Instant) -> Result<(), String> {
        self.list.retain(|block| block.holds(now));
        let minutes = minutes.map(|minutes| minutes.min(limits::BLOCK_MINUTES_MAX));
        let until = minutes.map(|minutes| now + Duration::from_secs(minutes * 60));
        if let Some(block) = self.list.iter_mut().find(|block| block.net == net) {
            block.until = until;
            return Ok(());
        }
        if self.list.len() >= limits::BLOCKS_MAX {
            let most = limits::BLOCKS_MAX;
            return Err(format!(
                "{most} networks are blocked already, which is the most; unblock some, or block a \
                 wider network"
            ));
        }
        let refused = 0;
        self.list.push(Block {
            net,
            until,
            refused,
        });
        Ok(())
    }

    fn remove(&mut self, net: IpNet, now: Instant) -> Result<(), String> {
        self.list.retain(|block| block.holds(now));
        let before = self.list.len();
        self.list.retain(|block| block.net != net);
        if self.list.len() < before {
            return Ok(());
        }
        let overlaps = |block: &&Block| block.net.contains(&net) || net.contains(&block.net);
        let nets = self.list.iter().filter(overlaps);
        let nets: Vec<String> = nets.map(|block| block.net.to_string()).collect();
        Err(if nets.is_empty() {
            format!("{net} is not blocked")
        } else {
            let nets = nets.join(", ");
            format!("{net} is not blocked by itself; name the network that is: {nets}")
        })
    }

    fn list(&mut self, now: Instant) -> Vec<BlockStatus> {
        self.list.retain(|block| block.holds(now));
        let blocks = self.list.iter().map(|block| BlockStatus {
            net: block.net.to_string(),
            seconds_left: block
                .until
                .map(|until| until.saturating_duration_since(now).as_secs()),
            refused: block.refused,
        });
        blocks.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn net(text: &str) -> IpNet {
        crate::exports::config::parse_net(text).unwrap()
    }

    fn refuses(list: &BlockList, addr: &str, now: Instant) -> bool {
        list.refuses(addr.parse().unwrap(), now)
    }

    #[test]
    fn a_blocked_network_is_refused_until_it_is_lifted_and_nobody_else_is() {
        let (list, now) = (BlockList::default(), Instant::now());
        assert!(!refuses(&list, "10.0.0.1", now));
        list.add(net("10.0.0.0/24"), None, now).unwrap();
        assert!(refuses(&list, "10.0.0.1", now));
        assert!(refuses(&list, "::ffff:10.0.0.1", now));
        assert!(!refuses(&list, "10.0.1.1", now));
        let listed = list.list(now);
        let (first, refused) = (&listed[0], listed[0].refused);
        assert_eq!(
            (first.net.as_str(), first.seconds_left, refused),
            ("10.0.0.0/24", None, 2)
        );
        let error = list.remove(net("10.0.0.1"), now).unwrap_err();
        assert!(
            error.contains("name the network that is: 10.0.0.0/24"),
            "{error}"
        );
        assert_eq!(list.remove(net("10.0.0.0/24"), now), Ok(vec![]));
        assert!(!refuses(&list, "10.0.0.1", now));
        let error = list.remove(net("10.0.0.0/24"), now).unwrap_err();
        assert_eq!(error, "10.0.0.0/24 is not blocked");
    }

    #[test]
    fn a_block_of_some_minutes_ends_by_itself_and_can_be_renewed() {
        let (list, start) = (BlockList::default(), Instant::now());
        let minutes = |minutes: u64| start + Duration::from_secs(minutes * 60);
        list.add(net("10.0.0.1"), Some(2), start).unwrap();
        assert!(refuses(&list, "10.0.0.1", minutes(1)));
        assert_eq!(list.list(minutes(1))[0].seconds_left, Some(60));
        assert!(!refuses(&list, "10.0.0.1", minutes(2)));
        list.add(net("10.0.0.1"), Some(2), start).unwrap();
        let listed = list.add(net("10.0.0.1"), Some(9), start).unwrap();
        assert_eq!(listed.len(), 1);
        assert!(refuses(&list, "10.0.0.1", minutes(8)));
        assert_eq!(list.list(minutes(9)), []);
        assert!(!list.any.load(Ordering::Relaxed));
        // No number of minutes is too large for the clock.
        list.add(net("10.0.0.1"), Some(u64::MAX), start).unwrap();
        assert!(refuses(&list, "10.0.0.1", start));
    }

    #[test]
    fn there_is_an_end_to_blocks() {
        let (list, now) = (BlockList::default(), Instant::now());
        for number in 0..limits::BLOCKS_MAX {
            let addr = format!("10.0.{}.{}", number / 256, number % 256);
            list.add(net(&addr), Some(1), now).unwrap();
        }
        let error = list.add(net("192.0.2.1"), None, now).unwrap_err();
        assert!(error.contains("unblock some"), "{error}");
        let later = now + Duration::from_secs(60);
        assert_eq!(list.add(net("192.0.2.1"), None, later).unwrap().len(), 1);
    }
}
