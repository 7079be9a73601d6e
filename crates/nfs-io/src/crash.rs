//! What is done when a signal is about to end the process.
//!
//! A handler of a signal may do next to nothing: whoever was interrupted may hold any lock, the allocator's too. So
//! there is a thread that waits for that moment and has all of safe Rust; the handler wakes it and gives it
//! [`crate::limits::CRASH_WAIT_MILLISECONDS_MAX`]. Then the signal does what it would have done.

use std::io;
use std::os::fd::{AsFd, IntoRawFd, OwnedFd};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, Ordering};

use rustix::event::{EventfdFlags, eventfd};

use crate::limits;

/// The signals by which a program ends that went wrong (signal(7)).
const FATAL: [libc::c_int; 5] = [
    libc::SIGABRT,
    libc::SIGBUS,
    libc::SIGFPE,
    libc::SIGILL,
    libc::SIGSEGV,
];

/// The signal that came first; 0 while none has.
static SIGNAL: AtomicI32 = AtomicI32::new(0);
/// Where the thread is woken, and where it says that it is done; they stay open for as long as the process lives.
static WAKE: AtomicI32 = AtomicI32::new(-1);
static DONE: AtomicI32 = AtomicI32::new(-1);
/// What was to be done at each of the signals before.
static BEFORE: OnceLock<Vec<libc::sigaction>> = OnceLock::new();

/// Has `work` done, on a thread of its own, when one of the signals that end a program that went wrong comes, or
/// [`tell`] is called: once at most. It is given the number of the signal, or 0. To be called once; later calls
/// change nothing.
///
/// # Errors
/// No descriptors or no thread to be had.
pub fn at_crash(work: impl FnOnce(i32) + Send + 'static) -> io::Result<()> {
    let (wake, done) = (
        eventfd(0, EventfdFlags::CLOEXEC)?,
        eventfd(0, EventfdFlags::CLOEXEC)?,
    );
    let (woken, tells) = (wake.try_clone()?, done.try_clone()?);
    if WAKE
        .compare_exchange(-1, wake.into_raw_fd(), Ordering::AcqRel, Ordering::Relaxed)
        .is_err()
    {
        return Ok(());
    }
    DONE.store(done.into_raw_fd(), Ordering::Release);
    std::thread::Builder::new()
        .name("crash".to_owned())
        .spawn(move || wait_for_crash(&woken, &tells, work))?;
    let before = FATAL.iter().map(|signal| handle(*signal));
    let before = before.collect::<io::Result<Vec<_>>>()?;
    // Nobody else sets it: only one call comes so far.
    BEFORE.get_or_init(|| before);
    Ok(())
}

/// Has what [`at_crash`] was given done now, and waits for it, but not for long. For a panic that ends the process.
pub fn tell() {
    wake_and_wait(-1);
}

fn wait_for_crash(woken: &OwnedFd, tells: &OwnedFd, work: impl FnOnce(i32)) {
    let mut woken_by = [0; 8];
    loop {
        match rustix::io::read(woken.as_fd(), &mut woken_by) {
            Ok(_) => break,
            Err(rustix::io::Errno::INTR) => {}
            Err(_) => return,
        }
    }
    work(SIGNAL.load(Ordering::Acquire).max(0));
    // Whoever waits for it goes on without it, a little later.
    let _told = rustix::io::write(tells.as_fd(), &1_u64.to_ne_bytes());
}

/// Sets the handler; what was to be done before.
fn handle(signal: libc::c_int) -> io::Result<libc::sigaction> {
    // SAFETY: all bits zero are a valid `sigaction`: no flags, an empty mask, the default handler.
    let mut new: libc::sigaction = unsafe { std::mem::zeroed() };
    new.sa_sigaction = on_signal as extern "C" fn(libc::c_int) as libc::sighandler_t;
    // On the stack that the standard library gives each thread for that: the thread's own may be full.
    new.sa_flags = libc::SA_ONSTACK;
    // SAFETY: as above.
    let mut before: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: both point to whole values that outlive the call, and the handler calls only what a handler may
    // (signal-safety(7)): write, poll, sigaction, and atomic loads and stores.
    let result = unsafe { libc::sigaction(signal, &raw const new, &raw mut before) };
    if result == 0 {
        Ok(before)
    } else {
        Err(io::Error::last_os_error())
    }
}

extern "C" fn on_signal(signal: libc::c_int) {
    wake_and_wait(signal);
    // What would have been done without us comes when this returns: the instruction that failed is run again, and
    // `abort` raises its signal anew.
    let place = FATAL.iter().position(|fatal| *fatal == signal);
    let before = BEFORE
        .get()
        .zip(place)
        .and_then(|(all, place)| all.get(place));
    if let Some(before) = before {
        // SAFETY: `before` is what sigaction gave for that signal, and lives for ever.
        unsafe { libc::sigaction(signal, before, std::ptr::null_mut()) };
    }
}

/// Wakes the thread, unless that was done, and waits for it. Only what a handler of a signal may do.
fn wake_and_wait(signal: i32) {
    let one = 1_u64.to_ne_bytes();
    let is_first = SIGNAL.compare_exchange(0, signal, Ordering::AcqRel, Ordering::Relaxed);
    if is_first.is_ok() {
        // SAFETY: the bytes outlive the call, and the descriptor, if it is there, is never closed.
        unsafe { libc::write(WAKE.load(Ordering::Acquire), one.as_ptr().cast(), one.len()) };
    }
    let mut asked = libc::pollfd {
        fd: DONE.load(Ordering::Acquire),
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: as above; the one place that is asked about outlives the call.
    unsafe { libc::poll(&raw mut asked, 1, limits::CRASH_WAIT_MILLISECONDS_MAX) };
}
