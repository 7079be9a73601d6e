//! The table of attributes, and what is generated from it.

use super::{
    AttributeError, ChangeAttrType4, ChangePolicy4, FsLocations4, FsLocationsInfo4, FsStatus4,
    Layouthint4, OpenArguments4, RetentionGet4, RetentionSet4, SecLabel4, Source, ThresholdItem4,
    Use,
};
use crate::nfs4::{
    Bitmap4, Changeid4, FileHandle, Fsid4, Ftype4, MinorVersion, ModeMasked4, ModeUmask4, Nfsace4,
    Nfsacl41, Nfsstat4, Nfstime4, Settime4, Specdata4, Utf8str,
};
use crate::{Decode, DecodeError, Decoder, Encode, Encoder};

/// Defines the attributes: for each the field of [`Attributes`], the variant of [`Attribute`], number, RFC word and
/// type; whether it can be read and set, the first minor version that has it, where its value comes from,
/// whether an exclusive create may set it, and the most bytes that its value takes of a reply.
macro_rules! attributes {
    ($(
        $(#[$meta:meta])*
        $field:ident $name:ident = $number:literal $word:literal: $type:ty,
            $uses:ident, $since:ident, $source:ident, $exclusive:ident, $len_max:literal;
    )*) => {
        /// An attribute of an object, a file system or the server.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Attribute {
            $( $(#[$meta])* $name = $number, )*
        }

        impl Attribute {
            /// Every attribute, in the order of its number.
            pub const ALL: &[Self] = &[$( Self::$name ),*];

            /// Its number in a [`Bitmap4`].
            #[must_use]
            pub const fn number(self) -> u32 {
                self as u32
            }

            /// The name that the RFCs give it.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $( Self::$name => $word, )* }
            }

            /// Whether it can be read or set.
            #[must_use]
            pub const fn uses(self) -> Use {
                match self { $( Self::$name => Use::$uses, )* }
            }

            /// The first minor version that has it.
            #[must_use]
            pub const fn since(self) -> MinorVersion {
                match self { $( Self::$name => MinorVersion::$since, )* }
            }

            /// Where a server has its value from.
            #[must_use]
            pub const fn source(self) -> Source {
                match self { $( Self::$name => Source::$source, )* }
            }

            /// Whether an exclusive create may set it, which keeps its verifier in the times of the last
            /// access and change.
            #[must_use]
            pub const fn goes_with_exclusive_create(self) -> bool {
                matches!(
                    match self { $( Self::$name => Exclusive::$exclusive, )* },
                    Exclusive::Exclusive
                )
            }

            /// The most bytes that its value takes on the wire. An estimate where the RFCs set no limit.
            #[must_use]
            pub const fn encoded_len_max(self) -> usize {
                match self { $( Self::$name => $len_max, )* }
            }
        }

        impl TryFrom<u32> for Attribute {
            type Error = DecodeError;

            fn try_from(value: u32) -> Result<Self, DecodeError> {
                match value {
                    $( $number => Ok(Self::$name), )*
                    value => Err(DecodeError::BadValue { field: "attribute", value }),
                }
            }
        }

        /// Writes the value of the attribute that is asked for: a method for each attribute, so that a value has the type
        /// of its own.
        #[derive(Debug)]
        pub struct AttributeWriter<'e, 'v> {
            asked: Attribute,
            e: &'e mut Encoder<'v>,
        }

        impl<'a, 'e, 'v> AttributeWriter<'e, 'v> {
            pub(super) const fn new(asked: Attribute, e: &'e mut Encoder<'v>) -> Self {
                Self { asked, e }
            }

            /// The attribute that is asked for, whose method is to be called.
            #[must_use]
            pub const fn asked(&self) -> Attribute {
                self.asked
            }

            $(
                $(#[$meta])*
                #[inline]
                pub fn $field(&mut self, value: $type) {
                    debug_assert_eq!(self.asked, Attribute::$name);
                    value.encode(self.e);
                }
            )*
        }

        /// The values of attributes, each there or not.
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct Attributes<'a> {
            $( $(#[$meta])* pub $field: Option<$type>, )*
        }

        impl<'a> Attributes<'a> {
            /// The attributes that have a value here.
            #[must_use]
            pub fn present(&self) -> Bitmap4 {
                let mut present = Bitmap4::EMPTY;
                $( if self.$field.is_some() { present.insert($number); } )*
                present
            }

            /// Writes the values of these attributes that are there, in the order of their numbers.
            pub(super) fn encode_values(&self, mask: &Bitmap4, e: &mut Encoder<'_>) {
                $( if let Some(value) = &self.$field && mask.contains($number) {
                    value.encode(e);
                } )*
            }

            /// Writes the value of an attribute, if it is there.
            #[cfg(test)]
            pub(super) fn write(&self, to: &mut AttributeWriter<'_, '_>) -> Option<()> {
                match to.asked {
                    $( Attribute::$name => to.$field(self.$field.clone()?), )*
                }
                Some(())
            }

            /// Reads the values of all attributes that `mask` has.
            ///
            /// # Errors
            /// When a value is malformed, or the bytes end before the values do or the other way round.
            pub(super) fn decode_values(
                mask: &Bitmap4,
                bytes: &'a [u8],
            ) -> Result<Self, AttributeError> {
                let mut values = Self::default();
                let mut d = Decoder::new(bytes);
                for number in mask.iter() {
                    values.decode_value(Attribute::try_from(number)?, &mut d)?;
                }
                d.finish()?;
                Ok(values)
            }

            fn decode_value(
                &mut self,
                attribute: Attribute,
                d: &mut Decoder<'a>,
            ) -> Result<(), DecodeError> {
                match attribute {
                    $( Attribute::$name => self.$field = Some(
                        Decode::decode(d).map_err(|error: DecodeError| error.within($word))?
                    ), )*
                }
                Ok(())
            }
        }
    };
}

/// Whether an exclusive create may set an attribute.
#[derive(Clone, Copy)]
enum Exclusive {
    Exclusive,
    Never,
}

attributes! {
    /// The attributes that are supported for this object's file system.
    supported_attrs SupportedAttrs = 0 "supported_attrs": Bitmap4, Get, V0, Server, Never, 20;
    /// The type of the object.
    ftype Type = 1 "type": Ftype4, Get, V0, Stat, Never, 4;
    /// Whether handles expire, and when: `FH4_*`.
    fh_expire_type FhExpireType = 2 "fh_expire_type": u32, Get, V0, Server, Never, 4;
    /// A number that becomes another one with each change of the object.
    change Change = 3 "change": Changeid4, Get, V0, Stat, Never, 8;
    /// The size of its contents, bytes.
    size Size = 4 "size": u64, GetSet, V0, Stat, Exclusive, 8;
    /// The file system has hard links.
    link_support LinkSupport = 5 "link_support": bool, Get, V0, FileSystem, Never, 4;
    /// The file system has symlinks.
    symlink_support SymlinkSupport = 6 "symlink_support": bool, Get, V0, FileSystem, Never, 4;
    /// The object has named attributes.
    named_attr NamedAttr = 7 "named_attr": bool, Get, V0, Stat, Never, 4;
    /// Tells its file system from others of the server.
    fsid Fsid = 8 "fsid": Fsid4, Get, V0, Export, Never, 16;
    /// Two handles that differ are of two objects.
    unique_handles UniqueHandles = 9 "unique_handles": bool, Get, V0, Server, Never, 4;
    /// How long a lease lasts, seconds.
    lease_time LeaseTime = 10 "lease_time": u32, Get, V0, Server, Never, 4;
    /// READDIR: why an entry's attributes could not be read.
    rdattr_error RdattrError = 11 "rdattr_error": Nfsstat4, Get, V0, Server, Never, 4;
    /// The access control list.
    acl Acl = 12 "acl": Vec<Nfsace4<'a>>, GetSet, V0, Acl, Exclusive, 65536;
    /// Which types of access control entries are supported: `ACL4_SUPPORT_*`.
    aclsupport Aclsupport = 13 "aclsupport": u32, Get, V0, Acl, Never, 4;
    /// The object was archived since it was changed.
    archive Archive = 14 "archive": bool, GetSet, V0, Stat, Exclusive, 4;
    /// Times can be set.
    cansettime Cansettime = 15 "cansettime": bool, Get, V0, FileSystem, Never, 4;
    /// Names that differ in case only are the same.
    case_insensitive CaseInsensitive = 16 "case_insensitive": bool, Get, V0, FileSystem, Never, 4;
    /// The case of names is kept.
    case_preserving CasePreserving = 17 "case_preserving": bool, Get, V0, FileSystem, Never, 4;
    /// Only a privileged user may change an owner.
    chown_restricted ChownRestricted = 18 "chown_restricted": bool, Get, V0, FileSystem, Never, 4;
    /// The object's handle.
    filehandle Filehandle = 19 "filehandle": FileHandle, Get, V0, Export, Never, 132;
    /// A number that tells it from others of its file system.
    fileid Fileid = 20 "fileid": u64, Get, V0, Stat, Never, 8;
    /// How many objects the caller may still make.
    files_avail FilesAvail = 21 "files_avail": u64, Get, V0, FileSystem, Never, 8;
    /// How many objects can still be made.
    files_free FilesFree = 22 "files_free": u64, Get, V0, FileSystem, Never, 8;
    /// How many objects the file system has room for.
    files_total FilesTotal = 23 "files_total": u64, Get, V0, FileSystem, Never, 8;
    /// Where else the file system is.
    fs_locations FsLocations = 24 "fs_locations": FsLocations4<'a>, Get, V0, Export, Never, 4096;
    /// The object is hidden, as some systems have it.
    hidden Hidden = 25 "hidden": bool, GetSet, V0, Stat, Exclusive, 4;
    /// All objects of the file system have the same attributes and limits.
    homogeneous Homogeneous = 26 "homogeneous": bool, Get, V0, Export, Never, 4;
    /// The largest size of a file, bytes.
    maxfilesize Maxfilesize = 27 "maxfilesize": u64, Get, V0, FileSystem, Never, 8;
    /// The most names (hard links) of an object.
    maxlink Maxlink = 28 "maxlink": u32, Get, V0, FileSystem, Never, 4;
    /// The longest name, bytes.
    maxname Maxname = 29 "maxname": u32, Get, V0, FileSystem, Never, 4;
    /// The most bytes of a READ.
    maxread Maxread = 30 "maxread": u64, Get, V0, Server, Never, 8;
    /// The most bytes of a WRITE.
    maxwrite Maxwrite = 31 "maxwrite": u64, Get, V0, Server, Never, 8;
    /// What the contents are, as MIME has it.
    mimetype Mimetype = 32 "mimetype": Utf8str<'a>, GetSet, V0, Xattr, Exclusive, 260;
    /// Permission bits, set-user-ID, set-group-ID and sticky bit.
    mode Mode = 33 "mode": u32, GetSet, V0, Stat, Exclusive, 4;
    /// A name that is too long is refused and not cut off.
    no_trunc NoTrunc = 34 "no_trunc": bool, Get, V0, FileSystem, Never, 4;
    /// How many names (hard links) it has.
    numlinks Numlinks = 35 "numlinks": u32, Get, V0, Stat, Never, 4;
    /// The name of its owner, or the number in decimal.
    owner Owner = 36 "owner": Utf8str<'a>, GetSet, V0, Stat, Exclusive, 260;
    /// The name of its group, or the number in decimal.
    owner_group OwnerGroup = 37 "owner_group": Utf8str<'a>, GetSet, V0, Stat, Exclusive, 260;
    /// Bytes that the caller's quota leaves to the hard limit.
    quota_avail_hard QuotaAvailHard = 38 "quota_avail_hard": u64, Get, V0, FileSystem, Never, 8;
    /// Bytes that the caller's quota leaves to the soft limit.
    quota_avail_soft QuotaAvailSoft = 39 "quota_avail_soft": u64, Get, V0, FileSystem, Never, 8;
    /// Bytes of the caller's quota in use.
    quota_used QuotaUsed = 40 "quota_used": u64, Get, V0, FileSystem, Never, 8;
    /// Numbers of a device.
    rawdev Rawdev = 41 "rawdev": Specdata4, Get, V0, Stat, Never, 8;
    /// Bytes that the caller may still use.
    space_avail SpaceAvail = 42 "space_avail": u64, Get, V0, FileSystem, Never, 8;
    /// Bytes that are free.
    space_free SpaceFree = 43 "space_free": u64, Get, V0, FileSystem, Never, 8;
    /// Bytes of the file system.
    space_total SpaceTotal = 44 "space_total": u64, Get, V0, FileSystem, Never, 8;
    /// Bytes of disk that the object uses.
    space_used SpaceUsed = 45 "space_used": u64, Get, V0, Stat, Never, 8;
    /// The object belongs to the system, as some systems have it.
    system System = 46 "system": bool, GetSet, V0, Stat, Exclusive, 4;
    /// When its contents were read last.
    time_access TimeAccess = 47 "time_access": Nfstime4, Get, V0, Stat, Never, 12;
    /// What to set the time of the last access to.
    time_access_set TimeAccessSet = 48 "time_access_set": Settime4, Set, V0, Stat, Never, 16;
    /// When it was backed up last.
    time_backup TimeBackup = 49 "time_backup": Nfstime4, GetSet, V0, Stat, Exclusive, 12;
    /// When it was made.
    time_create TimeCreate = 50 "time_create": Nfstime4, GetSet, V0, Stat, Exclusive, 12;
    /// How fine the file system's times are.
    time_delta TimeDelta = 51 "time_delta": Nfstime4, Get, V0, FileSystem, Never, 12;
    /// When the attributes were changed last.
    time_metadata TimeMetadata = 52 "time_metadata": Nfstime4, Get, V0, Stat, Never, 12;
    /// When the contents were changed last.
    time_modify TimeModify = 53 "time_modify": Nfstime4, Get, V0, Stat, Never, 12;
    /// What to set the time of the last change to.
    time_modify_set TimeModifySet = 54 "time_modify_set": Settime4, Set, V0, Stat, Never, 16;
    /// The fileid of the directory that the file system's root covers, else the object's own.
    mounted_on_fileid MountedOnFileid = 55 "mounted_on_fileid": u64, Get, V0, Export, Never, 8;
    /// How late changes of a directory's attributes are notified.
    dir_notif_delay DirNotifDelay = 56 "dir_notif_delay": Nfstime4, Get, V1, State, Never, 12;
    /// How late changes of entries' attributes are notified.
    dirent_notif_delay DirentNotifDelay = 57 "dirent_notif_delay": Nfstime4, Get, V1, State, Never, 12;
    /// The ALLOW and DENY entries of the access control list, with flags.
    dacl Dacl = 58 "dacl": Nfsacl41<'a>, GetSet, V1, Acl, Exclusive, 65536;
    /// The AUDIT and ALARM entries of the access control list, with flags.
    sacl Sacl = 59 "sacl": Nfsacl41<'a>, GetSet, V1, Acl, Exclusive, 65536;
    /// Changes with the server's policy about the file system.
    change_policy ChangePolicy = 60 "change_policy": ChangePolicy4, Get, V1, Export, Never, 16;
    /// Where the file system's contents come from.
    fs_status FsStatus = 61 "fs_status": FsStatus4<'a>, Get, V1, Export, Never, 4096;
    /// The types of layouts that the file system gives.
    fs_layout_types FsLayoutTypes = 62 "fs_layout_types": Vec<u32>, Get, V1, State, Never, 36;
    /// How a new file is to be laid out.
    layout_hint LayoutHint = 63 "layout_hint": Layouthint4<'a>, Set, V1, State, Exclusive, 4096;
    /// The types of layouts that the file has.
    layout_types LayoutTypes = 64 "layout_types": Vec<u32>, Get, V1, State, Never, 36;
    /// The best size of an I/O by layout, bytes.
    layout_blksize LayoutBlksize = 65 "layout_blksize": u32, Get, V1, State, Never, 4;
    /// The best alignment of an I/O by layout, bytes.
    layout_alignment LayoutAlignment = 66 "layout_alignment": u32, Get, V1, State, Never, 4;
    /// Where else the file system is, and what differs there.
    fs_locations_info FsLocationsInfo = 67 "fs_locations_info": FsLocationsInfo4<'a>, Get, V1, Export, Never, 4096;
    /// From which sizes on layouts pay.
    mdsthreshold Mdsthreshold = 68 "mdsthreshold": Vec<ThresholdItem4<'a>>, Get, V1, State, Never, 4096;
    /// How long the object is kept.
    retention_get RetentionGet = 69 "retention_get": RetentionGet4, Get, V1, Stat, Never, 24;
    /// How long the object is to be kept.
    retention_set RetentionSet = 70 "retention_set": RetentionSet4, Set, V1, Stat, Exclusive, 16;
    /// How long the object is kept after an event.
    retentevt_get RetentevtGet = 71 "retentevt_get": RetentionGet4, Get, V1, Stat, Never, 24;
    /// How long the object is to be kept after an event.
    retentevt_set RetentevtSet = 72 "retentevt_set": RetentionSet4, Set, V1, Stat, Exclusive, 16;
    /// Holds that keep the object, a bit each.
    retention_hold RetentionHold = 73 "retention_hold": u64, GetSet, V1, Stat, Exclusive, 8;
    /// Bits of the mode to be set or reset.
    mode_set_masked ModeSetMasked = 74 "mode_set_masked": ModeMasked4, Set, V1, Stat, Exclusive, 8;
    /// The attributes that an exclusive create may set.
    suppattr_exclcreat SuppattrExclcreat = 75 "suppattr_exclcreat": Bitmap4, Get, V1, Server, Never, 20;
    /// Whether names are UTF-8: `FSCHARSET_CAP4_*`.
    fs_charset_cap FsCharsetCap = 76 "fs_charset_cap": u32, Get, V1, FileSystem, Never, 4;
    /// To what CLONE's offsets are aligned, bytes.
    clone_blksize CloneBlksize = 77 "clone_blksize": u32, Get, V2, FileSystem, Never, 4;
    /// Bytes that removing the object would free.
    space_freed SpaceFreed = 78 "space_freed": u64, Get, V2, Stat, Never, 8;
    /// What the order of change attributes says.
    change_attr_type ChangeAttrType = 79 "change_attr_type": ChangeAttrType4, Get, V2, FileSystem, Never, 4;
    /// The label of mandatory access control.
    sec_label SecLabel = 80 "sec_label": SecLabel4<'a>, GetSet, V2, Xattr, Exclusive, 4096;
    /// The mode of an object to be made, and the umask (RFC 8275).
    mode_umask ModeUmask = 81 "mode_umask": ModeUmask4, Set, V2, Stat, Exclusive, 8;
    /// The file system has extended attributes (RFC 8276).
    xattr_support XattrSupport = 82 "xattr_support": bool, Get, V2, Xattr, Never, 4;
    /// The contents would have to be fetched first (RFC 9754).
    offline Offline = 83 "offline": bool, Get, V2, Stat, Never, 4;
    /// The time of the last access by who has the delegation (RFC 9754).
    time_deleg_access TimeDelegAccess = 84 "time_deleg_access": Nfstime4, GetSet, V2, State, Never, 12;
    /// The time of the last change by who has the delegation (RFC 9754).
    time_deleg_modify TimeDelegModify = 85 "time_deleg_modify": Nfstime4, GetSet, V2, State, Never, 12;
    /// What OPEN takes here (RFC 9754).
    open_arguments OpenArguments = 86 "open_arguments": OpenArguments4, Get, V2, Server, Never, 100;
}
