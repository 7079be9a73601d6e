//! `penstock stat`: the attributes of files of an NFS server.

use std::io::Write;
use std::process::ExitCode;

use nfs_client::Node;
use nfs_client::nfs3::{Ftype3, Nfstime3};
use nfs_client::{ClientError, NfsUrl, UrlPattern};
use serde_json::{Map, Value};

use crate::session::{self, Common, Session};
use crate::show;

/// Show the attributes of files on an NFS server, without mounting it
///
/// A symbolic link is shown itself, unless --follow is given.
///
/// Examples:
///
///   penstock stat nfs://localhost:20049/notes.txt
///
///   penstock stat --json nfs://server/export/photos | jq .size
#[derive(clap::Args, Debug)]
#[command(verbatim_doc_comment, after_long_help = show::AFTER_HELP)]
pub(crate) struct Args {
    /// Show what a symbolic link leads to
    #[arg(short = 'L', long)]
    follow: bool,

    #[command(flatten)]
    common: Common,

    /// What to show: nfs://HOST[:PORT]/EXPORT/PATH
    #[arg(required = true, value_name = "URL")]
    urls: Vec<UrlPattern>,
}

impl Args {
    /// Shows the attributes of everything that is named.
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        session::run(&self.common, async |session| {
            for url in &session.expand(&self.urls).await {
                let (node, target) = match self.ask(session, url).await {
                    Ok(found) => found,
                    Err(error) => {
                        session.failed(url, error);
                        continue;
                    }
                };
                let mut out = std::io::stdout().lock();
                if self.common.json {
                    write_json(&mut out, url, &node, target.as_deref())?;
                } else {
                    write_text(&mut out, url, &node, target.as_deref())?;
                }
            }
            Ok(())
        })
    }

    async fn ask(
        &self,
        session: &mut Session,
        url: &NfsUrl,
    ) -> Result<(Node, Option<Vec<u8>>), ClientError> {
        let (client, node) = if self.follow {
            session.resolve(url).await?
        } else {
            session.resolve_link(url).await?
        };
        let target = match node.attributes.ftype {
            Ftype3::Lnk => Some(client.readlink(&node.handle).await?),
            _ => None,
        };
        Ok((node, target))
    }
}

fn write_json(
    out: &mut impl Write,
    url: &NfsUrl,
    node: &Node,
    target: Option<&[u8]>,
) -> std::io::Result<()> {
    let mut object = Map::new();
    object.insert("url".to_owned(), url.to_string().into());
    show::put_json_name(&mut object, "path", &url.path);
    show::put_json_attributes(&mut object, &node.attributes);
    if let Some(target) = target {
        show::put_json_name(&mut object, "target", target);
    }
    writeln!(out, "{}", Value::Object(object))
}

fn write_text(
    out: &mut impl Write,
    url: &NfsUrl,
    node: &Node,
    target: Option<&[u8]>,
) -> std::io::Result<()> {
    let escaped = show::escape_on_stdout();
    let a = &node.attributes;
    write!(out, "  path: ")?;
    show::write_name(out, &url.path, escaped)?;
    if let Some(target) = target {
        write!(out, " -> ")?;
        show::write_name(out, target, escaped)?;
    }
    writeln!(out, "\n  type: {}", show::type_name(a.ftype))?;
    if matches!(a.ftype, Ftype3::Blk | Ftype3::Chr) {
        writeln!(out, "device: {}, {}", a.rdev.major, a.rdev.minor)?;
    }
    writeln!(out, "  size: {} bytes, {} used", a.size, a.used)?;
    let mode = show::mode_text(a.ftype, a.mode);
    writeln!(out, "  mode: {:04o} {mode}", a.mode & 0o7777)?;
    writeln!(out, " owner: uid {} gid {}", a.uid, a.gid)?;
    writeln!(out, " links: {}", a.nlink)?;
    writeln!(out, "fileid: {} on fsid {:#x}", a.fileid, a.fsid)?;
    let time = |time: Nfstime3| format!("{}.{:09} UTC", show::time_text(time), time.nseconds);
    writeln!(out, " atime: {}", time(a.atime))?;
    writeln!(out, " mtime: {}", time(a.mtime))?;
    writeln!(out, " ctime: {}", time(a.ctime))
}
