//! The steps of a sequence that move a file's bytes.
//!
//! Places and lengths are chosen for direct I/O's sake: a WRITE may be all of whole pages, or have a
//! ragged beginning, a ragged end, or both, or nothing but these. Each part of one WRITE may travel
//! another way to the disk, and each has to be there when the reply says so.

use std::ops::Range;
use std::rc::Rc;

use anyhow::{Context as _, Result, anyhow, ensure};
use bytes::Bytes;
use nfs_client::Nfs3;
use nfs_lab::pattern;
use nfs_wire::nfs3::{FileHandle, Sattr3, StableHow, WccData, WriteOk};

use super::content::{Content, SIZE_MAX};
use super::model::{Change, Kind};
use super::worker::{Worker, nothing};

/// A record as large simulations write them: no multiple of a sector, let alone of a page.
pub(super) const RECORD: u64 = 47_008;
/// What direct I/O is aligned to here, at most.
const PAGE: u64 = 4096;
/// Longest WRITE that is not of records, in bytes.
const WRITE_MAX: u64 = 64 * 1024;
/// Longest hole between the end of a file and a WRITE behind it, in bytes.
const HOLE_MAX: u64 = 30_000;

impl Worker {
    pub(super) async fn write(&mut self, how: StableHow) -> Result<()> {
        self.write_somewhere(how).await.map(drop)
    }

    async fn write_somewhere(&mut self, how: StableHow) -> Result<Option<u64>> {
        let Some((id, size)) = self.pick_file(|_| true) else {
            return Ok(None);
        };
        let range = self.any_range(size);
        let done = self.send(id, vec![range], how).await?;
        Ok(done.then_some(id))
    }

    pub(super) async fn write_pages(&mut self, how: StableHow) -> Result<()> {
        let Some((id, _)) = self.pick_file(|content| !content.is_solid()) else {
            return Ok(());
        };
        let start = page(self.random.u64(..SIZE_MAX));
        let end = start + page(self.random.u64(..WRITE_MAX)) + PAGE;
        let range = start..end.min(SIZE_MAX);
        self.send(id, vec![range], how).await.map(drop)
    }

    pub(super) async fn overwrite(&mut self, how: StableHow) -> Result<()> {
        let Some((id, size)) = self.pick_file(Content::is_solid) else {
            return Ok(());
        };
        let range = self.range_inside(size);
        self.send(id, vec![range], how).await.map(drop)
    }

    pub(super) async fn write_then_commit(&mut self) -> Result<()> {
        match self.write_somewhere(StableHow::Unstable).await? {
            Some(id) => self.commit(id).await,
            None => Ok(()),
        }
    }

    /// Several records in a row, each in a WRITE of its own, none waiting for another: neighbours share
    /// a page, and nobody knows in which order they are written.
    pub(super) async fn records(&mut self, how: StableHow) -> Result<()> {
        let Some((id, _)) = self.pick_file(|_| true) else {
            return Ok(());
        };
        let all = SIZE_MAX / RECORD;
        let first = self.random.u64(..all - 1);
        let count = 2 + self.random.u64(..all - first - 1);
        let record = |i: u64| i * RECORD..(i + 1) * RECORD;
        let ranges = (first..first + count).map(record).collect();
        let done = self.send(id, ranges, how).await?;
        if done && how == StableHow::Unstable {
            self.commit(id).await?;
        }
        Ok(())
    }

    /// Sends WRITEs of new patterns to all of `ranges` at once; true if all of them were acknowledged.
    async fn send(&mut self, id: u64, ranges: Vec<Range<u64>>, how: StableHow) -> Result<bool> {
        let handle = self.handles[&id];
        let alone = ranges.len() == 1;
        let mut sent = Vec::new();
        self.under_way.clear();
        for range in ranges {
            let tag = self.fresh();
            let data = Bytes::from(pattern_of(tag, &range));
            self.under_way.push(Change::Write {
                object: id,
                range: range.clone(),
                tag,
                stable: false,
            });
            let (nfs, traffic) = (self.nfs.clone(), Rc::clone(&self.traffic));
            let call = tokio::task::spawn_local(async move {
                let reply = nfs.write(&handle, range.start, how, data).await;
                traffic.counted(reply)
            });
            sent.push((tag, call));
        }
        for (tag, call) in sent {
            match call.await?? {
                None => {}
                Some(Ok(ok)) => self.written(id, tag, how, &ok, alone)?,
                Some(Err(failure)) => {
                    let change = self.under_way.iter().find(|change| is_write(change, tag));
                    return Err(anyhow!("{:?} for {change:?}", failure.status));
                }
            }
        }
        Ok(self.under_way.is_empty())
    }

    /// The WRITE of `tag` was acknowledged. `alone`: no other one was on its way.
    fn written(
        &mut self,
        id: u64,
        tag: u64,
        how: StableHow,
        ok: &WriteOk,
        alone: bool,
    ) -> Result<()> {
        let index = self
            .under_way
            .iter()
            .position(|change| is_write(change, tag));
        let mut change = self
            .under_way
            .remove(index.context("a WRITE that was sent")?);
        let Change::Write { range, stable, .. } = &mut change else {
            return Ok(());
        };
        let len = range.end - range.start;
        ensure!(
            u64::from(ok.count) == len,
            "{} of {len} bytes written",
            ok.count
        );
        let least = (how as u32).max(self.floor as u32);
        ensure!(
            ok.committed as u32 >= least,
            "{:?} for {how:?} where {:?} is the least",
            ok.committed,
            self.floor
        );
        // What counts is what was promised, not what was asked for.
        *stable = ok.committed != StableHow::Unstable;
        self.model.apply(&change);
        let before = *self.verifier.get_or_insert(ok.verf);
        ensure!(
            before == ok.verf,
            "the verifier changed while the server ran"
        );
        if alone {
            let size = self.content(id).map(Content::live_size);
            let told = ok.file_wcc.after.map(|after| after.size);
            ensure!(
                told.is_none() || told == size,
                "size {told:?} in the reply, should be {size:?}"
            );
            if ok.committed == StableHow::FileSync {
                self.note_times(id, &ok.file_wcc, true);
            }
        }
        Ok(())
    }

    async fn commit(&mut self, id: u64) -> Result<()> {
        let whole = self.random.u64(..2) == 0;
        let first = if whole {
            0
        } else {
            self.random.u64(..SIZE_MAX)
        };
        let range = first..SIZE_MAX;
        // A count of 0 means to the end of the file (RFC 1813 §3.3.21).
        let bytes = if whole {
            0
        } else {
            (range.end - range.start) as u32
        };
        let nfs = self.nfs.clone();
        let handle = self.handles[&id];
        let commit = nfs.commit(&handle, first, bytes);
        let change = Change::Commit { object: id, range };
        if let Some(ok) = self.call(change, commit).await? {
            ensure!(
                self.verifier == Some(ok.verf),
                "COMMIT has another verifier than WRITE"
            );
        }
        Ok(())
    }

    pub(super) async fn read(&mut self) -> Result<()> {
        let Some((id, size)) = self.pick_file(|_| true) else {
            return Ok(());
        };
        let offset = self.random.u64(..size + 5_000);
        let count = 1 + self.random.u64(..WRITE_MAX);
        let handle = self.handles[&id];
        let reply = self.nfs.read(&handle, offset, count as u32).await;
        let ok = match self.traffic.counted(reply)? {
            None => return Ok(()),
            Some(Err(failure)) => {
                return Err(anyhow!("READ {offset}+{count}: {:?}", failure.status));
            }
            Some(Ok(ok)) => ok,
        };
        let (found, what) = (
            ok.data.len() as u64,
            format!("READ {offset}+{count} of {size}"),
        );
        let there = size.saturating_sub(offset).min(count);
        ensure!(found == there, "{what}: {found} bytes, should be {there}");
        ensure!(ok.eof == (offset + count >= size), "{what}: eof {}", ok.eof);
        let fault = self
            .content(id)
            .and_then(|content| content.live_fault(offset, &ok.data));
        ensure!(fault.is_none(), "{what}: {}", fault.unwrap_or_default());
        Ok(())
    }

    pub(super) async fn set_size(&mut self) -> Result<()> {
        let Some((id, _)) = self.pick_file(|_| true) else {
            return Ok(());
        };
        let size = self.random.u64(..SIZE_MAX + 1);
        let attributes = Sattr3 {
            size: Some(size),
            ..nothing()
        };
        let nfs = self.nfs.clone();
        let handle = self.handles[&id];
        let change = Change::Resize { object: id, size };
        if let Some(wcc) = self
            .call(change, nfs.setattr(&handle, &attributes, None))
            .await?
        {
            self.note_times(id, &wcc, true);
        }
        Ok(())
    }

    /// The reply's times are a promise. `mtime` too only where the call has to have moved it:
    /// after unstable writes it may be newer in memory than anything promised.
    pub(super) fn note_times(&mut self, id: u64, wcc: &WccData, mtime: bool) {
        let (Some(object), Some(after)) = (self.model.objects.get_mut(&id), wcc.after) else {
            return;
        };
        object.ctime = Some(after.ctime);
        if mtime {
            object.mtime = Some(after.mtime);
        }
    }

    /// What a client does that sees another verifier: sends again all that no COMMIT has covered,
    /// and commits.
    ///
    /// # Errors
    /// When the verifier is still the old one, or a call fails.
    pub(super) async fn resend(&mut self, nfs: &Nfs3) -> Result<u32> {
        let mut sent = 0;
        let ids: Vec<u64> = self.model.objects.keys().copied().collect();
        for id in ids {
            let again = self.content(id).map(Content::resend).unwrap_or_default();
            if let (Some(handle), false) = (self.handles.get(&id).copied(), again.is_empty()) {
                sent += again.len() as u32;
                self.send_again(nfs, &handle, again).await?;
                self.model.apply(&Change::Commit {
                    object: id,
                    range: 0..SIZE_MAX,
                });
                if let Some(object) = self.model.objects.get_mut(&id) {
                    (object.mtime, object.ctime) = (None, None);
                }
            }
        }
        Ok(sent)
    }

    async fn send_again(
        &self,
        nfs: &Nfs3,
        handle: &FileHandle,
        writes: Vec<(Range<u64>, u64)>,
    ) -> Result<()> {
        for (range, tag) in writes {
            let data = Bytes::from(pattern_of(tag, &range));
            let reply = nfs
                .write(handle, range.start, StableHow::Unstable, data)
                .await?;
            let ok = reply.map_err(|failure| anyhow!("resend: {:?}", failure.status))?;
            ensure!(
                Some(ok.verf) != self.verifier,
                "the verifier is the one of before"
            );
        }
        let reply = nfs.commit(handle, 0, 0).await?;
        reply.map_err(|failure| anyhow!("COMMIT after resending: {:?}", failure.status))?;
        Ok(())
    }

    fn content(&self, id: u64) -> Option<&Content> {
        match &self.model.objects.get(&id)?.kind {
            Kind::File(content) => Some(content),
            _ => None,
        }
    }

    /// Picks a file whose content is `wanted`; returns its id and its size in bytes.
    fn pick_file(&mut self, wanted: impl Fn(&Content) -> bool) -> Option<(u64, u64)> {
        let id = self.pick(|kind| matches!(kind, Kind::File(content) if wanted(content)))?;
        Some((id, self.content(id)?.live_size()))
    }

    /// Where a WRITE to a file of `size` bytes goes.
    fn any_range(&mut self, size: u64) -> Range<u64> {
        let size = size.min(SIZE_MAX - 1);
        let anywhere = self.random.u64(..SIZE_MAX);
        let len = 1 + self.random.u64(..WRITE_MAX);
        let (start, end) = match self.random.u64(..9) {
            0 | 1 => {
                let start = anywhere / RECORD * RECORD;
                (start, start + RECORD)
            }
            2 => (page(anywhere), page(anywhere) + page(len) + PAGE),
            // Ragged at the beginning only, and at the end only.
            3 => (anywhere, page(anywhere + len) + PAGE),
            4 => (page(anywhere), page(anywhere) + len),
            5 => (anywhere, anywhere + 1 + len % 700),
            6 => (size, size + len),
            7 => (size + anywhere % HOLE_MAX, size + anywhere % HOLE_MAX + len),
            _ => (anywhere, anywhere + len),
        };
        let start = start.min(SIZE_MAX - 1);
        start..end.clamp(start + 1, SIZE_MAX)
    }

    /// Part of a file of `size` bytes, which is not empty; half of the time with an end at a page's end.
    fn range_inside(&mut self, size: u64) -> Range<u64> {
        let mut start = self.random.u64(..size);
        if self.random.u64(..2) == 0 {
            start = page(start);
        }
        let mut end = start + 1 + self.random.u64(..(size - start).min(WRITE_MAX));
        if self.random.u64(..2) == 0 && page(end) > start {
            end = page(end);
        }
        start..end
    }
}

const fn page(at: u64) -> u64 {
    at / PAGE * PAGE
}

fn pattern_of(tag: u64, range: &Range<u64>) -> Vec<u8> {
    pattern::bytes(tag, range.start, (range.end - range.start) as usize)
}

fn is_write(change: &Change, of: u64) -> bool {
    matches!(change, Change::Write { tag, .. } if *tag == of)
}
