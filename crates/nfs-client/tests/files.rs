//! The file API against a responder whose answers are short, endless or change in between: each
//! operation ends with the right answer or a typed error.

mod answers;

use std::sync::{Arc, Mutex};

use nfs_client::client::{TreeOptions, Visit};
use nfs_client::limits::{SYMLINKS_MAX, TREE_DEPTH_MAX, WALK_NAMES_MAX};
use nfs_client::nfs3::{Ftype3, LookupOk, Nfsstat3, PostOpAttr};
use nfs_client::{ClientError, Node};
use nfs_wire::nfs3::{Call, Nfspath3, ReadOk, ReaddirOk, ReaddirplusOk, ReadlinkOk};
use tokio::time::timeout;

use answers::*;

#[tokio::test]
async fn short_reads_are_put_together_and_streams_end() {
    let content: Vec<u8> = (0..1000_u32).map(|i| i.to_be_bytes()[3]).collect();
    let served = content.clone();
    let (client, _) = mounted(move |call| match call {
        Call::Read(args) => {
            // At most 7 bytes at a time, and the end is told only by a read that brings nothing.
            let start = usize::try_from(args.offset).unwrap().min(served.len());
            let len = usize::try_from(args.count).unwrap().min(7);
            let data = &served[start..served.len().min(start + len)];
            let count = u32::try_from(data.len()).unwrap();
            ok(&ReadOk {
                file_attributes: None,
                count,
                eof: data.is_empty(),
                data,
            })
        }
        call => good(call.procedure()),
    })
    .await;
    let file = client.open(b"file").await.unwrap();
    let part = file.read_at(10, 500).await.unwrap();
    assert_eq!((&part.data[..], part.eof), (&content[10..510], false));
    let rest = file.read_at(990, 500).await.unwrap();
    assert_eq!((&rest.data[..], rest.eof), (&content[990..], true));
    let mut stream = file.stream(3);
    let mut all = Vec::new();
    while let Some(data) = stream.next().await.unwrap() {
        all.extend_from_slice(&data);
    }
    assert_eq!(all, &content[3..]);
    assert_eq!(stream.next().await.unwrap(), None);
}

#[tokio::test]
async fn a_server_that_reads_nothing_is_not_asked_for_ever() {
    let (client, _) = mounted(|call| match call {
        Call::Read(_) => ok(&ReadOk {
            file_attributes: None,
            count: 0,
            eof: false,
            data: b"",
        }),
        call => good(call.procedure()),
    })
    .await;
    let file = client.open(b"file").await.unwrap();
    let result = timeout(HANG, file.read_at(0, 10))
        .await
        .expect("the read hangs");
    assert!(
        matches!(result, Err(ClientError::NoProgress { offset: 0, .. })),
        "{result:?}"
    );
}

#[tokio::test]
async fn directories_that_do_not_end_are_refused() {
    // By the directory: the same cookie for ever; empty parts without end.
    let (client, _) = mounted(|call| match call {
        Call::Readdir(args) => {
            let entries = match args.dir.as_ref() {
                b"same" => vec![entry(9, b"x")],
                _ => Vec::new(),
            };
            ok(&ReaddirOk {
                dir_attributes: None,
                cookieverf: [0; 8],
                entries,
                eof: false,
            })
        }
        call => good(call.procedure()),
    })
    .await;
    for dir in [&b"same"[..], b"empty"] {
        let dir = handle(dir);
        let listing = timeout(HANG, client.read_dir(&dir, false));
        let listing = listing.await.expect("the listing hangs");
        assert!(
            matches!(listing, Err(ClientError::EndlessDirectory)),
            "{listing:?}"
        );
    }
}

#[tokio::test]
async fn bad_cookies_start_the_listing_again_a_few_times() {
    let calls = Arc::new(Mutex::new(0));
    let (client, root) = mounted(move |call| match call {
        Call::Readdir(args) => {
            let mut calls = calls.lock().unwrap();
            *calls += 1;
            let always = args.dir.as_ref() == b"always";
            if args.cookie == 1 && (always || *calls < 4) {
                return fail(Nfsstat3::BadCookie, &PostOpAttr::None);
            }
            let (name, cookie, eof): (&[u8], _, _) = if args.cookie == 0 {
                (b"a", 1, false)
            } else {
                (b"b", 2, true)
            };
            let entries = vec![entry(cookie, name)];
            ok(&ReaddirOk {
                dir_attributes: None,
                cookieverf: [3; 8],
                entries,
                eof,
            })
        }
        call => good(call.procedure()),
    })
    .await;
    let names: Vec<Vec<u8>> = client
        .read_dir(&root, false)
        .await
        .unwrap()
        .into_iter()
        .map(|entry| entry.name)
        .collect();
    assert_eq!(names, [b"a", b"b"]);
    let hopeless = client.read_dir(&handle(b"always"), false).await;
    assert_eq!(hopeless.unwrap_err().status(), Some(Nfsstat3::BadCookie));
}

#[tokio::test]
async fn without_readdirplus_attributes_come_by_lookup() {
    let (client, root) = mounted(|call| match call {
        Call::Readdirplus(_) => fail(Nfsstat3::Notsupp, &PostOpAttr::None),
        call => good(call.procedure()),
    })
    .await;
    let entries = client.read_dir(&root, true).await.unwrap();
    assert_eq!(entries.len(), 2);
    assert!(
        entries
            .iter()
            .all(|entry| entry.attributes.is_some() && entry.handle.is_some())
    );
}

/// A proxy in front of several servers, or one that cannot tell the attributes of what comes next.
#[tokio::test]
async fn readdirplus_that_ends_in_the_middle_lists_no_name_twice() {
    let (client, root) = mounted(move |call| match call {
        Call::Readdirplus(args) if args.cookie == 0 => ok(&ReaddirplusOk {
            dir_attributes: None,
            cookieverf: [3; 8],
            entries: vec![plus(1, b"a", None)],
            eof: false,
        }),
        Call::Readdirplus(_) => fail(Nfsstat3::Notsupp, &PostOpAttr::None),
        Call::Readdir(args) => ok(&ReaddirOk {
            dir_attributes: None,
            cookieverf: [3; 8],
            entries: match args.cookie {
                0 => vec![entry(1, b"a")],
                _ => vec![entry(2, b"b")],
            },
            eof: args.cookie == 1,
        }),
        call => good(call.procedure()),
    })
    .await;
    let entries = client.read_dir(&root, true).await.unwrap();
    let names: Vec<&[u8]> = entries.iter().map(|entry| &entry.name[..]).collect();
    assert_eq!(names, [b"a", b"b"]);
}

#[tokio::test]
async fn symbolic_links_are_followed_inside_the_export_and_no_further() {
    // Every handle is the path that led to it; "loop" points to itself, and so on.
    let (client, _) = mounted(|call| match call {
        Call::Lookup(args) => {
            let dir = args.what.dir.as_ref();
            let mut path = if dir == b"root" {
                Vec::new()
            } else {
                dir.to_vec()
            };
            path.push(b'/');
            path.extend_from_slice(args.what.name.0);
            let links: &[&[u8]] = &[b"/loop", b"/up", b"/top", b"/dir/deep"];
            let ftype = match path.as_slice() {
                path if links.contains(&path) => Ftype3::Lnk,
                b"/dir" => Ftype3::Dir,
                _ => Ftype3::Reg,
            };
            ok(&LookupOk {
                object: handle(&path),
                obj_attributes: Some(attributes(ftype)),
                dir_attributes: None,
            })
        }
        Call::Readlink(args) => {
            let target: &[u8] = match args.symlink.as_ref() {
                b"/loop" => b"loop",
                b"/up" => b"../../dir/file",
                b"/top" => b"/dir/./file",
                _ => b"../up",
            };
            ok(&ReadlinkOk {
                symlink_attributes: None,
                data: Nfspath3(target),
            })
        }
        call => good(call.procedure()),
    })
    .await;
    for path in [
        &b"up"[..],
        b"top",
        b"dir/deep",
        b"dir/file",
        b"./dir/../dir//file",
        b"../dir/file",
    ] {
        let node = client.resolve(path).await.unwrap();
        assert_eq!(node.handle, handle(b"/dir/file"), "{}", path.escape_ascii());
    }
    assert_eq!(
        client.resolve_link(b"dir/deep").await.unwrap().handle,
        handle(b"/dir/deep")
    );
    let endless = client.resolve(b"loop").await;
    assert!(
        matches!(endless, Err(ClientError::SymlinkLoop { .. })),
        "{endless:?}"
    );
    assert_eq!(client.resolve(b"/").await.unwrap().handle, handle(b"root"));
}

#[tokio::test]
async fn a_path_leads_through_so_many_links_and_no_more() {
    const LAST: usize = 2 * SYMLINKS_MAX;
    // "n" is a link to the next number, up to the last.
    let (client, _) = mounted(|call| match call {
        Call::Lookup(args) => {
            let name = args.what.name.0;
            let ftype = match name == LAST.to_string().as_bytes() {
                true => Ftype3::Reg,
                false => Ftype3::Lnk,
            };
            ok(&LookupOk {
                object: handle(name),
                obj_attributes: Some(attributes(ftype)),
                dir_attributes: None,
            })
        }
        Call::Readlink(args) => {
            let number = str::from_utf8(args.symlink.as_ref()).unwrap();
            let next = (number.parse::<usize>().unwrap() + 1).to_string();
            ok(&ReadlinkOk {
                symlink_attributes: None,
                data: Nfspath3(next.as_bytes()),
            })
        }
        call => good(call.procedure()),
    })
    .await;
    let first = (LAST - SYMLINKS_MAX).to_string();
    let found = client.resolve(first.as_bytes()).await.unwrap();
    assert_eq!(found.handle, handle(LAST.to_string().as_bytes()));
    let before = (LAST - SYMLINKS_MAX - 1).to_string();
    let too_many = client.resolve(before.as_bytes()).await;
    assert!(
        matches!(too_many, Err(ClientError::SymlinkLoop { .. })),
        "{too_many:?}"
    );
}

#[tokio::test]
async fn a_link_makes_a_path_so_long_and_no_longer() {
    const OF_THE_LINK: usize = 2000;
    let (client, _) = mounted(|call| match call {
        Call::Lookup(args) => {
            let ftype = match args.what.name.0 {
                b"link" => Ftype3::Lnk,
                _ => Ftype3::Dir,
            };
            ok(&LookupOk {
                object: handle(b"found"),
                obj_attributes: Some(attributes(ftype)),
                dir_attributes: None,
            })
        }
        Call::Readlink(_) => ok(&ReadlinkOk {
            symlink_attributes: None,
            data: Nfspath3(&b"b/".repeat(OF_THE_LINK)),
        }),
        call => good(call.procedure()),
    })
    .await;
    let path = |behind| [&b"link"[..], &b"/a".repeat(behind)].concat();
    let longest = WALK_NAMES_MAX - OF_THE_LINK;
    client.resolve(&path(longest)).await.unwrap();
    let too_long = client.resolve(&path(longest + 1)).await;
    assert!(
        matches!(too_long, Err(ClientError::TooManyNames { .. })),
        "{too_long:?}"
    );
}

#[tokio::test]
async fn a_directory_in_itself_is_walked_so_deep_and_left_again() {
    let (client, root) = mounted(|call| match call {
        Call::Readdirplus(_) => ok(&ReaddirplusOk {
            dir_attributes: None,
            cookieverf: [3; 8],
            entries: vec![plus(1, b"d", Some(attributes(Ftype3::Dir)))],
            eof: true,
        }),
        call => good(call.procedure()),
    })
    .await;
    let root = Node {
        handle: root,
        attributes: attributes(Ftype3::Dir),
    };
    let mut walk = client.tree(root, b"", TreeOptions::default());
    let (mut entered, mut left, mut failed) = (0, 0, 0);
    while let Some(visit) = walk.next().await {
        match visit {
            Visit::Enter(_) => entered += 1,
            Visit::Leave(_) => left += 1,
            Visit::Failed { error, .. } => {
                assert!(matches!(error, ClientError::TooManyNames { .. }));
                failed += 1;
            }
            Visit::File(file) => panic!("{file:?}"),
        }
        assert!(entered <= TREE_DEPTH_MAX + 1, "it goes on and on");
    }
    let all = TREE_DEPTH_MAX + 1;
    assert_eq!((entered, left, failed), (all, all, 1));
}
