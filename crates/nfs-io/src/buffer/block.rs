//! Where the memory of buffers comes from, and how it goes back to the kernel.
//!
//! Small blocks are the allocator's. Larger ones are mapped: what is given up leaves the process
//! at once and not when the allocator finds it worth while. Blocks that divide a huge page are cut from
//! one: the kernel then pins, and hands to the disk, one page for 512.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ptr::{NonNull, null_mut};
use std::sync::Arc;

use super::POISON;
use crate::budget::Reservation;
use crate::limits::{
    BUFFER_ALIGN_BYTES, BUFFER_BYTES_MAX, BUFFER_MAPPED_BYTES_MIN, HUGE_PAGE_BYTES,
};

/// A size class, smallest first: a power of two from [`BUFFER_ALIGN_BYTES`] to
/// [`BUFFER_BYTES_MAX`], and behind each one a page more than that. In the latter a power of two
/// fits wherever in its first page it begins, or rounded out to pages at both ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Class(usize);

/// The number of size classes: two for each power of two.
pub(super) const CLASSES: usize = 2 * (POWERS + 1);

const POWERS: usize =
    (BUFFER_BYTES_MAX.trailing_zeros() - BUFFER_ALIGN_BYTES.trailing_zeros()) as usize;

impl Class {
    /// The smallest that holds `len` bytes from `start` on; `None` for more than
    /// [`BUFFER_BYTES_MAX`].
    ///
    /// # Panics
    /// For a `start` that is not in the first page.
    pub(super) fn of(len: usize, start: usize) -> Option<Self> {
        assert!(start < BUFFER_ALIGN_BYTES, "{start} is not within a page");
        if len > BUFFER_BYTES_MAX {
            return None;
        }
        let bytes = (start + len).max(1);
        // The last class whose power of two is below: one of it and the next two is large enough.
        let power = bytes.next_power_of_two().trailing_zeros();
        let power = power.saturating_sub(BUFFER_ALIGN_BYTES.trailing_zeros() + 1);
        (2 * power as usize..CLASSES)
            .map(Self)
            .find(|class| class.bytes() >= bytes)
    }

    pub(super) fn index(self) -> usize {
        self.0
    }

    pub(super) fn bytes(self) -> usize {
        (BUFFER_ALIGN_BYTES << (self.0 / 2)) + (self.0 % 2) * BUFFER_ALIGN_BYTES
    }

    /// What may serve instead without being much too large: the same power of two with a page
    /// more.
    pub(super) fn substitute(self) -> Option<Self> {
        (self.0.is_multiple_of(2)).then_some(Self(self.0 + 1))
    }

    /// How many blocks of this class are cut from a huge page. A class with a page more than a power of two
    /// gets that page from a few small pages behind the huge one. `None` for a class that is not cut from
    /// huge pages.
    pub(super) fn per_cut(self) -> Option<usize> {
        let power = BUFFER_ALIGN_BYTES << (self.0 / 2);
        (BUFFER_MAPPED_BYTES_MIN..=HUGE_PAGE_BYTES)
            .contains(&power)
            .then(|| HUGE_PAGE_BYTES / power)
    }

    fn layout(self) -> Layout {
        Layout::from_size_align(self.bytes(), BUFFER_ALIGN_BYTES)
            .expect("little more than 64 MiB is a valid layout")
    }
}

/// Memory of one class, initialised, with its share of the budget.
pub(super) struct Block {
    start: NonNull<u8>,
    class: Class,
    /// What it is a part of; `None` for the allocator's.
    mapping: Option<Arc<Mapping>>,
    _reservation: Reservation,
}

/// Which mapping a block is a part of, and how many blocks that are not given up are.
pub(super) struct PartOf {
    /// Where the mapping's books are: compared, never followed.
    pub(super) mapping: usize,
    pub(super) of: usize,
}

// SAFETY: a block owns its memory, and the allocator or the kernel takes it back on any thread.
unsafe impl Send for Block {}

// SAFETY: a shared block only lets its address and size be read.
unsafe impl Sync for Block {}

impl Block {
    /// Makes a block that is not cut from a huge page with others.
    pub(super) fn new(class: Class, reservation: Reservation) -> Self {
        let layout = class.layout();
        let mapping = if class.bytes() < BUFFER_MAPPED_BYTES_MIN {
            None
        } else {
            let mapping = if class.bytes() < HUGE_PAGE_BYTES {
                Mapping::new(class.bytes())
            } else {
                Mapping::huge(class.bytes())
            };
            Some(Arc::new(
                mapping.unwrap_or_else(|| handle_alloc_error(layout)),
            ))
        };
        let start = match &mapping {
            Some(mapping) => mapping.start,
            // SAFETY: the layout's size is at least 4096, never 0: kept by `Class::bytes`.
            None => NonNull::new(unsafe { alloc_zeroed(layout) })
                .unwrap_or_else(|| handle_alloc_error(layout)),
        };
        Self {
            start,
            class,
            mapping,
            _reservation: reservation,
        }
    }

    /// Maps memory in huge pages and cuts it into blocks of this class, as many as [`Class::per_cut`] says,
    /// for a `reservation` of their whole size. `None` for a class that is not cut, and where there is no
    /// address space left.
    pub(super) fn cut(class: Class, mut reservation: Reservation) -> Option<Vec<Self>> {
        let count = class.per_cut()?;
        let mapping = Arc::new(Mapping::huge(count * class.bytes())?);
        let blocks = (0..count).map(|index| Self {
            // SAFETY: `count` blocks of the class are exactly the mapping.
            start: unsafe { mapping.start.add(index * class.bytes()) },
            class,
            mapping: Some(mapping.clone()),
            _reservation: reservation.split(class.bytes() as u64),
        });
        Some(blocks.collect())
    }

    pub(super) fn start(&self) -> NonNull<u8> {
        self.start
    }

    pub(super) fn class(&self) -> Class {
        self.class
    }

    pub(super) fn bytes(&self) -> usize {
        self.class.bytes()
    }

    /// `None` for what is the allocator's.
    pub(super) fn part_of(&self) -> Option<PartOf> {
        self.mapping.as_ref().map(|mapping| PartOf {
            mapping: Arc::as_ptr(mapping).addr(),
            of: Arc::strong_count(mapping),
        })
    }

    /// The block with nothing of earlier use in it.
    pub(super) fn poisoned(self) -> Self {
        // SAFETY: the block owns as many bytes as it says, and nobody else has it.
        unsafe { self.start.write_bytes(POISON, self.bytes()) };
        self
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        match &self.mapping {
            // SAFETY: allocated in `Block::new` with the layout of the same class, freed only here.
            None => unsafe { dealloc(self.start.as_ptr(), self.class.layout()) },
            // The last part of a mapping takes all of it along. Two that end at once may both see
            // the other: then both give up their pages, and after that all goes.
            Some(mapping) if Arc::strong_count(mapping) > 1 => {
                // SAFETY: the part belongs to this block, which ends here; nobody is ever given
                // it again.
                unsafe { mapping.give_up(self.start, self.bytes()) };
            }
            Some(_) => {}
        }
    }
}

/// Pages from the kernel, all zero at first.
struct Mapping {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: a mapping is an address and a length; the memory is its blocks' concern.
unsafe impl Send for Mapping {}

// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    fn new(bytes: usize) -> Option<Self> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a new private mapping at an address of the kernel's choice touches nothing.
        let start = unsafe { libc::mmap(null_mut(), bytes, protection, flags, -1, 0) };
        if start == libc::MAP_FAILED {
            return None;
        }
        let start = NonNull::new(start.cast())?;
        Some(Self { start, bytes })
    }

    /// Beginning at a multiple of [`HUGE_PAGE_BYTES`], and as far as these go in huge pages,
    /// where the kernel has them.
    fn huge(bytes: usize) -> Option<Self> {
        let mut mapping = Self::new(bytes + HUGE_PAGE_BYTES)?;
        let before = mapping.start.as_ptr().align_offset(HUGE_PAGE_BYTES);
        mapping.shrink(before, bytes);
        let whole = bytes - bytes % HUGE_PAGE_BYTES;
        // SAFETY: only advice about a mapping of our own. Where there are no huge pages it is
        // refused, and small ones do.
        unsafe { libc::madvise(mapping.start.as_ptr().cast(), whole, libc::MADV_HUGEPAGE) };
        Some(mapping)
    }

    /// Unmaps all but `bytes` from `before` on.
    fn shrink(&mut self, before: usize, bytes: usize) {
        let behind = self.bytes - before - bytes;
        // SAFETY: `before`, `bytes` and `behind` are consecutive parts of the mapping, page
        // boundaries all, and nobody uses it yet.
        unsafe {
            let start = self.start.add(before);
            unmap(self.start, before);
            unmap(start.add(bytes), behind);
            self.start = start;
        }
        self.bytes = bytes;
    }

    /// Gives the pages of a part back to the kernel, for good.
    ///
    /// # Safety
    /// The part is within the mapping, and nobody uses it any more.
    unsafe fn give_up(&self, start: NonNull<u8>, bytes: usize) {
        // SAFETY: the caller's promise; a private anonymous mapping. Before the first call nobody
        // makes one huge page of it again, which would be more memory than is counted.
        unsafe {
            libc::madvise(
                self.start.as_ptr().cast(),
                self.bytes,
                libc::MADV_NOHUGEPAGE,
            );
            libc::madvise(start.as_ptr().cast(), bytes, libc::MADV_DONTNEED);
        }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped in `new`; the blocks that were cut from it are gone.
        unsafe { unmap(self.start, self.bytes) };
    }
}

/// # Safety
/// The pages are mapped by this module, and nobody uses them any more.
unsafe fn unmap(start: NonNull<u8>, bytes: usize) {
    if bytes > 0 {
        // SAFETY: the caller's promise.
        let done = unsafe { libc::munmap(start.as_ptr().cast(), bytes) };
        // Fails only for want of memory to cut a mapping in two: then it stays.
        debug_assert_eq!(done, 0, "munmap of {bytes} bytes");
    }
}
