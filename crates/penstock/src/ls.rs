//! `penstock ls`: names in a directory of an NFS server.

use std::io::{BufWriter, Write};
use std::process::ExitCode;

use nfs_client::client::DirEntry;
use nfs_client::nfs3::{Fattr3, Ftype3};
use nfs_client::{Client, NfsUrl};
use serde_json::{Map, Value};

use crate::show;

/// List a directory on an NFS server, without mounting it
///
/// Prints one name per line, sorted by their bytes; `.` and `..` are left out. A URL of something that
/// is not a directory prints that name.
///
/// Examples:
///
///   penstock ls nfs://localhost:20049/
///
///   penstock ls -l nfs://server/export/photos
///
///   penstock ls --json 'nfs://server/export?uid=1000&gid=1000' | jq .name
#[derive(clap::Args, Debug)]
#[command(verbatim_doc_comment, after_long_help = show::AFTER_HELP)]
pub(crate) struct Args {
    /// Print type, mode, links, owner, group, size and time of change too
    #[arg(short, long)]
    long: bool,

    /// Print one JSON object per line, with all attributes
    ///
    /// A name that is not UTF-8 is given as `name_hex` instead of `name`.
    #[arg(long, conflicts_with = "long")]
    json: bool,

    /// What to list: nfs://HOST[:PORT]/EXPORT/PATH
    url: NfsUrl,
}

/// One line of output.
struct Line {
    name: Vec<u8>,
    attributes: Option<Fattr3>,
    /// Where a symbolic link points, if asked for.
    target: Option<Vec<u8>>,
}

impl Args {
    /// Lists what the URL names.
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        show::run(async move {
            let lines = self.collect().await?;
            let escaped = show::escape_on_stdout();
            let mut out = BufWriter::new(std::io::stdout().lock());
            for line in &lines {
                if self.json {
                    line.write_json(&mut out)?;
                } else if self.long {
                    line.write_long(&mut out, escaped)?;
                } else {
                    show::write_name(&mut out, &line.name, escaped)?;
                }
                out.write_all(b"\n")?;
            }
            out.flush()?;
            Ok(())
        })
    }

    async fn collect(&self) -> anyhow::Result<Vec<Line>> {
        let (client, path) = Client::mount(&self.url).await?;
        let with_attributes = self.long || self.json;
        // `ls -l LINK` shows the link, `ls LINK` what it leads to, as ls does.
        let start = if with_attributes && !path.ends_with(b"/") {
            client.resolve_link(&path).await?
        } else {
            client.resolve(&path).await?
        };
        if start.attributes.ftype != Ftype3::Dir {
            let name = nfs_client::url::components(&path)
                .last()
                .unwrap_or(b"/")
                .to_vec();
            let target = match start.attributes.ftype {
                Ftype3::Lnk => Some(client.readlink(&start.handle).await?),
                _ => None,
            };
            return Ok(vec![Line {
                name,
                attributes: Some(start.attributes),
                target,
            }]);
        }
        let mut entries = client.read_dir(&start.handle, with_attributes).await?;
        entries.retain(|entry| entry.name != b"." && entry.name != b"..");
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        let mut lines = Vec::with_capacity(entries.len());
        for entry in entries {
            let target = match with_attributes {
                true => link_target(&client, &entry).await,
                false => None,
            };
            lines.push(Line {
                name: entry.name,
                attributes: entry.attributes,
                target,
            });
        }
        Ok(lines)
    }
}

/// Where an entry points if it is a symbolic link. One that is gone meanwhile points nowhere.
async fn link_target(client: &Client, entry: &DirEntry) -> Option<Vec<u8>> {
    match (entry.handle, entry.attributes) {
        (Some(handle), Some(attributes)) if attributes.ftype == Ftype3::Lnk => {
            client.readlink(&handle).await.ok()
        }
        _ => None,
    }
}

impl Line {
    fn write_long(&self, out: &mut impl Write, escaped: bool) -> std::io::Result<()> {
        match &self.attributes {
            Some(a) => {
                let size = match a.ftype {
                    Ftype3::Blk | Ftype3::Chr => format!("{}, {}", a.rdev.major, a.rdev.minor),
                    _ => a.size.to_string(),
                };
                write!(
                    out,
                    "{} {:>3} {:>5} {:>5} {:>12} {} ",
                    show::mode_text(a.ftype, a.mode),
                    a.nlink,
                    a.uid,
                    a.gid,
                    size,
                    show::time_text(a.mtime)
                )?;
            }
            // The entry went away, or the server keeps its attributes from us.
            None => write!(
                out,
                "?????????? {:>3} {:>5} {:>5} {:>12} {:19} ",
                "?", "?", "?", "?", "?"
            )?,
        }
        show::write_name(out, &self.name, escaped)?;
        if let Some(target) = &self.target {
            out.write_all(b" -> ")?;
            show::write_name(out, target, escaped)?;
        }
        Ok(())
    }

    fn write_json(&self, out: &mut impl Write) -> std::io::Result<()> {
        let mut object = Map::new();
        show::put_json_name(&mut object, "name", &self.name);
        if let Some(attributes) = &self.attributes {
            show::put_json_attributes(&mut object, attributes);
        }
        if let Some(target) = &self.target {
            show::put_json_name(&mut object, "target", target);
        }
        write!(out, "{}", Value::Object(object))
    }
}
