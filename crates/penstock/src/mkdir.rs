//! `penstock mkdir`: makes directories, with those above them if asked to.

use std::process::ExitCode;

use nfs_client::trees::{self, DirModes};
use nfs_client::{ClientError, NfsUrl};

use serde_json::json;

use crate::results;
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
            trees::make_dir(&client, &dir, name, mode).await?;
            self.tell(url);
            return Ok(());
        }
        let export = client.export();
        let export = export.strip_suffix(b"/").unwrap_or(export);
        let modes = DirModes {
            last: mode,
            above: plain,
        };
        let made = |upto: &[u8]| self.tell(&url.with_path([export, b"/", upto].concat()));
        trees::make_dirs(&client, &path, modes, made).await
    }

    fn tell(&self, url: &NfsUrl) {
        results::done(url, "made", json!({}), self.verbose);
    }
}
