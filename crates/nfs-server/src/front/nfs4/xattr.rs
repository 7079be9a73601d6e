//! GETXATTR, SETXATTR, LISTXATTRS, REMOVEXATTR (RFC 8276 §8.4). Names travel without Linux's `user.`, and no other
//! namespace is served.

use nfs_wire::nfs4::Nfsstat4;
use nfs_wire::nfs4::ops::{ListxattrsArgs, SetxattrArgs, SetxattrOption4, XattrNameArgs};
use nfs_wire::xdr::padding;
use nfs_wire::{Encode, Encoder};

use super::attributes::change_info;
use super::compound::{Compound, Done, put};
use super::status::status;
use crate::limits;
use crate::vfs::{SetXattr, Target};

type Result<T> = core::result::Result<T, Nfsstat4>;

/// Bytes of a LISTXATTRS result beside its names: the cookie, how many there are, and whether there are more.
const LIST_FIXED_LEN: usize = 8 + 4 + 4;

pub(super) async fn getxattr(
    compound: &mut Compound<'_>,
    args: &XattrNameArgs<'_>,
    out: &mut Vec<u8>,
) -> Done {
    let target = target(compound)?;
    let name = name(args.name.0)?;
    let asked = compound.cx.vfs().xattr(target, name);
    // Who holds memory for replies must not wait for more of it.
    let found = if compound.holds_memory() {
        compound.at_once(asked).await
    } else {
        asked.await.map_err(status)
    }?;
    Encoder::new(out).opaque(&found.bytes);
    compound.hold(found.memory, found.share);
    Ok(())
}

pub(super) async fn setxattr(
    compound: &Compound<'_>,
    args: &SetxattrArgs<'_>,
    out: &mut Vec<u8>,
) -> Done {
    let target = target(compound)?;
    let name = name(args.key.0)?;
    if args.value.0.len() > limits::XATTR_VALUE_BYTES_MAX {
        return Err(Nfsstat4::Xattr2big);
    }
    let how = match args.option {
        SetxattrOption4::Either => SetXattr::Either,
        SetxattrOption4::Create => SetXattr::Create,
        SetxattrOption4::Replace => SetXattr::Replace,
    };
    let vfs = compound.cx.vfs();
    let (done, wcc) = vfs.set_xattr(target, (name, args.value.0), how).await;
    done.map_err(status)?;
    put(out, &change_info(&wcc));
    Ok(())
}

pub(super) async fn removexattr(
    compound: &Compound<'_>,
    args: &XattrNameArgs<'_>,
    out: &mut Vec<u8>,
) -> Done {
    let target = target(compound)?;
    let name = name(args.name.0)?;
    let (done, wcc) = compound.cx.vfs().remove_xattr(target, name).await;
    done.map_err(status)?;
    put(out, &change_info(&wcc));
    Ok(())
}

/// The names from the cookie on, which is how many were told before.
pub(super) async fn listxattrs(
    compound: &mut Compound<'_>,
    args: &ListxattrsArgs,
    out: &mut Vec<u8>,
) -> Done {
    let target = target(compound)?;
    let passed = usize::try_from(args.cookie).ok();
    // Each name takes a byte at least: no list has so many.
    let passed = passed.filter(|passed| *passed <= limits::XATTR_LIST_BYTES_MAX);
    let passed = passed.ok_or(Nfsstat4::BadCookie)?;
    let most = (args.maxcount as usize).min(compound.room(out));
    let room = most.checked_sub(LIST_FIXED_LEN);
    let room = room.ok_or(Nfsstat4::Toosmall)?;
    let asked = compound.cx.vfs().xattr_names(target);
    let found = if compound.holds_memory() {
        compound.at_once(asked).await
    } else {
        asked.await.map_err(status)
    }?;
    let names = || names(&found.bytes).skip(passed);
    let fitting = fitting(names(), room);
    let eof = names().nth(fitting).is_none();
    if fitting == 0 && !eof {
        return Err(Nfsstat4::Toosmall);
    }
    let mut e = Encoder::new(out);
    e.u64(args.cookie.saturating_add(fitting as u64));
    // At most XATTR_LIST_BYTES_MAX.
    e.u32(u32::try_from(fitting).unwrap_or(u32::MAX));
    for name in names().take(fitting) {
        e.opaque(name);
    }
    eof.encode(&mut e);
    compound.hold(found.memory, found.share);
    Ok(())
}

/// The names of a list in which each has a zero byte behind it.
fn names(list: &[u8]) -> impl Iterator<Item = &[u8]> {
    list.split_inclusive(|byte| *byte == 0)
        .filter_map(|name| name.strip_suffix(b"\0"))
}

/// How many of the names, from the first on, take no more than `room` bytes.
fn fitting<'n>(names: impl Iterator<Item = &'n [u8]>, room: usize) -> usize {
    let mut left = room;
    let fits = names.take_while(|name| {
        let len = 4 + name.len() + padding(name.len());
        let rest = left.checked_sub(len);
        left = rest.unwrap_or(left);
        rest.is_some()
    });
    fits.count()
}

/// The current object, where its file system has such attributes.
///
/// # Errors
/// NFS4ERR_NOTSUPP, also above the exports.
fn target<'c>(compound: &'c Compound<'_>) -> Result<&'c Target> {
    let target = compound.current()?.file(Nfsstat4::Notsupp)?;
    if target.object.mount.user_xattrs {
        Ok(target)
    } else {
        Err(Nfsstat4::Notsupp)
    }
}

/// # Errors
/// NFS4ERR_INVAL for no name or one with a zero byte, NFS4ERR_NAMETOOLONG for one that the kernel cannot have.
fn name(name: &[u8]) -> Result<&[u8]> {
    if name.is_empty() || name.contains(&0) {
        Err(Nfsstat4::Inval)
    } else if name.len() > limits::XATTR_NAME_BYTES_MAX {
        Err(Nfsstat4::Nametoolong)
    } else {
        Ok(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_listed_as_far_as_they_fit_with_their_lengths_and_padding() {
        for (room, expected) in [(0, 0), (7, 0), (8, 1), (15, 1), (16, 2), (27, 2), (28, 3)] {
            let names = names(b"a\0four\0fives\0");
            assert_eq!(fitting(names, room), expected, "{room}");
        }
    }

    #[test]
    fn what_no_attribute_can_be_called_is_refused() {
        assert_eq!(name(b""), Err(Nfsstat4::Inval));
        assert_eq!(name(b"a\0"), Err(Nfsstat4::Inval));
        let longest = [b'n'; limits::XATTR_NAME_BYTES_MAX];
        assert_eq!(name(&longest), Ok(&longest[..]));
        let longer = [b'n'; limits::XATTR_NAME_BYTES_MAX + 1];
        assert_eq!(name(&longer), Err(Nfsstat4::Nametoolong));
    }
}
