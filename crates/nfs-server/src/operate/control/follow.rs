//! A control connection that follows trace events.

use std::io;

use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};

use super::success;
use crate::limits;
use crate::operate::trace::{Follower, TraceLine};

/// Sends what `follower` gets until the peer closes or says anything more; its events are switched
/// off then. A peer that does not read holds up nobody: it loses events.
pub(super) async fn stream(
    mut reader: BufReader<OwnedReadHalf>,
    mut writer: OwnedWriteHalf,
    mut follower: Follower,
) -> io::Result<()> {
    let mut lines = success(&());
    lines.push('\n');
    loop {
        tokio::select! {
            written = writer.write_all(lines.as_bytes()) => written?,
            _ = reader.fill_buf() => return Ok(()),
        }
        lines.clear();
        let first = tokio::select! {
            line = follower.next() => line,
            _ = reader.fill_buf() => return Ok(()),
        };
        put(&mut lines, &first)?;
        while lines.len() < limits::TRACE_WRITE_BYTES_MAX
            && let Some(line) = follower.at_once()
        {
            put(&mut lines, &line)?;
        }
    }
}

fn put(lines: &mut String, line: &TraceLine) -> io::Result<()> {
    lines.push_str(&serde_json::to_string(line)?);
    lines.push('\n');
    Ok(())
}
