//! Ctrl-C: the first one brings what is on its way to an end, the second one ends at once.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// What a shell makes of a program that Ctrl-C ended: 128 and the number of SIGINT.
pub(crate) const INTERRUPTED: u8 = 130;

/// How long a command's calls that are on their way may take to end after it was told to stop.
pub(crate) const GRACE: Duration = Duration::from_secs(5);

/// The signals SIGINT and SIGTERM, which this process takes for itself.
#[derive(Debug)]
pub(crate) struct Interrupts {
    int: Signal,
    term: Signal,
}

/// How a command's work ended.
#[derive(Debug)]
pub(crate) enum Ended<T> {
    /// The work ended by itself, or after it was told to stop.
    Done { value: T, interrupted: bool },
    /// The work was told to stop and took too long, or was told twice.
    GivenUp,
}

impl Interrupts {
    /// Takes over SIGINT and SIGTERM: from now on they do not end the process but are told by this.
    pub(crate) fn new() -> anyhow::Result<Self> {
        let listen = |kind| signal(kind).context("cannot listen for Ctrl-C");
        Ok(Self {
            int: listen(SignalKind::interrupt())?,
            term: listen(SignalKind::terminate())?,
        })
    }

    /// Waits for the next of these signals.
    pub(crate) async fn next(&mut self) {
        tokio::select! {
            _ = self.int.recv() => {}
            _ = self.term.recv() => {}
        }
    }

    /// Runs `work`. At the first signal, `stop` is called, and the work may take [`GRACE`] to end.
    pub(crate) async fn watch<T>(
        &mut self,
        work: impl Future<Output = T>,
        stop: impl FnOnce(),
    ) -> Ended<T> {
        let mut work = std::pin::pin!(work);
        tokio::select! {
            value = &mut work => return Ended::Done { value, interrupted: false },
            () = self.next() => {}
        }
        stop();
        tokio::select! {
            value = tokio::time::timeout(GRACE, work) => match value {
                Ok(value) => Ended::Done { value, interrupted: true },
                Err(_) => Ended::GivenUp,
            },
            () = self.next() => Ended::GivenUp,
        }
    }
}

/// The exit code of an interrupted command.
pub(crate) fn exit_code() -> ExitCode {
    ExitCode::from(INTERRUPTED)
}

/// A word as a shell takes it back, whatever bytes are in it.
pub(crate) fn quoted(word: &OsStr) -> String {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_./:=,@%+".contains(byte);
    let bytes = word.as_bytes();
    if !bytes.is_empty() && bytes.iter().all(plain) {
        return word.to_string_lossy().into_owned();
    }
    match word.to_str() {
        Some(text) if !text.contains(char::is_control) => {
            format!("'{}'", text.replace('\'', "'\\''"))
        }
        // What a terminal would not show, or no text at all.
        _ => {
            let escaped: String = bytes
                .iter()
                .map(|&byte| match byte {
                    b'\'' | b'\\' => format!("\\{}", char::from(byte)),
                    b' '..=b'~' => char::from(byte).to_string(),
                    byte => format!("\\x{byte:02x}"),
                })
                .collect();
            format!("$'{escaped}'")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_survive_a_shell() {
        let table: [(&[u8], &str); 7] = [
            (b"plain-1.txt", "plain-1.txt"),
            (b"nfs://h:1/a%20b?uid=3", "'nfs://h:1/a%20b?uid=3'"),
            (b"", "''"),
            (b"it's", "'it'\\''s'"),
            (b"a b", "'a b'"),
            (b"a\n'b", "$'a\\x0a\\'b'"),
            (b"\xff\\", "$'\\xff\\\\'"),
        ];
        for (word, expected) in table {
            assert_eq!(quoted(OsStr::from_bytes(word)), expected);
        }
    }
}
