//! `penstock ln`: further names for files, and symbolic links.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt as _;
use std::process::ExitCode;

use nfs_client::Node;
use nfs_client::nfs3::{FileHandle, Ftype3, Nfsstat3, Sattr3};
use nfs_client::{Client, ClientError, NfsUrl};

use serde_json::{Map, Value};

use crate::exit::UsageError;
use crate::mv::{Destination, existing, is_same_export, is_same_file};
use crate::patterns::below;
use crate::results;
use crate::session::{self, Common, Session};
use crate::show;

/// Give files on an NFS server further names, or make symbolic links
///
/// Without -s the target is the URL of a file in the same export, which gets one
/// more name. With -s it is any text: the server keeps it as it is, and whoever
/// follows the link interprets it. In a directory, the link gets the last name of
/// its target.
///
/// Examples:
///
///   penstock ln nfs://localhost:20049/data nfs://localhost:20049/same-data
///
///   penstock ln -s ../data/current nfs://server/export/links/current
///
///   penstock ln -sf v2 nfs://server/export/latest
#[derive(clap::Args, Debug)]
#[command(verbatim_doc_comment, after_long_help = show::AFTER_HELP)]
pub(crate) struct Args {
    /// Make a symbolic link
    #[arg(short, long)]
    symbolic: bool,

    /// Replace what has the name already, unless it is a directory
    #[arg(short, long)]
    force: bool,

    /// Take the last URL as the link's name, even if it is a directory
    #[arg(short = 'T', long)]
    no_target_directory: bool,

    #[command(flatten)]
    common: Common,

    /// What the link leads to: a URL, or any text with -s
    target: OsString,

    /// The link, or the directory that it shall be in: nfs://HOST[:PORT]/EXPORT/PATH
    link: NfsUrl,
}

/// The object or path that a new link is to lead to.
enum Target<'a> {
    File(NfsUrl),
    Text(&'a [u8]),
}

impl Args {
    /// Makes all links that the arguments name.
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        let target = self.target()?;
        session::run(&self.common, async |session| {
            if let Err(error) = self.link(session, &target).await {
                session.failed(&self.link, error);
            }
            Ok(())
        })
    }

    fn target(&self) -> Result<Target<'_>, UsageError> {
        if self.symbolic {
            let text = self.target.as_bytes();
            return match text {
                b"" => Err(UsageError(
                    "a symbolic link to nothing cannot be".to_owned(),
                )),
                text => Ok(Target::Text(text)),
            };
        }
        let text = self.target.to_string_lossy();
        match NfsUrl::parse(&text) {
            Ok(url) => Ok(Target::File(url)),
            Err(error) => Err(UsageError(format!(
                "{}: {error}; or give -s for a symbolic link to this text",
                show::escape(self.target.as_bytes())
            ))),
        }
    }

    async fn link(&self, session: &mut Session, target: &Target<'_>) -> Result<(), ClientError> {
        let to = Destination::find(session, &self.link, self.no_target_directory).await?;
        let client = &to.client;
        let (source, default_name) = match target {
            Target::Text(text) => (None, nfs_client::url::components(text).last()),
            Target::File(url) => {
                let (theirs, path) = match session.at(url).await {
                    Ok(found) => found,
                    Err(error) => {
                        session.failed(url, error);
                        return Ok(());
                    }
                };
                if !is_same_export(url, &theirs, &self.link, client) {
                    session.refused(
                        url,
                        "is in another export than the link: only -s leads there",
                    );
                    return Ok(());
                }
                match client.resolve_link(&path).await {
                    Ok(node) if node.attributes.ftype == Ftype3::Dir => {
                        session.refused(url, "is a directory: only -s leads there");
                        return Ok(());
                    }
                    Ok(node) => (Some(node), nfs_client::url::components(&url.path).last()),
                    Err(error) => {
                        session.failed(url, error);
                        return Ok(());
                    }
                }
            }
        };
        let Some(name) = to
            .name
            .as_deref()
            .or(default_name.filter(|name| *name != b".."))
        else {
            session.refused(
                &self.link,
                "is a directory, and the target has no name to take",
            );
            return Ok(());
        };
        let new = New {
            client,
            dir: &to.dir,
            source,
            target,
        };
        let made = match new.make(name).await {
            Err(error) if self.force && error.status() == Some(Nfsstat3::Exist) => {
                new.replace(session, &self.link, name).await?
            }
            result => result.map(|()| true)?,
        };
        if made {
            let link = match to.name {
                Some(_) => self.link.clone(),
                None => below(&self.link, name),
            };
            tell(&link, target);
        }
        Ok(())
    }
}

/// Tells programs of a link that was made.
fn tell(link: &NfsUrl, target: &Target<'_>) {
    let mut members = Map::new();
    let done = match target {
        Target::Text(text) => {
            show::put_json_name(&mut members, "target", text);
            "symlink"
        }
        Target::File(url) => {
            members.insert("source".to_owned(), url.to_string().into());
            "linked"
        }
    };
    results::done(link, done, Value::Object(members), false);
}

/// The link that is to be made.
struct New<'a> {
    client: &'a Client,
    dir: &'a FileHandle,
    source: Option<Node>,
    target: &'a Target<'a>,
}

impl New<'_> {
    async fn make(&self, name: &[u8]) -> Result<(), ClientError> {
        match (self.source, self.target) {
            (Some(source), _) => self.client.link_in(&source.handle, self.dir, name).await,
            (None, Target::Text(text)) => {
                let attributes = Sattr3::default();
                let made = self.client.symlink_in(self.dir, name, text, &attributes);
                made.await.map(drop)
            }
            (None, Target::File(_)) => Ok(()),
        }
    }

    /// Makes the link under another name and renames it, so that there is one under `name` at all times; whether it
    /// is there now.
    async fn replace(
        &self,
        session: &mut Session,
        url: &NfsUrl,
        name: &[u8],
    ) -> Result<bool, ClientError> {
        if let Some(there) = existing(self.client, self.dir, name).await? {
            if there.attributes.ftype == Ftype3::Dir {
                session.refused(url, "is a directory, which is not replaced");
                return Ok(false);
            }
            // rename(2) between two names of one file does nothing; there is nothing to do.
            if self
                .source
                .is_some_and(|source| is_same_file(&source, &there))
            {
                return Ok(true);
            }
        }
        let other = format!(".penstock-ln-{}", std::process::id()).into_bytes();
        self.make(&other).await?;
        let renamed = self
            .client
            .rename_in(self.dir, &other, self.dir, name)
            .await;
        if renamed.is_err() {
            self.client.remove_in(self.dir, &other).await?;
        }
        renamed.map(|()| true)
    }
}
