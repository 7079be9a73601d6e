//! The memory that the C library's allocator keeps of what the process has given back to it.

/// Gives the system the pages of the heap that nothing is in. glibc by itself gives back only what is above the
/// last piece in use, which after a crowd of connections is next to nothing; other C libraries have no such
/// call, and nothing is done. Threads that allocate meanwhile wait, each heap's for some milliseconds.
pub fn give_back_free_pages() {
    #[cfg(target_env = "gnu")]
    // SAFETY: malloc_trim(3) may be called by any thread at any time, and leaves alone what is in use.
    unsafe {
        libc::malloc_trim(0);
    }
}
