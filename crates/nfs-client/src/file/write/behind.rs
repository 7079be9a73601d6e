//! The calls behind a writer: sent as far as the window goes, carried out by tasks.

use std::ops::Range;
use std::sync::Weak;
use std::sync::atomic::Ordering;

use nfs_wire::nfs3::{CommitOk, WccData, WriteOk};
use tokio::time::Instant;

use super::{State, Writing, bytes};
use crate::error::{ClientError, printable, refused};
use crate::file::ahead::Reading;
use crate::file::commit::{Kept, Problem, Step, WriteAnswer, WriteStep};
use crate::file::memory::Direction;
use crate::file::wcc::Change;
use crate::file::window::{Sent, Transferred};
use crate::limits::WRITE_LINGER;
use crate::nfs3::Outcome;

impl Writing {
    /// Sends what may be sent now.
    pub(super) fn pump(&self, state: &mut State) {
        // Not the caller's: that may end before the data is where it has to go, or there may be none.
        let runtime = self.connections.first().runtime();
        while let Some((step, sent)) = self.next_step(state) {
            let underway = Underway::new(self.me.clone());
            state
                .tasks
                .spawn_on(carry_out(underway, step, sent), runtime);
        }
        let lingers = state.tail.is_some() || state.kept.lingers();
        if lingers && !state.lingering {
            state.lingering = true;
            let lingering = send_lingering(self.me.clone());
            state.tasks.spawn_on(lingering, runtime);
        }
        while state.tasks.try_join_next().is_some() {}
    }

    fn next_step(&self, state: &mut State) -> Option<(Step, Sent)> {
        let policy = self.policy(state);
        let step = state.kept.next(policy)?;
        Some((step, state.window.sent(self.memory.now())))
    }

    /// Takes the answer in, and returns the next thing to do for the task that brought it.
    fn write_answered(
        &self,
        write: &Call,
        change: &Change,
        answer: Outcome<WriteOk, WccData>,
    ) -> Option<(Step, Sent)> {
        let now = Instant::now();
        let wcc = match &answer {
            Ok(Ok(ok)) => Some(&ok.file_wcc),
            Ok(Err(failure)) => Some(&failure.body),
            Err(_) => None,
        };
        self.settle(change, wcc, now, Some(&write.range));
        let mut state = self.lock();
        let sent_bytes = write.range.end - write.range.start;
        let answered = self.memory.now();
        let moved = Transferred {
            sent: write.sent,
            answered,
            bytes: sent_bytes,
            readers: 1,
            windows: self.memory.windows(),
        };
        state.window.moved(answered, &moved);
        if let Some(found) = state.window.found() {
            self.memory.arrived(Direction::Write, found);
        }
        let failure = match answer {
            Ok(Ok(ok)) => {
                let answer = WriteAnswer {
                    count: ok.count,
                    committed: ok.committed,
                    verifier: ok.verf,
                };
                let taken = self.took(&mut state, write.remade, |kept| {
                    kept.write_answered(write.ticket, &answer)
                });
                taken.err().map(|problem| self.problem(problem))
            }
            Ok(Err(failure)) => {
                state.kept.write_failed(write.ticket);
                Some(refused("WRITE", &self.path, failure.status))
            }
            Err(error) => {
                state.kept.write_lost(write.ticket);
                Some(ClientError::from(error).of(&self.path))
            }
        };
        self.go_on(&mut state, failure)
    }

    fn commit_answered(
        &self,
        remade: u64,
        change: &Change,
        answer: Outcome<CommitOk, WccData>,
    ) -> Option<(Step, Sent)> {
        let wcc = match &answer {
            Ok(Ok(ok)) => Some(&ok.file_wcc),
            Ok(Err(failure)) => Some(&failure.body),
            Err(_) => None,
        };
        self.settle(change, wcc, Instant::now(), Some(&(0..0)));
        let mut state = self.lock();
        let failure = match answer {
            Ok(Ok(ok)) => {
                let taken = self.took(&mut state, remade, |kept| kept.commit_answered(ok.verf));
                taken.err().map(|problem| self.problem(problem))
            }
            Ok(Err(failure)) => {
                state.kept.commit_failed();
                Some(refused("COMMIT", &self.path, failure.status))
            }
            Err(error) => {
                state.kept.commit_failed();
                Some(ClientError::from(error).of(&self.path))
            }
        };
        self.go_on(&mut state, failure)
    }

    /// Takes an answer that brought a verifier, to a call that was sent when [`Connections::remade`] was
    /// `remade`. With a new verifier, what was read since the restart may lack what is sent again.
    fn took(
        &self,
        state: &mut State,
        remade: u64,
        take: impl FnOnce(&mut Kept) -> Result<(), Problem>,
    ) -> Result<(), Problem> {
        let epoch = state.kept.epoch();
        let taken = take(&mut state.kept);
        state.confirmed = state.confirmed.max(remade);
        if state.kept.epoch() != epoch {
            self.each_reading(Reading::invalidate_all);
        }
        taken
    }

    /// The end of every answer: the failure is kept to be told, who waits looks again, and the window is
    /// filled.
    fn go_on(&self, state: &mut State, failure: Option<ClientError>) -> Option<(Step, Sent)> {
        if failure.is_some() {
            state.failures += 1;
            state.failure = failure;
        }
        if state.opens == 0 {
            state.kept.abandon();
        }
        if state.tail.is_none() && state.kept.is_empty() {
            state.share = None;
        }
        let next = self.next_step(state);
        self.pump(state);
        self.changed.notify_waiters();
        next
    }

    /// Looks what a reply says about the file's state, and drops what was read ahead and is not good any
    /// more: all, or what our own change was about (`None` for all).
    pub(super) fn settle(
        &self,
        change: &Change,
        wcc: Option<&WccData>,
        now: Instant,
        written: Option<&Range<u64>>,
    ) {
        let ours = match wcc {
            Some(wcc) => self.attributes.change_ended(change, wcc, now),
            None => self.attributes.change_lost(change, now),
        };
        let size = wcc.and_then(|wcc| wcc.after).map(|after| after.size);
        self.each_reading(|reading| {
            match written {
                Some(range) if ours => reading.invalidate(range.clone()),
                _ => reading.invalidate_all(),
            }
            if let Some(size) = size {
                reading.saw_size(size);
            }
        });
    }

    fn problem(&self, problem: Problem) -> ClientError {
        let path = printable(&self.path);
        match problem {
            Problem::NoProgress { offset } => ClientError::NoProgress { path, offset },
            Problem::VerifierKeepsChanging => ClientError::VerifierKeepsChanging { path },
        }
    }
}

/// What of a WRITE is needed when its answer comes.
struct Call {
    sent: Sent,
    ticket: u64,
    range: Range<u64>,
    remade: u64,
}

/// A task that calls for a file. When it ends before its time (with its runtime, or by a panic), nobody
/// takes its answer in: who waits for that is told.
pub(super) struct Underway {
    writing: Weak<Writing>,
    over: bool,
}

impl Underway {
    pub(super) fn new(writing: Weak<Writing>) -> Self {
        Self {
            writing,
            over: false,
        }
    }

    /// The task has done all that it was to do, and needs no cleaning up.
    pub(super) fn over(mut self) {
        self.over = true;
    }
}

impl Drop for Underway {
    fn drop(&mut self) {
        if !self.over
            && let Some(this) = self.writing.upgrade()
        {
            // The lock may be held by who dropped it: it is looked at by who waits.
            this.cut_off.store(true, Ordering::Release);
            this.changed.notify_waiters();
        }
    }
}

/// Carries out `step`, and then whatever is next. Holds no reference while a call is on its way.
async fn carry_out(underway: Underway, mut step: Step, mut sent: Sent) {
    let writing = underway.writing.clone();
    loop {
        let Some(this) = writing.upgrade() else {
            return;
        };
        let writer = match &step {
            Step::Write(write) => write.writer,
            Step::Commit(writer) => *writer,
        };
        let Some(nfs) = this.lock().writers.get(writer.0).cloned() else {
            return;
        };
        let handle = this.handle;
        let change = this.attributes.change_began();
        let remade = this.connections.remade();
        drop(this);
        let next = match step {
            Step::Write(write) => {
                let WriteStep {
                    ticket,
                    offset,
                    data,
                    stable,
                    ..
                } = write;
                let range = offset..offset + bytes(data.len());
                let call = Call {
                    sent,
                    ticket,
                    range,
                    remade,
                };
                let answer = nfs.write(&handle, offset, stable, data).await;
                let this = writing.upgrade();
                this.and_then(|this| this.write_answered(&call, &change, answer))
            }
            Step::Commit(_) => {
                // The whole file: what was written by others of this client is covered as well.
                let answer = nfs.commit(&handle, 0, 0).await;
                let this = writing.upgrade();
                this.and_then(|this| this.commit_answered(remade, &change, answer))
            }
        };
        match next {
            Some(next) => (step, sent) = next,
            None => return underway.over(),
        }
    }
}

/// Sends what nothing was put to for a while.
async fn send_lingering(writing: Weak<Writing>) {
    tokio::time::sleep(WRITE_LINGER).await;
    if let Some(this) = writing.upgrade() {
        let mut state = this.lock();
        state.lingering = false;
        this.send_all(&mut state);
    }
}
