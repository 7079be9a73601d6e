//! Every call a program makes, each in a directory of its own.

mod access;
mod content;
mod directories;
mod metadata;
mod naming;

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use super::Report;
use crate::manifest;

pub(super) use access::attempt;

/// A test of a few calls, which gets an empty directory.
type Test = fn(&Path) -> Result<()>;

/// All tests with their names, those of files' bytes first.
pub(crate) const TESTS: &[(&str, Test)] = &[
    ("create_write_read", content::create_write_read),
    ("append", content::append),
    ("truncate", content::truncate),
    ("sparse", content::sparse),
    ("beyond_4_gib", content::beyond_4_gib),
    ("mmap_read", content::mmap_read),
    ("mmap_write", content::mmap_write),
    ("direct", content::direct),
    ("synchronous", content::synchronous),
    ("streams_of_many_threads", content::streams_of_many_threads),
    ("exclusive", naming::exclusive),
    ("rename_over", naming::rename_over),
    (
        "rename_between_directories",
        naming::rename_between_directories,
    ),
    ("unlink_open_file", naming::unlink_open_file),
    ("rename_open_file", naming::rename_open_file),
    ("hard_links", naming::hard_links),
    ("symbolic_links", naming::symbolic_links),
    ("odd_names", naming::odd_names),
    ("errors", naming::errors),
    ("special_files", naming::special_files),
    ("directories", directories::directories),
    ("deep_path", directories::deep_path),
    ("big_directory", directories::big_directory),
    ("unlink_while_listing", directories::unlink_while_listing),
    ("create_while_listing", directories::create_while_listing),
    ("modes", metadata::modes),
    ("owners", metadata::owners),
    ("times", metadata::times),
    ("times_of_a_write", metadata::times_of_a_write),
    ("statfs", metadata::statfs),
    ("permissions", access::permissions),
    ("open_then_chmod", access::open_then_chmod),
    (
        "new_files_belong_to_their_maker",
        access::new_files_belong_to_their_maker,
    ),
    ("sticky_directory", access::sticky_directory),
];

/// Name of the last test in [`TESTS`] that is about files' bytes.
const CONTENT_LAST: &str = "streams_of_many_threads";

/// How many tests of files' bytes there are.
pub(crate) fn content_tests() -> usize {
    let last = TESTS.iter().position(|(name, _)| *name == CONTENT_LAST);
    last.map_or(0, |last| last + 1)
}

/// Runs all tests, or with `content` only those of files' bytes, below `dir`. The verdicts' names begin with
/// `suite`.
pub(super) fn run(dir: &Path, suite: &str, content: bool, report: &mut Report) -> Result<()> {
    let count = if content {
        content_tests()
    } else {
        TESTS.len()
    };
    for (name, test) in &TESTS[..count] {
        let own = dir.join(name);
        let outcome = fs::create_dir(&own)
            .with_context(|| format!("mkdir {}", own.display()))
            .and_then(|()| test(&own));
        report.verdict(&format!("{suite}/{name}"), &outcome)?;
        if outcome.is_ok() {
            match manifest::of_tree(&own) {
                Ok(entries) => {
                    let json = serde_json::to_string(&entries)?;
                    report.line(&format!("manifest {suite}/{name} {json}"))?;
                }
                Err(error) => report.verdict(&format!("{suite}/{name}"), &Err(error))?,
            }
        }
    }
    Ok(())
}
