//! `penstock cat`: files of an NFS server to standard output.

use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;
use std::process::ExitCode;

use bytes::Bytes;
use nfs_client::file::ReadStream;
use nfs_client::{ClientError, NfsUrl};
use nfs_server::config::parse_size;
use rustix::fs::FileType;
use tokio::sync::{mpsc, oneshot};

use crate::session::{self, Common, Session};
use crate::{show, windows};

/// Write files of an NFS server to standard output, without mounting it
///
/// The files are written one after the other, each with READs on their way ahead of what is written,
/// so memory stays small whatever their sizes. A file that fails is told, and the next ones are
/// written all the same. A reader that stops early (`| head`) is no error.
///
/// Examples:
///
///   penstock cat nfs://localhost:20049/notes.txt
///
///   penstock cat nfs://server/export/part1 nfs://server/export/part2 > whole
///
///   penstock cat --offset 1GiB --length 4096 nfs://server/export/disk.img | xxd
#[derive(clap::Args, Debug)]
#[command(verbatim_doc_comment, after_long_help = show::AFTER_HELP)]
pub(crate) struct Args {
    /// What to write out: nfs://HOST[:PORT]/EXPORT/PATH
    #[arg(required = true)]
    urls: Vec<NfsUrl>,
    /// Begin at this byte of each file: 4096, 1GiB
    #[arg(long, value_name = "BYTES", value_parser = parse_size, default_value = "0")]
    offset: u64,
    /// At most so many bytes of each file
    #[arg(long, value_name = "BYTES", value_parser = parse_size)]
    length: Option<u64>,
    #[command(flatten)]
    windows: windows::WindowArgs,
    #[command(flatten)]
    common: Common,
}

impl Args {
    /// Writes out the files, in order; goes on behind one that fails.
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        session::run(&self.common, async |session| {
            session.set_windows(self.windows.windows());
            let mut out = Out::new()?;
            for url in &self.urls {
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

    async fn open(&self, url: &NfsUrl, session: &mut Session) -> Result<ReadStream, ClientError> {
        let (client, path) = session.at(url).await?;
        let file = client.open(&path).await?;
        let end = self
            .length
            .map_or(u64::MAX, |len| self.offset.saturating_add(len));
        Ok(file.stream(self.offset).until(end))
    }
}

/// Standard output, a piece at a time as it came: no buffer of the library's in between.
enum Out {
    /// A file: writing does not wait for anybody.
    Here(File),
    /// What may wait for a reader does so on a thread of its own: the connection has to be served
    /// meanwhile, however long that takes.
    Thread {
        pieces: mpsc::Sender<Bytes>,
        result: oneshot::Receiver<io::Result<()>>,
    },
}

/// Pieces that wait for the writing thread.
const PIECES_WAITING_MAX: usize = 1;

/// A pipe that takes this much at once, bytes, lets reader and writer work longer between two switches.
const PIPE_BYTES: usize = 1 << 20;

impl Out {
    fn new() -> io::Result<Self> {
        let stdout = io::stdout();
        let waits = waits_for_a_reader(&stdout);
        let mut out = File::from(stdout.as_fd().try_clone_to_owned()?);
        if !waits {
            return Ok(Self::Here(out));
        }
        // Refused for what is no pipe, and over a user's share of pipe memory: it stays as it is.
        let _as_it_is = rustix::pipe::fcntl_setpipe_size(&out, PIPE_BYTES);
        let (pieces, mut coming) = mpsc::channel::<Bytes>(PIECES_WAITING_MAX);
        let (done, result) = oneshot::channel();
        std::thread::Builder::new()
            .name("penstock-out".to_owned())
            .spawn(move || {
                let mut written = Ok(());
                while let (Ok(()), Some(data)) = (&written, coming.blocking_recv()) {
                    written = out.write_all(&data);
                }
                // Nobody waits for it after Ctrl-C.
                let _nobody = done.send(written);
            })?;
        Ok(Self::Thread { pieces, result })
    }

    async fn write(&mut self, data: Bytes) -> io::Result<()> {
        match self {
            Self::Here(out) => out.write_all(&data),
            Self::Thread { pieces, result } => match pieces.send(data).await {
                Ok(()) => Ok(()),
                Err(_) => Err(ended(result).await),
            },
        }
    }

    async fn finish(self) -> io::Result<()> {
        match self {
            Self::Here(_) => Ok(()),
            Self::Thread { pieces, mut result } => {
                drop(pieces);
                (&mut result).await.unwrap_or_else(|_| Err(gone()))
            }
        }
    }
}

/// Why the writing thread ended before its work did.
async fn ended(result: &mut oneshot::Receiver<io::Result<()>>) -> io::Error {
    match result.await {
        Ok(Err(error)) => error,
        Ok(Ok(())) | Err(_) => gone(),
    }
}

fn gone() -> io::Error {
    io::Error::other("the thread that writes standard output ended")
}

/// Whether writing may have to wait: not for a regular file, nor for a device that is no terminal, such as
/// /dev/null.
fn waits_for_a_reader(out: &(impl AsFd + IsTerminal)) -> bool {
    let kind = rustix::fs::fstat(out).map(|stat| FileType::from_raw_mode(stat.st_mode));
    match kind {
        Ok(FileType::RegularFile | FileType::BlockDevice) => false,
        Ok(FileType::CharacterDevice) => out.is_terminal(),
        _ => true,
    }
}
