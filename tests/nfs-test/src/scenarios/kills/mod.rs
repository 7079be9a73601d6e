//! A server that is killed owes replies: to the calls whose change it had made.

mod names;
mod replies;

pub(super) use names::run as names;
pub(super) use replies::run as replies;
