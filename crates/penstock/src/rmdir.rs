//! `penstock rmdir`: removes empty directories.

use std::process::ExitCode;

use nfs_client::{ClientError, NfsUrl};
use serde_json::json;

use crate::results;
use crate::session::{self, Common, Session};
use crate::show;

/// Remove empty directories on an NFS server
///
/// Examples:
///
///   penstock rmdir nfs://localhost:20049/photos
///
///   penstock rmdir -p nfs://server/export/a/b/c
#[derive(clap::Args, Debug)]
#[command(verbatim_doc_comment, after_long_help = show::AFTER_HELP)]
pub(crate) struct Args {
    /// Remove the directories above too, up to the export's root, as long as they are empty
    #[arg(short, long)]
    parents: bool,

    #[command(flatten)]
    common: Common,

    /// What to remove: nfs://HOST[:PORT]/EXPORT/PATH
    #[arg(required = true, value_name = "URL")]
    urls: Vec<NfsUrl>,
}

impl Args {
    /// Removes all directories that are named.
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        session::run_each(&self.common, &self.urls, async |session, url| {
            self.remove(session, url).await
        })
    }

    async fn remove(&self, session: &mut Session, url: &NfsUrl) -> Result<(), ClientError> {
        let (client, path) = session.at(url).await?;
        let mut names: Vec<&[u8]> = nfs_client::url::components(&path).collect();
        client.rmdir(&path).await?;
        results::done(url, "removed", json!({}), false);
        names.pop();
        let export = client.export();
        let export = export.strip_suffix(b"/").unwrap_or(export);
        while self.parents && !names.is_empty() {
            let above = names.join(&b'/');
            client.rmdir(&above).await?;
            let url = url.with_path([export, b"/", above.as_slice()].concat());
            results::done(&url, "removed", json!({}), false);
            names.pop();
        }
        Ok(())
    }
}
