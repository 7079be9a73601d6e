//! How a connection leaves its shard for another ([`loads`](crate::net::loads) says when): nothing of it is on its way,
//! its calls that come meanwhile wait in the socket, and what is known of its client goes with it.

use std::rc::Rc;
use std::sync::Arc;

use super::Connection;
use crate::net::receive::Receiver;
use crate::rpc::client_id::Peer;
use crate::rpc::reply_cache::Origin;

/// What stays of a connection that goes to another shard, beside its stream and its place in the books.
pub(crate) struct Known {
    pub(super) from: Peer,
    pub(super) origin: Arc<Origin>,
}

/// A connection that leaves its shard.
pub(crate) struct Moving {
    pub(crate) stream: std::net::TcpStream,
    pub(crate) known: Known,
    /// The number of the shard that it goes to.
    pub(crate) to: usize,
}

impl Connection {
    /// The shard that the connection is to go to, if there is one and nothing of it is on its way here.
    pub(super) fn way_out(self: &Rc<Self>, receiver: &Receiver) -> Option<usize> {
        let load = &self.shard.load;
        // Asked for first, as there is hardly ever one.
        if !load.has_a_way() || !receiver.is_idle() || !self.output.borrow().is_empty() {
            return None;
        }
        // Each call on its way has one of the two.
        let has_no_call = Rc::strong_count(self) == 1 && Rc::strong_count(&self.from) == 1;
        has_no_call.then(|| load.way_for(&self.load))?
    }

    /// Takes the connection apart, of which nothing is on its way.
    pub(super) fn leave(connection: Rc<Self>, to: usize) -> Option<Moving> {
        let Self {
            stream,
            from,
            origin,
            ..
        } = Rc::into_inner(connection)?;
        let from = Rc::into_inner(from)?;
        let stream = match stream.into_std() {
            Ok(stream) => stream,
            Err(error) => {
                tracing::debug!(%error, "a connection ended as it could not go to another shard");
                from.line().end();
                return None;
            }
        };
        Some(Moving {
            stream,
            known: Known { from, origin },
            to,
        })
    }
}
