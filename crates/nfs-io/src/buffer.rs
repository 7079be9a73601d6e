//! Memory for data on its way: aligned, counted against a [`Budget`], used again while warm.
//!
//! A buffer's bytes are always initialised, but after the first use they are *somebody's*: what
//! a reused buffer holds beyond what was written into it now is another request's data, and
//! nobody may send it. Whoever fills a buffer sets its length to what was filled. In tests, and with
//! the feature `poison`, a buffer holds nothing but [`POISON`] when it is taken: a byte sent
//! without having been filled is seen.
//!
//! Sizes are powers of two from 4 KiB up, and a page more than these: for what does not begin at
//! a page boundary or is rounded out to pages. Memory in use and memory idle both count against
//! the budget, so the process never holds more; idle memory is given back as soon as anybody
//! waits, and when nobody has used it from one sweep to the next
//! ([`BufferPool::give_back_untouched`]). The buffer given back last is the first to be taken: its bytes
//! are the ones most likely still in the processor's caches, and what is not needed stays untouched.

use std::ops::{Deref, DerefMut, Range};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::budget::{Budget, Reclaim};
use crate::limits::{BUDGET_HUGE_PAGES_MIN, BUFFER_IDLE_FRACTION, HUGE_PAGE_BYTES};

mod block;
mod idle;

use block::{Block, CLASSES, Class};
use idle::Idle;

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
    idle: [Mutex<Idle>; CLASSES],
}

impl BufferPool {
    /// A pool that takes its memory from `budget`.
    #[must_use]
    pub fn new(budget: Budget) -> Self {
        let idle_bytes_max = budget.total() / BUFFER_IDLE_FRACTION;
        Self::keeping(budget, idle_bytes_max)
    }

    /// A pool that keeps up to `idle_bytes_max` bytes of returned buffers for reuse, where
    /// [`BufferPool::new`] keeps a fixed part of the budget: for users whose buffers come back many at once
    /// and are taken again soon.
    #[must_use]
    pub fn keeping(budget: Budget, idle_bytes_max: u64) -> Self {
        let inner = Arc::new(Inner {
            idle_max: idle_bytes_max,
            idle_bytes: AtomicU64::new(0),
            idle: std::array::from_fn(|_| Mutex::default()),
            budget,
        });
        let reclaim: Arc<dyn Reclaim> = inner.clone();
        inner.budget.register_reclaim(Arc::downgrade(&reclaim));
        Self { inner }
    }

    /// A buffer of `len` bytes if the budget has room now; its start is 4096-aligned. `None`
    /// also for more than [`BUFFER_BYTES_MAX`](crate::limits::BUFFER_BYTES_MAX) or than the whole budget.
    #[must_use]
    pub fn try_take(&self, len: usize) -> Option<Buf> {
        self.try_take_placed(len, 0)
    }

    /// A buffer as [`BufferPool::try_take`] gives it, beginning `start` bytes behind a multiple of
    /// [`BUFFER_ALIGN_BYTES`](crate::limits::BUFFER_ALIGN_BYTES): what is aligned in a file can be aligned in
    /// memory too ([`crate::plan::placement`]).
    ///
    /// # Panics
    /// For a `start` that is not below [`BUFFER_ALIGN_BYTES`](crate::limits::BUFFER_ALIGN_BYTES).
    #[must_use]
    pub fn try_take_placed(&self, len: usize, start: usize) -> Option<Buf> {
        let class = Class::of(len, start)?;
        let block = self.at_hand(class).or_else(|| {
            let reservation = self.inner.budget.try_reserve(class.bytes() as u64)?;
            Some(Block::new(class, reservation))
        })?;
        Some(self.buf(block, start, len))
    }

    /// A buffer of `len` bytes out of memory that nobody has or waits for, or none: unlike
    /// [`BufferPool::try_take`] it asks nobody to give memory back. For what is good to have and not needed.
    #[must_use]
    pub fn try_take_spare(&self, len: usize) -> Option<Buf> {
        let class = Class::of(len, 0)?;
        let block = self.at_hand(class).or_else(|| {
            let budget = &self.inner.budget;
            let reservation = budget.try_reserve_free(class.bytes() as u64)?;
            Some(Block::new(class, reservation))
        })?;
        Some(self.buf(block, 0, len))
    }

    /// A buffer of `len` bytes, waiting for room in the budget: first come, first served.
    /// Nothing is held while waiting. `None` for what could never be had.
    pub async fn take(&self, len: usize) -> Option<Buf> {
        self.take_placed(len, 0).await
    }

    /// A buffer as [`BufferPool::take`] gives it, waiting for memory where there is none, and placed as by
    /// [`BufferPool::try_take_placed`].
    ///
    /// # Panics
    /// For a `start` that is not below [`BUFFER_ALIGN_BYTES`](crate::limits::BUFFER_ALIGN_BYTES).
    pub async fn take_placed(&self, len: usize, start: usize) -> Option<Buf> {
        let class = Class::of(len, start)?;
        if let Some(block) = self.at_hand(class) {
            return Some(self.buf(block, start, len));
        }
        let reservation = self.inner.budget.reserve(class.bytes() as u64).await?;
        Some(self.buf(Block::new(class, reservation), start, len))
    }

    /// Bytes of memory that a buffer of `len` bytes takes; 0 for more than any has.
    #[must_use]
    pub fn bytes_of(len: usize) -> u64 {
        Class::of(len, 0).map_or(0, |class| class.bytes() as u64)
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

    /// A sweep, to be called now and then: gives the memory back of buffers that nobody took since the sweep
    /// before, but for parts of a huge page of which another part was in use. Says how many bytes that are.
    pub fn give_back_untouched(&self) -> u64 {
        let mut given = 0;
        for class in &self.inner.idle {
            // Unmapped when the lock is not held any more.
            let gone = class.lock().sweep();
            let bytes = gone.iter().map(|block| block.bytes() as u64).sum();
            self.inner.idle_bytes.fetch_sub(bytes, Ordering::Relaxed);
            given += bytes;
        }
        given
    }

    /// A block that is idle, or of a huge page that the budget has room for.
    fn at_hand(&self, class: Class) -> Option<Block> {
        // Who waits comes first: a newcomer takes nothing from under their eyes.
        if self.inner.budget.has_waiters() {
            return None;
        }
        self.reuse(class)
            .or_else(|| self.reuse(class.substitute()?))
            .or_else(|| self.cut(class))
    }

    fn reuse(&self, class: Class) -> Option<Block> {
        let block = self.inner.idle[class.index()].lock().pop()?;
        self.inner
            .idle_bytes
            .fetch_sub(block.bytes() as u64, Ordering::Relaxed);
        Some(block)
    }

    /// A block cut from a new huge page; the others are idle from the start.
    fn cut(&self, class: Class) -> Option<Block> {
        let bytes = (class.per_cut()? * class.bytes()) as u64;
        let budget = &self.inner.budget;
        let others_fit = self.idle_bytes() + bytes <= self.inner.idle_max;
        if budget.total() < BUDGET_HUGE_PAGES_MIN * HUGE_PAGE_BYTES as u64 || !others_fit {
            return None;
        }
        let mut blocks = Block::cut(class, budget.try_reserve_free(bytes)?)?;
        let block = blocks.pop();
        blocks
            .into_iter()
            .rev()
            .for_each(|block| self.inner.give_back(block));
        block
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
        self.idle[block.class().index()].lock().push(block);
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
    /// `None` only while the buffer is being dropped.
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

    /// Bytes of its memory that lie before its first one.
    #[must_use]
    pub fn lead(&self) -> usize {
        self.start
    }

    /// Widens it by these bytes before its first one and behind its last one, which stay where they are in memory.
    /// Whether there was room for them ([`Buf::lead`], [`Buf::capacity`]); if not, nothing is done.
    #[must_use]
    pub fn enclose(&mut self, before: &[u8], behind: &[u8]) -> bool {
        if before.len() > self.start || behind.len() > self.capacity() - self.len {
            return false;
        }
        self.start -= before.len();
        self.len += before.len() + behind.len();
        self[..before.len()].copy_from_slice(before);
        let end = self.len - behind.len();
        self[end..].copy_from_slice(behind);
        true
    }

    /// The address of its first byte as a number, for [`crate::plan::plan_write`].
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
            unsafe { block.start().add(self.start) }
        })
    }
}

impl Deref for Buf {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the block is owned by this buffer alone, initialised over its whole capacity
        // (zero when it is made), and `start + len` is kept within it.
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

#[cfg(test)]
mod tests;
