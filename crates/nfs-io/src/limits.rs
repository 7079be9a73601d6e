//! Every bound of this crate, in one place. Units are in the names.

/// Start of every [`crate::Buf`] is a multiple of this; smallest size class. A page on every
/// machine we run on, and at least the memory alignment any block device asks for.
pub const BUFFER_ALIGN_BYTES: usize = 4096;

/// Largest single buffer. Far above any NFSv3 transfer (`rtmax` is at most a few MiB); a larger
/// request is our own mistake.
pub const BUFFER_BYTES_MAX: usize = 1 << 26;

/// Buffers of this many bytes and more are mapped, and cut from huge pages where they divide one;
/// smaller ones are the allocator's. Pinning 16 pages is where one large page begins to be felt
/// (docs/design/0004-buffers.md).
pub const BUFFER_MAPPED_BYTES_MIN: usize = 64 << 10;

/// A huge page of the machines we are made for; elsewhere only a good size.
pub const HUGE_PAGE_BYTES: usize = 2 << 20;

/// A budget smaller than this many huge pages has none cut up: what is left over of one, kept for
/// the next buffer of that size, would be missed elsewhere.
pub const BUDGET_HUGE_PAGES_MIN: u64 = 32;

/// Share of the budget that idle buffers may keep: one part in this many. They give way to whoever
/// waits; making one anew costs as much as moving its bytes.
pub const BUFFER_IDLE_FRACTION: u64 = 2;

/// Largest value of an extended attribute, in bytes: the kernel's XATTR_SIZE_MAX. Most file systems take less.
pub const XATTR_VALUE_BYTES_MAX: usize = 64 << 10;

/// Longest list of the names of an object's extended attributes, in bytes: the kernel's XATTR_LIST_MAX.
pub const XATTR_LIST_BYTES_MAX: usize = 64 << 10;

/// Longest name of an extended attribute without its `user.`, in bytes: the kernel's XATTR_NAME_MAX (255) holds for
/// both together.
pub const USER_XATTR_NAME_BYTES_MAX: usize = 250;

/// Most entries of a POSIX ACL that is read: 1024 users and groups, and the four others. File systems keep about 500
/// (ext4) to 8000 (tmpfs).
pub const POSIX_ACL_ENTRIES_MAX: usize = 1028;

/// Longest kernel file handle (`MAX_HANDLE_SZ` of `<linux/exportfs.h>`).
pub const KERNEL_HANDLE_BYTES_MAX: usize = 128;

/// How often an `openat2` that lost a race against a rename is tried again.
pub const OPENAT2_RETRIES_MAX: u32 = 64;

/// Bytes asked of one `getdents64` when the caller does not say.
pub const DIRENTS_BYTES: usize = 32 * 1024;

/// Smallest `getdents64` buffer: one entry with a 255-byte name fits in with room to spare.
pub const DIRENTS_BYTES_MIN: usize = 1024;

/// Largest `getdents64` buffer in bytes: 1 MiB.
pub const DIRENTS_BYTES_MAX: usize = 1 << 20;

/// Threads of one [`crate::Pool`] where the caller does not say.
pub const POOL_THREADS_MAX: usize = 64;

/// Jobs that one lane of a pool may have waiting where the caller does not say.
pub const POOL_QUEUED_MAX: usize = 4096;

/// A pool thread without work ends after this many seconds.
pub const POOL_IDLE_SECONDS: u64 = 10;

/// Of the jobs that take the same lock of the kernel, such as changes of one directory's names, one in so many wakes a
/// thread: the others wait for those that are at work.
pub const POOL_CROWD_JOBS_FOR_A_THREAD: usize = 8;

/// How often, in milliseconds, an idle thread of a pool looks whether such jobs wait for a thread that is stuck.
pub const POOL_WATCH_MILLISECONDS: u64 = 1;

/// After so many looks during which no two jobs of one lock came together it looks no more.
pub const POOL_WATCH_QUIET_LOOKS_MAX: u32 = 50;

/// Dropping a pool waits this many seconds for running jobs, then leaves them to themselves.
pub const POOL_DROP_SECONDS: u64 = 5;

/// How often an engine asks again after `EAGAIN`, which blocking calls on files should never
/// answer, before it makes an `EIO` of it.
pub const AGAIN_RETRIES_MAX: u32 = 16;

/// Operations of one ring in the kernel at once where the caller does not say.
pub const RING_IN_FLIGHT_MAX: u32 = 128;

/// Largest number of operations one ring can be given: the kernel's limit for submission
/// entries.
pub const RING_IN_FLIGHT_CEILING: u32 = 32_768;

/// Operations of one lane of a ring that wait for their turn where the caller does not say.
pub const RING_LANE_QUEUED_MAX: usize = 4096;

/// Client identities that a ring keeps registered; the one longest unused gives way.
pub const RING_PERSONALITIES_MAX: usize = 256;

/// A write of so many bytes into the page cache is a large copy: where several are under way, each has a buffer that has
/// left the processor's cache by the time it is copied from.
pub const COPY_LARGE_BYTES_MIN: usize = 256 << 10;

/// While so many bytes of a client are in large copies under way, the data of another one is not received: one WRITE of 1 MiB is
/// copied while the next one is received, where they have a processor each.
pub const COPIES_UNDER_WAY_BYTES_MAX: usize = 2 << 20;

/// Longest time, in milliseconds, for which data is not received because of large copies under way. One takes some tenths
/// of a millisecond, unless its processor does something else, or the writer is held back because the disk is behind.
pub const COPIES_WAIT_MILLISECONDS_MAX: u64 = 10;

/// For how many milliseconds nobody waits for large copies after such a wait in which none has ended; for twice as long as
/// the last time if that was soon after somebody had begun to wait again.
pub const COPIES_REST_MILLISECONDS_MIN: u64 = 10;

/// Longest time, in milliseconds, for which nobody waits for large copies because none had ended.
pub const COPIES_REST_MILLISECONDS_MAX: u64 = 1000;

/// Dropping a ring waits this many seconds for what cannot be cancelled, then leaks its memory.
pub const RING_DROP_SECONDS: u64 = 3;

/// Most groups of one user that are asked for.
pub const GROUPS_PER_USER_MAX: usize = 1024;
/// Bytes for one entry of the user database, at first.
pub const ACCOUNT_BYTES_USUAL: usize = 16 << 10;
/// Most bytes for one entry of the user database: a group's names all its members.
pub const ACCOUNT_BYTES_MAX: usize = 1 << 20;

/// Most segments of one [`crate::plan::Plan`]: an unaligned head, an aligned middle, a tail.
pub const SEGMENTS_MAX: usize = 3;

/// The aligned middle of a direct write begins and ends at a multiple of this at least: the
/// smallest page. What shares a page with bytes in the cache would have to be read back.
pub const DIRECT_WRITE_ALIGN_BYTES_MIN: u64 = 4096;

/// No direct I/O is aligned to less: the smallest logical block of a disk.
pub const DIRECT_ALIGN_BYTES_MIN: usize = 512;

/// How often a handle is tried to be opened while the kernel answers `ENOMEM`, which it also does for the
/// moment in which a file is made with the inode number of one that is gone.
pub const HANDLE_OPENS_MAX: u32 = 32;

/// How often a write is tried to be watched well while it passes the page cache or not. On a busy
/// machine the thread that looks may hardly run while the write does.
pub const WATCHED_TRIES_MAX: u32 = 24;

/// Longest answer that is taken from a netlink socket: those to our questions are below 512 bytes.
pub const NETLINK_ANSWER_BYTES_MAX: usize = 4096;

/// Messages on a netlink socket that are no answer to the question just asked: after this many the
/// question counts as not answered.
pub const NETLINK_STRANGE_ANSWERS_MAX: u32 = 8;

/// Clients that the order of turns remembers though none of theirs waits, beside twice as many as there are
/// that wait. Beyond that the idle ones are forgotten, which gives each of them a turn at most. Likewise,
/// clients that hold nothing of what is shared, beside as many as there are that hold some.
pub const TURNS_IDLE_CLIENTS_MAX: usize = 64;

/// Blocks of one file that are remembered because one part of each was written without the other: some 16 bytes
/// each. Of one that is forgotten the other part is held for as long as parts are that stay alone.
pub const STAGING_WRITTEN_IN_PART_MAX: usize = 2048;

/// File systems of which the books of running jobs are kept though none runs, so that the next one finds
/// them: some hundred bytes each.
pub const LANES_IDLE_MAX: usize = 64;

/// Most jobs of a lane that start before one that goes behind what waits there: one client that lets thousands wait
/// holds nobody's back for longer.
pub const BEHIND_JOBS_MAX: usize = 32;

/// System calls with a number below this are remembered by name when they are refused: Linux is at
/// about 470, after thirty years.
pub const SYSTEM_CALLS_MAX: usize = 1024;

/// How much nicer (nice(1)) helper threads beyond one for each processor are than the threads that serve
/// connections: 17 busy ones on the same processor leave these a third of it, which is more than they use.
pub const HELPER_NICE_MORE: i32 = 10;

/// How long a thread that serves connections asks to run at once, when there are others: the shortest that Linux gives.
pub const PROMPT_SLICE_NANOSECONDS: u64 = 100_000;

/// Ranges without data that are looked for, and given back, in one giving back of space: each costs three system
/// calls. What is beyond stays allocated.
pub const HOLES_PER_GIVING_BACK_MAX: usize = 256;

/// Places of a file that the choice of a mode remembers as moved lately: enough to tell a share that comes
/// back from one that does not to a tenth or so, and 128 bytes for each open file.
pub const AUTO_PLACES_MAX: usize = 32;

/// Most places of one call that are looked at: 1 MiB of large calls. Each costs a nanosecond or two.
pub const AUTO_PLACES_PER_CALL_MAX: u64 = 16;

/// The place of a small call, in bytes: a page.
pub const AUTO_PAGE_BYTES: u64 = 4096;

/// Of larger calls each place has this many bytes.
pub const AUTO_PLACE_BYTES: u64 = 64 << 10;

/// A call of this many bytes is large: what it costs is the bytes and not the call, and a disk gives it as
/// much by itself as read-ahead and write-back would.
pub const AUTO_LARGE_BYTES: u64 = 32 << 10;

/// Calls are small again when they have less than this on the average.
pub const AUTO_LARGE_LEFT_BYTES: u64 = 24 << 10;

/// Small READs here and there before they count as not coming back: of 16 MiB of pages that do come back six in
/// seven have been met a second time by then.
pub const AUTO_SCATTERED_CALLS_MIN: u64 = 8192;

/// A file of so many bytes is small: the page cache is the place for it, whatever is done with it.
pub const AUTO_SMALL_FILE_BYTES: u64 = 1 << 20;

/// A file that counted as small does so up to this size.
pub const AUTO_SMALL_FILE_LEFT_BYTES: u64 = 2 << 20;

/// A file fits into memory if it has at most one part in this many of what the page cache may have: it is not
/// alone there.
pub const AUTO_FITS_FRACTION: u64 = 4;

/// A file that counted as fitting does so up to one part in this many.
pub const AUTO_FITS_LEFT_FRACTION: u64 = 2;

/// Calls of one direction of a file before anything but the first choice is made.
pub const AUTO_CALLS_MIN: u32 = 16;

/// Calls in a row of which the evidence must be for another mode before it is taken.
pub const AUTO_WISHES_MIN: u8 = 16;

/// Least calls between two changes of mode of one direction of a file. Doubled with each change, up to
/// [`AUTO_HOLD_MAX`] times; see [`AUTO_CALM_CALLS`].
pub const AUTO_SWITCH_CALLS_MIN: u32 = 64;

/// Least bytes between two changes of mode, so that small calls do not change it 100 times a second.
pub const AUTO_SWITCH_KIB_MIN: u32 = 1024;

/// How often the least distance between changes is doubled: 64 calls become 4096.
pub const AUTO_HOLD_MAX: u8 = 6;

/// After so many calls without a change of mode one doubling is taken back.
pub const AUTO_CALM_CALLS: u32 = 4096;

/// A mode that was slower than the one before is given up again, and not tried for so many calls. A trial takes
/// one or two hundred.
pub const AUTO_SLOWER_CALLS: u32 = 1 << 16;

/// Of one call in this many it is noted when it came, and the page cache is asked for its range: a system call of
/// less than a microsecond.
pub const AUTO_SAMPLED_CALLS: u32 = 16;

/// So far ahead of a sequential reader the page cache is looked at, since the kernel's own read-ahead has
/// filled what lies directly before it.
pub const AUTO_LOOK_AHEAD_BYTES: u64 = 32 << 20;

/// Sequences in one file that are followed at once: clients that read or write different parts of it.
pub const AUTO_CURSORS_MAX: usize = 4;

/// A call goes on from another one if it begins within this many times its own length of where that one ended:
/// calls of a client overtake each other.
pub const AUTO_OVERTAKE_TIMES: u64 = 16;

/// Bytes of one file and direction that are gathered before they are added to what all streams move.
pub const AUTO_STREAMED_BYTES: u32 = 4 << 20;

/// Memory is short from here on: hundredths of a percent of ten seconds in which some task waited for memory.
pub const AUTO_PRESSED: u16 = 1000;

/// Memory is short no more below this.
pub const AUTO_PRESSED_LEFT: u16 = 200;

/// All large calls of about eight seconds flood memory if they move more than one part in this many of what the
/// page cache may have, and do not come back to it.
pub const AUTO_FLOODED_FRACTION: u64 = 2;

/// They flood it no more below one part in this many.
pub const AUTO_FLOODED_LEFT_FRACTION: u64 = 4;

/// Largest file of `/proc` or of a control group that is read whole: `memory.stat` has about 2 KiB.
pub const KERNEL_FIGURES_BYTES_MAX: usize = 16 << 10;

/// Control groups above each other whose limits are looked at; deeper nesting is not seen in practice.
pub const CGROUP_DEPTH_MAX: usize = 16;
/// From here on a limit that a control group of version 1 shows is none: the kernel shows the largest number of bytes
/// that is a multiple of the page size, which is 64 KiB at most.
pub const CGROUP_NO_LIMIT_BYTES: u64 = (1 << 63) - (64 << 10);

/// How long a process that dies waits for what it has left to say, in milliseconds.
pub const CRASH_WAIT_MILLISECONDS_MAX: i32 = 3000;

/// Most addresses of one host that a look-up of its name gives.
pub const HOST_ADDRESSES_MAX: usize = 64;
/// Bytes for one member of a netgroup, at first.
pub const NETGROUP_BYTES_USUAL: usize = 1 << 10;
/// Most bytes for one member of a netgroup.
pub const NETGROUP_BYTES_MAX: usize = 64 << 10;

/// Longest time, in microseconds, that an event loop may be set to poll before it sleeps: it keeps a processor busy for
/// that long after each call. What a wake-up costs is saved by a hundredth of it.
pub const BUSY_POLL_MICROSECONDS_MAX: u64 = 5000;

/// How long an event loop that chooses itself looks for more before it sleeps, in microseconds: a little longer than a
/// client of the same machine takes from a reply to its next call.
pub const BUSY_POLL_AUTO_MICROSECONDS: u64 = 50;

/// Length of the spans in which that event loop looks at how busy its thread was, in microseconds.
pub const BUSY_POLL_SPAN_MICROSECONDS: u64 = 1000;

/// An event loop that chooses itself looks for more behind a span in which its thread was at work for at least one part
/// in this many.
pub const BUSY_POLL_WORK_FRACTION: u32 = 4;

/// An event loop that chooses itself does not look for more behind a span in which its thread had something to do, and no
/// processor, for more than one part in this many.
pub const BUSY_POLL_CROWDED_FRACTION: u32 = 8;

/// For how many milliseconds such an event loop does not look for more once others had its processor; for twice as long as
/// the last time if that was soon after it had begun again.
pub const BUSY_POLL_REST_MILLISECONDS_MIN: u64 = 10;

/// Longest time, in milliseconds, for which such an event loop does not look for more because others had its processor.
pub const BUSY_POLL_REST_MILLISECONDS_MAX: u64 = 1000;

/// Most bytes of a READ whose pages are sent from the page cache: what a pipe may hold that a user without privileges makes
/// (`/proc/sys/fs/pipe-max-size`).
pub const SPLICED_BYTES_MAX: usize = 1 << 20;
/// Empty pipes that are kept for such READs to come. Each is two descriptors and some 10 KiB of the kernel's memory.
pub const PIPES_IDLE_MAX: usize = 64;
