//! Mirrors between two directories of this host: what is copied, left, removed, and what must not be.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use nfs_client::transfer::{
    self, Compare, Delete, Event, Figures, Filter, Mirror, Options, Place, Preserve, TransferError,
    Watch, What,
};
use nfs_io::{Errno, faults};

/// A source and a destination in a scratch directory.
struct Pair {
    scratch: tempfile::TempDir,
}

/// What a mirror told.
struct Told {
    figures: Figures,
    done: Vec<(PathBuf, What)>,
    failed: Vec<TransferError>,
}

impl Pair {
    fn new() -> Self {
        let pair = Self {
            scratch: tempfile::tempdir().unwrap(),
        };
        fs::create_dir(pair.source("")).unwrap();
        pair
    }

    fn source(&self, below: &str) -> PathBuf {
        self.scratch.path().join("source").join(below)
    }

    fn copy(&self, below: &str) -> PathBuf {
        self.scratch.path().join("copy").join(below)
    }

    fn write(&self, below: &str, content: &str) {
        let path = self.source(below);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    /// The name that the content of `below` has until it is complete. It is the same in every release, so that each
    /// goes on with what another left.
    fn partial_name(&self, name: &str) -> String {
        let path = self.source(name).into_os_string().into_encoded_bytes();
        let hash = blake3::hash(&path).to_hex();
        format!(".{name}.penstock-{}", &hash[..16])
    }

    /// Has the file's system refuse to close so many times what becomes the copy of `name`.
    fn fault(&self, name: &str, errno: Errno, times: u64) -> faults::Injected {
        let rule = faults::Rule::new(faults::Call::Close, faults::Fault::Fail(errno));
        let name = self.partial_name(name);
        rule.of_name(name.as_bytes()).times(times).inject()
    }

    async fn mirror(&self, options: &Options) -> Told {
        let done = Arc::new(Mutex::new(Vec::new()));
        let failed = Arc::new(Mutex::new(Vec::new()));
        let (dones, fails) = (done.clone(), failed.clone());
        let root = self.copy("");
        let watch = Watch::new(move |event| match event {
            Event::Done(one) => {
                let path = PathBuf::from(one.destination.to_string());
                let path = path.strip_prefix(&root).unwrap().to_path_buf();
                dones.lock().unwrap().push((path, one.what));
            }
            Event::Failed(error) => fails.lock().unwrap().push(error.clone()),
        });
        let (source, copy) = (Place::local(self.source("")), Place::local(self.copy("")));
        let figures = transfer::mirror(&source, &copy, options, &watch)
            .await
            .unwrap();
        let mut done = std::mem::take(&mut *done.lock().unwrap());
        done.sort_by(|a, b| a.0.cmp(&b.0));
        let failed = std::mem::take(&mut *failed.lock().unwrap());
        Told {
            figures,
            done,
            failed,
        }
    }
}

impl Told {
    /// What was done and not left alone.
    fn changes(&self) -> Vec<(&str, What)> {
        let changes = self.done.iter().filter(|(_, what)| !what.is_left());
        changes
            .map(|(path, what)| (path.to_str().unwrap(), *what))
            .collect()
    }
}

fn mirroring(mirror: Mirror) -> Options {
    Options {
        preserve: Preserve::ALL,
        mirror: Some(mirror),
        ..Options::default()
    }
}

fn deleting(max: Option<u64>) -> Options {
    mirroring(Mirror {
        delete: Some(Delete { max }),
        ..Mirror::default()
    })
}

/// All names below, with what tells a difference.
fn look(root: &Path) -> Vec<(PathBuf, u32, SystemTime, Vec<u8>)> {
    let mut found = Vec::new();
    let mut todo = vec![root.to_path_buf()];
    while let Some(path) = todo.pop() {
        let metadata = fs::symlink_metadata(&path).unwrap();
        let content = if metadata.is_symlink() {
            fs::read_link(&path)
                .unwrap()
                .into_os_string()
                .into_encoded_bytes()
        } else if metadata.is_dir() {
            todo.extend(
                fs::read_dir(&path)
                    .unwrap()
                    .map(|entry| entry.unwrap().path()),
            );
            Vec::new()
        } else {
            fs::read(&path).unwrap()
        };
        let modified = metadata.modified().unwrap();
        // A link's time is not compared.
        let modified = if metadata.is_symlink() {
            SystemTime::UNIX_EPOCH
        } else {
            modified
        };
        let path = path.strip_prefix(root).unwrap().to_path_buf();
        found.push((path, metadata.mode(), modified, content));
    }
    found.sort();
    found
}

#[tokio::test]
async fn a_mirror_is_like_its_source_and_the_next_one_does_nothing() {
    let pair = Pair::new();
    pair.write("a", "one");
    pair.write("dir/b", "two");
    pair.write("dir/deep/c", &"x".repeat(3_000_000));
    symlink("a", pair.source("link")).unwrap();
    fs::hard_link(pair.source("a"), pair.source("dir/a again")).unwrap();
    fs::set_permissions(pair.source("dir/b"), fs::Permissions::from_mode(0o4711)).unwrap();
    let told = pair.mirror(&deleting(None)).await;
    assert_eq!(told.figures.failed, 0);
    assert_eq!(look(&pair.source("")), look(&pair.copy("")));
    let again = pair.mirror(&deleting(None)).await;
    assert_eq!(again.changes(), []);
    assert_eq!(again.figures.bytes_done, again.figures.bytes_left);
    // Something of everything.
    pair.write("a", "another one");
    pair.write("new/d", "d");
    fs::remove_file(pair.source("link")).unwrap();
    fs::remove_dir_all(pair.source("dir/deep")).unwrap();
    fs::write(pair.copy("dir/stray"), "stray").unwrap();
    let told = pair.mirror(&deleting(None)).await;
    assert_eq!(told.figures.failed, 0);
    let mut removed = told.changes();
    removed.retain(|(_, what)| *what == What::Removed);
    let removed: Vec<&str> = removed.into_iter().map(|(path, _)| path).collect();
    assert_eq!(removed, ["dir/deep", "dir/deep/c", "dir/stray", "link"]);
    assert_eq!(told.figures.removed, 4);
    assert_eq!(look(&pair.source("")), look(&pair.copy("")));
}

#[tokio::test]
async fn comparisons() {
    let pair = Pair::new();
    pair.write("file", "one");
    pair.mirror(&mirroring(Mirror::default())).await;
    // The same size, another time, another content.
    let late = SystemTime::UNIX_EPOCH + Duration::from_secs(2_000_000_000);
    let changed = |content: &str, time: Option<SystemTime>| {
        let old = fs::metadata(pair.copy("file")).unwrap().modified().unwrap();
        fs::write(pair.copy("file"), content).unwrap();
        let file = fs::File::options()
            .write(true)
            .open(pair.copy("file"))
            .unwrap();
        file.set_modified(time.unwrap_or(old)).unwrap();
    };
    let with = |compare| {
        mirroring(Mirror {
            compare,
            ..Mirror::default()
        })
    };
    changed("two", None);
    assert_eq!(pair.mirror(&with(Compare::TimeAndSize)).await.changes(), []);
    assert_eq!(pair.mirror(&with(Compare::Size)).await.changes(), []);
    let told = pair.mirror(&with(Compare::Checksum)).await;
    assert_eq!(told.changes(), [("file", What::Replaced)]);
    // The same content with another time: its time is set, and nothing is copied.
    for compare in [Compare::Checksum, Compare::Size] {
        changed("one", Some(late));
        let told = pair.mirror(&with(compare)).await;
        assert_eq!(told.changes(), [("file", What::Attributes)], "{compare:?}");
        assert_eq!(look(&pair.source("")), look(&pair.copy("")));
    }
    changed("one", Some(late));
    let told = pair.mirror(&with(Compare::TimeAndSize)).await;
    assert_eq!(told.changes(), [("file", What::Replaced)]);
}

#[tokio::test]
async fn no_more_is_removed_than_may_be() {
    let pair = Pair::new();
    pair.write("kept", "kept");
    pair.mirror(&deleting(None)).await;
    fs::create_dir_all(pair.copy("old/dir")).unwrap();
    fs::write(pair.copy("old/dir/file"), "old").unwrap();
    let names = || {
        look(&pair.copy(""))
            .into_iter()
            .map(|found| found.0)
            .collect::<Vec<_>>()
    };
    let before = names();
    // Two directories and a file.
    let told = pair.mirror(&deleting(Some(2))).await;
    assert!(
        matches!(told.failed[..], [TransferError::NotRemoved { .. }]),
        "{:?}",
        told.failed
    );
    assert_eq!(names(), before);
    let dry = Options {
        dry_run: true,
        ..deleting(Some(3))
    };
    let told = pair.mirror(&dry).await;
    assert_eq!((told.figures.removed, told.figures.failed), (3, 0));
    assert_eq!(names(), before);
    let told = pair.mirror(&deleting(Some(3))).await;
    assert_eq!((told.figures.removed, told.figures.failed), (3, 0));
    assert_eq!(look(&pair.source("")), look(&pair.copy("")));
}

#[tokio::test]
async fn nothing_is_removed_when_something_failed() {
    let pair = Pair::new();
    pair.write("good", "good");
    pair.write("bad", "bad");
    pair.mirror(&deleting(None)).await;
    fs::write(pair.copy("stray"), "stray").unwrap();
    // A directory stands where no file may replace it, for nothing may be removed first.
    pair.write("bad", "another");
    fs::remove_file(pair.copy("bad")).unwrap();
    fs::create_dir_all(pair.copy("bad/full")).unwrap();
    let told = pair.mirror(&deleting(Some(1))).await;
    assert_eq!(told.figures.failed, 2, "{:?}", told.failed);
    assert!(
        told.failed
            .iter()
            .all(|error| matches!(error, TransferError::NotRemoved { .. }))
    );
    assert!(pair.copy("stray").exists() && pair.copy("bad/full").exists());
    // With leave to remove as many, the directory makes way.
    let told = pair.mirror(&deleting(None)).await;
    assert_eq!(told.figures.failed, 0, "{:?}", told.failed);
    assert_eq!(look(&pair.source("")), look(&pair.copy("")));
    // The other way round.
    fs::remove_file(pair.source("good")).unwrap();
    pair.write("good/inner", "inner");
    let told = pair.mirror(&deleting(None)).await;
    assert_eq!(told.figures.failed, 0, "{:?}", told.failed);
    assert_eq!(look(&pair.source("")), look(&pair.copy("")));
}

#[tokio::test]
async fn what_is_left_out_stays_on_both_sides() {
    let pair = Pair::new();
    pair.write("a", "a");
    pair.write("cache/x", "x");
    fs::create_dir_all(pair.copy("cache")).unwrap();
    fs::write(pair.copy("cache/theirs"), "theirs").unwrap();
    fs::write(pair.copy("other"), "other").unwrap();
    let options = Options {
        filter: Filter {
            exclude: vec!["cache/".parse().unwrap()],
            include: Vec::new(),
        },
        ..deleting(None)
    };
    let told = pair.mirror(&options).await;
    assert_eq!(
        told.changes(),
        [("a", What::Copied), ("other", What::Removed)]
    );
    assert!(pair.copy("cache/theirs").exists() && !pair.copy("cache/x").exists());
}

#[tokio::test]
async fn a_list_restricts_what_is_copied_and_removed() {
    let pair = Pair::new();
    pair.write("a/listed", "1");
    pair.write("a/other", "2");
    pair.write("b/below/deep", "3");
    pair.write("c", "4");
    fs::create_dir_all(pair.copy("b/below")).unwrap();
    fs::write(pair.copy("b/below/stray"), "stray").unwrap();
    fs::write(pair.copy("stray"), "stray").unwrap();
    let options = Options {
        only: ["a/listed", "b/below/"]
            .map(|path| path.as_bytes().to_vec())
            .to_vec(),
        ..deleting(None)
    };
    let told = pair.mirror(&options).await;
    assert_eq!(told.figures.failed, 0, "{:?}", told.failed);
    let changes = told.changes();
    let expected = [
        ("a", What::Directory),
        ("a/listed", What::Copied),
        ("b/below/deep", What::Copied),
        ("b/below/stray", What::Removed),
    ];
    assert_eq!(changes, expected);
    let missing = Options {
        only: vec![b"nowhere".to_vec()],
        ..deleting(None)
    };
    let told = pair.mirror(&missing).await;
    assert!(
        matches!(told.failed[0], TransferError::NotThere { .. }),
        "{:?}",
        told.failed
    );
}

#[tokio::test]
async fn a_file_has_its_name_only_when_it_is_complete() {
    let pair = Pair::new();
    let len = 3_000_000;
    pair.write("large", &"n".repeat(len));
    fs::create_dir(pair.copy("")).unwrap();
    fs::write(pair.copy("large"), "old").unwrap();
    let full = pair.fault("large", Errno::NOSPC, u64::MAX);
    let told = pair.mirror(&mirroring(Mirror::default())).await;
    assert_eq!(
        (told.figures.failed, full.hits()),
        (1, 1),
        "{:?}",
        told.failed
    );
    drop(full);
    assert_eq!(fs::read(pair.copy("large")).unwrap(), b"old");
    assert!(pair.copy(&pair.partial_name("large")).exists());
    let told = pair.mirror(&deleting(None)).await;
    assert_eq!(told.figures.failed, 0, "{:?}", told.failed);
    assert_eq!(look(&pair.source("")), look(&pair.copy("")));
}

#[tokio::test]
async fn a_file_that_failed_is_tried_again() {
    let pair = Pair::new();
    pair.write("file", "content");
    let options = Options {
        retries: 1,
        ..mirroring(Mirror::default())
    };
    let once = pair.fault("file", Errno::IO, 1);
    let told = pair.mirror(&options).await;
    assert_eq!(
        (told.figures.failed, once.hits()),
        (0, 1),
        "{:?}",
        told.failed
    );
    assert_eq!(look(&pair.source("")), look(&pair.copy("")));
}
