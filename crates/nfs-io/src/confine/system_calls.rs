//! A seccomp filter: the list of system calls that a file server makes, and what becomes of others.
//!
//! A call that is not on the list is not made. It returns `ENOSYS`, as on a kernel that does not have
//! it: the C library and others then fall back on what older kernels have. It is counted and
//! remembered by number, in a handler of `SIGSYS`, so that [`refused`] can name it. The process is
//! not killed: a call that nobody thought of costs that call and not everybody's files. Where
//! a thread has all signals blocked, as the C library has while it makes a thread, the kernel kills the
//! process nevertheless.
//!
//! What io_uring does is not seen by seccomp. Its operations are of the same kinds as the calls on the
//! list: files and sockets, but no programs, mounts or namespaces.

use std::collections::BTreeMap;
use std::str::FromStr as _;
use std::sync::atomic::{AtomicU64, Ordering};

use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen as Width, SeccompCmpOp as Cmp,
    SeccompCondition, SeccompFilter, SeccompRule,
};
use syscalls::Sysno;

use crate::limits::SYSTEM_CALLS_MAX;

/// What a server needs besides what all need.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Besides {
    /// Threads move into other network namespaces: setns(2), for those only.
    pub network_namespaces: bool,
}

/// The system calls that were refused.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Refused {
    /// How many calls, of whatever kind.
    pub times: u64,
    /// Their names, each once, by number.
    pub names: Vec<&'static str>,
}

/// From now on the calling thread, and those that it makes, cannot make other calls than those on the
/// list. [`super::no_new_privileges`] comes first.
///
/// # Errors
/// In words: the kernel has no seccomp filters, or the machine is of a kind that nobody wrote this for.
pub fn restrict(besides: Besides) -> std::result::Result<(), String> {
    let listed = filter(listed(besides)?, SeccompAction::Trap, SeccompAction::Allow)?;
    // Its namespace flags are in memory that a filter cannot see, so clone3 goes, and the C library
    // uses clone. Not by a signal: it is made while all signals are blocked.
    let clone3 = BTreeMap::from([(i64::from(Sysno::clone3.id()), Vec::new())]);
    let no_system_call = SeccompAction::Errno(libc::ENOSYS.unsigned_abs());
    let clone3 = filter(clone3, SeccompAction::Allow, no_system_call)?;
    handler::install().map_err(|error| format!("no handler for SIGSYS: {error}"))?;
    for program in [&clone3, &listed] {
        install(program).map_err(|error| match error.raw_os_error() {
            Some(libc::EINVAL | libc::ENOSYS) => {
                "no seccomp filter can be had: the kernel has none (CONFIG_SECCOMP_FILTER), or a filter \
                 around this process refuses seccomp(2), as SystemCallFilter= of a systemd unit does that \
                 does not name it"
                    .to_owned()
            }
            _ => format!("seccomp: {error}"),
        })?;
    }
    Ok(())
}

/// The calls that were refused so far, in the whole process.
#[must_use]
pub fn refused() -> Refused {
    let mut names = Vec::new();
    for (index, word) in SEEN.iter().enumerate() {
        let word = word.load(Ordering::Relaxed);
        let of_word = (0..u64::BITS as usize).filter(|bit| word & (1 << bit) != 0);
        names.extend(of_word.map(|bit| name(index * u64::BITS as usize + bit)));
    }
    Refused {
        times: TIMES.load(Ordering::Relaxed),
        names,
    }
}

fn name(number: usize) -> &'static str {
    Sysno::new(number).map_or("a call without a name", |call| call.name())
}

/// How often a call was refused.
static TIMES: AtomicU64 = AtomicU64::new(0);
/// The numbers of the calls that were refused, a bit for each. A higher number is not remembered.
static SEEN: [AtomicU64; SYSTEM_CALLS_MAX / 64] = [const { AtomicU64::new(0) }; _];

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

fn listed(besides: Besides) -> std::result::Result<Rules, String> {
    let number = |name: &str| Sysno::from_str(name).ok().map(|call| i64::from(call.id()));
    let whole = ALLOWED.iter().flat_map(|names| names.split_whitespace());
    let mut rules: Rules = whole
        .filter_map(number)
        .map(|call| (call, Vec::new()))
        .collect();
    let mut limit = |name: &str, alternatives: &[&[Condition]]| {
        let rule = |conditions: &&[Condition]| SeccompRule::new(all_of(conditions)?);
        let alternatives: std::result::Result<Vec<_>, _> = alternatives.iter().map(rule).collect();
        let alternatives = alternatives.map_err(|error| format!("seccomp filter: {error}"))?;
        rules.extend(number(name).map(|call| (call, alternatives)));
        Ok::<_, String>(())
    };
    // No memory that can be written and executed.
    const WRITE: u64 = libc::PROT_WRITE as u64;
    const EXEC: u64 = libc::PROT_EXEC as u64;
    for call in ["mmap", "mprotect"] {
        limit(
            call,
            &[
                &[(2, Cmp::MaskedEq(WRITE), 0)],
                &[(2, Cmp::MaskedEq(EXEC), 0)],
            ],
        )?;
    }
    let families = FAMILIES.map(|family| [(0, Cmp::Eq, family as u64)]);
    let families = families.each_ref().map(|one| &one[..]);
    limit("socket", &families)?;
    limit("socketpair", &[&[(0, Cmp::Eq, libc::AF_UNIX as u64)]])?;
    // Threads, but no namespaces.
    limit("clone", &[&[(0, Cmp::MaskedEq(NAMESPACES), 0)]])?;
    // How soon the calling thread runs, and nobody else.
    limit("setpriority", &[&[(0, Cmp::Eq, 0), (1, Cmp::Eq, 0)]])?;
    limit("getpriority", &[&[(0, Cmp::Eq, 0), (1, Cmp::Eq, 0)]])?;
    limit("sched_setattr", &[&[(0, Cmp::Eq, 0)]])?;
    limit("sched_getattr", &[&[(0, Cmp::Eq, 0)]])?;
    if besides.network_namespaces {
        limit("setns", &[&[(1, Cmp::Eq, libc::CLONE_NEWNET as u64)]])?;
    }
    // Nothing is typed into a terminal in its user's name.
    limit(
        "ioctl",
        &[&[(1, Cmp::Ne, TIOCSTI), (1, Cmp::Ne, TIOCLINUX)]],
    )?;
    let operations = PRCTL.map(|operation| [(0, Cmp::Eq, operation as u64)]);
    let operations = operations.each_ref().map(|one| &one[..]);
    limit("prctl", &operations)?;
    Ok(rules)
}

/// An argument by its number, how it is compared, and with what. The lower half of it: the kernel takes
/// these arguments as 32 bits.
type Condition = (u8, Cmp, u64);

fn all_of(conditions: &[Condition]) -> std::result::Result<Vec<SeccompCondition>, BackendError> {
    let conditions = conditions.iter().cloned();
    conditions
        .map(|(argument, cmp, value)| SeccompCondition::new(argument, Width::Dword, cmp, value))
        .collect()
}

fn filter(
    rules: Rules,
    others: SeccompAction,
    listed: SeccompAction,
) -> std::result::Result<BpfProgram, String> {
    let failed = |error: BackendError| format!("seccomp filter: {error}");
    let arch = std::env::consts::ARCH.try_into().map_err(failed)?;
    let filter = SeccompFilter::new(rules, others, listed, arch).map_err(failed)?;
    filter.try_into().map_err(failed)
}

/// Not by `seccompiler::apply_filter`: that leaves out `SPEC_ALLOW`, without which kernels before 5.16
/// switch speculation off for the thread, and every call of it becomes slower.
fn install(program: &BpfProgram) -> std::io::Result<()> {
    let program = libc::sock_fprog {
        len: u16::try_from(program.len()).map_err(std::io::Error::other)?,
        filter: program.as_ptr().cast::<libc::sock_filter>().cast_mut(),
    };
    // SAFETY: `program` and the instructions it points to live through the call, and the kernel only
    // reads them. Both crates' `sock_filter` is the kernel's structure.
    let outcome = unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_SET_MODE_FILTER,
            libc::SECCOMP_FILTER_FLAG_SPEC_ALLOW,
            &raw const program,
        )
    };
    if outcome == 0 {
        Ok(())
    } else {
        Err(std::io::Error::last_os_error())
    }
}

mod handler {
    //! The handler of `SIGSYS`.

    use std::io;
    use std::sync::atomic::Ordering;

    use super::{SEEN, TIMES};

    /// `SYS_SECCOMP` of `asm-generic/siginfo.h`: the signal is a filter's.
    const SYS_SECCOMP: libc::c_int = 1;

    /// The kernel's `siginfo_t` of a `SIGSYS`, on machines with pointers of 64 bits.
    #[repr(C)]
    struct Info {
        signo: libc::c_int,
        errno: libc::c_int,
        code: libc::c_int,
        _pad: libc::c_int,
        _address: *mut libc::c_void,
        call: libc::c_int,
        _arch: libc::c_uint,
    }

    pub(super) fn install() -> io::Result<()> {
        // SAFETY: a structure of numbers and a set of signals, for which all zeroes are valid.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        action.sa_sigaction = refuse as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART | libc::SA_ONSTACK;
        // SAFETY: `action` lives through the call. `refuse` does only what a handler of signals may:
        // atomic operations and writes to the context that it is given.
        let outcome =
            unsafe { libc::sigaction(libc::SIGSYS, &raw const action, std::ptr::null_mut()) };
        if outcome == 0 {
            Ok(())
        } else {
            Err(io::Error::last_os_error())
        }
    }

    extern "C" fn refuse(
        _signal: libc::c_int,
        info: *mut libc::siginfo_t,
        context: *mut libc::c_void,
    ) {
        // SAFETY: the kernel calls this with its `siginfo_t`, of which `Info` is the beginning.
        let info = unsafe { &*info.cast::<Info>() };
        if info.code != SYS_SECCOMP {
            return;
        }
        TIMES.fetch_add(1, Ordering::Relaxed);
        let number = usize::try_from(info.call).unwrap_or(usize::MAX);
        if let Some(word) = SEEN.get(number / 64) {
            word.fetch_or(1 << (number % 64), Ordering::Relaxed);
        }
        // SAFETY: with SA_SIGINFO the third argument is the interrupted thread's `ucontext_t`, which
        // is ours to change until we return.
        let context = unsafe { &mut *context.cast::<libc::ucontext_t>() };
        returns(context, -i64::from(libc::ENOSYS));
    }

    /// Puts `value` where the interrupted code finds the result of the call.
    #[cfg(target_arch = "x86_64")]
    fn returns(context: &mut libc::ucontext_t, value: i64) {
        if let Some(result) = context.uc_mcontext.gregs.get_mut(libc::REG_RAX as usize) {
            *result = value;
        }
    }

    /// Puts `value` where the interrupted code finds the result of the call.
    #[cfg(target_arch = "aarch64")]
    fn returns(context: &mut libc::ucontext_t, value: i64) {
        if let Some(result) = context.uc_mcontext.regs.first_mut() {
            *result = value.cast_unsigned();
        }
    }
}

/// `AF_NETLINK` asks the kernel whose a local program's connection is.
const FAMILIES: [libc::c_int; 4] = [
    libc::AF_UNIX,
    libc::AF_INET,
    libc::AF_INET6,
    libc::AF_NETLINK,
];

/// Every `CLONE_NEW...` of `linux/sched.h` that clone(2) takes.
const NAMESPACES: u64 = (libc::CLONE_NEWNS
    | libc::CLONE_NEWCGROUP
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUSER
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET) as u64;

const TIOCSTI: u64 = 0x5412;
const TIOCLINUX: u64 = 0x541c;

/// `PR_GET_AUXV` of `linux/prctl.h` (Linux 6.4). rustix asks with it for the size of a page when it first needs one.
const PR_GET_AUXV: libc::c_int = 0x4155_5856;

/// Names of threads and of memory, and questions.
const PRCTL: [libc::c_int; 9] = [
    libc::PR_SET_NAME,
    libc::PR_GET_NAME,
    libc::PR_SET_VMA,
    libc::PR_GET_SECUREBITS,
    libc::PR_CAPBSET_READ,
    libc::PR_GET_NO_NEW_PRIVS,
    libc::PR_GET_SECCOMP,
    libc::PR_GET_DUMPABLE,
    PR_GET_AUXV,
];

/// The calls that are allowed whatever their arguments, by names: those that this machine's kind does
/// not have are passed over. In groups by what they are for; the C library chooses among old and new
/// forms of a call, so that all forms are here.
const ALLOWED: &[&str] = &[
    // Bytes of files and sockets.
    "read write readv writev pread64 pwrite64 preadv pwritev preadv2 pwritev2 lseek close \
     close_range dup dup2 dup3 fcntl flock copy_file_range splice tee sendfile fallocate ftruncate \
     truncate fadvise64 readahead sync_file_range fsync fdatasync syncfs cachestat",
    // Names, attributes, handles.
    "open openat openat2 creat open_by_handle_at name_to_handle_at stat fstat lstat newfstatat statx \
     access faccessat faccessat2 getdents getdents64 getcwd readlink readlinkat mkdir mkdirat mknod \
     mknodat unlink unlinkat rmdir rename renameat renameat2 link linkat symlink symlinkat chmod \
     fchmod fchmodat fchmodat2 chown lchown fchown fchownat utimensat futimesat statfs fstatfs \
     getxattr lgetxattr fgetxattr listxattr llistxattr flistxattr setxattr lsetxattr fsetxattr \
     removexattr lremovexattr fremovexattr umask",
    // Sockets, events, rings. The families of sockets are limited below.
    "bind listen accept accept4 connect getsockname getpeername getsockopt setsockopt sendto sendmsg \
     sendmmsg recvfrom recvmsg recvmmsg shutdown epoll_create epoll_create1 epoll_ctl epoll_wait \
     epoll_pwait epoll_pwait2 eventfd2 pipe pipe2 poll ppoll select pselect6 timerfd_create \
     timerfd_settime timerfd_gettime io_uring_setup io_uring_enter io_uring_register",
    // Memory, threads, locks.
    "munmap mremap madvise brk mincore mlock munlock membarrier futex futex_wait futex_wake \
     futex_waitv futex_requeue set_robust_list get_robust_list rseq set_tid_address arch_prctl \
     sched_yield sched_getaffinity sched_setaffinity sched_getparam sched_getscheduler getcpu clone3 \
     restart_syscall exit exit_group",
    // Signals to itself; no kill: the server ends nobody else.
    "rt_sigaction rt_sigprocmask rt_sigreturn rt_sigpending rt_sigtimedwait rt_sigsuspend \
     sigaltstack tgkill",
    // Who it is, and acting for clients.
    "getpid getppid gettid getuid geteuid getgid getegid getresuid getresgid getgroups setgroups \
     setfsuid setfsgid capget capset",
    // Time, randomness, limits, the machine.
    "clock_gettime clock_getres clock_nanosleep nanosleep gettimeofday time times getrandom \
     getrlimit setrlimit prlimit64 getrusage sysinfo uname",
];

#[cfg(test)]
mod tests {
    use rustix::thread::UnshareFlags;

    use super::*;

    /// In a thread of its own, which takes the filter with it.
    fn confined<T: Send + 'static>(
        besides: Besides,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> T {
        let thread = std::thread::spawn(move || {
            super::super::no_new_privileges().unwrap();
            restrict(besides).unwrap();
            work()
        });
        thread.join().unwrap()
    }

    fn unshare() -> crate::Result<()> {
        // SAFETY: gives this thread, which shares no descriptors on purpose, a table of its own.
        unsafe { rustix::thread::unshare_unsafe(UnshareFlags::FS) }
    }

    #[test]
    fn a_call_that_is_not_listed_is_refused_named_and_counted() {
        assert_eq!(unshare(), Ok(()), "without a filter");
        let before = refused().times;
        let outcome = confined(Besides::default(), || [unshare(), unshare()]);
        assert_eq!(outcome, [Err(crate::Errno::NOSYS); 2]);
        let after = refused();
        assert!(after.times >= before + 2, "{after:?}");
        assert!(after.names.contains(&"unshare"), "{after:?}");
    }

    #[test]
    fn threads_begin_and_files_are_read_as_before() {
        let read = confined(Besides::default(), || {
            std::thread::spawn(|| std::fs::read("/proc/self/stat").map(|bytes| bytes.len()))
                .join()
                .unwrap()
        });
        assert!(read.is_ok_and(|len| len > 0));
    }

    #[test]
    fn no_program_is_started() {
        let started = confined(Besides::default(), || {
            std::process::Command::new("/bin/true").status().map(|_| ())
        });
        assert!(started.is_err(), "{started:?}");
    }

    #[test]
    fn arguments_decide_where_a_call_has_safe_and_unsafe_ones() {
        use rustix::net::{AddressFamily, SocketType, socket};
        let of = |family| socket(family, SocketType::RAW, None).map(drop).err();
        let outcome = confined(Besides::default(), move || {
            let packet = of(AddressFamily::PACKET);
            let executable = {
                // SAFETY: asks for memory of the kernel's choice that nobody uses.
                let memory = unsafe {
                    libc::mmap(
                        std::ptr::null_mut(),
                        4096,
                        libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC,
                        libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                        -1,
                        0,
                    )
                };
                memory != libc::MAP_FAILED
            };
            let stream = socket(AddressFamily::INET, SocketType::STREAM, None).is_ok();
            (packet, executable, stream)
        });
        assert_eq!(outcome, (Some(crate::Errno::NOSYS), false, true));
    }

    #[test]
    fn namespaces_are_entered_only_where_that_was_asked_for() {
        let enter = || {
            let own = std::fs::File::open("/proc/self/ns/net").unwrap();
            rustix::thread::move_into_link_name_space(
                std::os::fd::AsFd::as_fd(&own),
                Some(rustix::thread::LinkNameSpaceType::Network),
            )
        };
        let refused = Err(crate::Errno::NOSYS);
        assert_eq!(confined(Besides::default(), enter), refused);
        let besides = Besides {
            network_namespaces: true,
        };
        assert_ne!(confined(besides, enter), refused);
    }

    /// What would let a peer that runs code of its own here go further, by what it would be used for.
    #[test]
    fn what_leads_out_of_the_process_is_on_no_list() {
        const NEVER: &[&str] = &[
            "execve execveat fork vfork",
            "ptrace process_vm_readv process_vm_writev pidfd_getfd pidfd_open kill tkill kcmp",
            "mount umount2 move_mount open_tree fsopen fsmount mount_setattr pivot_root chroot",
            "unshare setns bpf perf_event_open userfaultfd keyctl add_key request_key",
            "init_module finit_module delete_module kexec_load kexec_file_load reboot iopl ioperm",
            "setuid setgid setreuid setregid setresuid setresgid settimeofday swapon acct quotactl",
        ];
        let rules = listed(Besides::default()).unwrap();
        for name in NEVER.iter().flat_map(|names| names.split_whitespace()) {
            if let Ok(call) = Sysno::from_str(name) {
                assert!(!rules.contains_key(&i64::from(call.id())), "{name}");
            }
        }
    }

    /// What becomes of a call by `program`, told from its number alone, as the kernel (since 5.11) tries for each
    /// call when a filter is installed: those that are allowed then never run the filter. `None` where the
    /// program looks at an argument, or does what the kernel does not follow.
    fn allowed_by_number(program: &BpfProgram, call: Sysno) -> Option<bool> {
        const NUMBER: u32 = 0;
        const ARCHITECTURE: u32 = 4;
        let architecture = if cfg!(target_arch = "x86_64") {
            0xc000_003e
        } else {
            0xc000_00b7
        };
        let (mut at, mut word) = (0, 0);
        loop {
            let instruction = &program[at];
            at += 1;
            match (u32::from(instruction.code), instruction.k) {
                (0x20, NUMBER) => word = u32::try_from(call.id()).unwrap(),
                (0x20, ARCHITECTURE) => word = architecture,
                (0x05, skip) => at += skip as usize,
                (0x15, value) => {
                    let skip = [instruction.jf, instruction.jt][usize::from(word == value)];
                    at += usize::from(skip);
                }
                (0x06, verdict) => return Some(verdict == libc::SECCOMP_RET_ALLOW),
                _ => return None,
            }
        }
    }

    #[test]
    fn calls_that_are_made_for_every_request_are_decided_by_their_number() {
        let program = filter(
            listed(Besides::default()).unwrap(),
            SeccompAction::Trap,
            SeccompAction::Allow,
        );
        let program = program.unwrap();
        for call in [
            Sysno::epoll_pwait,
            Sysno::recvfrom,
            Sysno::writev,
            Sysno::statx,
            Sysno::preadv2,
            Sysno::pwritev2,
            Sysno::io_uring_enter,
            Sysno::futex,
            Sysno::read,
            Sysno::write,
            Sysno::close,
            Sysno::openat,
            Sysno::openat2,
            Sysno::open_by_handle_at,
            Sysno::name_to_handle_at,
            Sysno::faccessat2,
            Sysno::unlinkat,
            Sysno::fsync,
            Sysno::setfsuid,
            Sysno::setfsgid,
            Sysno::setgroups,
            Sysno::capget,
            Sysno::capset,
            Sysno::clock_gettime,
        ] {
            assert_eq!(allowed_by_number(&program, call), Some(true), "{call:?}");
        }
        assert_eq!(allowed_by_number(&program, Sysno::mmap), None);
        assert_eq!(allowed_by_number(&program, Sysno::unshare), Some(false));
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn every_name_of_the_list_is_a_calls() {
        for name in ALLOWED.iter().flat_map(|names| names.split_whitespace()) {
            assert!(Sysno::from_str(name).is_ok(), "{name}");
        }
    }
}
