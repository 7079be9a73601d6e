//! READDIR and READDIRPLUS, which list a directory (RFC 1813 §3.3.16, §3.3.17).

use nfs_wire::nfs3::{
    Entry3, EntryPlus3, Failure, FileHandle, Filename, PostOpAttr, READDIR_OK_FIXED_LEN,
    ReaddirArgs, ReaddirOk, ReaddirplusArgs, ReaddirplusOk,
};

use super::convert::{fail, fattr3, file_handle};
use super::object::post_op_attr;
use super::{Context, Held, put};
use crate::limits;
use crate::vfs::Target;
use crate::vfs::{DirEntry, Error, Listing};

pub(super) async fn readdir(cx: &Context, args: &ReaddirArgs, out: &mut Vec<u8>) -> Held {
    let bytes = reply_bytes_max(cx, args.count);
    let mut left = room(bytes);
    let fits = move |name: &[u8]| take(&mut left, Entry3::encoded_len(name.len()));
    let place = (&args.dir, args.cookie, args.cookieverf);
    let (directory, listing) = match list(cx, place, bytes, false, fits).await {
        Ok(listed) => listed,
        Err(failure) => {
            put(out, &Err::<ReaddirOk<'_>, _>(failure));
            return Held::default();
        }
    };
    put(
        out,
        &Ok::<_, Failure<PostOpAttr>>(ReaddirOk {
            dir_attributes: post_op_attr(cx, &directory).await,
            cookieverf: cx.vfs().cookie_verifier(&directory),
            entries: listing.entries.iter().map(entry3).collect(),
            eof: listing.eof,
        }),
    );
    kept(cx, listing, out)
}

pub(super) async fn readdirplus(cx: &Context, args: &ReaddirplusArgs, out: &mut Vec<u8>) -> Held {
    let bytes = reply_bytes_max(cx, args.maxcount);
    let mut left = room(bytes);
    // dircount bounds the part that READDIR would send (RFC 1813 §3.3.17). The first entry goes
    // through all the same: a reply without entries would say nothing.
    let mut dir_left = args.dircount as usize;
    let mut first = true;
    let fits = move |name: &[u8]| {
        let within = take(&mut dir_left, Entry3::encoded_len(name.len())) || first;
        first = false;
        within && take(&mut left, EntryPlus3::encoded_len_max(name.len()))
    };
    let place = (&args.dir, args.cookie, args.cookieverf);
    let (directory, listing) = match list(cx, place, bytes, true, fits).await {
        Ok(listed) => listed,
        Err(failure) => {
            put(out, &Err::<ReaddirplusOk<'_>, _>(failure));
            return Held::default();
        }
    };
    let entries = listing.entries.iter().map(|entry| EntryPlus3 {
        entry: entry3(entry),
        name_attributes: entry.plus.as_ref().map(|plus| fattr3(&plus.1)),
        name_handle: entry
            .plus
            .as_ref()
            .and_then(|plus| file_handle(&plus.0).ok()),
    });
    put(
        out,
        &Ok::<_, Failure<PostOpAttr>>(ReaddirplusOk {
            dir_attributes: post_op_attr(cx, &directory).await,
            cookieverf: cx.vfs().cookie_verifier(&directory),
            entries: entries.collect(),
            eof: listing.eof,
        }),
    );
    kept(cx, listing, out)
}

/// What the reply holds until it is sent: no more than its own length, where that can be had.
fn kept(cx: &Context, listing: Listing, out: &[u8]) -> Held {
    let (memory, mut share) = (listing.memory, listing.share);
    let own = cx.vfs().read_buffers.budget().try_reserve(out.len() as u64);
    if own.is_some() {
        drop(memory);
        share.shrink(out.len() as u64);
        return Held {
            data: None,
            reservation: own,
            share: Some(share),
        };
    }
    Held {
        data: None,
        reservation: Some(memory),
        share: Some(share),
    }
}

async fn list(
    cx: &Context,
    (dir, cookie, verifier): (&FileHandle, u64, [u8; 8]),
    bytes: u32,
    plus: bool,
    fits: impl FnMut(&[u8]) -> bool + Send + 'static,
) -> Result<(Target, Listing), Failure<PostOpAttr>> {
    let directory = cx.target(dir).await.map_err(|error| fail(error, None))?;
    let expected = cx.vfs().cookie_verifier(&directory);
    let listing = if cookie != 0 && verifier != expected {
        Err(Error::BadCookie)
    } else {
        let memory = u64::from(bytes) * limits::READDIR_MEMORY_FACTOR;
        cx.vfs()
            .read_directory(&directory, cookie, memory, plus, fits)
            .await
    };
    match listing {
        Ok(listing) => Ok((directory, listing)),
        Err(error) => Err(fail(error, post_op_attr(cx, &directory).await)),
    }
}

fn entry3(entry: &DirEntry) -> Entry3<'_> {
    Entry3 {
        fileid: entry.fileid,
        name: Filename(&entry.name),
        cookie: entry.cookie,
    }
}

/// Longest result for a client that asks for `count` bytes: as long as the memory budget allows.
fn reply_bytes_max(cx: &Context, count: u32) -> u32 {
    // A quarter of the budget for replies is at least `io_bytes_max`; one listing gets no more.
    let affordable = u64::from(cx.vfs().io_bytes_max) / limits::READDIR_MEMORY_FACTOR;
    let affordable = u32::try_from(affordable).unwrap_or(u32::MAX);
    count.min(limits::READDIR_BYTES_MAX).min(affordable)
}

/// Bytes for entries in a result of at most `count` bytes.
fn room(count: u32) -> usize {
    (count as usize).saturating_sub(READDIR_OK_FIXED_LEN)
}

fn take(left: &mut usize, len: usize) -> bool {
    let rest = left.checked_sub(len);
    *left = rest.unwrap_or(*left);
    rest.is_some()
}
