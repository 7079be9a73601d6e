//! READ, WRITE and COMMIT.
//!
//! How a call is moved is decided before it moves a byte (`decide.rs`); the shard's engine then moves the
//! segments that were decided (`read.rs`, `write.rs`), answers a READ from what `read_ahead.rs` had read, or finds the
//! pages that it is sent from (`spliced.rs`). What the file system refuses is done through the page
//! cache within the same call, counted (`transfer.rs`), and remembered for the file (`refusals.rs`). COMMIT
//! and what else puts a file on stable storage is in `commit.rs`. A stream that extends a file has space taken
//! ahead of it (`stream.rs` says when, `reserve.rs` takes it and gives it back). WRITEs that come out of order wait a moment for
//! those before them (`order.rs` says which, `in_order.rs` has them wait). Where the mode is left to what is seen
//! of the file, `auto.rs` has it chosen.

pub(crate) mod auto;
mod behind_end;
mod commit;
pub(crate) mod decide;
mod in_order;
mod order;
mod read;
mod read_ahead;
mod refusals;
mod reserve;
mod spliced;
mod staged;
mod stream;
mod transfer;
mod write;

use std::os::fd::OwnedFd;
use std::sync::Arc;

use nfs_io::engine::Engine;
use nfs_io::fs::Stat;
use nfs_io::{Buf, FileData, Mode, Share};

pub(crate) use crate::exports::policy::Stability;
pub(crate) use auto::{FileAuto, Surroundings};
pub(crate) use commit::{Rounds, StableWrites};
pub(crate) use in_order::{InOrder, OrderCounters};
pub(crate) use refusals::Refusals;
pub(crate) use reserve::{Reserve, ReserveCounters};
pub(in crate::vfs) use spliced::ClientPipes;

use super::{Access, Attributes, Error, FileKind, Object, Result};
use crate::operate::calls::{StepKind, step};
use crate::vfs::{Target, Vfs};

/// The result of a READ that went well.
pub(crate) struct ReadDone {
    /// The bytes that were read and nothing else.
    pub(crate) data: FileData,
    /// What of its client's share the data is.
    pub(crate) share: Share,
    pub(crate) eof: bool,
    /// The I/O mode that was decided.
    pub(crate) mode: Mode,
    pub(crate) attributes: Attributes,
}

/// The data of a WRITE.
pub(crate) struct Payload {
    pub(crate) data: Buf,
    /// Bytes of the data that were copied within the server on the way into `data`.
    pub(crate) copied: usize,
}

/// The result of a WRITE that went well.
pub(crate) struct WriteDone {
    /// Bytes written, from the first on; never 0 of more than 0.
    pub(crate) count: usize,
    /// How stable the bytes are: at least as stable as was asked for.
    pub(crate) committed: Stability,
    /// The verifier from before the write: if data is lost from then on, the client sees another.
    pub(crate) verifier: [u8; 8],
    /// The I/O mode that was decided.
    pub(crate) mode: Mode,
}

impl Vfs {
    /// The shard's engine for file systems on this machine. A ring executes an operation within the
    /// submitting call if the file system lets it, and FUSE and network file systems let it and then
    /// wait for their peer: those go to the helper pool, where they hold up their own lane only.
    fn engine_for(&self, engine: &Engine, target: &Target) -> Engine {
        if target.object.mount.local {
            engine.clone()
        } else {
            self.thread_engine()
        }
    }

    async fn write_fd(self: &Arc<Self>, target: &Target) -> Result<Arc<OwnedFd>> {
        let looking = step(StepKind::OpenFile);
        let open = target.object.write_fd_if_open();
        looking.hit(open.is_some());
        if let Some(fd) = open {
            return Ok(fd);
        }
        let (vfs, object) = (Arc::clone(self), Arc::clone(&target.object));
        self.opening(target.queue(), move || {
            object.write_fd(vfs.files.budget(), &vfs.writers)
        })
        .await?
    }

    async fn read_fd(self: &Arc<Self>, target: &Target) -> Result<Arc<OwnedFd>> {
        let looking = step(StepKind::OpenFile);
        let open = target.object.read_fd_if_open();
        looking.hit(open.is_some());
        if let Some(fd) = open {
            return Ok(fd);
        }
        let (vfs, object) = (Arc::clone(self), Arc::clone(&target.object));
        self.opening(target.queue(), move || object.read_fd(vfs.files.budget()))
            .await?
    }

    async fn check_io(&self, target: &Target, access: Access, stat: Stat) -> Result<()> {
        let _step = step(StepKind::Permission);
        if target.object.mount.local {
            return target.object.check_io(&target.actor, access, &stat);
        }
        let target = target.clone();
        self.blocking(target.queue(), move || {
            target.object.check_io(&target.actor, access, &stat)
        })
        .await?
    }
}

fn must_be_regular(object: &Object) -> Result<()> {
    if object.kind == FileKind::Regular {
        Ok(())
    } else {
        Err(Error::Invalid)
    }
}
