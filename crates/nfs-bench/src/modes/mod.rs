//! The mode comparison.

pub mod cgroup;
pub mod contender;
pub mod content;
pub mod device;
mod input;
pub mod respond;
mod session;
pub mod stream;
pub mod supervise;
pub mod work;
