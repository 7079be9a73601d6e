//! Boxes for futures that are used again.
//!
//! A server begins a future for each call and most of these are over when they were polled once. They are larger than
//! what the allocator keeps at hand for a thread, so that a box for each costs a tenth of a small call. Here a box goes
//! back to where it came from, and the next future is made in it.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::cell::RefCell;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::ptr::NonNull;
use std::rc::Rc;
use std::task::{Context, Poll};

/// Boxes of one event loop. A clone has the same boxes.
#[derive(Clone)]
pub struct FutureBoxes(Rc<Kept>);

/// A future in a box that goes back when this is dropped. What the future borrows lives for `'f`.
pub struct FutureBox<'f, T> {
    future: NonNull<dyn Future<Output = T> + 'f>,
    /// The memory that the future lies in.
    place: Option<Place>,
    from: Rc<Kept>,
}

struct Kept {
    spare: RefCell<Vec<Place>>,
    most: usize,
}

/// Memory of this layout, which is not empty, in which nothing lives.
struct Place {
    memory: NonNull<u8>,
    layout: Layout,
}

impl Place {
    /// Memory for this layout. `None` for an empty one, which needs none.
    fn new(layout: Layout) -> Option<Self> {
        if layout.size() == 0 {
            return None;
        }
        // SAFETY: the layout is not empty, as was looked at just above.
        let memory = unsafe { alloc(layout) };
        let Some(memory) = NonNull::new(memory) else {
            handle_alloc_error(layout)
        };
        Some(Self { memory, layout })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // SAFETY: `memory` was allocated with this layout by `Place::new`, is freed here alone, and nothing lives in it.
        unsafe { dealloc(self.memory.as_ptr(), self.layout) }
    }
}

impl FutureBoxes {
    /// Keeps so many boxes at most for futures to come.
    #[must_use]
    pub fn new(most: usize) -> Self {
        Self(Rc::new(Kept {
            spare: RefCell::default(),
            most,
        }))
    }

    /// Puts a future into a box: into one that is kept, if it fits the future exactly.
    ///
    /// What the future borrows has to outlive the box:
    ///
    /// ```compile_fail,E0597
    /// let boxes = nfs_io::FutureBoxes::new(1);
    /// let held;
    /// {
    ///     let text = String::from("gone before the box");
    ///     held = boxes.put(async { text.len() });
    /// }
    /// drop(held);
    /// ```
    // Always: so the compiler makes the future where it is to lie. A COMPOUND's takes kilobytes, most of which hold
    // nothing when it begins, and all of them would be copied.
    #[inline(always)]
    pub fn put<'f, F: Future + 'f>(&self, future: F) -> FutureBox<'f, F::Output> {
        let layout = Layout::new::<F>();
        let kept = self.0.spare.borrow_mut().pop();
        // Of one caller all futures are of one type. Another layout only comes where there are several.
        let kept = kept.filter(|place| place.layout == layout);
        let place = kept.or_else(|| Place::new(layout));
        let memory = place
            .as_ref()
            .map_or(NonNull::dangling(), |place| place.memory.cast::<F>());
        // SAFETY: `memory` is of this type's size and alignment, and nothing lives in it; an empty type needs an
        // aligned pointer only.
        unsafe { memory.write(future) };
        FutureBox {
            future: memory,
            place,
            from: Rc::clone(&self.0),
        }
    }
}

impl<T> Future for FutureBox<'_, T> {
    type Output = T;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        // SAFETY: the future lives until `drop`, and this is the only reference to it.
        let future = unsafe { self.future.as_mut() };
        // SAFETY: it stays in its box, from where it was written until it is dropped there; nothing hands it out.
        let future = unsafe { Pin::new_unchecked(future) };
        future.poll(cx)
    }
}

// The box may be moved, as the future in it stays where it is.
impl<T> Unpin for FutureBox<'_, T> {}

impl<T> Drop for FutureBox<'_, T> {
    fn drop(&mut self) {
        // SAFETY: the future lives, and is dropped here alone.
        unsafe { self.future.drop_in_place() };
        if let Some(place) = self.place.take() {
            let mut spare = self.from.spare.borrow_mut();
            if spare.len() < self.from.most {
                spare.push(place);
            }
        }
    }
}

impl fmt::Debug for FutureBoxes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FutureBoxes")
            .field("spare", &self.0.spare.borrow().len())
            .finish()
    }
}

impl<T> fmt::Debug for FutureBox<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FutureBox")
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::future::{pending, ready};
    use std::task::Waker;

    use super::*;

    /// Tells when it is dropped.
    struct Told(Rc<Cell<u32>>);

    impl Drop for Told {
        fn drop(&mut self) {
            self.0.set(self.0.get() + 1);
        }
    }

    fn poll<T>(future: &mut FutureBox<'_, T>) -> Poll<T> {
        Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
    }

    async fn add(one: Told, waits: bool, large: [u8; 5000]) -> usize {
        if waits {
            tokio::task::yield_now().await;
        }
        one.0.get() as usize + large.iter().map(|byte| usize::from(*byte)).sum::<usize>()
    }

    #[test]
    fn a_box_is_used_again_and_each_future_is_dropped_once() {
        let (boxes, dropped) = (FutureBoxes::new(1), Rc::new(Cell::new(0)));
        let begin = |waits| boxes.put(add(Told(Rc::clone(&dropped)), waits, [1; 5000]));
        let mut first = begin(false);
        let at = first.future.cast::<u8>();
        assert_eq!(poll(&mut first), Poll::Ready(5000));
        drop(first);
        // Left off while it waits.
        let mut second = begin(true);
        assert_eq!(second.future.cast::<u8>(), at);
        let third = begin(false);
        assert_ne!(third.future.cast::<u8>(), at);
        assert_eq!((poll(&mut second), dropped.get()), (Poll::Pending, 1));
        let mut moved = Box::new(second);
        assert_eq!(poll(&mut moved), Poll::Ready(5001));
        drop((moved, third));
        assert_eq!(dropped.get(), 3);
        assert_eq!(boxes.0.spare.borrow().len(), 1, "no more than one is kept");
    }

    #[test]
    fn a_box_that_does_not_fit_is_not_used() {
        let boxes = FutureBoxes::new(8);
        drop(boxes.put(pending::<()>()));
        assert!(boxes.0.spare.borrow().is_empty(), "nothing needs no box");
        let large = [7_u64; 9];
        for _ in 0..2 {
            assert_eq!(poll(&mut boxes.put(ready(1))), Poll::Ready(1));
            let mut sum = boxes.put(async move { large.iter().sum::<u64>() });
            assert_eq!(poll(&mut sum), Poll::Ready(63));
        }
    }

    #[test]
    fn what_a_future_borrows_is_there_when_it_is_dropped() {
        let boxes = FutureBoxes::new(1);
        let dropped = Rc::new(Cell::new(0));
        let one = Told(Rc::clone(&dropped));
        let mut borrows = boxes.put(async { one.0.get() });
        assert_eq!(poll(&mut borrows), Poll::Ready(0));
        drop(borrows);
        assert_eq!((one.0.get(), boxes.clone().0.spare.borrow().len()), (0, 1));
    }

    #[test]
    fn a_future_outlives_its_boxes() {
        let boxes = FutureBoxes::new(1);
        let mut last = boxes.put(async { vec![3; 4] });
        drop(boxes);
        assert_eq!(poll(&mut last), Poll::Ready(vec![3; 4]));
    }
}
