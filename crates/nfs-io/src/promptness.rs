//! Which threads of this process the kernel runs first when there are more to run than processors.
//!
//! A thread that serves connections does little for each call and must get to it soon; helper threads may all be
//! busy at once, and to the kernel each of them is as good as the other: with 17 of them running, a call waited
//! for tens of milliseconds until the thread that was to take it had its turn. So helpers beyond one for each
//! processor come behind, and whoever serves connections asks for short turns that come soon. Both need no
//! privilege, and are left out where they are refused. The first helpers stay as they are: while the server has
//! few of them to run, it has what it always had beside the other programs of its machine.

use std::mem::size_of;

use crate::limits::{HELPER_NICE_MORE, PROMPT_SLICE_NANOSECONDS};

/// The calling thread is to run soon after it has something to do, for a short time at once (from Linux 6.12 on; older
/// kernels take no notice). Threads that it starts, those of io_uring among them, do not inherit that.
///
/// Returns whether the kernel took it. It stays as it is for a thread that was given a scheduling policy of its own.
pub fn run_soon() -> bool {
    let mut attributes = SchedAttr::default();
    let size = size_of::<SchedAttr>() as libc::c_uint;
    // SAFETY: the kernel writes at most `size` bytes, which is the size of the structure of numbers that the pointer
    // is to, and which lives through the call.
    let read = unsafe {
        libc::syscall(
            libc::SYS_sched_getattr,
            0,
            &raw mut attributes,
            size,
            0 as libc::c_uint,
        )
    };
    if read != 0 || attributes.policy != libc::SCHED_OTHER.cast_unsigned() {
        return false;
    }
    attributes.size = size;
    attributes.flags |= SCHED_FLAG_RESET_ON_FORK;
    attributes.runtime = PROMPT_SLICE_NANOSECONDS;
    // SAFETY: the kernel reads `attributes`, which lives through the call and says its own size.
    let set = unsafe {
        libc::syscall(
            libc::SYS_sched_setattr,
            0,
            &raw const attributes,
            0 as libc::c_uint,
        )
    };
    set == 0
}

/// How nice the calling thread is (nice(1)); `None` where the kernel does not say. A thread that it starts
/// begins so too, and can only become nicer.
#[must_use]
pub fn niceness() -> Option<i32> {
    // To Linux the calling thread is what this asks about, not its process.
    rustix::process::getpriority_process(None).ok()
}

/// The calling thread comes behind those that serve connections, which are as nice as `nice`. Returns whether the
/// kernel took it.
pub fn run_behind(nice: i32) -> bool {
    let nice = nice.saturating_add(HELPER_NICE_MORE).min(NICEST);
    rustix::process::setpriority_process(None, nice).is_ok()
}

/// `struct sched_attr` of `linux/sched/types.h`, its first version (`SCHED_ATTR_SIZE_VER0`).
#[repr(C)]
#[derive(Default)]
struct SchedAttr {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime: u64,
    deadline: u64,
    period: u64,
}

/// `SCHED_FLAG_RESET_ON_FORK` of `linux/sched.h`.
const SCHED_FLAG_RESET_ON_FORK: u64 = 0x01;
/// The nicest that a thread can be.
const NICEST: i32 = 19;

#[cfg(test)]
mod tests {
    use super::*;

    /// What the kernel says about the calling thread: policy, nice value, and its slice in nanoseconds.
    fn attributes() -> (u32, i32, u64) {
        let mut attributes = SchedAttr::default();
        let size = size_of::<SchedAttr>() as libc::c_uint;
        // SAFETY: as in `run_soon`.
        let read = unsafe {
            libc::syscall(
                libc::SYS_sched_getattr,
                0,
                &raw mut attributes,
                size,
                0 as libc::c_uint,
            )
        };
        assert_eq!(read, 0);
        (attributes.policy, attributes.nice, attributes.runtime)
    }

    #[test]
    fn who_serves_runs_soon_and_its_helpers_as_before() {
        let (serving, helping) = std::thread::spawn(|| {
            assert!(run_soon());
            let helping = std::thread::spawn(|| {
                let before = attributes();
                assert!(run_behind(before.1));
                (before, attributes())
            });
            (attributes(), helping.join().unwrap())
        })
        .join()
        .unwrap();
        let (before, behind) = helping;
        assert_eq!(serving.1, before.1, "a slice takes nothing from others");
        // Kernels before 6.12 name none.
        if serving.2 != 0 {
            assert_eq!(serving.2, PROMPT_SLICE_NANOSECONDS);
            assert_ne!(before.2, PROMPT_SLICE_NANOSECONDS, "not inherited");
        }
        assert_eq!(behind.1, (before.1 + HELPER_NICE_MORE).min(NICEST));
        let (_, own, _) = attributes();
        assert_eq!(own, before.1, "only the thread that asked");
    }
}
