//! `penstock check --import`: a configuration of another server becomes one of ours.

use std::io::Write as _;
use std::process::ExitCode;

use nfs_server::exports::config::read_bounded;
use nfs_server::exports::import::import;
use serde_json::json;

impl super::Args {
    /// Prints the file that stands for the other server's, and what of that is not in it.
    pub(super) fn import(&self) -> anyhow::Result<ExitCode> {
        let shown = self.file.display();
        let text = read_bounded(&self.file)
            .map_err(|why| anyhow::Error::msg(format!("{shown}: {why}")))?;
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
