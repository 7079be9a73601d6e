//! The figures of the whole server at one moment.

use std::ops::Add;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use nfs_io::engine::EngineFigures;
use nfs_io::event_loop::LoopTimes;
use nfs_io::{BufferPool, EngineKind, usage};

use super::Server;
use crate::operate::metrics::{
    BUFFER_BYTES, BUILD_INFO, Builder, CONNECTIONS, ENGINE_ENDED, ENGINE_IN_FLIGHT,
    ENGINE_SUBMITTED, EXPORTS, PAGE_CACHE, PROCESS_CPU, PROCESS_RESIDENT, PROCESS_THREADS,
    REPLY_CACHE_BYTES, REPLY_CACHE_EVICTIONS, REPLY_CACHE_REPLIES, RING_OVERFLOWS, RING_SUBMITS,
    RING_WAITED, RING_WAITING, SHARDS, Snapshot, UPTIME,
};

impl Server {
    /// All figures of the moment. It asks other threads for nothing: what it reads is counted while calls are served.
    #[must_use]
    pub fn metrics(&self) -> Snapshot {
        let mut into = Builder::default();
        into.number(&BUILD_INFO, &[env!("CARGO_PKG_VERSION")], 1);
        into.number(&UPTIME, &[], self.started.elapsed().as_secs_f64());
        let exports = self.service.vfs.trees.load().table.exports().len();
        into.number(&EXPORTS, &[], exports as u64);
        let counters = &self.service.counters;
        let connections = counters.connections.load(Ordering::Relaxed);
        into.number(&CONNECTIONS, &[], connections);
        counters.no_export.measure("", &mut into);
        self.service.vfs.ask_for_page_cache(Instant::now());
        let trees = self.service.vfs.trees.load();
        for export in trees.table.exports() {
            if let Some(tree) = trees.by_id(export.id) {
                tree.calls.measure(&export.pseudo, &mut into);
                if let Some(bytes) = self.service.vfs.page_cache_bytes(tree) {
                    into.number(&PAGE_CACHE, &[&export.pseudo], bytes);
                }
            }
        }
        self.clients.measure(&mut into);
        for row in self.io() {
            row.measure(&mut into);
        }
        measure_buffers(&mut into, "receive", &self.service.receive_buffers);
        measure_buffers(&mut into, "send", &self.service.vfs.read_buffers);
        self.measure_engines(&mut into);
        self.measure_replies(&mut into);
        let loads = || self.shards.loads();
        let seconds = |time: fn(&LoopTimes) -> Duration| loads().map(time).sum::<Duration>();
        for (doing, time) in [
            ("work", seconds(LoopTimes::worked)),
            ("look", seconds(LoopTimes::looked)),
        ] {
            into.number(&SHARDS, &[doing], time.as_secs_f64());
        }
        measure_process(&mut into);
        self.service.vfs.surroundings.measure(&mut into);
        into.counters(&self.counters());
        into.build()
    }

    fn measure_engines(&self, into: &mut Builder) {
        let threads = self.service.vfs.thread_counters.figures();
        measure_engine(into, EngineKind::Threads, &threads);
        let rings = self.service.rings.lock();
        let figures = rings.iter().map(|ring| ring.figures());
        let Some(figures) = figures.reduce(Add::add) else {
            return;
        };
        measure_engine(into, EngineKind::Uring, &figures);
        into.number(&RING_WAITED, &[], figures.waited);
        into.number(&RING_WAITING, &[], figures.waiting);
        into.number(&RING_SUBMITS, &["taken"], figures.handed_over);
        into.number(&RING_SUBMITS, &["busy"], figures.not_taken);
        into.number(&RING_OVERFLOWS, &[], figures.overflows);
    }

    fn measure_replies(&self, into: &mut Builder) {
        for (calls, fill) in self.service.replies.fill() {
            into.number(&REPLY_CACHE_REPLIES, &[calls, "kept"], fill.replies);
            into.number(&REPLY_CACHE_REPLIES, &[calls, "limit"], fill.replies_max);
            into.number(&REPLY_CACHE_BYTES, &[calls], fill.bytes);
            into.number(&REPLY_CACHE_EVICTIONS, &[calls], fill.evicted);
        }
    }
}

fn measure_engine(into: &mut Builder, kind: EngineKind, figures: &EngineFigures) {
    let engine = kind.to_string();
    let engine = engine.as_str();
    into.number(&ENGINE_SUBMITTED, &[engine], figures.submitted);
    for (result, number) in [
        ("completed", figures.completed),
        ("refused", figures.refused),
        ("left-out", figures.left_out),
    ] {
        into.number(&ENGINE_ENDED, &[engine, result], number);
    }
    into.number(&ENGINE_IN_FLIGHT, &[engine], figures.in_flight);
}

fn measure_process(into: &mut Builder) {
    let Some(used) = usage::process() else {
        return;
    };
    into.number(&PROCESS_CPU, &["user"], used.user.as_secs_f64());
    into.number(&PROCESS_CPU, &["system"], used.system.as_secs_f64());
    into.number(&PROCESS_RESIDENT, &[], used.resident_bytes);
    into.number(&PROCESS_THREADS, &[], used.threads);
}

fn measure_buffers(into: &mut Builder, direction: &str, buffers: &BufferPool) {
    let budget = buffers.budget();
    let states = [
        ("in-use", budget.in_use()),
        ("idle", buffers.idle_bytes()),
        ("peak", budget.peak()),
        ("limit", budget.total()),
    ];
    for (state, bytes) in states {
        into.number(&BUFFER_BYTES, &[direction, state], bytes);
    }
}
