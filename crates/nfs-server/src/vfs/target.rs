//! What an operation acts on: an object, and on whose behalf it is used.

use std::sync::Arc;

use nfs_io::{Client, Creds, Lane, Queue, Sharer};

use super::{Access, Author, Error, Object, Result, Tree};
use crate::exports::config::Allowance;
use crate::exports::policy::{Asked, Choice, Io, OpenAs};
use crate::host::call_notes::NotedCall;
use crate::operate::trace::{About, CallId};

/// Who wants something of a file, as far as its export's rules believe it.
#[derive(Clone)]
pub(crate) struct Actor {
    /// The user and groups as which the kernel is asked and names are changed.
    pub(crate) creds: Creds,
    /// The export's rules let this caller change files.
    pub(crate) writable: bool,
    /// The owner of a file may read and write it whatever its mode says. A front whose protocol knows no
    /// open file asks for this: the caller may have opened the file before its mode was changed.
    pub(crate) owner_goes_on: bool,
    /// What the caller was let do when it opened the file that this is about: it is not asked for again,
    /// whatever the file's mode says since.
    pub(crate) opened_for: Access,
    /// How the file that this is about is open to the caller, as far as the export's I/O rules ask.
    pub(crate) open: OpenAs,
    /// What its client is to get beside others, and at most, where that is not the default. Shared, as every
    /// call has one and moves it several times.
    pub(crate) allowance: Option<Arc<Allowance>>,
    /// Whose changes and write errors these are.
    pub(crate) author: Author,
    /// The call that trace events are about.
    pub(crate) call: CallId,
    /// Where the call notes what it changes, if it must not run twice.
    pub(crate) call_note: Option<Arc<NotedCall>>,
}

impl Actor {
    /// On whose behalf work waits for its turn.
    pub(crate) fn client(&self) -> Client {
        Client::at(self.call.client.ip(), self.author.0)
    }

    /// Whose share of what many want its calls use.
    pub(crate) fn sharer(&self) -> Sharer {
        Sharer {
            weight: self.weight(),
            ..Sharer::of(self.call.client.ip())
        }
    }

    /// How much its client is to get beside others.
    pub(crate) fn weight(&self) -> u32 {
        let allowance = self.allowance.as_deref();
        allowance.unwrap_or(&Allowance::DEFAULT).weight
    }
}

/// An object and who wants something of it.
#[derive(Clone)]
pub(crate) struct Target {
    pub(crate) tree: Arc<Tree>,
    pub(crate) object: Arc<Object>,
    pub(crate) actor: Actor,
}

impl Target {
    /// How an operation of `bytes` (as asked for) is to be moved, by the policy that holds now.
    pub(crate) fn choose(&self, io: Io, bytes: u64) -> Choice {
        let policy = self.tree.export.io.now();
        let name = policy.uses_names().then(|| self.object.name()).flatten();
        policy.choose(&Asked {
            io,
            bytes,
            client: self.actor.call.client.ip(),
            name: name.as_deref(),
            open: self.actor.open,
        })
    }

    /// What trace events of this call are about.
    pub(crate) fn about(&self) -> About<'_> {
        About {
            call: &self.actor.call,
            file: self.object.handle.as_ref(),
        }
    }

    pub(crate) fn lane(&self) -> Lane {
        self.object.mount.lane()
    }

    /// Whose share of what many want a call uses.
    pub(crate) fn sharer(&self) -> Sharer {
        self.actor.sharer()
    }

    /// The line in which work for this caller waits, of all that waits for the object's file system.
    pub(crate) fn queue(&self) -> Queue {
        Queue {
            lane: self.lane(),
            client: self.actor.client(),
            weight: Some(self.actor.weight()),
        }
    }

    /// # Errors
    /// [`Error::ReadOnly`] when this client may only read.
    pub(crate) fn must_be_writable(&self) -> Result<()> {
        if self.actor.writable {
            Ok(())
        } else {
            Err(Error::ReadOnly)
        }
    }

    /// This caller's access to another object of the same tree.
    pub(crate) fn with_object(&self, object: Arc<Object>) -> Self {
        Self {
            object,
            ..self.clone()
        }
    }
}
