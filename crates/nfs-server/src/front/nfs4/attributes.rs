//! Attributes of NFSv4: which of them are served, where each value comes from, and what of a client's are set
//! (RFC 8881 §5).
//!
//! A mask is answered from a few sources: what statx says of the object, what statfs says of its file system,
//! and what is known without asking. Each is asked once, and only if the mask needs it.

use nfs_io::fs::{FileKind, Stat, Timestamp};
use nfs_wire::nfs4::{
    ACL4_SUPPORT_ALLOW_ACL, ACL4_SUPPORT_DENY_ACL, Attribute, AttributeWriter, Bitmap4,
    ChangeAttrType4, Changeid4, Fattr4, FileHandle, Fsid4, Ftype4, MinorVersion, Nfsstat4,
    Nfstime4, OpenArguments4, Specdata4, Utf8str,
};
use nfs_wire::{Encode, Encoder};

use super::acl::Named;
use super::owners;
use super::place::{AboveExports, Place};
use super::status::status;
use crate::front::context::Context;
use crate::host::accounts::Kind;
use crate::vfs::fh::Handle;
use crate::vfs::{Attributes, FsFacts, Target, Wcc};

type Result<T> = core::result::Result<T, Nfsstat4>;

/// What of the attributes is served, as numbers of RFC 8881 and RFC 7862: all that Linux's file systems have a
/// value for.
const SERVED: Bitmap4 = set(&[
    Attribute::SupportedAttrs,
    Attribute::Type,
    Attribute::FhExpireType,
    Attribute::Change,
    Attribute::Size,
    Attribute::LinkSupport,
    Attribute::SymlinkSupport,
    Attribute::NamedAttr,
    Attribute::Fsid,
    Attribute::UniqueHandles,
    Attribute::LeaseTime,
    Attribute::RdattrError,
    Attribute::Acl,
    Attribute::Aclsupport,
    Attribute::Cansettime,
    Attribute::CaseInsensitive,
    Attribute::CasePreserving,
    Attribute::ChownRestricted,
    Attribute::Filehandle,
    Attribute::Fileid,
    Attribute::FilesAvail,
    Attribute::FilesFree,
    Attribute::FilesTotal,
    Attribute::Homogeneous,
    Attribute::Maxfilesize,
    Attribute::Maxlink,
    Attribute::Maxname,
    Attribute::Maxread,
    Attribute::Maxwrite,
    Attribute::Mode,
    Attribute::NoTrunc,
    Attribute::Numlinks,
    Attribute::Owner,
    Attribute::OwnerGroup,
    Attribute::Rawdev,
    Attribute::SpaceAvail,
    Attribute::SpaceFree,
    Attribute::SpaceTotal,
    Attribute::SpaceUsed,
    Attribute::TimeAccess,
    Attribute::TimeAccessSet,
    Attribute::TimeDelta,
    Attribute::TimeMetadata,
    Attribute::TimeModify,
    Attribute::TimeModifySet,
    Attribute::MountedOnFileid,
    Attribute::ModeSetMasked,
    Attribute::SuppattrExclcreat,
    Attribute::FsCharsetCap,
    Attribute::CloneBlksize,
    Attribute::ChangeAttrType,
    Attribute::ModeUmask,
    Attribute::XattrSupport,
    Attribute::OpenArguments,
]);

/// Of what is served, what only the file system as a whole can tell.
const OF_FILE_SYSTEM: Bitmap4 = set(&[
    Attribute::CaseInsensitive,
    Attribute::CasePreserving,
    Attribute::ChownRestricted,
    Attribute::FilesAvail,
    Attribute::FilesFree,
    Attribute::FilesTotal,
    Attribute::Maxlink,
    Attribute::Maxname,
    Attribute::NoTrunc,
    Attribute::SpaceAvail,
    Attribute::SpaceFree,
    Attribute::SpaceTotal,
]);

/// FSCHARSET_CAP4_CONTAINS_NON_UTF8: names are bytes, as on Linux (RFC 8881 §14.4).
const CONTAINS_NON_UTF8: u32 = 1;
/// FH4_PERSISTENT: a handle is good for as long as its object (RFC 8881 §4.2.3).
const PERSISTENT: u32 = 0;
/// The times of Linux's file systems are in nanoseconds; those that are coarser round.
const TIME_DELTA: Nfstime4 = Nfstime4 {
    seconds: 0,
    nseconds: 1,
};

/// An ACL's entries allow and deny; they log nothing.
const SUPPORTED_ACES: u32 = ACL4_SUPPORT_ALLOW_ACL | ACL4_SUPPORT_DENY_ACL;

/// What OPEN takes, as `OPEN_ARGS_*` of RFC 9754 §2: all accesses and denials, the wish for no delegation, names, handles
/// and reclaims, and all ways to create.
const OPEN_ARGUMENTS: OpenArguments4 = OpenArguments4 {
    share_access: Bitmap4::of(&[1, 2, 3]),
    share_deny: Bitmap4::of(&[0, 1, 2, 3]),
    share_access_want: Bitmap4::of(&[4]),
    open_claim: Bitmap4::of(&[0, 1, 4]),
    create_mode: Bitmap4::of(&[0, 1, 2, 3]),
};

const fn set(attributes: &[Attribute]) -> Bitmap4 {
    let mut set = Bitmap4::EMPTY;
    let mut rest = attributes;
    while let [first, others @ ..] = rest {
        set.insert(first.number());
        rest = others;
    }
    set
}

/// The attributes that are served in a minor version, of a file system with ACLs or without.
pub(super) fn supported(minor: MinorVersion, acls: bool) -> Bitmap4 {
    const SERVED_BY_1: Bitmap4 = SERVED.minus(&set(&[
        Attribute::CloneBlksize,
        Attribute::ChangeAttrType,
        Attribute::ModeUmask,
        Attribute::XattrSupport,
        Attribute::OpenArguments,
    ]));
    let served = match minor {
        MinorVersion::V0 | MinorVersion::V1 => SERVED_BY_1,
        MinorVersion::V2 => SERVED,
    };
    if acls {
        served
    } else {
        served.minus(&Attribute::Acl.bit())
    }
}

/// Whether the file system of a place has ACLs.
pub(super) fn has_acls(place: &Place) -> bool {
    match place {
        Place::File(target) => target.object.mount.posix_acls,
        Place::Node(_) => false,
    }
}

/// The attributes of a place that `asked` wants and are served, as a `fattr4`; its ACL is not looked for here.
///
/// # Errors
/// NFS4ERR_INVAL for attributes that can only be set, and what the file system says.
pub(super) async fn encode(
    cx: &Context,
    minor: MinorVersion,
    (place, acl): (&Place, Option<&Named>),
    asked: &Bitmap4,
    out: &mut Vec<u8>,
) -> Result<()> {
    must_be_readable(minor, asked)?;
    let wanted = asked.and(&supported(minor, has_acls(place)));
    match place {
        Place::File(target) => {
            let (attributes, facts) = ask(cx, target, &wanted).await?;
            learn_owners(cx, &wanted, core::iter::once(&attributes.stat)).await;
            let known = Known {
                handle: &target.object.handle,
                attributes: &attributes,
                facts: facts.as_ref(),
                mounted_on: mounted_on(cx, target, &attributes.stat, &wanted).await,
                acl,
            };
            encode_known(cx, minor, target, &known, &wanted, out);
        }
        Place::Node(node) => {
            let handle = place.handle(cx)?;
            encode_node(cx, minor, (node, &handle), &wanted, out);
        }
    }
    Ok(())
}

/// # Errors
/// NFS4ERR_INVAL for attributes that can only be set (RFC 8881 §18.7.3).
pub(super) fn must_be_readable(minor: MinorVersion, asked: &Bitmap4) -> Result<()> {
    const WRITE_ONLY_1: Bitmap4 = set(&[Attribute::TimeAccessSet, Attribute::TimeModifySet]);
    const WRITE_ONLY: Bitmap4 = WRITE_ONLY_1.or(&Attribute::ModeUmask.bit());
    let write_only = match minor {
        MinorVersion::V0 | MinorVersion::V1 => &WRITE_ONLY_1,
        MinorVersion::V2 => &WRITE_ONLY,
    };
    if asked.and(write_only).is_empty() {
        Ok(())
    } else {
        Err(Nfsstat4::Inval)
    }
}

/// Asks those sources of a file's attributes that `wanted` needs.
async fn ask(
    cx: &Context,
    target: &Target,
    wanted: &Bitmap4,
) -> Result<(Attributes, Option<FsFacts>)> {
    if wanted.and(&OF_FILE_SYSTEM).is_empty() {
        let attributes = cx.attributes(target).await.map_err(status)?;
        return Ok((attributes, None));
    }
    let facts = cx.vfs().file_system(target).await.map_err(status)?;
    Ok((facts.attributes, Some(facts)))
}

/// What the file system of an object says of itself, if `wanted` needs it.
pub(super) async fn facts_for(
    cx: &Context,
    target: &Target,
    wanted: &Bitmap4,
) -> Result<Option<FsFacts>> {
    if wanted.and(&OF_FILE_SYSTEM).is_empty() {
        return Ok(None);
    }
    cx.vfs().file_system(target).await.map(Some).map_err(status)
}

/// Sees to it that the names of objects' owners are known, if `wanted` needs them.
pub(super) async fn learn_owners(
    cx: &Context,
    wanted: &Bitmap4,
    stats: impl Iterator<Item = &Stat>,
) {
    let is_wanted = |attribute: Attribute| wanted.contains(attribute.number());
    let (user, group) = (
        is_wanted(Attribute::Owner),
        is_wanted(Attribute::OwnerGroup),
    );
    if user || group {
        let users = |stat: &Stat| user.then_some((Kind::User, stat.uid));
        let groups = |stat: &Stat| group.then_some((Kind::Group, stat.gid));
        let asked = stats.flat_map(|stat| [users(stat), groups(stat)]);
        owners::learn_names(cx, asked.flatten()).await;
    }
}

/// What was found out about an object.
pub(super) struct Known<'k> {
    pub(super) handle: &'k Handle,
    pub(super) attributes: &'k Attributes,
    /// What its file system says of itself, where that was asked.
    pub(super) facts: Option<&'k FsFacts>,
    /// The number of the entry that leads to it, where something else is mounted over that.
    pub(super) mounted_on: u64,
    /// Its ACL, where that was asked.
    pub(super) acl: Option<&'k Named>,
}

/// The number of the directory that a root covers: that of the entry above it, which only leads there, or that of the
/// directory of another export in whose place it is found (RFC 8881 §5.8.2.23). Where there is none, its own.
async fn mounted_on(cx: &Context, target: &Target, stat: &Stat, wanted: &Bitmap4) -> u64 {
    let is_root = target
        .tree
        .root()
        .is_some_and(|root| root.handle == target.object.handle);
    let export = &target.tree.export;
    let is_asked = wanted.contains(Attribute::MountedOnFileid.number());
    if !is_asked || !is_root || export.pseudo == "/" {
        return stat.ino;
    }
    let trees = cx.vfs().trees.load_full();
    let pseudo = trees.table.pseudo();
    if pseudo.above(&export.pseudo).is_some() {
        return u64::from(export.id);
    }
    let Some(junction) = pseudo.junction_to(export.id) else {
        return stat.ino;
    };
    let Some(outer) = trees.by_id(junction.outer) else {
        return stat.ino;
    };
    let (directory, name) = (&junction.directory, &junction.name);
    let covered = cx.vfs().covered(target, outer, directory, name).await;
    covered.unwrap_or(stat.ino)
}

/// Writes the attributes of an object of `target`'s file system, as a `fattr4`.
pub(super) fn encode_known(
    cx: &Context,
    minor: MinorVersion,
    target: &Target,
    known: &Known<'_>,
    wanted: &Bitmap4,
    out: &mut Vec<u8>,
) {
    let stat = &known.attributes.stat;
    let name = |attribute: Attribute, kind, id| {
        let is_wanted = wanted.contains(attribute.number());
        is_wanted.then(|| owners::owner(cx, kind, id))
    };
    let names = (
        name(Attribute::Owner, Kind::User, stat.uid),
        name(Attribute::OwnerGroup, Kind::Group, stat.gid),
    );
    let acls = target.object.mount.posix_acls;
    Fattr4::encode_each(wanted, &mut Encoder::new(out), |to| {
        of_stat(to, stat, &names)
            .or_else(|| of_object(to, target, known))
            .or_else(|| of_server(to, cx, (minor, acls)))
            .or_else(|| of_file_system(to, known.facts?))
    });
}

/// What statx says of an object.
fn of_stat(
    to: &mut AttributeWriter<'_, '_>,
    stat: &Stat,
    (owner, group): &(Option<String>, Option<String>),
) -> Option<()> {
    match to.asked() {
        Attribute::Type => to.ftype(ftype4(stat.kind())),
        Attribute::Change => to.change(change(stat)),
        Attribute::Size => to.size(stat.size),
        Attribute::Fileid => to.fileid(stat.ino),
        Attribute::Mode => to.mode(stat.permissions()),
        Attribute::Numlinks => to.numlinks(stat.nlink),
        Attribute::Owner => to.owner(Utf8str(owner.as_deref()?.as_bytes())),
        Attribute::OwnerGroup => to.owner_group(Utf8str(group.as_deref()?.as_bytes())),
        Attribute::Rawdev => to.rawdev(Specdata4 {
            major: stat.rdev.0,
            minor: stat.rdev.1,
        }),
        Attribute::SpaceUsed => to.space_used(stat.blocks.saturating_mul(512)),
        Attribute::TimeAccess => to.time_access(nfstime4(stat.atime)),
        Attribute::TimeMetadata => to.time_metadata(nfstime4(stat.ctime)),
        Attribute::TimeModify => to.time_modify(nfstime4(stat.mtime)),
        _ => return None,
    }
    Some(())
}

/// What is known of an object and of where it is mounted.
fn of_object(to: &mut AttributeWriter<'_, '_>, target: &Target, known: &Known<'_>) -> Option<()> {
    let mount = &target.object.mount;
    match to.asked() {
        Attribute::Fsid => to.fsid(fsid4(known.attributes.fsid)),
        Attribute::Acl => to.acl(known.acl?.encode()),
        Attribute::Filehandle => to.filehandle(wire_handle(known.handle)?),
        Attribute::MountedOnFileid => to.mounted_on_fileid(known.mounted_on),
        Attribute::Maxfilesize => to.maxfilesize(match mount.file_size_max {
            0 => i64::MAX.unsigned_abs(),
            most => most,
        }),
        Attribute::CloneBlksize => to.clone_blksize(u32::try_from(mount.block_bytes).ok()?),
        Attribute::XattrSupport => to.xattr_support(mount.user_xattrs),
        _ => return None,
    }
    Some(())
}

/// What is the same for all objects.
fn of_server(
    to: &mut AttributeWriter<'_, '_>,
    cx: &Context,
    (minor, acls): (MinorVersion, bool),
) -> Option<()> {
    let io_bytes_max = || u64::from(cx.vfs().io_bytes_max);
    match to.asked() {
        Attribute::SupportedAttrs => to.supported_attrs(supported(minor, acls)),
        Attribute::FhExpireType => to.fh_expire_type(PERSISTENT),
        Attribute::LinkSupport => to.link_support(true),
        Attribute::SymlinkSupport => to.symlink_support(true),
        Attribute::NamedAttr => to.named_attr(false),
        Attribute::UniqueHandles => to.unique_handles(false),
        Attribute::LeaseTime => to.lease_time(cx.service.lease_seconds()),
        Attribute::RdattrError => to.rdattr_error(Nfsstat4::Ok),
        Attribute::Aclsupport => to.aclsupport(if acls { SUPPORTED_ACES } else { 0 }),
        Attribute::Cansettime => to.cansettime(true),
        Attribute::Homogeneous => to.homogeneous(true),
        Attribute::Maxread => to.maxread(io_bytes_max()),
        Attribute::Maxwrite => to.maxwrite(io_bytes_max()),
        Attribute::TimeDelta => to.time_delta(TIME_DELTA),
        Attribute::SuppattrExclcreat => {
            let settable = Attribute::settable_at_exclusive_create();
            to.suppattr_exclcreat(supported(minor, acls).and(&settable))
        }
        Attribute::FsCharsetCap => to.fs_charset_cap(CONTAINS_NON_UTF8),
        Attribute::ChangeAttrType => to.change_attr_type(ChangeAttrType4::TimeMetadata),
        Attribute::OpenArguments => to.open_arguments(OPEN_ARGUMENTS),
        _ => return None,
    }
    Some(())
}

/// What a file system says of itself.
fn of_file_system(to: &mut AttributeWriter<'_, '_>, facts: &FsFacts) -> Option<()> {
    let (space, limits) = (&facts.space, &facts.limits);
    let bytes = |blocks: u64| blocks.saturating_mul(space.frsize);
    match to.asked() {
        Attribute::CaseInsensitive => to.case_insensitive(limits.case_insensitive),
        Attribute::CasePreserving => to.case_preserving(limits.case_preserving),
        Attribute::ChownRestricted => to.chown_restricted(limits.chown_restricted),
        Attribute::NoTrunc => to.no_trunc(limits.no_trunc),
        Attribute::Maxlink => to.maxlink(limits.link_max),
        Attribute::Maxname => to.maxname(limits.name_max),
        Attribute::FilesAvail => to.files_avail(space.favail),
        Attribute::FilesFree => to.files_free(space.ffree),
        Attribute::FilesTotal => to.files_total(space.files),
        Attribute::SpaceAvail => to.space_avail(bytes(space.bavail)),
        Attribute::SpaceFree => to.space_free(bytes(space.bfree)),
        Attribute::SpaceTotal => to.space_total(bytes(space.blocks)),
        _ => return None,
    }
    Some(())
}

/// Writes the attributes of a directory above the exports, as a `fattr4`.
pub(super) fn encode_node(
    cx: &Context,
    minor: MinorVersion,
    (node, handle): (&AboveExports, &Handle),
    wanted: &Bitmap4,
    out: &mut Vec<u8>,
) {
    Fattr4::encode_each(wanted, &mut Encoder::new(out), |to| {
        of_node(to, node, handle).or_else(|| of_server(to, cx, (minor, false)))
    });
}

/// A directory above the exports: nobody's, for all to read, and in a file system of its own.
fn of_node(to: &mut AttributeWriter<'_, '_>, node: &AboveExports, handle: &Handle) -> Option<()> {
    const EPOCH: Nfstime4 = Nfstime4 {
        seconds: 0,
        nseconds: 0,
    };
    const NOBODY: Utf8str<'static> = Utf8str(b"0");
    match to.asked() {
        Attribute::Type => to.ftype(Ftype4::Dir),
        Attribute::Change => to.change(Changeid4 {
            value: node.node().map_or(0, crate::exports::Node::change),
        }),
        Attribute::Size => to.size(0),
        Attribute::Fsid => to.fsid(Fsid4::default()),
        Attribute::CaseInsensitive => to.case_insensitive(false),
        Attribute::CasePreserving => to.case_preserving(true),
        Attribute::ChownRestricted => to.chown_restricted(true),
        Attribute::Filehandle => to.filehandle(wire_handle(handle)?),
        Attribute::Fileid => to.fileid(u64::from(node.id())),
        Attribute::FilesAvail => to.files_avail(0),
        Attribute::FilesFree => to.files_free(0),
        Attribute::FilesTotal => to.files_total(0),
        Attribute::Maxfilesize => to.maxfilesize(0),
        Attribute::Maxlink => to.maxlink(2),
        Attribute::Maxname => to.maxname(255),
        Attribute::Mode => to.mode(0o555),
        Attribute::NoTrunc => to.no_trunc(true),
        Attribute::Numlinks => to.numlinks(2),
        Attribute::Owner => to.owner(NOBODY),
        Attribute::OwnerGroup => to.owner_group(NOBODY),
        Attribute::Rawdev => to.rawdev(Specdata4::default()),
        Attribute::SpaceAvail => to.space_avail(0),
        Attribute::SpaceFree => to.space_free(0),
        Attribute::SpaceTotal => to.space_total(0),
        Attribute::SpaceUsed => to.space_used(0),
        Attribute::TimeAccess => to.time_access(EPOCH),
        Attribute::TimeMetadata => to.time_metadata(EPOCH),
        Attribute::TimeModify => to.time_modify(EPOCH),
        Attribute::MountedOnFileid => to.mounted_on_fileid(u64::from(node.id())),
        Attribute::CloneBlksize => to.clone_blksize(0),
        Attribute::XattrSupport => to.xattr_support(false),
        _ => return None,
    }
    Some(())
}

/// The most bytes that a `fattr4` of these attributes takes.
pub(super) fn encoded_len_max(cx: &Context, wanted: &Bitmap4) -> usize {
    // With its length.
    let owner_len_max = 4 + owners::owner_len_max(cx).next_multiple_of(4);
    let values = wanted
        .iter()
        .filter_map(|number| Attribute::try_from(number).ok());
    let values = values.map(|attribute| match attribute {
        Attribute::Owner | Attribute::OwnerGroup => owner_len_max,
        Attribute::Filehandle => 4 + crate::limits::HANDLE_BYTES_MAX,
        other => other.encoded_len_max(),
    });
    Bitmap4::ENCODED_LEN_MAX + 4 + values.sum::<usize>()
}

/// The handle as NFSv4 sends it: all that this server makes are short enough.
pub(super) fn wire_handle(handle: &Handle) -> Option<FileHandle> {
    FileHandle::new(handle.as_ref()).ok()
}

fn ftype4(kind: FileKind) -> Ftype4 {
    match kind {
        FileKind::Regular | FileKind::Unknown => Ftype4::Reg,
        FileKind::Directory => Ftype4::Dir,
        FileKind::Symlink => Ftype4::Lnk,
        FileKind::BlockDevice => Ftype4::Blk,
        FileKind::CharDevice => Ftype4::Chr,
        FileKind::Fifo => Ftype4::Fifo,
        FileKind::Socket => Ftype4::Sock,
    }
}

fn nfstime4(time: Timestamp) -> Nfstime4 {
    Nfstime4 {
        seconds: time.sec,
        nseconds: time.nsec,
    }
}

/// The change attribute: the time of the last change, in nanoseconds. It grows with every change that the file
/// system's clock tells from the one before. From Linux 6.13 on ext4, XFS, btrfs and tmpfs tell a change from one that
/// somebody has asked for the time of, whatever the clock's granule (multigrain timestamps); before, two within one
/// tick of the kernel, some milliseconds, have the same value, and there is nothing better: the kernel's own counter
/// (STATX_CHANGE_COOKIE) is not told to programs.
pub(super) fn change(stat: &Stat) -> Changeid4 {
    let seconds = stat.ctime.sec.cast_unsigned().wrapping_mul(1_000_000_000);
    Changeid4 {
        value: seconds.wrapping_add(u64::from(stat.ctime.nsec)),
    }
}

/// A directory before and after a change. Where another client's change overlapped, nothing is known of the time
/// before.
pub(super) fn change_info(wcc: &Wcc) -> nfs_wire::nfs4::ChangeInfo4 {
    let after = wcc.after.as_ref().map(|after| change(&after.stat));
    let before = wcc.before.as_ref().map(change);
    nfs_wire::nfs4::ChangeInfo4 {
        atomic: before.is_some() && after.is_some(),
        before: before.or(after).unwrap_or_default(),
        after: after.unwrap_or_default(),
    }
}

/// Its major number is of an export, and never 0: that is the file system above the exports.
fn fsid4(fsid: u64) -> Fsid4 {
    Fsid4 {
        major: 1 << 32 | fsid >> 32,
        minor: fsid & 0xffff_ffff,
    }
}

/// Whether a place has the attributes that a client compares with: VERIFY and NVERIFY.
///
/// # Errors
/// NFS4ERR_ATTRNOTSUPP, NFS4ERR_INVAL, NFS4ERR_BADXDR, and what the file system says.
pub(super) async fn are_same(
    cx: &Context,
    minor: MinorVersion,
    (place, acl): (&Place, Option<&Named>),
    asked: &Fattr4<'_>,
) -> Result<bool> {
    let compared = asked.decode_to_compare(&supported(minor, has_acls(place)));
    compared.map_err(|error| error.status())?;
    let mut own = Vec::new();
    encode(cx, minor, (place, acl), &asked.attrmask, &mut own).await?;
    let mut theirs = Vec::new();
    let mut e = Encoder::new(&mut theirs);
    // As the server writes the set, in as few words as it takes.
    Fattr4 {
        attrmask: asked.attrmask.and(&asked.attrmask),
        attr_vals: asked.attr_vals,
    }
    .encode(&mut e);
    Ok(own == theirs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_of_a_file_system_is_what_its_kind_says() {
        for number in OF_FILE_SYSTEM.iter() {
            let attribute = Attribute::try_from(number).unwrap();
            let source = attribute.source();
            assert_eq!(source, nfs_wire::nfs4::Source::FileSystem, "{attribute:?}");
        }
        assert!(OF_FILE_SYSTEM.is_within(&SERVED));
    }

    #[test]
    fn required_attributes_are_all_served() {
        // RFC 8881 §5.6.
        let required = Bitmap4::of(&[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 19, 75]);
        for minor in [MinorVersion::V1, MinorVersion::V2] {
            assert!(required.is_within(&supported(minor, false)));
            assert!(supported(minor, true).is_within(&Attribute::of_minor(minor)));
        }
    }
}
