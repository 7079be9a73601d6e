//! `penstock cat`: files of an NFS server to standard output.

use std::process::ExitCode;

use nfs_client::file::ReadStream;
use nfs_client::{ClientError, NfsUrl, UrlPattern};

use crate::out::Out;
use crate::session::{self, Common, Session};
use crate::show;
use crate::windows::WindowArgs;

/// Write files of an NFS server to standard output, without mounting it
///
/// The files are written one after the other, each with READs on their way ahead
/// of what is written, so memory stays small whatever their sizes. A file that
/// fails is told, and the next ones are written all the same. A reader that stops
/// early (`| head`) is no error.
///
/// Examples:
///
///   penstock cat nfs://localhost:20049/notes.txt
///
///   penstock cat nfs://server/export/part1 nfs://server/export/part2 > whole
///
///   penstock cat --offset 1GiB --length 4096 nfs://server/export/disk.img | xxd
#[derive(clap::Args, Debug)]
#[command(verbatim_doc_comment, after_long_help = show::AFTER_HELP, mut_arg("json", |json| json.hide(true)))]
pub(crate) struct Args {
    /// What to write out: nfs://HOST[:PORT]/EXPORT/PATH
    #[arg(required = true)]
    urls: Vec<UrlPattern>,
    /// Begin at this byte of each file: 4096, 1GiB
    #[arg(long, value_name = "BYTES", value_parser = nfs_io::size::parse, default_value = "0")]
    offset: u64,
    /// At most so many bytes of each file
    #[arg(long, value_name = "BYTES", value_parser = nfs_io::size::parse)]
    length: Option<u64>,
    #[command(flatten)]
    windows: WindowArgs,
    #[command(flatten)]
    common: Common,
}

impl Args {
    /// Writes out the files, in order; goes on behind one that fails.
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        self.common.without_json()?;
        session::run(&self.common, async |session| {
            session.set_windows(self.windows.windows());
            let mut out = Out::new()?;
            for url in &session.expand(&self.urls).await {
                self.write_out(url, session, &mut out).await?;
            }
            Ok(out.finish().await?)
        })
    }

    async fn write_out(
        &self,
        url: &NfsUrl,
        session: &mut Session,
        out: &mut Out,
    ) -> anyhow::Result<()> {
        let mut stream = match self.open(url, session).await {
            Ok(stream) => stream,
            Err(error) => {
                session.failed(url, error);
                return Ok(());
            }
        };
        loop {
            match stream.next().await {
                Ok(Some(data)) => out.write(data).await?,
                Ok(None) => return Ok(()),
                Err(error) => {
                    session.failed(url, error);
                    return Ok(());
                }
            }
        }
    }

    /// The byte behind the last one that is wanted.
    fn end(&self) -> u64 {
        self.length
            .map_or(u64::MAX, |len| self.offset.saturating_add(len))
    }

    async fn open(&self, url: &NfsUrl, session: &mut Session) -> Result<ReadStream, ClientError> {
        let (client, path) = session.at(url).await?;
        let file = client.open(&path).await?;
        Ok(file.stream(self.offset).until(self.end()))
    }
}
