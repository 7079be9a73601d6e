//! What is said on the control socket about the open-file cache.

use serde::{Deserialize, Serialize};

use super::Listed;
use crate::limits;

/// What is asked or told about the open-file cache: [`Command::Cache`](super::Command::Cache).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CacheQuery {
    /// What is in it: [`Listed`] [`CacheRow`].
    List(CachePage),
    /// Closes what is idle of a file, and takes it out if nobody uses it; a [`CacheDropped`].
    Drop {
        /// The file that is dropped.
        target: CacheTarget,
        /// Whether what the page cache has of it is given up as well.
        pages: bool,
    },
}

/// Which part of the cache is wanted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CachePage {
    /// Only what is in this export, by the path that clients mount or its directory.
    pub export: Option<String>,
    /// How many rows to leave out at the beginning.
    pub skip: usize,
    /// How many rows to give at most; never more than [`limits::CONTROL_CACHE_ROWS_MAX`].
    pub limit: usize,
}

impl Default for CachePage {
    fn default() -> Self {
        Self {
            export: None,
            skip: 0,
            limit: limits::CONTROL_CACHE_ROWS_MAX,
        }
    }
}

/// A file by one of its two names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CacheTarget {
    /// The path on the server's host, or as clients see it.
    Path(String),
    /// The file handle, in hexadecimal.
    Handle(String),
}

/// The answer to a [`CacheQuery`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum CacheAnswer {
    /// To [`CacheQuery::List`].
    Listed(Listed<CacheRow>),
    /// To [`CacheQuery::Drop`].
    Dropped(CacheDropped),
}

/// An object in the open-file cache.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CacheRow {
    /// The export, by the path that clients mount.
    pub export: String,
    /// The path as clients see it, escaped, or its handle in hexadecimal.
    pub file: String,
    /// What it is: `file`, `directory`, `symlink` and so on.
    pub kind: String,
    /// What it is open for: `read`, `write`, `direct-read`, `direct-write`; empty where only its place is held.
    pub open: Vec<String>,
    /// How many times clients of NFSv4 have it open.
    pub client_opens: u32,
    /// How often it was found in the cache since it came there.
    pub uses: u64,
    /// Seconds since it was last found there, exact to a second or two.
    pub idle_seconds: u64,
    /// It has data that is not on stable storage, or space taken ahead of a stream: that is seen to before it leaves.
    pub must_stay: bool,
    /// What the page cache holds of it, in bytes; absent where the kernel does not say, and for what was not read or
    /// written since it is in the cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page_cache_bytes: Option<u64>,
    /// Those of these bytes that are not on disk yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dirty_bytes: Option<u64>,
}

/// What came of dropping a file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CacheDropped {
    /// The export, by the path that clients mount.
    pub export: String,
    /// The file as it was named.
    pub file: String,
    /// It was in the open-file cache.
    pub was_cached: bool,
    /// It is there no more; all of its descriptors are closed.
    pub has_left: bool,
    /// Descriptors that were closed before it was known whether it could leave.
    pub closed: usize,
    /// How many times clients of NFSv4 have it open; for these it stays.
    pub client_opens: u32,
    /// It stays for data that could not be put on stable storage now.
    pub must_stay: bool,
    /// What the page cache held of it before, in bytes, where its pages were dropped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page_cache_bytes_before: Option<u64>,
    /// What the page cache still holds of it: pages that are mapped, in use, or not on disk yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page_cache_bytes: Option<u64>,
}
