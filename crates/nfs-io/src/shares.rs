//! A number of bytes that clients share: each gets its share at once or waits for it in a fair order.
//!
//! What is handed out is a right, not memory: see [`Ledger`] for who gets how much. Shared between threads;
//! nothing is called while the lock is held.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::turns::{ClientKey, Ledger, Rule, Sharer};

/// Bytes that clients share. Cheap to clone; clones share.
#[derive(Clone)]
pub struct Shares(Arc<Inner>);

struct Inner {
    ledger: Mutex<Ledger<Waiting>>,
    waiting: AtomicUsize,
}

struct Waiting {
    client: ClientKey,
    bytes: u64,
    sender: oneshot::Sender<Share>,
}

/// What one call of a client holds of [`Shares`]; given back when dropped.
#[must_use = "dropping it gives the bytes back"]
pub struct Share {
    shares: Shares,
    client: ClientKey,
    bytes: u64,
}

impl Shares {
    /// `bytes` to share by this rule.
    #[must_use]
    pub fn new(bytes: u64, rule: Rule) -> Self {
        Self(Arc::new(Inner {
            ledger: Mutex::new(Ledger::new(bytes, rule)),
            waiting: AtomicUsize::new(0),
        }))
    }

    /// Takes `bytes` (all there are, at most) for a call of this client if it may have them now.
    #[must_use]
    pub fn try_take(&self, client: Sharer, bytes: u64) -> Option<Share> {
        let mut ledger = self.0.ledger.lock();
        let bytes = ledger.at_most(bytes);
        let taken = ledger.try_take(client, bytes);
        drop(ledger);
        taken.then(|| self.share(client.key, bytes))
    }

    /// Takes `bytes` (all there are, at most) for a call of this client, waiting until it is its turn. Dropping
    /// the future gives up the place.
    ///
    /// # Panics
    /// Never: whoever waits is answered before the shares go.
    pub async fn take(&self, client: Sharer, bytes: u64) -> Share {
        if let Some(share) = self.try_take(client, bytes) {
            return share;
        }
        let (sender, receiver) = oneshot::channel();
        let number = {
            let mut ledger = self.0.ledger.lock();
            let bytes = ledger.at_most(bytes);
            let waiting = Waiting {
                client: client.key,
                bytes,
                sender,
            };
            self.0.waiting.fetch_add(1, Ordering::Relaxed);
            ledger.join(client, bytes, waiting)
        };
        let _place = Place {
            shares: self,
            client: client.key,
            number,
        };
        self.grant();
        match receiver.await {
            Ok(share) => share,
            Err(_) => unreachable!("its place was not given up"),
        }
    }

    /// Whether somebody waits.
    #[must_use]
    pub fn has_waiters(&self) -> bool {
        self.0.waiting.load(Ordering::Relaxed) > 0
    }

    /// Somebody waits for what this client holds: a call of its own, or others, and it holds more than its share
    /// of the whole.
    #[must_use]
    pub fn is_held_up_by(&self, client: ClientKey) -> bool {
        self.has_waiters() && {
            let ledger = self.0.ledger.lock();
            ledger.waits(client) || ledger.holds_up_others(client)
        }
    }

    /// Bytes that a client holds.
    #[must_use]
    pub fn held_by(&self, client: ClientKey) -> u64 {
        self.0.ledger.lock().of(client)
    }

    /// Gives what is free to those whose turn it is.
    fn grant(&self) {
        while let Some(next) = self.next_granted() {
            // Whoever has gone meanwhile gives its share back by not taking it.
            drop(next.sender.send(self.share(next.client, next.bytes)));
        }
    }

    fn next_granted(&self) -> Option<Waiting> {
        let next = self.0.ledger.lock().grant()?;
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
        Some(next)
    }

    fn share(&self, client: ClientKey, bytes: u64) -> Share {
        Share {
            shares: self.clone(),
            client,
            bytes,
        }
    }
}

impl std::fmt::Debug for Shares {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let taken = self.0.ledger.lock().taken();
        write!(f, "Shares({taken} bytes taken)")
    }
}

impl Share {
    /// Keeps no more than `bytes` of it.
    pub fn shrink(&mut self, bytes: u64) {
        let rest = self.bytes.saturating_sub(bytes);
        self.bytes -= rest;
        self.shares.give_back(self.client, rest);
    }
}

impl Shares {
    fn give_back(&self, client: ClientKey, bytes: u64) {
        self.0.ledger.lock().give_back(client, bytes);
        if self.has_waiters() {
            self.grant();
        }
    }
}

impl std::fmt::Debug for Share {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Share({} bytes)", self.bytes)
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.shares.give_back(self.client, self.bytes);
    }
}

/// A place in the queue, given up when the future that waits is dropped.
struct Place<'s> {
    shares: &'s Shares,
    client: ClientKey,
    number: u64,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let left = self.shares.0.ledger.lock().leave(self.client, self.number);
        if left.is_some() {
            self.shares.0.waiting.fetch_sub(1, Ordering::Relaxed);
            // It may have stood before others.
            self.shares.grant();
        }
    }
}

#[cfg(test)]
mod simulation;

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::net::Ipv4Addr;
    use std::pin::Pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    fn client(number: u32) -> Sharer {
        Sharer::of(Ipv4Addr::from(number).into())
    }

    fn poll<F: Future>(future: &mut Pin<Box<F>>) -> Poll<F::Output> {
        future
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn a_polite_request_overtakes_a_queue_of_thousands() {
        let shares = Shares::new(1000, Rule::Everything);
        let all = shares.try_take(client(1), 1000).unwrap();
        let mut greedy: Vec<_> = (0..4000)
            .map(|_| Box::pin(shares.take(client(1), 10)))
            .collect();
        assert!(greedy.iter_mut().all(|one| poll(one).is_pending()));
        let mut polite = Box::pin(shares.take(client(2), 1000));
        assert!(poll(&mut polite).is_pending());
        drop(all);
        // One of the greedy client's turns may have begun before.
        let Poll::Ready(first) = poll(&mut greedy[0]) else {
            panic!("first come")
        };
        assert!(poll(&mut greedy[1]).is_pending());
        drop(first);
        assert!(poll(&mut polite).is_ready());
    }

    #[test]
    fn who_gives_up_leaves_nothing_behind() {
        let shares = Shares::new(100, Rule::TimesFree(3));
        let held = shares.try_take(client(1), 75).unwrap();
        let mut large = Box::pin(shares.take(client(2), 100));
        let mut small = Box::pin(shares.take(client(3), 10));
        assert!(poll(&mut large).is_pending() && poll(&mut small).is_pending());
        assert!(shares.is_held_up_by(client(1).key));
        drop(large);
        let Poll::Ready(small) = poll(&mut small) else {
            panic!("nobody is before it")
        };
        let mut granted = Box::pin(shares.take(client(1), 10));
        assert!(poll(&mut granted).is_pending());
        drop((held, small));
        // It was granted and goes before it knows.
        drop(granted);
        assert!(!shares.has_waiters());
        assert_eq!(shares.0.ledger.lock().taken(), 0);
    }

    #[test]
    fn what_is_kept_can_be_less_than_what_was_taken() {
        let shares = Shares::new(100, Rule::TimesFree(3));
        let mut share = shares.try_take(client(1), u64::MAX).unwrap();
        assert_eq!(shares.held_by(client(1).key), 100);
        let mut waits = Box::pin(shares.take(client(2), 60));
        assert!(poll(&mut waits).is_pending());
        share.shrink(30);
        assert!(poll(&mut waits).is_ready());
        assert_eq!(shares.held_by(client(1).key), 30);
    }
}
