//! `penstock mv`: renames, within one export.

use std::process::ExitCode;

use nfs_client::Node;
use nfs_client::nfs3::{FileHandle, Ftype3, Nfsstat3};
use nfs_client::{Client, ClientError, NfsUrl};

use serde_json::json;

use crate::exit::UsageError;
use crate::patterns::below;
use crate::results;
use crate::session::{self, Common, Session};
use crate::show;

/// Rename files on an NFS server, or move them within one export
///
/// With an existing directory in the last place, everything is moved into it.
/// What has the new name already is replaced in one step, as rename(2) does. To
/// another export or server nothing is moved: copy with `penstock cp -a`, then
/// remove with `penstock rm -r`.
///
/// Examples:
///
///   penstock mv nfs://localhost:20049/draft.txt nfs://localhost:20049/final.txt
///
///   penstock mv nfs://server/e/a nfs://server/e/b nfs://server/e/archive/
#[derive(clap::Args, Debug)]
#[command(verbatim_doc_comment, after_long_help = show::AFTER_HELP)]
pub(crate) struct Args {
    /// Replace nothing: what has the new name already stays, and so does what was to get it
    #[arg(short, long)]
    no_clobber: bool,

    /// Take the last URL as the new name, even if it is a directory
    #[arg(short = 'T', long)]
    no_target_directory: bool,

    /// Print the URLs of each thing that was renamed
    #[arg(short, long)]
    verbose: bool,

    #[command(flatten)]
    common: Common,

    /// What to rename, and in the last place its new name or directory
    #[arg(required = true, num_args = 2.., value_name = "URL")]
    urls: Vec<NfsUrl>,
}

impl Args {
    /// Renames everything that is named.
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        let Some((target, sources)) = self.urls.split_last() else {
            return Err(UsageError("give at least two URLs".to_owned()).into());
        };
        if self.no_target_directory && sources.len() > 1 {
            let why = "with -T there is one source and one new name";
            return Err(UsageError(why.to_owned()).into());
        }
        session::run(&self.common, async |session| {
            let destination = match self.destination(session, target, sources.len() > 1).await {
                Ok(Some(destination)) => destination,
                Ok(None) => return Ok(()),
                Err(error) => {
                    session.failed(target, error);
                    return Ok(());
                }
            };
            for source in sources {
                if let Err(error) = self.rename(session, source, target, &destination).await {
                    session.failed(source, error);
                }
            }
            Ok(())
        })
    }

    async fn destination(
        &self,
        session: &mut Session,
        url: &NfsUrl,
        must_be_directory: bool,
    ) -> Result<Option<Destination>, ClientError> {
        let found = Destination::find(session, url, self.no_target_directory).await?;
        if must_be_directory && found.name.is_some() {
            session.refused(
                url,
                "is not a directory, and several things cannot have one name",
            );
            return Ok(None);
        }
        Ok(Some(found))
    }

    async fn rename(
        &self,
        session: &mut Session,
        source: &NfsUrl,
        target: &NfsUrl,
        to: &Destination,
    ) -> Result<(), ClientError> {
        let (client, path) = session.at(source).await?;
        if !is_same_export(source, &client, target, &to.client) {
            session.refused(source, ELSEWHERE);
            return Ok(());
        }
        let (from_dir, from_name) = client.parent(&path).await?;
        let to_name = to.name.as_deref().unwrap_or(from_name);
        let node = client.lookup(&from_dir, from_name).await?;
        let there = existing(&client, &to.dir, to_name).await?;
        if let Some(there) = there {
            if self.no_clobber {
                return Ok(());
            }
            if from_dir == to.dir && from_name == to_name {
                session.refused(source, "and its new name are the same");
                return Ok(());
            }
            if is_same_file(&node, &there) {
                // Two names of one file: rename(2) leaves both, mv(1) takes the old one away.
                client.remove_in(&from_dir, from_name).await?;
                self.tell(source, target, to, to_name);
                return Ok(());
            }
        }
        match client
            .rename_in(&from_dir, from_name, &to.dir, to_name)
            .await
        {
            Ok(()) => self.tell(source, target, to, to_name),
            Err(error) if error.status() == Some(Nfsstat3::Xdev) => {
                session.refused(source, ELSEWHERE);
            }
            Err(error) if error.status() == Some(Nfsstat3::Inval) => {
                session.refused(source, "cannot be moved into itself, or under that name");
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn tell(&self, source: &NfsUrl, target: &NfsUrl, to: &Destination, name: &[u8]) {
        let target = match to.name {
            Some(_) => target.clone(),
            None => below(target, name),
        };
        if self.common.json {
            results::line(&json!({
                "source": source.to_string(),
                "destination": target.to_string(),
                "done": "renamed",
            }));
        } else if self.verbose {
            show::say(format_args!("{source} -> {target}"));
        }
    }
}

const ELSEWHERE: &str = "is on another server, export or file system than its new name: copy it with \
                         `penstock cp -a`, then remove it with `penstock rm -r`";

/// The directory in which something shall get a name, and that name.
pub(crate) struct Destination {
    pub(crate) client: Client,
    pub(crate) dir: FileHandle,
    /// The name; `None` for a directory, in which things keep their own.
    pub(crate) name: Option<Vec<u8>>,
}

impl Destination {
    /// Looks at `url`: an existing directory, unless `exactly`, or a name to come.
    pub(crate) async fn find(
        session: &mut Session,
        url: &NfsUrl,
        exactly: bool,
    ) -> Result<Self, ClientError> {
        let (client, path) = session.at(url).await?;
        if !exactly {
            match client.resolve(&path).await {
                Ok(node) if node.attributes.ftype == Ftype3::Dir => {
                    return Ok(Self {
                        client,
                        dir: node.handle,
                        name: None,
                    });
                }
                Ok(_) => {}
                Err(error) if error.status() == Some(Nfsstat3::Noent) => {}
                Err(error) => return Err(error),
            }
        }
        let (dir, name) = client.parent(&path).await?;
        let name = Some(name.to_vec());
        Ok(Self { client, dir, name })
    }
}

/// The object that has the name already; `None` where the name is free.
pub(crate) async fn existing(
    client: &Client,
    dir: &FileHandle,
    name: &[u8],
) -> Result<Option<Node>, ClientError> {
    match client.lookup(dir, name).await {
        Ok(node) => Ok(Some(node)),
        Err(error) if error.status() == Some(Nfsstat3::Noent) => Ok(None),
        Err(error) => Err(error),
    }
}

pub(crate) fn is_same_export(a_url: &NfsUrl, a: &Client, b_url: &NfsUrl, b: &Client) -> bool {
    a_url.host == b_url.host && a_url.nfs_port() == b_url.nfs_port() && a.root() == b.root()
}

pub(crate) fn is_same_file(a: &Node, b: &Node) -> bool {
    let key = |node: &Node| (node.attributes.fsid, node.attributes.fileid);
    key(a) == key(b) && a.attributes.ftype != Ftype3::Dir
}
