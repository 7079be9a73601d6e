//! READ, WRITE and COMMIT at every edge: the end of the file, the server's sizes, the end of offsets.

use anyhow::{Context as _, Result, anyhow};
use bytes::Bytes;
use nfs_client::nfs3::{FileHandle, FsinfoOk, Nfs3, Nfsstat3 as S, StableHow, WriteOk};
use nfs_client::{ConnectOptions, Connection, Reconnect, RpcError};
use nfs_lab::pattern;
use nfs_wire::Decode;
use nfs_wire::nfs3::{Failure, Procedure, ReadArgs, ReadOk, WccData, WriteArgs};

use super::bed::Bed;
use super::table::{Table, status};

pub(super) async fn rows(bed: &Bed, table: &mut Table) -> Result<()> {
    let info = match bed.root.fsinfo(&bed.top).await? {
        Ok(info) => info,
        Err(failure) => return Err(anyhow!("FSINFO: {}", failure.status.word())),
    };
    sizes(bed, table, &info).await?;
    ends(bed, table).await?;
    last_offsets(bed, table, &info).await?;
    large_calls(bed, table, &info).await?;
    stability(bed, table).await?;
    contradictions(bed, table).await
}

/// FSINFO, FSSTAT and PATHCONF are the file system's.
async fn sizes(bed: &Bed, table: &mut Table, info: &FsinfoOk) -> Result<()> {
    const MIB: u32 = 1 << 20;
    table.check(
        "FSINFO rtmax is 1 MiB or more",
        info.rtmax >= MIB,
        info.rtmax,
    );
    table.check(
        "FSINFO wtmax is 1 MiB or more",
        info.wtmax >= MIB,
        info.wtmax,
    );
    let preferred = info.rtpref <= info.rtmax && info.wtpref <= info.wtmax;
    table.check("FSINFO prefers no more than it takes", preferred, info);
    table.check(
        "FSINFO maxfilesize beyond 4 GiB",
        info.maxfilesize > 1 << 32,
        info.maxfilesize,
    );
    let local = rustix::fs::statvfs(&bed.export)?;
    match bed.root.fsstat(&bed.top).await? {
        Ok(stat) => {
            let total = local.f_blocks * local.f_frsize;
            table.check("FSSTAT tbytes", stat.tbytes == total, (stat.tbytes, total));
            table.check("FSSTAT tfiles", stat.tfiles == local.f_files, stat.tfiles);
            let ordered = stat.abytes <= stat.fbytes && stat.fbytes <= stat.tbytes;
            table.check("FSSTAT available <= free <= total", ordered, stat);
        }
        Err(failure) => table.expect("FSSTAT", Ok(failure.status), &[S::Ok]),
    }
    match bed.root.pathconf(&bed.top).await? {
        Ok(conf) => {
            let right = u64::from(conf.name_max) == local.f_namemax && conf.no_trunc;
            table.check("PATHCONF names", right, conf);
            let case = !conf.case_insensitive && conf.case_preserving;
            table.check("PATHCONF case", case, conf);
        }
        Err(failure) => table.expect("PATHCONF", Ok(failure.status), &[S::Ok]),
    }
    Ok(())
}

/// Every alignment of offset and count against the file's end, the page's and the XDR unit's.
async fn ends(bed: &Bed, table: &mut Table) -> Result<()> {
    for len in [0_usize, 1, 4095, 4096, 4097, 10_003] {
        let content = pattern::bytes(len as u64, 0, len);
        std::fs::write(bed.export.join(format!("length-{len}")), &content)?;
        let file = bed.handle(&format!("length-{len}")).await?;
        let near = |at: usize| (at.saturating_sub(3)..=at + 3).collect::<Vec<_>>();
        let offsets = [near(0), near(4096), near(8192), near(len)].concat();
        let counts = [near(0), near(4096), vec![len, 20_000]].concat();
        let mut wrong = Vec::new();
        for &offset in &offsets {
            for &count in &counts {
                let ok = match bed.root.read(&file, offset as u64, count as u32).await? {
                    Ok(ok) => ok,
                    Err(failure) => {
                        wrong.push(format!("{count} at {offset}: {}", failure.status.word()));
                        continue;
                    }
                };
                let start = offset.min(len);
                let expected = &content[start..(offset + count).min(len).max(start)];
                // RFC 1813 §3.3.6: eof if offset + count reaches the size.
                let eof = offset + count >= len;
                if ok.data != expected || ok.eof != eof {
                    wrong.push(format!(
                        "{count} at {offset}: {} bytes, eof {}",
                        ok.data.len(),
                        ok.eof
                    ));
                }
            }
        }
        let first: Vec<_> = wrong.iter().take(5).collect();
        let row = format!("READ around the end of {len} bytes");
        table.check(&row, wrong.is_empty(), (wrong.len(), first));
    }
    Ok(())
}

async fn last_offsets(bed: &Bed, table: &mut Table, info: &FsinfoOk) -> Result<()> {
    let file = bed.new_file("offsets").await?;
    for offset in [
        1 << 40,
        i64::MAX as u64 - 1,
        i64::MAX as u64,
        1 << 63,
        u64::MAX - 1,
        u64::MAX,
    ] {
        let got = bed.root.read(&file, offset, 100).await?;
        let nothing = match &got {
            Ok(ok) => ok.data.is_empty() && ok.eof,
            Err(failure) => matches!(failure.status, S::Inval | S::Fbig),
        };
        table.check(&format!("READ at {offset:#x}"), nothing, status(Ok(got)));
    }
    let data = Bytes::from_static(b"ten bytes.");
    for offset in [
        info.maxfilesize,
        i64::MAX as u64 - 3,
        i64::MAX as u64,
        u64::MAX - 3,
        u64::MAX,
    ] {
        let got = status(
            bed.root
                .write(&file, offset, StableHow::FileSync, data.clone())
                .await,
        );
        let row = format!("WRITE at {offset:#x}");
        table.expect(&row, got, &[S::Fbig, S::Inval]);
    }
    let size = bed.attributes(&file).await?.size;
    table.check(
        "WRITE beyond the largest file leaves its size",
        size == 0,
        size,
    );
    for (offset, count) in [
        (u64::MAX, 10),
        (u64::MAX - 3, 10),
        (1 << 50, 10),
        (0, u32::MAX),
    ] {
        let got = status(bed.root.commit(&file, offset, count).await);
        let row = format!("COMMIT of {count} at {offset:#x}");
        table.expect(&row, got, &[S::Ok, S::Inval]);
    }
    // Far beyond 4 GiB: the offset keeps all its bits, and the hole reads as zeros.
    let far = (1_u64 << 33) + 12_345;
    let got = status(
        bed.root
            .write(&file, far, StableHow::FileSync, data.clone())
            .await,
    );
    table.expect("WRITE beyond 8 GiB", got, &[S::Ok]);
    let back = bed
        .root
        .read(&file, far - 5, 100)
        .await?
        .ok()
        .context("READ beyond 8 GiB")?;
    let right = back.data[..] == b"\0\0\0\0\0ten bytes."[..] && back.eof;
    table.check("READ beyond 8 GiB", right, back.data);
    let now = bed.attributes(&file).await?;
    table.check(
        "a file with a hole takes little",
        now.used < 1 << 20,
        now.used,
    );
    Ok(())
}

/// Calls beyond rtmax and wtmax: served in part or refused, never more than was announced.
async fn large_calls(bed: &Bed, table: &mut Table, info: &FsinfoOk) -> Result<()> {
    let (rtmax, wtmax) = (info.rtmax as usize, info.wtmax as usize);
    // A foreign server may announce more than our client takes in one record.
    if rtmax.max(wtmax) > 4 << 20 {
        return Ok(());
    }
    let len = rtmax + 100_000;
    let content = pattern::bytes(77, 0, len);
    std::fs::write(bed.export.join("large"), &content)?;
    let file = bed.handle("large").await?;
    for count in [info.rtmax, info.rtmax + 1, u32::MAX] {
        let args = ReadArgs {
            file,
            offset: 3,
            count,
        };
        let results = bed.root.call(Procedure::Read, &args).await?;
        let ok = nfs_wire::decode_all::<Result<ReadOk<'_>, Failure<_>>>(&results)?;
        let ok = ok.map_err(|failure: Failure<Option<nfs_wire::nfs3::Fattr3>>| {
            anyhow!("READ of {count}: {}", failure.status.word())
        })?;
        let have = ok.data.len();
        let right = have > 0
            && have <= rtmax
            && ok.data == &content[3..3 + have]
            && ok.eof == (3 + have == len);
        table.check(&format!("READ of {count} bytes"), right, (have, ok.eof));
    }
    let full = bed
        .root
        .read(&file, 0, info.rtmax)
        .await?
        .ok()
        .context("READ of rtmax")?;
    table.check(
        "READ of rtmax is whole",
        full.data.len() == rtmax,
        full.data.len(),
    );
    large_writes(bed, table, wtmax).await
}

/// A WRITE beyond wtmax may be served whole or in part, be refused, or end its connection (the Linux
/// server does that); what is acknowledged is there, and other connections go on.
async fn large_writes(bed: &Bed, table: &mut Table, wtmax: usize) -> Result<()> {
    let target = bed.new_file("large-write").await?;
    let content = pattern::bytes(78, 0, wtmax * 2);
    for len in [wtmax, wtmax + 1, wtmax + 4096, wtmax * 2] {
        let data = Bytes::copy_from_slice(&content[..len]);
        let row = format!("WRITE of {len} bytes");
        let options = ConnectOptions {
            reconnect: Reconnect::Never,
            ..ConnectOptions::default()
        };
        let alone = Connection::connect(bed.nfs.into(), options).await?;
        let alone = Nfs3::new(alone, bed.root.identity().clone());
        let beyond = len > wtmax;
        match alone.write(&target, 0, StableHow::Unstable, data).await {
            Ok(Ok(ok)) => {
                let count = ok.count as usize;
                let right = count > 0 && count <= len && (beyond || count == len);
                table.check(&row, right, count);
                let disk = std::fs::read(bed.export.join("large-write"))?;
                let same = disk.get(..count) == content.get(..count);
                table.check(&format!("{row}, on the disk"), same, disk.len());
            }
            Ok(Err(failure)) => {
                let allowed: &[S] = if beyond {
                    &[S::Inval, S::Fbig]
                } else {
                    &[S::Ok]
                };
                table.expect(&row, Ok(failure.status), allowed);
            }
            Err(error) => {
                let refused = matches!(error, RpcError::GarbageArgs | RpcError::Disconnected(_));
                table.check(&row, beyond && refused, error);
            }
        }
        let got = status(bed.root.getattr(&target).await);
        table.expect(&format!("GETATTR after a {row}"), got, &[S::Ok]);
    }
    Ok(())
}

/// `committed` is at least what was asked for; the verifier is the same throughout.
async fn stability(bed: &Bed, table: &mut Table) -> Result<()> {
    let file = bed.new_file("stability").await?;
    let mut verifiers = Vec::new();
    for asked in [
        StableHow::Unstable,
        StableHow::DataSync,
        StableHow::FileSync,
    ] {
        for len in [0_usize, 1, 4096, 47_008] {
            let data = Bytes::from(pattern::bytes(5, 0, len));
            let ok = bed
                .root
                .write(&file, 10, asked, data)
                .await?
                .ok()
                .context("WRITE")?;
            let row = format!("WRITE of {len} bytes, {asked:?}");
            let right = ok.committed >= asked && ok.count as usize == len;
            table.check(&row, right, (ok.committed, ok.count));
            verifiers.push(ok.verf);
        }
        let ok = bed.root.commit(&file, 0, 0).await?.ok().context("COMMIT")?;
        verifiers.push(ok.verf);
    }
    verifiers.dedup();
    table.check(
        "one write verifier throughout",
        verifiers.len() == 1,
        verifiers,
    );
    let empty = bed.new_file("empty-write").await?;
    let nothing = bed
        .root
        .write(&empty, 100, StableHow::FileSync, Bytes::new())
        .await;
    table.expect("WRITE of nothing beyond the end", status(nothing), &[S::Ok]);
    let size = bed.attributes(&empty).await?.size;
    table.check("WRITE of nothing leaves the size", size == 0, size);
    Ok(())
}

/// WRITE whose count and data differ (RFC 1813 §3.3.7 says that they should not).
async fn contradictions(bed: &Bed, table: &mut Table) -> Result<()> {
    let file: FileHandle = bed.new_file("contradictions").await?;
    for (count, data) in [
        (3, &b"more than that"[..]),
        (100, b"fewer"),
        (0, b"some"),
        (5, b""),
    ] {
        let args = WriteArgs {
            file,
            offset: 0,
            count,
            stable: StableHow::FileSync,
            data,
        };
        let row = format!("WRITE with count {count} and {} bytes", data.len());
        let got = match bed.root.call(Procedure::Write, &args).await {
            Ok(results) => {
                let mut d = nfs_wire::Decoder::new(&results);
                Result::<WriteOk, Failure<WccData>>::decode(&mut d)?
            }
            Err(RpcError::GarbageArgs) => {
                table.check(&row, true, ());
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        match got {
            // Written is what both agree on, or nothing at all.
            Ok(ok) => {
                let both = count.min(data.len() as u32);
                table.check(&row, ok.count <= both, ok.count);
            }
            Err(failure) => table.expect(&row, Ok(failure.status), &[S::Inval]),
        }
    }
    let disk = std::fs::read(bed.export.join("contradictions"))?;
    let clean = disk.is_empty() || b"more than that".starts_with(&disk) || disk == b"fewer";
    table.check("WRITE never writes what was not sent", clean, disk);
    Ok(())
}
