//! Keeping a thread or a server on one core.

use anyhow::{Context, Result};
use rustix::thread::{CpuSet, sched_setaffinity};

/// Binds the calling thread, and the threads it starts later, to `cpu`.
///
/// # Errors
/// The core does not exist or is not allowed to this process (`taskset -p $$` shows which are).
pub fn pin_thread(cpu: usize) -> Result<()> {
    let mut set = CpuSet::new();
    set.set(cpu);
    sched_setaffinity(None, &set).with_context(|| format!("binding to core {cpu}"))
}

/// The cores for the load and for the server: two different ones where there are two.
pub fn cores() -> (usize, usize) {
    let count = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    if count > 1 { (0, 1) } else { (0, 0) }
}
