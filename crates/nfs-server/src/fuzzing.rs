//! The way of a peer's bytes through the server to the reply's bytes, without a socket: the same code
//! that a connection runs, for the fuzz target `dispatch` and for nothing else.

use std::cell::Cell;
use std::hash::RandomState;
use std::net::{IpAddr, Ipv4Addr};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use nfs_io::engine::Engine;
use nfs_io::{EngineKind, FutureBoxes};
use tokio::runtime::Runtime;

use crate::exports::config::Config;
use crate::front::context::Context;
use crate::front::dispatch::{self, Answer, Begun};
use crate::front::service::Service;
use crate::host::state_dir::StateDir;
use crate::net::receive::{Receiver, Step, Wanted};
use crate::operate::calls;
use crate::rpc::caller::Caller;
use crate::rpc::client_id::Peer;
use crate::rpc::standing::Standing;
use crate::server::{Facts, StartError, make_service};

/// Descriptors that the server may hold.
const FDS: u64 = 1024;
/// The address that the calls of the fuzzer come from.
const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// A server without connections, to which a fuzzer hands records.
pub struct Dispatch {
    service: Arc<Service>,
    engine: Engine,
    pub(crate) runtime: Runtime,
    peer: Rc<Peer>,
    _state_dir: StateDir,
}

impl Dispatch {
    /// A server of `config`, with blocking calls in place of a ring.
    ///
    /// # Errors
    /// As [`Server::start`](crate::Server::start).
    pub fn new(config: &Config, state_dir: StateDir) -> Result<Self, StartError> {
        let failed = |error: std::io::Error| StartError::Failed(error.to_string());
        let engine = (EngineKind::Threads, String::new());
        let facts = Facts::new(config.server.memory_bytes, engine, FDS);
        let service = Arc::new(make_service(config, &state_dir, &facts)?);
        Ok(Self {
            engine: Engine::threads(service.vfs.pool.clone()),
            service,
            peer: Rc::new(Peer::new(RandomState::new(), HERE, 0)),
            runtime: tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .map_err(failed)?,
            _state_dir: state_dir,
        })
    }

    /// What one connection, which sends these `bytes` in reads of `read_len`, is sent: one record per
    /// reply, with its mark. `None` at the end where the connection is closed on it.
    pub fn receive(&self, bytes: &[u8], read_len: usize) -> Vec<Option<Vec<u8>>> {
        let mut receiver = Receiver::new(
            self.service.vfs.io_bytes_max,
            self.service.receive_buffers.clone(),
        );
        let mut replies = Vec::new();
        for mut read in bytes.chunks(read_len.max(1)) {
            if !self.feed(&mut receiver, &mut read, &mut replies) {
                replies.push(None);
                return replies;
            }
        }
        replies
    }

    /// False where the connection is to be closed.
    fn feed(
        &self,
        receiver: &mut Receiver,
        bytes: &mut &[u8],
        replies: &mut Vec<Option<Vec<u8>>>,
    ) -> bool {
        let pool = &self.service.receive_buffers;
        loop {
            match receiver.feed(bytes) {
                Err(_) => return false,
                Ok(Step::More) => return true,
                Ok(Step::Memory(Wanted::Record(len))) => {
                    match pool.budget().try_reserve(len as u64) {
                        Some(reservation) => receiver.reserved(reservation),
                        None => return false,
                    }
                }
                Ok(Step::Memory(Wanted::Data { len, start })) => {
                    let caller = self.context().caller;
                    let is_let_in = |begun: &Begun| begun.is_let_in(&self.service, &caller);
                    if !receiver.begun().is_some_and(is_let_in) {
                        receiver.received_into_nothing();
                        continue;
                    }
                    match pool.try_take_placed(len, start) {
                        Some(data) => receiver.received_into(data),
                        None => return false,
                    }
                }
                Ok(Step::Call(call)) => {
                    let answer = dispatch::answer(self.context(), call);
                    match self.runtime.block_on(answer) {
                        Answer::Reply(reply) => {
                            let bytes = reply.bytes();
                            replies.push(Some(bytes));
                        }
                        Answer::Nothing => {}
                        Answer::Close => return false,
                    }
                }
            }
        }
    }

    /// What a call is run with that has come just now.
    pub(crate) fn context(&self) -> Context {
        Context {
            service: Arc::clone(&self.service),
            engine: self.engine.clone(),
            compound_boxes: FutureBoxes::new(0),
            peer: Rc::clone(&self.peer),
            turn: Default::default(),
            gone: Default::default(),
            caller: Caller::of_connection(
                (HERE, 1023),
                Standing::Distant,
                self.peer.unnamed(),
                Instant::now(),
            ),
            received: calls::now(),
            origin: self.service.replies.origin(),
            crowded: false,
            export: Cell::default(),
            mode: Cell::default(),
            shares_looks: false,
            call_note: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::*;
    use crate::exports::config::{ExportConfig, ServerConfig};

    /// A NULL of the NFS program by AUTH_NONE, as a record (RFC 5531 §8, §9 and §11).
    fn null() -> Vec<u8> {
        let call = [7, 0, 2, 100_003, 3, 0, 0, 0, 0, 0];
        let record: Vec<u8> = call.into_iter().flat_map(u32::to_be_bytes).collect();
        let len = u32::try_from(record.len()).unwrap();
        [&(len | 1 << 31).to_be_bytes()[..], &record].concat()
    }

    /// A call that was received before its client was shut out, and is dispatched after it.
    #[test]
    fn a_call_of_a_blocked_client_is_not_answered_and_its_connection_ends() {
        let scratch = tempfile::tempdir().unwrap();
        let state_dir = StateDir::open(&scratch.path().join("state")).unwrap();
        let exports = vec![ExportConfig::new(scratch.path(), "/")];
        let config = Config::from_flags(ServerConfig::default(), exports);
        let dispatch = Dispatch::new(&config, state_dir).unwrap();
        let (service, now) = (&dispatch.service, Instant::now());
        let answered = |times| vec![true; times];
        let outcome = |calls: usize| -> Vec<bool> {
            let replies = dispatch.receive(&null().repeat(calls), usize::MAX);
            replies.iter().map(Option::is_some).collect()
        };
        assert_eq!(outcome(2), answered(2));
        let other = "127.0.0.2/32".parse().unwrap();
        service.blocked.add(other, None, now).unwrap();
        assert_eq!(outcome(2), answered(2));
        let here = "127.0.0.1/32".parse().unwrap();
        service.blocked.add(here, None, now).unwrap();
        assert_eq!(outcome(2), [false]);
        let blocked = &service.counters.access.calls_blocked;
        assert_eq!(blocked.load(Ordering::Relaxed), 1);
        service.blocked.remove(here, now).unwrap();
        assert_eq!(outcome(2), answered(2));
    }
}
