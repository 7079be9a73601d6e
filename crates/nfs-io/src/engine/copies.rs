//! Large writes into the page cache that a client has under way.
//!
//! Where the kernel has no memory at hand for a write, as at the limit of a control group, a worker copies the data, and
//! whoever receives more in the meantime does so into another buffer. So many buffers fit into no processor's cache:
//! both copies, from the socket and into the page cache, then take longer than with one buffer that is used again and
//! again. So data that is still to come waits for a moment while what is there is copied ([`Copies::wait`]).
//!
//! Only for a moment: a writer that the kernel holds back, because the disk is behind, takes as long as the disk does,
//! and calls that come behind the data on its connection are not to wait for that.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, timeout};

use crate::limits::{
    COPIES_REST_MILLISECONDS_MAX, COPIES_REST_MILLISECONDS_MIN, COPIES_UNDER_WAY_BYTES_MAX,
    COPIES_WAIT_MILLISECONDS_MAX, COPY_LARGE_BYTES_MIN,
};
use crate::rests::Rests;
use crate::{Mode, Op, WriteSync};

/// The large copies of one client under way on one thread, and who waits for their end: connections of this client that are
/// about to receive more. Other clients wait for their own.
pub struct Copies {
    bytes: Cell<usize>,
    /// How many have ended, modulo 2^64.
    ended: Cell<u64>,
    fewer: Notify,
    /// Nobody waits in these, behind waits in which none has ended.
    rests: RefCell<Rests>,
}

impl Copies {
    /// Nothing is being copied.
    #[must_use]
    pub fn new() -> Self {
        let rests = COPIES_REST_MILLISECONDS_MIN..=COPIES_REST_MILLISECONDS_MAX;
        Self {
            bytes: Cell::default(),
            ended: Cell::default(),
            fewer: Notify::new(),
            rests: RefCell::new(Rests::new(Instant::now().into_std(), rests)),
        }
    }

    /// `op` begins; if it is a large copy, it has ended when what is returned is dropped.
    pub(super) fn begin(self: &Rc<Self>, op: &Op) -> Option<Copying> {
        let bytes = large_copy_bytes(op);
        self.bytes.set(self.bytes.get() + bytes);
        (bytes > 0).then(|| Copying {
            copies: Rc::clone(self),
            bytes,
        })
    }

    /// Whether so much is being copied that more data had better not be received now, and somebody may wait for that.
    #[must_use]
    pub fn are_in_the_way(&self) -> bool {
        self.are_many() && self.rests.borrow().are_over(Instant::now().into_std())
    }

    /// Waits until it is less than that, but for no longer than [`COPIES_WAIT_MILLISECONDS_MAX`].
    pub async fn wait(&self) {
        let ended = self.ended.get();
        let fewer = async {
            while self.are_many() {
                self.fewer.notified().await;
            }
        };
        let patience = Duration::from_millis(COPIES_WAIT_MILLISECONDS_MAX);
        if timeout(patience, fewer).await.is_err() && self.ended.get() == ended {
            self.rests.borrow_mut().begin(Instant::now().into_std());
        }
    }

    fn are_many(&self) -> bool {
        self.bytes.get() >= COPIES_UNDER_WAY_BYTES_MAX
    }
}

impl Default for Copies {
    fn default() -> Self {
        Self::new()
    }
}

impl std::fmt::Debug for Copies {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Copies({} bytes)", self.bytes.get())
    }
}

/// One large copy, under way until this is dropped.
pub(super) struct Copying {
    copies: Rc<Copies>,
    bytes: usize,
}

impl Drop for Copying {
    fn drop(&mut self) {
        let copies = &self.copies;
        let left = copies.bytes.get() - self.bytes;
        copies.bytes.set(left);
        copies.ended.set(copies.ended.get().wrapping_add(1));
        // One for each that ends, so that many connections do not all receive at once.
        if left == 0 {
            copies.fewer.notify_waiters();
        } else {
            copies.fewer.notify_one();
        }
    }
}

/// How many bytes an operation copies into the page cache, if that is a large copy; else 0. What is to be on stable
/// storage when it is done takes as long as the device does.
fn large_copy_bytes(op: &Op) -> usize {
    match op {
        Op::Write {
            range,
            sync: WriteSync::None,
            mode: Mode::Buffered | Mode::DontCache,
            ..
        } if range.len() >= COPY_LARGE_BYTES_MIN => range.len(),
        Op::Read { .. } | Op::Write { .. } | Op::Fsync { .. } => 0,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{Budget, BufferPool, Keep};

    /// As many bytes as are waited for.
    const MANY: usize = COPIES_UNDER_WAY_BYTES_MAX;
    const PATIENCE: Duration = Duration::from_millis(COPIES_WAIT_MILLISECONDS_MAX);

    fn write(bytes: usize, sync: WriteSync, mode: Mode) -> Op {
        let pool = BufferPool::new(Budget::new(8 << 20));
        Op::Write {
            file: Arc::new(tempfile::tempfile().unwrap().into()),
            offset: 0,
            buf: pool.try_take(bytes).unwrap(),
            range: 0..bytes,
            sync,
            mode,
            may_wait: false,
            keep: Keep::none(),
        }
    }

    /// Runs a test with a clock that goes on when everybody waits.
    fn run(test: impl Future<Output = ()>) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(test);
    }

    /// How long somebody waits who is about to receive data.
    async fn waits(copies: &Copies) -> Duration {
        let begun = Instant::now();
        if copies.are_in_the_way() {
            copies.wait().await;
        }
        begun.elapsed()
    }

    #[test]
    fn data_waits_for_large_copies_into_the_page_cache_and_for_nothing_else() {
        run(async {
            for (bytes, sync, mode, is_waited_for) in [
                (MANY, WriteSync::None, Mode::Buffered, true),
                (MANY, WriteSync::None, Mode::DontCache, true),
                (MANY, WriteSync::None, Mode::Direct, false),
                (MANY, WriteSync::Dsync, Mode::Buffered, false),
                (MANY / 2, WriteSync::None, Mode::Buffered, false),
            ] {
                let copies = Rc::new(Copies::new());
                let op = write(bytes, sync, mode);
                let copying = copies.begin(&op);
                assert_eq!(copies.are_in_the_way(), is_waited_for, "{op:?}");
                drop(copying);
                assert!(!copies.are_in_the_way(), "{op:?}");
            }
            let copies = Rc::new(Copies::new());
            let small = write(COPY_LARGE_BYTES_MIN - 1, WriteSync::None, Mode::Buffered);
            let _copying: Vec<_> = (0..64).map(|_| copies.begin(&small)).collect();
            assert!(!copies.are_in_the_way());
        });
    }

    #[test]
    fn it_goes_on_as_soon_as_little_is_copied() {
        run(async {
            let copies = Rc::new(Copies::new());
            let half = write(MANY / 2, WriteSync::None, Mode::Buffered);
            let (first, second) = (copies.begin(&half), copies.begin(&half));
            let until = PATIENCE / 2;
            let ends = async {
                // SLEEP: what is tested is that the end is waited for.
                tokio::time::sleep(until).await;
                drop(first);
            };
            let (waited, ()) = tokio::join!(waits(&copies), ends);
            assert_eq!(waited, until);
            drop(second);
        });
    }

    #[test]
    fn one_waits_on_while_others_receive_but_not_for_ever() {
        run(async {
            let copies = Rc::new(Copies::new());
            let op = write(MANY, WriteSync::None, Mode::Buffered);
            let mut copying = copies.begin(&op);
            let others = async {
                loop {
                    // SLEEP: a copy takes so long.
                    tokio::time::sleep(PATIENCE / 4).await;
                    let next = copies.begin(&op);
                    drop(std::mem::replace(&mut copying, next));
                }
            };
            tokio::select! {
                waited = waits(&copies) => assert_eq!(waited, PATIENCE),
                () = others => (),
            }
            assert!(
                copies.are_in_the_way(),
                "some have ended: the next one waits too"
            );
        });
    }

    #[test]
    fn where_nothing_ends_hardly_anybody_waits() {
        run(async {
            let copies = Rc::new(Copies::new());
            let _held_back = copies.begin(&write(MANY, WriteSync::None, Mode::Buffered));
            let mut waited = Duration::ZERO;
            for _ in 0..10_000 {
                waited += waits(&copies).await;
                // SLEEP: the next data comes a millisecond later.
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            // In rests of 10, 20, 40 ms and so on up to a second, ten seconds have 15 waits.
            assert!(waited >= PATIENCE * 10, "{waited:?}");
            assert!(waited <= PATIENCE * 20, "{waited:?}");
        });
    }
}
