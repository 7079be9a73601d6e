//! The way to the server: figures at every interval, and changes of modes between them.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender};
use std::time::{Duration, Instant};

use nfs_server::host::state_dir;
use nfs_server::operate::control::{
    self, Command, ControlError, IoChanged, IoOrder, IoQuery, IoState,
};
use nfs_server::operate::metrics::Snapshot;

use crate::limits::TOP_RETRY_MAX;

/// The sockets of a server.
#[derive(Clone, Debug)]
pub(super) struct Door {
    control: PathBuf,
    status: PathBuf,
}

/// What the server told in one answer.
pub(super) struct Told {
    pub(super) snapshot: Snapshot,
    pub(super) policies: Vec<IoState>,
    /// It was told on the socket that changes nothing.
    pub(super) only_looks: bool,
}

/// What the feed has for the screen.
pub(super) enum Fed {
    Told(Box<Told>),
    Lost(String),
    Changed(Box<Result<IoChanged, String>>),
}

impl Door {
    pub(super) fn new(directory: &Path) -> Self {
        Self {
            control: state_dir::control_socket(directory),
            status: state_dir::status_socket(directory),
        }
    }

    /// Asks for all figures: on the control socket or, for those who may not, on the one for looking.
    pub(super) fn look(&self) -> Result<Told, ControlError> {
        let denied = match ask(&self.control) {
            Ok((snapshot, policies)) => {
                return Ok(Told {
                    snapshot,
                    policies,
                    only_looks: false,
                });
            }
            Err(error) => error,
        };
        if !is_denied(&denied) {
            return Err(denied);
        }
        let (snapshot, policies) = match ask(&self.status) {
            Ok(told) => told,
            // Where neither may be used, it is the first that has to be told of.
            Err(error) if is_denied(&error) => return Err(denied),
            Err(error) => return Err(error),
        };
        Ok(Told {
            snapshot,
            policies,
            only_looks: true,
        })
    }
}

fn ask(socket: &Path) -> Result<(Snapshot, Vec<IoState>), ControlError> {
    let policies = control::request(socket, Command::Io(IoQuery::default()))?;
    Ok((control::request(socket, Command::Metrics)?, policies))
}

/// Whether this user may not use the socket, or does not even see it.
fn is_denied(error: &ControlError) -> bool {
    let kinds = [
        std::io::ErrorKind::PermissionDenied,
        std::io::ErrorKind::NotFound,
    ];
    matches!(error, ControlError::Connect { source, .. } if kinds.contains(&source.kind()))
}

/// Asks at every `interval` until nobody listens any more; orders are passed on as they come.
pub(super) fn run<E>(
    door: &Door,
    interval: Duration,
    orders: &Receiver<IoOrder>,
    out: &SyncSender<E>,
    event: impl Fn(Fed) -> E,
) {
    loop {
        let begun = Instant::now();
        let (fed, rest) = match door.look() {
            Ok(told) => (Fed::Told(Box::new(told)), interval),
            Err(error) => (Fed::Lost(sentence(&error)), interval.min(TOP_RETRY_MAX)),
        };
        if out.send(event(fed)).is_err() {
            return;
        }
        match orders.recv_timeout(rest.saturating_sub(begun.elapsed())) {
            // What was changed is shown at once.
            Ok(order) => {
                let changed = control::request(&door.control, Command::IoSet(order));
                let changed = changed.map_err(|error| sentence(&error));
                if out.send(event(Fed::Changed(Box::new(changed)))).is_err() {
                    return;
                }
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

/// The error with its cause.
fn sentence(error: &ControlError) -> String {
    match std::error::Error::source(error) {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}
