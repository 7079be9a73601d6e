//! What is done to whole trees of a server by many calls at once: found, removed, changed, made.
//!
//! [`Find`], [`RemoveTree`], [`RemoveFound`] and [`ChangeTree`] walk with a
//! [`Tree`](crate::client::Tree), which goes by handles and follows no symbolic
//! link, and tell step by step what came of
//! it: `next` is called until it gives `None`. What fails is told as a [`Step::Failed`], and the rest
//! goes on. The three that change something have `stop`, also after a `next` that was dropped on its
//! way: nothing more is begun, and `next` tells what is still to come of the calls that are under way.
//! Dropping one gives up these calls; the server may or may not have executed them.
//!
//! [`matching`] finds what patterns in a path stand for.

mod change;
mod find;
mod make;
mod matching;
mod remove;
mod remove_found;

pub use self::change::ChangeTree;
pub use self::find::{Compare, Criteria, Find, Length, Permissions};
pub use self::make::{DirModes, make_dir, make_dirs};
pub use self::matching::{Matches, matching};
pub use self::remove::{RemoveTree, Removed};
pub use self::remove_found::RemoveFound;

use crate::error::ClientError;

/// What came of one thing in a tree.
#[derive(Clone, Debug)]
pub enum Step<T> {
    /// It was found, removed or changed.
    Done(T),
    /// It, or a directory's list of names, could not be had or not be changed.
    Failed {
        /// The path that the walk began with, and the names down to what failed, joined by `/`.
        path: Vec<u8>,
        /// Why it could not be done.
        error: ClientError,
    },
}
