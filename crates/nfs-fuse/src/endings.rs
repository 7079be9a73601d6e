//! Programs that are asked to end while they wait for the server.
//!
//! The kernel tells of a signal with FUSE_INTERRUPT. The library that carries its requests answers that
//! with "not implemented", and from then on nobody tells. So the mount looks itself: the signals that
//! wait for a thread are in `/proc/THREAD/status`, and who waits longer than [`ENDING_LOOK_EVERY`] is
//! looked at that often. That tells which signal it is, too, which FUSE_INTERRUPT does not: a timer, a
//! child that ended or a window that changed its size end no request here, as on a local file system.

use std::future::Future;
use std::pin::Pin;

use crate::callers::read_status;
use crate::limits::ENDING_LOOK_EVERY;

/// SIGHUP, SIGINT, SIGQUIT, SIGKILL, SIGTERM, as bits of the kernel's sets of signals.
const ENDING: u64 = 1 << 0 | 1 << 1 | 1 << 2 | KILL | 1 << 14;

/// The bit of SIGKILL in a mask of signals.
const KILL: u64 = 1 << 8;

/// What becomes of a request whose caller waits no longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rest {
    /// The request is given up.
    Stops,
    /// It is done all the same: it changes something in several steps.
    GoesOn,
}

/// What `work` brings; `None` once the thread `pid` is asked to end, before or while it is waited for.
pub(crate) async fn unless_ended<F: Future>(pid: u32, work: Pin<&mut F>) -> Option<F::Output> {
    tokio::select! {
        biased;
        done = work => Some(done),
        () = asked_to_end(pid) => None,
    }
}

/// Returns when a signal waits that asks the thread `pid` to end.
async fn asked_to_end(pid: u32) {
    if pid == 0 {
        // The kernel itself, or a process of another process namespace.
        return std::future::pending().await;
    }
    loop {
        tokio::time::sleep(ENDING_LOOK_EVERY).await;
        if read_status(pid).is_some_and(|status| is_ending(&status)) {
            return;
        }
    }
}

/// Whether a `/proc/THREAD/status` tells of a signal that ends the thread, or that is meant to and that
/// the program takes care of itself.
fn is_ending(status: &str) -> bool {
    let set = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|set| u64::from_str_radix(set.trim(), 16).ok())
            .unwrap_or(0)
    };
    let waiting = set("SigPnd:") | set("ShdPnd:");
    let blocked = set("SigBlk:") & !KILL;
    waiting & !blocked & ENDING != 0
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::time::Duration;

    use super::*;

    fn status(own: u64, shared: u64, blocked: u64) -> String {
        format!(
            "Name:\tcat\nThreads:\t1\nSigQ:\t0/95\nSigPnd:\t{own:016x}\nShdPnd:\t{shared:016x}\n\
             SigBlk:\t{blocked:016x}\nSigIgn:\t0000000000000002\nSigCgt:\t0000000000000000\n"
        )
    }

    #[test]
    fn signals_that_ask_to_end() {
        let bit = |signal: u32| 1u64 << (signal - 1);
        for (own, shared, blocked, ending) in [
            (0, 0, 0, false),
            (bit(2), 0, 0, true),
            (0, bit(2), 0, true),
            (0, bit(1), 0, true),
            (0, bit(3), 0, true),
            (0, bit(15), 0, true),
            (bit(9), 0, 0, true),
            // Blocked: the program has said that it waits.
            (0, bit(2), bit(2), false),
            (0, bit(2) | bit(15), bit(2), true),
            // Nobody blocks this one.
            (bit(9), 0, u64::MAX, true),
            // SIGALRM, SIGCHLD, SIGURG, SIGTSTP, SIGWINCH.
            (0, bit(14) | bit(17) | bit(23) | bit(20) | bit(28), 0, false),
        ] {
            let text = status(own, shared, blocked);
            assert_eq!(is_ending(&text), ending, "{text}");
        }
        assert!(!is_ending(""));
        assert!(!is_ending("SigPnd:\tx\n"));
    }

    #[tokio::test(start_paused = true)]
    async fn work_is_waited_for_while_nobody_is_asked_to_end() {
        for pid in [0, std::process::id()] {
            let work = async {
                // SLEEP: of the paused clock: work that takes its time.
                tokio::time::sleep(Duration::from_secs(60)).await;
                7
            };
            assert_eq!(unless_ended(pid, pin!(work)).await, Some(7));
        }
    }
}
