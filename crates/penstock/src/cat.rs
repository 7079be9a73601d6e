//! `penstock cat`: files of an NFS server to standard output.

use std::io::Write;
use std::process::ExitCode;

use anyhow::Context as _;
use nfs_client::{Client, NfsUrl};

use crate::show;

/// Write files of an NFS server to standard output, without mounting it
///
/// The files are written one after the other, each with a few READs in flight, so memory stays small
/// whatever their sizes. A reader that stops early (`| head`) is no error.
///
/// Examples:
///
///   penstock cat nfs://localhost:20049/notes.txt
///
///   penstock cat nfs://server/export/part1 nfs://server/export/part2 > whole
#[derive(clap::Args, Debug)]
#[command(verbatim_doc_comment, after_long_help = show::AFTER_HELP)]
pub(crate) struct Args {
    /// What to write out: nfs://HOST[:PORT]/EXPORT/PATH
    #[arg(required = true)]
    urls: Vec<NfsUrl>,
}

impl Args {
    /// Writes out the files, in order; stops at the first that fails.
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        show::run(async move {
            for url in &self.urls {
                write_out(url).await?;
            }
            Ok(())
        })
    }
}

async fn write_out(url: &NfsUrl) -> anyhow::Result<()> {
    let (client, path) = Client::mount(url).await?;
    let file = client.open(&path).await?;
    let mut stream = file.stream(0);
    let mut out = std::io::stdout().lock();
    while let Some(data) = stream.next().await.with_context(|| url.to_string())? {
        out.write_all(&data)?;
    }
    out.flush()?;
    Ok(())
}
