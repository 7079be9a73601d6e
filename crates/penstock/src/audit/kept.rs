//! What has been kept of an audit: the files in a state directory, or one that is named.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use nfs_server::host::state_dir;
use nfs_server::operate::control::AuditLine;

use crate::exit::UsageError;
use crate::limits::{AUDIT_LINE_BYTES_MAX, AUDIT_OPENS_MAX};

/// The file that is written to. The one before it has this name with `.1`.
const NAME: &str = "audit.jsonl";

/// Lines to be read, and what they are called in messages.
pub(super) struct Source {
    shown: String,
    lines: Box<dyn BufRead>,
}

/// The file at `path`; `-` is standard input.
pub(super) fn named(path: &Path) -> anyhow::Result<Vec<Source>> {
    if path == Path::new("-") {
        return Ok(vec![Source {
            shown: "standard input".to_owned(),
            lines: Box::new(io::stdin().lock()),
        }]);
    }
    let shown = path.display().to_string();
    let file = File::open(path).with_context(|| shown.clone())?;
    Ok(vec![source(path, file)])
}

/// The files of the server with this state directory, the older one first.
pub(super) fn of(directory: &Path) -> anyhow::Result<Vec<Source>> {
    let path = directory.join(NAME);
    let path_before = directory.join(format!("{NAME}.1"));
    for _ in 0..AUDIT_OPENS_MAX {
        let (now, before) = (open(&path)?, open(&path_before)?);
        let is_same = match (&now, &before) {
            (Some(now), Some(before)) => {
                let (now, before) = (now.metadata()?, before.metadata()?);
                (now.dev(), now.ino()) == (before.dev(), before.ino())
            }
            _ => false,
        };
        // The one became the other between the two.
        if is_same {
            continue;
        }
        let found = [(&path_before, before), (&path, now)];
        let found: Vec<Source> = found
            .into_iter()
            .filter_map(|(path, file)| Some(source(path, file?)))
            .collect();
        if found.is_empty() {
            anyhow::bail!(
                "no audit is kept in {}; write audit = \"changes\" into the section of an export and \
                 reload; where audit_to = \"journal\", read it with \
                 `journalctl -o cat -t penstock-audit | penstock audit --file -`",
                directory.display()
            );
        }
        return Ok(found);
    }
    anyhow::bail!(
        "{} is begun anew faster than it can be opened; try again",
        path.display()
    )
}

/// The state directory under the default base that has an audit; of several the one whose server runs.
pub(super) fn only_one() -> anyhow::Result<PathBuf> {
    let base = state_dir::default_base()?;
    let mut found = state_dir::with_file_below(&base, NAME)
        .with_context(|| format!("{}; name one with --state-dir", base.display()))?;
    if found.len() > 1 {
        let running: Vec<PathBuf> = found
            .iter()
            .filter(|directory| state_dir::is_in_use(directory))
            .cloned()
            .collect();
        if running.len() == 1 {
            found = running;
        }
    }
    if found.len() > 1 {
        let mut message = String::from("several servers have an audit; choose one:");
        for directory in &found {
            message.push_str(&format!("\n  --state-dir {}", directory.display()));
        }
        return Err(UsageError(message).into());
    }
    found.pop().with_context(|| {
        format!(
            "no server under {} has kept an audit; name its state directory with --state-dir, or write \
             audit = \"changes\" into the section of an export and reload",
            base.display()
        )
    })
}

/// `None` where there is no such file.
fn open(path: &Path) -> anyhow::Result<Option<File>> {
    match File::open(path) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            let cure = "the audit is for root and the server's own user";
            Err(error).with_context(|| format!("{}: {cure}", path.display()))
        }
        Err(error) => Err(error).with_context(|| path.display().to_string()),
    }
}

fn source(path: &Path, file: File) -> Source {
    Source {
        shown: path.display().to_string(),
        lines: Box::new(BufReader::new(file)),
    }
}

/// Hands every line of the audit to `take`. What is no line of it is told of on standard error and passed
/// over; then the answer is `false`.
pub(super) fn read(
    sources: Vec<Source>,
    mut take: impl FnMut(AuditLine) -> io::Result<()>,
) -> anyhow::Result<bool> {
    let mut is_sound = true;
    for Source { shown, mut lines } in sources {
        let mut line = Vec::new();
        for number in 1_u64.. {
            line.clear();
            let mut bounded = lines.by_ref().take(AUDIT_LINE_BYTES_MAX);
            let len = bounded
                .read_until(b'\n', &mut line)
                .with_context(|| shown.clone())?;
            if len == 0 {
                break;
            }
            match serde_json::from_slice(&line) {
                Ok(line) => take(line)?,
                Err(_) if line.trim_ascii().is_empty() => {}
                Err(error) => {
                    is_sound = false;
                    eprintln!(
                        "penstock: {shown}:{number}: no line of an audit, passed over: {error}"
                    );
                }
            }
        }
    }
    Ok(is_sound)
}
