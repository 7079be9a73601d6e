//! Strategies of the property tests: any value of each type.

use proptest::option;
use proptest::prelude::*;

use super::super::*;
use crate::test_support::{bytes, file_handle};

/// One call of each procedure, in the RFC's order.
pub(super) fn a_call_of_each_procedure() -> impl Strategy<Value = Vec<Call<'static>>> {
    let front = (
        (file_handle(), file_handle(), file_handle()),
        (sattr3(), option::of(nfstime3()), any::<u32>()),
        (dir_op(), dir_op(), dir_op()),
        (any::<u64>(), any::<u64>(), any::<[u8; 8]>()),
        (create_how(), mknoddata(), sattr3()),
        (write_args(), bytes(70).prop_map(Nfspath3)),
    );
    front.prop_map(
        |(
            (object, dir, file),
            (new_attributes, guard, count),
            (what, from, to),
            (offset, cookie, cookieverf),
            (how, mknod, attributes),
            (write, symlink_data),
        )| {
            let dircount = count / 8;
            let symlink = SymlinkData {
                symlink_attributes: attributes,
                symlink_data,
            };
            vec![
                Call::Null(()),
                Call::Getattr(GetattrArgs { object }),
                Call::Setattr(SetattrArgs {
                    object,
                    new_attributes,
                    guard,
                }),
                Call::Lookup(LookupArgs { what }),
                Call::Access(AccessArgs {
                    object,
                    access: count,
                }),
                Call::Readlink(ReadlinkArgs { symlink: object }),
                Call::Read(ReadArgs {
                    file,
                    offset,
                    count,
                }),
                Call::Write(write),
                Call::Create(CreateArgs { where_: what, how }),
                Call::Mkdir(MkdirArgs {
                    where_: what,
                    attributes,
                }),
                Call::Symlink(SymlinkArgs {
                    where_: what,
                    symlink,
                }),
                Call::Mknod(MknodArgs {
                    where_: what,
                    what: mknod,
                }),
                Call::Remove(RemoveArgs { object: what }),
                Call::Rmdir(RmdirArgs { object: what }),
                Call::Rename(RenameArgs { from, to }),
                Call::Link(LinkArgs { file, link: to }),
                Call::Readdir(ReaddirArgs {
                    dir,
                    cookie,
                    cookieverf,
                    count,
                }),
                Call::Readdirplus(ReaddirplusArgs {
                    dir,
                    cookie,
                    cookieverf,
                    dircount,
                    maxcount: count,
                }),
                Call::Fsstat(FsstatArgs { fsroot: object }),
                Call::Fsinfo(FsinfoArgs { fsroot: object }),
                Call::Pathconf(PathconfArgs { object }),
                Call::Commit(CommitArgs {
                    file,
                    offset,
                    count,
                }),
            ]
        },
    )
}

pub(super) fn write_args() -> impl Strategy<Value = WriteArgs<'static>> {
    let fields = (
        file_handle(),
        any::<u64>(),
        any::<u32>(),
        stable_how(),
        bytes(90),
    );
    fields.prop_map(|(file, offset, count, stable, data)| WriteArgs {
        file,
        offset,
        count,
        stable,
        data,
    })
}

pub(super) fn dir_op() -> impl Strategy<Value = DirOpArgs<'static>> {
    (file_handle(), filename()).prop_map(|(dir, name)| DirOpArgs { dir, name })
}

pub(super) fn filename() -> impl Strategy<Value = Filename<'static>> {
    bytes(30).prop_map(Filename)
}

pub(super) fn stable_how() -> impl Strategy<Value = StableHow> {
    prop_oneof![
        Just(StableHow::Unstable),
        Just(StableHow::DataSync),
        Just(StableHow::FileSync),
    ]
}

pub(super) fn nfstime3() -> impl Strategy<Value = Nfstime3> + Clone {
    any::<(u32, u32)>().prop_map(|(seconds, nseconds)| Nfstime3 { seconds, nseconds })
}

pub(super) fn sattr3() -> impl Strategy<Value = Sattr3> + Clone {
    let fields = (
        option::of(any::<u32>()),
        option::of(any::<u32>()),
        option::of(any::<u32>()),
        option::of(any::<u64>()),
        set_time(),
        set_time(),
    );
    fields.prop_map(|(mode, uid, gid, size, atime, mtime)| Sattr3 {
        mode,
        uid,
        gid,
        size,
        atime,
        mtime,
    })
}

fn set_time() -> impl Strategy<Value = SetTime> + Clone {
    prop_oneof![
        Just(SetTime::DontChange),
        Just(SetTime::ServerTime),
        nfstime3().prop_map(SetTime::ClientTime),
    ]
}

fn create_how() -> impl Strategy<Value = CreateHow> {
    prop_oneof![
        sattr3().prop_map(CreateHow::Unchecked),
        sattr3().prop_map(CreateHow::Guarded),
        any::<[u8; 8]>().prop_map(CreateHow::Exclusive),
    ]
}

fn mknoddata() -> impl Strategy<Value = Mknoddata> {
    let device = (sattr3(), specdata3()).prop_map(|(dev_attributes, spec)| DeviceData {
        dev_attributes,
        spec,
    });
    let pipe = sattr3().prop_map(|pipe_attributes| PipeData { pipe_attributes });
    prop_oneof![
        device.clone().prop_map(Mknoddata::CharacterDevice),
        device.prop_map(Mknoddata::BlockDevice),
        pipe.clone().prop_map(Mknoddata::Socket),
        pipe.prop_map(Mknoddata::Fifo),
        Just(Mknoddata::Other(Ftype3::Reg)),
        Just(Mknoddata::Other(Ftype3::Dir)),
        Just(Mknoddata::Other(Ftype3::Lnk)),
    ]
}

fn specdata3() -> impl Strategy<Value = Specdata3> + Clone {
    any::<(u32, u32)>().prop_map(|(major, minor)| Specdata3 { major, minor })
}

fn ftype3() -> impl Strategy<Value = Ftype3> {
    prop_oneof![
        Just(Ftype3::Reg),
        Just(Ftype3::Dir),
        Just(Ftype3::Blk),
        Just(Ftype3::Chr),
        Just(Ftype3::Lnk),
        Just(Ftype3::Sock),
        Just(Ftype3::Fifo),
    ]
}

pub(super) fn fattr3() -> impl Strategy<Value = Fattr3> {
    let fields = (
        ftype3(),
        any::<[u32; 4]>(),
        any::<[u64; 4]>(),
        specdata3(),
        (nfstime3(), nfstime3(), nfstime3()),
    );
    fields.prop_map(|(ftype, words, hypers, rdev, (atime, mtime, ctime))| {
        let [mode, nlink, uid, gid] = words;
        let [size, used, fsid, fileid] = hypers;
        Fattr3 {
            ftype,
            mode,
            nlink,
            uid,
            gid,
            size,
            used,
            rdev,
            fsid,
            fileid,
            atime,
            mtime,
            ctime,
        }
    })
}

pub(super) fn post_op_attr() -> impl Strategy<Value = PostOpAttr> {
    option::of(fattr3())
}

pub(super) fn wcc_data() -> impl Strategy<Value = WccData> {
    let before = (any::<u64>(), nfstime3(), nfstime3()).prop_map(|(size, mtime, ctime)| WccAttr {
        size,
        mtime,
        ctime,
    });
    (option::of(before), post_op_attr()).prop_map(|(before, after)| WccData { before, after })
}

pub(super) fn entry3() -> impl Strategy<Value = Entry3<'static>> {
    (any::<u64>(), filename(), any::<u64>()).prop_map(|(fileid, name, cookie)| Entry3 {
        fileid,
        name,
        cookie,
    })
}

pub(super) fn entry_plus3() -> impl Strategy<Value = EntryPlus3<'static>> {
    let fields = (entry3(), post_op_attr(), option::of(file_handle()));
    fields.prop_map(|(entry, name_attributes, name_handle)| EntryPlus3 {
        entry,
        name_attributes,
        name_handle,
    })
}
