//! Calls that are not idempotent, whose replies are lost with their connections: the server has
//! executed them, the second time they fail, and what is told is what the first time did. The same
//! failures are told as they are where the call went out once, or where something else is there.

mod answers;

use nfs_client::Client;
use nfs_client::ClientError;
use nfs_client::nfs3::{
    CreateHow, DeviceData, Fattr3, FileHandle, Ftype3, GetattrOk, LinkBody, LookupOk, Mknoddata,
    Nfsstat3, PipeData, PostOpAttr, RenameBody, Sattr3, Specdata3,
};
use nfs_wire::nfs3::{Call, Nfspath3, Procedure, ReadlinkOk};
use tokio::time::timeout;

use answers::*;

/// What the responder answers: every call that changes something fails with `status`.
fn failing(call: Call<'_>, status: Nfsstat3, there: Option<Fattr3>) -> Vec<u8> {
    match call {
        Call::Lookup(_) => match there {
            Some(attributes) => ok(&LookupOk {
                object: handle(b"there"),
                obj_attributes: Some(attributes),
                dir_attributes: None,
            }),
            None => fail(Nfsstat3::Noent, &PostOpAttr::None),
        },
        Call::Getattr(_) => ok(&GetattrOk {
            obj_attributes: attributes(Ftype3::Reg),
        }),
        Call::Readlink(_) => ok(&ReadlinkOk {
            symlink_attributes: None,
            data: Nfspath3(b"target"),
        }),
        Call::Fsinfo(_) => good(Procedure::Fsinfo),
        Call::Rename(_) => fail(status, &RenameBody::default()),
        Call::Link(_) => fail(status, &LinkBody::default()),
        _ => fail(status, &wcc()),
    }
}

/// One of the operations of the table.
#[derive(Clone, Copy, Debug)]
enum Operation {
    Guarded,
    Exclusive,
    Mkdir,
    Symlink(&'static [u8]),
    Fifo,
    Device(u32),
    Remove,
    Rmdir,
    Link,
}

impl Operation {
    fn procedure(self) -> Procedure {
        match self {
            Self::Guarded | Self::Exclusive => Procedure::Create,
            Self::Mkdir => Procedure::Mkdir,
            Self::Symlink(_) => Procedure::Symlink,
            Self::Fifo | Self::Device(_) => Procedure::Mknod,
            Self::Remove => Procedure::Remove,
            Self::Rmdir => Procedure::Rmdir,
            Self::Link => Procedure::Link,
        }
    }

    async fn run(self, client: &Client) -> Result<Option<FileHandle>, ClientError> {
        let (dir, name) = (client.root(), b"name");
        let plain = Sattr3::default();
        let made = match self {
            Self::Guarded => {
                let how = CreateHow::Guarded(plain);
                client.create_in(dir, name, &how).await
            }
            Self::Exclusive => client.create_new_in(dir, name, &plain).await,
            Self::Mkdir => client.mkdir_in(dir, name, &plain).await,
            Self::Symlink(target) => client.symlink_in(dir, name, target, &plain).await,
            Self::Fifo => {
                let data = PipeData {
                    pipe_attributes: plain,
                };
                client.mknod_in(dir, name, &Mknoddata::Fifo(data)).await
            }
            Self::Device(minor) => {
                let data = DeviceData {
                    dev_attributes: plain,
                    spec: Specdata3 { major: 4, minor },
                };
                let what = Mknoddata::CharacterDevice(data);
                client.mknod_in(dir, name, &what).await
            }
            Self::Remove => return client.remove_in(dir, name).await.map(|()| None),
            Self::Rmdir => return client.rmdir_in(dir, name).await.map(|()| None),
            Self::Link => {
                let linked = client.link_in(&handle(b"file"), dir, name).await;
                return linked.map(|()| None);
            }
        };
        made.map(|node| Some(node.handle))
    }
}

fn there(ftype: Ftype3, change: impl Fn(&mut Fattr3)) -> Option<Fattr3> {
    let mut attributes = attributes(ftype);
    attributes.size = 0;
    change(&mut attributes);
    Some(attributes)
}

#[tokio::test]
async fn what_the_first_call_did_is_what_is_told() {
    use Operation::*;
    let same = |_: &mut Fattr3| {};
    let device = |a: &mut Fattr3| a.rdev = Specdata3 { major: 4, minor: 1 };
    let longer = |a: &mut Fattr3| a.size = 1;
    let other = |a: &mut Fattr3| a.fileid = 8;
    let table: [(Operation, Nfsstat3, Option<Fattr3>, bool); 24] = [
        (Remove, Nfsstat3::Noent, None, true),
        (Remove, Nfsstat3::Acces, None, false),
        (Rmdir, Nfsstat3::Noent, None, true),
        (Rmdir, Nfsstat3::Notempty, None, false),
        (Guarded, Nfsstat3::Exist, there(Ftype3::Reg, same), true),
        (Guarded, Nfsstat3::Exist, there(Ftype3::Reg, longer), false),
        (Guarded, Nfsstat3::Exist, there(Ftype3::Dir, same), false),
        (Guarded, Nfsstat3::Exist, None, false),
        (Guarded, Nfsstat3::Acces, there(Ftype3::Reg, same), false),
        (Exclusive, Nfsstat3::Exist, there(Ftype3::Reg, same), false),
        (Mkdir, Nfsstat3::Exist, there(Ftype3::Dir, same), true),
        (Mkdir, Nfsstat3::Exist, there(Ftype3::Reg, same), false),
        (
            Symlink(b"target"),
            Nfsstat3::Exist,
            there(Ftype3::Lnk, same),
            true,
        ),
        (
            Symlink(b"elsewhere"),
            Nfsstat3::Exist,
            there(Ftype3::Lnk, same),
            false,
        ),
        (
            Symlink(b"target"),
            Nfsstat3::Exist,
            there(Ftype3::Reg, same),
            false,
        ),
        (Fifo, Nfsstat3::Exist, there(Ftype3::Fifo, same), true),
        (Fifo, Nfsstat3::Exist, there(Ftype3::Sock, same), false),
        (Device(1), Nfsstat3::Exist, there(Ftype3::Chr, device), true),
        (
            Device(2),
            Nfsstat3::Exist,
            there(Ftype3::Chr, device),
            false,
        ),
        (
            Device(1),
            Nfsstat3::Exist,
            there(Ftype3::Blk, device),
            false,
        ),
        (Link, Nfsstat3::Exist, there(Ftype3::Reg, same), true),
        (Link, Nfsstat3::Exist, there(Ftype3::Reg, other), false),
        (Link, Nfsstat3::Exist, None, false),
        (Link, Nfsstat3::Mlink, there(Ftype3::Reg, same), false),
    ];
    for (operation, status, there, done) in table {
        let lost = operation.procedure();
        let client = client_losing(lost, move |call| failing(call, status, there)).await;
        let told = timeout(HANG, operation.run(&client)).await.expect("hangs");
        let case = format!("{operation:?} {status:?} {there:?}");
        match told {
            Ok(Some(node)) => assert!(done && node == handle(b"there"), "{case}"),
            Ok(None) => assert!(done, "{case}"),
            Err(error) => assert_eq!((done, error.status()), (false, Some(status)), "{case}"),
        }
        assert_eq!(client.nfs().connections().stats().resent_calls, 1);
        // The same again, and this time it goes out once.
        let told = timeout(HANG, operation.run(&client)).await.expect("hangs");
        assert_eq!(told.unwrap_err().status(), Some(status), "{case}");
    }
}

/// Renames `from` to `to`, where RENAME fails with `status` after its first reply was lost. Before, the
/// name `from` has the file number in `from`; after, `to` has the one in `to`.
async fn rename(from: Option<u64>, to: Option<u64>, status: Nfsstat3) -> Result<(), ClientError> {
    let client = client_losing(Procedure::Rename, move |call| match call {
        Call::Lookup(args) => {
            let fileid = if args.what.name.0 == b"from" {
                from
            } else {
                to
            };
            let there = fileid.and_then(|fileid| there(Ftype3::Reg, |a| a.fileid = fileid));
            failing(call, status, there)
        }
        call => failing(call, status, None),
    })
    .await;
    let root = client.root();
    let renamed = client.rename_in(root, b"from", root, b"to");
    timeout(HANG, renamed).await.expect("the call hangs")
}

#[tokio::test]
async fn a_rename_is_done_if_the_target_is_what_the_source_was() {
    let noent = Nfsstat3::Noent;
    rename(Some(7), Some(7), noent).await.unwrap();
    for (from, to, status) in [
        (Some(7), Some(8), noent),
        (Some(7), None, noent),
        (None, Some(7), noent),
        (Some(7), Some(7), Nfsstat3::Acces),
    ] {
        let told = rename(from, to, status).await.unwrap_err();
        assert_eq!(told.status(), Some(status), "{from:?} {to:?}");
    }
}

#[tokio::test]
async fn an_exclusive_create_keeps_its_verifier_and_then_sets_the_attributes() {
    use std::sync::{Arc, Mutex};
    let verifiers = Arc::new(Mutex::new(Vec::new()));
    let (seen, modes) = (verifiers.clone(), Arc::new(Mutex::new(Vec::new())));
    let set = modes.clone();
    let client = client_losing(Procedure::Create, move |call| {
        match &call {
            Call::Create(args) => match args.how {
                CreateHow::Exclusive(verifier) => seen.lock().unwrap().push(verifier),
                how => panic!("{how:?}"),
            },
            Call::Setattr(args) => set.lock().unwrap().push(args.new_attributes),
            _ => {}
        }
        good(call.procedure())
    })
    .await;
    let mode = Sattr3 {
        mode: Some(0o640),
        ..Sattr3::default()
    };
    let root = client.root();
    client.create_new_in(root, b"a", &mode).await.unwrap();
    client.create_new_in(root, b"b", &mode).await.unwrap();
    let verifiers = verifiers.lock().unwrap();
    assert_eq!(verifiers.len(), 3);
    assert_eq!(verifiers[0], verifiers[1], "sent again as it was");
    assert_ne!(verifiers[0], verifiers[2]);
    let modes = modes.lock().unwrap();
    assert_eq!(modes.len(), 2);
    assert_eq!(modes[0].mode, Some(0o640));
}

#[tokio::test]
async fn without_exclusive_a_create_is_guarded() {
    let client = client_losing(Procedure::Null, |call| match call {
        Call::Create(args) => match args.how {
            CreateHow::Exclusive(_) => fail(Nfsstat3::Notsupp, &wcc()),
            CreateHow::Guarded(_) => good(Procedure::Create),
            how @ CreateHow::Unchecked(_) => panic!("{how:?}"),
        },
        call => good(call.procedure()),
    })
    .await;
    let plain = Sattr3::default();
    let node = client.create_new_in(client.root(), b"a", &plain).await;
    assert_eq!(node.unwrap().handle, handle(b"new"));
}
