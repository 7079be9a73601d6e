//! `penstock showmount`: what a server exports, and who has mounted it.

use std::collections::BTreeSet;
use std::io::{BufWriter, Write};
use std::process::ExitCode;
use std::str::FromStr;

use nfs_client::{Client, NfsUrl};
use serde_json::{Map, Value};

use crate::session::{self, Common};
use crate::show;

/// Show what an NFS server exports, or who has mounted it
///
/// The exports and to whom, unless -a or -d is given. Who has mounted what is as
/// the server remembers it: clients that went away without a word are still in
/// it.
///
/// Examples:
///
///   penstock showmount server
///
///   penstock showmount -a nfs://localhost:20049/
///
///   penstock showmount --json server | jq -r .directory
#[derive(clap::Args, Debug)]
#[command(verbatim_doc_comment, after_long_help = show::AFTER_HELP)]
pub(crate) struct Args {
    /// Show the exports
    #[arg(short, long, conflicts_with_all = ["all", "directories"])]
    exports: bool,

    /// Show who has mounted what
    #[arg(short, long, conflicts_with = "directories")]
    all: bool,

    /// Show the directories that somebody has mounted
    #[arg(short, long)]
    directories: bool,

    #[command(flatten)]
    common: Common,

    /// The server: HOST, HOST:PORT, or a URL whose path does not matter
    #[arg(value_name = "HOST|URL")]
    server: Server,
}

/// A server by its name, or by a URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Server(pub(crate) NfsUrl);

impl FromStr for Server {
    type Err = nfs_client::UrlError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.contains("://") {
            return text.parse().map(Self);
        }
        // An IPv6 address may stand alone here: no path follows it.
        let is_v6 = text.parse::<std::net::Ipv6Addr>().is_ok();
        let url = if is_v6 {
            format!("nfs://[{text}]/")
        } else {
            format!("nfs://{text}/")
        };
        url.parse().map(Self)
    }
}

impl Args {
    /// Asks the server for a list, and shows it.
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        session::run(&self.common, async |session| {
            let mount = Client::mount_program(&self.server.0, session.mount_options());
            let mount = match mount.await {
                Ok(mount) => mount,
                Err(error) => {
                    session.failed(&self.server.0, error);
                    return Ok(());
                }
            };
            let list = if self.all || self.directories {
                mount.dump().await.map(|mounts| {
                    let row =
                        |entry: nfs_client::mount3::MountEntry| (entry.hostname, entry.directory);
                    List::Mounts(mounts.into_iter().map(row).collect())
                })
            } else {
                mount.export().await.map(List::Exports)
            };
            let mut out = BufWriter::new(std::io::stdout().lock());
            match list {
                Ok(List::Exports(exports)) => self.print_exports(&mut out, exports)?,
                Ok(List::Mounts(mounts)) => self.print_mounts(&mut out, &mounts)?,
                Err(error) => session.failed(&self.server.0, error.into()),
            }
            out.flush()?;
            Ok(())
        })
    }

    fn print_exports(
        &self,
        out: &mut impl Write,
        mut exports: Vec<nfs_client::mount3::ExportEntry>,
    ) -> std::io::Result<()> {
        let escaped = show::escape_on_stdout();
        exports.sort_by(|a, b| a.directory.cmp(&b.directory));
        for export in exports {
            if self.common.json {
                let mut object = Map::new();
                show::put_json_name(&mut object, "directory", &export.directory);
                let groups = export.groups.iter();
                let groups: Vec<Value> = groups.map(|group| show::escape(group).into()).collect();
                object.insert("groups".to_owned(), groups.into());
                writeln!(out, "{}", Value::Object(object))?;
                continue;
            }
            show::write_name(out, &export.directory, escaped)?;
            out.write_all(b" ")?;
            if export.groups.is_empty() {
                out.write_all(b"(everyone)")?;
            }
            for (index, group) in export.groups.iter().enumerate() {
                out.write_all(if index == 0 { b"" } else { b"," })?;
                show::write_name(out, group, escaped)?;
            }
            out.write_all(b"\n")?;
        }
        Ok(())
    }

    fn print_mounts(
        &self,
        out: &mut impl Write,
        mounts: &BTreeSet<(Vec<u8>, Vec<u8>)>,
    ) -> std::io::Result<()> {
        let escaped = show::escape_on_stdout();
        let directories: BTreeSet<&Vec<u8>> =
            mounts.iter().map(|(_, directory)| directory).collect();
        if self.directories {
            for directory in directories {
                match self.common.json {
                    true => {
                        let mut object = Map::new();
                        show::put_json_name(&mut object, "directory", directory);
                        write!(out, "{}", Value::Object(object))?;
                    }
                    false => show::write_name(out, directory, escaped)?,
                }
                out.write_all(b"\n")?;
            }
            return Ok(());
        }
        for (host, directory) in mounts {
            if self.common.json {
                let mut object = Map::new();
                show::put_json_name(&mut object, "host", host);
                show::put_json_name(&mut object, "directory", directory);
                writeln!(out, "{}", Value::Object(object))?;
                continue;
            }
            show::write_name(out, host, escaped)?;
            out.write_all(b":")?;
            show::write_name(out, directory, escaped)?;
            out.write_all(b"\n")?;
        }
        Ok(())
    }
}

enum List {
    Exports(Vec<nfs_client::mount3::ExportEntry>),
    /// Who mounted what: hosts with the directories that they mounted.
    Mounts(BTreeSet<(Vec<u8>, Vec<u8>)>),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers() {
        let url = |text: &str| text.parse::<Server>().unwrap().0.to_string();
        assert_eq!(url("server"), "nfs://server/");
        assert_eq!(url("server:20049"), "nfs://server:20049/");
        assert_eq!(url("::1"), "nfs://[::1]/");
        assert_eq!(url("[::1]:20049"), "nfs://[::1]:20049/");
        assert_eq!(url("nfs://server/x"), "nfs://server/x");
        for text in ["", "server/export", "http://server/", "a b", "server:0"] {
            let made = text.parse::<Server>();
            assert!(made.is_err() || text == "server/export", "{text}: {made:?}");
        }
    }
}
