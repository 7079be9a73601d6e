//! Pairs of WRITEs, and the two connections of one client that they come by.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use anyhow::{Context as _, Result, ensure};
use nfs_client::nfs3::number;
use nfs_client::{Identity, RawConnection};
use nfs_lab::pattern;
use nfs_wire::nfs3::{FileHandle, Nfsstat3, Procedure, StableHow, WriteArgs};
use nfs_wire::record::FragmentHeader;
use nfs_wire::rpc::ReplyHeader;
use nfs_wire::{Decode, Decoder};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::host::wire::CALL_DEADLINE;

/// Longest reply to a WRITE or NULL, bytes.
const REPLY_MAX: usize = 1024;

/// Two WRITEs to one range: A, which comes twice, and B, which follows the first reply to A.
#[derive(Clone)]
pub(super) struct Pair {
    /// Number of the pair among all pairs of the scenario.
    pub(super) number: u32,
    pub(super) file: FileHandle,
    pub(super) offset: u64,
    pub(super) len: usize,
    /// How stable the WRITEs A and B are asked to be.
    pub(super) stable: [StableHow; 2],
    /// Whether the repetition comes by the other connection.
    pub(super) elsewhere: bool,
    /// Whether the repetition comes behind the other pairs' WRITEs.
    pub(super) late: bool,
}

impl Pair {
    /// The xid of A (0) or B (1), which no other pair has.
    const fn xid(&self, which: u32) -> u32 {
        2 * self.number + which
    }

    /// The bytes of A (0) or B (1).
    pub(super) fn content(&self, which: u32) -> Vec<u8> {
        pattern::bytes(u64::from(self.xid(which)), self.offset, self.len)
    }

    fn call(&self, which: u32) -> Vec<u8> {
        let data = self.content(which);
        let arguments = WriteArgs {
            file: self.file,
            offset: self.offset,
            count: self.len as u32,
            stable: self.stable[which as usize],
            data: &data,
        };
        let identity = Identity::sys(0, 0, &[]);
        RawConnection::call_body(
            self.xid(which),
            number(Procedure::Write),
            &identity,
            &arguments,
        )
    }

    /// Tells which pair it is if `found`, the bytes of the file, are not those of B, which were acknowledged.
    pub(super) fn overwritten(&self, found: &[u8]) -> Result<Option<String>> {
        let (first, second) = (self.content(0), self.content(1));
        let Some(at) = found.iter().zip(&second).position(|(a, b)| a != b) else {
            return Ok(None);
        };
        ensure!(found[at] == first[at], "a byte that nobody wrote");
        let by = if self.elsewhere {
            "another"
        } else {
            "the same"
        };
        Ok(Some(format!(
            "{} at {}, {:?} then {:?}, by {by} connection",
            self.len, self.offset, self.stable[0], self.stable[1]
        )))
    }
}

/// Two connections and the pairs whose WRITEs they carry. Until the server ends, both are read.
pub(super) struct Lane {
    pairs: Vec<Pair>,
    first: OwnedWriteHalf,
    second: OwnedWriteHalf,
    /// Replies of both: that to a repetition by the second may come there and nowhere else.
    replies: mpsc::UnboundedReceiver<Vec<u8>>,
}

impl Lane {
    pub(super) async fn connect(address: SocketAddr, pairs: Vec<Pair>) -> Result<Self> {
        let (sender, replies) = mpsc::unbounded_channel();
        let mut writers = Vec::new();
        for _ in 0..2 {
            let stream = TcpStream::connect(address).await?;
            stream.set_nodelay(true)?;
            let (reader, writer) = stream.into_split();
            tokio::task::spawn_local(read(reader, sender.clone()));
            writers.push(writer);
        }
        let [first, second] = <[OwnedWriteHalf; 2]>::try_from(writers)
            .map_err(|_| anyhow::anyhow!("two connections"))?;
        Ok(Self {
            pairs,
            first,
            second,
            replies,
        })
    }

    /// Sends A of each pair twice. When it returns, the server has begun with all of them, and answered none.
    ///
    /// # Errors
    /// When it answers one.
    pub(super) async fn send_twice(&mut self) -> Result<()> {
        for late in [false, true] {
            for pair in &self.pairs {
                let call = pair.call(0);
                if !late {
                    send(&mut self.first, &call).await?;
                }
                if pair.late == late {
                    let by = if pair.elsewhere {
                        &mut self.second
                    } else {
                        &mut self.first
                    };
                    send(by, &call).await?;
                }
            }
        }
        let procedure = number(Procedure::Null);
        let nulls = [u32::MAX - 1, u32::MAX];
        for (by, xid) in [&mut self.first, &mut self.second].into_iter().zip(nulls) {
            let null = RawConnection::call_body(xid, procedure, &Identity::none(), &());
            send(by, &null).await?;
        }
        for _ in nulls {
            let xid = ReplyHeader::decode(&mut Decoder::new(&self.reply().await?))?.xid;
            ensure!(
                nulls.contains(&xid),
                "a WRITE that cannot be done was answered"
            );
        }
        Ok(())
    }

    /// Sends B on the first reply to A, of each pair, and waits for the replies to all B.
    ///
    /// # Errors
    /// When a WRITE fails, or is not answered.
    pub(super) async fn write_anew(&mut self) -> Result<()> {
        let mut sent = BTreeSet::new();
        let mut acknowledged = 0;
        while acknowledged < self.pairs.len() {
            let reply = self.reply().await?;
            let mut decoder = Decoder::new(&reply);
            let xid = ReplyHeader::decode(&mut decoder)?.xid;
            let status = Nfsstat3::decode(&mut decoder)?;
            ensure!(status == Nfsstat3::Ok, "a WRITE was answered {status:?}");
            let pair = self.pairs.iter().find(|pair| pair.number == xid / 2);
            let pair = pair.context("a reply to no call")?;
            if xid % 2 == 1 {
                acknowledged += 1;
            } else if sent.insert(xid) {
                send(&mut self.first, &pair.call(1)).await?;
            }
        }
        Ok(())
    }

    async fn reply(&mut self) -> Result<Vec<u8>> {
        let reply = timeout(CALL_DEADLINE, self.replies.recv()).await;
        reply.context("no reply")?.context("the server hung up")
    }
}

async fn send(by: &mut OwnedWriteHalf, body: &[u8]) -> Result<()> {
    let mark = FragmentHeader {
        last: true,
        len: body.len() as u32,
    };
    let sent = timeout(CALL_DEADLINE, async {
        by.write_all(&mark.to_bytes()).await?;
        by.write_all(body).await
    });
    Ok(sent.await.context("the server takes no more")??)
}

/// Hands on each reply until the server closes, or says what is none.
async fn read(mut from: OwnedReadHalf, to: mpsc::UnboundedSender<Vec<u8>>) {
    let mut mark = [0; 4];
    while from.read_exact(&mut mark).await.is_ok() {
        let mut reply = vec![0; (FragmentHeader::parse(mark).len as usize).min(REPLY_MAX)];
        if from.read_exact(&mut reply).await.is_err() {
            return;
        }
        // The end of a round is no error.
        let _nobody_waits_any_more = to.send(reply);
    }
}
