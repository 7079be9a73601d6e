//! IO_ADVISE (RFC 7862 §15.5): what a client says of the bytes that it is about to use.
//!
//! What is said of the whole file counts as the export's `hint` does; of a range, as that for calls that begin there:
//! both are followed where `auto` chooses the mode, for as long as the client has the file open. WILLNEED and DONTNEED
//! of a range are done to the page cache at once, where READs go through that. The answer names what is followed.

use std::ops::Range;

use nfs_wire::nfs4::ops::{IoAdviseArgs, IoAdviseOk, IoAdviseType4};
use nfs_wire::nfs4::{Bitmap4, Nfsstat4};

use super::compound::{Compound, Done, put};
use super::data::regular_at;
use super::status::status;
use crate::exports::policy::{Hint, Io};
use crate::limits;
use crate::vfs::{Access, Target};

pub(super) async fn io_advise(
    compound: &Compound<'_>,
    args: &IoAdviseArgs,
    out: &mut Vec<u8>,
) -> Done {
    let target = regular_at(compound.current()?)?;
    let open = compound.open_of(&args.stateid).await?;
    let is_judged = || {
        let bytes = u64::from(limits::IO_BYTES_PREFERRED);
        Io::ALL
            .iter()
            .any(|&io| target.choose(io, bytes).is_judged())
    };
    let mut hints = Bitmap4::EMPTY;
    match (open, range_of(args)) {
        // Advice goes with an open.
        (None, _) => {}
        (Some(open), None) => {
            if let Some((kind, hint)) = weightiest(&args.hints, &OF_FILE) {
                open.pin().advise(hint);
                if is_judged() {
                    hints.insert(kind as u32);
                }
            }
        }
        (Some(open), Some(range)) => {
            if let Some((kind, hint)) = weightiest(&args.hints, &OF_RANGE) {
                let shares = &compound.cx.vfs().advice_shares;
                let pin = open.pin();
                let host = compound.host_sharer(target);
                let is_kept = pin.advise_range(shares, host, range.clone(), hint);
                if is_kept && is_judged() {
                    hints.insert(kind as u32);
                }
            }
            advise_cache(compound, args, range, &mut hints).await?;
        }
    }
    put(out, &IoAdviseOk { hints });
    Ok(())
}

/// Does at once what is said of what the page cache is to hold. Who may read the file by no open is not followed.
async fn advise_cache(
    compound: &Compound<'_>,
    args: &IoAdviseArgs,
    range: Range<u64>,
    followed: &mut Bitmap4,
) -> Result<(), Nfsstat4> {
    let is_said = |kind: IoAdviseType4| args.hints.contains(kind as u32);
    let kind = if is_said(IoAdviseType4::Willneed) {
        IoAdviseType4::Willneed
    } else if is_said(IoAdviseType4::Dontneed) {
        IoAdviseType4::Dontneed
    } else {
        return Ok(());
    };
    let target: Target = match compound.io_target(&args.stateid, Access::READ).await {
        Ok(target) => target,
        Err(Nfsstat4::Openmode) => return Ok(()),
        Err(status) => return Err(status),
    };
    let cx = compound.cx;
    let is_done = if kind == IoAdviseType4::Willneed {
        let bytes = range.end.saturating_sub(range.start);
        let bytes = bytes.min(limits::ADVISED_BYTES_MAX);
        cx.meter(&target, usize::try_from(bytes).unwrap_or(usize::MAX));
        cx.vfs().will_need(&target, range).await
    } else {
        cx.vfs().dont_need(&target, range).await
    };
    if is_done.map_err(status)? {
        followed.insert(kind as u32);
    }
    Ok(())
}

/// The range that is meant; `None` for the whole file. A count of 0 means up to the end of the file.
fn range_of(args: &IoAdviseArgs) -> Option<Range<u64>> {
    let end = match args.count {
        0 => u64::MAX,
        count => args.offset.saturating_add(count),
    };
    (args.offset != 0 || args.count != 0).then_some(args.offset..end)
}

/// Hints of a whole file, those first that say most of how its bytes are to travel.
const OF_FILE: [(IoAdviseType4, Hint); 6] = [
    (IoAdviseType4::Noreuse, Hint::NoReuse),
    (IoAdviseType4::Dontneed, Hint::NoReuse),
    (IoAdviseType4::Willneed, Hint::WillNeed),
    (IoAdviseType4::Random, Hint::Random),
    (IoAdviseType4::Sequential, Hint::Sequential),
    (IoAdviseType4::Normal, Hint::Normal),
];
/// Hints that are kept of a range.
const OF_RANGE: [(IoAdviseType4, Hint); 4] = [
    (IoAdviseType4::Noreuse, Hint::NoReuse),
    (IoAdviseType4::Random, Hint::Random),
    (IoAdviseType4::Sequential, Hint::Sequential),
    (IoAdviseType4::Normal, Hint::Normal),
];

/// What of several hints says most.
fn weightiest(
    said: &Bitmap4,
    by_weight: &[(IoAdviseType4, Hint)],
) -> Option<(IoAdviseType4, Hint)> {
    let is_said = |(kind, _): &&(IoAdviseType4, Hint)| said.contains(*kind as u32);
    by_weight.iter().find(is_said).copied()
}
