//! A control connection that follows trace events, calls or the audit, or records calls.

use std::io;

use serde::Serialize;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};

use super::success;
use crate::limits;
use crate::operate::audit::AuditFollower;
use crate::operate::calls::{CallFollower, Recording};
use crate::operate::trace::Follower;

/// What a connection follows.
pub(super) enum Following {
    Trace(Follower),
    Calls(Box<CallFollower>),
    Recording(Box<Recording>),
    Audit(AuditFollower),
}

/// Sends what `follower` gets until the peer closes or says anything more; its events are switched
/// off then. A peer that does not read holds up nobody: it loses events.
pub(super) async fn stream(
    mut reader: BufReader<OwnedReadHalf>,
    mut writer: OwnedWriteHalf,
    mut follower: Following,
) -> io::Result<()> {
    let mut lines = success(&());
    lines.push('\n');
    loop {
        tokio::select! {
            written = writer.write_all(lines.as_bytes()) => written?,
            _ = reader.fill_buf() => return Ok(()),
        }
        lines.clear();
        let is_open = tokio::select! {
            is_open = follower.next(&mut lines) => is_open?,
            _ = reader.fill_buf() => return Ok(()),
        };
        if !is_open {
            return Ok(());
        }
        while lines.len() < limits::TRACE_WRITE_BYTES_MAX && follower.at_once(&mut lines)? {}
    }
}

impl Following {
    /// Waits for the next line and appends it to `lines`; `false` where none will come.
    async fn next(&mut self, lines: &mut String) -> io::Result<bool> {
        match self {
            Self::Trace(follower) => put(lines, Some(follower.next().await)),
            Self::Calls(follower) => put(lines, follower.next().await),
            Self::Recording(recording) => put(lines, recording.next().await),
            Self::Audit(follower) => put(lines, follower.next().await),
        }
    }

    /// Appends a line that is there; `false` where none is.
    fn at_once(&mut self, lines: &mut String) -> io::Result<bool> {
        match self {
            Self::Trace(follower) => put(lines, follower.at_once()),
            Self::Calls(follower) => put(lines, follower.at_once()),
            Self::Recording(recording) => put(lines, recording.at_once()),
            Self::Audit(follower) => put(lines, follower.at_once()),
        }
    }
}

fn put(lines: &mut String, line: Option<impl Serialize>) -> io::Result<bool> {
    let Some(line) = line else {
        return Ok(false);
    };
    lines.push_str(&serde_json::to_string(&line)?);
    lines.push('\n');
    Ok(true)
}
