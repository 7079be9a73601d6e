//! `penstock trace record`: keeps the calls of a load in a file, for `penstock bench replay`.

use std::cell::Cell;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write as _};
use std::net::IpAddr;
use std::ops::ControlFlow;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use anyhow::Context as _;
use nfs_load::recording::{Call, End, Header, Writer};
use nfs_server::host::state_dir;
use nfs_server::operate::control::{
    self, Command, ControlError, RecordedCall, RecordingLine, RecordingQuery, Status,
};
use parking_lot::Mutex;

use super::time;
use crate::exit::UsageError;
use crate::interrupt::Interrupts;
use crate::limits::RECORDING_BYTES_MIN;
use crate::{message, results, running};

/// Keep the calls of a load in a file, for `penstock bench replay`
///
/// Of each procedure of NFSv3 and operation of NFSv4 the file has what it was, where in
/// which file, when, for how long and with what result. It has no data and no names:
/// files, names and clients are numbers that are made with a key of this recording, which
/// is in no file and goes with its end. The server waits for nobody: calls that come
/// faster than they are written are left out and counted, in the file, too.
///
/// Ends after --for, at --max-size, or when it is interrupted.
///
/// Examples:
///
///   penstock trace record morning.rec --for 600s
///   penstock bench replay morning.rec --self=buffered,direct
#[derive(clap::Args, Debug)]
#[command(verbatim_doc_comment)]
pub(super) struct Args {
    /// The file to be written: its user's alone (mode 0600)
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// State directory of the server. Default: that of the only one that runs
    #[arg(long, value_name = "DIR")]
    state_dir: Option<PathBuf>,
    /// Replace the file if there is one
    #[arg(long)]
    force: bool,
    /// End after this time, as 500ms or 600s
    #[arg(long = "for", value_name = "TIME", value_parser = time)]
    limit: Option<Duration>,
    /// End when the file has this size
    #[arg(long, value_name = "SIZE", value_parser = size, default_value = "1GiB")]
    max_size: u64,
    /// Only calls on this export (the path that clients mount)
    #[arg(long, value_name = "PATH")]
    export: Option<String>,
    /// Only calls that come from this address
    #[arg(long, value_name = "ADDR")]
    client: Option<IpAddr>,
    /// Print one JSON object instead of a line
    #[arg(long)]
    json: bool,
}

fn size(text: &str) -> Result<u64, String> {
    let size = nfs_io::size::parse(text).map_err(|error| error.to_string())?;
    match size >= RECORDING_BYTES_MIN {
        true => Ok(size),
        false => Err(format!("give at least {RECORDING_BYTES_MIN} bytes")),
    }
}

/// A recording that is being written, until it has an end.
struct Kept {
    writer: Writer<BufWriter<File>>,
    flushed: Instant,
    end: Option<End>,
}

/// How long calls may wait in memory before they are in the file.
const FLUSH_EVERY: Duration = Duration::from_secs(1);

impl Args {
    pub(super) fn run(self) -> anyhow::Result<ExitCode> {
        results::begin(self.json);
        let directory = match &self.state_dir {
            Some(directory) => directory.clone(),
            None => running::only_one()?,
        };
        let socket = state_dir::control_socket(&directory);
        let status: Status = control::request(&socket, Command::Status)?;
        let new = NewFile::create(&self.file, self.force)?;
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let header = Header {
            began_ns: u64::try_from(now.unwrap_or_default().as_nanos()).unwrap_or(u64::MAX),
            server: status.version,
        };
        let out = BufWriter::new(new.file.try_clone()?);
        let writer = Writer::begin(out, &header, self.max_size).context(self.shown())?;
        let kept = Arc::new(Mutex::new(Kept {
            writer,
            flushed: Instant::now(),
            end: None,
        }));
        let begun = Instant::now();
        self.record(&socket, &kept, new)?;
        self.tell(&kept.lock(), begun.elapsed())
    }

    fn shown(&self) -> String {
        self.file.display().to_string()
    }

    /// Records until there is an end.
    fn record(&self, socket: &Path, kept: &Arc<Mutex<Kept>>, new: NewFile) -> anyhow::Result<()> {
        let query = RecordingQuery {
            export: self.export.clone(),
            client: self.client,
            for_ms: self
                .limit
                .map(|limit| u64::try_from(limit.as_millis()).unwrap_or(u64::MAX)),
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .context("cannot start the event loop")?;
        let is_timed = self.limit.is_some();
        let ended = runtime.block_on(async {
            let mut interrupts = Interrupts::new()?;
            let (socket, sink) = (socket.to_owned(), Arc::clone(kept));
            let follow = tokio::task::spawn_blocking(move || follow(&socket, query, &sink, new));
            tokio::select! {
                followed = follow => match followed.context("the recording panicked")?? {
                    Some(end) => anyhow::Ok(end),
                    None if is_timed => Ok(End::Asked),
                    None => Ok(End::Server),
                },
                () = interrupts.next() => Ok(End::Asked),
            }
        });
        // The thread that waits for the server's next line ends with the process.
        runtime.shutdown_background();
        kept.lock().finish(ended?).with_context(|| self.shown())
    }

    fn tell(&self, kept: &Kept, took: Duration) -> anyhow::Result<ExitCode> {
        let (calls, lost) = (kept.writer.calls(), kept.writer.lost_calls());
        let bytes = kept.writer.bytes();
        let why = match kept.end {
            Some(End::Full) => "full",
            Some(End::Server) => "server",
            Some(End::Asked | End::Cut) | None => "asked",
        };
        if lost > 0 {
            message::warn(format_args!(
                "{lost} calls are missing in {}: they came faster than they were written",
                self.shown()
            ));
        }
        let mut out = io::stdout().lock();
        if self.json {
            let seconds = took.as_secs_f64();
            let line = serde_json::json!({
                "file": self.shown(), "calls": calls, "lost": lost, "bytes": bytes, "seconds": seconds, "end": why,
            });
            writeln!(out, "{line}")?;
            return Ok(ExitCode::SUCCESS);
        }
        let reason = match why {
            "full" => " (it has the size that --max-size gives it)",
            "server" => " (the server has ended)",
            _ => "",
        };
        writeln!(out, "{calls} calls in {bytes} bytes{reason}")?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Writes what the server tells, until that ends (`None`) or the file does.
fn follow(
    socket: &Path,
    query: RecordingQuery,
    kept: &Mutex<Kept>,
    new: NewFile,
) -> anyhow::Result<Option<End>> {
    let unplaced = Cell::new(None);
    let begun = || match new.keep() {
        Ok(()) => eprintln!("recording; interrupt to end"),
        Err(error) => unplaced.set(Some(error)),
    };
    let ended = control::record_calls(socket, query, begun, |line| {
        if let Some(error) = unplaced.take() {
            return ControlFlow::Break(Err(error));
        }
        match kept.lock().take(&line) {
            Ok(ControlFlow::Continue(())) => ControlFlow::Continue(()),
            Ok(ControlFlow::Break(end)) => ControlFlow::Break(Ok(end)),
            Err(error) => ControlFlow::Break(Err(error.into())),
        }
    });
    let ended = ended.map_err(|error| match error {
        // What is wrong with the order, and not with the server.
        ControlError::Refused(text) => anyhow::Error::new(UsageError(text)),
        error => error.into(),
    })?;
    ended.transpose()
}

impl Kept {
    fn take(&mut self, line: &RecordingLine) -> io::Result<ControlFlow<End>> {
        if let Some(end) = self.end {
            return Ok(ControlFlow::Break(end));
        }
        match line {
            RecordingLine::Call(call) => {
                if !self.writer.call(&kept_of(call))? {
                    return Ok(ControlFlow::Break(End::Full));
                }
            }
            RecordingLine::Lost { lost } => self.writer.lost(*lost)?,
        }
        if self.flushed.elapsed() >= FLUSH_EVERY {
            self.writer.flush()?;
            self.flushed = Instant::now();
        }
        Ok(ControlFlow::Continue(()))
    }

    fn finish(&mut self, end: End) -> io::Result<()> {
        self.end = Some(end);
        self.writer.end(end)?;
        // What the disk has no room for shows here at the latest.
        self.writer.get_ref().get_ref().sync_all()
    }
}

fn kept_of(call: &RecordedCall) -> Call {
    Call {
        at_ns: i64::try_from(call.at_ns).unwrap_or(i64::MAX),
        took_ns: call.took_ns,
        version: call.version,
        number: call.number,
        follows: call.follows,
        client: call.client,
        connection: call.connection,
        on: call.on,
        name: call.name,
        to: call.to,
        to_name: call.to_name,
        range: call.range,
        how: call.how,
        status: call.status,
        moved: call.moved,
    }
}

/// A file that nobody else can read, and that goes again unless it is kept.
struct NewFile {
    file: File,
    /// Where it is, and where it is to be.
    at: PathBuf,
    to: Option<PathBuf>,
    is_kept: bool,
}

impl NewFile {
    /// Creates the file at `path`; with `force` it takes the place of one that is there when it is kept.
    fn create(path: &Path, force: bool) -> anyhow::Result<Self> {
        let at = match force {
            false => path.to_owned(),
            true => {
                let mut name = path.file_name().unwrap_or_default().to_owned();
                name.push(format!(".{}", std::process::id()));
                path.with_file_name(name)
            }
        };
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&at);
        let file = file.map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => {
                let text = format!(
                    "{} is there: name another file, or give --force",
                    at.display()
                );
                anyhow::Error::new(UsageError(text))
            }
            _ => anyhow::Error::new(error).context(at.display().to_string()),
        })?;
        Ok(Self {
            file,
            at,
            to: force.then(|| path.to_owned()),
            is_kept: false,
        })
    }

    fn keep(mut self) -> anyhow::Result<()> {
        if let Some(to) = &self.to {
            fs::rename(&self.at, to).with_context(|| to.display().to_string())?;
        }
        self.is_kept = true;
        Ok(())
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if self.is_kept {
            return;
        }
        if let Err(error) = fs::remove_file(&self.at) {
            message::warn(format_args!("{}: {error}", self.at.display()));
        }
    }
}
