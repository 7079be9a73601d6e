//! `penstock touch`: sets times, and makes empty files.

use std::process::ExitCode;

use nfs_client::nfs3::{Nfsstat3, Sattr3, SetTime};
use nfs_client::{ClientError, NfsUrl};
use serde_json::json;

use crate::results;
use crate::session::{self, Common, Session};
use crate::show;
use crate::values::mode::umask;
use crate::values::time::Time;

/// Set the times of files on an NFS server, and make files that are not there
///
/// Without -d both times become the server's present time.
///
/// Examples:
///
///   penstock touch nfs://localhost:20049/done
///
///   penstock touch -c -m -d 2026-01-31T12:00:00 nfs://server/export/report.txt
#[derive(clap::Args, Debug)]
#[command(verbatim_doc_comment, after_long_help = show::AFTER_HELP)]
pub(crate) struct Args {
    /// Set only the time of the last access
    #[arg(short, long, conflicts_with = "modification")]
    access: bool,

    /// Set only the time of the last change of the contents
    #[arg(short, long)]
    modification: bool,

    /// Make no file that is not there
    #[arg(short = 'c', long)]
    no_create: bool,

    /// The time to set, in UTC: 2026-01-31, 2026-01-31T23:59:59 or @SECONDS since 1970
    #[arg(short, long, value_name = "TIME")]
    date: Option<Time>,

    #[command(flatten)]
    common: Common,

    /// The files: nfs://HOST[:PORT]/EXPORT/PATH
    #[arg(required = true, value_name = "URL")]
    urls: Vec<NfsUrl>,
}

impl Args {
    /// Sets the times of each file that is named, and makes those that are missing.
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        session::run_each(&self.common, &self.urls, async |session, url| {
            self.touch(session, url).await
        })
    }

    async fn touch(&self, session: &mut Session, url: &NfsUrl) -> Result<(), ClientError> {
        let (client, path) = session.at(url).await?;
        let (handle, done) = match client.resolve(&path).await {
            Ok(node) => (node.handle, "touched"),
            Err(error) if error.status() == Some(Nfsstat3::Noent) => {
                if self.no_create {
                    return Ok(());
                }
                (
                    *client.create(&path, 0o666 & !umask()).await?.handle(),
                    "made",
                )
            }
            Err(error) => return Err(error),
        };
        let time = match self.date {
            Some(Time(time)) => SetTime::ClientTime(time),
            None => SetTime::ServerTime,
        };
        let unless = |other| if other { SetTime::DontChange } else { time };
        let new = Sattr3 {
            atime: unless(self.modification),
            mtime: unless(self.access),
            ..Sattr3::default()
        };
        client.setattr_handle(&handle, &new).await?;
        results::done(url, done, json!({}), false);
        Ok(())
    }
}
