//! Memory for data on its way: aligned, counted against a [`Budget`], used again while warm.
//!
//! A buffer's bytes are always initialised, but after the first use they are *somebody's*: what
//! a reused buffer holds beyond what was written into it now is another request's data, and
//! nobody may send it. Whoever fills a buffer sets its length to what was filled.
//!
//! Sizes are powers of two from 4 KiB up. Memory in use and memory idle both count against the
//! budget, so the process never holds more; idle memory is given back as soon as anybody waits.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::budget::{Budget, Reclaim, Reservation};
use crate::limits::{BUFFER_ALIGN_BYTES, BUFFER_BYTES_MAX, BUFFER_IDLE_FRACTION};

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
        let class = class_of(len)?;
        let block = self.reuse(class).or_else(|| {
            let reservation = self.inner.budget.try_reserve(class_bytes(class) as u64)?;
            Some(Block::new(class, reservation))
        })?;
        Some(self.buf(block, len))
    }

    /// A buffer of `len` bytes, waiting for room in the budget: first come, first served.
    /// Nothing is held while waiting. `None` for what could never be had.
    pub async fn take(&self, len: usize) -> Option<Buf> {
        let class = class_of(len)?;
        if let Some(block) = self.reuse(class) {
            return Some(self.buf(block, len));
        }
        let reservation = self.inner.budget.reserve(class_bytes(class) as u64).await?;
        Some(self.buf(Block::new(class, reservation), len))
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

    fn buf(&self, block: Block, len: usize) -> Buf {
        Buf {
            block: Some(block),
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

/// A buffer. Dereferences to its first `len` bytes; goes back to its pool when dropped.
pub struct Buf {
    /// `Some` until dropped.
    block: Option<Block>,
    /// At most the capacity: kept by `set_len` and the pool.
    len: usize,
    home: Arc<Inner>,
}

impl Buf {
    /// Bytes it can hold: what was asked for, rounded up to a size class.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.block.as_ref().map_or(0, Block::bytes)
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

    /// Where the memory starts; valid for [`Buf::capacity`] bytes and at the same place for as
    /// long as the buffer lives, however it is moved.
    #[must_use]
    pub fn as_mut_ptr(&mut self) -> *mut u8 {
        self.start().as_ptr()
    }

    fn start(&self) -> NonNull<u8> {
        self.block
            .as_ref()
            .map_or(NonNull::dangling(), |block| block.start)
    }
}

impl Deref for Buf {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the block is owned by this buffer alone, initialised over its whole capacity
        // (`Block::new` zeroes it), and `len` is kept within the capacity.
        unsafe { std::slice::from_raw_parts(self.start().as_ptr(), self.len) }
    }
}

impl DerefMut for Buf {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`, and `&mut self` makes it the only reference.
        unsafe { std::slice::from_raw_parts_mut(self.start().as_ptr(), self.len) }
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

fn class_of(len: usize) -> Option<usize> {
    if len > BUFFER_BYTES_MAX {
        return None;
    }
    let bytes = len.next_power_of_two().max(BUFFER_ALIGN_BYTES);
    Some((bytes.trailing_zeros() - BUFFER_ALIGN_BYTES.trailing_zeros()) as usize)
}

fn class_bytes(class: usize) -> usize {
    BUFFER_ALIGN_BYTES << class
}

fn class_layout(class: usize) -> Layout {
    Layout::from_size_align(class_bytes(class), BUFFER_ALIGN_BYTES)
        .expect("a power of two of at most 64 MiB is a valid layout")
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::task::{Context, Waker};

    use super::*;

    const KIB: usize = 1024;

    #[test]
    fn buffers_are_aligned_sized_and_reused() {
        let pool = BufferPool::new(Budget::new(4 << 20));
        for len in [0, 1, 4096, 4097, 100_000, 1 << 20] {
            let mut buf = pool.try_take(len).unwrap();
            assert_eq!(buf.len(), len);
            assert_eq!(buf.as_mut_ptr() as usize % BUFFER_ALIGN_BYTES, 0);
            assert!(buf.capacity() >= len && buf.capacity() < 2 * len.max(4096));
            buf.fill(7);
        }
        let mut first = pool.try_take(64 * KIB).unwrap();
        let place = first.as_mut_ptr();
        drop(first);
        let mut second = pool.try_take(33 * KIB).unwrap();
        assert_eq!(second.as_mut_ptr(), place, "same class: the warm block");
        second.set_len(64 * KIB);
        second.truncate(10);
        assert_eq!(second.len(), 10);
    }

    #[test]
    fn memory_never_exceeds_the_budget_idle_included() {
        let budget = Budget::new(1 << 20);
        let pool = BufferPool::new(budget.clone());
        let held: Vec<Buf> = (0..64).map(|_| pool.try_take(16 * KIB).unwrap()).collect();
        assert_eq!(budget.in_use(), 1 << 20);
        assert!(pool.try_take(1).is_none());
        drop(held);
        assert_eq!(
            pool.idle_bytes(),
            (1 << 20) / BUFFER_IDLE_FRACTION,
            "the rest was freed"
        );
        assert_eq!(budget.in_use(), pool.idle_bytes());
        let whole = pool.try_take(1 << 20).unwrap();
        assert_eq!(pool.idle_bytes(), 0, "idle blocks gave way to a larger one");
        assert_eq!((budget.in_use(), budget.peak()), (1 << 20, 1 << 20));
        drop(whole);
        let other = budget.try_reserve(1 << 20);
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
        let pool = BufferPool::new(Budget::new(128 << 10));
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
