//! The Rust part of the Python package `penstock`: what an fsspec file system needs of [`nfs_client`], as blocking calls
//! that leave Python's other threads running.
//!
//! `engine` has the threads and the one place where Python waits; `exports` finds the export that a path is in; `session`
//! and `file` are the classes that Python sees, `entry` what they tell of a file, `errors` what they raise. The Python part
//! (`penstock/`) has fsspec's words and no protocol.
//!
//! Nothing here survives a fork: a child process is refused, and what it inherited is left alone.

mod engine;
mod entry;
mod errors;
mod exports;
mod file;
mod limits;
mod session;

/// What the Python part builds on. Paths and names are bytes, as the server has them.
#[pyo3::pymodule]
mod _native {
    #[pymodule_export]
    use super::file::File;
    #[pymodule_export]
    use super::session::Session;
}
