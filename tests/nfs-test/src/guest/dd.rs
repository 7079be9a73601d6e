//! `dd` past the client's cache, with blocks that no server likes: of one sector, of odd sizes, of records.

use std::fs::{self, File};
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use nfs_lab::pattern::{self, DIGEST_START, digest};

use super::Report;
use super::check::{forget_pages, same};

/// Length in bytes of what is copied: a multiple of neither sectors nor pages.
const SOURCE_BYTES: usize = 400_123;

/// One copy to the mount: its name, arguments of dd, and where in the file the source is copied to.
struct Copy {
    name: &'static str,
    words: &'static [&'static str],
    at: usize,
}

/// GNU dd writes a short last block without O_DIRECT; all but that reaches the server as it is given here.
const COPIES: &[Copy] = &[
    Copy {
        name: "sectors",
        words: &["bs=512", "oflag=direct"],
        at: 0,
    },
    Copy {
        name: "odd",
        words: &["bs=777", "oflag=direct"],
        at: 0,
    },
    Copy {
        name: "records",
        words: &["bs=47008", "oflag=direct", "seek=3"],
        at: 3 * 47_008,
    },
    Copy {
        name: "ragged",
        words: &[
            "bs=60001",
            "oflag=direct,seek_bytes",
            "seek=12289",
            "conv=fsync",
        ],
        at: 12_289,
    },
    Copy {
        name: "large",
        words: &["bs=200000", "oflag=direct"],
        at: 0,
    },
    Copy {
        name: "stable",
        words: &["bs=20000", "oflag=direct,sync"],
        at: 0,
    },
    Copy {
        name: "data-stable",
        words: &["bs=4609", "oflag=direct,dsync"],
        at: 0,
    },
    Copy {
        name: "cached",
        words: &["bs=3000", "conv=fdatasync"],
        at: 0,
    },
];

/// Number of verdicts that the suite gives, one for each copy.
pub(crate) const TESTS: usize = COPIES.len();

/// The options of dd with which each copy is read back.
const READS: &[&[&str]] = &[
    &["bs=512", "iflag=direct"],
    &["bs=65536", "iflag=direct"],
    &["bs=47008", "iflag=direct"],
    &["bs=333"],
];

/// Runs all copies below `dir`; files in `scratch` come and go. A line `file NAME ...` tells the length and
/// the digest of each copy.
pub(super) fn run(dir: &Path, scratch: &Path, name: &str, report: &mut Report) -> Result<()> {
    let source = scratch.join("dd-source");
    let bytes = pattern::bytes(31, 0, SOURCE_BYTES);
    fs::write(&source, &bytes).context("write the source")?;
    for copy in COPIES {
        let file = format!("{name}-{}", copy.name);
        let outcome = play(copy, &source, &bytes, &dir.join(&file), scratch);
        let outcome = outcome.and_then(|content| {
            let digest = digest(DIGEST_START, &content);
            report.line(&format!("file {file} {} {digest}", content.len()))
        });
        report.verdict(&format!("{name}/{}", copy.name), &outcome)?;
    }
    Ok(())
}

fn play(copy: &Copy, source: &Path, bytes: &[u8], to: &Path, scratch: &Path) -> Result<Vec<u8>> {
    dd(source, to, copy.words)?;
    let mut expected = vec![0; copy.at];
    expected.extend_from_slice(bytes);
    let back = scratch.join("dd-back");
    for words in READS {
        forget_pages(&File::open(to)?)?;
        dd(to, &back, words)?;
        let found = fs::read(&back)?;
        same(found.len(), expected.len(), "length read back")?;
        let wrong = found.iter().zip(&expected).position(|(a, b)| a != b);
        ensure!(wrong.is_none(), "byte {wrong:?} read back with {words:?}");
    }
    Ok(expected)
}

fn dd(from: &Path, to: &Path, words: &[&str]) -> Result<()> {
    let mut command = Command::new("dd");
    command.arg(format!("if={}", from.display()));
    command.arg(format!("of={}", to.display()));
    let output = command.args(words).output().context("start dd")?;
    let text = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "dd {words:?}: {}", text.trim());
    Ok(())
}
