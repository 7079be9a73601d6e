use std::future::Future;
use std::task::{Context, Waker};

use super::*;
use crate::limits::{BUFFER_ALIGN_BYTES, BUFFER_BYTES_MAX};

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
            assert!(buf.capacity() >= len && buf.capacity() <= 2 * len.max(4096));
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
fn the_smallest_class_is_taken() {
    let bytes = |len, start| Class::of(len, start).unwrap().bytes();
    for power in [4096, 64 * KIB, 1 << 20, BUFFER_BYTES_MAX] {
        assert_eq!(bytes(power, 0), power);
        assert_eq!([bytes(power, 1), bytes(power, 4095)], [power + 4096; 2]);
    }
    let rounded_out = bytes((1 << 20) + 4096, 0);
    assert_eq!(rounded_out, (1 << 20) + 4096);
    let mut last = 0;
    for len in (0..300_000).step_by(511) {
        let got = bytes(len, 0);
        assert!(
            got >= len && got >= last && got <= (2 * len).max(4096),
            "{len}: {got}"
        );
        last = got;
    }
    assert!(Class::of(BUFFER_BYTES_MAX + 1, 0).is_none());
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
    let total = 1 << 20;
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
    assert_eq!((budget.in_use(), budget.peak()), (1 << 20, total));
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
    let pool = BufferPool::new(Budget::new(128 << 10));
    let small: Vec<Buf> = (0..8).map(|_| pool.try_take(16 * KIB).unwrap()).collect();
    let mut waiting = Box::pin(pool.take(128 * KIB));
    let mut context = Context::from_waker(Waker::noop());
    assert!(waiting.as_mut().poll(&mut context).is_pending());
    drop(small);
    assert!(waiting.as_mut().poll(&mut context).is_ready());
}

#[test]
fn what_is_taken_to_spare_makes_nobody_give_back() {
    let pool = BufferPool::new(Budget::new(1 << 20));
    let spare = pool.try_take_spare(256 * KIB).unwrap();
    assert_eq!(
        (spare.len(), spare.address() % BUFFER_ALIGN_BYTES),
        (256 * KIB, 0)
    );
    drop(spare);
    let idle = pool.idle_bytes();
    assert!(idle > 0, "kept for the next");
    assert!(
        pool.try_take_spare(1 << 20).is_none(),
        "idle memory is in the way"
    );
    assert_eq!(pool.idle_bytes(), idle);
    assert!(pool.try_take(1 << 20).is_some(), "which others get");
    let rest = pool.try_take(900 * KIB);
    assert!(pool.try_take_spare(256 * KIB).is_none());
    drop(rest);
    assert!(pool.try_take_spare(2 << 20).is_none(), "more than there is");
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

/// How many of the `bytes` from `address` on, which is a page boundary in a mapping, are in memory.
fn resident(address: usize, bytes: usize) -> usize {
    let mut pages = vec![0_u8; bytes.div_ceil(BUFFER_ALIGN_BYTES)];
    let start = address as *mut libc::c_void;
    // SAFETY: looks at no memory but `pages`, which has a byte for each page.
    let done = unsafe { libc::mincore(start, bytes, pages.as_mut_ptr()) };
    assert_eq!(done, 0);
    pages.iter().filter(|&&page| page & 1 == 1).count() * BUFFER_ALIGN_BYTES
}

const HUGE: u64 = HUGE_PAGE_BYTES as u64;

#[test]
fn a_huge_page_is_cut_and_counted_whole() {
    let budget = Budget::new(64 * HUGE);
    let pool = BufferPool::new(budget.clone());
    let first = pool.try_take(1 << 20).unwrap();
    assert_eq!((budget.in_use(), pool.idle_bytes()), (HUGE, HUGE / 2));
    let second = pool.try_take(1 << 20).unwrap();
    assert_eq!(first.address().abs_diff(second.address()), 1 << 20);
    assert_eq!(first.address().min(second.address()) % HUGE_PAGE_BYTES, 0);
    assert_eq!((budget.in_use(), pool.idle_bytes()), (HUGE, 0));
    let small: Vec<Buf> = (0..33).map(|_| pool.try_take(64 * KIB).unwrap()).collect();
    assert_eq!(budget.in_use(), 3 * HUGE);
    drop((first, second, small));
    assert_eq!(pool.idle_bytes(), 3 * HUGE);
    // The page more of a misplaced one is behind the huge page.
    let placed = pool.try_take_placed(1 << 20, 1).unwrap();
    assert_eq!(budget.in_use(), 4 * HUGE + 2 * 4096);
    let other = pool.try_take_placed(1 << 20, 4095).unwrap();
    let starts = [placed, other].map(|buf| buf.address() - buf.address() % 4096);
    assert_eq!(starts[0].abs_diff(starts[1]), (1 << 20) + 4096);
    assert_eq!(budget.in_use(), 4 * HUGE + 2 * 4096);
    // What is as large is alone, and so is all in a small budget.
    drop(pool.try_take(HUGE_PAGE_BYTES).unwrap());
    assert_eq!(budget.in_use(), 5 * HUGE + 2 * 4096);
    let small = BufferPool::new(Budget::new(8 * HUGE));
    let alone = small.try_take(1 << 20).unwrap();
    assert_eq!((small.budget().in_use(), small.idle_bytes()), (HUGE / 2, 0));
    drop(alone);
}

#[test]
fn a_part_that_is_given_up_leaves_the_memory_and_the_budget() {
    let budget = Budget::new(32 * HUGE);
    let pool = BufferPool::new(budget.clone());
    let mut used = pool.try_take(1 << 20).unwrap();
    used.fill(1);
    let mut other = pool.try_take(1 << 20).unwrap();
    other.fill(2);
    let place = other.address();
    drop(other);
    assert_eq!(budget.in_use(), HUGE);
    // Somebody else needs all there is.
    let rest = budget.try_reserve(31 * HUGE + HUGE / 2).unwrap();
    assert_eq!((pool.idle_bytes(), budget.in_use()), (0, 32 * HUGE));
    assert_eq!(resident(used.address(), 1 << 20), 1 << 20);
    assert!(
        used.iter().all(|&byte| byte == 1),
        "its neighbour is untouched"
    );
    assert_eq!(
        resident(place, 1 << 20),
        0,
        "what is counted as free is free"
    );
    drop(rest);
    drop(used);
    assert_eq!(budget.in_use(), pool.idle_bytes());
}

#[test]
fn no_two_buffers_share_a_byte_whatever_is_cut_and_given_up() {
    let budget = Budget::new(40 * HUGE);
    let pool = BufferPool::new(budget.clone());
    std::thread::scope(|scope| {
        for seed in 1..4_usize {
            let (pool, budget) = (pool.clone(), budget.clone());
            scope.spawn(move || {
                let mut held: Vec<(Buf, u8)> = Vec::new();
                for round in 0..400_usize {
                    let chance = round * 7919 + seed * 104_729;
                    let len = [70_000, 65_536, 262_144, 1 << 20, 5000, 3 << 20][chance % 6];
                    let mark = (chance % 251) as u8;
                    if let Some(mut buf) = pool.try_take_placed(len, chance % 3 * 100) {
                        let last = len - 1;
                        (buf[0], buf[len / 2], buf[last]) = (mark, mark, mark);
                        held.push((buf, mark));
                    }
                    // Somebody who takes all that is idle, now and then.
                    if chance % 13 == 0 {
                        drop(budget.try_reserve(38 * HUGE));
                    }
                    while held.len() > chance % 17 {
                        let (buf, mark) = held.swap_remove(chance % held.len());
                        let marks = [buf[0], buf[buf.len() / 2], buf[buf.len() - 1]];
                        assert_eq!(marks, [mark; 3]);
                    }
                }
            });
        }
    });
    assert!(budget.peak() <= budget.total());
    assert_eq!(budget.in_use(), pool.idle_bytes());
    drop(budget.try_reserve(40 * HUGE).expect("all of it is idle"));
    assert_eq!((budget.in_use(), pool.idle_bytes()), (0, 0));
}

#[test]
fn what_nobody_uses_from_one_sweep_to_the_next_is_given_back() {
    let budget = Budget::new(64 << 20);
    let pool = BufferPool::new(budget.clone());
    let take = |count: usize| -> Vec<Buf> {
        (0..count)
            .map(|_| pool.try_take(16 * KIB).unwrap())
            .collect()
    };
    drop(take(100));
    assert_eq!(pool.give_back_untouched(), 0, "all of it was used just now");
    assert_eq!(pool.idle_bytes(), 100 * 16 * KIB as u64);
    // So many are in use at once from here on, again and again.
    for _ in 0..10 {
        drop(take(30));
    }
    assert_eq!(pool.give_back_untouched(), 70 * 16 * KIB as u64);
    assert_eq!(budget.in_use(), 30 * 16 * KIB as u64);
    drop(take(10));
    assert_eq!(pool.give_back_untouched(), 20 * 16 * KIB as u64);
    let held = take(1);
    assert_eq!(pool.give_back_untouched(), 9 * 16 * KIB as u64);
    drop(held);
    assert_eq!(pool.give_back_untouched(), 0, "it came back since");
    assert_eq!(pool.give_back_untouched(), 16 * KIB as u64);
    assert_eq!((pool.idle_bytes(), budget.in_use()), (0, 0));
}

#[test]
fn a_huge_page_is_given_back_as_a_whole() {
    let budget = Budget::new(64 * HUGE);
    let pool = BufferPool::new(budget.clone());
    let take = |count: usize| -> Vec<Buf> {
        (0..count)
            .map(|_| pool.try_take(256 * KIB).unwrap())
            .collect()
    };
    // Three huge pages of eight each.
    let mut all = take(24);
    assert_eq!(budget.in_use(), 3 * HUGE);
    let held = all.pop();
    drop(all);
    assert_eq!(pool.give_back_untouched(), 0);
    assert_eq!(pool.give_back_untouched(), 2 * HUGE);
    assert_eq!(budget.in_use(), HUGE, "one part of it is in use");
    drop(held);
    assert_eq!(pool.give_back_untouched(), 0);
    assert_eq!(pool.give_back_untouched(), HUGE);
    assert_eq!((pool.idle_bytes(), budget.in_use()), (0, 0));
}
