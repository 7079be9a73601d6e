//! `penstock truncate`: sets the lengths of files.

use std::process::ExitCode;

use nfs_client::nfs3::{Nfsstat3, Sattr3};
use nfs_client::{ClientError, NfsUrl};
use serde_json::json;

use crate::results;
use crate::session::{self, Common, Session};
use crate::show;
use crate::values::mode::umask;
use crate::values::size::NewLen;

/// Set the lengths of files on an NFS server
///
/// What is longer is cut; what is shorter gets a hole that reads as zeros. A file
/// that is not there is made, unless -c is given. SIZE is a number of bytes, with
/// K, M, G, T, P or E for powers of 1024 (KB, MB, ... for powers of 1000), and
/// before it: + more by, - less by, < at most, > at least, / down to a multiple
/// of, % up to a multiple of.
///
/// Examples:
///
///   penstock truncate -s 0 nfs://localhost:20049/log
///
///   penstock truncate -s +1GiB nfs://server/export/disk.img
///
///   penstock truncate -c -s '<100M' nfs://server/export/log
#[derive(clap::Args, Debug)]
#[command(verbatim_doc_comment, after_long_help = show::AFTER_HELP)]
pub(crate) struct Args {
    /// The new length
    #[arg(short, long, required = true, allow_hyphen_values = true)]
    size: NewLen,

    /// Make no file that is not there
    #[arg(short = 'c', long)]
    no_create: bool,

    #[command(flatten)]
    common: Common,

    /// The files: nfs://HOST[:PORT]/EXPORT/PATH
    #[arg(required = true, value_name = "URL")]
    urls: Vec<NfsUrl>,
}

impl Args {
    /// Sets the length of each file that is named.
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        session::run_each(&self.common, &self.urls, async |session, url| {
            self.truncate(session, url).await
        })
    }

    async fn truncate(&self, session: &mut Session, url: &NfsUrl) -> Result<(), ClientError> {
        let (client, path) = session.at(url).await?;
        let file = match client.open(&path).await {
            Ok(file) => file,
            Err(error) if error.status() == Some(Nfsstat3::Noent) => {
                if self.no_create {
                    return Ok(());
                }
                client.create(&path, 0o666 & !umask()).await?
            }
            Err(error) => return Err(error),
        };
        let old = match self.size.is_absolute() {
            true => 0,
            false => file.stat().await?.size,
        };
        let Some(size) = self.size.of(old) else {
            session.refused(url, "would become longer than a file can be");
            return Ok(());
        };
        let new = Sattr3 {
            size: Some(size),
            ..Sattr3::default()
        };
        client.setattr_handle(file.handle(), &new).await?;
        results::done(url, "truncated", json!({ "size": size }), false);
        Ok(())
    }
}
