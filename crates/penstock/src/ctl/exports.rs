//! `penstock ctl exports`: what is served, one export more, one less.

use std::io::Write;
use std::path::{Path, PathBuf};

use nfs_server::exports::config::{Access, SquashKind, from_word, word_of};
use nfs_server::operate::control::{Command, ExportOrder, ExportStatus, ExportsChanged};

use super::ask;

#[derive(clap::Subcommand, Debug)]
pub(super) enum Action {
    /// Serve a directory more, until the next reload or start
    ///
    /// It is judged as an [[export]] section of the configuration is. The configuration stays as it is: what is to last is
    /// written there. Other exports go on as they are.
    Add {
        /// The directory
        #[arg(value_name = "PATH")]
        path: PathBuf,
        /// The path that clients mount. Default: the directory's own path
        #[arg(long, value_name = "PATH")]
        pseudo: Option<String>,
        /// Who may mount it: networks (CIDR), addresses, names of hosts and @netgroups, separated by commas; may be
        /// repeated. Default: this machine
        #[arg(long, value_name = "CLIENTS", value_delimiter = ',')]
        clients: Vec<String>,
        /// rw or ro. Default: rw
        #[arg(long, value_name = "ACCESS", value_parser = |word: &str| from_word(word, Access::WORDS))]
        access: Option<Access>,
        /// Whose requests run as nobody: root, all or none. Default: root
        #[arg(long, value_name = "KIND", value_parser = |word: &str| from_word(word, SquashKind::WORDS))]
        squash: Option<SquashKind>,
    },
    /// Serve an export no more, until the next reload or start: its handles are stale
    Remove {
        /// The path that clients mount, as `penstock ctl exports` shows it
        #[arg(value_name = "PSEUDO")]
        pseudo: String,
    },
}

/// What to ask the server.
pub(super) fn command(action: Option<&Action>) -> anyhow::Result<Command> {
    Ok(match action {
        None => Command::Exports,
        Some(Action::Remove { pseudo }) => Command::ExportsRemove(pseudo.clone()),
        Some(Action::Add {
            path,
            pseudo,
            clients,
            access,
            squash,
        }) => Command::ExportsAdd(ExportOrder {
            // The server's own directory is another one.
            path: std::path::absolute(path)?,
            pseudo: pseudo.clone(),
            clients: (!clients.is_empty()).then(|| clients.clone()),
            access: access.map(|access| word_of(access, Access::WORDS).to_owned()),
            squash: squash.map(|squash| word_of(squash, SquashKind::WORDS).to_owned()),
        }),
    })
}

/// Asks, and shows the answer.
pub(super) fn run(
    out: &mut impl Write,
    directory: &Path,
    action: Option<Action>,
    command: Command,
) -> anyhow::Result<()> {
    match action {
        None => print(out, &ask::<Vec<_>>(directory, command)?)?,
        Some(Action::Add { .. }) => print_added(out, &ask(directory, command)?)?,
        Some(Action::Remove { .. }) => print_removed(out, &ask(directory, command)?)?,
    }
    Ok(())
}

fn print_added(out: &mut impl Write, added: &ExportsChanged) -> std::io::Result<()> {
    let path = added.path.display();
    writeln!(
        out,
        "{} is {path} from now on, {}",
        added.pseudo,
        lasts(added)
    )?;
    for warning in &added.warnings {
        writeln!(out, "  warning: {warning}")?;
    }
    Ok(())
}

fn print_removed(out: &mut impl Write, removed: &ExportsChanged) -> std::io::Result<()> {
    writeln!(
        out,
        "{} is served no more, {}; its handles are stale",
        removed.pseudo,
        lasts(removed)
    )
}

/// How long it holds.
fn lasts(changed: &ExportsChanged) -> String {
    match &changed.file {
        Some(file) => format!(
            "until the next reload or start, which go by {}",
            file.display()
        ),
        None => "until the server ends: it was started from flags".to_owned(),
    }
}

fn print(out: &mut impl Write, exports: &[ExportStatus]) -> std::io::Result<()> {
    for export in exports {
        let crossmnt = if export.crossmnt { ", crossmnt" } else { "" };
        let audit = match export.audit.as_str() {
            "" | "off" => String::new(),
            audited => format!(", audit {audited}"),
        };
        let attributes = if export.stable_write_attributes {
            ""
        } else {
            ", no attributes in replies to stable WRITEs"
        };
        writeln!(
            out,
            "{} is {}  ({}{attributes}{crossmnt}{audit}, read {}, write {}, id {:08x})",
            export.pseudo,
            export.path.display(),
            export.durability,
            export.read,
            export.write,
            export.id
        )?;
        for rule in &export.rules {
            let port = if rule.privileged_port {
                ", port below 1024"
            } else {
                ""
            };
            write!(
                out,
                "  {}  {}, squash {}{port}",
                rule.net, rule.access, rule.squash
            )?;
            if !rule.versions.is_empty() {
                write!(out, ", NFS {}", rule.versions.join(", "))?;
            }
            if rule.weight > 1 {
                write!(out, ", weight {}", rule.weight)?;
            }
            if let Some(bytes) = rule.bytes_per_second {
                write!(out, ", {bytes} bytes a second")?;
            }
            if let Some(calls) = rule.calls_per_second {
                write!(out, ", {calls} calls a second")?;
            }
            writeln!(out)?;
            if let Some(name) = &rule.name {
                writeln!(out, "    is {}", name.in_words())?;
            }
        }
    }
    Ok(())
}
