//! A client of NFSv4.1 that sends what a test wants it to send, one session over one connection.

use std::net::{Ipv4Addr, SocketAddr};

use anyhow::{Context as _, Result, bail};
use nfs_client::{Identity, Procedure, RawConnection};
use nfs_wire::nfs4::ops::{
    ChannelAttrs4, ClientOwner4, CreateSessionArgs, ExchangeIdArgs, SequenceArgs, StateProtect4A,
};
use nfs_wire::nfs4::{
    ArgOp, CompoundArgs, CompoundRes, Nfsstat4, Opaque4, ResOp, Sessionid4, Tag, Verifier4,
};
use nfs_wire::rpc::ReplyHeader;
use nfs_wire::{Decode as _, Decoder, decode_all, nfs4};
use tokio::net::TcpSocket;

/// Slots of a session: what Linux asks for, and all that the server gives.
pub(crate) const SLOTS: u32 = 64;

/// A client of NFSv4.1 with a session over one connection.
pub(crate) struct RawClient4 {
    raw: RawConnection,
    session: Sessionid4,
    /// The sequence number that each slot has next.
    pub(crate) sequence: Vec<u32>,
}

impl RawClient4 {
    /// A client of this name, from this address of this machine, with a session of so many slots.
    ///
    /// # Errors
    /// When the server refuses it, or does not answer.
    pub(crate) async fn new(host: Ipv4Addr, address: SocketAddr, name: &str) -> Result<Self> {
        let socket = TcpSocket::new_v4()?;
        socket.bind((host, 0).into())?;
        let raw = RawConnection::from_stream(socket.connect(address).await?);
        let mut client = Self {
            raw,
            session: Sessionid4::default(),
            sequence: vec![1; SLOTS as usize],
        };
        let exchange = ArgOp::ExchangeId(ExchangeIdArgs {
            clientowner: ClientOwner4 {
                verifier: Verifier4(*b"one life"),
                ownerid: Opaque4(name.as_bytes()),
            },
            flags: 0,
            state_protect: StateProtect4A::None,
            client_impl_id: None,
        });
        client.send(b"", vec![exchange]).await?;
        let (clientid, sequence) = client
            .receive(|res| match &*res.resarray {
                [ResOp::ExchangeId(Ok(ok))] => Ok((ok.clientid, ok.sequenceid)),
                other => bail!("EXCHANGE_ID: {other:?}"),
            })
            .await?;
        let channel = ChannelAttrs4 {
            headerpadsize: 0,
            maxrequestsize: 1_049_620,
            maxresponsesize: 1_049_480,
            maxresponsesize_cached: 7584,
            maxoperations: 8,
            maxrequests: SLOTS,
            rdma_ird: None,
        };
        let create = ArgOp::CreateSession(CreateSessionArgs {
            clientid,
            sequence,
            flags: 0,
            fore_chan_attrs: channel,
            back_chan_attrs: channel,
            cb_program: 0x4000_0000,
            sec_parms: vec![],
        });
        client.send(b"", vec![create]).await?;
        client.session = client
            .receive(|res| match &*res.resarray {
                [ResOp::CreateSession(Ok(ok))] => Ok(ok.sessionid),
                other => bail!("CREATE_SESSION: {other:?}"),
            })
            .await?;
        Ok(client)
    }

    /// Sends a COMPOUND as it is.
    pub(crate) async fn send(&mut self, tag: &[u8], argarray: Vec<ArgOp<'_>>) -> Result<()> {
        let procedure = Procedure {
            program: nfs4::PROGRAM,
            version: nfs4::VERSION,
            number: nfs4::PROC_COMPOUND,
        };
        let args = CompoundArgs {
            tag: Tag(tag),
            minorversion: 1,
            argarray,
        };
        let call = RawConnection::call_body(1, procedure, &Identity::sys(0, 0, &[]), &args);
        self.raw.send_record(&call).await.context("send")
    }

    /// Looks at the next reply.
    pub(crate) async fn receive<T>(
        &mut self,
        look: impl FnOnce(CompoundRes<'_>) -> Result<T>,
    ) -> Result<T> {
        let record = self.raw.receive_record().await?.context("no reply")?;
        let mut decoder = Decoder::new(&record);
        ReplyHeader::decode(&mut decoder)?;
        look(decode_all(&record[decoder.position()..])?)
    }

    /// Sends operations behind a SEQUENCE in this slot, with a reply that is to be kept.
    pub(crate) async fn ask(&mut self, slot: u32, tag: &[u8], ops: Vec<ArgOp<'_>>) -> Result<()> {
        let sequence = ArgOp::Sequence(SequenceArgs {
            sessionid: self.session,
            sequenceid: self.sequence[slot as usize],
            slotid: slot,
            highest_slotid: SLOTS - 1,
            cachethis: true,
        });
        let all = std::iter::once(sequence).chain(ops).collect();
        self.send(tag, all).await
    }

    /// Carries operations out in slot 0; `look` gets the results behind SEQUENCE's.
    pub(crate) async fn call<T>(
        &mut self,
        ops: Vec<ArgOp<'_>>,
        look: impl FnOnce(Nfsstat4, &[ResOp<'_>]) -> Result<T>,
    ) -> Result<T> {
        self.ask(0, b"", ops).await?;
        self.sequence[0] += 1;
        self.receive(|res| match res.resarray.as_slice() {
            [ResOp::Sequence(Ok(_)), results @ ..] => look(res.status, results),
            other => bail!("{other:?}"),
        })
        .await
    }
}
