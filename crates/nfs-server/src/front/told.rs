//! What the audit is told of a call or an operation of one, and when.

use crate::front::context::Context;
use crate::operate::audit::{Asked, Deed, Named, Operation};
use crate::vfs::fh::claimed_export;

/// A deed that the audit is told of when this is dropped, with its status or, where the client left
/// before there was one, without. Only if an export's rules let the caller in: others change nothing
/// and would fill the log.
pub(super) struct Told<'c> {
    cx: &'c Context,
    deed: Option<(u32, Deed)>,
    status: Option<&'static str>,
}

impl<'c> Told<'c> {
    pub(super) fn new(cx: &'c Context, deed: Option<Deed>) -> Self {
        let of_export = deed.and_then(|deed| Some((claimed_export(&deed.on.handle)?, deed)));
        Self {
            cx,
            deed: of_export,
            status: None,
        }
    }

    /// It ended with this status, in the protocol's own word.
    pub(super) fn answered(mut self, status: Option<&'static str>) {
        self.status = status;
    }
}

impl Drop for Told<'_> {
    fn drop(&mut self) {
        if let Some((export, deed)) = self.deed.take()
            && self.cx.was_admitted()
        {
            let path_of = |handle: &[u8]| self.cx.vfs().path_of(handle);
            let audit = &self.cx.service.audit;
            audit.tell(export, deed, self.status, path_of);
        }
    }
}

/// What the caller did to `on`.
pub(super) fn deed(cx: &Context, operation: Operation, on: Named, asked: Asked) -> Deed {
    let caller = &cx.caller;
    Deed {
        operation,
        client: caller.call.client,
        uid: caller.identity.uid(),
        on,
        to: None,
        asked,
    }
}
