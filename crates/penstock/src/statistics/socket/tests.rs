use std::os::unix::net::UnixListener as PlainListener;

use super::*;

/// How long something may take that is over at once on an idle machine.
const DEADLINE: Duration = Duration::from_secs(60);

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().mode() & 0o777
}

async fn read(path: &Path) -> Vec<u8> {
    let mut stream = UnixStream::connect(path).await.unwrap();
    let mut text = Vec::new();
    stream.read_to_end(&mut text).await.unwrap();
    text
}

#[tokio::test]
async fn the_socket_is_its_owner_s_replaces_a_dead_one_and_goes_with_its_mount() {
    let scratch = tempfile::tempdir().unwrap();
    let directory = scratch.path().join("penstock");
    let path = directory.join(name((0, 59)));
    std::fs::create_dir(&directory).unwrap();
    std::fs::set_permissions(&directory, Permissions::from_mode(0o700)).unwrap();
    // Left by a mount that was killed.
    drop(PlainListener::bind(&path).unwrap());
    let first = MountSocket::bind(&directory, &name((0, 59))).unwrap();
    assert_eq!(mode(&path), 0o600);
    let serving = first.serve(|| b"first".to_vec());
    assert_eq!(read(&path).await, b"first");
    // Another mount with the number of one that is about to end.
    let second = MountSocket::bind(&directory, &name((0, 59))).unwrap();
    let second = second.serve(|| b"second".to_vec());
    drop(serving);
    assert_eq!(read(&path).await, b"second");
    // At once, whoever runs the tasks: the process is about to end.
    drop(second);
    assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 0);
}

#[tokio::test]
async fn a_directory_that_others_may_change_is_refused() {
    let scratch = tempfile::tempdir().unwrap();
    let directory = scratch.path().join("penstock");
    drop(MountSocket::bind(&directory, "a.sock").unwrap());
    assert_eq!(mode(&directory), 0o700);
    std::fs::set_permissions(&directory, Permissions::from_mode(0o770)).unwrap();
    let error = MountSocket::bind(&directory, "a.sock").unwrap_err();
    assert!(error.to_string().contains("others could change"), "{error}");
    let link = scratch.path().join("link");
    std::os::unix::fs::symlink(&directory, &link).unwrap();
    assert!(MountSocket::bind(&link, "a.sock").is_err());
}

#[tokio::test]
async fn readers_that_do_not_read_hold_nobody_up_for_long() {
    let scratch = tempfile::tempdir().unwrap();
    let directory = scratch.path().join("penstock");
    let socket = MountSocket::bind(&directory, "a.sock").unwrap();
    let path = directory.join("a.sock");
    // More than a socket's buffers hold.
    let much = vec![b'x'; 4 << 20];
    let len = much.len();
    let serving = socket.serve(move || much.clone());
    let mut idle = Vec::new();
    for _ in 0..STATISTICS_READERS_MAX {
        idle.push(UnixStream::connect(&path).await.unwrap());
    }
    let told = tokio::time::timeout(DEADLINE, read(&path)).await;
    assert_eq!(told.expect("nobody is told").len(), len);
    drop(serving);
}

#[tokio::test]
async fn what_is_no_statistics_is_refused_with_a_reason() {
    let scratch = tempfile::tempdir().unwrap();
    let directory = scratch.path().join("penstock");
    let us = geteuid().as_raw();
    let missing = ask(&directory.join("a.sock"), us).await.unwrap_err();
    assert_eq!(missing.kind(), io::ErrorKind::NotFound);
    let cases: [(&[u8], &str); 4] = [
        (b"", "tells nothing"),
        (b"{\"v\":1}", "not the statistics"),
        (b"{\"v\":2,\"all\":[]}", "form 2, this program reads 1"),
        (b"\xff\xfe", "not the statistics"),
    ];
    for (text, reason) in cases {
        let socket = MountSocket::bind(&directory, "a.sock").unwrap();
        let serving = socket.serve(|| text.to_vec());
        let error = ask(&directory.join("a.sock"), us).await.unwrap_err();
        assert!(error.to_string().contains(reason), "{error}");
        let foreign = ask(&directory.join("a.sock"), us + 1).await.unwrap_err();
        assert_eq!(foreign.kind(), io::ErrorKind::PermissionDenied);
        drop(serving);
    }
}
