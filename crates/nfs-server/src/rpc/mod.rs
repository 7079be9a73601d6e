//! What every remote procedure call needs, whichever program it is for: who it comes from, what the
//! connection is believed, and which calls have run before. Knows no procedure and touches no file of
//! an export.

pub(crate) mod caller;
pub(crate) mod client_id;
pub(crate) mod line;
pub(crate) mod reply;
pub(crate) mod reply_cache;
pub(crate) mod standing;
