//! Single calls, step by step: what each one did, in the nesting of the code, and how long every step took.
//!
//! [`Recorded`] wraps the future of a call. While that is polled, its [`CallRecord`] is in a variable of the
//! thread, where [`step`] finds it: so no step needs an argument for it, and what is not wanted costs a load
//! and a branch. A call that waits puts its record down in the book of its shard ([`Shard`]), and one that is
//! over leaves it there, in a ring of fixed length: the flight recorder. It is read on demand
//! ([`Recorder::follow`]), and when the process dies (`crash.rs`). Of those who record a load (`recording.rs`) each is
//! told what calls did, in place of their steps.
//!
//! Nothing here waits for a reader, and nothing grows with what peers do: the ring has a length, a record a
//! number of steps, and a follower a queue ([`crate::limits`]).

mod clock;
mod crash;
mod follow;
mod query;
mod record;
mod recorded;
mod recording;
mod ring;
mod steps;
mod tree;

pub use follow::CallFollower;
pub use query::{CallQuery, FileNumber, check_call};
pub use recording::{RecordedCall, Recording, RecordingLine, RecordingQuery};
pub use ring::RecorderLevel;
pub use tree::{CallLine, CallTree, ChromeTrace, StepTree};

pub(crate) use clock::{nanoseconds, now};
pub(crate) use record::{CallRecord, Procedure, Times, answered_now, called, of_file, of_range};
pub(crate) use recorded::{Brought, Recorded, hand_over, take_back, take_back_waiting};
pub(crate) use recording::{Action, acted, action_begins};
pub(crate) use ring::Recorder;
pub(crate) use steps::{Note, StepKind, step};
