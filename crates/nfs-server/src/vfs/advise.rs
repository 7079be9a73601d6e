//! What clients say of ranges of a file before they use them: kept with the open as a hint for its calls, or done at
//! once to the page cache.

use std::ops::Range;
use std::os::fd::AsFd;
use std::sync::Arc;

use nfs_io::auto::Hint;
use nfs_io::turns::Rule;
use nfs_io::{Mode, Share, Sharer, Shares, fs};

use super::{Error, Result};
use crate::limits;
use crate::vfs::{Target, Vfs};

/// What may be kept and done of advice, of all clients together; each host has a share.
pub(crate) struct AdviceShares {
    /// Ranges that are kept.
    ranges: Shares,
    /// Bytes that are being read ahead because somebody said that it will need them.
    bytes: Shares,
}

impl Default for AdviceShares {
    fn default() -> Self {
        let rule = Rule::TimesFree(limits::ADVISED_TIMES_FREE_MAX);
        Self {
            ranges: Shares::new(limits::ADVISED_RANGES_MAX, rule),
            bytes: Shares::new(limits::ADVISED_BYTES_UNDER_WAY_MAX, rule),
        }
    }
}

/// What the client of an open has said of the calls to come.
#[derive(Default)]
pub(super) struct Advice {
    /// Of the whole file.
    pub(super) whole: Hint,
    /// Of ranges, the last one first said; empty for nearly every open.
    ranges: Vec<Advised>,
}

struct Advised {
    range: Range<u64>,
    hint: Hint,
    _share: Share,
}

impl Advice {
    /// What was said last of a call at this place.
    pub(super) fn at(&self, offset: u64) -> Hint {
        let mut latest = self.ranges.iter().rev();
        let of_range = latest.find(|advised| advised.range.contains(&offset));
        of_range.map_or(self.whole, |advised| advised.hint)
    }

    /// Keeps what is said of a range. What was said of parts of it is forgotten, and of the rest what was said first if
    /// there is too much. Returns whether it is kept.
    fn keep(&mut self, shares: &AdviceShares, host: Sharer, range: Range<u64>, hint: Hint) -> bool {
        let is_within = |it: &Advised| range.start <= it.range.start && it.range.end <= range.end;
        self.ranges.retain(|it| !is_within(it));
        if self.ranges.len() >= limits::ADVISED_RANGES_PER_OPEN_MAX {
            self.ranges.remove(0);
        }
        let share = shares.ranges.try_take(host, 1);
        let is_kept = share.is_some();
        self.ranges.extend(share.map(|share| Advised {
            range,
            hint,
            _share: share,
        }));
        is_kept
    }
}

impl super::Opened {
    /// Keeps what the client says of its calls in a range, for as long as it has the file open. Returns whether it is
    /// kept: of all ranges of all opens there is an end.
    pub(crate) fn advise_range(
        &self,
        shares: &AdviceShares,
        host: Sharer,
        range: Range<u64>,
        hint: Hint,
    ) -> bool {
        self.advice.lock().keep(shares, host, range, hint)
    }
}

impl Vfs {
    /// Begins to read a range into the page cache, at most [`limits::ADVISED_BYTES_MAX`] of it; who may not read the file
    /// cannot do that. Returns whether it did: not where READs pass the page cache by, and not while this host's advice
    /// has its share of the disk.
    ///
    /// # Errors
    /// The kernel's.
    pub(crate) async fn will_need(
        self: &Arc<Self>,
        target: &Target,
        range: Range<u64>,
    ) -> Result<bool> {
        let len = range.end.saturating_sub(range.start);
        let len = len.min(limits::ADVISED_BYTES_MAX);
        let Some(share) = self.advice_shares.bytes.try_take(target.sharer(), len) else {
            return Ok(false);
        };
        self.advise_kernel(target, move |fd| {
            let _under_way = share;
            fs::read_ahead(fd, range.start, len)
        })
        .await
    }

    /// Lets go of what the page cache holds of a range; who may not read the file cannot do that. Returns whether it
    /// did: not where READs pass the page cache by, and not while anybody else has the file open, whose READs would pay
    /// for it.
    ///
    /// # Errors
    /// The kernel's.
    pub(crate) async fn dont_need(
        self: &Arc<Self>,
        target: &Target,
        range: Range<u64>,
    ) -> Result<bool> {
        // Not how many keep the object: who has closed it may do that for a moment longer.
        if target.object.file_state().opens() > 1 {
            return Ok(false);
        }
        let len = range.end.saturating_sub(range.start);
        self.advise_kernel(target, move |fd| {
            fs::drop_cached_range(fd, range.start, len)
        })
        .await
    }

    async fn advise_kernel(
        self: &Arc<Self>,
        target: &Target,
        advise: impl FnOnce(std::os::fd::BorrowedFd<'_>) -> nfs_io::Result<()> + Send + 'static,
    ) -> Result<bool> {
        let bytes = u64::from(limits::IO_BYTES_PREFERRED);
        if self.mode_of_reads(target, bytes) != Mode::Buffered {
            return Ok(false);
        }
        let file = self.readable(target).await?;
        let advised = self.blocking(target.queue(), move || advise(file.as_fd()));
        advised.await?.map_err(Error::Errno)?;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn host(number: u32) -> Sharer {
        Sharer::of(Ipv4Addr::from(number).into())
    }

    #[test]
    fn what_is_said_last_of_a_place_counts() {
        let shares = AdviceShares::default();
        let mut advice = Advice {
            whole: Hint::WillNeed,
            ..Advice::default()
        };
        let mut keep = |range, hint| assert!(advice.keep(&shares, host(1), range, hint));
        keep(0..100, Hint::Random);
        keep(50..60, Hint::Sequential);
        keep(90..200, Hint::NoReuse);
        let said = |at| advice.at(at);
        assert_eq!(said(0), Hint::Random);
        assert_eq!(said(50), Hint::Sequential);
        assert_eq!(said(99), Hint::NoReuse);
        assert_eq!(said(200), Hint::WillNeed, "of the whole file");
        assert!(advice.keep(&shares, host(1), 0..100, Hint::Normal));
        assert_eq!(advice.ranges.len(), 2, "what lies within is forgotten");
        assert_eq!(advice.at(55), Hint::Normal);
    }

    #[test]
    fn ranges_are_bounded_for_each_open_and_each_host() {
        let shares = AdviceShares::default();
        let one_more = |advice: &mut Advice, of: u32, number: u64| {
            advice.keep(&shares, host(of), number..number + 1, Hint::Random)
        };
        let mut advice = Advice::default();
        for number in 0..10 * limits::ADVISED_RANGES_PER_OPEN_MAX as u64 {
            assert!(one_more(&mut advice, 1, number));
            assert!(advice.ranges.len() <= limits::ADVISED_RANGES_PER_OPEN_MAX);
            assert_eq!(advice.at(number), Hint::Random);
        }
        let mut opens: Vec<Advice> = Vec::new();
        let fills = |opens: &mut Vec<Advice>| {
            let mut open = Advice::default();
            let kept = one_more(&mut open, 1, 0);
            opens.push(open);
            kept
        };
        while fills(&mut opens) {}
        let half = usize::try_from(limits::ADVISED_RANGES_MAX / 2).unwrap();
        assert!(opens.len() <= half, "{} of one host", opens.len());
        assert!(one_more(&mut Advice::default(), 2, 0), "another finds room");
        drop((opens, advice));
        assert_eq!(shares.ranges.held_by(host(1).key), 0);
    }
}
