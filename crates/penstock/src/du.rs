//! `penstock du`: how much space trees take.

use std::collections::HashSet;
use std::io::{BufWriter, Write};
use std::process::ExitCode;

use nfs_client::client::{Found, TreeOptions, Visit};
use nfs_client::nfs3::Fattr3;
use nfs_client::{ClientError, NfsUrl, UrlPattern};
use serde_json::{Map, Value, json};

use crate::session::{self, Common, Session};
use crate::show;
use crate::values::size::human;

/// Add up the space that trees on an NFS server take
///
/// One line per directory, in KiB: what is in it and below it. A file with
/// several names counts once. The space is what the server says is used, so that
/// holes count nothing; --apparent-size adds up the lengths.
///
/// Examples:
///
///   penstock du -sh nfs://localhost:20049/
///
///   penstock du -h -d 1 nfs://server/export
///
///   penstock du -s --json nfs://server/export/photos | jq .bytes
#[derive(clap::Args, Debug)]
#[command(verbatim_doc_comment, after_long_help = show::AFTER_HELP, disable_help_flag = true)]
pub(crate) struct Args {
    /// Print one line per URL only
    #[arg(short, long, conflicts_with_all = ["max_depth", "all"])]
    summarize: bool,

    /// Print a line for each file, too
    #[arg(short, long)]
    all: bool,

    /// Print lines for directories down to so many levels below the URL only
    #[arg(short = 'd', long, value_name = "N")]
    max_depth: Option<usize>,

    /// Add up lengths, not the space used
    #[arg(long)]
    apparent_size: bool,

    /// Print sizes for people: 1.5G
    #[arg(short = 'h', long, conflicts_with = "json")]
    human_readable: bool,

    /// Print a line for the sum of all URLs at the end
    #[arg(short = 'c', long)]
    total: bool,

    #[command(flatten)]
    common: Common,

    /// Print help
    #[arg(long, action = clap::ArgAction::HelpLong)]
    help: Option<bool>,

    /// The trees: nfs://HOST[:PORT]/EXPORT/PATH
    #[arg(required = true, value_name = "URL")]
    urls: Vec<UrlPattern>,
}

/// What a directory and all below it add up to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Sum {
    bytes: u64,
    files: u64,
}

impl Sum {
    fn add(&mut self, other: Self) {
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.files = self.files.saturating_add(other.files);
    }
}

impl Args {
    /// Adds up the space of each tree that is named.
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        session::run(&self.common, async |session| {
            let mut out = BufWriter::new(std::io::stdout().lock());
            let mut counted = Counted::default();
            let mut total = Sum::default();
            let urls = session.expand(&self.urls).await;
            for (operand, url) in urls.iter().enumerate() {
                counted.server = urls
                    .iter()
                    .position(|other| other.with_path("/") == url.with_path("/"))
                    .unwrap_or(operand);
                match self.tree(session, url, &mut counted, &mut out).await? {
                    Ok(sum) => total.add(sum),
                    Err(error) => {
                        out.flush()?;
                        session.failed(url, error);
                    }
                }
            }
            if self.total && self.common.json {
                let total = json!({ "bytes": total.bytes, "files": total.files });
                writeln!(out, "{}", json!({ "total": total }))?;
            } else if self.total {
                writeln!(out, "{}\ttotal", self.size(total.bytes))?;
            }
            out.flush()?;
            Ok(())
        })
    }

    /// Adds up one tree. What goes wrong below its root is told and left out.
    async fn tree(
        &self,
        session: &mut Session,
        url: &NfsUrl,
        counted: &mut Counted,
        out: &mut impl Write,
    ) -> anyhow::Result<Result<Sum, ClientError>> {
        let (client, node) = match session.resolve_link(url).await {
            Ok(found) => found,
            Err(error) => return Ok(Err(error)),
        };
        let mut walk = client.tree(node, &url.path, TreeOptions::default());
        // The sums of the directories that the walk is in.
        let mut open = vec![Sum::default()];
        while let Some(visit) = walk.next().await {
            match visit {
                Visit::Enter(found) => open.push(counted.sum(&found, self.apparent_size)),
                Visit::File(found) => {
                    let sum = counted.sum(&found, self.apparent_size);
                    let shown = self.all && self.shown(found.depth) || found.depth == 0;
                    if shown && sum.files > 0 {
                        self.line(out, &url.with_path(found.path), sum)?;
                    }
                    if let Some(inner) = open.last_mut() {
                        inner.add(sum);
                    }
                }
                Visit::Leave(found) => {
                    let sum = open.pop().unwrap_or_default();
                    if self.shown(found.depth) {
                        self.line(out, &url.with_path(found.path), sum)?;
                    }
                    if let Some(outer) = open.last_mut() {
                        outer.add(sum);
                    }
                }
                Visit::Failed { path, error } => {
                    out.flush()?;
                    session.failed(&url.with_path(path), error);
                }
            }
        }
        Ok(Ok(open.first().copied().unwrap_or_default()))
    }

    fn shown(&self, depth: usize) -> bool {
        let max = if self.summarize {
            Some(0)
        } else {
            self.max_depth
        };
        max.is_none_or(|max| depth <= max)
    }

    fn line(&self, out: &mut impl Write, url: &NfsUrl, sum: Sum) -> std::io::Result<()> {
        if self.common.json {
            let mut object = Map::new();
            object.insert("url".to_owned(), url.to_string().into());
            object.insert("bytes".to_owned(), sum.bytes.into());
            object.insert("files".to_owned(), sum.files.into());
            return writeln!(out, "{}", Value::Object(object));
        }
        writeln!(out, "{}\t{url}", self.size(sum.bytes))
    }

    fn size(&self, bytes: u64) -> String {
        if self.human_readable {
            human(bytes)
        } else {
            bytes.div_ceil(1024).to_string()
        }
    }
}

/// What was counted already: files with more than one name.
#[derive(Default)]
struct Counted {
    /// Numbers of files are the server's own; which server this is.
    server: usize,
    seen: HashSet<(usize, u64, u64)>,
}

impl Counted {
    fn sum(&mut self, found: &Found, apparent: bool) -> Sum {
        let a = &found.node.attributes;
        let is_new = found.is_dir() || a.nlink < 2 || self.note(a);
        match is_new {
            true => Sum {
                bytes: if apparent { a.size } else { a.used },
                files: 1,
            },
            false => Sum::default(),
        }
    }

    fn note(&mut self, a: &Fattr3) -> bool {
        self.seen.insert((self.server, a.fsid, a.fileid))
    }
}
