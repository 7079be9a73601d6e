//! What this machine offers, asked once at start and printed; in [`directory`], what a directory
//! offers, asked by an operator; and in [`diagnosis`], what that means for a server.

pub(crate) mod device;
pub mod diagnosis;
pub mod directory;
mod residency;
mod trials;

use std::fmt;
use std::os::fd::AsRawFd;

use io_uring::types::Fd;
use io_uring::{Probe, opcode};

use crate::Errno;
use crate::engine::uring::build;

/// What the kernel's io_uring can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UringFacts {
    /// Completions do not interrupt the thread (`IORING_SETUP_COOP_TASKRUN` and
    /// `IORING_SETUP_SINGLE_ISSUER`, Linux 6.0).
    pub cooperative: bool,
    /// Reads that have to wait for the disk need no worker thread (`IORING_FEAT_FAST_POLL`).
    pub fast_poll: bool,
}

impl fmt::Display for UringFacts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = |yes| if yes { "yes" } else { "no" };
        write!(
            f,
            "cooperative={} fast_poll={}",
            word(self.cooperative),
            word(self.fast_poll)
        )
    }
}

/// Whether the ring engine works here: sets a ring up, asks for the operations it needs, and
/// reads from `/dev/zero` with it.
///
/// # Errors
/// The reason and the cure in words, for the operator.
pub fn uring() -> Result<UringFacts, String> {
    let (mut ring, cooperative) = build(8).map_err(refusal)?;
    let mut probe = Probe::new();
    ring.submitter()
        .register_probe(&mut probe)
        .map_err(|error| format!("the kernel does not tell its io_uring operations: {error}"))?;
    let needed = [opcode::Read::CODE, opcode::Write::CODE, opcode::Fsync::CODE];
    if !needed.iter().all(|&code| probe.is_supported(code)) {
        return Err("the kernel's io_uring lacks read, write or fsync (Linux 5.6 has them)".into());
    }
    let mut workers = [8, 8];
    ring.submitter()
        .register_iowq_max_workers(&mut workers)
        .map_err(|error| {
            format!("io_uring's worker threads cannot be bounded (Linux 5.15 can): {error}")
        })?;
    read_zeros(&mut ring)?;
    Ok(UringFacts {
        cooperative,
        fast_poll: ring.params().is_feature_fast_poll(),
    })
}

fn read_zeros(ring: &mut io_uring::IoUring) -> Result<(), String> {
    let failed = |what: &str| format!("reading /dev/zero by io_uring failed: {what}");
    let zero = std::fs::File::open("/dev/zero").map_err(|error| failed(&error.to_string()))?;
    // Leaked if the kernel does not answer, below.
    let buffer: &'static mut [u8; 16] = Box::leak(Box::new([1; 16]));
    let start = std::ptr::from_mut(buffer).cast::<u8>();
    let read = opcode::Read::new(Fd(zero.as_raw_fd()), start, 16).build();
    // SAFETY: the descriptor is open until the completion below, or the ring is closed; the
    // memory is given back only after the completion.
    unsafe { ring.submission().push(&read) }.map_err(|error| failed(&error.to_string()))?;
    ring.submit_and_wait(1)
        .map_err(|error| failed(&error.to_string()))?;
    let result = ring
        .completion()
        .next()
        .map(|completion| completion.result());
    if result.is_none() {
        return Err(failed("no completion"));
    }
    // SAFETY: `start` came from `Box::leak` above, and the kernel has answered: it is ours again.
    let buffer = unsafe { Box::from_raw(start.cast::<[u8; 16]>()) };
    match result {
        Some(16) if *buffer == [0; 16] => Ok(()),
        other => Err(failed(&format!("{other:?}"))),
    }
}

fn refusal(errno: Errno) -> String {
    match errno {
        Errno::NOSYS => "the kernel has no io_uring, or a system call filter hides it".into(),
        Errno::PERM => match std::fs::read_to_string("/proc/sys/kernel/io_uring_disabled") {
            Ok(value) if value.trim() == "2" => {
                "io_uring is switched off for everybody (sysctl kernel.io_uring_disabled=2)".into()
            }
            Ok(value) if value.trim() == "1" => "io_uring is only for CAP_SYS_ADMIN and the \
                group of sysctl kernel.io_uring_group (kernel.io_uring_disabled=1)"
                .into(),
            _ => "a system call filter forbids io_uring (containers do that: allow \
                io_uring_setup, io_uring_enter and io_uring_register in the seccomp profile)"
                .into(),
        },
        Errno::NOMEM => "not enough memory may be locked (raise RLIMIT_MEMLOCK)".into(),
        errno => format!("io_uring cannot be set up: {errno}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_is_there_or_the_reason_is_told() {
        match uring() {
            Ok(facts) => assert!(!facts.to_string().is_empty()),
            Err(reason) => assert!(!reason.is_empty()),
        }
        assert!(refusal(Errno::PERM).contains("io_uring"));
        assert!(refusal(Errno::NOMEM).contains("RLIMIT_MEMLOCK"));
    }
}
