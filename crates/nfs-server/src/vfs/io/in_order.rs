//! WRITEs that wait for those before them: [`Order`](super::order::Order) decides, here they wait and are woken.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use nfs_io::fs::Stat;
use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::decide::Decision;
use super::order::{Order, Turn};
use crate::operate::calls::{StepKind, step};
use crate::operate::counters::count;
use crate::vfs::{Target, Vfs};

/// The WRITEs of one file that wait for those before them.
#[derive(Default)]
pub(crate) struct InOrder(Mutex<State>);

#[derive(Default)]
struct State {
    order: Order,
    /// Who waits, by number; as many as [`Order`] lets wait.
    waiting: Vec<(u64, oneshot::Sender<()>)>,
}

/// WRITEs of files with `order` that came out of order. Every number only grows.
#[derive(Default)]
pub(crate) struct OrderCounters {
    /// WRITEs that came before one that lies directly before them.
    out_of_order: AtomicU64,
    /// Those of them that were put in order: they waited, and it came.
    put_in_order: AtomicU64,
}

impl OrderCounters {
    /// Everything by the name under which `ctl status` shows it.
    pub(crate) fn named(&self) -> [(&'static str, u64); 2] {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        [
            ("writes_out_of_order", load(&self.out_of_order)),
            ("writes_put_in_order", load(&self.put_in_order)),
        ]
    }
}

impl InOrder {
    /// The file was truncated.
    pub(crate) fn truncated(&self) {
        self.0.lock().order.truncated();
    }
}

impl State {
    /// Wakes those whose turn it is, in this order.
    fn release(&mut self, numbers: &[u64]) {
        for number in numbers {
            let place = self.waiting.iter().position(|(other, _)| other == number);
            if let Some(place) = place {
                let (_, waiting) = self.waiting.remove(place);
                // Whoever has gone meanwhile needs no turn.
                let _gone = waiting.send(());
            }
        }
    }
}

impl Vfs {
    /// Waits, where that was decided, for WRITEs that lie before this one and are on their way, if there are such,
    /// for [`crate::limits::ORDER_WAIT_MAX`] at most. `before` is the file as it was a moment ago.
    pub(super) async fn await_turn(&self, target: &Target, before: &Stat, decision: &Decision) {
        if !decision.choice.order {
            return;
        }
        let (size, range) = (before.size, decision.asked());
        let counters = &self.counters.order;
        let in_order = &target.object.io.in_order;
        let (number, until, turn) = {
            let mut state = in_order.0.lock();
            let mut released = Vec::new();
            let turn = state
                .order
                .arrived(Instant::now(), size, range, &mut released);
            state.release(&released);
            match turn {
                Turn::Now => return,
                Turn::NowBeforeOthers => {
                    count(&counters.out_of_order);
                    return;
                }
                Turn::Wait { number, until } => {
                    count(&counters.out_of_order);
                    let (sender, turn) = oneshot::channel();
                    state.waiting.push((number, sender));
                    (number, until, turn)
                }
            }
        };
        let _waiting = step(StepKind::InOrder);
        let place = Place { in_order, number };
        match tokio::time::timeout_at(until.into(), turn).await {
            Ok(_released) => count(&counters.put_in_order),
            Err(_elapsed) => place.is_over(),
        }
    }
}

/// The place of a WRITE among those that wait; given up when dropped.
struct Place<'f> {
    in_order: &'f InOrder,
    number: u64,
}

impl Place<'_> {
    fn is_over(&self) {
        let mut state = self.in_order.0.lock();
        let mut released = Vec::new();
        state.order.is_over(self.number, &mut released);
        state.release(&released);
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut state = self.in_order.0.lock();
        state.order.gave_up(self.number);
        let number = self.number;
        state.waiting.retain(|(other, _)| *other != number);
    }
}
