//! A file with a place in it, through the traits of tokio and of the standard library: against a real server, and
//! against one that loses what it took.

mod double;
mod served;

use std::io::{ErrorKind, Read as _, Seek as _, SeekFrom, Write as _};

use nfs_client::{Client, ClientError, MountOptions, blocking};
use nfs_wire::nfs3::{Nfsstat3, Procedure};
use tokio::io::{AsyncReadExt as _, AsyncSeekExt as _, AsyncWriteExt as _};

use double::Double;
use double::faults::{Fault, Profile};
use served::Served;

/// More than one write of a cursor takes over, and no multiple of anything; bytes.
const LARGE: usize = (2 << 20) + 4097;

fn content(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at % 251) as u8).collect()
}

async fn mounted(double: &Double) -> Client {
    let mounted = Client::mount_with(&double.url(""), &MountOptions::default()).await;
    mounted.unwrap().0
}

#[tokio::test]
async fn a_cursor_reads_writes_and_seeks() {
    let served = Served::start();
    let (client, _) = Client::mount(&served.url).await.unwrap();
    let mut cursor = client.create(b"file", 0o644).await.unwrap().cursor();
    let all = content(LARGE);
    cursor.write_all(&all).await.unwrap();
    assert_eq!(cursor.position(), LARGE as u64);
    // What is on its way counts.
    assert_eq!(
        cursor.seek(SeekFrom::End(-5)).await.unwrap(),
        LARGE as u64 - 5
    );
    cursor.write_all(b"abcdefg").await.unwrap();
    cursor.flush().await.unwrap();
    let mut expected = all;
    expected.truncate(LARGE - 5);
    expected.extend_from_slice(b"abcdefg");
    assert_eq!(
        std::fs::read(served.files.path().join("file")).unwrap(),
        expected
    );

    cursor.rewind().await.unwrap();
    let mut read = Vec::new();
    cursor.read_to_end(&mut read).await.unwrap();
    assert!(read == expected, "{} bytes came back", read.len());
    assert_eq!(cursor.read(&mut [0; 10]).await.unwrap(), 0, "at the end");
    cursor.seek(SeekFrom::Current(-7)).await.unwrap();
    let mut word = [0; 3];
    cursor.read_exact(&mut word).await.unwrap();
    assert_eq!(&word, b"abc");
    for before in [SeekFrom::Current(-(LARGE as i64)), SeekFrom::End(i64::MIN)] {
        let refused = cursor.seek(before).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidInput);
    }
    assert_eq!(
        cursor.stream_position().await.unwrap(),
        LARGE as u64 - 5 + 3
    );
    cursor.set_position(u64::MAX);
    let refused = cursor.write(b"x").await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::FileTooLarge);
    client.unmount().await.unwrap();
}

#[tokio::test]
async fn what_a_reader_does_not_come_back_for_is_not_lost() {
    let double = Double::start(1).await;
    let client = mounted(&double).await;
    let mut cursor = client.create(b"file", 0o644).await.unwrap().cursor();
    cursor.write_all(&content(5000)).await.unwrap();
    cursor.flush().await.unwrap();
    cursor.rewind().await.unwrap();
    let mut large = [0; 4000];
    tokio::select! {
        biased;
        read = cursor.read(&mut large) => panic!("the server has not even been asked: {read:?}"),
        () = std::future::ready(()) => {}
    }
    let mut read = Vec::new();
    let mut small = [0; 700];
    loop {
        match cursor.read(&mut small).await.unwrap() {
            0 => break,
            len => read.extend_from_slice(&small[..len]),
        }
    }
    assert!(read == content(5000), "{} bytes came back", read.len());
    // What was read for another place is not given out here.
    cursor.set_position(10);
    assert_eq!(cursor.read_u8().await.unwrap(), 10);
}

#[tokio::test]
async fn a_flush_sends_again_what_a_restart_lost() {
    let double = Double::start(2).await;
    let client = mounted(&double).await;
    let mut cursor = client.create(b"file", 0o644).await.unwrap().cursor();
    cursor.write_all(&content(LARGE)).await.unwrap();
    cursor.file().flush().await.unwrap();
    let writes = double.calls(Procedure::Write);
    double.restart();
    cursor.shutdown().await.unwrap();
    assert!(double.stable("file").unwrap() == content(LARGE));
    assert!(
        double.calls(Procedure::Write) > writes,
        "nothing was lost, so that nothing was tested"
    );
    assert!(!cursor.is_dirty());
}

#[tokio::test]
async fn a_flush_tells_what_did_not_come_to_stable_storage() {
    let faults = [
        (Fault::CommitIo, ErrorKind::Other),
        (Fault::OtherVerifier, ErrorKind::Other),
        (Fault::WriteNospc, ErrorKind::StorageFull),
    ];
    for (fault, kind) in faults {
        let double = Double::start(3).await;
        let client = mounted(&double).await;
        let mut cursor = client.create(b"file", 0o644).await.unwrap().cursor();
        double.misbehave(Profile::only(fault, 1));
        // Taken over, or told already where the first WRITEs fail before the last are accepted.
        drop(cursor.write_all(&content(LARGE)).await);
        let failed = cursor.flush().await.unwrap_err();
        assert_eq!(failed.kind(), kind, "{fault:?}: {failed}");
        double.behave();
        let again = cursor.shutdown().await.unwrap_err();
        assert_eq!(
            again.kind(),
            kind,
            "{fault:?}: what is lost is not safe later"
        );
        assert!(cursor.is_dirty() && double.count(fault) > 0, "{fault:?}");
    }
}

#[tokio::test]
async fn what_a_dropped_cursor_leaves_is_brought_home_or_told() {
    let double = Double::start(4).await;
    let client = mounted(&double).await;
    let mut cursor = client.create(b"file", 0o644).await.unwrap().cursor();
    cursor.write_all(&content(LARGE)).await.unwrap();
    drop(cursor);
    client.clone().unmount().await.unwrap();
    assert!(double.stable("file").unwrap() == content(LARGE));
    assert_eq!(client.files_known(), 0, "a file is kept open");

    double.misbehave(Profile::only(Fault::WriteIo, 1));
    let mut cursor = client.create(b"other", 0o644).await.unwrap().cursor();
    cursor.write_all(b"lost").await.unwrap();
    drop(cursor);
    let told = client.clone().unmount().await.unwrap_err();
    assert_eq!(told.status(), Some(Nfsstat3::Io));
    client.unmount().await.unwrap();
}

#[test]
fn a_blocking_file_reads_writes_and_seeks() {
    let served = Served::start();
    let (client, _) = blocking::Client::mount(&served.url).unwrap();
    client.mkdir("d", 0o755).unwrap();
    let mut file = client.create_new("d/file", 0o600).unwrap();
    file.write_all(&content(LARGE)).unwrap();
    assert_eq!(file.seek(SeekFrom::End(0)).unwrap(), LARGE as u64);
    file.write_at(3, b"XYZ").unwrap();
    file.rewind().unwrap();
    let mut read = Vec::new();
    file.read_to_end(&mut read).unwrap();
    let mut expected = content(LARGE);
    expected[3..6].copy_from_slice(b"XYZ");
    assert!(read == expected, "{} bytes came back", read.len());
    let mut part = [0; 8];
    assert_eq!(file.read_at(1, &mut part).unwrap(), 8);
    assert_eq!(part, expected[1..9]);
    file.close().unwrap();
    let there = std::fs::read(served.files.path().join("d/file")).unwrap();
    assert!(there == expected);

    let names: Result<Vec<_>, _> = client.read_dir("d").unwrap().collect();
    assert_eq!(names.unwrap()[0].name, b"file");
    assert_eq!(client.read_dir("d").unwrap().count(), 1);
    client.symlink("d/link", "file").unwrap();
    assert_eq!(client.read_link("d/link").unwrap(), b"file");
    assert_eq!(client.stat("d/link").unwrap().size, LARGE as u64);
    let none = client.open("d/none").unwrap_err();
    assert_eq!(std::io::Error::from(none).kind(), ErrorKind::NotFound);
    // A clone outlives the client, and many threads share it.
    let clones: Vec<_> = (0..4).map(|_| client.clone()).collect();
    client.unmount().unwrap();
    std::thread::scope(|scope| {
        for client in clones {
            scope.spawn(move || assert_eq!(client.read_dir("d").unwrap().count(), 2));
        }
    });
}

#[test]
fn a_blocking_file_loses_nothing_in_silence() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let double = runtime.block_on(Double::start(5));
    let (client, _) = blocking::Client::mount(&double.url("")).unwrap();
    let write = |name: &str| {
        let mut file = client.create(name, 0o644).unwrap();
        file.write_all(&content(100_000)).unwrap();
        file
    };
    // Lost by a restart before the COMMIT: sent again.
    let file = write("restarted");
    client.wait(file.inner().flush()).unwrap();
    double.restart();
    file.close().unwrap();
    assert!(double.stable("restarted").unwrap() == content(100_000));
    // Dropped: brought to stable storage all the same, by the time the call returns.
    drop(write("dropped"));
    assert!(double.stable("dropped").unwrap() == content(100_000));

    double.misbehave(Profile::only(Fault::OtherVerifier, 1));
    let mut file = write("flushed");
    let failed = file.flush().unwrap_err();
    let failed: ClientError = failed.downcast().unwrap();
    assert!(matches!(failed, ClientError::VerifierKeepsChanging { .. }));
    file.close().unwrap_err();
    double.misbehave(Profile::only(Fault::CommitIo, 1));
    write("closed").close().unwrap_err();
    // What `close` told is not told again, what a drop could not tell is.
    client.clone().unmount().unwrap();
    drop(write("lost"));
    client.clone().unmount().unwrap_err();
    client.unmount().unwrap();
}

#[tokio::test]
async fn paths_are_text_or_bytes_and_a_directory_is_a_stream() {
    use std::os::unix::ffi::OsStrExt as _;
    use std::path::Path;

    let double = Double::start(6).await;
    let client = mounted(&double).await;
    let odd = Path::new(std::ffi::OsStr::from_bytes(b"d/no\xffutf8"));
    client.mkdir("d", 0o755).await.unwrap();
    let file = client.create(odd, 0o644).await.unwrap();
    file.write_at(0, "here").await.unwrap();
    file.close().await.unwrap();
    assert_eq!(client.stat(odd.to_owned()).await.unwrap().size, 4);
    for at in 0..300 {
        client.symlink(format!("d/{at}"), odd).await.unwrap();
    }
    client.rename("d/7", String::from("d/seven")).await.unwrap();
    client.link(b"d/seven", &b"d/also".to_vec()).await.unwrap();
    client.remove(Path::new("d/8")).await.unwrap();

    let dir = client.resolve("/d/").await.unwrap().handle;
    let mut entries = client.list(&dir, false).entries();
    let mut names = Vec::new();
    while let Some(entry) = next(&mut entries).await {
        names.push(entry.unwrap().name);
    }
    assert_eq!(names.len(), 1 + 300 + 1 - 1);
    assert!(names.contains(&b"no\xffutf8".to_vec()) && !names.contains(&b"8".to_vec()));
    assert!(next(&mut entries).await.is_none(), "over is over");

    client.remove(odd).await.unwrap();
    let mut entries = client.list(&dir, false).entries();
    double.misbehave(Profile::only(Fault::Stale, 1));
    let failed = next(&mut entries).await.unwrap().unwrap_err();
    assert_eq!(failed.status(), Some(Nfsstat3::Stale));
    assert!(next(&mut entries).await.is_none(), "an error is the last");
}

/// The next of a stream.
async fn next<S: futures_core::Stream + Unpin>(stream: &mut S) -> Option<S::Item> {
    std::future::poll_fn(|cx| std::pin::Pin::new(&mut *stream).poll_next(cx)).await
}
