//! Memory for data on its way: aligned, counted against a [`Budget`], used again while warm.
//!
//! A buffer's bytes are always initialised, but after the first use they are *somebody's*: what
//! a reused buffer holds beyond what was written into it now is another request's data, and
//! nobody may send it. Whoever fills a buffer sets its length to what was filled. In tests, and with
//! the feature `poison`, a buffer holds nothing but [`POISON`] when it is taken: a byte sent
//! without having been filled is seen.
//!
//! Sizes are powers of two from 4 KiB up, and a page more each: a power of two fits in wherever in
//! its first page it begins, and rounded out to pages at both ends. Memory in use and memory idle
//! both count against the budget, so the process never holds more; idle memory is given back as
//! soon as anybody waits.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ops::{Deref, DerefMut, Range};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::budget::{Budget, Reclaim, Reservation};
use crate::limits::{BUFFER_ALIGN_BYTES, BUFFER_BYTES_MAX, BUFFER_IDLE_FRACTION};

/// What a new buffer is full of where forgotten bytes are looked for: in tests of this crate and
/// with the feature `poison`.
pub const POISON: u8 = 0xDB;

/// A source of buffers. Cheap to clone; clones share.
#[derive(Clone)]
pub struct BufferPool {
    inner: Arc<Inner>,
}

struct Inner {
    budget: Budget,
    idle_max: u64,
    idle_bytes: AtomicU64,
    /// One free list per size class, smallest first.
    idle: [Mutex<Vec<Block>>; CLASSES],
}

/// From [`BUFFER_ALIGN_BYTES`] to [`BUFFER_BYTES_MAX`], in powers of two.
const CLASSES: usize =
    (BUFFER_BYTES_MAX.trailing_zeros() - BUFFER_ALIGN_BYTES.trailing_zeros()) as usize + 1;

impl BufferPool {
    /// A pool that takes its memory from `budget`.
    #[must_use]
    pub fn new(budget: Budget) -> Self {
        let inner = Arc::new(Inner {
            idle_max: budget.total() / BUFFER_IDLE_FRACTION,
            idle_bytes: AtomicU64::new(0),
            idle: std::array::from_fn(|_| Mutex::new(Vec::new())),
            budget,
        });
        let reclaim: Arc<dyn Reclaim> = inner.clone();
        inner.budget.register_reclaim(Arc::downgrade(&reclaim));
        Self { inner }
    }

    /// A buffer of `len` bytes if the budget has room now; its start is 4096-aligned. `None`
    /// also for more than [`BUFFER_BYTES_MAX`] or than the whole budget.
    #[must_use]
    pub fn try_take(&self, len: usize) -> Option<Buf> {
        self.try_take_placed(len, 0)
    }

    /// As [`BufferPool::try_take`], beginning `start` bytes behind a multiple of
    /// [`BUFFER_ALIGN_BYTES`]: what is aligned in a file can be aligned in memory too
    /// ([`crate::plan::placement`]).
    ///
    /// # Panics
    /// For a `start` that is not below [`BUFFER_ALIGN_BYTES`].
    #[must_use]
    pub fn try_take_placed(&self, len: usize, start: usize) -> Option<Buf> {
        let class = class_of(len, start)?;
        let block = self.reuse(class).or_else(|| {
            let reservation = self.inner.budget.try_reserve(class_bytes(class) as u64)?;
            Some(Block::new(class, reservation))
        })?;
        Some(self.buf(block, start, len))
    }

    /// A buffer of `len` bytes, waiting for room in the budget: first come, first served.
    /// Nothing is held while waiting. `None` for what could never be had.
    pub async fn take(&self, len: usize) -> Option<Buf> {
        self.take_placed(len, 0).await
    }

    /// As [`BufferPool::take`], placed as by [`BufferPool::try_take_placed`].
    ///
    /// # Panics
    /// For a `start` that is not below [`BUFFER_ALIGN_BYTES`].
    pub async fn take_placed(&self, len: usize, start: usize) -> Option<Buf> {
        let class = class_of(len, start)?;
        if let Some(block) = self.reuse(class) {
            return Some(self.buf(block, start, len));
        }
        let reservation = self.inner.budget.reserve(class_bytes(class) as u64).await?;
        Some(self.buf(Block::new(class, reservation), start, len))
    }

    /// The budget the memory comes from.
    #[must_use]
    pub fn budget(&self) -> &Budget {
        &self.inner.budget
    }

    /// Bytes kept for reuse; part of the budget's `in_use`.
    #[must_use]
    pub fn idle_bytes(&self) -> u64 {
        self.inner.idle_bytes.load(Ordering::Relaxed)
    }

    fn reuse(&self, class: usize) -> Option<Block> {
        // Who waits comes first: a newcomer takes nothing from under their eyes.
        if self.inner.budget.has_waiters() {
            return None;
        }
        let block = self.inner.idle[class].lock().pop()?;
        self.inner
            .idle_bytes
            .fetch_sub(block.bytes() as u64, Ordering::Relaxed);
        Some(block)
    }

    fn buf(&self, block: Block, start: usize, len: usize) -> Buf {
        let block = if cfg!(any(test, feature = "poison")) {
            block.poisoned()
        } else {
            block
        };
        Buf {
            block: Some(block),
            start,
            len,
            home: self.inner.clone(),
        }
    }
}

impl std::fmt::Debug for BufferPool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "BufferPool({} bytes idle, {:?})",
            self.idle_bytes(),
            self.inner.budget
        )
    }
}

impl Inner {
    fn give_back(&self, block: Block) {
        let bytes = block.bytes() as u64;
        let idle_before = self.idle_bytes.fetch_add(bytes, Ordering::Relaxed);
        if idle_before + bytes > self.idle_max {
            self.idle_bytes.fetch_sub(bytes, Ordering::Relaxed);
            return;
        }
        self.idle[block.class].lock().push(block);
        // After the push: a waiter announces itself before it asks for idle memory, so either
        // it finds this block or it is seen here.
        if self.budget.has_waiters() {
            self.reclaim(u64::MAX);
        }
    }
}

impl Reclaim for Inner {
    fn reclaim(&self, bytes: u64) {
        let mut given = 0;
        // The largest first: fewest blocks lose their warmth.
        for class in self.idle.iter().rev() {
            while given < bytes {
                let Some(block) = class.lock().pop() else {
                    break;
                };
                given += block.bytes() as u64;
                self.idle_bytes
                    .fetch_sub(block.bytes() as u64, Ordering::Relaxed);
            }
        }
    }
}

/// A buffer: `len` bytes somewhere in a block of memory. Dereferences to these; goes back to its
/// pool when dropped.
pub struct Buf {
    /// `Some` until dropped.
    block: Option<Block>,
    /// Where in the block it begins, in bytes.
    start: usize,
    /// `start + len` is at most the block's size: kept by the pool, `set_len` and `narrow`.
    len: usize,
    home: Arc<Inner>,
}

impl Buf {
    /// Bytes it can hold from its start on: at least what was asked for.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.block
            .as_ref()
            .map_or(0, |block| block.bytes() - self.start)
    }

    /// Changes the length. Growing shows bytes of earlier use: see the module's text.
    ///
    /// # Panics
    /// For more than the capacity.
    pub fn set_len(&mut self, len: usize) {
        assert!(
            len <= self.capacity(),
            "{len} bytes in a buffer of {}",
            self.capacity()
        );
        self.len = len;
    }

    /// Shortens to `len`; does nothing when it is no longer than that.
    pub fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }

    /// Leaves only the bytes in `range` of what it dereferences to: no byte is moved.
    ///
    /// # Panics
    /// For a range that is not within the length.
    pub fn narrow(&mut self, range: Range<usize>) {
        assert!(
            range.start <= range.end && range.end <= self.len,
            "{range:?} of {} bytes",
            self.len
        );
        self.start += range.start;
        self.len = range.len();
    }

    /// Where its first byte is in memory, as a number: for [`crate::plan::plan_write`].
    #[must_use]
    pub fn address(&self) -> usize {
        self.place().as_ptr() as usize
    }

    /// Where the memory starts; valid for [`Buf::capacity`] bytes and at the same place until
    /// it is narrowed, however the buffer is moved.
    #[must_use]
    pub fn as_mut_ptr(&mut self) -> *mut u8 {
        self.place().as_ptr()
    }

    fn place(&self) -> NonNull<u8> {
        self.block.as_ref().map_or(NonNull::dangling(), |block| {
            // SAFETY: `start` is at most the block's size, kept as its documentation says.
            unsafe { block.start.add(self.start) }
        })
    }
}

impl Deref for Buf {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the block is owned by this buffer alone, initialised over its whole capacity
        // (`Block::new` zeroes it), and `start + len` is kept within it.
        unsafe { std::slice::from_raw_parts(self.place().as_ptr(), self.len) }
    }
}

impl DerefMut for Buf {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`, and `&mut self` makes it the only reference.
        unsafe { std::slice::from_raw_parts_mut(self.place().as_ptr(), self.len) }
    }
}

impl AsRef<[u8]> for Buf {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl std::fmt::Debug for Buf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Buf({} of {} bytes)", self.len, self.capacity())
    }
}

impl Drop for Buf {
    fn drop(&mut self) {
        if let Some(block) = self.block.take() {
            self.home.give_back(block);
        }
    }
}

/// Memory of one size class, with its share of the budget.
struct Block {
    start: NonNull<u8>,
    class: usize,
    _reservation: Reservation,
}

// SAFETY: a block owns its memory, and the allocator takes it back on any thread.
unsafe impl Send for Block {}

// SAFETY: a shared block only lets its address and size be read.
unsafe impl Sync for Block {}

impl Block {
    fn new(class: usize, reservation: Reservation) -> Self {
        let layout = class_layout(class);
        // SAFETY: the layout's size is at least 4096, never 0: kept by `class_layout`.
        let start = unsafe { alloc_zeroed(layout) };
        let start = NonNull::new(start).unwrap_or_else(|| handle_alloc_error(layout));
        Self {
            start,
            class,
            _reservation: reservation,
        }
    }

    /// The block with nothing of earlier use in it.
    fn poisoned(self) -> Self {
        // SAFETY: the block owns as many bytes as it says, and nobody else has it.
        unsafe { self.start.write_bytes(POISON, self.bytes()) };
        self
    }

    fn bytes(&self) -> usize {
        class_bytes(self.class)
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // SAFETY: allocated in `Block::new` with the layout of the same class, freed only here.
        unsafe { dealloc(self.start.as_ptr(), class_layout(self.class)) }
    }
}

/// The smallest class that holds `len` bytes from `start` on.
fn class_of(len: usize, start: usize) -> Option<usize> {
    assert!(start < BUFFER_ALIGN_BYTES, "{start} is not within a page");
    if len > BUFFER_BYTES_MAX {
        return None;
    }
    let bytes = (start + len).saturating_sub(BUFFER_ALIGN_BYTES);
    let bytes = bytes.next_power_of_two().max(BUFFER_ALIGN_BYTES);
    Some((bytes.trailing_zeros() - BUFFER_ALIGN_BYTES.trailing_zeros()) as usize)
}

/// A page more than the power of two, which so fits in wherever in its first page it begins.
fn class_bytes(class: usize) -> usize {
    (BUFFER_ALIGN_BYTES << class) + BUFFER_ALIGN_BYTES
}

fn class_layout(class: usize) -> Layout {
    Layout::from_size_align(class_bytes(class), BUFFER_ALIGN_BYTES)
        .expect("little more than 64 MiB is a valid layout")
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::task::{Context, Waker};

    use super::*;

    const KIB: usize = 1024;

    #[test]
    fn buffers_are_placed_sized_and_reused() {
        let pool = BufferPool::new(Budget::new(4 << 20));
        for len in [0, 1, 4096, 4097, 100_000, 1 << 20] {
            for start in [0, 1, 512, 4095] {
                let mut buf = pool.try_take_placed(len, start).unwrap();
                assert_eq!(
                    (buf.len(), buf.address() % BUFFER_ALIGN_BYTES),
                    (len, start)
                );
                assert!(buf.capacity() >= len && buf.capacity() <= 2 * len.max(4096) + 4096);
                buf.fill(7);
            }
        }
        let mut first = pool.try_take(64 * KIB).unwrap();
        let place = first.as_mut_ptr();
        drop(first);
        let mut second = pool.try_take(37 * KIB).unwrap();
        assert_eq!(second.as_mut_ptr(), place, "same class: the warm block");
        second.set_len(64 * KIB);
        second.truncate(10);
        assert_eq!(second.len(), 10);
    }

    #[test]
    fn nothing_of_earlier_use_is_left_where_it_is_looked_for() {
        let pool = BufferPool::new(Budget::new(1 << 20));
        for len in [10_000, 5000] {
            let mut buf = pool.try_take_placed(len, 100).unwrap();
            buf.set_len(buf.capacity());
            assert!(buf.iter().all(|&byte| byte == POISON));
            buf.fill(1);
        }
    }

    #[test]
    fn a_power_of_two_fits_its_class_wherever_it_begins() {
        for class in 0..CLASSES {
            let bytes = BUFFER_ALIGN_BYTES << class;
            assert_eq!(class_of(bytes, 0).is_some(), bytes <= BUFFER_BYTES_MAX);
            for start in [1, 4095] {
                assert_eq!(
                    class_of(bytes, start),
                    Some(class),
                    "{bytes} from {start} on"
                );
            }
            let rounded_out = class_of(bytes + BUFFER_ALIGN_BYTES, 0);
            let expected = (class + 1 < CLASSES).then_some(class);
            assert_eq!(rounded_out, expected);
        }
    }

    #[test]
    fn narrowing_shows_a_part_and_moves_nothing() {
        let pool = BufferPool::new(Budget::new(1 << 20));
        let mut buf = pool.try_take_placed(1000, 24).unwrap();
        for (index, byte) in buf.iter_mut().enumerate() {
            *byte = index as u8;
        }
        let (place, room) = (buf.address(), buf.capacity());
        buf.narrow(100..300);
        assert_eq!((buf.len(), buf[0], buf[199]), (200, 100, 299_u32 as u8));
        assert_eq!((buf.address(), buf.capacity()), (place + 100, room - 100));
        buf.narrow(200..200);
        assert!(buf.is_empty());
        buf.set_len(buf.capacity());
        buf.fill(0);
        drop(buf);
        let again = pool.try_take_placed(1000, 24).unwrap();
        assert_eq!(again.address(), place, "the whole block went back");
    }

    #[test]
    #[should_panic(expected = "of 10 bytes")]
    fn narrowing_cannot_widen() {
        let pool = BufferPool::new(Budget::new(1 << 20));
        pool.try_take(10).unwrap().narrow(5..11);
    }

    #[test]
    fn memory_never_exceeds_the_budget_idle_included() {
        let total = 64 * 20 * KIB as u64;
        let budget = Budget::new(total);
        let pool = BufferPool::new(budget.clone());
        let held: Vec<Buf> = (0..64).map(|_| pool.try_take(16 * KIB).unwrap()).collect();
        assert_eq!(budget.in_use(), total);
        assert!(pool.try_take(1).is_none());
        drop(held);
        assert_eq!(
            pool.idle_bytes(),
            total / BUFFER_IDLE_FRACTION,
            "the rest was freed"
        );
        assert_eq!(budget.in_use(), pool.idle_bytes());
        let large = pool.try_take(1 << 20).unwrap();
        assert_eq!(pool.idle_bytes(), 0, "idle blocks gave way to a larger one");
        assert_eq!((budget.in_use(), budget.peak()), ((1 << 20) + 4096, total));
        drop(large);
        let other = budget.try_reserve(total);
        assert!(
            other.is_some(),
            "idle buffers give way to others who share the budget"
        );
    }

    #[test]
    fn too_large_is_refused() {
        let pool = BufferPool::new(Budget::new(64 << 10));
        assert!(pool.try_take(65 * KIB).is_none());
        assert!(pool.try_take(usize::MAX).is_none());
        assert!(pool.try_take(BUFFER_BYTES_MAX + 1).is_none());
    }

    #[test]
    fn a_waiter_gets_memory_given_back_of_another_class() {
        let pool = BufferPool::new(Budget::new(160 << 10));
        let small: Vec<Buf> = (0..8).map(|_| pool.try_take(16 * KIB).unwrap()).collect();
        let mut waiting = Box::pin(pool.take(128 * KIB));
        let mut context = Context::from_waker(Waker::noop());
        assert!(waiting.as_mut().poll(&mut context).is_pending());
        drop(small);
        assert!(waiting.as_mut().poll(&mut context).is_ready());
    }

    #[test]
    fn threads_share_a_pool_within_the_budget() {
        let budget = Budget::new(1 << 20);
        let pool = BufferPool::new(budget.clone());
        std::thread::scope(|scope| {
            for seed in 1..5_usize {
                let pool = pool.clone();
                scope.spawn(move || {
                    for round in 0..500 {
                        let len = (round * seed * 7919) % (200 * KIB);
                        if let Some(mut buf) = pool.try_take(len) {
                            buf.fill(seed as u8);
                            assert!(buf.iter().all(|&byte| byte == seed as u8));
                        }
                    }
                });
            }
        });
        assert!(budget.peak() <= budget.total());
        assert_eq!(budget.in_use(), pool.idle_bytes());
    }
}
