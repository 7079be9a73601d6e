//! A direct WRITE whose ends are held until a neighbour completes their blocks, or which completes those of
//! neighbours: see [`staging`](super::super::staging).
//!
//! What a neighbour left of a block is copied into the buffer of the WRITE that completes it, before its first byte
//! or behind its last one: a payload lies in memory as it does in the file, so there is room up to the next
//! page. A record of a stream so goes out in one direct write.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use nfs_io::Buf;
use nfs_io::staging::End;

use super::super::Result;
use super::super::staging::{Sender, WHOLE, Why};
use super::decide::len_of;
use super::transfer::Transfer;
use crate::limits;
use crate::vfs::{Stability, Target, Vfs};

impl Vfs {
    /// Takes a WRITE of `data` into its file's staging if the decision lets it, and changes the decision to what is to
    /// be written now. Else, and of what is not staged, nothing is held of its range when this returns.
    ///
    /// # Errors
    /// [`Error::Busy`](super::Error::Busy) when too much waits for the file system.
    pub(super) async fn stage(
        self: &Arc<Self>,
        target: &Target,
        file: &Arc<OwnedFd>,
        transfer: &mut Transfer<'_>,
        data: &mut Buf,
    ) -> Result<()> {
        let object = &target.object;
        let asked = transfer.decision.asked();
        if !transfer.decision.may_be_staged() || !has_room_for_neighbours(data, asked.start) {
            let range = match transfer.decision.stability {
                // The times in its reply are a promise: what was accepted before it may not change them later.
                Stability::FileSync => WHOLE,
                Stability::Unstable | Stability::DataSync => asked,
            };
            return self.settle(object.inode(), &range, Why::Write).await;
        }
        let sender = Arc::new(Sender {
            object: Arc::clone(object),
            file: Arc::clone(file),
            creds: target.actor.creds.clone(),
            author: target.actor.author,
            queue: target.queue(),
        });
        let taken_in = self.take_in(&sender, target.sharer(), &asked, data).await?;
        let Some((mut staged, placed)) = taken_in else {
            return Ok(());
        };
        let (before, behind) = placed.of_others(&asked);
        let mut copied = before.len() + behind.len();
        let enclosed = data.enclose(before, behind);
        assert!(enclosed, "there is room up to the next page");
        let ends = [
            (placed.head, placed.run.start.saturating_sub(asked.start)),
            (placed.tail, asked.end.saturating_sub(placed.run.end)),
        ];
        for (end, bytes) in ends {
            match end {
                End::Held => copied += usize::try_from(bytes).unwrap_or(0),
                End::Refused => self.note_refused_part(),
                End::Aligned | End::Completes => {}
            }
        }
        transfer.tally.copied(copied);
        transfer.decision = transfer.decision.with_run(&placed);
        self.join(&mut staged, placed.taken);
        transfer.staged = Some(staged);
        Ok(())
    }
}

/// May the bytes that complete a block stand before the data and behind it?
fn has_room_for_neighbours(data: &Buf, offset: u64) -> bool {
    let block = limits::STAGED_BLOCK_BYTES;
    let before = nfs_io::plan::placement(offset);
    let end = data.lead() + data.len();
    data.lead() >= before && end.next_multiple_of(block) <= data.lead() + data.capacity()
}

impl Transfer<'_> {
    /// The WRITE's segments were written, or failed. Of how many bytes of its own `written` (bytes of the segments)
    /// tells, beginning with the first.
    pub(super) fn end_staging(&mut self, written: Result<usize>, offset: u64) -> Result<usize> {
        let Some(staged) = self.staged.take() else {
            return written;
        };
        let planned: usize = self
            .decision
            .segments()
            .map(|segment| len_of(&segment))
            .sum();
        let first = self.decision.segments().next();
        let first = first.map_or(offset, |segment| segment.file.start);
        let asked = staged.asked();
        let reached = match written {
            Ok(done) if done == planned => asked.end,
            Ok(done) => (first + done as u64).clamp(asked.start, asked.end - 1),
            Err(_) => asked.start,
        };
        staged.ended(reached);
        written.map(|_| usize::try_from(reached - asked.start).unwrap_or(usize::MAX))
    }
}
