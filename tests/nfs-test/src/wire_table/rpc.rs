//! RPC itself: programs, versions, credentials, garbage, and calls that come twice.

use std::time::Duration;

use anyhow::{Context as _, Result};
use nfs_client::nfs3::{self, CreateHow, FileHandle, Filename, Nfsstat3 as S, Sattr3, number};
use nfs_client::{Identity, Procedure, RawConnection, RpcError, mount3};
use nfs_wire::Encode;
use nfs_wire::auth::AuthStat;
use nfs_wire::nfs3::{
    CreateArgs, DirOpArgs, GetattrArgs, LinkArgs, MkdirArgs, Procedure as P, RemoveArgs,
    RenameArgs, RmdirArgs,
};
use nfs_wire::rpc::{AcceptStat, Rejected, ReplyBody, ReplyHeader};
use nfs_wire::{Decode, Decoder};
use tokio::time::timeout;

use super::bed::Bed;
use super::table::{Table, status};

/// How long a server may stay silent before that is its answer.
const SILENCE: Duration = Duration::from_secs(10);

pub(super) async fn rows(bed: &Bed, table: &mut Table) -> Result<()> {
    programs(bed, table).await?;
    credentials(bed, table).await?;
    garbage(bed, table).await?;
    odd_records(bed, table).await?;
    repeats(bed, table).await
}

async fn programs(bed: &Bed, table: &mut Table) -> Result<()> {
    let mut call = async |row: &str, program, version, number, right: fn(&RpcError) -> bool| {
        let procedure = Procedure {
            program,
            version,
            number,
        };
        let identity = bed.root.identity();
        let got = bed
            .root
            .connection()
            .call_raw(procedure, identity, &[])
            .await;
        let is_right = got.as_ref().is_err_and(right);
        table.check(row, is_right, got);
    };
    let unavailable: fn(&RpcError) -> bool = |e| matches!(e, RpcError::ProgUnavail { .. });
    let no_procedure: fn(&RpcError) -> bool = |e| matches!(e, RpcError::ProcUnavail);
    let only_3: fn(&RpcError) -> bool =
        |e| matches!(e, RpcError::ProgMismatch { low, high } if *low <= 3 && *high >= 3);
    call("an unknown program", 200_000, 1, 0, unavailable).await;
    // The Linux client asks for it at each mount.
    call("NFSACL", 100_227, 3, 0, unavailable).await;
    for version in [0, 1, 2, 99, u32::MAX] {
        call(
            &format!("NFS version {version}"),
            nfs3::PROGRAM,
            version,
            0,
            only_3,
        )
        .await;
    }
    for number in [22, 23, u32::MAX] {
        call(
            &format!("NFS procedure {number}"),
            nfs3::PROGRAM,
            3,
            number,
            no_procedure,
        )
        .await;
    }
    let connection = bed.mount.connection();
    for number in [6, u32::MAX] {
        let procedure = Procedure {
            program: mount3::PROGRAM,
            version: 3,
            number,
        };
        let got = connection.call_raw(procedure, &Identity::none(), &[]).await;
        let right = matches!(got, Err(RpcError::ProcUnavail));
        table.check(&format!("MOUNT procedure {number}"), right, got);
    }
    let procedure = Procedure {
        program: mount3::PROGRAM,
        version: 99,
        number: 0,
    };
    let got = connection.call_raw(procedure, &Identity::none(), &[]).await;
    let right = matches!(got, Err(RpcError::ProgMismatch { .. }));
    table.check("MOUNT version 99", right, got);
    Ok(())
}

async fn credentials(bed: &Bed, table: &mut Table) -> Result<()> {
    let many: Vec<u32> = (0..17).collect();
    let long_name = [b'm'; 256];
    let denied = [
        ("17 groups", Identity::sys_unchecked(b"host", 0, 0, &many)),
        (
            "a machine name of 256 bytes",
            Identity::sys_unchecked(&long_name, 0, 0, &[]),
        ),
        ("AUTH_SYS without a body", Identity::raw(1, &[])),
        ("AUTH_SYS cut short", Identity::raw(1, &[0; 10])),
        ("an unknown flavor", Identity::raw(99, &[])),
        ("RPCSEC_GSS garbage", Identity::raw(6, &[0; 20])),
    ];
    for (what, identity) in denied {
        let got = status(bed.root.with_identity(identity).getattr(&bed.top).await);
        let right = matches!(
            got,
            Err(RpcError::Denied {
                stat: AuthStat::BadCred
                    | AuthStat::RejectedCred
                    | AuthStat::TooWeak
                    | AuthStat::Failed
            })
        );
        table.check(&format!("GETATTR with {what}"), right, got);
    }
    // As a client that wants Kerberos begins: with a token in the arguments of NULL.
    let gss = Identity::raw(6, &[0; 20]);
    for (what, program, connection) in [
        ("NFS", nfs3::PROGRAM, bed.root.connection()),
        ("MOUNT", mount3::PROGRAM, bed.mount.connection()),
    ] {
        let procedure = Procedure {
            program,
            version: 3,
            number: 0,
        };
        let got = connection
            .call_raw(procedure, &gss, &[0, 0, 0, 4, 1, 2, 3, 4])
            .await;
        let right = matches!(got, Err(RpcError::Denied { .. }));
        table.check(&format!("{what} NULL with an RPCSEC_GSS token"), right, got);
    }
    let sixteen = Identity::sys_unchecked(&long_name[..255], 0, 0, &many[..16]);
    let got = status(bed.root.with_identity(sixteen).getattr(&bed.top).await);
    table.expect(
        "GETATTR with 16 groups and a name of 255 bytes",
        got,
        &[S::Ok],
    );
    for identity in [Identity::none(), Identity::sys(12_345, 54_321, &[])] {
        let got = bed.root.with_identity(identity).null().await;
        table.check("NULL as anybody", got.is_ok(), got);
    }
    // AUTH_NONE is enough for MNT: some clients use it.
    let path = bed.export.to_str().context("the export's path is UTF-8")?;
    let mount = bed.mount.with_identity(Identity::none());
    let got = mount.mnt(path.as_bytes()).await?;
    table.check("MNT with AUTH_NONE", got.is_ok(), got);
    Ok(())
}

async fn garbage(bed: &Bed, table: &mut Table) -> Result<()> {
    let right = nfs_wire::encode_to_vec(&GetattrArgs { object: bed.top });
    let cases = [
        ("no arguments", Vec::new()),
        ("arguments cut short", right[..right.len() - 4].to_vec()),
        (
            "arguments cut inside a word",
            right[..right.len() - 1].to_vec(),
        ),
        ("a handle of 2^32-1 bytes", vec![0xff; 4]),
        ("four bytes too many", [&right[..], &[0; 4]].concat()),
    ];
    for (what, args) in cases {
        let identity = bed.root.identity();
        let connection = bed.root.connection();
        let got = connection
            .call_raw(number(P::Getattr), identity, &args)
            .await;
        let is_right = matches!(got, Err(RpcError::GarbageArgs));
        table.check(&format!("GETATTR with {what}"), is_right, got);
    }
    // Values that the protocol does not define, each inside arguments that are right otherwise.
    type Build = fn(&mut Vec<u8>, FileHandle);
    let undefined: [(&str, P, Build); 4] = [
        ("createmode3", P::Create, |out, dir| {
            name_and(out, dir, &[3])
        }),
        ("ftype3", P::Mknod, |out, dir| name_and(out, dir, &[8])),
        ("time_how", P::Mkdir, |out, dir| {
            name_and(out, dir, &[0, 0, 0, 0, 3, 0])
        }),
        ("bool", P::Mkdir, |out, dir| {
            name_and(out, dir, &[2, 0, 0, 0, 0, 0])
        }),
    ];
    for (what, procedure, build) in undefined {
        let mut args = Vec::new();
        build(&mut args, bed.top);
        let identity = bed.root.identity();
        let connection = bed.root.connection();
        let got = connection
            .call_raw(number(procedure), identity, &args)
            .await;
        let right = matches!(got, Err(RpcError::GarbageArgs));
        table.check(
            &format!("{} with an undefined {what}", procedure.name()),
            right,
            got,
        );
    }
    let got = status(bed.root.lookup(&bed.top, b"undefined").await);
    table.expect("LOOKUP after the garbage", got, &[S::Noent]);
    Ok(())
}

fn name_and(out: &mut Vec<u8>, dir: FileHandle, words: &[u32]) {
    let name = Filename(b"undefined");
    let mut e = nfs_wire::Encoder::new(out);
    DirOpArgs { dir, name }.encode(&mut e);
    for word in words {
        e.u32(*word);
    }
}

async fn odd_records(bed: &Bed, table: &mut Table) -> Result<()> {
    let null = |xid| RawConnection::call_body(xid, number(P::Null), &Identity::none(), &());
    // RPC version 3.
    let mut call = null(1);
    call[11] = 3;
    let reply = exchange(bed, &call).await?;
    let mismatch = ReplyBody::Denied(Rejected::RpcMismatch { low: 2, high: 2 });
    table.check(
        "RPC version 3",
        reply.is_some_and(|r| header_is(&r, 1, mismatch)),
        (),
    );
    // One call in fragments of one byte, then many calls in one write.
    let mut raw = RawConnection::connect(bed.nfs).await?;
    let body = null(2);
    let mut stream = Vec::new();
    for (at, byte) in body.iter().enumerate() {
        let last = if at + 1 == body.len() { 0x80 } else { 0 };
        stream.extend_from_slice(&[last, 0, 0, 1, *byte]);
    }
    for xid in 3..20 {
        let body = null(xid);
        stream.extend_from_slice(&(0x8000_0000 | body.len() as u32).to_be_bytes());
        stream.extend_from_slice(&body);
    }
    raw.send(&stream).await?;
    let mut xids = Vec::new();
    for _ in 2..20 {
        let reply = timeout(SILENCE, raw.receive_record()).await??;
        let reply = reply.context("the server hangs up on fragments")?;
        xids.extend(reply.first_chunk().map(|word| u32::from_be_bytes(*word)));
    }
    xids.sort_unstable();
    table.check(
        "calls in fragments and in a batch",
        xids == (2..20).collect::<Vec<_>>(),
        xids,
    );
    // A reply instead of a call, and records too short for one: no answer, or the end.
    for (what, body) in [
        ("a reply", [0, 0, 0, 9, 0, 0, 0, 1, 0, 0, 0, 0].to_vec()),
        ("nothing", Vec::new()),
        ("three bytes", vec![1, 2, 3]),
    ] {
        let mut raw = RawConnection::connect(bed.nfs).await?;
        raw.send_record(&body).await?;
        raw.finish_sending().await?;
        let got = timeout(SILENCE, raw.receive_record()).await;
        let silent = matches!(got, Ok(Ok(None) | Err(_)));
        table.check(&format!("a record with {what}"), silent, got);
    }
    // A length that no call has: the connection ends, others go on.
    let mut raw = RawConnection::connect(bed.nfs).await?;
    raw.send(&[0xff; 4]).await?;
    let got = timeout(SILENCE, async {
        // The server may want to see some of it first.
        while raw.send(&[0; 65_536]).await.is_ok() {}
    })
    .await;
    table.check(
        "a record of 2^31-1 bytes is not waited for",
        got.is_ok(),
        (),
    );
    let got = status(bed.root.getattr(&bed.top).await);
    table.expect("GETATTR on another connection after it", got, &[S::Ok]);
    Ok(())
}

/// A call that comes twice with one xid is answered from the reply cache, on the same connection and
/// on the next one, as after a reconnect.
async fn repeats(bed: &Bed, table: &mut Table) -> Result<()> {
    let (top, name) = (bed.top, |name| Filename(name));
    let at = |n: &'static [u8]| DirOpArgs {
        dir: top,
        name: name(n),
    };
    bed.new_file("twice-removed").await?;
    bed.new_dir("twice-rmdir").await?;
    bed.new_file("twice-renamed").await?;
    let file = bed.new_file("twice-linked").await?;
    let how = CreateHow::Guarded(Sattr3::default());
    let attributes = Sattr3::default();
    let calls: [(P, Vec<u8>); 6] = [
        (
            P::Remove,
            nfs_wire::encode_to_vec(&RemoveArgs {
                object: at(b"twice-removed"),
            }),
        ),
        (
            P::Rmdir,
            nfs_wire::encode_to_vec(&RmdirArgs {
                object: at(b"twice-rmdir"),
            }),
        ),
        (
            P::Create,
            nfs_wire::encode_to_vec(&CreateArgs {
                where_: at(b"twice-created"),
                how,
            }),
        ),
        (
            P::Mkdir,
            nfs_wire::encode_to_vec(&MkdirArgs {
                where_: at(b"twice-made"),
                attributes,
            }),
        ),
        (
            P::Rename,
            nfs_wire::encode_to_vec(&RenameArgs {
                from: at(b"twice-renamed"),
                to: at(b"twice-renamed-now"),
            }),
        ),
        (
            P::Link,
            nfs_wire::encode_to_vec(&LinkArgs {
                file,
                link: at(b"twice-linked-now"),
            }),
        ),
    ];
    let mut raw = RawConnection::connect(bed.nfs).await?;
    for (index, (procedure, args)) in calls.iter().enumerate() {
        let xid = 0x5eed_0000 + index as u32;
        let mut body = RawConnection::call_body(xid, number(*procedure), bed.root.identity(), &());
        body.extend_from_slice(args);
        let what = procedure.name();
        let first = timeout(SILENCE, raw.exchange(&body)).await??;
        let first = first.context("the server hangs up")?;
        let status = first.get(24..28) == Some(&[0; 4]);
        table.check(&format!("{what}, once"), status, first.get(24..28));
        let second = timeout(SILENCE, raw.exchange(&body)).await??;
        table.check(
            &format!("{what}, sent again"),
            second.as_ref() == Some(&first),
            second,
        );
        let third = exchange(bed, &body).await?;
        let row = format!("{what}, sent again over a new connection");
        table.check(&row, third.as_ref() == Some(&first), third);
    }
    // The same xid with another call is another call.
    let mut body =
        RawConnection::call_body(0x5eed_0000, number(P::Remove), bed.root.identity(), &());
    body.extend_from_slice(&nfs_wire::encode_to_vec(&RemoveArgs {
        object: at(b"never-there"),
    }));
    let other = timeout(SILENCE, raw.exchange(&body))
        .await??
        .context("the server hangs up")?;
    let noent = other.get(24..28) == Some(&2_u32.to_be_bytes());
    table.check("another REMOVE with a used xid", noent, other.get(24..28));
    Ok(())
}

async fn exchange(bed: &Bed, body: &[u8]) -> Result<Option<Vec<u8>>> {
    let mut raw = RawConnection::connect(bed.nfs).await?;
    Ok(timeout(SILENCE, raw.exchange(body)).await??)
}

fn header_is(reply: &[u8], xid: u32, body: ReplyBody<'_>) -> bool {
    let header = ReplyHeader::decode(&mut Decoder::new(reply));
    let success = matches!(
        body,
        ReplyBody::Accepted {
            stat: AcceptStat::Success,
            ..
        }
    );
    !success && header.is_ok_and(|header| header.xid == xid && header.body == body)
}
