//! `penstock check`: is this configuration file good?

mod admitted;
mod client;
mod import;

use std::io::Write as _;
use std::net::IpAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use nfs_server::exports::ExportTable;
use nfs_server::exports::config::{Config, ConfigErrors};
use nfs_server::limits::CLIENT_NAME_WAIT_SECONDS_MAX;
use nfs_server::operate::control::IoView;
use serde_json::json;

use crate::{ctl, exit, results};

/// Check a configuration file and name every mistake in it, with its line and its cure
///
/// Nothing is served. Who may mount what is told for each export. With --as it says what a client would get: which export, by which rule of which line,
/// rw or ro, squash, port and I/O modes, or why not. Exit status: 0 if a server would start with it and, with
/// --as, would let the client in; 1 if it would not let it in; 2 if it would not start.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// The file
    file: PathBuf,
    /// Say what the client at this address would get of each export
    #[arg(long = "as", value_name = "ADDR", conflicts_with = "import")]
    client: Option<IpAddr>,
    /// The file is another server's, exports(5) of the Linux kernel's or ganesha.conf: print a configuration file of
    /// this server that lets the same clients do the same, or less; and on standard error what does not carry over
    #[arg(long)]
    import: bool,
    /// With --as: what it would get if it mounted this path, as clients write it
    #[arg(long, value_name = "PATH", requires = "client")]
    path: Option<String>,
    /// Print one JSON object: file, ok, exports, problems, warnings; with --as: client, path, admitted,
    /// exports, notes
    #[arg(long)]
    json: bool,
}

impl Args {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        results::begin(self.json);
        if self.import {
            return self.import();
        }
        let checked = Config::load(&self.file).and_then(|config| {
            let table = ExportTable::new(&config)?;
            table.look_names_up(Duration::from_secs(CLIENT_NAME_WAIT_SECONDS_MAX));
            Ok((config, table))
        });
        if let Some(client) = self.client
            && let Ok((config, table)) = &checked
        {
            return self.answer(config, table, client);
        }
        if self.json {
            return self.print_json(&checked);
        }
        let (config, table) = checked?;
        for warning in warnings(&config, &table) {
            eprintln!("{}: warning: {warning}", self.file.display());
        }
        let mut out = std::io::stdout().lock();
        let exports = config.exports.len();
        let plural = if exports == 1 { "" } else { "s" };
        writeln!(
            out,
            "{}: good, {exports} export{plural}",
            self.file.display()
        )?;
        for export in &config.exports {
            writeln!(out, "  {} is {}", export.pseudo, export.path.display())?;
            for line in admitted::lines(export, &table) {
                writeln!(out, "    {line}")?;
            }
            for line in ctl::io::lines(&IoView::of(&export.io)) {
                writeln!(out, "    {line}")?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }

    /// What the client at this address would get.
    fn answer(
        &self,
        config: &Config,
        table: &ExportTable,
        client: IpAddr,
    ) -> anyhow::Result<ExitCode> {
        let answer = client::Answer::new(config, table, client, self.path.as_deref());
        let mut out = std::io::stdout().lock();
        if self.json {
            serde_json::to_writer(&mut out, &answer)?;
            writeln!(out)?;
        } else {
            answer.print(&mut out)?;
        }
        Ok(if answer.admitted {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        })
    }

    fn print_json(
        &self,
        checked: &Result<(Config, ExportTable), ConfigErrors>,
    ) -> anyhow::Result<ExitCode> {
        let problems = checked
            .as_ref()
            .err()
            .map_or(&[][..], |errors| &errors.problems);
        let problems = problems.iter();
        let problems: Vec<_> = problems
            .map(|problem| json!({ "line": problem.line, "message": problem.message }))
            .collect();
        let table = checked.as_ref().ok().map(|(_, table)| table);
        let exports = checked.as_ref();
        let exports = exports.map_or(&[][..], |(config, _)| &config.exports);
        let exports: Vec<_> = exports
            .iter()
            .map(|export| {
                let io = IoView::of(&export.io);
                let clients = export.clients.iter();
                let clients: Vec<_> = clients.map(|client| admitted::json(client, table)).collect();
                json!({ "pseudo": export.pseudo, "path": export.path, "clients": clients, "io": io })
            })
            .collect();
        let report = json!({
            "file": self.file,
            "ok": checked.is_ok(),
            "exports": exports,
            "problems": problems,
            "warnings": checked.as_ref().map_or_else(|_| Vec::new(), |(config, table)| warnings(config, table)),
        });
        writeln!(std::io::stdout().lock(), "{report}")?;
        let code = if checked.is_ok() {
            ExitCode::SUCCESS
        } else {
            ExitCode::from(exit::USAGE)
        };
        Ok(code)
    }
}

/// What is allowed and yet worth a second look, on this machine and now.
fn warnings(config: &Config, table: &ExportTable) -> Vec<String> {
    let mut warnings = config.warnings();
    warnings.extend(admitted::unresolved(table));
    warnings
}
