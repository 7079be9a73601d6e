//! The procedures against a responder whose results are right, cut short, too long or contradict
//! themselves: each call ends with the right answer or a typed error.

mod answers;

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use nfs_client::error::BadReply;
use nfs_client::nfs3::{Failure, LinkBody, Nfsstat3, PostOpAttr, RenameBody, Sattr3, StableHow};
use nfs_client::{Nfs3, RpcError};
use nfs_wire::nfs3::{Call, Procedure, ReadOk};
use tokio::time::timeout;

use answers::*;

/// Calls `procedure` with arguments that fit it, and tells how it ended.
async fn call(nfs: &Nfs3, procedure: Procedure) -> Result<Result<(), Nfsstat3>, RpcError> {
    fn told<O, F>(outcome: Result<O, Failure<F>>) -> Result<(), Nfsstat3> {
        outcome.map(drop).map_err(|failure| failure.status)
    }
    let (h, sattr) = (&handle(b"handle"), &Sattr3::default());
    let how = &nfs_client::nfs3::CreateHow::Guarded(*sattr);
    let pipe = nfs_client::nfs3::PipeData {
        pipe_attributes: *sattr,
    };
    let fifo = &nfs_client::nfs3::Mknoddata::Fifo(pipe);
    let data = Bytes::from_static(b"bytes");
    Ok(match procedure {
        Procedure::Null => Ok(nfs.null().await?),
        Procedure::Getattr => told(nfs.getattr(h).await?),
        Procedure::Setattr => told(nfs.setattr(h, sattr, None).await?),
        Procedure::Lookup => told(nfs.lookup(h, b"name").await?),
        Procedure::Access => told(nfs.access(h, 0x3f).await?),
        Procedure::Readlink => told(nfs.readlink(h).await?),
        Procedure::Read => told(nfs.read(h, 0, 5).await?),
        Procedure::Write => told(nfs.write(h, 0, StableHow::FileSync, data).await?),
        Procedure::Create => told(nfs.create(h, b"name", how).await?),
        Procedure::Mkdir => told(nfs.mkdir(h, b"name", sattr).await?),
        Procedure::Symlink => told(nfs.symlink(h, b"name", sattr, b"target").await?),
        Procedure::Mknod => told(nfs.mknod(h, b"name", fifo).await?),
        Procedure::Remove => told(nfs.remove(h, b"name").await?),
        Procedure::Rmdir => told(nfs.rmdir(h, b"name").await?),
        Procedure::Rename => told(nfs.rename(h, b"from", h, b"to").await?),
        Procedure::Link => told(nfs.link(h, h, b"name").await?),
        Procedure::Readdir => told(nfs.readdir(h, 0, [0; 8], 4096).await?),
        Procedure::Readdirplus => told(nfs.readdirplus(h, 0, [0; 8], 512, 4096).await?),
        Procedure::Fsstat => told(nfs.fsstat(h).await?),
        Procedure::Fsinfo => told(nfs.fsinfo(h).await?),
        Procedure::Pathconf => told(nfs.pathconf(h).await?),
        Procedure::Commit => told(nfs.commit(h, 0, 0).await?),
    })
}

#[tokio::test]
async fn every_procedure_reads_its_results_and_refuses_them_cut_anywhere() {
    let cut = Arc::new(Mutex::new(None::<usize>));
    let setting = cut.clone();
    let (nfs, _) = client_of(move |call| {
        let mut results = good(call.procedure());
        match *cut.lock().unwrap() {
            Some(len) if len > results.len() => results.resize(len, 0),
            Some(len) => results.truncate(len),
            None => {}
        }
        results
    })
    .await;
    let set = |len| *setting.lock().unwrap() = len;
    for &procedure in Procedure::ALL {
        set(None);
        assert_eq!(
            call(&nfs, procedure).await.unwrap(),
            Ok(()),
            "{procedure:?}"
        );
        let len = good(procedure).len();
        for cut in (0..len).chain([len + 1, len + 4]) {
            set(Some(cut));
            let result = timeout(HANG, call(&nfs, procedure))
                .await
                .expect("the call hangs");
            let bad = matches!(result, Err(RpcError::BadReply(_)));
            assert!(bad, "{procedure:?} cut to {cut} of {len}: {result:?}");
        }
    }
}

#[tokio::test]
async fn every_procedure_tells_the_status() {
    let (nfs, _) = client_of(|call| match call.procedure() {
        Procedure::Null => Vec::new(),
        Procedure::Getattr => fail(Nfsstat3::Stale, &()),
        Procedure::Rename => fail(Nfsstat3::Stale, &RenameBody::default()),
        Procedure::Link => fail(Nfsstat3::Stale, &LinkBody::default()),
        Procedure::Setattr
        | Procedure::Write
        | Procedure::Create
        | Procedure::Mkdir
        | Procedure::Symlink
        | Procedure::Mknod
        | Procedure::Remove
        | Procedure::Rmdir
        | Procedure::Commit => fail(Nfsstat3::Stale, &wcc()),
        _ => fail(Nfsstat3::Stale, &PostOpAttr::None),
    })
    .await;
    for &procedure in Procedure::ALL {
        let expected = if procedure == Procedure::Null {
            Ok(())
        } else {
            Err(Nfsstat3::Stale)
        };
        assert_eq!(
            call(&nfs, procedure).await.unwrap(),
            expected,
            "{procedure:?}"
        );
    }
}

#[tokio::test]
async fn for_reading_only_nothing_that_changes_anything_is_sent() {
    let (nfs, _) = client_of(|call| match call.procedure() {
        Procedure::Setattr
        | Procedure::Write
        | Procedure::Create
        | Procedure::Mkdir
        | Procedure::Symlink
        | Procedure::Mknod
        | Procedure::Remove
        | Procedure::Rmdir
        | Procedure::Rename
        | Procedure::Link => panic!("{call:?} was sent"),
        procedure => good(procedure),
    })
    .await;
    let nfs = nfs.read_only().with_identity(nfs.identity().clone());
    let mut refused = Vec::new();
    for &procedure in Procedure::ALL {
        match call(&nfs, procedure).await.unwrap() {
            Ok(()) => {}
            Err(status) => {
                assert_eq!(status, Nfsstat3::Rofs);
                refused.push(procedure);
            }
        }
    }
    assert_eq!(refused.len(), 10, "{refused:?}");
}

#[tokio::test]
async fn a_read_never_brings_more_than_was_asked_for() {
    let (nfs, _) = client_of(|call| {
        let Call::Read(args) = call else {
            panic!("{call:?}")
        };
        // The offset says what is wrong.
        let (count, data): (u32, &[u8]) = match args.offset {
            0 => (6, b"six..."),
            1 => (4, b"five."),
            _ => (5, b"4..."),
        };
        ok(&ReadOk {
            file_attributes: None,
            count,
            eof: false,
            data,
        })
    })
    .await;
    for offset in 0..3 {
        let result = nfs.read(&handle(b"f"), offset, 5).await;
        let bad = matches!(
            result,
            Err(RpcError::BadReply(BadReply::ReadCount { asked: 5, .. }))
        );
        assert!(bad, "{result:?}");
    }
}
