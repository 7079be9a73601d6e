//! The figures of the whole server at one moment.

use std::sync::atomic::Ordering;

use nfs_io::{Budget, usage};

use super::Server;
use crate::operate::metrics::{
    BUFFER_BYTES, BUILD_INFO, Builder, CONNECTIONS, EXPORTS, PROCESS_CPU, PROCESS_RESIDENT,
    PROCESS_THREADS, Snapshot, UPTIME,
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
        let trees = self.service.vfs.trees.load();
        for export in trees.table.exports() {
            if let Some(tree) = trees.by_id(export.id) {
                tree.calls.measure(&export.pseudo, &mut into);
            }
        }
        self.clients.measure(&mut into);
        for row in self.io() {
            row.measure(&mut into);
        }
        let budgets = [
            ("receive", &self.facts.budget),
            ("send", &self.facts.send_budget),
        ];
        for (direction, budget) in budgets {
            measure_budget(&mut into, direction, budget);
        }
        measure_process(&mut into);
        self.service.vfs.surroundings.measure(&mut into);
        into.counters(&self.counters());
        into.build()
    }
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

fn measure_budget(into: &mut Builder, direction: &str, budget: &Budget) {
    let states = [
        ("in-use", budget.in_use()),
        ("peak", budget.peak()),
        ("limit", budget.total()),
    ];
    for (state, bytes) in states {
        into.number(&BUFFER_BYTES, &[direction, state], bytes);
    }
}
