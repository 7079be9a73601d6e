//! The one path of every RPC: header, program, credential, arguments, reply cache, call, encode, count.
//!
//! Nothing in here panics on a peer's bytes; what cannot be decoded is answered as RFC 5531 says,
//! or, where not even that can be told, ends the connection.

use std::time::Instant;

use nfs_io::plan::placement;
use nfs_io::{Buf, Reservation};
use nfs_wire::auth::{AUTH_NONE, AUTH_SYS, AuthStat};
use nfs_wire::nfs3::{self, Procedure, WriteHead};
use nfs_wire::nfs4::{FileHandle as FileHandle4, MinorVersion};
use nfs_wire::record::Hole;
use nfs_wire::rpc::{AcceptStat, CallError, CallHead, CallHeader, Rejected, ReplyHeader};
use nfs_wire::{Decode, DecodeError, Decoder, mount3 as wire_mount3, nfs4, nlm4 as wire_nlm4};

use crate::exports::{NfsVersion, Versions};
use crate::front::context::Context;
use crate::front::mount3;
use crate::front::nfs3::{self as nfs3_front, Request, is_remembered};
use crate::front::nfs4::{self as nfs4_front, Ran};
use crate::front::nlm4;
use crate::front::service::Service;
use crate::limits;
use crate::operate::calls::{self, StepKind, step};
use crate::operate::counters::count;
use crate::rpc::caller::{Caller, WireIdentity};
use crate::rpc::reply::{Draft, Reply};
use crate::rpc::reply_cache::{Asked, Seen, Ticket};
use crate::vfs::Payload;

/// What becomes of a record that was received.
pub(crate) enum Answer {
    Reply(Reply),
    /// Nothing is sent: the call is running already, and its reply will come; or the record is a reply.
    Nothing,
    /// The record is no call, so that the stream cannot be trusted any more, or the host is blocked.
    Close,
}

/// A call as its connection hands it over.
pub(crate) struct Call {
    /// The record, without a WRITE's data where that was received apart.
    pub(crate) record: Vec<u8>,
    /// Boxed: few calls have it, and every call is moved several times on its way here.
    pub(crate) apart: Option<Box<Apart>>,
    /// What a long record is held with; `None` for one up to [`limits::CALL_BYTES_WHOLE_MAX`], which takes
    /// places of calls in progress by its length ([`Call::places`]). (A call that holds memory must not
    /// wait for more: all of them together could wait for ever.)
    pub(crate) reservation: Option<Reservation>,
    /// When the first bytes of it were read, in ticks.
    pub(crate) first_bytes: u64,
}

impl Call {
    /// Bytes that a READ or a listing asks for, as far as can be told without decoding the call, else 0. An estimate:
    /// a peer's bytes that are no such call give some number.
    pub(crate) fn bytes_asked_for(&self) -> usize {
        // Program, version and procedure follow xid, message type and version of RPC (RFC 5531 §9); how many bytes
        // are asked for is the last word of each of these calls' arguments (RFC 1813 §3.3.6, §3.3.16, §3.3.17).
        let word = |from: usize| {
            let bytes = self.record.get(from..)?.first_chunk()?;
            Some(u32::from_be_bytes(*bytes))
        };
        if word(12) == Some(nfs4::PROGRAM) && word(16) == Some(nfs4::VERSION) {
            return self.bytes_asked_for_by_compound();
        }
        let asks = word(12) == Some(nfs3::PROGRAM)
            && word(20)
                .and_then(|number| Procedure::try_from(number).ok())
                .is_some_and(|procedure| {
                    matches!(
                        procedure,
                        Procedure::Read | Procedure::Readdir | Procedure::Readdirplus
                    )
                });
        let count = self
            .record
            .last_chunk()
            .map_or(0, |last| u32::from_be_bytes(*last));
        if asks {
            count.min(limits::IO_BYTES_MAX) as usize
        } else {
            0
        }
    }

    /// The same of a COMPOUND: of one that ends in a READ, as Linux's do, what that asks for.
    fn bytes_asked_for_by_compound(&self) -> usize {
        /// READ's number, its stateid, offset and count (RFC 8881 §18.22.1).
        const READ_LEN: usize = 4 + 16 + 8 + 4;
        let read = self.record.last_chunk::<READ_LEN>();
        let is_read = |read: &[u8; READ_LEN]| {
            read.first_chunk() == Some(&nfs4::Opnum::Read.number().to_be_bytes())
        };
        let count = read
            .filter(|read| is_read(read))
            .and_then(|read| read.last_chunk());
        let count = count.map_or(0, |count| u32::from_be_bytes(*count));
        count.min(limits::IO_BYTES_MAX) as usize
    }

    /// It is not left off when its connection goes. Of a COMPOUND that is decided once it is decoded: its client finds
    /// the reply in its session (RFC 8881 §2.10.6.2).
    pub(crate) fn runs_on(&self) -> bool {
        let word = |from: usize| {
            let bytes = self.record.get(from..)?.first_chunk()?;
            Some(u32::from_be_bytes(*bytes))
        };
        let is_v4 = word(12) == Some(nfs4::PROGRAM) && word(16) == Some(nfs4::VERSION);
        is_v4 || self.may_change()
    }

    /// It may change something, and is carried out though its connection has gone meanwhile: its client has
    /// to find it done, or in the reply cache, when it asks again. A COMMIT counts as such.
    pub(crate) fn may_change(&self) -> bool {
        // Of the fixed words that a call begins with, program, version and procedure are the fourth and those
        // behind it (RFC 5531 §9).
        let mut words = self.record.chunks_exact(4).skip(3);
        let mut word = || {
            let bytes = words.next()?.first_chunk()?;
            Some(u32::from_be_bytes(*bytes))
        };
        match (word(), word(), word()) {
            (Some(nfs3::PROGRAM), Some(nfs3::VERSION), Some(procedure)) => {
                Procedure::try_from(procedure).is_ok_and(|procedure| {
                    is_remembered(procedure) || procedure == Procedure::Commit
                })
            }
            // Short ones, which note mounts.
            (Some(wire_mount3::PROGRAM), _, _) => true,
            _ => false,
        }
    }

    /// Bytes of the call, of a WRITE with its data.
    pub(crate) fn bytes(&self) -> usize {
        let apart = self.apart.as_ref();
        self.record.len() + apart.map_or(0, |apart| apart.len())
    }

    /// How many places of calls in progress it takes when it has to wait: more than one with a long record that is not
    /// in the memory budget.
    pub(crate) fn places(&self) -> usize {
        let loose = match self.reservation {
            Some(_) => 0,
            None => self.record.len(),
        };
        loose.div_ceil(limits::RECORD_BYTES_PER_PLACE).max(1)
    }
}

/// A WRITE's data that was received apart from its record, with what was decoded to find a place for it.
pub(crate) struct Apart {
    pub(crate) begun: Begun,
    /// Where the data belongs in the record, in bytes from its beginning.
    pub(crate) at: usize,
    /// `None` where nothing was received, because the call would have been refused anyhow.
    pub(crate) payload: Option<Payload>,
    /// Bytes that the data has in the record, its padding and what of it is too much included.
    pub(crate) len_in_record: usize,
    /// Bytes of the data that the record ended without.
    pub(crate) missing: usize,
}

/// Header and arguments of a WRITE whose data was still to come when they were decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Begun {
    header: CallHead,
    write: Write,
    /// The credential is one that the server takes.
    is_identified: bool,
}

/// A WRITE whose data is still to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Write {
    /// The procedure of NFSv3: its arguments end with the data.
    V3(WriteHead),
    /// The operation of a COMPOUND, which is decoded once all of it is here.
    V4 {
        minor: MinorVersion,
        file: FileHandle4,
    },
}

impl Begun {
    /// Whether the caller may get as far as the file: the credential is one that the server takes, the handle
    /// was made here, and its export lets the caller in. Told without waiting and without the kernel; for a
    /// call that is refused no memory is taken.
    pub(crate) fn is_let_in(&self, service: &Service, caller: &Caller) -> bool {
        self.is_identified
            && match &self.write {
                Write::V3(args) => service.lets_in(caller, args.file.as_ref()),
                Write::V4 { minor, file } => {
                    nfs4_front::lets_in(service, caller, *minor, file.as_ref())
                }
            }
    }
}

/// What the beginning of a record tells about data that is to be received apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(
    clippy::large_enum_variant,
    reason = "it is taken apart at once, and a box would be an allocation for each WRITE"
)]
pub(crate) enum Look {
    /// The beginning is too short to tell; as many bytes of the record are needed.
    More {
        bytes: usize,
    },
    /// The record has no data to be received apart: it is received whole.
    Whole,
    Apart(Place),
}

/// Where data is to be received that does not stay in its record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// Where the data is in the record.
    pub(crate) hole: Hole,
    /// How far behind a page's beginning the data is to start in memory, in bytes.
    pub(crate) start: usize,
    pub(crate) begun: Begun,
}

/// Looks for data in a record of `total` bytes, where that is known, by the program that it calls. Of a
/// WRITE beyond wtmax, `io_bytes_max`, only as much is received: it becomes a short one (RFC 1813
/// §3.3.7).
pub(crate) fn look(beginning: &[u8], total: Option<usize>, io_bytes_max: u32) -> Look {
    let more = Look::More {
        bytes: limits::CALL_HEAD_BYTES_MAX,
    };
    let mut decoder = Decoder::new(beginning);
    let header = match CallHeader::decode(&mut decoder) {
        Ok(header) => header,
        Err(CallError::Malformed(DecodeError::Missing { .. })) => return more,
        // Answered, or not, once the record is whole.
        Err(_) => return Look::Whole,
    };
    let data = match (header.program, header.version) {
        (nfs3::PROGRAM, nfs3::VERSION) => data_of_nfs3(header.procedure, &mut decoder, total),
        (nfs4::PROGRAM, nfs4::VERSION) => data_of_nfs4(header.procedure, &mut decoder, total),
        _ => Ok(None),
    };
    let data = match data {
        Ok(Some(data)) => data,
        Err(DecodeError::Missing { .. }) => return more,
        Ok(None) | Err(_) => return Look::Whole,
    };
    let len = data.len.min(io_bytes_max) as usize;
    Look::Apart(Place {
        hole: Hole {
            at: decoder.position(),
            len,
            skipped: data.padded_len - len,
        },
        start: placement(data.offset),
        begun: Begun {
            header: header.detach(),
            write: data.write,
            is_identified: match header.credential.flavor {
                AUTH_NONE => true,
                AUTH_SYS => header.credential.auth_sys().is_ok(),
                _ => false,
            },
        },
    })
}

/// The data that a record has in it, and whose it is.
struct Data {
    write: Write,
    offset: u64,
    /// How many bytes it has.
    len: u32,
    /// The same with its padding.
    padded_len: usize,
}

fn data_of_nfs3(
    procedure: u32,
    decoder: &mut Decoder<'_>,
    total: Option<usize>,
) -> Result<Option<Data>, DecodeError> {
    let head = nfs3_front::data_behind(procedure, decoder, total)?;
    Ok(head.map(|head| Data {
        write: Write::V3(head),
        offset: head.offset,
        len: head.data_len,
        padded_len: head.tail_len(),
    }))
}

fn data_of_nfs4(
    procedure: u32,
    decoder: &mut Decoder<'_>,
    total: Option<usize>,
) -> Result<Option<Data>, DecodeError> {
    let head = nfs4_front::data_behind(procedure, decoder, total)?;
    Ok(head.map(|head| Data {
        write: Write::V4 {
            minor: head.minor,
            file: head.file,
        },
        offset: head.offset,
        len: head.data_len,
        padded_len: head.tail_len(),
    }))
}

impl Place {
    /// Begins to receive the data into this buffer, or, without one, into nothing.
    pub(crate) fn receive_into(self, data: Option<Buf>) -> Apart {
        Apart {
            begun: self.begun,
            at: self.hole.at,
            payload: data.map(|data| Payload { data, copied: 0 }),
            len_in_record: self.hole.len + self.hole.skipped,
            missing: 0,
        }
    }
}

impl Apart {
    /// Bytes of the data that were or are received.
    fn len(&self) -> usize {
        let payload = self.payload.as_ref();
        payload.map_or(0, |payload| payload.data.len())
    }

    /// Where the data is received, bytes `from..to` of it.
    pub(crate) fn range_mut(&mut self, from: usize, to: usize) -> &mut [u8] {
        let payload = self.payload.as_mut();
        payload
            .and_then(|payload| payload.data.get_mut(from..to))
            .unwrap_or_default()
    }

    /// Copies a part of the data, which came with other bytes, to where it belongs.
    pub(crate) fn copy_in(&mut self, at: usize, bytes: &[u8]) {
        let Some(payload) = &mut self.payload else {
            return;
        };
        if let Some(place) = payload.data.get_mut(at..at + bytes.len()) {
            place.copy_from_slice(bytes);
            payload.copied += bytes.len();
        }
    }

    /// The WRITE whose data this is, once its record is complete.
    fn into_request(self: Box<Self>, record: &[u8]) -> Result<Request<'static>, AcceptStat> {
        // The data is complete, and nothing is behind it.
        match self.begun.write {
            Write::V3(args) if self.missing == 0 && record.len() == self.at => {
                Ok(Request::Write(args, self.payload))
            }
            Write::V3(_) | Write::V4 { .. } => Err(AcceptStat::GarbageArgs),
        }
    }

    /// How much of the data had to be copied, bytes.
    #[cfg(test)]
    pub(crate) fn copied(&self) -> usize {
        self.payload.as_ref().map_or(0, |payload| payload.copied)
    }
}

/// Answers one record of a connection, from the decoding of its header to the encoded reply.
pub(crate) async fn answer(mut cx: Context, call: Call) -> Answer {
    let received = cx.caller.call.started;
    if cx.service.blocked.refuses(cx.caller.addr, received) {
        count(&cx.service.counters.access.calls_blocked);
        return Answer::Close;
    }
    let Call {
        record,
        apart,
        // Held for as long as the record is.
        reservation: _reservation,
        first_bytes: _,
    } = call;
    let decoding = step(StepKind::Decode);
    let mut decoder = Decoder::new(&record);
    let header = match &apart {
        Some(apart) => apart.begun.header.attach(&record),
        None => match CallHeader::decode(&mut decoder) {
            Ok(header) => header,
            Err(error) => return refuse_call(&cx, &error, &record),
        },
    };
    cx.caller.call.xid = header.xid;
    let procedure = calls::Procedure {
        program: header.program,
        version: header.version,
        number: header.procedure,
    };
    calls::called(header.xid, procedure);
    decoding.end();
    let answer = match program(header.program, header.version, cx.service.versions) {
        Ok(Program::Nfs3) => nfs(&mut cx, &header, &record, decoder, apart).await,
        // Boxed: it keeps twice as much in mind as any call of NFSv3, each of which would have room for that.
        Ok(Program::Nfs4) => {
            let boxes = cx.compound_boxes.clone();
            boxes
                .put(compound(&mut cx, &header, &record, decoder, apart))
                .await
        }
        Ok(Program::Mount3) => mount(&mut cx, &header, decoder).await,
        Ok(Program::Nlm4) => locks(&mut cx, &header, decoder),
        Err(stat) => Err(stat),
    };
    answer.unwrap_or_else(|stat| {
        if stat == AcceptStat::GarbageArgs {
            count(&cx.service.counters.bad_calls);
        }
        Answer::Reply(Reply::of(&ReplyHeader::accepted(header.xid, stat)))
    })
}

/// A program in a version that is answered here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Program {
    Nfs3,
    Nfs4,
    Mount3,
    Nlm4,
}

impl Program {
    /// Is it among what the server was told to serve? MOUNT and the lock manager are NFSv3's.
    const fn is_served(self, versions: Versions) -> bool {
        match self {
            Self::Nfs3 | Self::Mount3 | Self::Nlm4 => versions.contains(NfsVersion::V3),
            Self::Nfs4 => versions.has_v4(),
        }
    }
}

/// Every program that is answered: its number and version on the wire, the one that is called most first.
const PROGRAMS: [(u32, u32, Program); 4] = [
    (nfs3::PROGRAM, nfs3::VERSION, Program::Nfs3),
    (nfs4::PROGRAM, nfs4::VERSION, Program::Nfs4),
    (wire_mount3::PROGRAM, wire_mount3::VERSION, Program::Mount3),
    (wire_nlm4::PROGRAM, wire_nlm4::VERSION, Program::Nlm4),
];

/// The program that a call is for.
///
/// # Errors
/// What the caller is told where there is none: of a program that is answered in other versions, the lowest
/// and the highest of these (RFC 5531 §9).
fn program(number: u32, version: u32, served: Versions) -> Result<Program, AcceptStat> {
    let mut known: Option<(u32, u32)> = None;
    for (of, at, program) in PROGRAMS {
        if of != number || !program.is_served(served) {
            continue;
        }
        if at == version {
            return Ok(program);
        }
        let (low, high) = known.unwrap_or((at, at));
        known = Some((low.min(at), high.max(at)));
    }
    Err(match known {
        Some((low, high)) => AcceptStat::ProgMismatch { low, high },
        None => AcceptStat::ProgUnavail,
    })
}

async fn nfs(
    cx: &mut Context,
    header: &CallHeader<'_>,
    record: &[u8],
    decoder: Decoder<'_>,
    apart: Option<Box<Apart>>,
) -> Result<Answer, AcceptStat> {
    if let Err(stat) = identify(cx, header) {
        return Ok(deny(cx, header, stat));
    }
    let procedure = Procedure::try_from(header.procedure).map_err(|_| AcceptStat::ProcUnavail)?;
    let is_whole = apart.is_none();
    let decoding = step(StepKind::Decode);
    let mut request = Request::Other(nfs3::Call::Null(()));
    let (data, head_len) = match apart {
        Some(apart) => {
            let head_len = apart.at;
            request = apart.into_request(record)?;
            (&[][..], head_len)
        }
        None => decode(procedure, decoder, &mut request).map_err(|_| AcceptStat::GarbageArgs)?,
    };
    decoding.end();
    let head = record.get(..head_len).unwrap_or_default();
    let start = cx.caller.call.started;
    // Before anything is waited for: what comes behind this call must find it marked.
    let ticket = match first_run(cx, procedure, head, start).await {
        Ok(ticket) => ticket,
        Err(answer) => {
            if matches!(answer, Answer::Reply(_)) {
                cx.count_call(procedure, None);
            }
            return Ok(answer);
        }
    };
    cx.call_note = ticket.as_ref().and_then(Ticket::noted);
    if let Request::Write(head, payload @ None) = &mut request
        && is_whole
    {
        *payload = copied_payload(cx, head, data, record.len()).await;
    }
    let mut reply = Draft::begin(&ReplyHeader::accepted(header.xid, AcceptStat::Success));
    let results = reply.out().len();
    let held = crate::front::nfs3::run(cx, &mut request, reply.out()).await;
    let error = nfs3_front::error_of(procedure, reply.out().get(results..));
    if let Some(data) = held.data {
        reply.put_data(data);
    }
    if let Some(reservation) = held.reservation {
        reply.hold(reservation);
    }
    if let Some(share) = held.share {
        reply.count_in(share);
    }
    let encoding = step(StepKind::Encode);
    let reply = reply.finish();
    encoding.end();
    if let Some(ticket) = ticket {
        // A call that the export's rules refused changed nothing, and takes no room from others.
        ticket.done(reply.head(), cx.was_admitted());
    }
    cx.count_call(procedure, error);
    Ok(Answer::Reply(reply))
}

/// Decodes the arguments of a call that is in its record as a whole: without a WRITE's data, the data, and how
/// many bytes of the record are not data. The request is large, and made where it stays: what is returned is moved
/// several times.
fn decode<'a>(
    procedure: Procedure,
    mut decoder: Decoder<'a>,
    request: &mut Request<'a>,
) -> Result<(&'a [u8], usize), DecodeError> {
    let (data, head_len) = if procedure == Procedure::Write {
        let head = WriteHead::decode(&mut decoder)?;
        let head_len = decoder.position();
        let data = decoder.take(head.data_len as usize, "data")?;
        decoder.take(head.tail_len() - data.len(), "padding")?;
        *request = Request::Write(head, None);
        (data, head_len)
    } else {
        *request = Request::Other(nfs3::Call::decode(procedure, &mut decoder)?);
        (&[][..], decoder.position())
    };
    decoder.finish()?;
    Ok((data, head_len))
}

/// Marks a call that must not run twice as in progress. `head`: its bytes, of a WRITE without the data.
///
/// # Errors
/// The answer to a call that has run already, or is running.
async fn first_run(
    cx: &Context,
    procedure: Procedure,
    head: &[u8],
    now: Instant,
) -> Result<Option<Ticket>, Answer> {
    if !is_remembered(procedure) {
        return Ok(None);
    }
    let asked = Asked {
        is_write: procedure == Procedure::Write,
        addr: cx.caller.addr,
        standing: cx.caller.standing,
        client: cx.caller.client,
        origin: &cx.origin,
        crowded: cx.crowded,
        head,
    };
    let counters = &cx.service.counters;
    let looking = step(StepKind::ReplyCache);
    let seen = cx.service.replies.begin(&asked, now);
    looking.end();
    Err(match seen {
        Seen::New(ticket) => return Ok(Some(ticket)),
        Seen::InProgress => {
            count(&counters.repeated_in_progress);
            Answer::Nothing
        }
        Seen::Awaited(reply) => {
            count(&counters.repeated_in_progress);
            let _waiting = step(StepKind::FirstRun);
            let reply = reply.await.map(Reply::again);
            reply.map_or(Answer::Nothing, Answer::Reply)
        }
        Seen::Done(reply) => {
            count(&counters.replayed);
            Answer::Reply(Reply::again(reply))
        }
    })
}

/// The data of a WRITE that is in the record, copied to a buffer like the one that the data of a large WRITE
/// is received into; `None` where the memory budget has none.
async fn copied_payload(
    cx: &Context,
    head: &WriteHead,
    data: &[u8],
    record_len: usize,
) -> Option<Payload> {
    let pool = &cx.service.receive_buffers;
    let start = placement(head.offset);
    let buf = match pool.try_take_placed(data.len(), start) {
        Some(buf) => Some(buf),
        None if record_len <= limits::CALL_BYTES_WHOLE_MAX => {
            let _waiting = step(StepKind::Memory);
            pool.take_placed(data.len(), start).await
        }
        // The record holds memory of the budget (it came in fragments): who holds some must not
        // wait for more.
        None => None,
    };
    buf.map(|mut buf| {
        buf.copy_from_slice(data);
        Payload {
            data: buf,
            copied: data.len(),
        }
    })
}

/// NFSv4, which has one procedure beside NULL.
async fn compound(
    cx: &mut Context,
    header: &CallHeader<'_>,
    record: &[u8],
    mut decoder: Decoder<'_>,
    apart: Option<Box<Apart>>,
) -> Result<Answer, AcceptStat> {
    if let Err(stat) = identify(cx, header) {
        return Ok(deny(cx, header, stat));
    }
    let mut received = nfs4_front::Received {
        record,
        apart: None,
    };
    if let Some(apart) = apart {
        if apart.missing > 0 {
            return Err(AcceptStat::GarbageArgs);
        }
        decoder = Decoder::with_hole(record, apart.at);
        // Only to come behind it: it was decoded before the data came.
        CallHeader::decode(&mut decoder).map_err(|_| AcceptStat::GarbageArgs)?;
        received.apart = Some(nfs4_front::Apart {
            at: apart.at,
            len_in_record: apart.len_in_record,
            payload: apart.payload,
        });
    }
    let mut reply = Draft::begin_with_room(
        &ReplyHeader::accepted(header.xid, AcceptStat::Success),
        limits::COMPOUND_REPLY_BYTES_AT_FIRST,
    );
    match header.procedure {
        nfs4::PROC_NULL => decoder.finish().map_err(|_| AcceptStat::GarbageArgs)?,
        nfs4::PROC_COMPOUND => {
            if nfs4_front::run(cx, received, decoder, &mut reply).await? == Ran::LeftOff {
                return Ok(Answer::Nothing);
            }
        }
        _ => return Err(AcceptStat::ProcUnavail),
    }
    Ok(Answer::Reply(reply.finish()))
}

async fn mount(
    cx: &mut Context,
    header: &CallHeader<'_>,
    mut decoder: Decoder<'_>,
) -> Result<Answer, AcceptStat> {
    if let Err(stat) = identify(cx, header) {
        return Ok(deny(cx, header, stat));
    }
    let procedure =
        wire_mount3::Procedure::try_from(header.procedure).map_err(|_| AcceptStat::ProcUnavail)?;
    let call =
        wire_mount3::Call::decode(procedure, &mut decoder).map_err(|_| AcceptStat::GarbageArgs)?;
    decoder.finish().map_err(|_| AcceptStat::GarbageArgs)?;
    let mut reply = Draft::begin(&ReplyHeader::accepted(header.xid, AcceptStat::Success));
    mount3::run(cx, call, reply.out()).await;
    Ok(Answer::Reply(reply.finish()))
}

/// The lock manager, which refuses every lock.
fn locks(
    cx: &mut Context,
    header: &CallHeader<'_>,
    mut decoder: Decoder<'_>,
) -> Result<Answer, AcceptStat> {
    if let Err(stat) = identify(cx, header) {
        return Ok(deny(cx, header, stat));
    }
    let procedure =
        wire_nlm4::Procedure::try_from(header.procedure).map_err(|_| AcceptStat::ProcUnavail)?;
    let call =
        wire_nlm4::Call::decode(procedure, &mut decoder).map_err(|_| AcceptStat::GarbageArgs)?;
    decoder.finish().map_err(|_| AcceptStat::GarbageArgs)?;
    let mut reply = Draft::begin(&ReplyHeader::accepted(header.xid, AcceptStat::Success));
    if nlm4::run(&call, reply.out()) {
        count(&cx.service.counters.locks_refused);
    }
    Ok(Answer::Reply(reply.finish()))
}

/// Sets the caller's identity, as far as the credential is believed, and which client it is of.
///
/// To be called before anything behind the header is looked at, on NULL too, for which AUTH_NONE is
/// enough (RFC 1813 §3.3.0): RPCSEC_GSS sends its tokens as the arguments of NULL (RFC 2203 §5.2.2), where
/// they would be garbage, and an AUTH_TLS probe is a NULL whose acceptance says that the flavor is known
/// (RFC 9289 §4.1). Refused, a client knows at once that it has to do without.
fn identify(cx: &mut Context, header: &CallHeader<'_>) -> Result<(), AuthStat> {
    let _step = step(StepKind::Credentials);
    let claimed = match header.credential.flavor {
        AUTH_NONE => {
            cx.caller.client = cx.peer.unnamed();
            WireIdentity::Nobody
        }
        AUTH_SYS => match cx.peer.claim(&header.credential) {
            Ok((client, claimed)) => {
                cx.caller.client = client;
                WireIdentity::Sys(claimed)
            }
            Err(_) => return Err(AuthStat::BadCred),
        },
        // Other flavors are not offered (MOUNT's list of flavors says so).
        _ => return Err(AuthStat::RejectedCred),
    };
    cx.caller.identity = cx.caller.standing.identify(claimed);
    Ok(())
}

fn deny(cx: &Context, header: &CallHeader<'_>, stat: AuthStat) -> Answer {
    count(&cx.service.counters.denied);
    let rejected = Rejected::AuthError(stat);
    Answer::Reply(Reply::of(&ReplyHeader::denied(header.xid, rejected)))
}

fn refuse_call(cx: &Context, error: &CallError, record: &[u8]) -> Answer {
    let counters = &cx.service.counters;
    if let Some(header) = error.reply() {
        count(&counters.denied);
        return Answer::Reply(Reply::of(&header));
    }
    if let CallError::Reply { xid } = *error {
        // Where no call waits for it, the stream goes on behind it all the same.
        if !cx.peer.line().answered(xid, record) {
            count(&counters.stray_replies);
        }
        return Answer::Nothing;
    }
    count(&counters.bad_records);
    Answer::Close
}

#[cfg(test)]
mod tests;
