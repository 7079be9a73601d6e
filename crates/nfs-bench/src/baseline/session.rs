//! A session of NFSv4.1 over the connection that is measured: set up and ended call by call, and the COMPOUNDs of the
//! load encoded beforehand.
//!
//! The load has a slot of its own for each call in flight, and counts the sequences of those; what is done before and
//! after it goes through one slot more.

use std::net::TcpStream;

use anyhow::{Context, Result, bail};
use nfs_wire::nfs4::ops::{
    ChannelAttrs4, ClientOwner4, CloseArgs, CreateSessionArgs, DestroyClientidArgs,
    DestroySessionArgs, ExchangeIdArgs, LookupArgs, OpenArgs, OpenClaim4, Openflag4, PutfhArgs,
    ReclaimCompleteArgs, SequenceArgs, StateProtect4A,
};
use nfs_wire::nfs4::{
    self, ArgOp, CALLBACK_PROGRAM, Clientid4, Component4, CompoundArgs, CompoundRes, FileHandle,
    Nfsstat4, Opaque4, ResOp, Sessionid4, StateOwner4, Stateid4, Tag, Verifier4,
};

use super::workload::Prepared;
use crate::calls::{call, call_once, first_xid, results};

/// Bytes of COMPOUND's arguments before its first operation: an empty tag, minor version and number.
const BEFORE_OPERATIONS: usize = 4 + 4 + 4;
/// Where SEQUENCE has its sequence: behind its number and the session.
const SEQUENCE_AT: usize = 4 + 16;
/// Share access for reading and writing.
const BOTH: u32 = 3;

/// A session, and a file that is open in it.
#[derive(Debug)]
pub(crate) struct Session {
    clientid: Clientid4,
    id: Sessionid4,
    /// The slot beside those of the load.
    slot: u32,
    sequence: u32,
    file: Option<(FileHandle, Stateid4)>,
}

impl Session {
    /// Begins a session with `slots` slots for the load.
    pub(crate) fn begin(stream: &mut TcpStream, slots: usize) -> Result<Self> {
        let owner = format!("nfs-bench {} {}", std::process::id(), first_xid());
        let exchange = ArgOp::ExchangeId(ExchangeIdArgs {
            clientowner: ClientOwner4 {
                verifier: Verifier4([1; 8]),
                ownerid: Opaque4(owner.as_bytes()),
            },
            flags: 0,
            state_protect: StateProtect4A::None,
            client_impl_id: None,
        });
        let (clientid, sequence) = alone(stream, exchange, |result| match result {
            ResOp::ExchangeId(Ok(ok)) => Some((ok.clientid, ok.sequenceid)),
            _ => None,
        })?;
        let slot = u32::try_from(slots)?;
        let channel = ChannelAttrs4 {
            headerpadsize: 0,
            maxrequestsize: (1 << 20) + 4096,
            maxresponsesize: (1 << 20) + 4096,
            maxresponsesize_cached: 4096,
            maxoperations: 8,
            maxrequests: slot + 1,
            rdma_ird: None,
        };
        let create = ArgOp::CreateSession(CreateSessionArgs {
            clientid,
            sequence,
            flags: 0,
            fore_chan_attrs: channel,
            back_chan_attrs: channel,
            cb_program: CALLBACK_PROGRAM,
            sec_parms: Vec::new(),
        });
        let (id, granted) = alone(stream, create, |result| match result {
            ResOp::CreateSession(Ok(ok)) => Some((ok.sessionid, ok.fore_chan_attrs.maxrequests)),
            _ => None,
        })?;
        if granted <= slot {
            bail!("the server gives a session {granted} slots only");
        }
        let mut session = Self {
            clientid,
            id,
            slot,
            sequence: 0,
            file: None,
        };
        let complete = ArgOp::ReclaimComplete(ReclaimCompleteArgs { one_fs: false });
        session.ask(stream, vec![complete], |_| Some(()))?;
        Ok(session)
    }

    /// The handle of the root, and a file in it, which is opened for reading and writing.
    pub(crate) fn open(
        &mut self,
        stream: &mut TcpStream,
        name: &[u8],
    ) -> Result<(FileHandle, FileHandle, Stateid4)> {
        let handle = |result: &ResOp<'_>| match result {
            ResOp::Getfh(Ok(ok)) => Some(ok.object),
            _ => None,
        };
        let root = self.ask(stream, vec![ArgOp::Putrootfh(()), ArgOp::Getfh(())], handle)?;
        let objname = Component4(name);
        let lookup = ArgOp::Lookup(LookupArgs { objname });
        let file = vec![putfh(root), lookup, ArgOp::Getfh(())];
        let file = self.ask(stream, file, handle)?;
        let stateid = self.ask(
            stream,
            vec![putfh(root), open(name, b"nfs-bench")],
            |result| match result {
                ResOp::Open(Ok(ok)) => Some(ok.stateid),
                _ => None,
            },
        )?;
        self.file = Some((file, stateid));
        Ok((root, file, stateid))
    }

    /// A COMPOUND of the load, in this slot.
    pub(crate) fn prepared(&self, slot: u64, cachethis: bool, ops: Vec<ArgOp<'_>>) -> Prepared {
        let slot = u32::try_from(slot).unwrap_or(u32::MAX);
        let record = compound(self.with_sequence((slot, 0), cachethis, ops));
        let header = call(COMPOUND, &()).len();
        Prepared {
            record,
            sequence_at: Some(header + BEFORE_OPERATIONS + SEQUENCE_AT),
        }
    }

    /// Closes what is open and has the server forget the client.
    pub(crate) fn end(mut self, stream: &mut TcpStream) -> Result<()> {
        if let Some((file, open_stateid)) = self.file {
            let close = ArgOp::Close(CloseArgs {
                seqid: 0,
                open_stateid,
            });
            self.ask(stream, vec![putfh(file), close], |_| Some(()))?;
        }
        let sessionid = self.id;
        let destroy = ArgOp::DestroySession(DestroySessionArgs { sessionid });
        alone(stream, destroy, |_| Some(()))?;
        let clientid = self.clientid;
        let destroy = ArgOp::DestroyClientid(DestroyClientidArgs { clientid });
        alone(stream, destroy, |_| Some(()))
    }

    fn with_sequence<'a>(
        &self,
        (slotid, sequenceid): (u32, u32),
        cachethis: bool,
        ops: Vec<ArgOp<'a>>,
    ) -> Vec<ArgOp<'a>> {
        let sequence = ArgOp::Sequence(SequenceArgs {
            sessionid: self.id,
            sequenceid,
            slotid,
            highest_slotid: self.slot,
            cachethis,
        });
        std::iter::once(sequence).chain(ops).collect()
    }

    /// Sends a COMPOUND in the slot beside the load's, and looks at its last result.
    fn ask<T>(
        &mut self,
        stream: &mut TcpStream,
        ops: Vec<ArgOp<'_>>,
        look: impl FnOnce(&ResOp<'_>) -> Option<T>,
    ) -> Result<T> {
        self.sequence += 1;
        let ops = self.with_sequence((self.slot, self.sequence), false, ops);
        asked(stream, ops, look)
    }
}

/// Opens a file by its name in the current directory, for reading and writing.
pub(crate) fn open<'a>(name: &'a [u8], owner: &'a [u8]) -> ArgOp<'a> {
    ArgOp::Open(OpenArgs {
        seqid: 0,
        share_access: BOTH,
        share_deny: 0,
        owner: StateOwner4 {
            clientid: Clientid4::default(),
            owner: Opaque4(owner),
        },
        openhow: Openflag4::Nocreate,
        claim: OpenClaim4::Null(Component4(name)),
    })
}

pub(crate) fn putfh(object: FileHandle) -> ArgOp<'static> {
    ArgOp::Putfh(PutfhArgs { object })
}

const COMPOUND: (u32, u32, u32) = (nfs4::PROGRAM, nfs4::VERSION, nfs4::PROC_COMPOUND);

fn compound(argarray: Vec<ArgOp<'_>>) -> Vec<u8> {
    let args = CompoundArgs {
        tag: Tag(b""),
        minorversion: 1,
        argarray,
    };
    call(COMPOUND, &args)
}

fn alone<T>(
    stream: &mut TcpStream,
    op: ArgOp<'_>,
    look: impl FnOnce(&ResOp<'_>) -> Option<T>,
) -> Result<T> {
    asked(stream, vec![op], look)
}

fn asked<T>(
    stream: &mut TcpStream,
    ops: Vec<ArgOp<'_>>,
    look: impl FnOnce(&ResOp<'_>) -> Option<T>,
) -> Result<T> {
    let reply = call_once(stream, &compound(ops))?;
    let res: CompoundRes<'_> = results(&reply)?;
    let last = res.resarray.last();
    if res.status != Nfsstat4::Ok {
        bail!("the server answers {}: {last:?}", res.status);
    }
    let found = last.and_then(look);
    found.context("the reply has not the result that was asked for")
}
