//! The steps that there are, and the guard that stands for one while it is under way.

use super::record;
use nfs_io::Mode;

/// When a step is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(super) enum Weight {
    /// It may wait for something, or asks the kernel: always, unless the recorder is off.
    Waits = 1,
    /// It takes a fraction of a microsecond: while somebody asks for every step.
    Short = 2,
}

macro_rules! steps {
    ($( $variant:ident $word:literal $weight:ident $meaning:literal; )*) => {
        /// One kind of step that calls consist of.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub(crate) enum StepKind { $( #[doc = $meaning] $variant ),* }

        impl StepKind {
            /// The name of the step, as it is printed.
            pub(super) const fn word(self) -> &'static str {
                match self { $( Self::$variant => $word, )* }
            }

            pub(super) const fn weight(self) -> Weight {
                match self { $( Self::$variant => Weight::$weight, )* }
            }
        }
    };
}

steps! {
    Decode "decode" Short "Header and arguments become types.";
    Credentials "credentials" Short "Who calls, as far as the credential and the kernel say.";
    ReplyCache "reply_cache" Short "Whether a call that must not run twice has run before.";
    FirstRun "wait_first_run" Waits "The wait for the end of an earlier run of the same call.";
    Slot "slot" Short "The slot of the session, and whether the request has run before.";
    Operation "operation" Waits "One operation of a COMPOUND; it is printed by its own name.";
    Memory "wait_memory" Waits "The wait for memory: for data on its way in, or for the reply's.";
    Target "target" Short "From the handle and the credential to an object, and who wants something of it.";
    HandleCheck "handle_check" Short "The handle is one of this server's: found in the cache, or by its MAC.";
    FileCache "file_cache" Short "The object of the handle in the open-file cache: a hit or a miss.";
    ExportRules "export_rules" Short "What the export lets the caller do, and as which user.";
    Descriptors "wait_descriptors" Waits "The wait for a turn of those that may have descriptors opened.";
    OpenHandle "open_handle" Waits "Opens what the handle names, which is not in the cache.";
    Permission "permission" Short "Whether the caller may, as remembered or as the kernel says.";
    AskKernel "ask_kernel" Waits "The kernel is asked, under the caller's identity.";
    Attributes "attributes" Waits "The attributes of the object as they are now: statx.";
    OpenFile "open_file" Short "The descriptor for reading or writing: a hit where it is open.";
    Decide "decide" Short "The export's policy and what is known of the file: mode and segments.";
    InOrder "wait_order" Waits "The wait for WRITEs that belong before this one.";
    Stage "stage" Short "Ends of a direct WRITE are kept for their neighbours, or those before are written.";
    Gate "wait_gate" Waits "The wait for writes of the other kind, cached or direct, to be over.";
    PageCache "page_cache" Waits "Bytes are copied from the page cache, without waiting.";
    ReadAhead "read_ahead" Waits "What was read ahead is taken, or waited for.";
    Segment "segment" Waits "One segment is moved, from its submission to its completion.";
    SyncTurn "wait_sync" Waits "The wait for a sync of the same file that is under way.";
    Sync "sync" Waits "The file is put on stable storage.";
    GroupCommit "group_commit" Waits "The wait for a flush that is shared with others.";
    Helper "helper" Waits "Work on a helper thread, from handing it over until its result is back.";
    HelperWait "wait_helper" Waits "The wait for a helper thread.";
    HelperRun "run" Waits "The work on the helper thread.";
    Resolve "resolve" Waits "A name is looked up.";
    MakeRoom "make_room" Waits "Room is made for a descriptor.";
    OpenByHandle "open_by_handle_at" Waits "The kernel opens a handle of its own.";
    CloseWritten "close_written" Waits "The file is closed for writing, so that it can be run on this host.";
    Encode "encode" Short "Results become bytes.";
}

/// What more is known of a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Note {
    /// Nothing more is known.
    #[default]
    None,
    /// It was found where it was looked for.
    Hit,
    /// It was not found there.
    Miss,
    /// So many bytes were moved in that mode.
    Moved(Mode, u32),
    /// The number of the operation (RFC 8881 §16.2.3), and the status that it ended with.
    Operation(u32, u32),
}

impl Note {
    /// So many bytes are moved in that mode.
    pub(crate) fn moved(mode: Mode, bytes: usize) -> Self {
        Self::Moved(mode, u32::try_from(bytes).unwrap_or(u32::MAX))
    }
}

/// A step that is under way; it ends when this is dropped.
#[must_use = "a step lasts for as long as this is kept"]
#[derive(Debug)]
pub(crate) struct Step {
    /// Its place in the record; [`Step::NOWHERE`] if it is not recorded.
    at: u16,
    /// The call whose record that is.
    call: u16,
}

/// Begins a step of the call that is being polled on this thread, if its steps are wanted.
#[inline(always)]
pub(crate) fn step(kind: StepKind) -> Step {
    if record::is_wanted_at(kind.weight()) {
        record::begin(kind)
    } else {
        Step::UNRECORDED
    }
}

impl Step {
    const NOWHERE: u16 = u16::MAX;
    pub(super) const UNRECORDED: Self = Self {
        at: Self::NOWHERE,
        call: 0,
    };

    pub(super) const fn new(at: u16, call: u16) -> Self {
        Self { at, call }
    }

    /// Says more of the step.
    #[inline(always)]
    pub(crate) fn note(&self, note: Note) {
        if self.at != Self::NOWHERE {
            record::note(self.at, self.call, note);
        }
    }

    /// Says that the step found what it looked for, or that it did not.
    #[inline(always)]
    pub(crate) fn hit(&self, is_hit: bool) {
        self.note(if is_hit { Note::Hit } else { Note::Miss });
    }

    /// Ends the step here.
    pub(crate) fn end(self) {
        drop(self);
    }
}

impl Drop for Step {
    #[inline(always)]
    fn drop(&mut self) {
        if self.at != Self::NOWHERE {
            record::end(self.at, self.call);
        }
    }
}
