//! How an export is mounted.

use std::time::Duration;

use crate::limits::{TIMEOUT_DEFAULT, TRANSFER_BYTES_MAX};

/// How an export is mounted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// What `df` and `/proc/mounts` call it.
    pub name: String,
    /// Nothing can be changed through this mount.
    pub read_only: bool,
    /// Users other than the one who mounts may use it (FUSE's `allow_other`).
    pub allow_other: bool,
    /// The kernel checks permission bits before it asks (FUSE's `default_permissions`). The server
    /// checks in either case.
    pub default_permissions: bool,
    /// Set-user-ID and set-group-ID bits count (`suid`). What a server keeps is trusted with root then.
    pub suid: bool,
    /// Devices are devices (`dev`). As for [`Self::suid`].
    pub dev: bool,
    /// No program on it can be started (`noexec`).
    pub no_exec: bool,
    /// Each request is made as the process that asks. Only root can see who that is.
    pub each_caller: bool,
    /// The kernel keeps file contents, under close-to-open rules. Otherwise every read and write of a
    /// program comes to the client.
    pub cached: bool,
    /// How long the kernel may remember attributes.
    pub attr_timeout: Duration,
    /// How long the kernel may remember what a name leads to.
    pub entry_timeout: Duration,
    /// Threads that take requests from the kernel, at least 1.
    pub threads: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            name: "penstock".to_owned(),
            read_only: false,
            allow_other: false,
            default_permissions: false,
            suid: false,
            dev: false,
            no_exec: false,
            each_caller: false,
            cached: false,
            attr_timeout: TIMEOUT_DEFAULT,
            entry_timeout: TIMEOUT_DEFAULT,
            threads: 2,
        }
    }
}

impl Options {
    /// What programs are advised to read and write in: requests as long as the kernel sends them.
    pub(crate) const fn block_bytes(&self) -> u32 {
        if self.cached {
            4096
        } else {
            TRANSFER_BYTES_MAX
        }
    }
}
