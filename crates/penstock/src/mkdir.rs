//! `penstock mkdir`: makes directories.

use std::process::ExitCode;

use nfs_client::Node;
use nfs_client::nfs3::{FileHandle, Ftype3, Nfsstat3, Sattr3};
use nfs_client::{Client, ClientError, NfsUrl};

use crate::session::{self, Common, Session};
use crate::show;
use crate::values::mode::{ModeChange, umask};

/// Make directories on an NFS server
///
/// The mode is 777 without what the umask takes away, or what -m says.
///
/// Examples:
///
///   penstock mkdir nfs://localhost:20049/photos
///
///   penstock mkdir -p -m u=rwx,g=rx,o= nfs://server/export/a/b/c
#[derive(clap::Args, Debug)]
#[command(verbatim_doc_comment, after_long_help = show::AFTER_HELP)]
pub(crate) struct Args {
    /// Make the directories above too; one that is there already is no error
    #[arg(short, long)]
    parents: bool,

    /// The mode of the last directory: octal, or a change of 777 such as g-w,o=
    #[arg(short, long, value_name = "MODE")]
    mode: Option<ModeChange>,

    /// Print the URL of each directory that was made
    #[arg(short, long)]
    verbose: bool,

    #[command(flatten)]
    common: Common,

    /// What to make: nfs://HOST[:PORT]/EXPORT/PATH
    #[arg(required = true, value_name = "URL")]
    urls: Vec<NfsUrl>,
}

impl Args {
    /// Makes all directories that are named.
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        session::run_each(&self.common, &self.urls, async |session, url| {
            self.make(session, url).await
        })
    }

    async fn make(&self, session: &mut Session, url: &NfsUrl) -> Result<(), ClientError> {
        let umask = umask();
        let plain = 0o777 & !umask;
        let mode = match &self.mode {
            Some(change) => change.apply(0o777, true, umask),
            None => plain,
        };
        let (client, path) = session.at(url).await?;
        if !self.parents {
            let (dir, name) = client.parent(&path).await?;
            make_one(&client, &dir, name, mode).await?;
            self.tell(url);
            return Ok(());
        }
        let names: Vec<&[u8]> = nfs_client::url::components(&path).collect();
        // Most often all but the last are there: one walk finds how far.
        for (index, _) in names.iter().enumerate() {
            let upto = names.get(..=index).unwrap_or_default().join(&b'/');
            match client.resolve(&upto).await {
                Ok(node) if node.attributes.ftype == Ftype3::Dir => continue,
                Ok(_) => {
                    session.refused(url, "is in the way: something there is not a directory");
                    return Ok(());
                }
                Err(error) if error.status() == Some(Nfsstat3::Noent) => {}
                Err(error) => return Err(error),
            }
            let is_last = index + 1 == names.len();
            // As mkdir(1): whoever makes a directory on the way must be able to go on in it.
            let mode = if is_last { mode } else { plain | 0o300 };
            let (dir, name) = client.parent(&upto).await?;
            match make_one(&client, &dir, name, mode).await {
                Ok(_) => {
                    let export = client
                        .export()
                        .strip_suffix(b"/")
                        .unwrap_or(client.export());
                    self.tell(&url.with_path([export, b"/", &upto].concat()));
                }
                // Somebody else made it at the same time.
                Err(error) if error.status() == Some(Nfsstat3::Exist) => {
                    let node = client.resolve(&upto).await?;
                    if node.attributes.ftype != Ftype3::Dir {
                        return Err(error);
                    }
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn tell(&self, url: &NfsUrl) {
        if self.verbose {
            show::say(url);
        }
    }
}

/// Makes one directory. Set-ID and sticky bits of the mode may be left out by the server's mkdir(2), so
/// they are set afterwards.
async fn make_one(
    client: &Client,
    dir: &FileHandle,
    name: &[u8],
    mode: u32,
) -> Result<Node, ClientError> {
    let with = |mode| Sattr3 {
        mode: Some(mode),
        ..Sattr3::default()
    };
    let node = client.mkdir_in(dir, name, &with(mode & 0o777)).await?;
    if mode & 0o7000 != 0 {
        client.setattr_handle(&node.handle, &with(mode)).await?;
    }
    Ok(node)
}
