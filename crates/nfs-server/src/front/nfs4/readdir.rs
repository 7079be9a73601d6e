//! READDIR (RFC 8881 §18.23.3 and §18.24): a directory's entries, each with the attributes that are asked for.

use nfs_wire::nfs4::ops::{Entry4, READDIR_OK_FIXED_LEN, ReaddirArgs};
use nfs_wire::nfs4::{Attribute, Bitmap4, Fattr4, Nfsstat4, Verifier4};
use nfs_wire::{Encode, Encoder};

use super::attributes::{self, Known};
use super::compound::{Compound, Done, put};
use super::place::{AboveExports, Place, junctions, must_be_directory};
use super::status::status;
use crate::limits;
use crate::vfs::{Listing, Target};

type Result<T> = core::result::Result<T, Nfsstat4>;

/// Cookies 1 and 2 stand for `.` and `..`, which are not listed (RFC 8881 §18.23.3).
const COOKIES_RESERVED: u64 = 3;

pub(super) async fn readdir(
    compound: &mut Compound<'_>,
    args: &ReaddirArgs,
    out: &mut Vec<u8>,
) -> Done {
    attributes::must_be_readable(compound.minor, &args.attr_request)?;
    // ACLs are told by GETATTR alone: no client asks for those of a whole directory, and each may be long.
    let served = attributes::supported(compound.minor, false);
    let wanted = args.attr_request.and(&served);
    if args.cookie == 1 || args.cookie == 2 {
        return Err(Nfsstat4::BadCookie);
    }
    // A client may ask for more than its own session lets through.
    let most = (args.maxcount as usize).min(compound.room(out));
    let room = most
        .checked_sub(READDIR_OK_FIXED_LEN)
        .ok_or(Nfsstat4::Toosmall)?;
    match compound.current()?.clone() {
        Place::Node(node) => list_node(compound, &node, args.cookie, (&wanted, room), out).await,
        Place::File(directory) => list(compound, &directory, args, (&wanted, room), out).await,
    }
}

async fn list(
    compound: &mut Compound<'_>,
    directory: &Target,
    args: &ReaddirArgs,
    (wanted, room): (&Bitmap4, usize),
    out: &mut Vec<u8>,
) -> Done {
    must_be_directory(directory).map_err(|_also_a_link| Nfsstat4::Notdir)?;
    let cx = compound.cx;
    let verifier = cx.vfs().cookie_verifier(directory);
    if args.cookie != 0 && args.cookieverf.0 != verifier {
        return Err(Nfsstat4::NotSame);
    }
    let affordable = u64::from(cx.vfs().io_bytes_max) / limits::READDIR_MEMORY_FACTOR;
    let affordable = usize::try_from(affordable.min(limits::READDIR_BYTES_MAX.into()));
    let mut left = room.min(affordable.unwrap_or(usize::MAX));
    let memory = left as u64 * limits::READDIR_MEMORY_FACTOR;
    let attributes = attributes::encoded_len_max(cx, wanted);
    let fits = move |name: &[u8]| {
        if is_dot(name) {
            return true;
        }
        let len = Entry4::encoded_len_without_attrs(name.len()) + attributes;
        let rest = left.checked_sub(len);
        left = rest.unwrap_or(left);
        rest.is_some()
    };
    let listing = cx
        .vfs()
        .read_directory(directory, args.cookie, memory, true, fits);
    // Who holds memory for replies must not wait for more of it.
    let listing = if compound.holds_memory() {
        compound.at_once(listing).await
    } else {
        listing.await.map_err(status)
    }?;
    let mut entries = listing.entries.iter().filter(|entry| !is_dot(&entry.name));
    if entries.next().is_none() && !listing.eof {
        return Err(Nfsstat4::Toosmall);
    }
    let facts = attributes::facts_for(cx, directory, wanted).await?;
    let plus = listing.entries.iter().filter_map(|it| it.plus.as_deref());
    let stats = plus.map(|(_, attributes)| &attributes.stat);
    attributes::learn_owners(cx, wanted, stats).await;
    put(out, &Verifier4(verifier));
    encode_entries(compound, directory, &listing, wanted, facts.as_ref(), out).await;
    put(out, &false);
    put(out, &listing.eof);
    compound.hold(listing.memory, listing.share);
    Ok(())
}

async fn encode_entries(
    compound: &Compound<'_>,
    directory: &Target,
    listing: &Listing,
    wanted: &Bitmap4,
    facts: Option<&crate::vfs::FsFacts>,
    out: &mut Vec<u8>,
) {
    let (cx, minor) = (compound.cx, compound.minor);
    let junctions = junctions(cx, directory, |_any| true);
    for entry in listing.entries.iter().filter(|entry| !is_dot(&entry.name)) {
        put_entry(entry.cookie, &entry.name, out);
        // As LOOKUP goes on from here: what the directory has under the name is hidden.
        if let Some((_, export)) = junctions.iter().find(|(name, _)| *name == entry.name) {
            put_export(compound, *export, wanted, out).await;
            continue;
        }
        match entry.plus.as_deref() {
            Some((handle, attributes)) => {
                let known = Known {
                    handle,
                    attributes,
                    facts,
                    mounted_on: entry.fileid,
                    acl: None,
                };
                attributes::encode_known(cx, minor, directory, &known, wanted, out);
            }
            None => put_error(wanted, out),
        }
    }
}

/// The attributes of an export's root.
async fn put_export(compound: &Compound<'_>, export: u32, wanted: &Bitmap4, out: &mut Vec<u8>) {
    let (cx, minor) = (compound.cx, compound.minor);
    let encoded = match Place::of_export(cx, export).await {
        Ok(place) => attributes::encode(cx, minor, (&place, None), wanted, out).await,
        Err(status) => Err(status),
    };
    if encoded.is_err() {
        put_error(wanted, out);
    }
}

/// An entry whose attributes cannot be had: it may lie behind a mount point, or be gone. Why is told only where
/// that is asked for; what else was asked for has no value.
fn put_error(wanted: &Bitmap4, out: &mut Vec<u8>) {
    let asked = wanted.and(&Attribute::RdattrError.bit());
    Fattr4::encode_each(&asked, &mut Encoder::new(out), |to| {
        to.rdattr_error(Nfsstat4::Access);
        Some(())
    });
}

/// The entries of a directory above the exports; the cookie of each is its place among those that the client is
/// shown.
async fn list_node(
    compound: &Compound<'_>,
    node: &AboveExports,
    cookie: u64,
    (wanted, room): (&Bitmap4, usize),
    out: &mut Vec<u8>,
) -> Done {
    let cx = compound.cx;
    let entries = node.entries(cx);
    let passed = usize::try_from(cookie.saturating_sub(COOKIES_RESERVED - 1));
    let passed = passed.unwrap_or(usize::MAX);
    put(out, &Verifier4::default());
    let end = out.len() + room;
    let mut eof = true;
    let first = COOKIES_RESERVED.saturating_add(passed as u64);
    // In this order: a cookie behind the last number has no entry, and no number is counted for it.
    for ((name, place), number) in entries.iter().skip(passed).zip(first..) {
        let before = out.len();
        put_entry(number, name, out);
        put_node_attributes(compound, node, *place, wanted, out).await?;
        if out.len() > end {
            out.truncate(before);
            if number == first {
                return Err(Nfsstat4::Toosmall);
            }
            eof = false;
            break;
        }
    }
    put(out, &false);
    put(out, &eof);
    Ok(())
}

async fn put_node_attributes(
    compound: &Compound<'_>,
    node: &AboveExports,
    entry: crate::exports::Place,
    wanted: &Bitmap4,
    out: &mut Vec<u8>,
) -> Result<()> {
    let (cx, minor) = (compound.cx, compound.minor);
    let place = node.entry(cx, entry).await;
    let encoded = match place {
        Ok(place) => attributes::encode(cx, minor, (&place, None), wanted, out).await,
        Err(status) => Err(status),
    };
    // One export that cannot be looked at must not hide the others.
    if encoded.is_err() {
        put_error(wanted, out);
    }
    Ok(())
}

/// An entry up to its attributes.
fn put_entry(cookie: u64, name: &[u8], out: &mut Vec<u8>) {
    let mut e = Encoder::new(out);
    true.encode(&mut e);
    e.u64(cookie);
    e.opaque(name);
}

fn is_dot(name: &[u8]) -> bool {
    name == b"." || name == b".."
}
