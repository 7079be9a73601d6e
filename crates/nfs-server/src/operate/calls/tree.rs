//! Calls in words: what goes over the control socket, to a terminal and into a file for a trace viewer.

use std::fmt::{self, Write as _};
use std::io;
use std::net::SocketAddr;
use std::time::{Duration, SystemTime};

use nfs_wire::nfs3::Nfsstat3;
use nfs_wire::nfs4::{Nfsstat4, Opnum};
use nfs_wire::{mount3, nfs3, nfs4};
use serde::{Deserialize, Serialize};

use super::clock::{nanoseconds, now};
use super::query::FileNumber;
use super::record::{Answered, CallRecord, StepRecord};
use super::steps::Note;
use crate::operate::trace::{ExportNames, crc32, time};

/// One call with all that was recorded of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallTree {
    /// When its first bytes were read: UTC, to the microsecond, as in RFC 3339.
    pub time: String,
    /// The same in nanoseconds since the server started, by a clock that nobody sets.
    pub begun_ns: u64,
    /// The number of the shard that it was on.
    pub shard: usize,
    /// The program and its version: `NFSv3`, `NFSv4`, `MOUNT`, `NLM`.
    pub program: String,
    /// The procedure, as its RFC writes it.
    pub call: String,
    /// The call's, as eight hexadecimal digits after `0x`.
    pub xid: String,
    /// Address and port that it came from.
    pub client: SocketAddr,
    /// The export, as clients mount it; nothing where no handle of the call names one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub export: Option<String>,
    /// Device and inode number of the object that it named last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<FileNumber>,
    /// CRC-32 of that object's handle, as in trace events.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fh_hash: Option<String>,
    /// Where in the file it reads, writes or commits, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offset: Option<u64>,
    /// How many bytes of the file that is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub len: Option<u64>,
    /// What the client was told: the RFC's word, `refused` for RPC's own refusal, `no reply`; nothing while it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// Nanoseconds from when it was received whole until its reply was there, or so far.
    pub took_ns: u64,
    /// Nanoseconds from its first bytes until its reply was sent, or so far: the time of the whole tree.
    pub total_ns: u64,
    /// Steps that were too many to be recorded.
    pub left_out: u32,
    /// What it did.
    pub steps: Vec<StepTree>,
}

/// One step of a call, and the steps within it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepTree {
    /// The name of the step.
    pub step: String,
    /// When it began, in nanoseconds since the call did.
    pub begun_ns: u64,
    /// How long it took, in nanoseconds; nothing while it is under way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub took_ns: Option<u64>,
    /// `hit` or `miss`, the mode of a segment, the status of an operation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// How many bytes are moved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// The steps that it consists of, as far as they are recorded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<Self>,
}

/// What who follows calls gets, line by line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum CallLine {
    /// A call.
    Call(Box<CallTree>),
    /// So many calls are missing here.
    Lost {
        /// How many were lost.
        lost: u64,
    },
}

/// Puts calls in words.
pub(super) struct Teller {
    exports: ExportNames,
    /// The beginning of the server's time, in ticks.
    started: u64,
}

impl Teller {
    pub(super) const fn new(exports: ExportNames, started: u64) -> Self {
        Self { exports, started }
    }

    pub(super) fn tree(&self, shard: usize, call: &CallRecord) -> CallTree {
        let times = call.times;
        let begun = times.first_bytes;
        let now = now();
        let or_now = |at: u64| if at == 0 { now } else { at };
        let ago = Duration::from_nanos(nanoseconds(begun, now));
        let handle = call.handle();
        let unnamed = || format!("procedure {}", call.procedure.number);
        CallTree {
            time: time(
                SystemTime::now()
                    .checked_sub(ago)
                    .unwrap_or(SystemTime::UNIX_EPOCH),
            ),
            begun_ns: nanoseconds(self.started, begun),
            shard,
            program: call.procedure.program_name().to_owned(),
            call: call.procedure.name().map_or_else(unnamed, str::to_owned),
            xid: format!("{:#010x}", call.xid),
            client: call.client,
            export: call.export.and_then(|id| self.exports.name(id)),
            file: call.files[0],
            fh_hash: (!handle.is_empty()).then(|| format!("{:#010x}", crc32(handle))),
            offset: call.range.map(|(offset, _)| offset),
            len: call.range.map(|(_, len)| len),
            status: status_of(call),
            took_ns: u64::try_from(call.took().as_nanos()).unwrap_or(u64::MAX),
            total_ns: nanoseconds(begun, or_now(times.ended)),
            left_out: call.left_out,
            steps: steps_of(call),
        }
    }
}

/// The steps of a call, those among them that every call has.
fn steps_of(call: &CallRecord) -> Vec<StepTree> {
    let times = call.times;
    let begun = times.first_bytes;
    let fixed = |step: &str, from: u64, to: u64| StepTree {
        step: step.to_owned(),
        begun_ns: nanoseconds(begun, from),
        took_ns: Some(nanoseconds(from, to)),
        note: None,
        bytes: None,
        steps: Vec::new(),
    };
    let mut steps = vec![
        fixed("receive", begun, times.received),
        fixed("wait_turn", times.received, times.begun),
    ];
    let mut recorded = call.steps.iter().peekable();
    while let Some(step) = next_step(begun, 0, &mut recorded) {
        steps.push(step);
    }
    if times.ended > 0 && matches!(call.answer, Answered::Results(_) | Answered::Refused) {
        steps.push(fixed("send", times.answered, times.ended));
    }
    steps
}

/// The next step if it is as deep as that, with those that are deeper and behind it.
fn next_step<'a>(
    begun: u64,
    depth: u8,
    steps: &mut std::iter::Peekable<impl Iterator<Item = &'a StepRecord>>,
) -> Option<StepTree> {
    let step = steps.next_if(|step| step.depth >= depth)?;
    let mut within = Vec::new();
    while let Some(deeper) = next_step(begun, step.depth.saturating_add(1), steps) {
        within.push(deeper);
    }
    let (name, note, bytes) = words_of(step);
    Some(StepTree {
        step: name,
        begun_ns: nanoseconds(begun, step.begun),
        took_ns: (step.ended > 0).then(|| nanoseconds(step.begun, step.ended)),
        note,
        bytes,
        steps: within,
    })
}

fn words_of(step: &StepRecord) -> (String, Option<String>, Option<u64>) {
    let word = step.kind.word().to_owned();
    match step.note {
        Note::None => (word, None, None),
        Note::Hit => (word, Some("hit".to_owned()), None),
        Note::Miss => (word, Some("miss".to_owned()), None),
        Note::Moved(mode, bytes) => (word, Some(mode.word().to_owned()), Some(bytes.into())),
        Note::Operation(number, status) => {
            let operation = Opnum::try_from(number);
            let name = operation.map_or(word, |operation| operation.name().to_owned());
            let status = Nfsstat4::try_from(status).ok().filter(|_| step.ended > 0);
            (name, status.map(|status| status.word().to_owned()), None)
        }
    }
}

fn status_of(call: &CallRecord) -> Option<String> {
    let status = match call.answer {
        Answered::Running => return None,
        Answered::Nothing => "no reply".to_owned(),
        Answered::Refused => "refused".to_owned(),
        Answered::Results(None) => "done".to_owned(),
        Answered::Results(Some(word)) => match (call.procedure.program, call.procedure.version) {
            (nfs3::PROGRAM, nfs3::VERSION) => {
                let status = Nfsstat3::try_from(word);
                status.map_or_else(|_| word.to_string(), |status| status.word().to_owned())
            }
            (nfs4::PROGRAM, nfs4::VERSION) => {
                let status = Nfsstat4::try_from(word);
                status.map_or_else(|_| word.to_string(), |status| status.word().to_owned())
            }
            (mount3::PROGRAM, _) if call.procedure.name() == Some("MNT") => word.to_string(),
            _ => "done".to_owned(),
        },
    };
    Some(status)
}

/// The form of the Linux kernel's function graph: a line for each step that has none within it, two lines around the
/// others, each with the number of the shard and how long it took.
impl fmt::Display for CallTree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "# {} {} {}", self.time, self.program, self.call)?;
        write!(f, " xid={} client={}", self.xid, self.client)?;
        if let Some(export) = &self.export {
            write!(f, " export={export}")?;
        }
        if let Some(file) = &self.file {
            write!(f, " inode={}", file.inode)?;
        }
        if let Some(fh_hash) = &self.fh_hash {
            write!(f, " fh_hash={fh_hash}")?;
        }
        if let (Some(offset), Some(len)) = (self.offset, self.len) {
            write!(f, " offset={offset} len={len}")?;
        }
        let status = self.status.as_deref().unwrap_or("(running)");
        writeln!(f, " status={status} took={} us", Microseconds(self.took_ns))?;
        let call = Line {
            shard: self.shard,
            depth: 0,
        };
        call.open(f, &self.call, None)?;
        for step in &self.steps {
            show(f, self.shard, 1, step)?;
        }
        if self.left_out > 0 {
            call.at(1)
                .note(f, &format!("{} steps more", self.left_out))?;
        }
        let took = self.status.is_some().then_some(self.total_ns);
        call.close(f, took)
    }
}

fn show(f: &mut fmt::Formatter<'_>, shard: usize, depth: usize, step: &StepTree) -> fmt::Result {
    let line = Line { shard, depth };
    let mut remark = step.note.clone().unwrap_or_default();
    if let Some(bytes) = step.bytes {
        write!(remark, " {bytes} bytes")?;
    }
    let remark = (!remark.is_empty()).then_some(remark.as_str());
    if step.steps.is_empty() {
        return line.leaf(f, step, remark);
    }
    line.open(f, &step.step, remark)?;
    for within in &step.steps {
        show(f, shard, depth + 1, within)?;
    }
    line.close(f, step.took_ns)
}

/// Where a line of the listing stands.
#[derive(Clone, Copy)]
struct Line {
    shard: usize,
    depth: usize,
}

impl Line {
    const fn at(self, depth: usize) -> Self {
        Self { depth, ..self }
    }

    fn leaf(
        self,
        f: &mut fmt::Formatter<'_>,
        step: &StepTree,
        remark: Option<&str>,
    ) -> fmt::Result {
        self.begin(f, step.took_ns)?;
        write!(f, "{}();", step.step)?;
        if step.took_ns.is_none() {
            write!(f, " /* under way */")?;
        }
        end(f, remark)
    }

    fn open(self, f: &mut fmt::Formatter<'_>, name: &str, remark: Option<&str>) -> fmt::Result {
        self.begin(f, None)?;
        write!(f, "{name}() {{")?;
        end(f, remark)
    }

    fn close(self, f: &mut fmt::Formatter<'_>, took_ns: Option<u64>) -> fmt::Result {
        self.begin(f, took_ns)?;
        let remark = took_ns.is_none().then_some("under way");
        write!(f, "}}")?;
        end(f, remark)
    }

    fn note(self, f: &mut fmt::Formatter<'_>, words: &str) -> fmt::Result {
        self.begin(f, None)?;
        writeln!(f, "/* {words} */")
    }

    /// The columns before the step's name. Marks are those of the kernel's listing: `+` is above 10 microseconds,
    /// `!` above 100, `#` above 1000, `*` above 10 ms, `@` above 100 ms, `$` above a second.
    fn begin(self, f: &mut fmt::Formatter<'_>, took_ns: Option<u64>) -> fmt::Result {
        let Self { shard, depth } = self;
        let indent = 2 * depth;
        match took_ns {
            None => write!(f, "{shard:>2}) {:>16} | {:indent$}", "", ""),
            Some(took) => {
                let mark = mark(took);
                let took = Microseconds(took).to_string();
                write!(f, "{shard:>2}) {mark} {took:>11} us | {:indent$}", "")
            }
        }
    }
}

fn end(f: &mut fmt::Formatter<'_>, remark: Option<&str>) -> fmt::Result {
    match remark {
        Some(remark) => writeln!(f, " /* {remark} */"),
        None => writeln!(f),
    }
}

const fn mark(nanoseconds: u64) -> char {
    match nanoseconds {
        1_000_000_001.. => '$',
        100_000_001.. => '@',
        10_000_001.. => '*',
        1_000_001.. => '#',
        100_001.. => '!',
        10_001.. => '+',
        _ => ' ',
    }
}

/// Nanoseconds, shown as microseconds with three places.
struct Microseconds(u64);

impl fmt::Display for Microseconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:03}", self.0 / 1000, self.0 % 1000)
    }
}

impl fmt::Display for CallLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Call(call) => call.fmt(f),
            Self::Lost { lost } => {
                writeln!(
                    f,
                    "# {lost} calls lost: they came faster than they were read"
                )
            }
        }
    }
}

/// Writes calls in Chrome's trace event format (its JSON array form), which Perfetto and `chrome://tracing` show: a
/// process for each shard, and as many threads in it as calls were under way at once.
#[derive(Debug)]
pub struct ChromeTrace<W: io::Write> {
    out: W,
    /// Of each shard and thread, when its last call ended, in nanoseconds.
    threads: Vec<Vec<u64>>,
    is_empty: bool,
}

impl<W: io::Write> ChromeTrace<W> {
    /// Begins a trace.
    ///
    /// # Errors
    /// Those of writing it.
    pub fn begin(mut out: W) -> io::Result<Self> {
        write!(out, "[")?;
        Ok(Self {
            out,
            threads: Vec::new(),
            is_empty: true,
        })
    }

    /// Adds a call. What ended earlier is to be added earlier.
    ///
    /// # Errors
    /// Those of writing it.
    pub fn add(&mut self, call: &CallTree) -> io::Result<()> {
        let thread = self.thread_for(call);
        let place = (call.shard, thread);
        let arguments = serde_json::json!({
            "xid": call.xid, "client": call.client, "export": call.export, "fh_hash": call.fh_hash,
            "file": call.file, "offset": call.offset, "len": call.len, "status": call.status, "time": call.time,
        });
        self.event(place, &call.call, (call.begun_ns, call.total_ns), arguments)?;
        for step in &call.steps {
            self.step(place, call, step)?;
        }
        self.out.flush()
    }

    fn step(&mut self, place: (usize, usize), call: &CallTree, step: &StepTree) -> io::Result<()> {
        let begun = call.begun_ns + step.begun_ns;
        let so_far = call.total_ns.saturating_sub(step.begun_ns);
        let took = step.took_ns.unwrap_or(so_far);
        let arguments = serde_json::json!({ "note": step.note, "bytes": step.bytes });
        self.event(place, &step.step, (begun, took), arguments)?;
        for within in &step.steps {
            self.step(place, call, within)?;
        }
        Ok(())
    }

    /// The first thread of the shard whose last call had ended when this one began.
    fn thread_for(&mut self, call: &CallTree) -> usize {
        if self.threads.len() <= call.shard {
            self.threads.resize(call.shard + 1, Vec::new());
        }
        let Some(threads) = self.threads.get_mut(call.shard) else {
            return 0;
        };
        let ends = call.begun_ns + call.total_ns;
        match threads
            .iter_mut()
            .enumerate()
            .find(|(_, end)| **end <= call.begun_ns)
        {
            Some((thread, end)) => {
                *end = ends;
                thread
            }
            None => {
                threads.push(ends);
                threads.len() - 1
            }
        }
    }

    /// One complete event: name, beginning and length in nanoseconds.
    fn event(
        &mut self,
        (shard, thread): (usize, usize),
        name: &str,
        (begun, took): (u64, u64),
        mut arguments: serde_json::Value,
    ) -> io::Result<()> {
        if let Some(arguments) = arguments.as_object_mut() {
            arguments.retain(|_, value| !value.is_null());
        }
        let name = serde_json::Value::from(name);
        let separator = if self.is_empty { "" } else { "," };
        self.is_empty = false;
        writeln!(self.out, "{separator}")?;
        // Times are microseconds with a fraction.
        write!(
            self.out,
            r#"{{"name":{name},"cat":"nfs","ph":"X","pid":{shard},"tid":{thread},"ts":{},"dur":{},"args":{arguments}}}"#,
            Microseconds(begun),
            Microseconds(took),
        )
    }

    /// Ends the trace. One that is cut off before can be shown, too: the format says so.
    ///
    /// # Errors
    /// Those of writing it.
    pub fn end(mut self) -> io::Result<()> {
        writeln!(self.out, "\n]")?;
        self.out.flush()
    }
}
