//! Client identities registered with a ring, so that operations carry a number.

use std::collections::HashMap;

use io_uring::IoUring;

use super::errno_of;
use crate::identity::{Guard, ServerIdentity};
use crate::limits::RING_PERSONALITIES_MAX;
use crate::{Creds, Errno, Result};

/// A bounded table; the identity longest unused gives way.
#[derive(Default)]
pub(super) struct Personalities {
    known: HashMap<Creds, Known>,
    clock: u64,
}

struct Known {
    number: u16,
    used: u64,
}

/// The number that stands for whoever submits: the server itself.
const SUBMITTER: u16 = 0;

impl Personalities {
    /// The number of an identity that needs no registration now.
    pub(super) fn find(&mut self, creds: &Creds) -> Option<u16> {
        let server = ServerIdentity::current();
        if !server.can_switch() || creds == server.creds() {
            return Some(SUBMITTER);
        }
        self.clock += 1;
        let known = self.known.get_mut(creds)?;
        known.used = self.clock;
        Some(known.number)
    }

    pub(super) fn is_full(&self) -> bool {
        self.known.len() >= RING_PERSONALITIES_MAX
    }

    /// Registers `creds`, giving up another identity if there are too many. What the kernel has
    /// accepted keeps the identity it was submitted with.
    pub(super) fn register(&mut self, ring: &IoUring, creds: &Creds) -> Result<u16> {
        if self.is_full() {
            self.give_up_one(ring)?;
        }
        // Registering takes the identity that the thread has at that moment.
        let number = {
            let _guard = Guard::enter(creds)?;
            ring.submitter()
                .register_personality()
                .map_err(|error| errno_of(&error))?
        };
        self.clock += 1;
        self.known.insert(
            creds.clone(),
            Known {
                number,
                used: self.clock,
            },
        );
        Ok(number)
    }

    fn give_up_one(&mut self, ring: &IoUring) -> Result<()> {
        let oldest = self.known.iter().min_by_key(|(_, known)| known.used);
        let Some((creds, known)) = oldest.map(|(creds, known)| (creds.clone(), known.number))
        else {
            return Err(Errno::NOMEM);
        };
        ring.submitter()
            .unregister_personality(known)
            .map_err(|error| errno_of(&error))?;
        self.known.remove(&creds);
        Ok(())
    }
}
