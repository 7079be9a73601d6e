//! `penstock check --import`: a configuration of another server becomes one of ours.

use std::io::Write as _;
use std::process::ExitCode;

use anyhow::Context as _;
use nfs_server::exports::import::import;
use nfs_server::limits::CONFIG_BYTES_MAX;
use serde_json::json;

impl super::Args {
    /// Prints the file that stands for the other server's, and what of that is not in it.
    pub(super) fn import(&self) -> anyhow::Result<ExitCode> {
        let shown = self.file.display();
        let text = read_bounded(&self.file).with_context(|| shown.to_string())?;
        let imported = import(&text);
        let mut out = std::io::stdout().lock();
        if self.json {
            let left = imported.left.iter();
            let left: Vec<_> = left
                .map(|left| json!({ "line": left.line, "message": left.what }))
                .collect();
            let report = json!({ "file": self.file, "toml": imported.toml, "left": left });
            writeln!(out, "{report}")?;
            return Ok(ExitCode::SUCCESS);
        }
        out.write_all(imported.toml.as_bytes())?;
        for left in &imported.left {
            eprintln!("{shown}:{}: {}", left.line, left.what);
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// A file of a length that a configuration may have.
fn read_bounded(path: &std::path::Path) -> anyhow::Result<String> {
    use std::io::Read as _;
    let mut text = String::new();
    let file = std::fs::File::open(path)?;
    file.take(CONFIG_BYTES_MAX + 1).read_to_string(&mut text)?;
    let is_short = text.len() as u64 <= CONFIG_BYTES_MAX;
    anyhow::ensure!(is_short, "longer than {} bytes", CONFIG_BYTES_MAX);
    Ok(text)
}
