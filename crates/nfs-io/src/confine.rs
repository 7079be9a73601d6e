//! What a process can give up of itself, for as long as it lives: privileges gained by a program that
//! it starts, system calls, places in the file system. ([`crate::caps`] gives up capabilities.)
//!
//! All of it holds for the calling thread and for the threads made by it afterwards, and cannot be
//! taken back. So it is for the time before a program's second thread; see [`is_only_thread`].

pub mod places;
pub mod system_calls;

use std::fs::read_dir;

use crate::Result;

/// Whether the calling thread is the only one of this process. Where /proc does not tell, it counts
/// as one of several.
#[must_use]
pub fn is_only_thread() -> bool {
    read_dir("/proc/self/task").is_ok_and(|tasks| tasks.count() == 1)
}

/// Programs that this thread starts get no privileges by set-user-ID bits or file capabilities;
/// `PR_SET_NO_NEW_PRIVS` in prctl(2). What follows in this module needs it.
///
/// # Errors
/// What prctl(2) reports.
pub fn no_new_privileges() -> Result<()> {
    rustix::thread::set_no_new_privs(true)
}
