//! Standard output for file contents: a piece at a time as it came, with no buffer in between.

use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;

use bytes::Bytes;
use rustix::fs::FileType;
use tokio::sync::{mpsc, oneshot};

use crate::limits::PIECES_WAITING_MAX;

/// Standard output, a piece at a time as it came: no buffer of the library's in between.
pub(crate) enum Out {
    /// A file: writing does not wait for anybody.
    Here(File),
    /// Anything that may wait for a reader, such as a pipe: a thread of its own writes, because the
    /// connection has to be served meanwhile, however long that takes.
    Thread {
        pieces: mpsc::Sender<Bytes>,
        result: oneshot::Receiver<io::Result<()>>,
    },
}

/// A pipe that takes this much at once, bytes, lets reader and writer work longer between two switches.
const PIPE_BYTES: usize = 1 << 20;

impl Out {
    /// The standard output of this process, as a stream of pieces.
    pub(crate) fn new() -> io::Result<Self> {
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

    /// Writes `data`, or hands it to the thread that does: then an error is told by a later call.
    pub(crate) async fn write(&mut self, data: Bytes) -> io::Result<()> {
        match self {
            Self::Here(out) => out.write_all(&data),
            Self::Thread { pieces, result } => match pieces.send(data).await {
                Ok(()) => Ok(()),
                Err(_) => Err(ended(result).await),
            },
        }
    }

    /// Waits until everything is written.
    pub(crate) async fn finish(self) -> io::Result<()> {
        match self {
            Self::Here(_) => Ok(()),
            Self::Thread { pieces, mut result } => {
                drop(pieces);
                (&mut result).await.unwrap_or_else(|_| Err(gone()))
            }
        }
    }
}

/// The reason for which the writing thread ended before its work did.
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
