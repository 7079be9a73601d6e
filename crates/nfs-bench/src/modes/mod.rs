//! The mode comparison: ours buffered, dontcache and direct, other servers and local I/O, in turn in one run, with
//! files far larger than the memory the server may have.

pub mod contender;
pub mod count;
pub mod fio;
#[cfg(test)]
pub(crate) mod fixture;
pub mod measure;
pub mod page;
pub mod run;
pub mod sampler;
mod session;
pub mod stream;
pub mod table;
pub mod verdict;
pub mod work;
