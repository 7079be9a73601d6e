//! Files with holes over NFSv4.2 (RFC 7862): ALLOCATE and READ_PLUS, on real files.

mod support;

use std::fs::File;
use std::os::unix::fs::FileExt as _;

use nfs_server::exports::Versions;
use nfs_server::exports::policy::{IoPolicy, Mode};
use nfs_wire::Payload;
use nfs_wire::nfs4::ops::{
    AllocateArgs, GetattrArgs, OpenArgs, Openflag4, ReadArgs, ReadPlusContent,
};
use nfs_wire::nfs4::{ArgOp, Attribute, FileHandle, Nfsstat4, ResOp, Stateid4};
use support::v4::{Client, lookup, open_args, putfh};
use support::{Served, block_on};

const READ: u32 = 1;
const BOTH: u32 = 3;
/// Longer than the shortest hole that is told.
const PART: u64 = 128 << 10;

fn serve(read: Mode) -> Served {
    Served::with(|config| {
        config.server.versions = Versions::ALL;
        config.exports[0].io = IoPolicy {
            read: read.into(),
            ..IoPolicy::default()
        };
    })
}

/// A file of parts, each filled with its number; 0 makes a hole.
fn write_parts(served: &Served, name: &str, parts: &[u8]) -> Vec<u8> {
    let file = File::create(served.path().join(name)).unwrap();
    file.set_len(parts.len() as u64 * PART).unwrap();
    for (at, part) in parts.iter().enumerate().filter(|(_, part)| **part != 0) {
        let bytes = vec![*part; PART as usize];
        file.write_all_at(&bytes, at as u64 * PART).unwrap();
    }
    file.sync_all().unwrap();
    std::fs::read(served.path().join(name)).unwrap()
}

/// Whether the file ends, the parts as (has data, offset, length), and all bytes that they stand for.
type Told = (bool, Vec<(bool, u64, u64)>, Vec<u8>);

async fn read_plus(
    client: &mut Client,
    file: &FileHandle,
    (offset, count): (u64, u32),
) -> Result<Told, Nfsstat4> {
    let read = ArgOp::ReadPlus(ReadArgs {
        stateid: Stateid4::ANONYMOUS,
        offset,
        count,
    });
    // Something behind it, which has to be found.
    let attr_request = Attribute::Size.bit();
    let behind = ArgOp::Getattr(GetattrArgs { attr_request });
    client
        .call(vec![putfh(file), read, behind], |status, results| {
            let ok = match results {
                [_, ResOp::ReadPlus(Ok(ok)), ResOp::Getattr(Ok(_))] => ok,
                _ => return Err(status),
            };
            let (mut parts, mut bytes) = (vec![], vec![]);
            for content in &ok.contents {
                match content {
                    ReadPlusContent::Data(data) => {
                        let Payload::Here(read) = data.data else {
                            panic!("a reply is whole")
                        };
                        parts.push((true, data.offset, read.len() as u64));
                        bytes.extend_from_slice(read);
                    }
                    ReadPlusContent::Hole(hole) => {
                        parts.push((false, hole.offset, hole.length));
                        bytes.resize(bytes.len() + hole.length as usize, 0);
                    }
                }
            }
            Ok((ok.eof, parts, bytes))
        })
        .await
}

#[test]
fn holes_are_told_and_data_is_sent_in_every_mode() {
    for mode in [Mode::Buffered, Mode::DontCache, Mode::Direct] {
        let served = serve(mode);
        let all = write_parts(&served, "f", &[0, 0, 1, 0, 2, 3, 0]);
        block_on(async {
            let mut client = Client::new(&served, 2, b"one").await;
            let root = client.root().await;
            let file = client.handle(vec![putfh(&root), lookup(b"f")]).await;
            let whole = (0, 7 * PART as u32);
            let (eof, parts, bytes) = read_plus(&mut client, &file, whole).await.unwrap();
            assert_eq!(
                parts,
                [
                    (false, 0, 2 * PART),
                    (true, 2 * PART, PART),
                    (false, 3 * PART, PART),
                    (true, 4 * PART, 2 * PART),
                    (false, 6 * PART, PART),
                ]
            );
            assert!(eof && bytes == all, "{mode:?}");
            // Odd lengths: each part of the reply is padded for itself.
            let odd = (2 * PART - 1, 4 * PART as u32 + 3);
            let (eof, parts, bytes) = read_plus(&mut client, &file, odd).await.unwrap();
            assert_eq!(
                parts,
                [
                    // What is left of the hole is not worth a part.
                    (true, 2 * PART - 1, PART + 1),
                    (false, 3 * PART, PART),
                    (true, 4 * PART, 2 * PART),
                    (false, 6 * PART, 2),
                ]
            );
            let from = odd.0 as usize;
            assert!(!eof && bytes == all[from..from + odd.1 as usize]);
            let short = (2 * PART + 5, PART as u32 - 6);
            let (_, parts, bytes) = read_plus(&mut client, &file, short).await.unwrap();
            assert_eq!(parts, [(true, short.0, short.1.into())]);
            assert!(bytes.iter().all(|byte| *byte == 1));
            for offset in [7 * PART, u64::MAX] {
                let behind = read_plus(&mut client, &file, (offset, 10)).await;
                assert_eq!(behind, Ok((true, vec![], vec![])));
            }
        });
    }
}

#[test]
fn a_file_of_many_holes_is_sent_in_a_few_parts() {
    let served = serve(Mode::Buffered);
    let numbers: Vec<u8> = (0..16).map(|at| if at % 2 == 0 { 9 } else { 0 }).collect();
    // The file of 2 MiB is read in two.
    let all = write_parts(&served, "f", &numbers);
    let dense = write_parts(&served, "dense", &[1, 2, 3]);
    block_on(async {
        let mut client = Client::new(&served, 2, b"one").await;
        let root = client.root().await;
        let file = client.handle(vec![putfh(&root), lookup(b"f")]).await;
        let (mut read, mut most) = (vec![], 0);
        loop {
            let next = (read.len() as u64, 1 << 20);
            let (eof, parts, bytes) = read_plus(&mut client, &file, next).await.unwrap();
            assert!(!bytes.is_empty());
            read.extend(bytes);
            most = most.max(parts.len());
            if eof {
                break;
            }
        }
        assert!(read == all);
        assert!((2..=8).contains(&most), "{most} parts");
        let file = client.handle(vec![putfh(&root), lookup(b"dense")]).await;
        let whole = (0, 3 * PART as u32);
        let (eof, parts, bytes) = read_plus(&mut client, &file, whole).await.unwrap();
        assert_eq!(parts, [(true, 0, 3 * PART)]);
        assert!(eof && bytes == dense);
        // A reply that would be longer than the session lets through is refused, as of READ.
        let too_much = read_plus(&mut client, &file, (0, 1 << 21)).await;
        assert_eq!(too_much, Err(Nfsstat4::RepTooBig));
        let of_directory = read_plus(&mut client, &root, whole).await;
        assert_eq!(of_directory, Err(Nfsstat4::Isdir));
    });
}

#[test]
fn reading_past_reservations_allows_nothing_but_reading() {
    let served = serve(Mode::Buffered);
    std::fs::write(served.path().join("f"), "").unwrap();
    block_on(async {
        let mut client = Client::new(&served, 2, b"one").await;
        let root = client.root().await;
        let file = client.handle(vec![putfh(&root), lookup(b"f")]).await;
        let allocate = |length| {
            ArgOp::Allocate(AllocateArgs {
                stateid: Stateid4::READ_BYPASS,
                offset: 0,
                length,
            })
        };
        client.ok(vec![putfh(&file), allocate(5000)]).await;
        assert_eq!(client.stat(&file).await.0, 5000);
        let mut other = Client::new(&served, 2, b"two").await;
        let denying = OpenArgs {
            share_deny: BOTH,
            ..open_args(b"f", READ, Openflag4::Nocreate)
        };
        other.open(&root, denying).await.unwrap();
        let denied = client.status(vec![putfh(&file), allocate(6000)]).await;
        assert_eq!(denied, Nfsstat4::Locked);
        let written = client.write(&file, Stateid4::READ_BYPASS, (0, b"x")).await;
        assert_eq!(written, Err(Nfsstat4::Locked));
        let read = client.read(&file, Stateid4::READ_BYPASS, (0, 1)).await;
        assert_eq!(read, Ok((vec![0], false)));
    });
}
