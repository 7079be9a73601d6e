//! The responder as a plain program: what is written through it is in the files of its directory, and is read from there.

use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;

use nfs_client::{MountOptions, NfsUrl};
use nfs_io::BusyPoll;
use nfs_load::error::LoadError;
use nfs_load::noise::Noise;
use nfs_load::place::{Place, Session, Stable};
use nfs_load::respond::{self, Files};
use nfs_load::target::at;

const RECORD: usize = 8192;

/// The export of a plain program that serves a directory, past the page cache or through it.
fn serve(directory: &Path, is_direct: bool) -> Place {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let files = Files::new(directory, is_direct).unwrap();
    std::thread::spawn(move || respond::accept_files(&listener, files, BusyPoll::OFF));
    let url = format!("nfs://127.0.0.1:{port}/export?mountport={port}");
    let url: NfsUrl = url.parse().unwrap();
    Place::Nfs {
        url,
        options: MountOptions::default(),
    }
}

async fn write_and_read(session: &Session, noise: &Noise) -> Result<(), LoadError> {
    let file = session.create("file").await?;
    for (record, stable) in [(0, Stable::AtTheEnd), (1, Stable::AtOnce)] {
        let offset = record * RECORD as u64;
        session.write(&file, offset, RECORD, stable, noise).await?;
    }
    session.commit(&file).await?;
    // By its name, as who comes later finds it; in pieces, and several at once, whose replies leave together.
    let found = session.find("file").await?;
    let piece = |number: usize| {
        let offset = (number * RECORD / 2) as u64;
        session.read(&found, offset, RECORD / 2, Some(noise))
    };
    let (one, two, three, four) = tokio::join!(piece(0), piece(1), piece(2), piece(3));
    [one, two, three, four].into_iter().collect()
}

#[test]
fn a_plain_program_keeps_and_gives_what_is_written() {
    let noise = Noise::new(2 * RECORD);
    for is_direct in [false, true] {
        let directory = tempfile::tempdir().unwrap();
        let place = serve(directory.path(), is_direct);
        at(&place, async |session| {
            write_and_read(session, &noise).await
        })
        .unwrap();
        let path = directory.path().join("file");
        let mut written = std::fs::read(&path).unwrap();
        assert_eq!(written, noise.at(0, 2 * RECORD).as_ref());
        // A byte that is another is told.
        written[RECORD] ^= 1;
        std::fs::write(&path, &written).unwrap();
        let read_again = at(&place, async |session| {
            let file = session.find("file").await?;
            session
                .read(&file, RECORD as u64, RECORD, Some(&noise))
                .await
        });
        assert!(matches!(read_again, Err(LoadError::WrongBytes { .. })));
        at(&place, async |session| session.remove("file").await).unwrap();
        assert!(!path.exists());
        at(&place, async |session| session.find("file").await).unwrap_err();
    }
}

#[test]
fn a_plain_program_stays_in_its_directory() {
    let directory = tempfile::tempdir().unwrap();
    let inside = directory.path().join("inside");
    std::fs::create_dir(&inside).unwrap();
    std::fs::write(directory.path().join("outside"), "secret").unwrap();
    std::os::unix::fs::symlink("../outside", inside.join("link")).unwrap();
    let place = serve(&inside, false);
    for name in ["..", "../outside", "link"] {
        let found = at(&place, async |session| session.find(name).await);
        assert!(found.is_err(), "{name}");
        let made = at(&place, async |session| session.create(name).await);
        assert!(made.is_err(), "{name}");
    }
}
