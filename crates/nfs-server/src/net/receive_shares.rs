//! How much of the memory for calls on their way in each holder may have.
//!
//! The whole is divided by the holders that have any and one more, so that there is room for who comes next. A
//! holder without any may always begin one call, however long. Who has its share waits, behind nobody but itself.
//! When holders come, the shares of those before them shrink: one that has more then is expected to get on
//! ([`ReceiveShare::is_over`]).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

/// The memory that is shared, in bytes.
pub(crate) struct ReceiveShares {
    total: u64,
    /// Holders that have any of it.
    holding: AtomicU64,
}

/// One holder's.
pub(crate) struct ReceiveShare {
    of: Arc<ReceiveShares>,
    held: AtomicU64,
    waiting: AtomicUsize,
    freed: Notify,
}

/// Leave to take so many bytes from the budget, for as long as this lives.
#[must_use = "dropping it gives the bytes back"]
pub(crate) struct Taken {
    share: Arc<ReceiveShare>,
    bytes: u64,
    since: Instant,
}

impl Taken {
    pub(super) fn held_for(&self) -> Duration {
        self.since.elapsed()
    }
}

impl ReceiveShares {
    pub(crate) fn new(total: u64) -> Arc<Self> {
        Arc::new(Self {
            total,
            holding: AtomicU64::new(0),
        })
    }

    /// The share of a holder that comes or came.
    pub(crate) fn share(self: &Arc<Self>) -> Arc<ReceiveShare> {
        Arc::new(ReceiveShare {
            of: Arc::clone(self),
            held: AtomicU64::new(0),
            waiting: AtomicUsize::new(0),
            freed: Notify::new(),
        })
    }

    /// What each holder may have, bytes.
    fn each(&self) -> u64 {
        self.total / (self.holding.load(Ordering::Relaxed) + 1)
    }
}

impl ReceiveShare {
    /// Takes `bytes` if that is within the share.
    pub(crate) fn try_take(self: &Arc<Self>, bytes: u64) -> Option<Taken> {
        let added = self
            .held
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |held| {
                let after = held.saturating_add(bytes);
                (held == 0 || after <= self.of.each()).then_some(after)
            });
        if added.ok()? == 0 && bytes > 0 {
            self.of.holding.fetch_add(1, Ordering::Relaxed);
        }
        let share = Arc::clone(self);
        Some(Taken {
            share,
            bytes,
            since: Instant::now(),
        })
    }

    /// Takes `bytes` as soon as that is within the share.
    pub(crate) async fn take(self: &Arc<Self>, bytes: u64) -> Taken {
        let _waiting = Waiting::new(self);
        loop {
            let mut freed = std::pin::pin!(self.freed.notified());
            // From here on nothing that is given back is missed.
            freed.as_mut().enable();
            if let Some(taken) = self.try_take(bytes) {
                // There may be room for the next one, too.
                self.freed.notify_one();
                return taken;
            }
            freed.await;
        }
    }

    /// Bytes that the holder's calls on their way in hold.
    pub(crate) fn held(&self) -> u64 {
        self.held.load(Ordering::Relaxed)
    }

    /// Whether it has more than its share, as others have come since.
    pub(crate) fn is_over(&self) -> bool {
        self.held.load(Ordering::Relaxed) > self.of.each()
    }

    /// Whether further calls of the holder wait for what it has.
    pub(crate) fn has_waiters(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        let share = &self.share;
        if self.bytes > 0 && share.held.fetch_sub(self.bytes, Ordering::Relaxed) == self.bytes {
            share.of.holding.fetch_sub(1, Ordering::Relaxed);
        }
        share.freed.notify_one();
    }
}

/// Counts one waiter for as long as it waits, also when its future is dropped.
struct Waiting<'a>(&'a ReceiveShare);

impl<'a> Waiting<'a> {
    fn new(share: &'a ReceiveShare) -> Self {
        share.waiting.fetch_add(1, Ordering::Relaxed);
        Self(share)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use proptest::prelude::*;

    use super::*;

    fn poll<F: Future>(future: std::pin::Pin<&mut F>) -> Poll<F::Output> {
        future.poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn one_holder_leaves_half_for_who_comes_next() {
        let shares = ReceiveShares::new(100);
        let (one, other) = (shares.share(), shares.share());
        let taken = one.try_take(50).unwrap();
        assert!(one.try_take(1).is_none());
        let small = other.try_take(30).unwrap();
        assert!(one.is_over(), "a third is its share by now");
        assert!(!other.is_over());
        drop(small);
        assert!(!one.is_over());
        drop(taken);
        assert_eq!(shares.holding.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn who_has_nothing_may_begin_one_call_of_any_length() {
        let shares = ReceiveShares::new(100);
        let one = shares.share();
        let large = one.try_take(90).unwrap();
        assert!(one.try_take(1).is_none());
        drop(large);
        assert!(one.try_take(1).is_some());
    }

    #[test]
    fn a_holder_waits_for_itself_alone() {
        let shares = ReceiveShares::new(100);
        let (one, other) = (shares.share(), shares.share());
        let first = one.try_take(50).unwrap();
        let mut small = pin!(one.take(10));
        let mut smaller = pin!(one.take(5));
        assert!(poll(small.as_mut()).is_pending() && poll(smaller.as_mut()).is_pending());
        assert!(one.has_waiters());
        assert!(other.try_take(30).is_some(), "others go on");
        drop(first);
        let Poll::Ready(ten) = poll(small.as_mut()) else {
            panic!("its turn")
        };
        let Poll::Ready(five) = poll(smaller.as_mut()) else {
            panic!("there is room for both")
        };
        drop((ten, five));
    }

    proptest! {
        /// Whatever is taken and given back: nobody adds to more than its share, and the books are right.
        #[test]
        fn nobody_adds_to_more_than_its_share(
            moves in prop::collection::vec((0_usize..5, 1_u64..60, any::<bool>()), 1..200),
        ) {
            let shares = ReceiveShares::new(100);
            let holders: Vec<_> = (0..5).map(|_| shares.share()).collect();
            let mut held: Vec<Vec<Taken>> = (0..5).map(|_| Vec::new()).collect();
            for (who, bytes, gives_back) in moves {
                if gives_back {
                    held[who].pop();
                } else if let Some(taken) = holders[who].try_take(bytes) {
                    let before: u64 = held[who].iter().map(|it| it.bytes).sum();
                    held[who].push(taken);
                    prop_assert!(before == 0 || !holders[who].is_over());
                }
                let holding = held.iter().filter(|it| !it.is_empty()).count() as u64;
                prop_assert_eq!(shares.holding.load(Ordering::Relaxed), holding);
                for (holder, held) in holders.iter().zip(&held) {
                    let sum: u64 = held.iter().map(|it| it.bytes).sum();
                    prop_assert_eq!(holder.held.load(Ordering::Relaxed), sum);
                }
            }
        }
    }
}
