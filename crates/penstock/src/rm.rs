//! `penstock rm`: removes names, and whole trees by [`RemoveTree`].

use std::io::Write as _;
use std::process::ExitCode;

use nfs_client::nfs3::{Ftype3, Nfsstat3};
use nfs_client::trees::{RemoveTree, Step};
use nfs_client::{ClientError, NfsUrl, UrlPattern};
use serde_json::json;

use crate::message;
use crate::session::{self, Common, Session};
use crate::show;

/// Remove files on an NFS server, and with -r whole trees
///
/// Symbolic links are removed themselves; what they lead to is never touched. The
/// root of an export, and paths that end in `.` or `..`, are refused. A tree is
/// removed by many calls at once; what cannot be removed is told, and the rest
/// goes on.
///
/// Examples:
///
///   penstock rm nfs://localhost:20049/notes.txt
///
///   penstock rm -r nfs://server/export/build nfs://server/export/tmp
#[derive(clap::Args, Debug)]
#[command(verbatim_doc_comment, after_long_help = show::AFTER_HELP)]
pub(crate) struct Args {
    /// Remove directories too, with everything in them
    #[arg(short, long, visible_short_alias = 'R')]
    recursive: bool,

    /// Say nothing of what is not there
    #[arg(short, long)]
    force: bool,

    /// Remove empty directories too
    #[arg(short, long)]
    dir: bool,

    /// Print the URL of each thing that was removed
    #[arg(short, long, conflicts_with = "json")]
    verbose: bool,

    #[command(flatten)]
    common: Common,

    /// What to remove: nfs://HOST[:PORT]/EXPORT/PATH
    #[arg(required = true, value_name = "URL")]
    urls: Vec<UrlPattern>,
}

/// How much of one operand was removed, and how much could not be.
#[derive(Default)]
struct Count {
    files: u64,
    directories: u64,
    failed: u64,
}

impl Args {
    /// Removes everything that is named.
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        session::run(&self.common, async |session| {
            for url in &self.expanded(session).await {
                let mut count = Count::default();
                if let Err(error) = self.remove(session, url, &mut count).await {
                    let absent = error.status() == Some(Nfsstat3::Noent);
                    if !(self.force && absent) {
                        count.failed += 1;
                        session.failed(url, error);
                    }
                }
                if self.common.json {
                    let line = json!({
                        "url": url.to_string(),
                        "files": count.files,
                        "directories": count.directories,
                        "failed": count.failed,
                    });
                    writeln!(std::io::stdout(), "{line}")?;
                }
                if session.stop().is_set() {
                    let removed = count.files + count.directories;
                    message::warn(format_args!(
                        "interrupted: {removed} removed below {url}; run it again to go on"
                    ));
                    break;
                }
            }
            Ok(())
        })
    }

    /// What is to be removed. A pattern that matches nothing is nothing to say with -f.
    async fn expanded(&self, session: &mut Session) -> Vec<NfsUrl> {
        if !self.force {
            return session.expand(&self.urls).await;
        }
        let mut urls = Vec::new();
        for pattern in &self.urls {
            urls.extend(session.matches(pattern).await.unwrap_or_default());
        }
        urls
    }

    async fn remove(
        &self,
        session: &mut Session,
        url: &NfsUrl,
        count: &mut Count,
    ) -> Result<(), ClientError> {
        let mut segments = url.path.split(|&byte| byte == b'/');
        let last = segments.rfind(|name| !name.is_empty());
        // As rm(1): whoever writes `*/..` or `.` by mistake does not mean what these lead to.
        if matches!(last, Some(b"." | b"..")) {
            session.refused(url, "ends in . or .., which is not removed");
            count.failed += 1;
            return Ok(());
        }
        let (client, path) = session.at(url).await?;
        if nfs_client::url::components(&path).next().is_none() {
            session.refused(url, "is the root of an export, which is not removed");
            count.failed += 1;
            return Ok(());
        }
        let (parent, name) = client.parent(&path).await?;
        let node = client.lookup(&parent, name).await?;
        let is_dir = node.attributes.ftype == Ftype3::Dir;
        if !is_dir && path.ends_with(b"/") {
            session.refused(url, "is not a directory: leave out the / at its end");
            count.failed += 1;
            return Ok(());
        }
        if is_dir && self.recursive {
            let removal = RemoveTree::new(&client, node, parent, &url.path);
            self.remove_tree(session, url, removal, count).await;
            return Ok(());
        }
        if is_dir && !self.dir {
            session.refused(
                url,
                "is a directory: give -r to remove it and all that is in it",
            );
            count.failed += 1;
            return Ok(());
        }
        if is_dir {
            client.rmdir_in(&parent, name).await?;
            count.directories += 1;
        } else {
            client.remove_in(&parent, name).await?;
            count.files += 1;
        }
        if self.verbose && !self.common.json {
            show::say(url);
        }
        Ok(())
    }

    /// Tells of the removal of a tree to its end, or until it is to stop.
    async fn remove_tree(
        &self,
        session: &mut Session,
        url: &NfsUrl,
        mut removal: RemoveTree,
        count: &mut Count,
    ) {
        let stop = session.stop();
        let mut stopped = false;
        loop {
            let step = tokio::select! {
                biased;
                () = stop.asked(), if !stopped => {
                    removal.stop();
                    stopped = true;
                    continue;
                }
                step = removal.next() => step,
            };
            match step {
                None => return,
                Some(Step::Done(removed)) => {
                    match removed.is_dir {
                        true => count.directories += 1,
                        false => count.files += 1,
                    }
                    if self.verbose && !self.common.json {
                        show::say(url.with_path(removed.path));
                    }
                }
                Some(Step::Failed { path, error }) => {
                    count.failed += 1;
                    session.failed(&url.with_path(path), error);
                }
            }
        }
    }
}
